//! So many types that the type table needs another extent.

use std::cell::Cell;

use pheap::{Heap, Txn};

use super::{Start, crash_everywhere, must_hold, record};
use crate::medium::Medium;
use crate::program::Setting;
use crate::run::options;

/// Fewer words than an extent has.
const EXTENT: usize = 500;

/// Fences after a new extent at which the power fails.
const SOON: u32 = 12;

/// Arrays of so many lengths are as many types.
fn some_types(tx: &mut Txn<'_>, first: bool) -> pheap::Result<()> {
    macro_rules! alloc {
        ($($n:literal)*) => {
            $(tx.alloc([0u64; $n])?;)*
        };
    }
    if first {
        alloc!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32);
        alloc!(33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60);
        alloc!(61 62 63 64 65 66 67 68 69 70 71 72 73 74 75 76 77 78 79 80 81 82 83 84 85 86 87 88);
        alloc!(89 90 91 92 93 94 95 96 97 98 99 100 101 102 103 104 105 106 107 108 109 110 111 112);
    } else {
        alloc!(113 114 115 116);
    }
    Ok(())
}

/// Adds types until the table has another extent, and lets the power fail everywhere.
pub(super) fn explore(start: Start) -> Result<(), String> {
    let open = |medium: &Medium| {
        medium.open(&options(Setting::default(), None)).map_err(|error| format!("opening fails: {error}"))
    };
    let add = |heap: &Heap, first: bool| {
        let root = record(heap, "a")?;
        root.txn(|tx, _| some_types(tx, first)).map_err(|error| error.to_string())
    };
    let medium = Medium::new(start.content.clone());
    let heap = open(&medium)?;
    // Pages that are free, and not zero: whichever is the best fit for the type table.
    let root = record(&heap, "a")?;
    for words in [&[u64::MAX; 2048][..]; 24].into_iter().chain([&[u64::MAX; 900][..]; 24]) {
        root.txn(|tx, _| tx.alloc_slice_copy(words).map(drop)).map_err(|e| e.to_string())?;
    }
    heap.collect().map_err(|error| error.to_string())?;
    drop(root);
    medium.take_points();
    let before = medium.durable();
    add(&heap, true)?;
    medium.acknowledge(1, 1);
    let points = medium.take_points();
    drop(heap);
    let (number, new) = (Cell::new(0u64), Cell::new(0));
    crash_everywhere(
        before,
        &points,
        // A new extent is many words, and what comes soon after may rely on it. Of all else, some points will do: one type is written as the others are.
        |point| {
            number.set(number.get() + 1);
            new.set(if point.pending() > EXTENT { SOON } else { new.get().saturating_sub(1) });
            new.get() > 0 || number.get().is_multiple_of(32)
        },
        |content| {
            let medium = Medium::new(content);
            medium.be_silent();
            let heap = open(&medium)?;
            add(&heap, false)?;
            add(&heap, true)?;
            heap.close().map_err(|error| format!("closing fails: {error}"))?;
            must_hold(medium.end(), &start.state)
        },
    )
}
