//! Children of processes that have a heap open.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pheap::sim::{Bug, set_bug};
use pheap::{Durability, Error, Heap, Root};

use super::heaps::{List, length, replace};
use super::{outcome, small};
use pheap_testkit::forks::{LONG, end, ended, fork, in_child, split};
use pheap_testkit::{Rng, tempdir};

fn is_forked<T>(result: pheap::Result<T>) -> bool {
    matches!(result, Err(Error::Forked))
}

/// Uses a heap of the parent in a child. Returns whether the results are as expected.
fn use_there(rng: &mut Rng, heap: &Heap, list: &Root<List<'static>>) -> bool {
    match rng.below(6) {
        0 => is_forked(replace(list, 5)),
        1 => is_forked(length(list)),
        2 => is_forked(heap.root::<u64>("new")) && is_forked(heap.remove_root("new")),
        3 => is_forked(heap.check()) && is_forked(heap.collect()) && is_forked(heap.sync()),
        4 => is_forked(heap.clone().close()),
        _ => {
            drop((heap.stats(), heap.roots(), heap.info(), list.name()));
            true
        }
    }
}

/// Forks at any moment, also within transactions, while other threads use the heap.
pub(super) fn forks(bug: Option<Bug>) -> Result<(), String> {
    let heap = small().collect_least(4096).in_memory().unwrap();
    let (list, other) = (heap.root::<List>("list").unwrap(), heap.root::<List>("other").unwrap());
    let done = AtomicBool::new(false);
    let replaces = || replace(&list, 50).unwrap();
    let looks = || drop((length(&other).unwrap(), replace(&other, 500), heap.stats()));
    let makes = || drop((heap.root::<u64>("new"), heap.remove_root("new"), heap.collect()));
    let works: [&(dyn Fn() + Sync); 3] = [&replaces, &looks, &makes];
    let result = std::thread::scope(|scope| {
        for work in works {
            let done = &done;
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    work();
                }
            });
        }
        let result = (1..=40).try_for_each(|round| {
            set_bug(bug);
            let mut rng = Rng::new(&[round]);
            if round % 2 == 0 {
                return in_child(|| (0..4).all(|_| use_there(&mut rng, &heap, &list)));
            }
            let (mut is_child, mut child) = (false, Ok(()));
            let failed = catch_unwind(AssertUnwindSafe(|| {
                list.txn(|tx, list| {
                    tx[list] = List::default();
                    if round % 4 == 1 {
                        let _ = tx.shared(); // in place, so that a rollback has something to restore
                    }
                    let pid = split();
                    is_child = pid == 0;
                    match round % 3 {
                        0 if is_child => Err(Error::abort("in the child")),
                        // Not by `panic!`: printing its message may have to wait for a lock.
                        1 if is_child => resume_unwind(Box::new("in the child")),
                        _ if is_child => Ok(()),
                        _ => Ok(child = ended(pid)),
                    }
                })
            }));
            if is_child {
                let refused = match round % 3 {
                    0 => matches!(failed, Ok(Err(Error::Aborted(_)))),
                    1 => failed.is_err(),
                    _ => matches!(failed, Ok(Err(Error::Forked))),
                };
                end(refused && use_there(&mut rng, &heap, &list));
            }
            child
        });
        set_bug(None);
        done.store(true, Ordering::Relaxed);
        result
    });
    result?;
    if !heap.check().unwrap().is_clean() {
        return Err("the heap is damaged".to_owned());
    }
    outcome()
}

/// Waits until a file exists, for [`LONG`] at most. Returns whether it exists.
fn comes(file: &Path) -> bool {
    let start = Instant::now();
    while !file.exists() && start.elapsed() < LONG {
        std::thread::sleep(Duration::from_millis(1));
    }
    file.exists()
}

/// Ends a process that has not closed its heap, while its child lives on.
pub(super) fn left_behind(bug: Option<Bug>) -> Result<(), String> {
    for durability in [Durability::Process, Durability::Pmem, Durability::Wal] {
        let folder = tempdir();
        let [path, there, over] = ["a", "there", "over"].map(|name| folder.path().join(name));
        let options = small().durability(durability);
        in_child(|| {
            set_bug(bug);
            let heap = options.open(&path).unwrap();
            heap.root::<u64>("n").unwrap().txn(|tx, n| Ok(tx[n] += 1)).unwrap();
            fork(|| {
                std::fs::write(&there, "").unwrap();
                comes(&over)
            });
            end(true)
        })?;
        // Until the child runs, it may have the file locks of its parent.
        let opened = if comes(&there) { options.open(&path).map(drop) } else { Err(Error::Forked) };
        std::fs::write(over, "").unwrap();
        opened.map_err(|error| format!("{durability:?}, with the child of its last user: {error}"))?;
    }
    outcome()
}
