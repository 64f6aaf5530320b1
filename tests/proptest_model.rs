//! Random programs, compared with a model: transactions of random operations that are committed, rolled back,
//! or interrupted by a panic, on data of many kinds. The heap is reopened now and then. After each
//! transaction, and also inside some, the heap must hold the same as plain Rust data. One test lets all
//! transactions use the undo log.

use std::ops::Range;
use std::panic::AssertUnwindSafe;

use pheap::{Error, Options, P, Persist, Result, Root, Txn, View, txn};
use proptest::collection::vec;
use proptest::prelude::*;

// --- Data of all kinds -------------------------------------------------------------------------------------

/// Bytes and words at odd places, with padding.
#[derive(Persist, Default, Clone, Copy, PartialEq, Debug)]
#[repr(C)]
struct Odd {
    a: u8,
    bytes: [u8; 7],
    c: u16,
    d: u8,
}

#[derive(Persist, Default, Clone, Copy, PartialEq, Debug)]
#[repr(C)]
struct Inner {
    flag: bool,
    x: f32,
    odd: [Odd; 2],
    sign: char,
    big: u128,
}

#[derive(Persist, Clone, Copy)]
#[repr(u8)]
enum Value<'r> {
    Nothing,
    Number(i64),
    Small { a: u8, b: u16 } = 9,
    Text(P<'r, str>),
    Bytes(P<'r, [u8]>),
    Inner(P<'r, Inner>),
    Nested(Inner),
}

#[derive(Persist)]
#[repr(C)]
struct Item<'r> {
    key: u16,
    value: Value<'r>,
    inner: [Inner; 2],
    next: Option<P<'r, Item<'r>>>,
}

#[derive(Persist, Default)]
#[repr(C)]
struct Data<'r> {
    items: Option<P<'r, Item<'r>>>,
    len: u32,
    bytes: Option<P<'r, [u8]>>,
    odds: Option<P<'r, [Odd]>>,
    words: Option<P<'r, [u64]>>,
}

// --- The model ---------------------------------------------------------------------------------------------

#[derive(Clone, Default, PartialEq, Debug)]
struct Model {
    /// Newest last.
    items: Vec<ModelItem>,
    bytes: Vec<u8>,
    odds: Vec<Odd>,
    words: Vec<u64>,
}

#[derive(Clone, PartialEq, Debug)]
struct ModelItem {
    key: u16,
    value: ModelValue,
    inner: [Inner; 2],
}

#[derive(Clone, PartialEq, Debug)]
enum ModelValue {
    Nothing,
    Number(i64),
    Small(u8, u16),
    Text(String),
    Bytes(Vec<u8>),
    Inner(Inner),
    Nested(Inner),
}

// --- Programs ----------------------------------------------------------------------------------------------

