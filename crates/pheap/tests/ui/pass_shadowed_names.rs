//! What the macros write means pheap and the core library, whatever these names are in the crate that they write it for.
#![forbid(unsafe_code)]
#![allow(non_camel_case_types, unused_macros, unused_macro_rules, dead_code)]

extern crate self as core;
extern crate self as alloc;

use pheap::{Heap, P, Persist, Root, Txn, txn};

macro_rules! hidden {
    ($($name:ident)*) => { $(macro_rules! $name { ($d:tt) => { compile_error!("shadowed") }; })* };
}
hidden!(unreachable matches stringify concat addr_of offset_of size_of place place_ahead persist_struct persist_enum);

mod shadow {
    use pheap::{P, Persist};

    type u8 = ();
    type u16 = u128;
    type u32 = ();
    type i128 = ();
    type usize = ();
    type bool = ();
    struct Option;
    struct Result;
    struct Some;
    struct Ok;
    struct Slot;
    struct Desc;
    trait Wrapping {
        fn wrapping_add(&self, _: u64) -> u64 {
            panic!("not this one")
        }
        fn cast(&self) -> u64 {
            panic!("not this one")
        }
    }
    impl<T> Wrapping for T {}

    #[derive(Persist, Clone, Copy)]
    #[repr(u16)]
    pub enum Link<'r> {
        End(u64),
        Next(P<'r, [u64]>),
    }

    #[derive(Persist, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    #[persist(key)]
    #[repr(u8)]
    pub enum Key {
        One,
        Two,
    }
}
use shadow::Link;

#[derive(Persist)]
#[repr(C)]
struct Top<'r> {
    small: u8,
    link: Link<'r>,
    grid: [[u64; 2]; 2],
}

/// A crate of another name, in which other things are.
mod other {
    pub use pheap::*;
    pub struct Txn;
    pub struct P;
}

#[txn(crate = "other")]
fn set<'r>(tx: &mut Txn<'r>, p: P<'r, Top<'r>>, link: Link<'r>) {
    tx[p].link = link;
    tx[p].grid[1][0] = 5;
    tx[p].small += 1;
}

fn main() {
    let heap = Heap::in_memory().unwrap();
    let root: Root<Top> = heap
        .root_or("x", |_| Ok(Top { small: 1, link: Link::End(7), grid: [[0; 2]; 2] }))
        .unwrap();
    let fill = |value: u64| {
        root.txn(|tx, p| {
            for i in 0..50 {
                let numbers = tx.alloc_slice(1000, |_| value)?;
                if value == 0x1111 && i == 0 {
                    set(tx, p, Link::Next(numbers));
                }
            }
            Ok(())
        })
        .unwrap();
        root.collect().unwrap();
    };
    fill(0x1111);
    fill(0x2222);
    root.read(|view, p| {
        let Link::Next(numbers) = view[p].link else { std::panic!("it was set") };
        assert!(view[numbers].iter().all(|&number| number == 0x1111));
        assert_eq!((view[p].small, view[p].grid), (2, [[0, 0], [5, 0]]));
    })
    .unwrap();
    assert!(heap.check().unwrap().is_clean());
}
