//! An attribute macro that stands below the derive has changed the fields since that saw them.

use pheap::{P, Persist};
use pheap_test_macros::replace;

#[derive(Persist)]
#[replace(u64, u64, tag: &'static str)]
#[repr(C)]
struct Added {
    x: u64,
}

#[derive(Persist)]
#[replace(u64, &'static u64)]
#[repr(C)]
struct Referring {
    x: u64,
}

#[derive(Persist)]
#[replace(u64, [u64])]
#[repr(C)]
struct Pointing<'r, T> {
    x: P<'r, u64>,
    y: T,
}

#[derive(Persist)]
#[replace(u32, T)]
#[repr(C)]
struct Generic<T>(u32, [T; 0]);

#[derive(Persist)]
#[replace(Second, Second, Third(String))]
#[repr(u8)]
enum MoreVariants {
    First,
    Second,
}

#[derive(Persist)]
#[replace(u64, u64, String)]
#[repr(u8)]
enum MoreFields {
    First(u64),
}

fn main() {}
