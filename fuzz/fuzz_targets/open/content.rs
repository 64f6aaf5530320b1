//! The content of the heaps that are damaged: makes it, changes it, and reads it.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use pheap::{
    P, PBTreeMap, PBTreeSet, PHashMap, PHashSet, PSnapMap, PString, PVec, PVecDeque, Persist, Result, Root,
    Txn, View, field,
};

#[derive(Persist)]
#[repr(C)]
pub struct Node<'r> {
    kind: Kind<'r>,
    next: Option<P<'r, Node<'r>>>,
}

/// An enum. Some of its variants have pointers.
#[derive(Persist)]
#[repr(u8)]
#[allow(dead_code)] // damaged bytes may select any variant
enum Kind<'r> {
    Number(u32),
    Pair { left: u8, right: [u16; 3] },
    Text(P<'r, str>),
    Nodes { letter: char, flag: bool, nodes: [Option<P<'r, Node<'r>>>; 2] } = 77,
}

#[derive(Persist, Default)]
#[repr(C)]
pub struct List<'r> {
    head: Option<P<'r, Node<'r>>>,
    len: u64,
}

#[derive(Persist)]
#[repr(C)]
pub struct Slices<'r> {
    words: P<'r, [u64]>,
    text: P<'r, str>,
    parts: P<'r, [Part<'r>]>,
    /// Pointer into the parts.
    favourite: Option<P<'r, Part<'r>>>,
}

#[derive(Persist)]
#[repr(C)]
struct Part<'r> {
    flag: bool,
    text: Option<P<'r, str>>,
}

/// Collections of each kind. Some collections contain others.
#[derive(Persist, Default)]
#[repr(C)]
pub struct Collections<'r> {
    numbers: PVec<'r, u32>,
    flags: PVec<'r, bool>,
    nodes: PVec<'r, P<'r, u64>>,
    queue: PVecDeque<'r, P<'r, u64>>,
    text: PString<'r>,
    few: PHashMap<'r, u64, u64>,
    hashed: PHashMap<'r, P<'r, str>, P<'r, u64>>,
    in_set: PHashSet<'r, u32>,
    ordered: PBTreeMap<'r, u64, PString<'r>>,
    by_name: PBTreeMap<'r, P<'r, str>, PVec<'r, u16>>,
    ordered_set: PBTreeSet<'r, PString<'r>>,
    versions: PSnapMap<'r, P<'r, str>, P<'r, [u16]>>,
}

impl<'r> List<'r> {
    pub fn push(list: P<'r, Self>, tx: &mut Txn<'r>, i: u32) -> Result<()> {
        let next = tx[list].head;
        let kind = match i % 4 {
            0 => Kind::Number(i),
            1 => Kind::Pair { left: 1, right: [2; 3] },
            2 => Kind::Text(tx.alloc_str("größer")?),
            _ => Kind::Nodes { letter: 'λ', flag: true, nodes: [next, None] },
        };
        let node = tx.alloc(Node { kind, next })?;
        tx[list].head = Some(node);
        tx[list].len += 1;
        Ok(())
    }

    fn pop(list: P<'r, Self>, tx: &mut Txn<'r>) {
        if let Some(node) = tx[list].head {
            tx[list].head = tx[node].next;
        }
    }

    fn read(&self, view: &View<'r>, seen: &mut DefaultHasher) {
        self.len.hash(seen);
        let mut nodes: Vec<P<'r, Node<'r>>> = self.head.into_iter().collect();
        let mut known = HashSet::new();
        while let Some(node) = nodes.pop() {
            // Damaged pointers may form a cycle.
            if !known.insert(node.key()) {
                continue;
            }
            match &view[node].kind {
                Kind::Number(number) => number.hash(seen),
                Kind::Pair { left, right } => (left, right).hash(seen),
                Kind::Text(text) => view[*text].hash(seen),
                Kind::Nodes { letter, flag, nodes: more } => {
                    (letter, flag).hash(seen);
                    nodes.extend(more.iter().flatten());
                }
            }
            nodes.extend(view[node].next);
        }
    }
}

impl<'r> Slices<'r> {
    pub fn new(tx: &mut Txn<'r>, words: u64) -> Result<Slices<'r>> {
        let text = tx.alloc_str("a text")?;
        let parts = tx.alloc_slice(5, |i| Part { flag: i % 2 == 0, text: (i != 3).then_some(text) })?;
        let words = tx.alloc_slice(words as usize, |i| i as u64 % 3)?;
        Ok(Slices { words, text, parts, favourite: Some(parts.at(tx, 3)) })
    }

    pub fn fill(this: P<'r, Self>, tx: &mut Txn<'r>, with: u64) {
        let words = tx[this].words;
        tx.slice_mut(words, ..).fill(with);
        if let Some(part) = tx[this].favourite {
            tx[part].flag ^= true;
        }
    }

    pub fn sum(this: P<'r, Self>, view: &View<'r>) -> u64 {
        view[view[this].words].iter().sum()
    }

    fn read(&self, view: &View<'r>, seen: &mut DefaultHasher) {
        (&view[self.words], &view[self.text]).hash(seen);
        for part in view[self.parts].iter().chain(self.favourite.map(|part| &view[part])) {
            (part.flag, part.text.map(|text| &view[text])).hash(seen);
        }
    }
}

impl<'r> Collections<'r> {
    /// Adds up to `n` elements to each collection, numbered from `first` on.
    pub fn add(all: P<'r, Self>, tx: &mut Txn<'r>, first: u64, n: u64) -> Result<()> {
        for i in first..first + n {
            let (name, number) = (format!("key {}", i * 7 % (first + n)), tx.alloc(i)?);
            field!(all.numbers).push(tx, i as u32)?;
            field!(all.flags).push(tx, i % 3 == 0)?;
            field!(all.nodes).push(tx, number)?;
            field!(all.queue).push_front(tx, number)?;
            field!(all.text).push_str(tx, "√2 ")?;
            if i < 3 {
                field!(all.few).insert(tx, &i, i)?;
            }
            field!(all.hashed).insert(tx, &name, number)?;
            field!(all.in_set).insert(tx, &(i as u32))?;
            let text = PString::from_str(tx, &name)?;
            field!(all.ordered).insert(tx, &i, text)?;
            let numbers = PVec::from_slice(tx, &[i as u16; 3])?;
            field!(all.by_name).insert(tx, &name, numbers)?;
            field!(all.ordered_set).insert(tx, &name)?;
            field!(all.versions).insert(tx, &name, &[i as u16; 3])?;
        }
        Ok(())
    }

