//! A heap takes two types for one only if they are equal at every level. It stores no type that it could not
//! read again.
#![allow(dead_code, non_camel_case_types)] // layouts count, and lengths of names

use std::fs;
use std::path::Path;

use pheap::{Error, Heap, P, PBTreeMap, PHashMap, PVec, PVecDeque, Persist, Result, Root, Value};
use pheap_testkit::*;
use xxhash_rust::xxh3::xxh3_64;

/// The message about opening a root of one type as another one, which is the same in either session.
fn mismatch<A: Persist + Default, B: Persist>() -> String {
    let dir = tempdir();
    let path = dir.path().join("x");
    let heap = small().open(&path).unwrap();
    heap.root::<A>("it").unwrap();
    let error = heap.existing_root::<B>("it").expect_err("another type");
    assert!(matches!(error, Error::TypeMismatch { .. }), "{error}");
    heap.close().unwrap();
    let heap = small().verify(true).open(&path).unwrap();
    assert_eq!(heap.existing_root::<B>("it").unwrap_err().to_string(), error.to_string());
    heap.existing_root::<A>("it").unwrap();
    error.to_string()
}

macro_rules! versions {
    ($name:ident: $($version:ident { $($item:item)* })*) => {
        mod $name {
            $(pub(crate) mod $version {
                #[allow(unused_imports)]
                use pheap::{P, Persist};
                $($item)*
            })*
        }
    };
}

versions! { strides:
    v1 {
        #[derive(Persist, Clone, Copy, Default)]
        #[repr(C)]
        pub(crate) struct Cell<'r> { p: Option<P<'r, [u64]>>, n: u64, m: u64 }
        #[derive(Persist, Default)]
        #[repr(C, align(64))]
        pub(crate) struct Line<'r> { cells: [Cell<'r>; 2] }
        #[derive(Persist, Default)]
        #[repr(C)]
        pub(crate) struct Page<'r> { lines: Option<P<'r, [Line<'r>]>> }
    }
    v2 {
        #[derive(Persist, Clone, Copy, Default)]
        #[repr(C, align(16))]
        pub(crate) struct Cell<'r> { p: Option<P<'r, [u64]>>, n: u64, m: u64 }
        #[derive(Persist, Default)]
        #[repr(C, align(64))]
        pub(crate) struct Line<'r> { cells: [Cell<'r>; 2] }
        #[derive(Persist, Default)]
        #[repr(C)]
        pub(crate) struct Page<'r> { lines: Option<P<'r, [Line<'r>]>> }
    }
}

#[test]
fn a_stride_within_a_type_is_a_part_of_it() {
    use strides::{v1, v2};
    let text = mismatch::<v1::Line, v2::Line>();
    let last = "in `cells[_]`: the sizes or alignments differ: 24 bytes aligned to 8 in the heap, 32 bytes aligned to 16 in the program";
    assert!(text.contains(last), "{text}");
    assert!(mismatch::<v2::Line, v1::Line>().contains("32 bytes aligned to 16 in the heap"));
    // Behind a pointer, in the elements of a slice.
    assert!(mismatch::<v1::Page, v2::Page>().contains("in `[_].cells[_]`: the sizes or alignments differ"));
}

#[test]
fn a_migration_to_another_stride_is_one() -> Result<()> {
    use strides::{v1, v2};
    let heap = Heap::in_memory()?;
    heap.root::<v1::Line>("x")?;
    assert!(!heap.migrate::<v1::Line, v1::Line>("x", |_, _| unreachable!("the same type"))?);
    assert!(heap.migrate::<v1::Line, v2::Line>("x", |_, _| Ok(v2::Line::default()))?);
    heap.existing_root::<v2::Line>("x")?;
    assert!(matches!(heap.existing_root::<v1::Line>("x"), Err(Error::TypeMismatch { .. })));
    Ok(())
}

