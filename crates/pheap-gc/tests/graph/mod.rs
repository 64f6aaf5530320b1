//! A heap of a few objects, and what should be marked of it.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::collections::BTreeSet;

use pheap_gc::Heap;
use pheap_gc::bitmap::Bitmap;
use proptest::collection::vec;
use proptest::prelude::*;

/// Most words that are traced at a time.
const PART: usize = 4;
/// No object lies below.
const FIRST: u64 = 0x1000;
/// How many objects there may be.
const CAPACITY: usize = 1024;

/// Words of an object: pointers, null, or anything else.
#[derive(Clone, Debug, Default)]
struct Object {
    start: u64,
    words: Vec<u64>,
}

/// Objects behind each other, with gaps.
pub(crate) struct Graph {
    objects: Vec<Object>,
    marks: Bitmap,
}

/// An object, and the first word that is not traced yet.
#[derive(Clone, Copy)]
pub(crate) struct Part {
    object: u32,
    word: u32,
}

/// What a word holds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Word {
    Null,
    /// A pointer into an object: the number of it, and of a byte, modulo what there is.
    Object(usize, u64),
    Wild(u64),
}

/// Any word; most are pointers.
pub(crate) fn word() -> impl Strategy<Value = Word> {
    prop_oneof![
        1 => Just(Word::Null),
        6 => (any::<usize>(), any::<u64>()).prop_map(|(object, byte)| Word::Object(object, byte)),
        1 => any::<u64>().prop_map(Word::Wild),
        1 => (0..3 * FIRST).prop_map(Word::Wild),
    ]
}

/// Objects of some words, and roots.
pub(crate) fn shape() -> impl Strategy<Value = (Vec<Vec<Word>>, Vec<Word>)> {
    let words = prop_oneof![4 => vec(word(), 0..4), 1 => vec(word(), 0..40)];
    (vec(words, 1..80), vec(word(), 0..4))
}

impl Graph {
    /// A graph of this shape, and its roots without nulls.
    pub(crate) fn new((shape, roots): &(Vec<Vec<Word>>, Vec<Word>)) -> (Graph, Vec<u64>) {
        let mut graph = Graph { objects: Vec::new(), marks: Bitmap::new(CAPACITY) };
        shape.iter().for_each(|words| graph.place(words.len()));
        for (i, words) in shape.iter().enumerate() {
            graph.objects[i].words = words.iter().map(|&word| graph.pointer(word)).collect();
        }
        let roots = roots.iter().map(|&root| graph.pointer(root)).filter(|&root| root != 0).collect();
        (graph, roots)
    }

    /// Adds an object of nulls. Its last byte is in the gap, so that one without words has an address, too.
    fn place(&mut self, words: usize) {
        let start = self.objects.last().map_or(FIRST, |last| last.start + 8 * last.words.len() as u64 + 16);
        self.objects.push(Object { start, words: vec![0; words] });
    }

    fn pointer(&self, word: Word) -> u64 {
        match word {
            Word::Null => 0,
            Word::Wild(word) => word,
            Word::Object(object, byte) => {
                let object = &self.objects[object % self.objects.len()];
                object.start + byte % (8 * object.words.len() as u64 + 1)
            }
        }
    }

    /// The object that a pointer points into.
    pub(crate) fn find(&self, pointer: u64) -> Option<usize> {
        let i = self.objects.partition_point(|object| object.start <= pointer).checked_sub(1)?;
        let object = &self.objects[i];
        (pointer - object.start <= 8 * object.words.len() as u64).then_some(i)
    }

    /// What can be reached from pointers, by a plain search.
    pub(crate) fn reachable(&self, from: &[u64]) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        let mut stack: Vec<usize> = from.iter().filter_map(|&pointer| self.find(pointer)).collect();
        while let Some(object) = stack.pop() {
            if found.insert(object) {
                stack.extend(self.objects[object].words.iter().filter_map(|&word| self.find(word)));
            }
        }
        found
    }

    pub(crate) fn marked_set(&self) -> BTreeSet<usize> {
        self.marks.ones().collect()
    }

    pub(crate) fn unmark(&self) {
        self.marks.clear();
    }

    /// How many of these objects have words.
    pub(crate) fn with_pointers(&self, objects: &BTreeSet<usize>) -> u64 {
        objects.iter().filter(|&&object| !self.objects[object].words.is_empty()).count() as u64
    }

    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    /// A pointer to the start of an object.
    pub(crate) fn address(&self, object: usize) -> u64 {
        self.objects[object].start
    }

    /// Overwrites a word of an object, and returns the old word. `None` if the object has none.
    pub(crate) fn write(&mut self, object: usize, word: usize, value: u64) -> Option<u64> {
        let words = &mut self.objects[object].words;
        let word = word.checked_rem(words.len())?;
        Some(std::mem::replace(&mut words[word], value))
    }

    /// A new object, marked. `None` if there is no room.
    pub(crate) fn allocate(&mut self, words: Vec<u64>) -> Option<usize> {
        let number = self.objects.len();
        (number < CAPACITY).then(|| {
            self.place(words.len());
            self.objects[number].words = words;
            self.marks.set(number);
            number
        })
    }
}

impl Heap for Graph {
    type Object = Part;

    fn mark(&self, pointer: u64) -> Option<Part> {
        let object = self.find(pointer)?;
        let new = self.marks.set_shared(object);
        (new && !self.objects[object].words.is_empty()).then_some(Part { object: object as u32, word: 0 })
    }

    fn trace(&self, part: Part, found: &mut impl FnMut(u64)) -> Option<Part> {
        let words = &self.objects[part.object as usize].words;
        let end = words.len().min(part.word as usize + PART);
        words[part.word as usize..end].iter().filter(|&&word| word != 0).for_each(|&word| found(word));
        (end < words.len()).then_some(Part { word: end as u32, ..part })
    }

    fn marked(&self, visit: &mut impl FnMut(Part)) {
        for object in self.marks.ones().filter(|&object| !self.objects[object].words.is_empty()) {
            visit(Part { object: object as u32, word: 0 });
        }
    }

    fn size(&self, part: Part) -> usize {
        8 * PART.min(self.objects[part.object as usize].words.len() - part.word as usize)
    }
}
