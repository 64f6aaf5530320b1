//! Code of the program's that panics in the middle of an operation, at each of its calls in turn: nothing is
//! lost.
#![allow(clippy::unit_arg)] // `Ok(list.sort(tx))` is a call in one line

use std::cell::Cell;
use std::cmp::Ordering;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use pheap::collections::{HashKey, KeyHasher, MapKey, OrdKey, PBTreeSet};
use pheap::{
    P, PBTreeMap, PHashMap, PHashSet, PPriorityQueue, PSnapMap, PString, PVec, PVecDeque, Persist, Result,
    Root, Txn, View, field,
};
use pheap_testkit::small;

thread_local! {
    /// How many more calls of the program's code return.
    static PATIENCE: Cell<u32> = const { Cell::new(u32::MAX) };
    /// The key whose code has panicked; else `u64::MAX`.
    static CULPRIT: Cell<u64> = const { Cell::new(u64::MAX) };
    /// Iterators have yielded all numbers from [`NEW`] on that are below this one.
    static YIELDED: Cell<u64> = const { Cell::new(NEW) };
}

/// The first number that an iterator yields, greater than all that are there.
const NEW: u64 = 1000;

/// A call of the program's code, perhaps that of a key.
fn call(key: u64) {
    let patience = PATIENCE.get();
    PATIENCE.set(patience.wrapping_sub(1));
    if patience == 0 {
        CULPRIT.set(key);
        resume_unwind(Box::new("expected"));
    }
}

/// Its code panics.
#[derive(Persist, Debug)]
#[repr(transparent)]
struct Fussy(u64);

impl Copy for Fussy {}

#[allow(clippy::non_canonical_clone_impl)] // it panics
impl Clone for Fussy {
    fn clone(&self) -> Fussy {
        call(self.0);
        Fussy(self.0)
    }
}

impl PartialEq for Fussy {
    fn eq(&self, other: &Fussy) -> bool {
        call(self.0.max(other.0));
        self.0 == other.0
    }
}

impl Eq for Fussy {}

impl Ord for Fussy {
    fn cmp(&self, other: &Fussy) -> Ordering {
        call(self.0.max(other.0));
        self.0.cmp(&other.0)
    }
}

impl PartialOrd for Fussy {
    fn partial_cmp(&self, other: &Fussy) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

// SAFETY: the query is the key.
unsafe impl<'r> MapKey<'r> for Fussy {
    type Query = Fussy;

    fn query<'v>(&'v self, _: &'v View<'r>) -> &'v Fussy {
        self
    }

    fn from_query(_: &Txn<'r>, query: &Fussy) -> Result<Fussy> {
        Ok(*query)
    }
}

impl HashKey<'_> for Fussy {
    fn hash(query: &Fussy, hasher: &mut KeyHasher) {
        call(query.0);
        hasher.write(&query.0.to_le_bytes());
    }
}

impl OrdKey<'_> for Fussy {}

/// Forty new numbers.
fn new() -> impl Iterator<Item = u64> {
    (NEW..NEW + 40).inspect(|number| {
        call(u64::MAX);
        YIELDED.set(number + 1);
    })
}

/// The same, from an iterator that does not know how many come.
fn some() -> impl Iterator<Item = u64> {
    new().filter(|_| true)
}

fn is_odd(number: u64) -> bool {
    call(u64::MAX);
    number % 2 == 1
}

/// The content after a panic.
enum Keeps {
    /// The content from before.
    All,
    /// The same, in any order, in any of the two collections.
    AllSomewhere,
    /// The content from before, and the new numbers that were yielded before the one that panicked.
    New,
}

type Call<R> = for<'t, 'r> fn(&'t mut Txn<'r>, P<'r, <R as Persist>::At<'r>>) -> Result<()>;
type Look<R> = for<'v, 'r> fn(&'v View<'r>, P<'r, <R as Persist>::At<'r>>) -> [Vec<u64>; 2];

