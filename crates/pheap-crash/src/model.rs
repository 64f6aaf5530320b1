//! The oracle: the content of a heap as plain values.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Number of elements of the slice of a root.
pub const SLICE: usize = 34;

/// Content of a root.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct RootState {
    /// A number. In the first layout it is in the first cache line of the root object.
    pub x: u64,
    /// A number. In the first layout it is in another cache line than `x`.
    pub y: u64,
    /// Bytes that share one word.
    pub bytes: [u8; 8],
    /// [`SLICE`] numbers in a separate object.
    pub slice: Vec<u64>,
    /// Many numbers, in an object too large for a redo record.
    pub big: Option<Vec<u64>>,
    /// The values of a linked list.
    pub list: Vec<u64>,
    /// Entries of the hash map.
    pub map: BTreeMap<u64, u64>,
    /// Entries of the ordered map.
    pub tree: BTreeMap<String, u64>,
    /// Entries of the map with versions.
    pub versions: BTreeMap<String, u64>,
    /// Values of the objects that the vector points to.
    pub vec: Vec<u64>,
    /// The string.
    pub text: String,
}

impl RootState {
    /// Returns the content of a new root.
    pub fn new(value: u64) -> RootState {
        RootState { x: value, slice: (0..SLICE as u64).map(|i| value + i).collect(), ..RootState::default() }
    }

    /// Returns the number of objects of the root and of a held list, whose nodes have the values `held`.
    /// Nodes with the same value count as one. The objects that the vector points to count. The buffers and
    /// nodes of collections do not: their number depends on the layout of the collection.
    pub fn objects(&self, held: &[u64]) -> u64 {
        let nodes: BTreeSet<&u64> = self.list.iter().chain(held).collect();
        2 + u64::from(self.big.is_some()) + (nodes.len() + self.vec.len()) as u64
    }

    /// Returns the text of each value by its name. Elements and entries have separate names.
    fn parts(&self) -> BTreeMap<String, String> {
        let RootState { x, y, bytes, slice, big, list, map, tree, versions, vec, text } = self;
        let mut parts = BTreeMap::new();
        let mut add = |name: String, value: &dyn Debug| drop(parts.insert(name, format!("{value:?}")));
        let fields: [(&str, &dyn Debug); 4] = [("x", x), ("y", y), ("bytes", bytes), ("text", text)];
        fields.into_iter().for_each(|(name, value)| add(name.to_owned(), value));
        let big = big.as_deref().unwrap_or_default();
        for (name, list) in [("slice", &slice[..]), ("big", big), ("list", list), ("vec", vec)] {
            list.iter().enumerate().for_each(|(i, value)| add(format!("{name}[{i}]"), value));
        }
        map.iter().for_each(|(key, value)| add(format!("map[{key}]"), value));
        tree.iter().for_each(|(key, value)| add(format!("tree[{key}]"), value));
        versions.iter().for_each(|(key, value)| add(format!("versions[{key}]"), value));
        parts
    }
}

/// Content of a heap.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct State {
    /// Its roots, by name.
    pub roots: BTreeMap<String, RootState>,
}

impl State {
    /// Returns a hash of the state.
    pub fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }

    /// Describes how `found` differs from this state. Lists a few differences of each root.
    pub fn difference(&self, found: &State) -> String {
        let mut text = String::new();
        let names: BTreeSet<&String> = self.roots.keys().chain(found.roots.keys()).collect();
        for name in names {
            let (expected, found) = match (self.roots.get(name), found.roots.get(name)) {
                (Some(expected), Some(found)) => (expected.parts(), found.parts()),
                (Some(_), None) => {
                    text += &format!("  root {name:?} is missing\n");
                    continue;
                }
                _ => {
                    text += &format!("  root {name:?} should not exist\n");
                    continue;
                }
            };
            let parts: BTreeSet<&String> = expected.keys().chain(found.keys()).collect();
            let of =
                |parts: &BTreeMap<String, String>, part| parts.get(part).cloned().unwrap_or("nothing".into());
            for part in parts.into_iter().filter(|part| expected.get(*part) != found.get(*part)).take(12) {
                text +=
                    &format!("  {name}.{part} is {}, should be {}\n", of(&found, part), of(&expected, part));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_names_what_differs() {
        let mut before = State::default();
        before.roots.insert("a".into(), RootState::new(5));
        let mut after = before.clone();
        assert_eq!(before.difference(&after), "");
        assert_eq!(before.digest(), after.digest());
        after.roots.get_mut("a").unwrap().slice[7] = 1;
        after.roots.get_mut("a").unwrap().map.insert(3, 4);
        after.roots.insert("b".into(), RootState::new(6));
        let text = before.difference(&after);
        for part in
            ["a.slice[7] is 1, should be 12", "a.map[3] is 4, should be nothing", "\"b\" should not exist"]
        {
            assert!(text.contains(part), "{text}");
        }
        assert_ne!(before.digest(), after.digest());
    }
}
