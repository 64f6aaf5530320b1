//! The collections of a root, and how they are read.
//!
//! A root has them from the first operation on that needs them: it is given a [layout](Store) with them then. So programs that do without have heaps
//! that know nothing of them; their types are many, and each opening reads all types.

use pheap::{P, PBTreeMap, PHashMap, PSnapMap, PString, PVec, Persist, View};

use crate::model::RootState;
use crate::objects::{Places, Record};

/// A root with collections.
#[derive(Persist)]
#[repr(C)]
pub struct Store<'r> {
    /// What each root has.
    pub record: Record<'r>,
    /// The collections.
    pub shelf: Shelf<'r>,
}

/// One collection of each kind. In the vector, and in what the ordered map has for keys, there are pointers, which move between buffers.
#[derive(Persist, Default)]
#[repr(C)]
pub struct Shelf<'r> {
    /// A hash map. Of each number, also the inverse: a bucket with those is too large for a redo record.
    pub map: PHashMap<'r, u64, [u64; 2]>,
    /// An ordered map, the keys of which it owns.
    pub tree: PBTreeMap<'r, P<'r, str>, u64>,
    /// An ordered map with versions.
    pub versions: PSnapMap<'r, P<'r, str>, u64>,
    /// A vector.
    pub vec: PVec<'r, P<'r, Item>>,
    /// A string.
    pub text: PString<'r>,
}

/// What the vector leads to.
#[derive(Persist)]
#[repr(C)]
pub struct Item {
    value: u64,
    /// The value again, inverted.
    check: u64,
}

impl Item {
    /// An item with this value.
    pub fn new(value: u64) -> Item {
        Item { value, check: !value }
    }
}

/// Adds what is on a shelf to what is in its root. The heap must have been [checked](pheap::Heap::check): what lies in collections cannot be
/// looked at before it is followed.
///
/// # Errors
/// What is wrong.
pub(crate) fn read<'r>(
    places: &mut Places,
    name: &str,
    view: &View<'r>,
    shelf: P<'r, Shelf<'r>>,
    state: RootState,
) -> Result<RootState, String> {
    let Shelf { map, tree, versions, vec, text } = &view[shelf];
    let torn = map.iter(view).find(|(_, [value, check])| *check != !value);
    if let Some((key, [value, check])) = torn {
        return Err(format!("{name}.map[{key}] holds {value:#x} and {check:#x}"));
    }
    let entries = map.iter(view).map(|(key, [value, _])| (*key, *value)).collect();
    let sorted: Vec<(&str, u64)> = tree.iter(view).map(|(key, value)| (key, *value)).collect();
    let versioned: Vec<(&str, u64)> = versions.iter(view).map(|(key, value)| (key, *value)).collect();
    let mut items = Vec::new();
    for item in vec.iter(view) {
        places.add(&format!("{name}.vec[{}]", items.len()), *item, size_of::<Item>() as u64)?;
        let Item { value, check } = view[*item];
        if check != !value {
            return Err(format!("{name}.vec[{}] holds {value:#x} and {check:#x}", items.len()));
        }
        items.push(value);
    }
    let state = RootState {
        map: entries,
        tree: sorted.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect(),
        versions: versioned.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect(),
        vec: items,
        text: text.as_str(view).to_owned(),
        ..state
    };
    if state.map.len() != map.len()
        || !state.map.iter().all(|(key, value)| map.get(view, key) == Some(&[*value, !value]))
    {
        return Err(format!("{name}.map, {} long, does not find all of {:?}", map.len(), state.map));
    }
    if state.tree.len() != tree.len()
        || !sorted.is_sorted()
        || !sorted.iter().all(|(key, value)| tree.get(view, key) == Some(value))
    {
        return Err(format!("{name}.tree, {} long, does not find all of {sorted:?}", tree.len()));
    }
    if state.versions.len() != versions.len()
        || !versioned.is_sorted()
        || !versioned.iter().all(|(key, value)| versions.get(view, key) == Some(value))
    {
        return Err(format!("{name}.versions, {} long, does not find all of {versioned:?}", versions.len()));
    }
    Ok(state)
}
