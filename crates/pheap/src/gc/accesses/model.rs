//! Accesses in a model: threads begin them while another thread ends them.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use loom::thread;

use super::Accesses;
use crate::sync::AtomicBool;
use crate::sync::model::explore;

/// No access sees a store that follows `close_and_wait`, and `close_and_wait` returns.
#[test]
fn nobody_looks_after_the_end() {
    fn program() {
        let region = Arc::new((Accesses::default(), AtomicBool::new(true)));
        let reader = |(accesses, memory): &(Accesses, AtomicBool)| {
            if let Some(_access) = accesses.begin_access() {
                assert!(memory.load(Relaxed));
            }
        };
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let region = region.clone();
                thread::spawn(move || reader(&region))
            })
            .collect();
        region.0.close_and_wait();
        region.1.store(false, Relaxed);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    }
    explore("accesses", 3, program);
}