#[derive(Clone, Debug)]
enum Op {
    Push(u16, ModelValue),
    Pop,
    /// Numbers choose an element, modulo the number of elements.
    SetValue(usize, ModelValue),
    SetInner(usize, usize, Inner),
    SetByte(usize, usize, usize, u8),
    SetOdd(usize, Odd),
    /// Changes several fields one after the other.
    SetFields(usize, u16, char, u128),
    /// Swaps both elements of an item's array, through a plain `&mut`.
    SwapInner(usize),
    /// Replaces the slices by new ones of these lengths.
    Slices(usize, usize, usize),
    FillBytes(Range<usize>, u8),
    FillWords(Range<usize>, u64),
    Byte(usize, u8),
    Word(usize, u64),
    /// Sorts through `&mut [T]` of the whole slice.
    SortWords,
    SwapWords(usize, usize),
    SwapOdds(usize, usize),
    /// Compares everything, in the middle of the transaction.
    Check,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum End {
    Commit,
    GiveUp,
    Panic,
}

#[derive(Clone, Debug)]
enum Step {
    Txn(Vec<Op>, End),
    /// `true` calls `close`; else the heap is dropped.
    Reopen(bool),
}

fn odd() -> impl Strategy<Value = Odd> {
    (any::<u8>(), any::<[u8; 7]>(), any::<u16>(), any::<u8>()).prop_map(|(a, bytes, c, d)| Odd {
        a,
        bytes,
        c,
        d,
    })
}

fn inner() -> impl Strategy<Value = Inner> {
    (any::<bool>(), -1e9f32..1e9, odd(), odd(), any::<char>(), any::<u128>())
        .prop_map(|(flag, x, odd, odd2, sign, big)| Inner { flag, x, odd: [odd, odd2], sign, big })
}

fn value() -> impl Strategy<Value = ModelValue> {
    prop_oneof![
        Just(ModelValue::Nothing),
        any::<i64>().prop_map(ModelValue::Number),
        any::<(u8, u16)>().prop_map(|(a, b)| ModelValue::Small(a, b)),
        "\\PC{0,20}".prop_map(ModelValue::Text),
        vec(any::<u8>(), 0..40).prop_map(ModelValue::Bytes),
        inner().prop_map(ModelValue::Inner),
        inner().prop_map(ModelValue::Nested),
    ]
}

fn range() -> impl Strategy<Value = Range<usize>> {
    (any::<usize>(), any::<usize>()).prop_map(|(a, b)| a..b)
}

fn op() -> impl Strategy<Value = Op> {
    let n = any::<usize>;
    prop_oneof![
        4 => (any::<u16>(), value()).prop_map(|(key, value)| Op::Push(key, value)),
        1 => Just(Op::Pop),
        2 => (n(), value()).prop_map(|(i, value)| Op::SetValue(i, value)),
        2 => (n(), 0..2usize, inner()).prop_map(|(i, j, inner)| Op::SetInner(i, j, inner)),
        4 => (n(), 0..2usize, 0..7usize, any::<u8>()).prop_map(|(i, j, k, byte)| Op::SetByte(i, j, k, byte)),
        2 => (n(), odd()).prop_map(|(i, odd)| Op::SetOdd(i, odd)),
        2 => (n(), any::<u16>(), any::<char>(), any::<u128>()).prop_map(|(i, key, c, big)| Op::SetFields(i, key, c, big)),
        1 => n().prop_map(Op::SwapInner),
        1 => (0..3000usize, 0..200usize, 0..700usize).prop_map(|(a, b, c)| Op::Slices(a, b, c)),
        2 => (range(), any::<u8>()).prop_map(|(range, byte)| Op::FillBytes(range, byte)),
        2 => (range(), any::<u64>()).prop_map(|(range, word)| Op::FillWords(range, word)),
        4 => (n(), any::<u8>()).prop_map(|(i, byte)| Op::Byte(i, byte)),
        4 => (n(), any::<u64>()).prop_map(|(i, word)| Op::Word(i, word)),
        1 => Just(Op::SortWords),
        2 => (n(), n()).prop_map(|(i, j)| Op::SwapWords(i, j)),
        2 => (n(), n()).prop_map(|(i, j)| Op::SwapOdds(i, j)),
        2 => Just(Op::Check),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let end = prop_oneof![6 => Just(End::Commit), 2 => Just(End::GiveUp), 1 => Just(End::Panic)];
    // Mostly a few operations, for the path of short transactions; sometimes many.
    let ops = prop_oneof![3 => vec(op(), 0..4), 1 => vec(op(), 4..60)];
    prop_oneof![
        9 => (ops, end).prop_map(|(ops, end)| Step::Txn(ops, end)),
        1 => any::<bool>().prop_map(Step::Reopen),
    ]
}

/// Returns the range between two numbers, within `len`.
fn within(range: &Range<usize>, len: usize) -> Range<usize> {
    let (a, b) = (range.start % (len + 1), range.end % (len + 1));
    a.min(b)..a.max(b)
}

// --- Operations on the model -------------------------------------------------------------------------------

fn filled(bytes: usize, odds: usize, words: usize) -> (Vec<u8>, Vec<Odd>, Vec<u64>) {
    let odd = |i| Odd { a: i as u8, bytes: [i as u8; 7], c: i as u16, d: 1 };
    ((0..bytes).map(|i| i as u8).collect(), (0..odds).map(odd).collect(), (0..words as u64).rev().collect())
}

/// Returns an item by number. The newest has number 0, as in the heap, where it is the first.
fn nth_mut(items: &mut [ModelItem], i: usize) -> Option<&mut ModelItem> {
    let len = items.len();
    items.iter_mut().rev().nth(i % len.max(1))
}

impl Model {
    fn run(&mut self, op: &Op) {
        let Model { items, bytes, odds, words } = self;
        let (all_bytes, all_words) = (bytes.len(), words.len());
        match op {
            Op::Push(key, value) => {
                items.push(ModelItem { key: *key, value: value.clone(), inner: Default::default() });
            }
            Op::Pop => drop(items.pop()),
            Op::SetValue(i, value) => {
                if let Some(item) = nth_mut(items, *i) {
                    item.value.clone_from(value);
                }
            }
            Op::SetInner(i, j, inner) => {
                if let Some(item) = nth_mut(items, *i) {
                    item.inner[*j] = *inner;
                }
            }
            Op::SetByte(i, j, k, byte) => {
                if let Some(item) = nth_mut(items, *i) {
                    item.inner[*j].odd[1 - *j].bytes[*k] = *byte;
                }
            }
            Op::SetOdd(i, odd) => {
                if let Some(item) = nth_mut(items, *i) {
                    item.inner[0].odd[1] = *odd;
                }
                if !odds.is_empty() {
                    let at = i % odds.len();
                    odds[at] = *odd;
                }
            }
            Op::SetFields(i, key, sign, big) => {
                if let Some(item) = nth_mut(items, *i) {
                    item.key = *key;
                    item.inner[0].sign = *sign;
                    item.inner[1].sign = *sign;
                    item.inner[1].big ^= *big;
                }
            }
            Op::SwapInner(i) => {
                if let Some(item) = nth_mut(items, *i) {
                    item.inner.swap(0, 1);
                }
            }
            Op::Slices(a, b, c) => (*bytes, *odds, *words) = filled(*a, *b, *c),
            Op::FillBytes(range, byte) => bytes[within(range, all_bytes)].fill(*byte),
            Op::FillWords(range, word) => words[within(range, all_words)].fill(*word),
            Op::Byte(i, byte) => {
                if !bytes.is_empty() {
                    let at = i % bytes.len();
                    bytes[at] = *byte;
                }
            }
            Op::Word(i, word) => {
                if !words.is_empty() {
                    let at = i % words.len();
                    words[at] ^= *word;
                }
            }
            Op::SortWords => words.sort_unstable(),
            Op::SwapWords(i, j) => {
                if !words.is_empty() {
                    let len = words.len();
                    words.swap(i % len, j % len);
                }
            }
            Op::SwapOdds(i, j) => {
                if !odds.is_empty() {
                    let len = odds.len();
                    odds.swap(i % len, j % len);
                }
            }
            Op::Check => {}
        }
    }
}

// --- The same in a heap ------------------------------------------------------------------------------------

fn alloc_value<'r>(tx: &Txn<'r>, value: &ModelValue) -> Result<Value<'r>> {
    Ok(match value {
        ModelValue::Nothing => Value::Nothing,
        ModelValue::Number(number) => Value::Number(*number),
        ModelValue::Small(a, b) => Value::Small { a: *a, b: *b },
        ModelValue::Text(text) => Value::Text(tx.alloc_str(text)?),
        ModelValue::Bytes(bytes) => Value::Bytes(tx.alloc_slice_copy(bytes)?),
        ModelValue::Inner(inner) => Value::Inner(tx.alloc(*inner)?),
        ModelValue::Nested(inner) => Value::Nested(*inner),
    })
}

