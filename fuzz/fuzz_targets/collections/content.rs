//! The content of the root, its model, and their comparison.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use pheap::{P, PBTreeMap, PBTreeSet, PHashMap, PHashSet, PSnapMap, PString, PVec, PVecDeque, Persist, View};

/// The root.
#[derive(Persist, Default)]
#[repr(C)]
pub struct All<'r> {
    pub numbers: PVec<'r, u32>,
    pub other: PVec<'r, u32>,
    pub boxes: PVec<'r, P<'r, u64>>,
    pub deque: PVecDeque<'r, u16>,
    pub text: PString<'r>,
    pub names: PHashMap<'r, P<'r, str>, u64>,
    pub lists: PHashMap<'r, u64, PVec<'r, u16>>,
    pub hash_set: PHashSet<'r, u32>,
    pub tree: PBTreeMap<'r, u64, PString<'r>>,
    pub tree_names: PBTreeMap<'r, PString<'r>, u64>,
    pub tree_set: PBTreeSet<'r, u32>,
    pub versions: PSnapMap<'r, P<'r, str>, u64>,
}

/// The model of the root.
#[derive(Clone, Debug, Default)]
pub struct Model {
    pub numbers: Vec<u32>,
    pub boxes: Vec<u64>,
    pub deque: VecDeque<u16>,
    pub text: String,
    pub names: BTreeMap<String, u64>,
    pub lists: BTreeMap<u64, Vec<u16>>,
    pub hash_set: BTreeSet<u32>,
    pub tree: BTreeMap<u64, String>,
    pub tree_names: BTreeMap<String, u64>,
    pub tree_set: BTreeSet<u32>,
    pub versions: BTreeMap<String, u64>,
}

/// Returns a key of the maps by name. A third of the keys are long, with a common prefix.
pub fn name(key: u16) -> String {
    match key % 3 {
        0 => format!("{key}"),
        1 => format!("a name that begins like others, {key}"),
        _ => format!("k{key:05}"),
    }
}

/// Compares the root with its model.
pub fn assert_equal<'r>(view: &View<'r>, all: P<'r, All<'r>>, model: &Model) {
    let all = &view[all];
    assert!(all.numbers.iter(view).eq(&model.numbers), "the numbers differ");
    assert_eq!((all.numbers.len(), all.other.len()), (model.numbers.len(), 0));
    assert!(all.numbers.iter(view).rev().eq(model.numbers.iter().rev()));
    assert!(all.boxes.iter(view).map(|&p| view[p]).eq(model.boxes.iter().copied()), "the boxes differ");
    assert!(all.deque.iter(view).eq(&model.deque), "the queues differ");
    assert_eq!((all.deque.front(view), all.deque.back(view)), (model.deque.front(), model.deque.back()));
    assert_eq!(all.text.as_str(view), model.text);

    assert_eq!(all.names.len(), model.names.len());
    let names: BTreeMap<&str, &u64> = all.names.iter(view).collect();
    assert!(names.iter().map(|(&k, &v)| (k, v)).eq(model.names.iter().map(|(k, v)| (k.as_str(), v))));
    model.names.iter().for_each(|(key, value)| assert_eq!(all.names.get(view, key), Some(value)));
    assert_eq!(all.lists.len(), model.lists.len());
    for (key, list) in &model.lists {
        let found = all.lists.get(view, key).expect("a key is missing");
        assert!(found.iter(view).eq(list), "the lists of {key} differ");
    }
    assert!(all.lists.keys(view).all(|key| model.lists.contains_key(key)));
    let set: BTreeSet<u32> = all.hash_set.iter(view).copied().collect();
    assert!(set == model.hash_set && all.hash_set.len() == set.len(), "the sets differ");

    assert_eq!((all.tree.len(), all.tree_names.len()), (model.tree.len(), model.tree_names.len()));
    assert!(
        all.tree
            .iter(view)
            .map(|(k, v)| (k, v.as_str(view)))
            .eq(model.tree.iter().map(|(k, v)| (k, v.as_str())))
    );
    assert!(all.tree.keys(view).rev().eq(model.tree.keys().rev()));
    assert!(all.tree_names.iter(view).eq(model.tree_names.iter().map(|(k, v)| (k.as_str(), v))));
    let first = |map: &BTreeMap<String, u64>| map.first_key_value().map(|(_, v)| *v);
    assert_eq!(all.tree_names.first_key_value(view).map(|(_, v)| *v), first(&model.tree_names));
    model.tree_names.iter().for_each(|(key, value)| assert_eq!(all.tree_names.get(view, key), Some(value)));
    assert_eq!(all.versions.len(), model.versions.len());
    assert!(all.versions.iter(view).eq(model.versions.iter().map(|(k, v)| (k.as_str(), v))));
    assert!(all.versions.keys(view).rev().eq(model.versions.keys().rev()));
    model.versions.iter().for_each(|(key, value)| assert_eq!(all.versions.get(view, key), Some(value)));
    assert!(all.tree_set.iter(view).eq(&model.tree_set), "the ordered sets differ");
    assert_eq!(
        (all.tree_set.first(view), all.tree_set.last(view)),
        (model.tree_set.first(), model.tree_set.last())
    );
}
