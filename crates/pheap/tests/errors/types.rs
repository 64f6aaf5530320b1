//! Roots of another type.
#![allow(clippy::unit_arg)] // `Ok(tx[p] = 1)` is a transaction in one line

use std::fs;

use pheap::{P, Persist, Result};
use pheap_testkit::*;

/// Makes a root of one type and opens it as another. Returns the text of the error.
fn mismatch<A: Persist + Default, B: Persist + Default>() -> String {
    let dir = tempdir();
    let path = dir.path().join("x");
    let heap = small().open(&path).unwrap();
    heap.root::<A>("it").unwrap();
    let error = heap.existing_root::<B>("it").expect_err("another type").to_string();
    assert_eq!(heap.root::<B>("it").unwrap_err().to_string(), error);
    heap.close().unwrap();
    let before = fs::read(&path).unwrap();
    // In another session: from the file alone.
    let heap = small().read_only(true).open(&path).unwrap();
    assert_eq!(heap.existing_root::<B>("it").unwrap_err().to_string(), error);
    heap.existing_root::<A>("it").unwrap();
    drop(heap);
    assert!(fs::read(&path).unwrap() == before);
    assert!(error.starts_with("root \"it\" holds values of another layout; `Heap::migrate`"), "{error}");
    error
}

fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
}

mod was {
    use super::*;
    #[derive(Persist, Default)]
    #[repr(C)]
    pub(crate) struct Point {
        x: u32,
        y: u32,
    }
    #[derive(Persist, Default)]
    #[repr(C)]
    pub(crate) struct Line<'r> {
        from: Option<P<'r, Point>>,
    }
    #[derive(Persist, Default)]
    #[repr(u8)]
    #[allow(dead_code)] // its layout counts
    pub(crate) enum Shape {
        #[default]
        Empty,
        Circle {
            radius: f64,
        },
    }
    #[derive(Persist, Default)]
    #[repr(C)]
    pub(crate) struct Drawing<'r> {
        shape: Option<P<'r, [Shape]>>,
    }
}

mod renamed {
    use super::*;
    #[derive(Persist, Default)]
    #[repr(C)]
    pub(crate) struct Point {
        x: u32,
        z: u32,
    }
    #[derive(Persist, Default)]
    #[repr(C)]
    pub(crate) struct Line<'r> {
        from: Option<P<'r, Point>>,
    }
}

mod moved {
    use super::*;
    #[derive(Persist, Default)]
    #[repr(C)]
    pub(crate) struct Point {
        y: u32,
        x: u32,
    }
}

mod retyped {
    use super::*;
    #[derive(Persist, Default)]
    #[repr(C)]
    pub(crate) struct Point {
        x: u32,
        y: i32,
    }
    #[derive(Persist, Default)]
    #[repr(u8)]
    #[allow(dead_code)] // its layout counts
    pub(crate) enum Shape {
        #[default]
        Empty,
        Circle {
            radius: f32,
        },
    }
    #[derive(Persist, Default)]
    #[repr(C)]
    pub(crate) struct Drawing<'r> {
        shape: Option<P<'r, [Shape]>>,
    }
    #[derive(Persist, Default)]
    #[repr(C)]
    pub(crate) struct Line<'r> {
        from: Option<P<'r, [Point]>>,
    }
}

mod more {
    use super::*;
    #[derive(Persist, Default)]
    #[repr(C)]
    pub(crate) struct Point {
        x: u32,
        y: u32,
        z: u32,
    }
    #[derive(Persist, Default)]
    #[repr(u8)]
    #[allow(dead_code)] // its layout counts
    pub(crate) enum Shape {
        #[default]
        Empty = 3,
        Circle {
            radius: f64,
        },
    }
}

#[test]
fn a_field_was_renamed() {
    let text = mismatch::<was::Point, renamed::Point>();
    has(
        &text,
        &[
            "in the heap:    Point { x: u32 @0, y: u32 @4 }, 8 bytes",
            "in the program: Point { x: u32 @0, z: u32 @4 }",
        ],
    );
    has(&text, &["field 1 differs: `y: u32` at byte 4 in the heap, `z: u32` at byte 4 in the program"]);
}