fn nth<'r>(view: &View<'r>, data: P<'r, Data<'r>>, i: usize) -> Option<P<'r, Item<'r>>> {
    let mut items = std::iter::successors(view[data].items, |&item| view[item].next);
    items.nth(i % view[data].len.max(1) as usize)
}

/// Returns element `i` modulo the length, unless there is none.
fn element<'r, T: Persist>(view: &View<'r>, slice: Option<P<'r, [T]>>, i: usize) -> Option<P<'r, T>> {
    slice.and_then(|slice| slice.get(view, i % slice.len(view).max(1)))
}

#[txn]
fn run<'r>(tx: &mut Txn<'r>, data: P<'r, Data<'r>>, op: &Op, model: &Model) -> Result<()> {
    match op {
        Op::Push(key, value) => {
            let value = alloc_value(tx, value)?;
            let item = Item { key: *key, value, inner: Default::default(), next: tx[data].items };
            let item = tx.alloc(item)?;
            tx[data].items = Some(item);
            tx[data].len += 1;
        }
        Op::Pop => {
            if let Some(item) = tx[data].items {
                tx[data].items = tx[item].next;
                tx[data].len -= 1;
            }
        }
        Op::SetValue(i, value) => {
            if let Some(item) = nth(tx, data, *i) {
                tx[item].value = alloc_value(tx, value)?;
            }
        }
        Op::SetInner(i, j, inner) => {
            if let Some(item) = nth(tx, data, *i) {
                tx[item].inner[*j] = *inner;
            }
        }
        Op::SetByte(i, j, k, byte) => {
            if let Some(item) = nth(tx, data, *i) {
                tx[item].inner[*j].odd[1 - *j].bytes[*k] = *byte;
            }
        }
        Op::SetOdd(i, odd) => {
            if let Some(item) = nth(tx, data, *i) {
                tx[item].inner[0].odd[1] = *odd;
            }
            if let Some(element) = element(tx, tx[data].odds, *i) {
                tx[element] = *odd;
            }
        }
        Op::SetFields(i, key, sign, big) => {
            if let Some(item) = nth(tx, data, *i) {
                tx[item].key = *key;
                tx[item].inner[0].sign = *sign;
                tx[item].inner[1].sign = *sign;
                tx[item].inner[1].big ^= *big;
            }
        }
        Op::SwapInner(i) => {
            if let Some(item) = nth(tx, data, *i) {
                let [a, b] = &mut tx[item].inner;
                std::mem::swap(a, b);
            }
        }
        Op::Slices(a, b, c) => {
            let (bytes, odds, words) = filled(*a, *b, *c);
            tx[data].bytes = Some(tx.alloc_slice_copy(&bytes)?);
            tx[data].odds = Some(tx.alloc_slice(odds.len(), |i| odds[i])?);
            tx[data].words = Some(tx.alloc_slice_copy(&words)?);
        }
        Op::FillBytes(range, byte) => {
            if let Some(bytes) = tx[data].bytes {
                tx.slice_mut(bytes, within(range, bytes.len(tx))).fill(*byte);
            }
        }
        Op::FillWords(range, word) => {
            if let Some(words) = tx[data].words {
                tx.slice_mut(words, within(range, words.len(tx))).fill(*word);
            }
        }
        Op::Byte(i, byte) => {
            if let Some(element) = element(tx, tx[data].bytes, *i) {
                tx[element] = *byte;
            }
        }
        Op::Word(i, word) => {
            if let Some(words) = tx[data].words.filter(|words| !words.is_empty(tx)) {
                tx[words][*i % words.len(tx)] ^= *word;
            }
        }
        Op::SortWords => {
            if let Some(words) = tx[data].words {
                tx[words].sort_unstable();
            }
        }
        Op::SwapWords(i, j) => {
            if let (Some(a), Some(b)) = (element(tx, tx[data].words, *i), element(tx, tx[data].words, *j)) {
                tx.swap(a, b);
            }
        }
        Op::SwapOdds(i, j) => {
            if let (Some(a), Some(b)) = (element(tx, tx[data].odds, *i), element(tx, tx[data].odds, *j)) {
                tx.swap(a, b);
            }
        }
        Op::Check => assert_eq!(content(tx, data), *model),
    }
    Ok(())
}

