//! Everyday types: types of the standard library that lie in a heap as they are, replacements for those that
//! cannot, and types of other crates.

mod foreign;
mod keys;
mod opened;
mod vacant;

use std::cmp::Reverse;
use std::marker::PhantomData;
use std::num::{NonZero, NonZeroU32, NonZeroU64, Wrapping};
use std::time::{Duration, SystemTime};

use pheap::{
    Error, Heap, P, PBytes, PDuration, POption, PString, PSystemTime, PTuple2, PTuple3, PTuple8, PVec,
    Persist, Result, Root, Txn, field, txn,
};

/// What a newcomer wants to keep.
#[derive(Persist, Default)]
#[repr(C)]
struct Everyday<'r> {
    small: POption<u8>,
    number: POption<u32>,
    wide: POption<i128>,
    float: POption<f64>,
    flag: POption<bool>,
    letter: POption<char>,
    text: POption<PString<'r>>,
    next: POption<P<'r, u64>>,
    pair: PTuple2<u8, f64>,
    deep: POption<PTuple3<bool, POption<u16>, char>>,
    eight: PTuple8<u8, u16, u32, u64, i8, i16, i32, i64>,
    lasted: PDuration,
    created: PSystemTime,
    deleted: POption<PSystemTime>,
    id: Option<NonZeroU64>,
    wrapping: Wrapping<u8>,
    reverse: Reverse<i16>,
    flags: [bool; 5],
    unit: Id<Metres>,
    bytes: PBytes<'r>,
    list: PVec<'r, POption<u32>>,
}

#[derive(Persist, Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
struct Metres(u8);

/// Numbers that are told apart by a type.
#[derive(Persist)]
#[repr(transparent)]
struct Id<T>(u64, PhantomData<T>);

impl<T> Default for Id<T> {
    fn default() -> Self {
        Id(0, PhantomData)
    }
}

#[txn]
fn fill<'r>(tx: &mut Txn<'r>, all: P<'r, Everyday<'r>>, at: SystemTime) -> Result<()> {
    let text = PString::from_str(tx, "text")?;
    let next = tx.alloc(77)?;
    tx[all].small = Some(1).into();
    tx[all].number = Some(2).into();
    tx[all].wide = POption::Some(-3);
    tx[all].float.set(Some(0.5));
    tx[all].flag.set(true);
    tx[all].letter = Some('x').into();
    tx[all].text = POption::Some(text);
    tx[all].next = Some(next).into();
    tx[all].pair = (7, 1.5).into();
    tx[all].pair.0 += 1;
    tx[all].deep = Some((true, Some(5).into(), 'y').into()).into();
    tx[all].eight = (1, 2, 3, 4, -1, -2, -3, -4).into();
    tx[all].lasted = Duration::from_millis(1500).into();
    tx[all].lasted += Duration::from_millis(700);
    tx[all].created = at.into();
    tx[all].deleted = Some(at.into()).into();
    tx[all].id = NonZero::new(9);
    tx[all].wrapping -= 1;
    tx[all].reverse = Reverse(-5);
    tx[all].flags[3] = true;
    tx[all].unit = Id(6, PhantomData);
    field!(all.bytes).extend_from_slice(tx, b"\0\xff")?;
    field!(all.list).extend(tx, [Some(1).into(), None.into()])
}

fn check(root: &Root<Everyday>, at: SystemTime) -> Result<()> {
    root.read(|view, all| {
        let all = &view[all];
        assert_eq!(all.small.get(), Some(1));
        assert_eq!(all.number, Some(2));
        assert_eq!(all.wide.get(), Some(-3));
        assert_eq!(all.float, POption::Some(0.5));
        assert!(matches!(all.flag, POption::Some(true)));
        assert_eq!(all.letter.get(), Some('x'));
        assert_eq!(all.text.as_ref().map(|text| text.as_str(view)), Some("text"));
        assert_eq!(all.next.get().map(|next| view[next]), Some(77));
        assert_eq!(<(u8, f64)>::from(all.pair), (8, 1.5));
        assert_eq!(all.deep, Some((true, POption::Some(5), 'y').into()));
        assert_eq!(all.eight, (1, 2, 3, 4, -1, -2, -3, -4).into());
        assert_eq!(all.lasted, Duration::from_millis(2200));
        assert_eq!(all.created, at);
        assert_eq!(all.deleted.get().map(PSystemTime::get), Some(at));
        assert_eq!(all.id, NonZero::new(9));
        assert_eq!(all.wrapping, Wrapping(255));
        assert_eq!(all.reverse.0, -5);
        assert_eq!(all.flags, [false, false, false, true, false]);
        assert_eq!(all.unit.0, 6);
        assert_eq!(all.bytes.as_slice(view), b"\0\xff");
        assert!(all.list.iter(view).map(POption::get).eq([Some(1), None]));
    })
}

