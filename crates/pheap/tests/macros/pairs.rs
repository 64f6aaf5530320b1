//! Neighbouring stores of `#[txn]` functions, which are logged together.

use std::num::Wrapping;
use std::ops::{Deref, DerefMut, Range};

use pheap::{Durability, Heap, Options, P, Persist, Root, Txn, txn};

#[derive(Persist, Default)]
#[repr(C)]
struct Wide {
    first: u64,
    grid: [[u64; 32]; 5],
}

#[txn]
fn together<'r>(tx: &mut Txn<'r>, p: P<'r, Wide>) {
    tx[p].first += 1;
    tx[p].grid[1][3] += 1;
}

#[txn]
fn one_by_one<'r>(tx: &mut Txn<'r>, p: P<'r, Wide>) {
    tx[p].first += 1;
    {}
    tx[p].grid[1][3] += 1;
}

fn whole_object<'r>(tx: &mut Txn<'r>, p: P<'r, Wide>) {
    tx[p].first += 1;
    tx[p].grid[1][3] += 1;
}

/// Fences and bytes of log of one transaction on the long path.
fn cost(root: &Root<Wide>, heap: &Heap, run: for<'r> fn(&mut Txn<'r>, P<'r, Wide>)) -> (u64, u64) {
    let before = heap.stats();
    root.txn(|tx, p| {
        run(tx, p);
        Ok(())
    })
    .unwrap();
    let after = heap.stats();
    (after.fences - before.fences, after.log_bytes - before.log_bytes)
}

#[test]
fn only_the_fields_are_logged_and_a_pair_shares_a_fence() {
    let dir = tempfile::tempdir().unwrap();
    let options =
        Options::new().durability(Durability::Pmem).pin_undo(true).arena_size(1 << 16).reserve(1 << 24);
    let heap = options.open(dir.path().join("wide.pheap")).unwrap();
    let root: Root<Wide> = heap.root("wide").unwrap();
    let (fences, bytes) = cost(&root, &heap, together);
    let (fences_apart, bytes_apart) = cost(&root, &heap, one_by_one);
    let (_, bytes_whole) = cost(&root, &heap, whole_object);
    assert_eq!(fences + 1, fences_apart, "one fence for two entries");
    assert!(bytes < bytes_apart && bytes < bytes_whole, "{bytes} {bytes_apart} {bytes_whole}");
    root.read(|view, p| assert_eq!((view[p].first, view[p].grid[1][3]), (3, 3))).unwrap();
}

/// Exchanges elements, pair by pair.
#[txn]
fn exchange<'r>(tx: &mut Txn<'r>, numbers: P<'r, [u64]>, pairs: &[(usize, usize)]) {
    for &(i, j) in pairs {
        let (x, y) = (tx[numbers][i], tx[numbers][j]);
        tx[numbers][i] = y;
        tx[numbers][j] = x;
    }
}

#[test]
fn two_elements_share_a_fence_if_the_first_needs_one() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().durability(Durability::Pmem).pin_undo(true);
    let heap = options.open(dir.path().join("numbers.pheap")).unwrap();
    let root: Root<P<[u64]>> = heap.root_or("numbers", |tx| tx.alloc_slice(1000, |i| i as u64)).unwrap();
    let fences = |pairs: &[(usize, usize)]| {
        let (before, mut fences) = (heap.stats().fences, 0);
        let result = root.txn(|tx, p| {
            let numbers = tx[p];
            exchange(tx, numbers, pairs);
            let expected: Vec<u64> = {
                let mut numbers: Vec<u64> = (0..1000).collect();
                pairs.iter().for_each(|&(i, j)| numbers.swap(i, j));
                numbers
            };
            assert_eq!(tx[numbers], expected);
            fences = heap.stats().fences - before;
            Err::<(), _>(pheap::Error::abort("to see it undone"))
        });
        assert!(result.is_err());
        root.read(|view, p| assert!(view[view[p]].iter().copied().eq(0..1000))).unwrap();
        fences
    };
    let one = fences(&[(100, 900)]);
    assert_eq!(fences(&[(100, 900), (100, 900), (900, 100)]), one, "both are logged by then");
    assert_eq!(fences(&[(100, 900), (500, 700)]), one + 1, "a fence for each pair");
    assert_eq!(fences(&[(100, 900), (100, 500), (500, 100)]), one + 1, "only the other one is new");
    assert_eq!(fences(&[(100, 900), (500, 100)]), one + 1, "only the first one is new");
}

