//! What a root holds, the same in volatile memory, and what a transaction may do to both.

use std::collections::BTreeMap;
use std::sync::Arc;

use pheap::{Error, Held, P, PHashMap, PVec, Persist, Result, Txn, View, field};

use pheap_testkit::Rng;

const SMALLS: usize = 24;
const MEDIUMS: usize = 12;
const WIDES: usize = 6;
const LISTS: usize = 6;
const SLICES: usize = 8;
const TEXTS: usize = 6;
const HELD: usize = 4;

/// Keys of the map, and elements of the vector.
const KEYS: usize = 200;
const NUMBERS: usize = 3000;

#[derive(Persist, Default)]
#[repr(C)]
pub(crate) struct Top<'r> {
    smalls: [Option<P<'r, Small>>; SMALLS],
    mediums: [Option<P<'r, Medium>>; MEDIUMS],
    wides: [Option<P<'r, Wide>>; WIDES],
    lists: [Option<P<'r, Node<'r>>>; LISTS],
    slices: [Option<P<'r, [u64]>>; SLICES],
    texts: [Option<P<'r, str>>; TEXTS],
    map: PHashMap<'r, u64, u64>,
    numbers: PVec<'r, u64>,
}

/// An object of which each word says whether it belongs to the others.
macro_rules! bodies {
    ($($name:ident: $words:literal,)*) => {$(
        #[derive(Persist, Clone, Copy)]
        #[repr(C)]
        pub(crate) struct $name {
            value: u64,
            rest: [u64; $words],
        }

        impl $name {
            fn new(value: u64) -> $name {
                $name { value, rest: std::array::from_fn(|i| value ^ (i as u64 + 1)) }
            }

            fn value(&self) -> u64 {
                let is_whole = (1..).zip(&self.rest).all(|(i, word)| *word == self.value ^ i);
                assert!(is_whole, "a {} of {:#x} holds {:x?}", stringify!($name), self.value, &self.rest[..2]);
                self.value
            }
        }
    )*};
}

bodies! { Small: 2, Medium: 63, Wide: 639, }

#[derive(Persist)]
#[repr(C)]
struct Node<'r> {
    value: u64,
    next: Option<P<'r, Node<'r>>>,
    check: u64,
}

/// What a root holds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Model {
    smalls: Vec<Option<u64>>,
    mediums: Vec<Option<u64>>,
    wides: Vec<Option<u64>>,
    /// The first node last.
    lists: Vec<Vec<u64>>,
    slices: Vec<Option<Arc<Vec<u64>>>>,
    texts: Vec<Option<u64>>,
    map: BTreeMap<u64, u64>,
    numbers: Vec<u64>,
}

impl Default for Model {
    fn default() -> Model {
        Model {
            smalls: vec![None; SMALLS],
            mediums: vec![None; MEDIUMS],
            wides: vec![None; WIDES],
            lists: vec![Vec::new(); LISTS],
            slices: vec![None; SLICES],
            texts: vec![None; TEXTS],
            map: BTreeMap::new(),
            numbers: Vec::new(),
        }
    }
}

/// The model of a root: its content, and objects that it has had and that are held.
#[derive(Clone, Default)]
pub(crate) struct State {
    pub(crate) model: Model,
    held: Vec<(Held<Medium>, u64)>,
}

impl State {
    /// The part that is left when the heap is closed, or its process killed.
    pub(crate) fn without_held(&self) -> State {
        State { model: self.model.clone(), held: Vec::new() }
    }

    /// Lets go of all that is held.
    pub(crate) fn let_go(&mut self) {
        self.held.clear();
    }
}

/// Whether there was no room for something, which may happen at any time.
pub(crate) fn is_full(error: &Error) -> bool {
    matches!(error, Error::OutOfSpace { .. } | Error::ReservationFull { .. })
}

/// How large things are.
#[derive(Clone, Copy)]
pub(crate) struct Sizes {
    /// Elements of a slice, at most.
    pub(crate) slice: usize,
    /// Bytes of the heap, at most.
    pub(crate) heap: u64,
}

fn text(value: u64) -> String {
    "text ".repeat(1 + value as usize % 60) + &value.to_string()
}

/// Does one thing to a root and to its model. If that fails for want of space, the two still agree.
fn step<'r>(
    tx: &mut Txn<'r>,
    top: P<'r, Top<'r>>,
    State { model, held }: &mut State,
    random: &mut Rng,
    sizes: Sizes,
) -> Result<()> {
    let value = random.next_u64() >> 8;
    match random.below(42) {
        0..3 => {
            let i = random.below(SMALLS);
            tx[top].smalls[i] = Some(tx.alloc(Small::new(value))?);
            model.smalls[i] = Some(value);
        }
        3..6 => {
            let i = random.below(MEDIUMS);
            tx[top].mediums[i] = Some(tx.alloc(Medium::new(value))?);
            model.mediums[i] = Some(value);
        }
        6..8 => {
            let i = random.below(WIDES);
            tx[top].wides[i] = Some(tx.alloc(Wide::new(value))?);
            model.wides[i] = Some(value);
        }
        8 => {
            let i = random.below(MEDIUMS);
            (tx[top].mediums[i], model.mediums[i]) = (None, None);
        }
        9 => {
            let i = random.below(WIDES);
            (tx[top].wides[i], model.wides[i]) = (None, None);
        }
        10 => {
            let i = random.below(SMALLS);
            if let Some(small) = tx[top].smalls[i] {
                tx[small] = Small::new(value);
                model.smalls[i] = Some(value);
            }
        }
        11 => {
            let i = random.below(WIDES);
            if let Some(wide) = tx[top].wides[i] {
                tx[wide] = Wide::new(value);
                model.wides[i] = Some(value);
            }
        }
        12..15 => {
            let i = random.below(LISTS);
            let next = tx[top].lists[i];
            let node = tx.alloc(Node { value, next, check: !value })?;
            tx[top].lists[i] = Some(node);
            model.lists[i].push(value);
        }
        15 => {
            let i = random.below(LISTS);
            if let Some(node) = tx[top].lists[i] {
                tx[top].lists[i] = tx[node].next;
                model.lists[i].pop();
            }
        }
        16 => {
            let (i, j) = (random.below(LISTS), random.below(LISTS));
            tx[top].lists.swap(i, j);
            model.lists.swap(i, j);
        }
        17 => {
            // The rest of a list goes to another one: what a marker must not miss.
            let (i, j) = (random.below(LISTS), random.below(LISTS));
            if let (true, Some(node)) = (i != j, tx[top].lists[i]) {
                tx[top].lists[j] = tx[node].next;
                tx[node].next = None;
                let first = model.lists[i].pop().expect("it is as long");
                model.lists[j] = std::mem::replace(&mut model.lists[i], vec![first]);
            }
        }
        18 => {
            let i = random.below(LISTS);
            tx[top].lists[i] = None;
            model.lists[i].clear();
        }
        19..23 => {
            let (i, len) = (random.below(SLICES), 1 + random.below(sizes.slice));
            let elements: Vec<u64> = (value..).take(len).collect();
            tx[top].slices[i] = Some(tx.alloc_slice_copy(&elements)?);
            model.slices[i] = Some(elements.into());
        }
        23..25 => {
            let i = random.below(SLICES);
            (tx[top].slices[i], model.slices[i]) = (None, None);
        }
        25 => {
            let i = random.below(SLICES);
            if let (Some(slice), Some(elements)) = (tx[top].slices[i], &mut model.slices[i]) {
                tx[slice].fill(value);
                Arc::make_mut(elements).fill(value);
            }
        }
        26 => {
            let i = random.below(SLICES);
            if let (Some(slice), Some(elements)) = (tx[top].slices[i], &mut model.slices[i]) {
                for _ in 0..20 {
                    let at = random.below(elements.len());
                    let element = slice.at(tx, at);
                    tx[element] = value;
                    Arc::make_mut(elements)[at] = value;
                }
            }
        }
        27 => {
            let i = random.below(TEXTS);
            tx[top].texts[i] = Some(tx.alloc_str(&text(value))?);
            model.texts[i] = Some(value);
        }
        28..30 => {
            let key = random.below(KEYS) as u64;
            field!(top.map).insert(tx, &key, value)?;
            model.map.insert(key, value);
        }
        30 => {
            let key = random.below(KEYS) as u64;
            assert_eq!(field!(top.map).remove(tx, &key), model.map.remove(&key));
        }
        31 => {
            for value in (value..).take(random.below(200)) {
                field!(top.numbers).push(tx, value)?;
                model.numbers.push(value);
            }
            let len = if model.numbers.len() > NUMBERS { random.below(NUMBERS) } else { model.numbers.len() };
            field!(top.numbers).truncate(tx, len);
            model.numbers.truncate(len);
        }
        // Never linked. As much of a kind as a span has, and more.
        32 => (0..random.below(400)).try_for_each(|_| tx.alloc(Small::new(value)).map(drop))?,
        33..35 => (0..random.below(30)).try_for_each(|_| tx.alloc(Medium::new(value)).map(drop))?,
        35 => (0..random.below(10)).try_for_each(|_| tx.alloc(Wide::new(value)).map(drop))?,
        36 => tx.alloc_slice(1 + random.below(sizes.slice), |_| value).map(drop)?,
        // More than there is, ever.
        37 => tx.alloc_slice(sizes.heap as usize / 8, |_| value).map(drop)?,
        38 => {
            let i = random.below(MEDIUMS);
            if let (Some(medium), Some(value)) = (tx[top].mediums[i], model.mediums[i])
                && held.len() < HELD
            {
                held.push((tx.hold(medium), value));
                (tx[top].mediums[i], model.mediums[i]) = (None, None);
            }
        }
        39 if !held.is_empty() => drop(held.swap_remove(random.below(held.len()))),
        40 if !held.is_empty() => {
            let i = random.below(MEDIUMS);
            let (held, value) = held.swap_remove(random.below(held.len()));
            tx[top].mediums[i] = Some(tx.get(&held)?);
            model.mediums[i] = Some(value);
        }
        _ => compare(tx, top, &State { model: model.clone(), held: held.clone() }),
    }
    Ok(())
}

/// Does one to eight random steps on a root. With `goes_on`, ignores steps that find no room; otherwise fails
/// at the first of these.
pub(crate) fn steps<'r>(
    tx: &mut Txn<'r>,
    top: P<'r, Top<'r>>,
    state: &mut State,
    random: &mut Rng,
    (sizes, goes_on): (Sizes, bool),
) -> Result<()> {
    for _ in 0..1 + random.below(8) {
        match step(tx, top, state, random, sizes) {
            Err(error) if goes_on && is_full(&error) => {}
            result => result?,
        }
    }
    Ok(())
}

