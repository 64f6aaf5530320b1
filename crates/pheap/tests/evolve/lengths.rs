//! Slices of many lengths and kinds of elements, which are converted and moved.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use pheap::{Durability, Heap, Migrate, Options, P, PVec, Persist, Result, View, field};
use pheap_testkit::*;

/// The number of slices in a value.
const SEEN: usize = 11;

macro_rules! lists {
    ($($(#[$meta:meta])* $name:ident of $all:ident { $($more:ident)? })*) => {$(
        #[derive(Persist, Default)]
        #[repr(C)]
        $(#[$meta])*
        pub(crate) struct $name<'r> {
            pub(crate) all: Option<P<'r, [$all<'r>]>>,
            pub(crate) grown: Option<P<'r, [Grown]>>,
            pub(crate) shrunk: Option<P<'r, [Shrunk]>>,
            pub(crate) bytes: Option<P<'r, [Byte]>>,
            pub(crate) nothing: Option<P<'r, [Nothing]>>,
            pub(crate) void: Option<P<'r, [Void]>>,
            pub(crate) gone: Option<P<'r, [Gone]>>,
            pub(crate) wide: Option<P<'r, [Wide]>>,
            pub(crate) text: Option<P<'r, str>>,
            pub(crate) grown_vec: PVec<'r, Grown>,
            pub(crate) bytes_vec: PVec<'r, Byte>,
            pub(crate) nothing_vec: PVec<'r, Nothing>,
            $(pub(crate) $more: [u64; SEEN],)?
        }
    )*};
}

mod old {
    use super::*;

    persist! {
        struct Top<'r> {
            big: Option<P<'r, [Grown]>>,
            larger: Option<P<'r, [Larger<'r>]>>,
            same: Option<P<'r, [Same<'r>]>>,
        }
        struct Grown { a: u64, }
        struct Shrunk { a: u64, b: [u64; 2], }
        struct Byte { a: u8, }
        struct Nothing {}
        struct Void {}
        struct Gone { a: u64, }
        struct Wide { a: u64, }
    }
    lists! {
        Larger of Larger {}
        Same of Same { room }
    }
}

