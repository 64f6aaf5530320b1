//! Files from elsewhere: with `verify`, bytes that are no value of their type are an error.

use std::fs;
use std::mem::offset_of;
use std::num::{NonZero, NonZeroU64};
use std::path::Path;

use pheap::{
    Durability, Error, Options, P, PDuration, PHashMap, POption, Persist, Result, Root, SharedStr, field,
};

#[derive(Persist)]
#[repr(C)]
struct Values<'r> {
    before: Option<P<'r, str>>,
    number: NonZeroU64,
    maybe: Option<NonZeroU64>,
    option: POption<u32>,
    lasted: PDuration,
    text: SharedStr<'r>,
    after: Option<P<'r, str>>,
    map: PHashMap<'r, SharedStr<'r>, NonZeroU64>,
}

fn options() -> Options {
    Options::new().arena_size(256 << 10).reserve(1 << 28).durability(Durability::Process)
}

/// A file, and where the root lies in it.
fn sample(path: &Path) -> Result<(Vec<u8>, usize)> {
    let heap = options().open(path)?;
    let root: Root<Values> = heap.root_or("values", |tx| {
        let (before, after) = (Some(tx.alloc_str("before")?), Some(tx.alloc_str("after")?));
        let (number, maybe, option) = (NonZeroU64::MIN, NonZero::new(3), Some(4).into());
        let (lasted, text, map) = (PDuration::ZERO, SharedStr::new(tx, "shared")?, PHashMap::new());
        Ok(Values { before, number, maybe, option, lasted, text, after, map })
    })?;
    root.txn(|tx, values| {
        let text = tx[values].text;
        field!(values.map).insert(tx, text, NonZero::<u64>::MAX)?;
        field!(values.map).insert(tx, "own", NonZero::<u64>::MAX)
    })?;
    drop(root);
    heap.close()?;
    let heap = Options::new().read_only(true).open(path)?;
    let at = heap.inspect("values", |object| object.offset())? as usize;
    Ok((fs::read(path).expect("the file can be read"), at))
}

/// What `verify` says of the file when the root object is changed.
fn verdict(change: impl FnOnce(&mut [u8])) -> String {
    let dir = pheap_testkit::tempdir();
    let path = dir.path().join("forged");
    let (mut file, at) = sample(&path).unwrap();
    change(&mut file[at..]);
    fs::write(&path, file).unwrap();
    match options().verify(true).open(&path) {
        Ok(_) => String::new(),
        Err(Error::Corrupt { what }) => what,
        Err(other) => panic!("{other}"),
    }
}

/// The same, when the bytes at a field are these.
fn verdict_on(field: usize, bytes: &[u8]) -> String {
    verdict(|root| root[field..field + bytes.len()].copy_from_slice(bytes))
}

#[test]
fn what_is_no_value_is_refused() {
    assert_eq!(verdict_on(offset_of!(Values<'_>, number), &[7, 0, 0, 0, 0, 0, 0, 0]), "");
    let zero = verdict_on(offset_of!(Values<'_>, number), &[0; 8]);
    assert!(zero.contains("which this number never is"), "{zero}");
    assert_eq!(verdict_on(offset_of!(Values<'_>, maybe), &[0; 8]), "");
    assert_eq!(verdict_on(offset_of!(Values<'_>, option), &[0]), "");
    let tag = verdict_on(offset_of!(Values<'_>, option), &[2]);
    assert!(tag.contains("tag"), "{tag}");
    assert_eq!(verdict_on(offset_of!(Values<'_>, lasted), &[255; 12]), "");
}

/// By which a transaction could write what the keys of a map say.
#[test]
fn a_shared_text_has_no_other_pointers() {
    let text = offset_of!(Values<'_>, text);
    for other in [offset_of!(Values<'_>, before), offset_of!(Values<'_>, after)] {
        let said = verdict(|root| root.copy_within(text..text + 8, other));
        // Which of the two is noticed depends on which pointer is looked at first.
        let noticed = ["what a collection owns", "what others may write"];
        assert!(noticed.iter().any(|what| said.contains(what)), "{said}");
    }
    assert_eq!(verdict(|_| ()), "");
    // Two pointers through which the text may be written, because no pointer has it as a shared text.
    let (before, after) = (offset_of!(Values<'_>, before), offset_of!(Values<'_>, after));
    assert_eq!(verdict(|root| root.copy_within(before..before + 8, after)), "");
}