/// A type of one's own that `#[txn]` takes for a transaction by its name.
mod wrapped {
    pub(super) struct Txn<'a, 'r> {
        pub(super) tx: &'a mut pheap::Txn<'r>,
        pub(super) numbers: pheap::P<'r, [u64]>,
        /// At so many calls it stores until the undo log cannot grow.
        pub(super) dooms_at: u32,
        pub(super) calls: u32,
    }
}

impl<'r> Deref for wrapped::Txn<'_, 'r> {
    type Target = Txn<'r>;

    fn deref(&self) -> &Txn<'r> {
        self.tx
    }
}

impl<'r> DerefMut for wrapped::Txn<'_, 'r> {
    fn deref_mut(&mut self) -> &mut Txn<'r> {
        self.calls += 1;
        if self.calls == self.dooms_at {
            for i in (0..self.numbers.len(self.tx)).step_by(8) {
                self.tx.slice_mut(self.numbers, i..i + 1)[0] = 5;
            }
            assert!(format!("{:?}", self.tx).contains("Doomed"));
            let first = self.numbers.at(self.tx, 0);
            self.tx[first] = 100;
        }
        self.tx
    }
}

#[txn]
fn two<'r>(tx: &mut wrapped::Txn<'_, 'r>, numbers: P<'r, [u64]>) {
    tx[numbers][0] = 7;
    tx[numbers][900] = 8;
}

#[test]
fn a_place_is_not_used_behind_code_that_may_move_it() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().durability(Durability::Process).pin_undo(true).max_size(16 << 20);
    let heap = options.open(dir.path().join("numbers.pheap")).unwrap();
    let root: Root<P<[u64]>> = heap.root_or("numbers", |tx| tx.alloc_slice(1_400_000, |_| 5)).unwrap();
    for (dooms_at, expected) in [(0, [7, 8]), (1, [7, 8]), (2, [100, 8])] {
        let result = root.txn(|tx, p| {
            let numbers = tx[p];
            let element = numbers.at(tx, 0);
            tx[element] = 6;
            let mut tx = wrapped::Txn { tx, numbers, dooms_at, calls: 0 };
            two(&mut tx, numbers);
            assert_eq!([0, 900].map(|i| tx.tx[numbers.at(tx.tx, i)]), expected, "{dooms_at}");
            Err::<(), _>(pheap::Error::abort("to see it undone"))
        });
        assert!(result.is_err());
    }
}

#[derive(Persist, Default)]
#[repr(C)]
struct Sums {
    sum: Wrapping<u64>,
    counts: [u64; 8],
}

fn raised(i: &mut usize) -> Wrapping<u64> {
    *i += 1;
    Wrapping(*i as u64)
}

/// A `+=` that is a call of `AddAssign` has its place evaluated first.
#[txn]
fn count<'r>(tx: &mut Txn<'r>, p: P<'r, Sums>, mut q: P<'r, Sums>) {
    let mut i = 3;
    let up = &mut i;
    tx[p].sum += raised(up);
    tx[q].counts[i] = 1;
    let up = &mut i;
    tx[p].sum += {
        *up += 1;
        Wrapping(10)
    };
    tx[q].counts[i] = 2;
    let mut turn = || {
        q = p;
        Wrapping(100)
    };
    tx[p].sum += turn();
    tx[q].counts[0] = 3;
}

#[test]
fn a_right_side_may_change_what_chooses_the_next_place() {
    let heap = Heap::in_memory().unwrap();
    let root: Root<Sums> = heap.root("sums").unwrap();
    root.txn(|tx, p| {
        let q = tx.alloc(Sums::default())?;
        count(tx, p, q);
        assert_eq!((tx[p].sum, tx[p].counts), (Wrapping(114), [3, 0, 0, 0, 0, 0, 0, 0]));
        assert_eq!((tx[q].sum, tx[q].counts), (Wrapping(0), [0, 0, 0, 0, 1, 2, 0, 0]));
        Ok(())
    })
    .unwrap();
}

/// A range is not `Copy`, and chooses the place of the second store for the log before it chooses it.
#[txn]
fn within_range<'r>(tx: &mut Txn<'r>, p: P<'r, Sums>, q: P<'r, Sums>, range: Range<usize>) {
    tx[p].sum = Wrapping(1);
    tx[q].counts[range][1] = 7;
}

#[test]
fn a_range_may_choose_the_second_place() {
    let heap = Options::new().pin_undo(true).in_memory().unwrap();
    let root: Root<Sums> = heap.root("sums").unwrap();
    root.txn(|tx, p| {
        let q = tx.alloc(Sums::default())?;
        within_range(tx, p, q, 2..5);
        assert_eq!((tx[p].sum, tx[q].counts), (Wrapping(1), [0, 0, 0, 7, 0, 0, 0, 0]));
        Ok(())
    })
    .unwrap();
}
