//! The content of a root, its model, and the steps on both.

use arbitrary::Arbitrary;
use pheap::{P, Persist, Result, Txn, View, txn};
use pheap_fuzz::{Files, range};

use crate::Surroundings;
use crate::ops::Step;

/// A root.
#[derive(Persist, Default)]
#[repr(C)]
pub struct Store<'r> {
    numbers: [u64; 4],
    flag: bool,
    len: u32,
    head: Option<P<'r, Node<'r>>>,
    words: Option<P<'r, [u64]>>,
    cells: Option<P<'r, [Cell]>>,
    text: Option<P<'r, str>>,
}

/// A node of a root's list.
#[derive(Persist)]
#[repr(C)]
pub struct Node<'r> {
    kind: Kind,
    value: u32,
    next: Option<P<'r, Node<'r>>>,
    id: u64,
}

impl Node<'_> {
    pub fn id(&self) -> u64 {
        self.id
    }
}

/// A struct with padding, whose size is not a multiple of 8.
#[derive(Persist, Arbitrary, Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Cell {
    a: u8,
    b: u32,
    c: u16,
}

#[derive(Persist, Arbitrary, Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    Nothing,
    Small(u8),
    Wide { a: u8, b: u64 },
    Letter(char),
}

/// The model of a root.
#[derive(Clone, Debug, Default)]
pub struct Content {
    numbers: [u64; 4],
    flag: bool,
    /// Value, kind and number of each node. The last one is the head of the list.
    nodes: Vec<(u32, Kind, u64)>,
    words: Option<Vec<u64>>,
    cells: Option<Vec<Cell>>,
    text: Option<String>,
}

/// Does a step. A failed step has changed nothing, so a stubborn transaction can continue.
pub fn step<'r>(
    tx: &mut Txn<'r>,
    store: P<'r, Store<'r>>,
    content: &mut Content,
    step: &Step,
    around: &mut Surroundings,
) -> Result<()> {
    match change(tx, store, content, step, around) {
        Err(_) if around.stubborn => Ok(()),
        result => result,
    }
}

#[txn]
fn change<'r>(
    tx: &mut Txn<'r>,
    store: P<'r, Store<'r>>,
    content: &mut Content,
    step: &Step,
    around: &mut Surroundings,
) -> Result<()> {
    match *step {
        Step::SetNumber { at, to } => {
            let at = usize::from(at) % 4;
            tx[store].numbers[at] = to;
            content.numbers[at] = to;
        }
        Step::AddNumber { at, by } => {
            let at = usize::from(at) % 4;
            let sum = content.numbers[at].wrapping_add(by);
            tx[store].numbers[at] ^= content.numbers[at] ^ sum;
            content.numbers[at] = sum;
        }
        Step::SortNumbers => {
            tx[store].numbers.sort_unstable();
            content.numbers.sort_unstable();
        }
        Step::Flag(flag) => {
            tx[store].flag = flag;
            content.flag = flag;
        }
        Step::Push { value, kind } => {
            let id = around.next_id;
            let node = tx.alloc(Node { kind, value, next: tx[store].head, id })?;
            let len = tx[store].len + 1;
            tx[store].head = Some(node);
            tx[store].len = len;
            around.next_id += 1;
            content.nodes.push((value, kind, id));
        }
        Step::Pop => {
            if let Some(node) = tx[store].head {
                tx[store].head = tx[node].next;
                tx[store].len -= 1;
            }
            content.nodes.pop();
        }
        Step::SetNode { at, value } => {
            if let Some((node, i)) = node(tx, store, content, at) {
                tx[node].value = value;
                content.nodes[i].0 = value;
            }
        }
        Step::ReplaceKind { at, kind } => {
            if let Some((node, i)) = node(tx, store, content, at) {
                let node: &mut Node<'_> = &mut tx[node];
                node.kind = kind;
                content.nodes[i].1 = kind;
            }
        }
        Step::NewWords { len, first } => {
            let words: Vec<u64> = (0..u64::from(len % 6000)).map(|i| first.wrapping_add(i)).collect();
            let new = tx.alloc_slice(words.len(), |i| words[i])?;
            tx[store].words = Some(new);
            content.words = Some(words);
        }
        Step::SetWord { at, to } => {
            if let Some((slice, words, at)) = element(tx[store].words, &mut content.words, at) {
                tx[slice][at] = to;
                words[at] = to;
            }
        }
        Step::SetWordAt { at, to } => {
            if let Some((slice, words, at)) = element(tx[store].words, &mut content.words, at) {
                let word = slice.at(tx, at);
                tx[word] = to;
                words[at] = to;
            }
        }
        Step::FillWords { from, to, with } => {
            if let (Some(slice), Some(words)) = (tx[store].words, &mut content.words) {
                let range = range(from, to, words.len());
                tx.slice_mut(slice, range.clone()).fill(with);
                words[range].fill(with);
            }
        }
        Step::SwapWords { a, b } => {
            if let Some((slice, words, a)) = element(tx[store].words, &mut content.words, a) {
                let b = usize::from(b) % words.len();
                tx.swap(slice.at(tx, a), slice.at(tx, b));
                words.swap(a, b);
            }
        }
        Step::SortWords => {
            if let (Some(slice), Some(words)) = (tx[store].words, &mut content.words) {
                tx[slice].sort_unstable_by(|a, b| b.cmp(a));
                words.sort_unstable_by(|a, b| b.cmp(a));
            }
        }
        Step::NewCells(ref cells) => {
            let new = tx.alloc_slice_copy(cells)?;
            tx[store].cells = Some(new);
            content.cells = Some(cells.clone());
        }
        Step::ManyCells { len, cell } => {
            let new = tx.alloc_slice(usize::from(len), |_| cell)?;
            tx[store].cells = Some(new);
            content.cells = Some(vec![cell; usize::from(len)]);
        }
        Step::SetCell { at, to } => {
            if let Some((slice, cells, at)) = element(tx[store].cells, &mut content.cells, at.into()) {
                let cell = slice.at(tx, at);
                tx[cell] = to;
                cells[at] = to;
            }
        }
        Step::SetCellPart { at, to } => {
            if let Some((slice, cells, at)) = element(tx[store].cells, &mut content.cells, at.into()) {
                let cell = slice.at(tx, at);
                let (a, c) = (to as u8, to as u16);
                tx[cell].b = to;
                tx[cell].a = a;
                tx[slice][at].c = c;
                cells[at] = Cell { a, b: to, c };
            }
        }
        Step::CopyCells { from, to, with } => {
            if let (Some(slice), Some(cells)) = (tx[store].cells, &mut content.cells) {
                let range = range(from, to, cells.len());
                tx.slice_mut(slice, range.clone()).fill(with);
                cells[range].fill(with);
            }
        }
        Step::SwapCells { a, b } => {
            if let Some((slice, cells, a)) = element(tx[store].cells, &mut content.cells, a.into()) {
                let b = usize::from(b) % cells.len();
                tx.swap(slice.at(tx, a), slice.at(tx, b));
                cells.swap(a, b);
            }
        }
        Step::NewText(ref text) => {
            let new = tx.alloc_str(text)?;
            tx[store].text = Some(new);
            content.text = Some(text.clone());
        }
        Step::Garbage(len) => {
            tx.alloc_slice(len.into(), |i| i as u8)?;
        }
        Step::Hold(at) => {
            if let Some((node, i)) = node(tx, store, content, at) {
                let held = tx.hold(node);
                assert!(tx.get(&held).is_ok_and(|again| again == node));
                around.held.push((held, content.nodes[i].2));
            }
        }
        Step::Check => assert_equal(tx, store, content),
        Step::Shared => {
            let shared = tx.shared();
            std::thread::scope(|scope| {
                scope.spawn(|| assert_equal_numbers(&shared, store, content));
            });
        }
        Step::Kill => {
            around.files.as_mut().map(Files::copy);
        }
        Step::Nested => {} // `World::one` does this step
    }
    Ok(())
}

