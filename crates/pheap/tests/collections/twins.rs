//! Compares a collection with its twin from std. Both get the same operations, in transactions that commit or
//! are rolled back, while the heap is collected, closed and opened, killed, moved to other addresses, and
//! checked.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use pheap::{Durability, Heap, Options, P, Persist, Result, Root, Txn, View};
use proptest::prelude::*;

use pheap_testkit::{copy_as_killed, rounds};

/// A collection, and how it is compared with its twin.
pub(crate) trait Twins {
    /// The root: the collection, or a struct that holds it.
    type Root: Persist + Default;
    /// Its twin.
    type Std: Clone + Default + std::fmt::Debug;
    /// Something that is done to both.
    type Op: std::fmt::Debug + Clone;

    /// Any operation.
    fn ops() -> BoxedStrategy<Self::Op>;

    /// Applies the operation to both, and compares the results.
    fn apply<'r>(
        op: &Self::Op,
        tx: &mut Txn<'r>,
        root: P<'r, <Self::Root as Persist>::At<'r>>,
        twin: &mut Self::Std,
    ) -> Result<()>;

    /// Compares all that the two hold, read in several ways.
    fn compare<'r>(view: &View<'r>, root: P<'r, <Self::Root as Persist>::At<'r>>, twin: &Self::Std);
}

/// Tests of collections of several types, each with the caller's `Op`, `op`, `apply` and `compare`.
macro_rules! twins {
    ($($test:ident: $name:ident, $root:ty, $std:ty;)*) => {$(
        struct $name;

        impl Twins for $name {
            type Root = $root;
            type Std = $std;
            type Op = Op;

            fn ops() -> BoxedStrategy<Op> {
                op()
            }

            fn apply<'r>(
                op: &Op,
                tx: &mut Txn<'r>,
                root: P<'r, <$root as pheap::Persist>::At<'r>>,
                twin: &mut $std,
            ) -> Result<()> {
                apply(op, tx, root, twin)
            }

            fn compare<'r>(view: &View<'r>, root: P<'r, <$root as pheap::Persist>::At<'r>>, twin: &$std) {
                compare(view, root, twin);
            }
        }

        #[test]
        fn $test() {
            twins::run::<$name>();
        }
    )*};
}
pub(crate) use twins;

/// How a transaction ends.
#[derive(Debug, Clone, Copy)]
enum End {
    Commit,
    Error,
    Panic,
}

/// What happens to the heap.
#[derive(Debug, Clone)]
enum Step<Op> {
    Txn(Vec<Op>, End),
    /// The latter in a nested part that fails.
    Nested(Vec<Op>, Vec<Op>),
    /// One transaction for each operation.
    Singly(Vec<Op>),
    Collect,
    /// Closed and opened.
    Reopen,
    /// Copied as it is, as if the process had been killed, and the copy opened.
    Kill,
    /// Opened at another address.
    Move(u64),
}

fn steps<Op: std::fmt::Debug + Clone + 'static>(op: BoxedStrategy<Op>) -> BoxedStrategy<Vec<Step<Op>>> {
    let end = prop_oneof![6 => Just(End::Commit), 1 => Just(End::Error), 1 => Just(End::Panic)];
    let step = prop_oneof![
        6 => (prop::collection::vec(op.clone(), 0..60), end).prop_map(|(ops, end)| Step::Txn(ops, end)),
        2 => (prop::collection::vec(op.clone(), 0..30), prop::collection::vec(op.clone(), 0..30))
            .prop_map(|(ops, nested)| Step::Nested(ops, nested)),
        4 => prop::collection::vec(op, 0..40).prop_map(Step::Singly),
        2 => Just(Step::Collect),
        1 => Just(Step::Reopen),
        1 => Just(Step::Kill),
        1 => (0..PLACES_OF_ONE).prop_map(Step::Move),
    ];
    prop::collection::vec(step, 1..12).boxed()
}

const RESERVE: u64 = 1 << 28;
/// The first of the addresses for these heaps. They lie outside of those that pheap chooses itself. Tests run
/// in parallel, so each heap has its private range.
const PLACES: u64 = if cfg!(pheap_tsan) { 0x7a40_0000_0000 } else { 0x6000_0000_0000 };
const PLACES_OF_ONE: u64 = 4;
static HEAPS: AtomicU64 = AtomicU64::new(0);

fn options(pin_undo: bool) -> Options {
    Options::new()
        .arena_size(256 << 10)
        .reserve(RESERVE)
        .durability(Durability::Process)
        .pin_undo(pin_undo)
        .collect_least(64 << 10)
}

struct Bed<T: Twins> {
    dir: tempfile::TempDir,
    /// Its first address.
    places: u64,
    /// The number of the file; a copy gets the next one.
    file: u32,
    pin_undo: bool,
    heap: Option<Heap>,
    root: Option<Root<T::Root>>,
    twin: T::Std,
}