/// Asserts that a root has the content of the model.
pub(crate) fn compare<'r>(view: &View<'r>, top: P<'r, Top<'r>>, state: &State) {
    let found = look(view, top);
    let model = &state.model;
    // One by one, for all of them would be pages.
    assert_eq!(found.smalls, model.smalls);
    assert_eq!(found.mediums, model.mediums);
    assert_eq!(found.wides, model.wides);
    assert_eq!(found.lists, model.lists);
    assert!(found.slices == model.slices, "slices differ");
    assert_eq!(found.texts, model.texts);
    assert_eq!(found.map, model.map);
    assert!(found.numbers == model.numbers, "numbers differ");
    for (held, value) in &state.held {
        let medium = view.get(held).expect("it was committed, and is held");
        assert_eq!(view[medium].value(), *value);
    }
}

/// What a root holds, of which each object must be whole.
pub(crate) fn look<'r>(view: &View<'r>, top: P<'r, Top<'r>>) -> Model {
    let Top { smalls, mediums, wides, lists, slices, texts, map, numbers } = &view[top];
    let list = |first: &Option<P<'r, Node<'r>>>| {
        let (mut next, mut values) = (*first, Vec::new());
        while let Some(node) = next {
            let Node { value, check, .. } = view[node];
            assert!(check == !value && values.len() < 1 << 20, "a node holds {value:#x} and {check:#x}");
            values.push(value);
            next = view[node].next;
        }
        values.reverse();
        values
    };
    let number = |found: &str| {
        let value = found.rsplit(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0);
        assert_eq!(found, text(value));
        value
    };
    Model {
        smalls: smalls.iter().map(|p| p.map(|p| view[p].value())).collect(),
        mediums: mediums.iter().map(|p| p.map(|p| view[p].value())).collect(),
        wides: wides.iter().map(|p| p.map(|p| view[p].value())).collect(),
        lists: lists.iter().map(list).collect(),
        slices: slices.iter().map(|p| p.map(|p| Arc::new(view[p].to_vec()))).collect(),
        texts: texts.iter().map(|p| p.map(|p| number(&view[p]))).collect(),
        map: map.iter(view).map(|(key, value)| (*key, *value)).collect(),
        numbers: numbers.iter(view).copied().collect(),
    }
}
