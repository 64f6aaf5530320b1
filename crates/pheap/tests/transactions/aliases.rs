//! Random programs of stores and loads in one `#[txn]` function, compared with the same program on ordinary
//! memory. The variables are pointers to the same few objects: two variables to one object, to an element and
//! to its slice, or to a field and to its object. Each variable must read exactly the values that the others
//! have written.

use pheap::{Durability, Error, Heap, Options, P, Persist, Root, Txn, field, txn};
use pheap_testkit::rounds;
use proptest::prelude::*;

const OBJECTS: usize = 4;
const VARIABLES: usize = 3;
/// Rounds of a loop.
const ROUNDS: u64 = 6;
/// Words of an object.
const WORDS: usize = 5;

#[derive(Persist, Default, Clone, Copy)]
#[repr(C)]
struct Inner {
    first: u64,
    pair: [u64; 2],
}

#[derive(Persist, Default, Clone, Copy)]
#[repr(C)]
struct Object {
    a: u64,
    inner: Inner,
    last: u64,
}

impl Object {
    fn words(&self) -> [u64; WORDS] {
        let Inner { first, pair: [x, y] } = self.inner;
        [self.a, first, x, y, self.last]
    }
}

#[derive(Persist)]
#[repr(C)]
struct All<'r> {
    objects: [P<'r, Object>; OBJECTS],
    slice: P<'r, [Object]>,
    /// Too much for the log of a heap that cannot grow.
    large: P<'r, [[u64; 16]]>,
}

#[derive(Debug, Clone, Copy)]
enum Step {
    /// From here on, the variable points to that object or element of the slice. The variable of the other
    /// kind points to a field of it.
    Point {
        variable: usize,
        at: usize,
    },
    Store {
        variable: usize,
        word: usize,
        value: u64,
    },
    Add {
        variable: usize,
        word: usize,
        value: u64,
    },
    Load {
        variable: usize,
        word: usize,
    },
    /// Of the field.
    StoreInner {
        variable: usize,
        word: usize,
        value: u64,
    },
    LoadInner {
        variable: usize,
        word: usize,
    },
    /// By way of the slice.
    StoreElement {
        element: usize,
        value: u64,
    },
    LoadElement {
        element: usize,
    },
    /// Neighbouring assignments, which may be logged together.
    Group {
        variables: [usize; 2],
        value: u64,
    },
    Replace {
        variable: usize,
        value: u64,
    },
    Swap {
        variables: [usize; 2],
    },
    FillSlice(u64),
    /// A loop accesses both objects, a field of the first one, and the slice in each round. `happening` takes
    /// place in one of its rounds.
    Loop {
        variables: [usize; 2],
        value: u64,
        round: u64,
        happening: Happening,
    },
    /// All stores go where the objects are, after an entry in the undo log.
    Spill,
    Allocate,
    /// So many stores that the transaction outgrows its copies, and the log if the heap cannot grow.
    Large(u64),
    /// The transaction ends here.
    End {
        fails: bool,
    },
}