#[test]
fn all_of_it_is_there_when_the_heap_is_opened_again() -> Result<()> {
    let dir = pheap_testkit::tempdir();
    let path = dir.path().join("heap");
    let at = SystemTime::now();
    let heap = Heap::open(&path)?;
    let root: Root<Everyday> = heap.root("all")?;
    root.txn(|tx, all| fill(tx, all, at))?;
    check(&root, at)?;
    let failed = root.txn(|tx, all| {
        tx[all].number.take();
        tx[all].pair.1 = 9.0;
        tx[all].created = PSystemTime::UNIX_EPOCH;
        field!(all.bytes).clear(tx);
        Err::<(), _>(Error::abort("undo"))
    });
    assert!(failed.is_err());
    check(&root, at)?;
    heap.close()?;
    let heap = pheap::Options::new().verify(true).open(&path)?;
    check(&heap.root("all")?, at)?;
    assert!(heap.check()?.problems.is_empty());
    // And tools see what each of them stands for.
    let shown = heap.inspect("all", |object| format!("{:?}", object.value()))?;
    for value in [
        "\"small\": Unsigned(1)",
        "\"wide\": Signed(-3)",
        "\"flag\": Bool(true)",
        "\"text\": Str(\"text\")",
        "\"id\": Unsigned(9)",
        "\"wrapping\": Unsigned(255)",
        "\"reverse\": Signed(-5)",
        "\"bytes\": Bytes([0, 255])",
        "\"list\": List([Unsigned(1), Null])",
    ] {
        assert!(shown.contains(value), "{value} is not in {shown}");
    }
    Ok(())
}

#[test]
fn types_that_differ_are_not_taken_for_each_other() -> Result<()> {
    let heap = Heap::in_memory()?;
    heap.root_or::<NonZeroU32>("number", |_| Ok(NonZero::<u32>::MIN))?;
    heap.root::<POption<u32>>("option")?;
    heap.root::<PDuration>("duration")?;
    heap.root::<Reverse<u64>>("reverse")?;
    assert!(matches!(heap.root::<u32>("number"), Err(Error::TypeMismatch { .. })));
    assert!(matches!(heap.root::<Option<NonZeroU32>>("number"), Err(Error::TypeMismatch { .. })));
    assert!(matches!(heap.root::<POption<i32>>("option"), Err(Error::TypeMismatch { .. })));
    assert!(matches!(heap.root::<PSystemTime>("duration"), Err(Error::TypeMismatch { .. })));
    assert!(matches!(heap.root::<PTuple2<u64, u32>>("duration"), Err(Error::TypeMismatch { .. })));
    assert!(matches!(heap.root::<u64>("reverse"), Err(Error::TypeMismatch { .. })));
    Ok(())
}

#[test]
fn bytes_grow_and_change() -> Result<()> {
    let heap = Heap::in_memory()?;
    let bytes: Root<PBytes> = heap.root("bytes")?;
    bytes.txn(|tx, bytes| {
        bytes.reserve(tx, 10)?;
        bytes.set(tx, b"abcdef")?;
        bytes.push(tx, b'g')?;
        bytes.replace_range(tx, 1..3, b"--+")?;
        bytes.as_mut_slice(tx, ..1)[0] = b'A';
        assert_eq!(bytes.as_slice(tx), b"A--+defg");
        assert_eq!((bytes.pop(tx), bytes.len(tx)), (Some(b'g'), 7));
        bytes.truncate(tx, 2);
        bytes.shrink_to_fit(tx)?;
        assert_eq!((tx[bytes].capacity(tx), tx[bytes].as_slice(tx)), (2, &b"A-"[..]));
        Ok(())
    })
}
