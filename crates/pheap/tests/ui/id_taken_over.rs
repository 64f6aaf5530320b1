//! No type of pheap becomes a type of the program, by whatever macro.
#![forbid(unsafe_code)]

use pheap::P;
use pheap::__private::persist_struct;

#[repr(transparent)]
pub struct Text<'r>(P<'r, str>);

persist_struct! {
    [<'r>] Text ['r '__at] [] where [], id new "Text" was ["pheap::SharedStr"] removed [] repr transparent 1 2
    { 0 0: P<'r, str> as "0" was [] since 1 default [] field }
}

fn main() {}