/// What moves objects to another place, or not.
#[derive(Debug, Clone, Copy)]
enum Happening {
    Nothing,
    Spill,
    Allocate,
    Large,
    Swap,
    Replace,
    /// A part of the transaction that changes both objects, and may be taken back.
    Nested {
        fails: bool,
    },
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        Just(Happening::Nothing),
        Just(Happening::Spill),
        Just(Happening::Allocate),
        Just(Happening::Large),
        Just(Happening::Swap),
        Just(Happening::Replace),
        any::<bool>().prop_map(|fails| Happening::Nested { fails }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let variable = || 0..VARIABLES;
    let word = || 0..WORDS;
    let value = any::<u64>;
    prop_oneof![
        8 => (variable(), 0..2 * OBJECTS).prop_map(|(variable, at)| Step::Point { variable, at }),
        8 => (variable(), word(), value()).prop_map(|(variable, word, value)| Step::Store { variable, word, value }),
        4 => (variable(), word(), value()).prop_map(|(variable, word, value)| Step::Add { variable, word, value }),
        8 => (variable(), word()).prop_map(|(variable, word)| Step::Load { variable, word }),
        4 => (variable(), 0usize..3, value()).prop_map(|(variable, word, value)| Step::StoreInner { variable, word, value }),
        4 => (variable(), 0usize..3).prop_map(|(variable, word)| Step::LoadInner { variable, word }),
        3 => (0..OBJECTS, value()).prop_map(|(element, value)| Step::StoreElement { element, value }),
        3 => (0..OBJECTS).prop_map(|element| Step::LoadElement { element }),
        4 => ([variable(), variable()], value()).prop_map(|(variables, value)| Step::Group { variables, value }),
        2 => (variable(), value()).prop_map(|(variable, value)| Step::Replace { variable, value }),
        2 => [variable(), variable()].prop_map(|variables| Step::Swap { variables }),
        1 => value().prop_map(Step::FillSlice),
        6 => ([variable(), variable()], value(), 0u64..ROUNDS, happening())
            .prop_map(|(variables, value, round, happening)| Step::Loop { variables, value, round, happening }),
        1 => Just(Step::Spill),
        2 => Just(Step::Allocate),
        1 => value().prop_map(Step::Large),
        4 => any::<bool>().prop_map(|fails| Step::End { fails }),
    ]
}

/// The objects, and behind them the elements of the slice.
type Memory = [[u64; WORDS]; 2 * OBJECTS];

/// What the loop of [`come_back`] does.
struct Round<'r> {
    objects: [P<'r, Object>; 2],
    large: P<'r, [[u64; 16]]>,
    value: u64,
    at: u64,
    happening: Happening,
}

impl<'r> Round<'r> {
    fn happen(&self, tx: &mut Txn<'r>, round: u64) {
        let &Round { objects: [p, q], large, value, .. } = self;
        match self.happening {
            _ if round != self.at => {}
            Happening::Nothing => {}
            Happening::Spill => tx.leave_copies(),
            Happening::Allocate => drop(tx.alloc(Object::default())),
            Happening::Large => tx[large].fill([value; 16]),
            Happening::Swap => tx.swap(p, q),
            Happening::Replace => tx[q] = Object { a: value, ..Object::default() },
            Happening::Nested { fails } => {
                let result = tx.nested((p, q), |tx, (p, q)| {
                    tx[p].a = value;
                    tx[q].inner.pair[1] = !value;
                    if fails { Err(Error::abort("as it was told")) } else { Ok(()) }
                });
                assert_eq!(result.is_err(), fails);
            }
        }
    }

    /// The same on ordinary memory.
    fn happen_to(&self, memory: &mut Memory, [p, q]: [usize; 2], round: u64) {
        match self.happening {
            _ if round != self.at => {}
            Happening::Swap => memory.swap(p, q),
            Happening::Replace => memory[q] = [self.value, 0, 0, 0, 0],
            Happening::Nested { fails: false } => {
                memory[p][0] = self.value;
                memory[q][3] = !self.value;
            }
            _ => {}
        }
    }
}

/// Accesses its arguments again and again.
#[txn]
fn come_back<'r>(
    tx: &mut Txn<'r>,
    p: P<'r, Object>,
    q: P<'r, Object>,
    inner: P<'r, Inner>,
    slice: P<'r, [Object]>,
    all: &Round<'r>,
) -> u64 {
    let mut seen = 0u64;
    for round in 0..ROUNDS {
        tx[p].a = tx[q].last ^ round;
        tx[inner].pair[1] = tx[p].a.wrapping_add(all.value);
        all.happen(tx, round);
        tx[q].last = tx[p].inner.pair[1].wrapping_add(tx[inner].first / 2);
        let mut i = 0;
        while tx[slice][i].last != all.value && i + 1 < OBJECTS {
            tx[slice][i].last ^= tx[p].a;
            i += 1;
        }
        seen = seen.rotate_left(7) ^ tx[inner].pair[1] ^ tx[q].a ^ tx[p].last;
    }
    seen
}

/// The same on ordinary memory, where `p` and `q` are.
fn come_back_to(memory: &mut Memory, [p, q]: [usize; 2], all: &Round<'_>) -> u64 {
    let mut seen = 0u64;
    for round in 0..ROUNDS {
        memory[p][0] = memory[q][4] ^ round;
        memory[p][3] = memory[p][0].wrapping_add(all.value);
        all.happen_to(memory, [p, q], round);
        memory[q][4] = memory[p][3].wrapping_add(memory[p][1] / 2);
        let mut i = 0;
        while memory[OBJECTS + i][4] != all.value && i + 1 < OBJECTS {
            memory[OBJECTS + i][4] ^= memory[p][0];
            i += 1;
        }
        seen = seen.rotate_left(7) ^ memory[p][3] ^ memory[q][0] ^ memory[p][4];
    }
    seen
}

