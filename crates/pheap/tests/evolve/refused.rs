//! Changes that annotations do not cover, and the errors for them.

use pheap::{Error, P, PHashMap, PVec, Persist, Spare};
use pheap_testkit::*;

/// Opens a root of one type as another one. Returns the advice of the error.
fn help<A: Persist + Default, B: Persist + Default>() -> String {
    let heap = small().in_memory().unwrap();
    drop(heap.root::<A>("it").unwrap());
    let error = heap.root::<B>("it").expect_err("another type");
    assert!(matches!(error, Error::TypeMismatch { .. }), "{error}");
    heap.existing_root::<A>("it").unwrap();
    assert!(heap.check().unwrap().is_clean());
    let text = error.to_string();
    let (_, help) = text.split_once("\n  help: ").unwrap_or_else(|| panic!("no help in {text}"));
    help.to_owned()
}

macro_rules! versions {
    ($(#[$test:ident] $name:ident: $old:item => $new:item: $help:literal;)*) => {$(
        #[$test]
        fn $name() {
            mod old {
                #[allow(unused_imports)]
                use super::*;
                #[derive(Persist, Default)]
                $old
            }
            mod new {
                #[allow(unused_imports)]
                use super::*;
                #[derive(Persist, Default)]
                $new
            }
            // Somewhere in the middle, too.
            let texts = [
                help::<old::T, new::T>(),
                help::<PHashMap<u64, PVec<P<old::T>>>, PHashMap<u64, PVec<P<new::T>>>>(),
                help::<[Option<P<[old::T]>>; 2], [Option<P<[new::T]>>; 2]>(),
            ];
            for text in texts {
                assert!(text.contains($help), "{text}");
            }
        }
    )*};
}

versions! {
    #[test] a_new_field: #[repr(C)] pub(crate) struct T { a: u32, spare: Spare<4> } => #[repr(C)] pub(crate) struct T { a: u32, b: u32 }:
        "in `T`: field `b` is in the program only; `#[persist(was = \"..\")]` on it if that is its old name, `#[persist(since = 2)]` if it is new";
    #[test] another_name: #[repr(C)] pub(crate) struct T { a: u32, b: u32 } => #[repr(C)] pub(crate) struct T { a: u32, c: u32 }:
        "field `c` is in the program only; `#[persist(was = \"b\")]` on it if that is its old name";
    #[test] two_earlier_names: #[repr(C)] pub(crate) struct T { a: u32, b: u32 } => #[repr(C)] pub(crate) struct T { #[persist(was = "b", was = "a")] c: u32, s: Spare<4> }:
        "in `T`: field `c` was `a` or `b`, and the heap has both; keep `was` for the one that became this field";
    #[test] a_field_that_does_not_fit: #[repr(C)] pub(crate) struct T { a: u64, b: u32 } => #[repr(C)] pub(crate) struct T { a: u64, b: u32, #[persist(since = 2)] c: u32 }:
        "the program's annotations cover this, and objects have to be converted: `heap.evolve::<";
    #[test] a_field_half_in_spare: #[repr(C)] pub(crate) struct T { a: u32, s: Spare<4>, b: u64 } => #[repr(C)] pub(crate) struct T { a: u32, #[persist(since = 2)] c: [u8; 5], b: u64 }:
        "the program's annotations cover this, and objects have to be converted: `heap.evolve::<";
    #[test] a_field_that_cannot_be_zero: #[repr(C)] pub(crate) struct T { s: Spare<4> } => #[repr(C)] pub(crate) struct T { #[persist(since = 2)] c: super::One }:
        "field `c` is new, and cannot be zero";
    #[test] a_field_that_is_gone: #[repr(C)] pub(crate) struct T { a: u32, b: u32 } => #[repr(C)] pub(crate) struct T { a: u32, s: Spare<4> }:
        "field `b` is in the heap only; if it was renamed, put `#[persist(was = \"b\")]` on the field with the new name; if it was removed, put `#[persist(removed = \"b\")]` on the type (or variant)";
    #[test] a_field_without_successor: #[repr(C)] pub(crate) struct T { a: u64, b: [u64; 0] } => #[repr(C)] pub(crate) struct T { a: u64 }:
        "field `b` is in the heap only; if it was renamed, put `#[persist(was = \"b\")]`";
    #[test] another_type: #[repr(C)] pub(crate) struct T { a: u32 } => #[repr(C)] pub(crate) struct T { a: i32 }:
        "in `T`, `a`: this is of another type";
    #[test] half_a_version: #[repr(C)] pub(crate) struct T { b: u32, s: Spare<4> } => #[repr(C)] pub(crate) struct T { #[persist(since = 3)] b: u32, #[persist(since = 2)] a: u32 }:
        "field `a`, since version 2, is not in the heap, but `b`, since version 3, is";
    #[test] a_new_variant: #[repr(u8)] pub(crate) enum T { #[default] A } => #[repr(u8)] #[allow(dead_code)] pub(crate) enum T { #[default] A, B }:
        "in `T`: variant `B` is in the program only; `#[persist(since = 2)]` on it if it is new";
    #[test] a_variant_in_front: #[repr(u8)] pub(crate) enum T { #[default] A } => #[repr(u8)] #[allow(dead_code)] pub(crate) enum T { #[persist(since = 2)] B, #[default] A }:
        "variant `B` has the number 0, which is that of `A` in the heap";
    #[test] a_variant_that_is_gone: #[repr(u8)] #[allow(dead_code)] pub(crate) enum T { #[default] A, B } => #[repr(u8)] pub(crate) enum T { #[default] A }:
        "variant `B` is in the heap only";
    #[test] a_larger_variant: #[repr(u8)] pub(crate) enum T { #[default] A } => #[repr(u8)] #[allow(dead_code)] pub(crate) enum T { #[default] A, #[persist(since = 2)] B(u64) }:
        "the program's annotations cover this, and objects have to be converted: `heap.evolve::<";
}

