//! Bounds that the derive says once more, of the type at any brand.

use pheap::{P, Persist};

trait Shape {
    type Side;
}

#[derive(Persist)]
#[repr(C)]
struct Inline<T: for<'a> PartialEq<&'a u8> + Copy + for<'b> PartialOrd<&'b u8>>(T);

#[derive(Persist)]
#[repr(C)]
struct Clause<'r, T>(P<'r, T>)
where
    T: for<'a> PartialEq<&'a u8> + (for<'b> PartialOrd<&'b u8>),
    for<'a> T: PartialEq<&'a u16>;

#[derive(Persist)]
#[repr(C)]
struct Named<T: Shape>(T)
where
    <T as Shape>::Side: Copy;

fn main() {}