#[txn]
fn run<'r>(tx: &mut Txn<'r>, root: P<'r, All<'r>>, steps: &[Step], memory: &mut Memory) {
    let All { objects, slice, large } = tx[root];
    let elements: [_; OBJECTS] = std::array::from_fn(|i| slice.at(tx, i));
    let pointer = |at: usize| if at < OBJECTS { objects[at] } else { elements[at - OBJECTS] };
    let mut at = [0, 0, OBJECTS];
    let mut p = at.map(pointer);
    let mut inner = p.map(|p| field!(p.inner));
    for step in steps {
        match *step {
            Step::Point { variable, at: place } => {
                at[variable] = place;
                p[variable] = pointer(place);
                let object = p[variable];
                inner[variable] = field!(object.inner);
            }
            Step::Store { variable, word, value } => {
                memory[at[variable]][word] = value;
                match word {
                    0 => tx[p[variable]].a = value,
                    1 => tx[p[variable]].inner.first = value,
                    2 | 3 => tx[p[variable]].inner.pair[word - 2] = value,
                    _ => tx[p[variable]].last = value,
                }
            }
            Step::Add { variable, word, value } => {
                let number = &mut memory[at[variable]][word];
                *number = number.wrapping_add(value);
                match word {
                    0 => tx[p[variable]].a = tx[p[variable]].a.wrapping_add(value),
                    1 => tx[inner[variable]].first = tx[p[variable]].inner.first.wrapping_add(value),
                    2 | 3 => {
                        let old = tx[inner[variable]].pair[word - 2];
                        tx[p[variable]].inner.pair[word - 2] = old.wrapping_add(value);
                    }
                    _ => tx[p[variable]].last = tx[p[variable]].last.wrapping_add(value),
                }
            }
            Step::Load { variable, word } => {
                let object = &tx[p[variable]];
                assert_eq!(object.words()[word], memory[at[variable]][word], "{step:?}");
            }
            Step::StoreInner { variable, word, value } => {
                memory[at[variable]][1 + word] = value;
                match word {
                    0 => tx[inner[variable]].first = value,
                    _ => tx[inner[variable]].pair[word - 1] = value,
                }
            }
            Step::LoadInner { variable, word } => {
                let Inner { first, pair: [x, y] } = tx[inner[variable]];
                assert_eq!([first, x, y][word], memory[at[variable]][1 + word], "{step:?}");
            }
            Step::StoreElement { element, value } => {
                memory[OBJECTS + element][4] = value;
                tx[slice][element].last = value;
            }
            Step::LoadElement { element } => {
                assert_eq!(tx[slice][element].words(), memory[OBJECTS + element], "{step:?}");
            }
            Step::Group { variables: [i, j], value } => {
                let (x, y) = (p[i], p[j]);
                memory[at[i]][0] = value;
                memory[at[j]][4] = value ^ 1;
                memory[at[i]][1] = value ^ 2;
                tx[x].a = value;
                tx[y].last = value ^ 1;
                tx[x].inner.first = value ^ 2;
            }
            Step::Replace { variable, value } => {
                memory[at[variable]] = [value, 0, 0, 0, 0];
                tx[p[variable]] = Object { a: value, ..Object::default() };
            }
            Step::Swap { variables: [i, j] } => {
                memory.swap(at[i], at[j]);
                tx.swap(p[i], p[j]);
            }
            Step::FillSlice(value) => {
                memory[OBJECTS..].iter_mut().for_each(|words| words[0] = value);
                tx.slice_mut(slice, ..).iter_mut().for_each(|object| object.a = value);
            }
            Step::Loop { variables: [i, j], value, round, happening } => {
                let all = Round { objects: [p[i], p[j]], large, value, at: round, happening };
                let seen = come_back(tx, p[i], p[j], inner[i], slice, &all);
                assert_eq!(seen, come_back_to(memory, [at[i], at[j]], &all), "{step:?}");
            }
            Step::Spill => tx.leave_copies(),
            Step::Allocate => {
                // A new object is written in place, and its fields are, too.
                if let Ok(new) = tx.alloc(Object::default()) {
                    tx[new].a = 1;
                    tx[field!(new.inner)].pair[1] = 2;
                    tx[new].last += 3;
                    assert_eq!(tx[new].words(), [1, 0, 0, 2, 3]);
                }
            }
            Step::Large(value) => tx[large].fill([value; 16]),
            Step::End { .. } => unreachable!("steps are of one transaction"),
        }
    }
}

/// What spills, unless the transaction is doomed.
trait LeaveCopies {
    fn leave_copies(&mut self);
}

impl LeaveCopies for Txn<'_> {
    fn leave_copies(&mut self) {
        if !format!("{self:?}").contains("Doomed") {
            self.shared();
        }
    }
}

fn seen(root: &Root<All<'static>>) -> Memory {
    root.read(|view, root| {
        let All { objects, slice, .. } = view[root];
        let at = |at: usize| if at < OBJECTS { objects[at] } else { slice.at(view, at - OBJECTS) };
        std::array::from_fn(|i| view[at(i)].words())
    })
    .unwrap()
}

