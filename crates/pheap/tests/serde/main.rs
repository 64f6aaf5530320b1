//! Objects as data of serde's, and back: as serde's own derives represent them.

mod depth;
mod errors;
mod maps;
mod round_trip;
mod types;

use pheap::{Error, Export, Heap, Import, P, Persist, Result, Root};
use serde::Serialize;

/// What a root exports.
fn to_json<T: Persist>(root: &Root<T>) -> String
where
    for<'r> T::At<'r>: Export<'r>,
{
    root.read(|view, p| serde_json::to_string(&view.export(p))).unwrap().unwrap()
}

/// A new root of what a text says.
fn from_json<T: Persist>(heap: &Heap, name: &str, text: &str) -> Result<Root<T>>
where
    for<'r> T::At<'r>: Import<'r>,
{
    heap.root_or(name, |tx| tx.import(&mut serde_json::Deserializer::from_str(text)))
}

/// Returns the error for a text that cannot be imported.
fn refused<T: Persist>(text: &str) -> String
where
    for<'r> T::At<'r>: Import<'r>,
{
    let heap = pheap_testkit::small().in_memory().unwrap();
    match from_json::<T>(&heap, "refused", text) {
        Err(Error::Malformed { what }) => what,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("{text} was imported"),
    }
}

/// Imports what serde's own derive writes, and expects the same to come out.
fn same<T: Persist>(model: &impl Serialize)
where
    for<'r> T::At<'r>: Import<'r> + Export<'r>,
{
    let text = serde_json::to_string(model).unwrap();
    let heap = pheap_testkit::small().in_memory().unwrap();
    let root: Root<T> = from_json(&heap, "same", &text).unwrap();
    assert_eq!(to_json(&root), text);
    assert!(heap.check().unwrap().is_clean());
}

/// Sends the value of a text through a format that does not describe its content, and is not for people.
fn in_postcard<T: Persist>(text: &str, expected: &[u8])
where
    for<'r> T::At<'r>: Import<'r> + Export<'r>,
{
    let heap = pheap_testkit::small().in_memory().unwrap();
    let root: Root<T> = from_json(&heap, "json", text).unwrap();
    let bytes = root.read(|view, p| postcard::to_stdvec(&view.export(p))).unwrap().unwrap();
    assert_eq!(bytes, expected);
    let mut rest = postcard::Deserializer::from_bytes(&bytes);
    let root: Root<T> = heap.root_or("postcard", |tx| tx.import(&mut rest)).unwrap();
    assert_eq!(to_json(&root), text);
    assert!(rest.finalize().unwrap().is_empty());
}

/// A pointer, for signatures.
type Text<'r> = P<'r, str>;