impl<T: Twins> Bed<T>
where
    for<'r, 'n> <T::Root as Persist>::At<'r>: Persist<At<'n> = <T::Root as Persist>::At<'n>>,
{
    fn new(pin_undo: bool) -> Bed<T> {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let places = PLACES + HEAPS.fetch_add(1, Ordering::Relaxed) * PLACES_OF_ONE * RESERVE;
        let mut bed = Bed { dir, places, file: 0, pin_undo, heap: None, root: None, twin: T::Std::default() };
        bed.open(options(pin_undo));
        bed
    }

    fn path(&self) -> std::path::PathBuf {
        self.dir.path().join(format!("{}.pheap", self.file))
    }

    fn open(&mut self, options: Options) {
        let heap = options.open(self.path()).expect("the heap opens");
        self.root = Some(heap.root("twins").expect("the root is there"));
        self.heap = Some(heap);
    }

    fn heap(&self) -> &Heap {
        self.heap.as_ref().expect("the heap is open")
    }

    fn root(&self) -> &Root<T::Root> {
        self.root.as_ref().expect("the heap is open")
    }

    fn close(&mut self) {
        self.root = None;
        self.heap.take().expect("the heap is open").close().expect("the heap is closed");
    }

    fn txn(&mut self, ops: &[T::Op], end: End) {
        let mut twin = self.twin.clone();
        let root = self.root().clone();
        let run = AssertUnwindSafe(|| {
            root.txn(|tx, root| {
                for op in ops {
                    T::apply(op, tx, root, &mut twin)?;
                }
                T::compare(tx, root, &twin);
                match end {
                    End::Commit => Ok(()),
                    End::Error => Err(pheap::Error::NoSuchRoot("given up".to_owned())),
                    End::Panic => std::panic::resume_unwind(Box::new("given up")),
                }
            })
        });
        match (catch_unwind(run), end) {
            (Ok(Ok(())), End::Commit) => self.twin = twin,
            (Ok(Err(pheap::Error::NoSuchRoot(_))), End::Error) => {}
            (Err(panic), End::Panic) if panic.downcast_ref::<&str>() == Some(&"given up") => {}
            (Ok(other), _) => panic!("{other:?} at the end of a transaction"),
            (Err(panic), _) => std::panic::resume_unwind(panic),
        }
    }

    fn nested(&mut self, ops: &[T::Op], nested: &[T::Op]) {
        let (root, twin) = (self.root().clone(), &mut self.twin);
        let done = root.txn(|tx, root| {
            ops.iter().try_for_each(|op| T::apply(op, tx, root, twin))?;
            let failed = tx.nested(root, |tx, root| {
                let mut twin = twin.clone();
                nested.iter().try_for_each(|op| T::apply(op, tx, root, &mut twin))?;
                T::compare(tx, root, &twin);
                Err::<(), _>(pheap::Error::abort("given up"))
            });
            assert!(matches!(failed, Err(pheap::Error::Aborted(_))), "{failed:?}");
            T::compare(tx, root, twin);
            ops.iter().try_for_each(|op| T::apply(op, tx, root, twin))
        });
        done.expect("a transaction");
    }

    fn step(&mut self, step: &Step<T::Op>) {
        match step {
            Step::Nested(ops, nested) => self.nested(ops, nested),
            Step::Txn(ops, end) => self.txn(ops, *end),
            Step::Singly(ops) => ops.iter().for_each(|op| self.txn(std::slice::from_ref(op), End::Commit)),
            Step::Collect => self.root().collect().expect("a collection"),
            Step::Reopen => {
                self.close();
                self.open(options(self.pin_undo));
            }
            Step::Kill => {
                let old = self.path();
                self.file += 1;
                copy_as_killed(&old, &self.path());
                self.root = None;
                self.heap = None;
                self.open(options(self.pin_undo));
            }
            Step::Move(place) => {
                self.close();
                self.open(options(self.pin_undo).base(self.places + place * RESERVE));
            }
        }
        self.root().read(|view, root| T::compare(view, root, &self.twin)).expect("a read");
        let report = self.heap().check().expect("a check");
        assert!(report.is_clean(), "after {step:?}: {report}");
    }
}

/// Runs programs on a collection and its twin.
pub(crate) fn run<T: Twins + 'static>()
where
    T::Op: 'static,
    for<'r, 'n> <T::Root as Persist>::At<'r>: Persist<At<'n> = <T::Root as Persist>::At<'n>>,
{
    let config = ProptestConfig { cases: rounds(16), failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(steps in steps(T::ops()), pin_undo in any::<bool>())| {
        let mut bed = Bed::<T>::new(pin_undo);
        steps.iter().for_each(|step| bed.step(step));
        bed.close();
        // Files from elsewhere are verified as a whole.
        bed.open(options(pin_undo).verify(true));
        bed.root().read(|view, root| T::compare(view, root, &bed.twin)).expect("a read");
    });
}