/// A heap that has room for a log of its content, or has no such room (`is_full`).
fn heap(is_full: bool, pins_undo: bool) -> Heap {
    const SIZE: u64 = 1 << 20;
    let options = Options::new().durability(Durability::Process).arena_size(SIZE).pin_undo(pins_undo);
    options.max_size(if is_full { SIZE } else { 4 * SIZE }).in_memory().unwrap()
}

/// Makes a root whose slice `large` has that many elements. With `fields`, 20 transactions that store to a
/// field once precede. After these, a store to a field copies only the field, until the transaction meets an
/// object of which a part has a copy.
fn root(heap: &Heap, name: &str, large: usize, fields: bool) -> Root<All<'static>> {
    let root = heap.root_or(name, |tx| {
        let mut objects = Vec::new();
        for _ in 0..OBJECTS {
            objects.push(tx.alloc(Object::default())?);
        }
        let objects = std::array::from_fn(|i| objects[i]);
        let slice = tx.alloc_slice(OBJECTS, |_| Object::default())?;
        Ok(All { objects, slice, large: tx.alloc_slice(large, |_| [0; 16])? })
    });
    let root: Root<All> = root.unwrap();
    const QUIET: usize = 20;
    for _ in 0..if fields { QUIET } else { 0 } {
        root.txn(|tx, root| {
            let object = tx[root].objects[0];
            tx[field!(object.a)] = 0;
            Ok(())
        })
        .unwrap();
    }
    root
}

/// Whether a transaction that ended like this took place.
fn took_place(result: Result<(), Error>, fails: bool, is_full: bool) -> bool {
    match result {
        Ok(()) => assert!(!fails),
        Err(Error::OutOfSpace { .. }) => assert!(is_full, "there is room for any log"),
        Err(ref error) => assert!(fails, "{error}"),
    }
    result.is_ok()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: rounds(150), ..ProptestConfig::default() })]

    #[test]
    fn variables_of_one_object_see_the_same(
        is_full in any::<bool>(),
        pins_undo in prop::bool::weighted(0.2),
        fields in any::<bool>(),
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let heap = heap(is_full, pins_undo);
        let root = root(&heap, "all", 4400, fields);
        let mut memory = Memory::default();
        for transaction in steps.split_inclusive(|step| matches!(step, Step::End { .. })) {
            let (steps, fails) = match transaction.split_last() {
                Some((&Step::End { fails }, steps)) => (steps, fails),
                _ => (transaction, false),
            };
            let before = memory;
            let result = root.txn(|tx, root| {
                run(tx, root, steps, &mut memory);
                if fails { Err(Error::abort("as it was told")) } else { Ok(()) }
            });
            if !took_place(result, fails, is_full) {
                memory = before;
            }
            prop_assert_eq!(seen(&root), memory);
        }
    }

    /// One of them may spill, or find no room for a log, while there are copies in the other.
    #[test]
    fn two_roots_in_one_transaction_do_not_disturb_each_other(
        is_full in any::<bool>(),
        pins_undo in prop::bool::weighted(0.2),
        fields in any::<bool>(),
        steps in prop::collection::vec((0usize..2, prop::collection::vec(step(), 1..10)), 1..30),
    ) {
        let steps: Vec<(usize, Step)> =
            steps.into_iter().flat_map(|(root, steps)| steps.into_iter().map(move |step| (root, step))).collect();
        let heap = heap(is_full, pins_undo);
        let roots = ["one", "two"].map(|name| root(&heap, name, 2200, fields));
        let mut memory = [Memory::default(); 2];
        for transaction in steps.split_inclusive(|(_, step)| matches!(step, Step::End { .. })) {
            let (steps, fails) = match transaction.split_last() {
                Some((&(_, Step::End { fails }), steps)) => (steps, fails),
                _ => (transaction, false),
            };
            let before = memory;
            let result = pheap::txn((&roots[0], &roots[1]), |((one, first), (two, second))| {
                for part in steps.chunk_by(|a, b| a.0 == b.0) {
                    let steps: Vec<Step> = part.iter().map(|&(_, step)| step).collect();
                    match part[0].0 {
                        0 => run(one, first, &steps, &mut memory[0]),
                        _ => run(two, second, &steps, &mut memory[1]),
                    }
                }
                if fails { Err(Error::abort("as it was told")) } else { Ok(()) }
            });
            if !took_place(result, fails, is_full) {
                memory = before;
            }
            prop_assert_eq!([seen(&roots[0]), seen(&roots[1])], memory);
        }
    }
}