/// Is 1 or nothing.
#[derive(Persist, Default)]
#[repr(u32)]
pub(crate) enum One {
    #[default]
    One = 1,
}

#[test]
fn another_id() {
    mod old {
        use super::*;
        #[derive(Persist, Default)]
        #[persist(id = "shop.order")]
        #[repr(C)]
        pub(crate) struct Order {
            number: u64,
        }
    }
    mod new {
        use super::*;
        #[derive(Persist, Default)]
        #[repr(C)]
        pub(crate) struct Order {
            number: u64,
        }
    }
    let text = help::<PVec<old::Order>, PVec<new::Order>>();
    assert!(
        text.contains("the type is `shop.order` in the heap; `#[persist(was = \"shop.order\")]`"),
        "{text}"
    );
}

/// What stands for something is not taken for what stands for something else.
#[test]
fn other_arguments() {
    #[derive(Persist, Default)]
    #[repr(C)]
    struct Id<T> {
        id: u64,
        of: std::marker::PhantomData<T>,
    }
    let text = help::<Id<u32>, Id<u64>>();
    assert!(
        text.contains("the heap has `Id<u32>`, and the program has this type with other arguments"),
        "{text}"
    );
}

#[test]
fn one_type_does_not_become_two() {
    mod old {
        use super::*;
        #[derive(Persist, Default)]
        #[repr(C)]
        pub(crate) struct Both<'r> {
            a: Option<P<'r, Point>>,
            b: Option<P<'r, Point>>,
        }
        #[derive(Persist, Default)]
        #[repr(C)]
        pub(crate) struct Point {
            x: u64,
        }
    }
    mod new {
        use super::*;
        #[derive(Persist, Default)]
        #[repr(C)]
        pub(crate) struct Both<'r> {
            a: Option<P<'r, Point>>,
            b: Option<P<'r, Other>>,
        }
        #[derive(Persist, Default)]
        #[repr(C)]
        pub(crate) struct Point {
            x: u64,
        }
        #[derive(Persist, Default)]
        #[persist(was = "Point")]
        #[repr(C)]
        pub(crate) struct Other {
            x: u64,
        }
    }
    let text = help::<old::Both, new::Both>();
    assert!(text.contains("`Point` in the heap would become two types"), "{text}");
}