/// Returns a node of the list, and its index in the model.
fn node<'r>(
    view: &View<'r>,
    store: P<'r, Store<'r>>,
    content: &Content,
    at: u8,
) -> Option<(P<'r, Node<'r>>, usize)> {
    let len = content.nodes.len();
    let back = usize::from(at).checked_rem(len)?;
    let mut node = view[store].head?;
    for _ in 0..back {
        node = view[node].next.expect("the list is as long as that of the model");
    }
    Some((node, len - 1 - back))
}

/// Returns a slice, its model, and the index of an element, if there are any.
fn element<'r, 'm, T: Persist>(
    slice: Option<P<'r, [T]>>,
    model: &'m mut Option<Vec<T>>,
    at: u16,
) -> Option<(P<'r, [T]>, &'m mut Vec<T>, usize)> {
    let (slice, model) = (slice?, model.as_mut()?);
    let at = usize::from(at).checked_rem(model.len())?;
    Some((slice, model, at))
}

fn assert_equal_numbers<'r>(view: &View<'r>, store: P<'r, Store<'r>>, _: &Content) {
    // `assert_equal` checks the values. This function only reads them, in another thread.
    std::hint::black_box(view[store].numbers);
}

/// Compares a root with its model.
pub fn assert_equal<'r>(view: &View<'r>, store: P<'r, Store<'r>>, content: &Content) {
    let Store { numbers, flag, len, head, words, cells, text } = &view[store];
    assert_eq!((*numbers, *flag), (content.numbers, content.flag));
    assert_eq!(*len as usize, content.nodes.len());
    let mut next = *head;
    for &(value, kind, id) in content.nodes.iter().rev() {
        let node = &view[next.expect("the list is as long as that of the model")];
        assert_eq!((node.value, node.kind, node.id), (value, kind, id));
        next = node.next;
    }
    assert!(next.is_none(), "the list is longer than that of the model");
    assert!(words.map(|words| &view[words]) == content.words.as_deref(), "the words differ");
    assert_eq!(cells.map(|cells| &view[cells]), content.cells.as_deref());
    assert_eq!(text.map(|text| &view[text]), content.text.as_deref());
}