/// Interrupts each of these calls wherever it calls code of the program. `fill` makes two collections, and
/// `look` returns their content.
fn interrupt<R: Persist + Default + 'static>(
    fill: Call<R>,
    look: Look<R>,
    calls: &[(&str, Keeps, Call<R>)],
) -> Result<()> {
    for (name, keeps, run) in calls {
        let heap = small().in_memory()?;
        let root: Root<R> = heap.root("both")?;
        for patience in 0.. {
            root.txn(fill)?;
            let before = root.read(look)?;
            let is_done = root.txn(|tx, both| {
                CULPRIT.set(u64::MAX);
                YIELDED.set(NEW);
                PATIENCE.set(patience);
                let result = catch_unwind(AssertUnwindSafe(|| run(tx, both)));
                PATIENCE.set(u32::MAX);
                match result {
                    Ok(result) => result.map(|()| true),
                    Err(panic) if panic.is::<&str>() => Ok(false),
                    Err(panic) => resume_unwind(panic),
                }
            })?;
            let after = root.read(look)?;
            let report = heap.check()?;
            assert!(report.is_clean(), "{name} after {patience}: {report}");
            if is_done {
                assert!(patience > 0, "{name} calls nothing");
                break;
            }
            let context = || format!("{name} after {patience}: {after:?}");
            match keeps {
                Keeps::All => assert!(after == before, "{}", context()),
                Keeps::AllSomewhere => {
                    let [mut after, mut before] = [&after, &before].map(|both| both.concat());
                    after.sort_unstable();
                    before.sort_unstable();
                    assert!(after == before, "{}", context());
                }
                Keeps::New => {
                    let mut numbers = after[0].clone();
                    numbers.sort_unstable();
                    let old = numbers.partition_point(|number| *number < NEW);
                    let new = &numbers[old..];
                    let all = NEW..YIELDED.get();
                    let mut expected = before[0].clone();
                    expected.sort_unstable();
                    assert!(numbers[..old] == expected && after[1] == before[1], "{}", context());
                    assert!(new.windows(2).all(|two| two[0] < two[1]), "{}", context());
                    assert!(new.iter().all(|number| all.contains(number)), "{}", context());
                    let mut kept = all.take_while(|number| *number < CULPRIT.get());
                    assert!(kept.all(|number| new.contains(&number)), "{}", context());
                }
            }
        }
    }
    Ok(())
}

/// A struct of two collections.
macro_rules! two {
    ($($name:ident: $collection:ty;)*) => {$(
        #[derive(Persist, Default)]
        #[repr(C)]
        struct $name<'r> {
            a: $collection,
            b: $collection,
        }
    )*};
}

two! {
    Vecs: PVec<'r, Fussy>;
    Pointers: PVec<'r, Option<P<'r, u64>>>;
    Deques: PVecDeque<'r, Fussy>;
    Queues: PPriorityQueue<'r, Fussy>;
    Trees: PBTreeMap<'r, Fussy, u64>;
    TreeSets: PBTreeSet<'r, Fussy>;
    Maps: PHashMap<'r, Fussy, u64>;
    Sets: PHashSet<'r, Fussy>;
    Snaps: PSnapMap<'r, Fussy, u64>;
    Strings: PString<'r>;
}

/// The numbers in the first of the two collections, in no particular order. No two are equal.
fn first() -> impl Iterator<Item = u64> {
    (0..60).map(|number| number * 7 % 60)
}

fn second() -> impl Iterator<Item = u64> {
    200..210
}

/// Numbers in a collection, which must be as many as it says.
fn counted(len: usize, numbers: impl Iterator<Item = u64>) -> Vec<u64> {
    let numbers: Vec<u64> = numbers.collect();
    assert_eq!(numbers.len(), len);
    numbers
}

#[test]
fn a_vector_loses_nothing() -> Result<()> {
    interrupt::<Vecs>(
        |tx, both| {
            field!(both.a).clear(tx);
            field!(both.b).clear(tx);
            field!(both.a).extend(tx, first().map(Fussy))?;
            field!(both.b).extend(tx, second().map(Fussy))
        },
        |view, both| {
            [&view[both].a, &view[both].b].map(|vec| counted(vec.len(), vec.iter(view).map(|n| n.0)))
        },
        &[
            ("extend", Keeps::New, |tx, both| field!(both.a).extend(tx, new().map(Fussy))),
            ("extend some", Keeps::New, |tx, both| field!(both.a).extend(tx, some().map(Fussy))),
            ("retain", Keeps::All, |tx, both| Ok(field!(both.a).retain(tx, |n| is_odd(n.0)))),
            ("extract_if", Keeps::All, |tx, both| Ok(drop(field!(both.a).extract_if(tx, |n| is_odd(n.0))))),
            ("dedup", Keeps::All, |tx, both| Ok(field!(both.a).dedup(tx))),
            ("sort", Keeps::AllSomewhere, |tx, both| Ok(field!(both.a).sort(tx))),
            ("sort_by", Keeps::AllSomewhere, |tx, both| Ok(field!(both.a).sort_by(tx, |x, y| y.cmp(x)))),
            ("sort_by_key", Keeps::AllSomewhere, |tx, both| {
                Ok(field!(both.a).sort_by_key(tx, |n| (is_odd(n.0), n.0)))
            }),
        ],
    )
}

