//! The `macro_rules!` behind the derive are safe whatever they are given: an enum with one variant has the tag
//! that is described.
#![forbid(unsafe_code)]

use pheap::__private::persist_enum;
use pheap::{P, Persist};

#[repr(u8)]
pub enum Only<'r, T: Persist> {
    One(P<'r, T>) = 5,
}

persist_enum! {
    [<'r, T: Persist>] Only ['r '__at] [(type T)] where [], id new "Only" was [] removed [] repr u8 1
    { One as "One" was [] since 0 removed [] = (3) + 0, 2 { 0 0: P<'r, T> as "0" was [] since 0 default [] field } }
}

const TAGGED: [(); 0] = [(); <Only<'static, u64> as pheap::Persist>::PADDED as usize];

fn main() {}