persist! {
    struct Top<'r> {
        big: Option<P<'r, [Grown]>>,
        larger: Option<P<'r, [Larger<'r>]>>,
        same: Option<P<'r, [Same<'r>]>>,
    }
    struct Grown { a: u64, #[persist(since = 2, default = 7)] b: u64, }
    struct Byte { a: u8, #[persist(since = 2, default = [3; 2])] b: [u8; 2], }
    struct Nothing { a: u64, }
    #[persist(removed = "a")]
    struct Gone {}
}

macro_rules! aligned {
    ($($(#[$meta:meta])* struct $name:ident { $($field:ident: $ty:ty)? })*) => {$(
        #[derive(Persist, Default)]
        #[repr(C, align(16))]
        $(#[$meta])*
        pub(crate) struct $name { $(pub(crate) $field: $ty)? }
    )*};
}
aligned! {
    #[persist(removed = "b")]
    struct Shrunk { a: u64 }
    struct Wide { a: u64 }
    struct Void {}
}

lists! {
    Larger of Larger { seen }
    Same of Same { seen }
    #[persist(id = "Larger")]
    OldLarger of Larger {}
    #[persist(id = "Same")]
    OldSame of Same { room }
}

#[derive(Persist)]
#[repr(C)]
#[persist(id = "Nothing")]
struct OldNothing {}

impl Migrate<OldNothing> for Nothing {
    fn migrate(_: OldNothing) -> Nothing {
        Nothing { a: 5 }
    }
}

fn look<'r, T: Persist>(view: &View<'r>, list: Option<P<'r, [T]>>) -> u64 {
    let list = list.unwrap();
    let len = list.len(view);
    assert_eq!((list.is_empty(view), list.get(view, len)), (len == 0, None));
    if let Some(last) = len.checked_sub(1) {
        assert_eq!(list.get(view, last), Some(list.at(view, last)));
    }
    len as u64
}

macro_rules! seen {
    ($view:expr, $of:expr) => {
        [
            look($view, $of.all),
            look($view, $of.grown),
            look($view, $of.shrunk),
            look($view, $of.bytes),
            look($view, $of.nothing),
            look($view, $of.void),
            look($view, $of.gone),
            look($view, $of.wide),
            $of.text.unwrap().len($view) as u64 + $of.grown_vec.capacity($view) as u64,
            $of.bytes_vec.capacity($view) as u64,
            $of.nothing_vec.capacity($view) as u64,
        ]
    };
}

macro_rules! looks {
    ($($old:ident => $new:ident)*) => {$(
        impl<'r> Migrate<$old<'r>> for $new<'r> {
            fn migrate(old: $old<'r>) -> Self {
                $new {
                    all: old.all,
                    grown: old.grown,
                    shrunk: old.shrunk,
                    bytes: old.bytes,
                    nothing: old.nothing,
                    void: old.void,
                    gone: old.gone,
                    wide: old.wide,
                    text: old.text,
                    grown_vec: old.grown_vec,
                    bytes_vec: old.bytes_vec,
                    nothing_vec: old.nothing_vec,
                    seen: [7; SEEN],
                }
            }
        }
    )*};
}
looks! {
    OldLarger => Larger
    OldSame => Same
}

/// The number of values.
const LOOKERS: usize = 30;

fn len_of(i: usize) -> usize {
    [0, 1, 2, 3, 8, 17, 100, 5000][i % 8] + i / 8 * 8
}

/// Stores slices of many lengths. The first slice has `big` elements.
fn fill(heap: &Heap, big: usize) -> Result<()> {
    heap.root::<old::Top>("top")?.txn(|tx, top| {
        tx[top].big = Some(tx.alloc_slice(big, |i| old::Grown { a: i as u64 })?);
        macro_rules! lookers {
            ($($field:ident: $name:ident { $($more:ident: $value:expr)? })*) => {$({
                let mut made = Vec::new();
                for i in 0..LOOKERS {
                    let (len, word) = (len_of(i), |i: usize| i as u64);
                    made.push(old::$name {
                        all: None,
                        grown: Some(tx.alloc_slice(len, |i| old::Grown { a: word(i) })?),
                        shrunk: Some(tx.alloc_slice(len, |i| old::Shrunk { a: word(i), b: [9; 2] })?),
                        bytes: Some(tx.alloc_slice(len, |i| old::Byte { a: i as u8 })?),
                        nothing: Some(tx.alloc_slice(len, |_| old::Nothing {})?),
                        void: Some(tx.alloc_slice(len, |_| old::Void {})?),
                        gone: Some(tx.alloc_slice(len, |i| old::Gone { a: word(i) })?),
                        wide: Some(tx.alloc_slice(len, |i| old::Wide { a: word(i) })?),
                        text: Some(tx.alloc_str(&"x".repeat(len))?),
                        grown_vec: PVec::from_iter(tx, (0..len).map(|i| old::Grown { a: word(i) }))?,
                        bytes_vec: PVec::from_iter(tx, (0..len).map(|i| old::Byte { a: i as u8 }))?,
                        nothing_vec: PVec::from_iter(tx, (0..len).map(|_| old::Nothing {}))?,
                        $($more: $value,)?
                    });
                }
                let mut made = made.into_iter();
                let all = tx.alloc_slice(LOOKERS, |_| made.next().unwrap())?;
                for i in 0..LOOKERS {
                    let looker = all.at(tx, i);
                    tx[field!(looker.all)] = Some(all);
                }
                tx[top].$field = Some(all);
            })*};
        }
        lookers! { larger: Larger {} same: Same { room: [1; SEEN] } }
        Ok(())
    })
}

/// Asserts that the lengths and the contents are right.
fn holds(heap: &Heap, big: usize) -> Result<()> {
    let report = heap.check()?;
    assert!(report.is_clean(), "{report}");
    heap.existing_root::<Top>("top")?.read(|view, top| {
        let is_grown = |list: &[Grown]| list.iter().zip(0..).all(|(one, i)| (one.a, one.b) == (i, 7));
        let is_byte = |(one, i): (&Byte, usize)| (one.a, one.b) == (i as u8, [3; 2]);
        let top = &view[top];
        assert_eq!(top.big.unwrap().len(view), big);
        assert!(is_grown(&view[top.big.unwrap()]));
        macro_rules! lookers {
            ($($field:ident)*) => {$(
                let all = &view[top.$field.unwrap()];
                assert_eq!(all.len(), LOOKERS);
                for (i, one) in all.iter().enumerate() {
                    let len = len_of(i) as u64;
                    let expected = [LOOKERS as u64, len, len, len, len, len, len, len, 2 * len, len, len];
                    assert_eq!((i, one.seen, seen!(view, one)), (i, [7; SEEN], expected));
                    assert!(is_grown(&view[one.grown.unwrap()]));
                    assert!(view[one.shrunk.unwrap()].iter().zip(0..).all(|(one, i)| one.a == i));
                    assert!(view[one.bytes.unwrap()].iter().zip(0..).all(is_byte));
                    assert!(view[one.nothing.unwrap()].iter().all(|one| one.a == 5));
                    assert!(view[one.wide.unwrap()].iter().zip(0..).all(|(one, i)| one.a == i));
                    assert!(one.bytes_vec.iter(view).zip(0..).all(is_byte));
                    assert!(one.nothing_vec.iter(view).all(|one| one.a == 5));
                }
            )*};
        }
        lookers! { larger same }
    })
}

fn all() -> [Options; 3] {
    let [short, long] = both();
    [short.clone().durability(Durability::Wal), short, long]
}

fn evolve(heap: &Heap, after: impl FnMut()) -> Result<bool> {
    let mut after = after;
    heap.evolve::<Top>("top")
        .with::<OldLarger, Larger>()
        .with::<OldSame, Same>()
        .with::<OldNothing, Nothing>()
        .on_progress(|_| after())
        .run()
}

#[test]
fn in_one_transaction() -> Result<()> {
    for options in all() {
        let heap = options.in_memory()?;
        fill(&heap, 3)?;
        assert!(evolve(&heap, || {})?);
        holds(&heap, 3)?;
    }
    Ok(())
}

/// The slices that have moved are found where an earlier call has left them, though the heap was collected
/// and opened at another address since.
#[test]
fn by_a_call_that_goes_on() -> Result<()> {
    // More than one transaction converts.
    const BIG: usize = 700_000;
    let dir = tempdir();
    for (i, options) in all().into_iter().enumerate() {
        let path = dir.path().join(i.to_string());
        let mut heap = options.clone().base(1 << 44).open(&path)?;
        fill(&heap, BIG)?;
        let mut calls = 1;
        while catch_unwind(AssertUnwindSafe(|| evolve(&heap, || resume_unwind(Box::new("enough"))))).is_err()
        {
            heap.collect()?;
            heap.close()?;
            heap = options.clone().verify(true).base((1 << 44) + (calls << 40)).open(&path)?;
            let report = heap.check()?;
            assert!(report.is_clean(), "{report}");
            calls += 1;
        }
        assert!(calls > 3, "{calls}");
        holds(&heap, BIG)?;
        heap.close()?;
    }
    Ok(())
}
