// A vector is a slice by its pointer, too.
use pheap::{P, PVec, View};

fn sum<'r>(view: &View<'r>, list: P<'r, PVec<'r, u64>>) -> u64 {
    list.as_slice(view, ..).iter().sum()
}

fn main() {}
