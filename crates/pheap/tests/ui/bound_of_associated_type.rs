//! A bound is said of the type at any brand, too.

use pheap::Persist;

trait Shape {
    type Side;
}

#[derive(Persist)]
#[repr(C)]
struct Short<T: Shape>(T)
where
    T::Side: Copy;

#[derive(Persist)]
#[repr(C)]
struct Whole<T: Shape>(T)
where
    <T as Shape>::Side: Copy;

fn main() {}
