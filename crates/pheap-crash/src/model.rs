//! The oracle: what a heap holds, as plain values.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Elements of the slice of a root.
pub const SLICE: usize = 34;

/// What a root holds.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct RootState {
    /// A number in the first cache line of the root object.
    pub x: u64,
    /// A number in another one.
    pub y: u64,
    /// The bytes of one word.
    pub bytes: [u8; 8],
    /// [`SLICE`] numbers in an object of their own.
    pub slice: Vec<u64>,
    /// Many numbers, in an object too large for the short path.
    pub big: Option<Vec<u64>>,
    /// The values of a linked list.
    pub list: Vec<u64>,
    /// What a hash map holds.
    pub map: BTreeMap<u64, u64>,
    /// What an ordered map holds.
    pub tree: BTreeMap<String, u64>,
    /// The values of the objects that a vector leads to.
    pub vec: Vec<u64>,
    /// A string.
    pub text: String,
}

impl RootState {
    /// A root as it is created.
    pub fn new(value: u64) -> RootState {
        RootState { x: value, slice: (0..SLICE as u64).map(|i| value + i).collect(), ..RootState::default() }
    }

    /// How many objects that is, with those that a held pointer leads to: nodes with these values. No two nodes have the same one.
    /// What belongs to collections does not count: how they lie in the heap is their own business.
    pub fn objects(&self, held: &[u64]) -> u64 {
        let nodes: BTreeSet<&u64> = self.list.iter().chain(held).collect();
        2 + u64::from(self.big.is_some()) + (nodes.len() + self.vec.len()) as u64
    }
}

/// What a heap holds.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct State {
    /// Its roots, by name.
    pub roots: BTreeMap<String, RootState>,
}

impl State {
    /// A number that tells states apart.
    pub fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }

    /// How `found` differs from this state, field by field.
    pub fn difference(&self, found: &State) -> String {
        let mut text = String::new();
        for (name, expected) in &self.roots {
            match found.roots.get(name) {
                None => text += &format!("  root {name:?} is missing\n"),
                Some(found) => fields(&mut text, name, expected, found),
            }
        }
        for name in found.roots.keys().filter(|name| !self.roots.contains_key(*name)) {
            text += &format!("  root {name:?} should not exist\n");
        }
        text
    }
}

fn fields(text: &mut String, name: &str, expected: &RootState, found: &RootState) {
    let mut field = |what: &str, expected: String, found: String| {
        if expected != found {
            writeln!(text, "  {name}.{what} is {found}, should be {expected}")
                .expect("strings take everything");
        }
    };
    field("x", expected.x.to_string(), found.x.to_string());
    field("y", expected.y.to_string(), found.y.to_string());
    field("bytes", format!("{:?}", expected.bytes), format!("{:?}", found.bytes));
    field("list", format!("{:?}", expected.list), format!("{:?}", found.list));
    field("vec", format!("{:?}", expected.vec), format!("{:?}", found.vec));
    field("text", format!("{:?}", expected.text), format!("{:?}", found.text));
    entries(&mut field, "map", &expected.map, &found.map);
    entries(&mut field, "tree", &expected.tree, &found.tree);
    let length =
        |big: &Option<Vec<u64>>| big.as_ref().map_or("none".to_owned(), |big| format!("{} long", big.len()));
    field("big", length(&expected.big), length(&found.big));
    let slices = [
        ("slice", Some(&expected.slice), Some(&found.slice)),
        ("big", expected.big.as_ref(), found.big.as_ref()),
    ];
    for (what, expected, found) in slices {
        let (Some(expected), Some(found)) = (expected, found) else { continue };
        let different: Vec<usize> =
            (0..expected.len().min(found.len())).filter(|&i| expected[i] != found[i]).collect();
        for &i in different.iter().take(3) {
            field(&format!("{what}[{i}]"), expected[i].to_string(), found[i].to_string());
        }
        if different.len() > 3 {
            let more = format!("{} more elements", different.len() - 3);
            field(what, "as they should".to_owned(), format!("wrong in {more}"));
        }
    }
}

/// Tells how two maps differ: their lengths, and the first entries that are not in both.
fn entries<K: Ord + std::fmt::Debug>(
    field: &mut impl FnMut(&str, String, String),
    name: &str,
    expected: &BTreeMap<K, u64>,
    found: &BTreeMap<K, u64>,
) {
    let length = |map: &BTreeMap<K, u64>| format!("{} long", map.len());
    field(name, length(expected), length(found));
    let keys: BTreeSet<&K> = expected.keys().chain(found.keys()).collect();
    let different = keys.into_iter().filter(|key| expected.get(key) != found.get(key));
    for key in different.take(3) {
        field(
            &format!("{name}[{key:?}]"),
            format!("{:?}", expected.get(key)),
            format!("{:?}", found.get(key)),
        );
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
            ["a.slice[7] is 1, should be 12", "a.map[3] is Some(4), should be None", "\"b\" should not exist"]
        {
            assert!(text.contains(part), "{text}");
        }
        assert_ne!(before.digest(), after.digest());
    }
}