versions! { nested:
    base {
        #[derive(Persist, Default)] #[repr(C)] pub(crate) struct Inner { a: u32, b: u32 }
        #[derive(Persist, Default)] #[repr(u8)] pub(crate) enum Choice { #[default] No, Yes(Inner) = 3 }
        #[derive(Persist, Default)] #[repr(C)] pub(crate) struct Outer { list: [Choice; 2], end: () }
    }
    renamed_inside {
        #[derive(Persist, Default)] #[repr(C)] pub(crate) struct Inner { a: u32, c: u32 }
        #[derive(Persist, Default)] #[repr(u8)] pub(crate) enum Choice { #[default] No, Yes(Inner) = 3 }
        #[derive(Persist, Default)] #[repr(C)] pub(crate) struct Outer { list: [Choice; 2], end: () }
    }
    wider_tag {
        #[derive(Persist, Default)] #[repr(C)] pub(crate) struct Inner { a: u32, b: u32 }
        #[derive(Persist, Default)] #[repr(i16)] pub(crate) enum Choice { #[default] No, Yes(Inner) = 3 }
        #[derive(Persist, Default)] #[repr(C)] pub(crate) struct Outer { list: [Choice; 2], end: () }
    }
    other_tag {
        #[derive(Persist, Default)] #[repr(C)] pub(crate) struct Inner { a: u32, b: u32 }
        #[derive(Persist, Default)] #[repr(u8)] pub(crate) enum Choice { #[default] No, Yes(Inner) = 4 }
        #[derive(Persist, Default)] #[repr(C)] pub(crate) struct Outer { list: [Choice; 2], end: () }
    }
    other_id {
        #[derive(Persist, Default)] #[repr(C)] #[persist(id = "Within")] pub(crate) struct Inner { a: u32, b: u32 }
        #[derive(Persist, Default)] #[repr(u8)] pub(crate) enum Choice { #[default] No, Yes(Inner) = 3 }
        #[derive(Persist, Default)] #[repr(C)] pub(crate) struct Outer { list: [Choice; 2], end: () }
    }
    over_aligned {
        #[derive(Persist, Default)] #[repr(C)] pub(crate) struct Inner { a: u32, b: u32 }
        #[derive(Persist, Default)] #[repr(u8, align(8))] pub(crate) enum Choice { #[default] No, Yes(Inner) = 3 }
        #[derive(Persist, Default)] #[repr(C)] pub(crate) struct Outer { list: [Choice; 2], end: () }
    }
    no_bytes {
        #[derive(Persist, Default)] #[repr(C)] pub(crate) struct Inner { a: u32, b: u32 }
        #[derive(Persist, Default)] #[repr(u8)] pub(crate) enum Choice { #[default] No, Yes(Inner) = 3 }
        #[derive(Persist, Default)] #[repr(C)] pub(crate) struct Outer { list: [Choice; 2], end: [(); 1] }
    }
}

#[test]
fn every_level_counts() {
    use nested::*;
    let has = |text: String, part: &str| assert!(text.contains(part), "no {part:?} in:\n{text}");
    has(
        mismatch::<base::Outer, renamed_inside::Outer>(),
        "in `list[_].Yes.0`: field 1 differs: `b: u32` at byte 4 in the heap, `c",
    );
    has(
        mismatch::<base::Outer, wider_tag::Outer>(),
        "in `list[_]`: the types of the tags differ: u8 in the heap, i16 in",
    );
    has(
        mismatch::<base::Outer, other_tag::Outer>(),
        "in `list[_]`: variant 1 differs: `Yes = 3` in the heap, `Yes = 4` in",
    );
    has(
        mismatch::<base::Outer, other_id::Outer>(),
        "in `list[_].Yes.0`: the names differ: `Inner` in the heap, `Within` in",
    );
    has(
        mismatch::<base::Outer, over_aligned::Outer>(),
        "in `list[_]`: the sizes or alignments differ: 12 bytes aligned to 4",
    );
    has(
        mismatch::<base::Outer, no_bytes::Outer>(),
        "field 1 differs: `end: ()` at byte 24 in the heap, `end: [(); 1]`",
    );
    mismatch::<renamed_inside::Outer, base::Outer>();
    mismatch::<over_aligned::Outer, base::Outer>();
}

#[derive(Persist, Default)]
#[repr(C)]
struct Pair<'r> {
    p: Option<P<'r, [u64]>>,
    n: u64,
}

fn text(s: &str) -> Vec<u8> {
    [&[s.len() as u8], s.as_bytes()].concat()
}

/// Makes a heap with a `Pair`, and replaces the layout of `Pair` in its type table. The new bytes may be no
/// longer than the true ones; the checksums are right.
fn forge(path: &Path, new: &[&[u8]]) -> Result<()> {
    let heap = small().open(path)?;
    heap.root_or::<Pair>("x", |tx| Ok(Pair { p: Some(tx.alloc_slice(3, |_| 1)?), n: 0x4141_4141_4140 }))?;
    heap.close()?;
    let name = "Option<P<[u64]>>";
    let old = [&text("Pair")[..], &[16, 8, 35, 2], &text("p"), &[0], &text(name), &[8, 8, 34, 1]].concat();
    let old = [&old[..], &text("n"), &[8], &text("u64"), &[8, 8, 3]].concat();
    replace(path, &old, &new.concat());
    Ok(())
}

