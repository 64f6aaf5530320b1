//! The `macro_rules!` behind the derive are safe whatever they are given. The type at another brand is the same type, also if there are no fields by which that shows;
//! and an enum with one variant has the tag that is described.
#![forbid(unsafe_code)]

use pheap::__private::{persist_enum, persist_struct};
use pheap::{P, Persist};

#[repr(C)]
pub struct Empty;

persist_struct! { [] Empty Empty where [] at '__at [u64; 100], id new "Empty" was [] removed [] [] repr C 1 1 {} }

#[repr(u8)]
pub enum Switch {
    Off,
    On,
}

persist_enum! {
    [] Switch Switch where [] at '__at [u64; 100], id new "Switch" was [] removed [] [] repr u8 1
    { Off as "Off" was [] since 0 removed [] = (0) + 0, 1 {} On as "On" was [] since 0 removed [] = (0) + 1, 1 {} }
}

#[repr(u8)]
pub enum Only<'r, T: Persist> {
    One(P<'r, T>) = 5,
}

persist_enum! {
    [<'r, T: Persist>] Only Only<'r, T> where [] at '__at Only<'__at, T::At<'__at>>, id new "Only" was [] removed [] [] repr u8 1
    { One as "One" was [] since 0 removed [] = (3) + 0, 2 { 0 0: P<'r, T> as "0" was [] since 0 default [] field } }
}

const TAGGED: [(); 0] = [(); <Only<'static, u64> as pheap::Persist>::PADDED as usize];

fn main() {}
