//! Tests of the allocator under transactions that end in any way. Collections begin between them and end
//! anywhere.

use super::*;
use crate::region::Exclusive;
use crate::{Durability, Options, P, Root};

impl Allocator {
    /// Checks the invariants that hold between two transactions.
    fn check(&self, heap: &Store) {
        assert!(self.saved.is_empty() && self.runs.is_empty() && self.taken.is_empty() && !self.unlist);
        let mut owned = vec![0; self.classes.len()];
        for number in 0..self.spans.end_number() {
            let Some(span) = self.spans.get(number) else { continue };
            assert_eq!(self.spans.locate_slot(&heap.page_map, span.span.offset), Some((number, 0)));
            assert!(span.live.is_empty() || span.used as usize == span.live.count_ones());
            let Some(class) = self.classes.get(span.class as usize) else { continue };
            assert_eq!((span.span.entry.ty, span.span.entry.slot), (class.ty, class.slot));
            assert_eq!(span.listed, class.partial.contains(&number), "span {number}");
            owned[span.class as usize] += span.known_bytes();
        }
        for (i, class) in self.classes.iter().enumerate() {
            let is_own = |number| self.spans.get(number).is_some_and(|span| span.class as usize == i);
            assert!(class.current == NO_SPAN || is_own(class.current), "class {i} fills {}", class.current);
            assert!(class.partial.iter().all(|&number| is_own(number)));
            assert_eq!(class.owned, owned[i]);
            if class.next != class.end {
                let (number, first) =
                    self.spans.locate_slot(&heap.page_map, (class.next - heap.base().addr()) as u64).unwrap();
                let span = self.spans.get(number).unwrap();
                let count = (class.end - class.next) as u64 / u64::from(class.slot);
                assert!(is_own(number));
                assert!(
                    (u64::from(first)..u64::from(first) + count).all(|slot| span.live.test(slot as usize))
                );
            }
        }
    }
}

fn check<T>(root: &Root<T>) {
    let exclusive = Exclusive::begin_transaction(&root.heap, &root.region, root.ty).unwrap();
    exclusive.context().alloc.check(&root.heap);
}

fn options(pin_undo: bool) -> Options {
    let small = Options::new().arena_size(256 << 10).max_size(512 << 10).reserve(1 << 30);
    small.durability(Durability::Process).pin_undo(pin_undo).collect_threads(1)
}

/// A number of elements for which the heap has no room.
const TOO_MUCH: usize = 1 << 20;

#[test]
fn a_rollback_does_not_bring_back_a_span_that_was_swept_away() {
    for pin_undo in [false, true] {
        let heap = options(pin_undo).in_memory().unwrap();
        let root = heap.root::<u64>("number").unwrap();
        // Fills the first span of the class with garbage.
        root.txn(|tx, _| (0..8).try_for_each(|i| tx.alloc([i; 64]).map(drop))).unwrap();
        assert_eq!(root.region.begin_cycle(heap.inner()), Some(true));
        let mut completed = 0;
        let full = root.txn(|tx, _| {
            tx.alloc([77u64; 64])?; // this object gets another span
            let full = tx.alloc_slice(TOO_MUCH, |_| 0u64);
            completed = heap.stats().collections;
            full.map(drop)
        });
        assert!(matches!(full, Err(Error::OutOfSpace { .. })), "{full:?}");
        assert_eq!(completed, 1, "in the transaction");
        check(&root);
        // New spans get the numbers of the removed ones.
        root.txn(|tx, _| {
            tx.alloc([1u64; 5])?;
            tx.alloc([1u64; 64]).map(drop)
        })
        .unwrap();
        check(&root);
    }
}