/// Replaces `old` by `new` everywhere in the first record of the type table, and makes its checksum right.
/// `new` may be no longer than `old`.
fn replace(path: &Path, old: &[u8], new: &[u8]) {
    let mut file = fs::read(path).unwrap();
    let word = |file: &[u8], at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap());
    let (salt, extent) = (word(&file, 64), word(&file, 17 * 8) as usize);
    let record = extent + 64;
    let len = u32::from_le_bytes(file[record + 8..record + 12].try_into().unwrap()) as usize;
    let mut forged = file[record + 16..record + 16 + len].to_vec();
    let place = |payload: &[u8]| payload.windows(old.len()).position(|w| w == old);
    assert!(place(&forged).is_some(), "it is there");
    while let Some(at) = place(&forged) {
        forged.splice(at..at + old.len(), new.iter().copied());
    }
    assert!(forged.len() <= len);
    forged.resize(len, 0);
    file[record + 16..record + 16 + len].copy_from_slice(&forged);
    let end = record + (16 + len).next_multiple_of(8);
    let sum =
        xxh3_64(&[&file[record + 8..end], &(record as u64).to_le_bytes(), &salt.to_le_bytes()].concat());
    file[record..record + 8].copy_from_slice(&sum.to_le_bytes());
    fs::write(path, file).unwrap();
}

/// Named like a type of pheap, except for the separators.
#[derive(Persist, Default)]
#[repr(C)]
struct Pheap__SharedStr<'r> {
    text: Option<P<'r, Pheap__SharedStr<'r>>>,
}

#[derive(Persist, Default, Clone, Copy)]
#[repr(C)]
struct Pheap__NonZero_u8_ {}

#[derive(Persist)]
#[repr(C)]
struct Many {
    none: [Pheap__NonZero_u8_; 1 << 62],
    n: u64,
}

#[test]
fn a_text_that_leads_to_itself_has_an_end() -> Result<()> {
    let dir = tempdir();
    let path = dir.path().join("x");
    let heap = small().open(&path)?;
    heap.root::<Pheap__SharedStr>("x")?.txn(|tx, text| {
        tx[text].text = Some(text);
        Ok(())
    })?;
    heap.close()?;
    replace(&path, b"Pheap__SharedStr", b"pheap::SharedStr");
    let heap = small().read_only(true).open(&path)?;
    heap.inspect("x", |text| assert!(matches!(text.value(), Value::Invalid(_)), "{:?}", text.value()))?;
    assert!(!heap.check()?.is_clean());
    Ok(())
}

#[test]
fn numbers_without_bytes_are_not_counted() -> Result<()> {
    let dir = tempdir();
    let path = dir.path().join("x");
    let heap = small().open(&path)?;
    heap.root_or::<Many>("x", |_| Ok(Many { none: [Pheap__NonZero_u8_ {}; 1 << 62], n: 0 }))?;
    heap.close()?;
    replace(&path, b"Pheap__NonZero_u8_", b"pheap::NonZero<u8>");
    // It would take years.
    small().verify(true).read_only(true).open(&path)?.check()?;
    Ok(())
}

#[test]
fn a_forged_type_table_is_refused() -> Result<()> {
    let (pair, u64_, n) = (text("Pair"), [&text("u64")[..], &[8, 8, 3]].concat(), text("n"));
    let pointer = |kind| [&text("Option<P<[u64]>>")[..], &[8, 8, kind, 1]].concat();
    let forged: [&[&[u8]]; 9] = [
        // A name with the text of another field in it.
        &[&pair, &[16, 8, 35, 1], &text("p: Option<P<[u64]>> @0, n"), &[8], &u64_],
        // A gap.
        &[&pair, &[16, 8, 35, 1], &n, &[8], &u64_],
        // One more place for the same field.
        &[&pair, &[16, 8, 35, 2], &text("p"), &[8], &pointer(34), &n, &[0], &u64_],
        // Fields upon one another, and outside.
        &[&pair, &[16, 8, 35, 2], &text("p"), &[0], &pointer(34), &n, &[0], &u64_],
        &[&pair, &[16, 8, 35, 2], &text("p"), &[0], &pointer(34), &n, &[16], &u64_],
        // Sizes and alignments that do not follow.
        &[&pair, &[32, 8, 35, 2], &text("p"), &[0], &pointer(34), &n, &[8], &u64_],
        &[&pair, &[16, 4, 35, 2], &text("p"), &[0], &pointer(34), &n, &[8], &u64_],
        // A name that is not that of the type.
        &[&pair, &[16, 8, 35, 2], &text("p"), &[0], &pointer(33), &n, &[8], &u64_],
        &[&pair, &[16, 8, 35, 2], &text("p"), &[0], &text("u64"), &[8, 8, 8], &n, &[8], &u64_],
    ];
    for new in forged {
        let dir = tempdir();
        let path = dir.path().join("x");
        forge(&path, new)?;
        let before = fs::read(&path).unwrap();
        for options in [small(), small().verify(true), small().read_only(true)] {
            let error = options.open(&path).map(drop).expect_err("a forged type");
            assert!(matches!(error, Error::Corrupt { .. }), "{error}");
        }
        assert!(fs::read(&path).unwrap() == before, "the file was touched");
    }
    // A layout that is possible is not that of the program.
    let dir = tempdir();
    let path = dir.path().join("x");
    forge(&path, &[&pair, &[16, 8, 35, 2], &text("p"), &[0], &u64_, &n, &[8], &u64_])?;
    for verify in [false, true] {
        let heap = small().verify(verify).open(&path)?;
        let error = heap.existing_root::<Pair>("x").unwrap_err();
        assert!(matches!(error, Error::TypeMismatch { .. }), "{error}");
    }
    Ok(())
}