#[test]
fn a_field_was_moved() {
    let text = mismatch::<was::Point, moved::Point>();
    has(&text, &["field 0 differs: `x: u32` at byte 0 in the heap, `y: u32` at byte 0 in the program"]);
}

#[test]
fn a_field_was_retyped() {
    let text = mismatch::<was::Point, retyped::Point>();
    has(&text, &["field 1 differs: `y: u32` at byte 4 in the heap, `y: i32` at byte 4 in the program"]);
}

#[test]
fn a_field_was_added_or_taken_away() {
    has(&mismatch::<was::Point, more::Point>(), &["field `z` is in the program only", "8 bytes", "12 bytes"]);
    has(&mismatch::<more::Point, was::Point>(), &["field `z` is in the heap only"]);
}

#[test]
fn the_difference_lies_behind_a_pointer() {
    let text = mismatch::<was::Line, renamed::Line>();
    has(&text, &["in the heap:    Point { x: u32 @0, y: u32 @4 }", "`y: u32`", "`z: u32`"]);
    let text = mismatch::<was::Line, retyped::Line>();
    has(&text, &["Option<P<Point>>", "Option<P<[Point]>>"]);
}

#[test]
fn a_variant_was_changed() {
    let text = mismatch::<was::Shape, retyped::Shape>();
    has(&text, &["Circle = 1 { radius: f64 @8 }", "Circle = 1 { radius: f32 @4 }"]);
    let text = mismatch::<was::Shape, more::Shape>();
    has(&text, &["Empty = 0", "Empty = 3"]);
    let text = mismatch::<was::Drawing, retyped::Drawing>();
    has(&text, &["radius: f64", "radius: f32"]);
}

#[test]
fn primitives_are_not_taken_for_one_another() {
    mismatch::<u64, i64>();
    mismatch::<u64, f64>();
    mismatch::<u32, char>();
    mismatch::<u8, bool>();
    mismatch::<[u64; 2], u128>();
    mismatch::<Option<P<'static, u64>>, Option<P<'static, u32>>>();
    mismatch::<Option<P<'static, u64>>, u64>();
}

#[test]
fn the_same_layout_in_other_words_is_the_same_type() -> Result<()> {
    #[derive(Persist, Default)]
    #[repr(C)]
    struct Point {
        x: u32,
        y: u32,
    }
    let heap = small().in_memory()?;
    heap.root::<was::Point>("p")?;
    let root = heap.root::<Point>("p")?;
    assert_eq!(root.read(|view, p| view[p].x + view[p].y)?, 0);
    Ok(())
}

/// Two types of one name: which one a pointer leads to is a part of the layout.
mod namesakes {
    use pheap::{P, Persist};

    mod a {
        #[derive(pheap::Persist)]
        #[repr(C)]
        pub(crate) struct Node {
            value: u64,
        }
    }
    mod b {
        #[derive(pheap::Persist)]
        #[repr(C)]
        pub(crate) struct Node<'r> {
            value: pheap::P<'r, u64>,
        }
    }
    pub(crate) mod ab {
        use super::*;
        #[derive(Persist, Default)]
        #[repr(C)]
        pub(crate) struct Pair<'r> {
            x: Option<P<'r, a::Node>>,
            y: Option<P<'r, b::Node<'r>>>,
        }
    }
    pub(crate) mod ba {
        use super::*;
        #[derive(Persist, Default)]
        #[repr(C)]
        pub(crate) struct Pair<'r> {
            x: Option<P<'r, b::Node<'r>>>,
            y: Option<P<'r, a::Node>>,
        }
    }
}

#[test]
fn two_types_of_one_name_are_told_apart() {
    let text = mismatch::<namesakes::ab::Pair, namesakes::ba::Pair>();
    has(&text, &["value: u64", "value: P<u64>"]);
}
