//! An attribute macro that stands below the derive has changed the layout since that saw it.

use pheap::Persist;
use pheap_test_macros::replace;

#[derive(Persist)]
#[replace(C, Rust)]
#[repr(C)]
struct Reordered {
    x: u8,
    y: u64,
    z: u8,
}

#[derive(Persist)]
#[replace(C, C, align(32))]
#[repr(C)]
struct Aligned {
    x: u64,
}

#[derive(Persist)]
#[replace(u16, u8)]
#[repr(u16)]
enum Narrower {
    One(u64),
    Two,
}

#[derive(Persist)]
#[replace(u8, C, u8)]
#[repr(u8)]
enum Apart {
    One(u64),
    Two(bool),
}

#[derive(Persist)]
#[replace(u64, Rust)]
#[repr(u64)]
enum Plain {
    One([u32; 4]),
    Two([u32; 4], bool),
    Three(bool, [u32; 4]),
}

const FIRST: u8 = 1;

#[derive(Persist)]
#[replace(FIRST, 2)]
#[repr(u8)]
enum Renumbered {
    One = FIRST,
    Two = 1 + FIRST,
}

/// An enum with one variant: Rust code need not read its tag.
#[derive(Persist)]
#[replace(FIRST, 2)]
#[repr(u8)]
enum Alone {
    One(u64) = FIRST,
}

fn main() {}