type In4<T> = [[[[T; 1]; 1]; 1]; 1];
type In16<T> = In4<In4<In4<In4<T>>>>;
/// 64 arrays, one in another, around a number.
type Deepest = In16<In16<In16<In16<u64>>>>;
type TooDeep = [Deepest; 1];

#[derive(Persist, Default)]
#[repr(C)]
struct Two<T> {
    a: T,
    b: T,
}

type Twice4<T> = Two<Two<Two<Two<T>>>>;
/// A trillion parts, of no bytes at all.
type Endless = Twice4<Twice4<Twice4<Twice4<Twice4<Twice4<Twice4<Twice4<Twice4<Twice4<()>>>>>>>>>>;

#[test]
fn what_could_not_be_read_again_is_not_written() -> Result<()> {
    let dir = tempdir();
    let path = dir.path().join("x");
    {
        let heap = small().open(&path)?;
        let precious: Root<u64> = heap.root("precious")?;
        heap.root::<Deepest>("deepest")?;
        let types = heap.types();
        let refused = |error: Error, what: &str| {
            assert!(
                matches!(error, Error::UnsupportedType { .. }) && error.to_string().contains(what),
                "{error}"
            );
        };
        refused(heap.root::<TooDeep>("x").unwrap_err(), "more than 64 levels deep");
        refused(heap.existing_root::<TooDeep>("precious").unwrap_err(), "more than 64 levels deep");
        refused(
            heap.migrate::<u64, TooDeep>("precious", |_, _| unreachable!()).unwrap_err(),
            "64 levels deep",
        );
        refused(heap.root::<Option<P<TooDeep>>>("x").unwrap_err(), "behind a `P`");
        refused(heap.root::<PVec<Deepest>>("x").unwrap_err(), "64 levels deep");
        refused(heap.root::<Endless>("x").unwrap_err(), "longer than 64 MiB");
        // In a transaction, which goes on.
        precious.txn(|tx, p| {
            refused(tx.alloc(TooDeep::default()).unwrap_err(), "64 levels deep");
            refused(tx.alloc_slice(2, |_| TooDeep::default()).unwrap_err(), "64 levels deep");
            tx[p] = 42;
            Ok(())
        })?;
        assert_eq!(heap.types(), types);
        assert!(heap.check()?.is_clean());
        drop(precious);
        heap.close()?;
    }
    let heap = small().verify(true).open(&path)?;
    assert_eq!(heap.existing_root::<u64>("precious")?.read(|view, p| view[p])?, 42);
    heap.existing_root::<Deepest>("deepest")?;
    assert_eq!(heap.roots().len(), 2);
    Ok(())
}

#[derive(Persist, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
#[persist(key)]
#[repr(C)]
struct Nothing {}

#[derive(Persist, Default)]
#[repr(C)]
struct Nothings<'r> {
    vec: PVec<'r, ()>,
    queue: PVecDeque<'r, Nothing>,
    hashed: PHashMap<'r, u64, ()>,
    hashed_once: PHashMap<'r, Nothing, Nothing>,
    ordered: PBTreeMap<'r, u64, [(); 3]>,
    ordered_once: PBTreeMap<'r, Nothing, ()>,
    slice: Option<P<'r, [()]>>,
}