fn content<'r>(view: &View<'r>, data: P<'r, Data<'r>>) -> Model {
    let Data { items, len, bytes, odds, words } = &view[data];
    let mut items: Vec<ModelItem> = std::iter::successors(*items, |&item| view[item].next)
        .map(|item| {
            let Item { key, value, inner, .. } = &view[item];
            let value = match value {
                Value::Nothing => ModelValue::Nothing,
                Value::Number(number) => ModelValue::Number(*number),
                Value::Small { a, b } => ModelValue::Small(*a, *b),
                Value::Text(text) => ModelValue::Text(view[*text].to_owned()),
                Value::Bytes(bytes) => ModelValue::Bytes(view[*bytes].to_vec()),
                Value::Inner(inner) => ModelValue::Inner(view[*inner]),
                Value::Nested(inner) => ModelValue::Nested(*inner),
            };
            ModelItem { key: *key, value, inner: *inner }
        })
        .collect();
    items.reverse();
    assert_eq!(items.len(), *len as usize);
    Model {
        items,
        bytes: bytes.map_or_else(Vec::new, |bytes| view[bytes].to_vec()),
        odds: odds.map_or_else(Vec::new, |odds| view[odds].to_vec()),
        words: words.map_or_else(Vec::new, |words| view[words].to_vec()),
    }
}

/// Runs a program, and compares the heap with the model after each step.
fn run_all(steps: &[Step], pin_undo: bool) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.pheap");
    let options = Options::new().arena_size(1 << 20).reserve(1 << 30).pin_undo(pin_undo);
    let open = || -> Result<_> {
        let heap = options.open(&path)?;
        let root: Root<Data> = heap.root("data")?;
        Ok((heap, root))
    };
    let (mut heap, mut root) = open().unwrap();
    let mut model = Model::default();
    for step in steps {
        match step {
            Step::Reopen(explicitly) => {
                drop(root);
                if *explicitly {
                    heap.close().unwrap();
                } else {
                    drop(heap);
                }
                (heap, root) = open().unwrap();
            }
            Step::Txn(ops, end) => {
                let mut after = model.clone();
                let result = std::panic::catch_unwind(AssertUnwindSafe(|| {
                    root.txn(|tx, data| {
                        for op in ops {
                            after.run(op);
                            run(tx, data, op, &after)?;
                        }
                        match end {
                            End::Commit => Ok(()),
                            End::GiveUp => Err(Error::abort("as planned")),
                            End::Panic => std::panic::resume_unwind(Box::new(End::Panic)),
                        }
                    })
                }));
                match (result, end) {
                    (Ok(Ok(())), End::Commit) => model = after,
                    (Ok(Err(Error::Aborted(_))), End::GiveUp) => {}
                    (Err(panic), End::Panic) if panic.is::<End>() => {}
                    (Err(panic), _) => std::panic::resume_unwind(panic),
                    (Ok(other), _) => panic!("{other:?} instead of {end:?}"),
                }
            }
        }
        assert_eq!(root.read(content).unwrap(), model);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn short_transactions(steps in vec(step(), 1..30)) {
        run_all(&steps, false);
    }

    #[test]
    fn long_transactions(steps in vec(step(), 1..30)) {
        run_all(&steps, true);
    }
}