/// Copies that a panicking `Clone` makes are there up to that, as in a `Vec`.
#[test]
fn a_vector_is_resized_as_far_as_it_goes() -> Result<()> {
    let heap = small().in_memory()?;
    let root: Root<PVec<Fussy>> = heap.root("list")?;
    for patience in 0..20 {
        let mut twin = vec![Fussy(1); 3];
        root.txn(|tx, list| {
            list.clear(tx);
            list.extend(tx, [Fussy(1); 3])?;
            PATIENCE.set(patience);
            let here = catch_unwind(AssertUnwindSafe(|| list.resize(tx, 20, Fussy(7)).unwrap()));
            PATIENCE.set(patience);
            let there = catch_unwind(AssertUnwindSafe(|| twin.resize(20, Fussy(7))));
            PATIENCE.set(u32::MAX);
            assert_eq!((here.is_ok(), list.len(tx)), (there.is_ok(), twin.len()));
            assert!(list.iter(tx).eq(&twin));
            Ok(())
        })?;
    }
    Ok(())
}

/// Slots behind the end must not have pointers.
#[test]
fn a_vector_of_pointers_loses_nothing() -> Result<()> {
    interrupt::<Pointers>(
        |tx, both| {
            field!(both.a).clear(tx);
            let all = first().map(|n| tx.alloc(n).map(Some)).collect::<Result<Vec<_>>>()?;
            field!(both.a).extend(tx, all)
        },
        |view, both| {
            [&view[both].a, &view[both].b]
                .map(|vec| counted(vec.len(), vec.iter(view).map(|p| view[p.unwrap()])))
        },
        &[
            ("extend", Keeps::New, |tx, both| {
                let all = (NEW..NEW + 40).map(|n| tx.alloc(n).map(Some)).collect::<Result<Vec<_>>>()?;
                field!(both.a).extend(tx, new().map(|n| all[(n - NEW) as usize]))
            }),
            ("retain", Keeps::All, |tx, both| Ok(field!(both.a).retain(tx, |p| is_odd(p.is_some().into())))),
        ],
    )
}

#[test]
fn a_deque_loses_nothing() -> Result<()> {
    interrupt::<Deques>(
        |tx, both| {
            field!(both.a).clear(tx);
            field!(both.b).clear(tx);
            first().take(30).try_for_each(|n| field!(both.a).push_front(tx, Fussy(n)))?;
            field!(both.a).extend(tx, first().skip(30).map(Fussy))?;
            field!(both.b).extend(tx, second().map(Fussy))
        },
        |view, both| {
            [&view[both].a, &view[both].b].map(|queue| counted(queue.len(), queue.iter(view).map(|n| n.0)))
        },
        &[
            ("extend", Keeps::New, |tx, both| field!(both.a).extend(tx, new().map(Fussy))),
            ("extend some", Keeps::New, |tx, both| field!(both.a).extend(tx, some().map(Fussy))),
            ("retain", Keeps::All, |tx, both| Ok(field!(both.a).retain(tx, |n| is_odd(n.0)))),
        ],
    )
}

#[test]
fn a_priority_queue_loses_nothing() -> Result<()> {
    interrupt::<Queues>(
        |tx, both| {
            field!(both.a).clear(tx);
            field!(both.b).clear(tx);
            field!(both.a).extend(tx, first().map(Fussy))?;
            field!(both.b).extend(tx, second().map(Fussy))
        },
        |view, both| {
            [&view[both].a, &view[both].b].map(|queue| counted(queue.len(), queue.iter(view).map(|n| n.0)))
        },
        &[
            ("extend", Keeps::New, |tx, both| field!(both.a).extend(tx, new().map(Fussy))),
            ("append", Keeps::AllSomewhere, |tx, both| field!(both.a).append(tx, field!(both.b))),
            ("append more", Keeps::AllSomewhere, |tx, both| field!(both.b).append(tx, field!(both.a))),
            ("change_first", Keeps::AllSomewhere, |tx, both| {
                field!(both.a).change_first(tx, |_| call(u64::MAX));
                Ok(())
            }),
            ("pop", Keeps::AllSomewhere, |tx, both| Ok(assert!(field!(both.a).pop(tx).is_some()))),
            ("drain_sorted", Keeps::AllSomewhere, |tx, both| Ok(drop(field!(both.a).drain_sorted(tx)))),
        ],
    )
}