#[test]
fn elements_without_bytes_are_as_many_as_one_likes() -> Result<()> {
    use pheap::field;
    for room in [1, 100, 1 << 40, usize::MAX / 2, usize::MAX / 2 + 1, usize::MAX - 8] {
        let dir = tempdir();
        let path = dir.path().join("x");
        let heap = small().open(&path)?;
        let root: Root<Nothings> = heap.root("x")?;
        root.txn(|tx, p| {
            field!(p.vec).reserve(tx, room)?;
            field!(p.queue).reserve(tx, room)?;
            for i in 0..20 {
                field!(p.vec).push(tx, ())?;
                field!(p.queue).push_front(tx, Nothing {})?;
                field!(p.queue).push_front(tx, Nothing {})?;
                field!(p.queue).push_back(tx, Nothing {})?;
                field!(p.queue).pop_back(tx);
                field!(p.hashed).insert(tx, &i, ())?;
                field!(p.ordered).insert(tx, &i, [(); 3])?;
            }
            field!(p.queue).pop_front(tx);
            field!(p.hashed_once).insert(tx, &Nothing {}, Nothing {})?;
            field!(p.ordered_once).insert(tx, &Nothing {}, ())?;
            // Room for more than before, and for more than there can be.
            field!(p.vec).reserve(tx, usize::MAX - 25)?;
            field!(p.queue).reserve(tx, usize::MAX - 45)?;
            assert!(matches!(field!(p.vec).reserve(tx, usize::MAX), Err(Error::TooLarge { .. })));
            assert!(matches!(field!(p.queue).reserve(tx, usize::MAX), Err(Error::TooLarge { .. })));
            let slice = tx.alloc_slice(1000, |_| ())?;
            tx[p].slice = Some(slice);
            Ok(())
        })?;
        let look = |root: &Root<Nothings>| {
            root.read(|view, p| {
                let all = &view[p];
                assert_eq!(
                    (all.vec.len(), all.queue.len(), all.hashed.len(), all.ordered.len()),
                    (20, 39, 20, 20)
                );
                assert_eq!((all.hashed_once.len(), all.ordered_once.len()), (1, 1));
                assert_eq!((all.vec.iter(view).count(), all.queue.iter(view).rev().count()), (20, 39));
                assert_eq!(all.slice.map(|slice| view[slice].len()), Some(1000));
            })
        };
        look(&root)?;
        let report = heap.check()?;
        assert!(report.is_clean(), "{room}: {report}");
        heap.inspect("x", |object| assert!(!format!("{object:?}").is_empty()))?;
        drop(root);
        heap.close()?;
        let heap = small().verify(true).open(&path)?;
        let root = heap.existing_root("x")?;
        look(&root)?;
        root.txn(|tx, p| {
            field!(p.vec).shrink_to_fit(tx)?;
            field!(p.queue).shrink_to_fit(tx)?;
            field!(p.queue).push_back(tx, Nothing {})?;
            field!(p.queue).pop_front(tx);
            Ok(())
        })?;
        look(&root)?;
        assert!(heap.check()?.is_clean());
    }
    Ok(())
}

#[allow(non_camel_case_types)]
#[derive(Persist, Default)]
#[repr(C)]
struct r#type<'r> {
    r#fn: u64,
    größe: u32,
    数: [r#move; 2],
    wide: Wide,
    clear: Clear,
    // Never made, but its type is in the type table all the same.
    huge: Option<P<'r, [[u8; 1 << 40]; 1 << 10]>>,
    many: Option<P<'r, [[(); usize::MAX]]>>,
}

#[allow(non_camel_case_types)]
#[derive(Persist, Default)]
#[repr(i128, align(32))]
enum r#move {
    #[default]
    Größer = -1,
    r#Less(u8) = i128::MIN,
    Most = i128::MAX,
}

#[derive(Persist, Default)]
#[repr(C, align(256))]
#[persist(id = "shop/order-2.größe")]
struct Wide {
    u: (),
    small: u8,
    v: [u64; 0],
}

#[derive(Persist, Default)]
#[repr(transparent)]
struct Clear {
    u: (),
    only: u16,
    v: [(); 7],
}

#[test]
fn whatever_can_be_derived_can_be_read() -> Result<()> {
    let dir = tempdir();
    let path = dir.path().join("x");
    let heap = small().open(&path)?;
    heap.root::<r#type>("x")?;
    let types = heap.types();
    assert_eq!(types[0].name, "type");
    assert!(types[0].layout.contains("fn: u64 @0, größe: u32 @8, 数: [move: i128 {"), "{}", types[0].layout);
    assert!(heap.check()?.is_clean());
    heap.close()?;
    let heap = small().verify(true).open(&path)?;
    assert_eq!(heap.types(), types);
    heap.existing_root::<r#type>("x")?;
    assert_eq!(heap.types(), types, "all of them were known");
    Ok(())
}
