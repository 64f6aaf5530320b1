//! A type whose description is so large that the type table needs another extent.

use crate::report::Said;
use pheap::{Heap, P, Persist};

use super::{Start, crash_everywhere, must_hold, record};
use crate::medium::Medium;
use crate::program::Setting;
use crate::run::options;

macro_rules! of_eight {
    ($name:ident, $part:ty) => {
        #[derive(Persist, Default)]
        #[repr(C)]
        #[allow(dead_code, reason = "it is there to be described")]
        struct $name {
            first: $part,
            second: $part,
            third: $part,
            fourth: $part,
            fifth: $part,
            sixth: $part,
            seventh: $part,
            eighth: $part,
        }
    };
}

of_eight!(Leaf, u64);
of_eight!(Branch, Leaf);
of_eight!(Tree, Branch);

/// A small object, so that few other words reach the medium together with the description of its type.
#[derive(Persist, Default)]
#[repr(C)]
struct Garden<'r> {
    tree: Option<P<'r, Tree>>,
}

/// If more words than this are pending at a point, the type table has taken another extent.
const EXTENT: usize = 500;
const NAME: &str = "tree";

/// Creates a root of the type.
fn create(heap: &Heap) -> Result<(), String> {
    heap.root::<Tree>(NAME).map(drop).said()
}

/// Allocates an object that can point to the type, so that the transaction describes it.
fn allocate(heap: &Heap) -> Result<(), String> {
    let root = record(heap, "a")?;
    root.txn(|tx, _| tx.alloc(Garden::default()).map(drop)).said()
}

/// Uses the type for the first time, and cuts the power at each point.
pub(super) fn explore(start: &Start) -> Result<(), String> {
    [create, allocate].into_iter().try_for_each(|first_use| first_used(start, first_use))
}

fn first_used(start: &Start, first_use: fn(&Heap) -> Result<(), String>) -> Result<(), String> {
    let options = options(Setting::default(), None);
    let medium = Medium::new(start.content.clone());
    let heap = medium.opened(&options)?;
    // Leaves free pages that are not zero, so that the type table takes such a page.
    let root = record(&heap, "a")?;
    for words in [&[u64::MAX; 2048][..]; 24].into_iter().chain([&[u64::MAX; 900][..]; 24]) {
        root.txn(|tx, _| tx.alloc_slice_copy(words).map(drop)).said()?;
    }
    heap.collect().said()?;
    drop(root);
    medium.take_points();
    let before = medium.durable();
    first_use(&heap)?;
    medium.acknowledge(1, 1);
    let points = medium.take_points();
    drop(heap);
    if !points.iter().any(|point| point.pending() > EXTENT) {
        return Err("the type table has room for the type".to_owned());
    }
    crash_everywhere(
        before,
        &points,
        |_| true,
        |content| {
            let medium = Medium::new(content);
            medium.be_silent();
            let heap = medium.opened(&options)?;
            create(&heap)?;
            heap.remove_root(NAME).said()?;
            heap.close().map_err(|error| format!("closing fails: {error}"))?;
            must_hold(medium.end(), &start.state)
        },
    )
}