#[test]
fn an_ordered_map_loses_nothing() -> Result<()> {
    interrupt::<Trees>(
        |tx, both| {
            field!(both.a).clear(tx);
            field!(both.b).clear(tx);
            first().try_for_each(|n| field!(both.a).insert(tx, &Fussy(n), n).map(drop))?;
            second().try_for_each(|n| field!(both.b).insert(tx, &Fussy(n), n).map(drop))
        },
        |view, both| {
            [&view[both].a, &view[both].b].map(|map| {
                assert!(map.iter(view).all(|(key, value)| map.get(view, key) == Some(value)));
                counted(map.len(), map.iter(view).map(|(key, _)| key.0))
            })
        },
        &[
            ("insert", Keeps::All, |tx, both| field!(both.a).insert(tx, &Fussy(NEW), NEW).map(drop)),
            ("insert again", Keeps::All, |tx, both| field!(both.a).insert(tx, &Fussy(30), 30).map(drop)),
            ("entry", Keeps::All, |tx, both| {
                field!(both.a).entry(tx, &Fussy(NEW)).or_insert_with(|_| Ok(call_of(NEW)))?;
                Ok(())
            }),
            ("remove", Keeps::All, |tx, both| Ok(assert!(field!(both.a).remove(tx, &Fussy(30)).is_some()))),
            ("extend", Keeps::New, |tx, both| {
                let keys: Vec<Fussy> = (NEW..NEW + 40).map(Fussy).collect();
                field!(both.a).extend(tx, new().map(|n| (&keys[(n - NEW) as usize], n)))
            }),
            ("retain", Keeps::All, |tx, both| Ok(field!(both.a).retain(tx, |key, _| is_odd(key.0)))),
            ("extract_if", Keeps::All, |tx, both| {
                Ok(drop(field!(both.a).extract_if(tx, |key, _| is_odd(key.0))))
            }),
            ("drain", Keeps::All, |tx, both| Ok(drop(field!(both.a).drain(tx, Fussy(10)..Fussy(50))))),
            ("drain the rest", Keeps::All, |tx, both| Ok(drop(field!(both.a).drain(tx, Fussy(10)..)))),
            ("append", Keeps::AllSomewhere, |tx, both| field!(both.a).append(tx, field!(both.b))),
            ("split_off", Keeps::All, |tx, both| {
                let split = field!(both.a).split_off(tx, &Fussy(30))?;
                Ok(drop(std::mem::replace(&mut tx[both].b, split)))
            }),
            ("for_each_mut_in", Keeps::All, |tx, both| {
                Ok(field!(both.a).for_each_mut_in(tx, Fussy(10).., |key, value| *value = call_of(key.0)))
            }),
        ],
    )
}

/// The number, after a call.
fn call_of(number: u64) -> u64 {
    call(number);
    number
}

#[test]
fn an_ordered_set_loses_nothing() -> Result<()> {
    interrupt::<TreeSets>(
        |tx, both| {
            field!(both.a).clear(tx);
            field!(both.b).clear(tx);
            first().try_for_each(|n| field!(both.a).insert(tx, &Fussy(n)).map(drop))?;
            second().try_for_each(|n| field!(both.b).insert(tx, &Fussy(n)).map(drop))
        },
        |view, both| {
            [&view[both].a, &view[both].b].map(|set| counted(set.len(), set.iter(view).map(|key| key.0)))
        },
        &[
            ("extend", Keeps::New, |tx, both| {
                let keys: Vec<Fussy> = (NEW..NEW + 40).map(Fussy).collect();
                field!(both.a).extend(tx, new().map(|n| &keys[(n - NEW) as usize]))
            }),
            ("retain", Keeps::All, |tx, both| Ok(field!(both.a).retain(tx, |key| is_odd(key.0)))),
            ("append", Keeps::AllSomewhere, |tx, both| field!(both.a).append(tx, field!(both.b))),
        ],
    )
}