#[test]
fn spans_of_which_nothing_is_known_do_not_make_the_next_one_larger() {
    let heap = options(false).in_memory().unwrap();
    let root = heap.root::<u64>("number").unwrap();
    root.txn(|tx, _| (0..200u64).try_for_each(|i| tx.alloc([i; 64]).map(drop))).unwrap();
    let exclusive = Exclusive::begin_transaction(&root.heap, &root.region, root.ty).unwrap();
    let of = &exclusive.context().alloc.spans;
    let spans: Vec<_> = of.iter().filter(|span| span.slot == 512).map(|span| span.span).collect();
    let bytes: u64 = spans.iter().map(TakenSpan::bytes).sum();
    assert!(spans.len() > 2, "{spans:?}");
    // A new allocator loads the spans as after a kill of the process: no live slots are known.
    let mut alloc = Allocator::default();
    alloc.load(&spans, |ty| root.heap.pointer_map(ty), |_| false);
    assert_eq!(alloc.classes[0].owned, 0);
    alloc.begin_collection(false);
    for number in 0..alloc.spans.end_number() {
        alloc.spans.get_mut(number).marks.set_range(0, 1);
        assert!(matches!(alloc.sweep(&root.heap, number), SweptSpan::Kept));
    }
    assert_eq!(alloc.classes[0].owned, bytes);
}

struct Rng(u64);

impl Rng {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) as usize % n
    }
}

const SLOTS: usize = 12;
type Slices<'r> = [Option<P<'r, [u64]>>; SLOTS];

/// Runs one transaction, which may fail. Returns whether it was committed.
fn transact(root: &Root<Slices<'static>>, model: &mut [Vec<u64>], random: &mut Rng) -> bool {
    let mut next = model.to_vec();
    let (fails, goes_on) = (random.below(3) == 0, random.below(2) == 0);
    let result = root.txn(|tx, top| {
        for _ in 0..1 + random.below(6) {
            let value = random.below(1 << 20) as u64;
            let done = match random.below(7) {
                0 => (0..random.below(300)).try_for_each(|_| tx.alloc([value; 2]).map(drop)),
                1 => (0..random.below(30)).try_for_each(|_| tx.alloc([value; 64]).map(drop)),
                2 => (0..random.below(8)).try_for_each(|_| tx.alloc([value; 639]).map(drop)),
                3 => tx.alloc_slice(TOO_MUCH, |_| value).map(drop),
                kind => {
                    let (i, len) = (random.below(SLOTS), 1 + random.below([1, 20, 600, 8000][kind - 3]));
                    tx.alloc_slice(len, |_| value).map(|slice| {
                        tx[top][i] = Some(slice);
                        next[i] = vec![value; len];
                    })
                }
            };
            if !goes_on {
                done?;
            }
        }
        if fails { Err(Error::abort("as it should")) } else { Ok(()) }
    });
    match &result {
        Ok(()) => model.clone_from_slice(&next),
        Err(error) => assert!(matches!(error, Error::OutOfSpace { .. } | Error::Aborted(_)), "{error}"),
    }
    result.is_ok()
}

#[test]
fn spans_and_classes_agree_after_any_transaction() {
    let (mut committed, mut rolled_back) = (0, 0);
    for seed in 0..60 {
        let mut random = Rng(seed);
        // Collections with the default pace, or in the smallest steps.
        let least = [4 << 20, 1][random.below(2)];
        let heap = options(random.below(2) == 0).collect_least(least).in_memory().unwrap();
        let root = heap.root::<Slices>("slices").unwrap();
        let mut model = vec![Vec::new(); SLOTS];
        for _ in 0..60 {
            match random.below(8) {
                0 => drop(root.region.begin_cycle(heap.inner())),
                1 => drop(root.region.collect_alone(heap.inner())),
                2 => root.collect().unwrap(),
                _ if transact(&root, &mut model, &mut random) => committed += 1,
                _ => rolled_back += 1,
            }
            check(&root);
        }
        let found = root
            .read(|view, top| view[top].map(|slice| slice.map_or(Vec::new(), |slice| view[slice].to_vec())))
            .unwrap();
        assert!(found.as_slice() == model, "seed {seed}");
        let report = heap.check().unwrap();
        assert!(report.is_clean(), "seed {seed}: {report}");
    }
    assert!(committed > 500 && rolled_back > 500, "{committed}, {rolled_back}");
}