    /// Removes up to `n` elements from each collection, from the ends of sequences and from `first` on in
    /// maps and sets.
    pub fn take(all: P<'r, Self>, tx: &mut Txn<'r>, first: u64, n: u64) {
        for i in first..first + n {
            let name = format!("key {i}");
            field!(all.numbers).pop(tx);
            field!(all.flags).pop(tx);
            field!(all.nodes).pop(tx);
            field!(all.queue).pop_back(tx);
            field!(all.text).pop(tx);
            field!(all.few).remove(tx, &i);
            field!(all.hashed).remove(tx, &name);
            field!(all.in_set).remove(tx, &(i as u32));
            field!(all.ordered).remove(tx, &i);
            field!(all.by_name).remove(tx, &name);
            field!(all.ordered_set).remove(tx, &name);
            let _ = field!(all.versions).remove(tx, &name);
        }
    }

    /// Reads all elements, and some of them in several ways.
    fn read(&self, view: &View<'r>, seen: &mut DefaultHasher) {
        let number = |p: &P<'r, u64>| view[*p];
        self.numbers.iter(view).for_each(|n| n.hash(seen));
        self.flags.iter(view).for_each(|flag| flag.hash(seen));
        self.nodes.iter(view).chain(self.queue.iter(view)).map(number).for_each(|n| n.hash(seen));
        self.text.as_str(view).hash(seen);
        // The order of hash tables is not specified, but it stays the same for one heap.
        self.few.iter(view).for_each(|pair| pair.hash(seen));
        self.hashed.iter(view).for_each(|(key, p)| (key, view[*p]).hash(seen));
        self.in_set.iter(view).for_each(|n| n.hash(seen));
        self.ordered.iter(view).for_each(|(key, text)| (key, text.as_str(view)).hash(seen));
        let by_name = self.by_name.iter(view).map(|(key, numbers)| (key, numbers.iter(view)));
        by_name.for_each(|(key, numbers)| (key, numbers.collect::<Vec<_>>()).hash(seen));
        self.ordered_set.iter(view).chain(self.ordered_set.iter(view).rev()).for_each(|key| key.hash(seen));
        self.versions.iter(view).chain(self.versions.iter(view).rev()).for_each(|entry| entry.hash(seen));
        for i in (0..300u64).step_by(7) {
            let name = format!("key {i}");
            self.few.get(view, &i).hash(seen);
            self.hashed.get(view, &name).map(number).hash(seen);
            self.in_set.contains(view, &(i as u32)).hash(seen);
            self.ordered.get(view, &i).map(|text| text.as_str(view)).hash(seen);
            self.by_name.get(view, &name).and_then(|numbers| numbers.get(view, 1)).hash(seen);
            self.ordered_set.contains(view, &name).hash(seen);
            self.versions.get(view, &name).hash(seen);
            self.ordered.range(view, i..i + 5).rev().for_each(|(key, _)| key.hash(seen));
        }
    }
}

/// A root of one of the types that this target knows.
pub enum Known {
    List(Root<List<'static>>),
    Slices(Root<Slices<'static>>),
    Collections(Root<Collections<'static>>),
}

impl Known {
    /// Returns the root of this name, if this target knows its type.
    pub fn find(heap: &pheap::Heap, name: &str) -> Option<Known> {
        let list = heap.existing_root(name).map(Known::List);
        let slices = list.or_else(|_| heap.existing_root(name).map(Known::Slices));
        slices.or_else(|_| heap.existing_root(name).map(Known::Collections)).ok()
    }

    /// Returns a hash of the content of the root.
    pub fn read(&self) -> Result<u64> {
        let mut seen = DefaultHasher::new();
        match self {
            Known::List(root) => root.read(|view, list| view[list].read(view, &mut seen))?,
            Known::Slices(root) => root.read(|view, slices| view[slices].read(view, &mut seen))?,
            Known::Collections(root) => root.read(|view, all| view[all].read(view, &mut seen))?,
        }
        Ok(seen.finish())
    }

    /// Runs a transaction that may allocate and unlink objects.
    pub fn change(&self, by: u8) -> Result<()> {
        match self {
            Known::List(root) => root.txn(|tx, list| {
                List::pop(list, tx);
                (0..u32::from(by % 8)).try_for_each(|i| List::push(list, tx, i))
            }),
            Known::Slices(root) => root.txn(|tx, slices| {
                Slices::fill(slices, tx, by.into());
                let text = tx.alloc_str("another")?;
                tx[slices].text = text;
                Ok(())
            }),
            Known::Collections(root) => root.txn(|tx, all| {
                Collections::take(all, tx, by.into(), 3);
                Collections::add(all, tx, 290, u64::from(by % 16))?;
                Collections::take(all, tx, 0, (by % 32).into());
                Ok(())
            }),
        }
    }
}