#[test]
fn a_hash_map_loses_nothing() -> Result<()> {
    interrupt::<Maps>(
        |tx, both| {
            field!(both.a).clear(tx);
            field!(both.b).clear(tx);
            field!(both.a).extend(tx, first().map(|n| (Fussy(n), n)))?;
            field!(both.b).extend(tx, second().map(|n| (Fussy(n), n)))
        },
        |view, both| {
            [&view[both].a, &view[both].b].map(|map| {
                assert!(map.iter(view).all(|(key, value)| map.get(view, key) == Some(value)));
                let mut keys = counted(map.len(), map.iter(view).map(|(key, _)| key.0));
                keys.sort_unstable();
                keys
            })
        },
        &[
            ("insert", Keeps::All, |tx, both| field!(both.a).insert(tx, &Fussy(NEW), NEW).map(drop)),
            ("entry", Keeps::All, |tx, both| {
                field!(both.a).entry(tx, &Fussy(NEW)).or_insert_with(|_| Ok(call_of(NEW)))?;
                Ok(())
            }),
            ("remove", Keeps::All, |tx, both| Ok(assert!(field!(both.a).remove(tx, &Fussy(30)).is_some()))),
            ("extend", Keeps::New, |tx, both| field!(both.a).extend(tx, new().map(|n| (Fussy(n), n)))),
            ("extend some", Keeps::New, |tx, both| field!(both.a).extend(tx, some().map(|n| (Fussy(n), n)))),
            ("retain", Keeps::All, |tx, both| Ok(field!(both.a).retain(tx, |key, _| is_odd(key.0)))),
            ("extract_if", Keeps::All, |tx, both| {
                Ok(drop(field!(both.a).extract_if(tx, |key, _| is_odd(key.0))))
            }),
            ("append", Keeps::AllSomewhere, |tx, both| field!(both.a).append(tx, field!(both.b))),
            ("shrink_to_fit", Keeps::All, |tx, both| field!(both.a).shrink_to_fit(tx)),
            ("for_each_mut", Keeps::All, |tx, both| {
                Ok(field!(both.a).for_each_mut(tx, |key, value| *value = call_of(key.0)))
            }),
        ],
    )
}

#[test]
fn a_hash_set_loses_nothing() -> Result<()> {
    interrupt::<Sets>(
        |tx, both| {
            field!(both.a).clear(tx);
            field!(both.b).clear(tx);
            field!(both.a).extend(tx, first().take(5).map(Fussy))?;
            field!(both.b).extend(tx, second().map(Fussy))
        },
        |view, both| {
            [&view[both].a, &view[both].b].map(|set| {
                let mut keys = counted(set.len(), set.iter(view).map(|key| key.0));
                keys.sort_unstable();
                keys
            })
        },
        &[
            ("extend", Keeps::New, |tx, both| field!(both.a).extend(tx, new().map(Fussy))),
            ("retain", Keeps::All, |tx, both| Ok(field!(both.a).retain(tx, |key| is_odd(key.0)))),
            ("append", Keeps::AllSomewhere, |tx, both| field!(both.a).append(tx, field!(both.b))),
            ("shrink_to_fit", Keeps::All, |tx, both| field!(both.b).shrink_to_fit(tx)),
        ],
    )
}

#[test]
fn a_map_with_snapshots_loses_nothing() -> Result<()> {
    interrupt::<Snaps>(
        |tx, both| {
            field!(both.a).clear(tx);
            field!(both.b).clear(tx);
            first().try_for_each(|n| field!(both.a).insert(tx, &Fussy(n), &n).map(drop))?;
            second().try_for_each(|n| field!(both.b).insert(tx, &Fussy(n), &n).map(drop))
        },
        |view, both| {
            [&view[both].a, &view[both].b].map(|map| {
                assert!(map.iter(view).all(|(key, value)| map.get(view, key) == Some(value)));
                counted(map.len(), map.iter(view).map(|(key, _)| key.0))
            })
        },
        &[
            ("insert", Keeps::All, |tx, both| field!(both.a).insert(tx, &Fussy(NEW), &NEW).map(drop)),
            ("remove", Keeps::All, |tx, both| field!(both.a).remove(tx, &Fussy(30)).map(drop)),
            ("extend", Keeps::New, |tx, both| field!(both.a).extend(tx, new().map(|n| (Fussy(n), n)))),
        ],
    )
}

#[test]
fn a_string_loses_nothing() -> Result<()> {
    interrupt::<Strings>(
        |tx, both| field!(both.a).set(tx, "what is retained"),
        |view, both| {
            [&view[both].a, &view[both].b]
                .map(|text| counted(text.len(), text.as_str(view).bytes().map(u64::from)))
        },
        &[("retain", Keeps::All, |tx, both| Ok(field!(both.a).retain(tx, |c| is_odd(u64::from(c)))))],
    )
}
