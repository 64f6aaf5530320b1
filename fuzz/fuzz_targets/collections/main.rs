//! Programs of operations on collections, beside the collections of the standard library.
//!
//! Whatever the program does (commits, rollbacks and panics, full disks, collections of garbage, `kill -9` between any two steps of a
//! transaction, other addresses, each durability), the root must hold what the model holds. `ops.rs` says what a program is,
//! `sequences.rs` and `maps.rs` what a step does to both, and this file runs the program.

#![no_main]

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};

use libfuzzer_sys::fuzz_target;
use pheap::{Durability, Error, Heap, Options, P, Root, SyncPolicy, Txn, field};

mod content;
mod maps;
mod ops;
mod sequences;

use content::{All, Model, assert_equal};
use ops::{Durable, End, How, Op, Program, Step};

fuzz_target!(|program: Program| run(&program));

fn run(program: &Program) {
    let dir = pheap_fuzz::scratch();
    let mut world = World::new(program, dir.path());
    for op in program.ops.iter().take(30) {
        world.run(op);
        if std::mem::take(&mut world.files.killed) {
            world.end(How::Killed);
            world.open();
        }
    }
    world.collect();
    world.end(How::Close);
    world.open();
}

/// Where heaps are mapped.
const BASES: [u64; 2] = [0x5400 << 32, 0x5401 << 32];

/// The files of the heap, unless it is in memory.
struct Files {
    heap: Option<PathBuf>,
    /// Copies, if the files at that moment are to be what a crash leaves.
    killed: bool,
}

fn beside(path: &Path, extension: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(extension);
    name.into()
}

impl Files {
    /// Copies both files. The log first: a checkpoint that runs meanwhile takes nothing from it that the copy does not have.
    fn copy(&mut self) {
        let Some(heap) = self.heap.as_deref().filter(|_| !self.killed) else { return };
        for name in [beside(heap, ".wal"), heap.to_owned()] {
            let copy = beside(&name, ".copy");
            if name.exists() {
                fs::copy(&name, copy).expect("the file can be copied");
            } else {
                let _ = fs::remove_file(copy);
            }
        }
        self.killed = true;
    }

    /// Puts the copies in the place of the files.
    fn take_copies(&mut self) {
        let Some(heap) = self.heap.as_deref() else { return };
        for name in [beside(heap, ".wal"), heap.to_owned()] {
            let _ = fs::remove_file(&name);
            let copy = beside(&name, ".copy");
            if copy.exists() {
                fs::rename(copy, &name).expect("the copy can be moved");
            }
        }
    }
}

struct World {
    options: Options,
    /// Number of the base.
    base: usize,
    verify: bool,
    heap: Option<Heap>,
    files: Files,
    model: Model,
}

fn with_durability(options: Options, durable: Durable) -> Options {
    match durable {
        Durable::Process => options.durability(Durability::Process),
        Durable::Pmem => options.durability(Durability::Pmem),
        Durable::Wal => options.durability(Durability::Wal).sync_policy(SyncPolicy::EveryCommit),
        Durable::Lazy => options.durability(Durability::Wal).sync_policy(SyncPolicy::OnDemand),
    }
}

impl World {
    fn new(program: &Program, dir: &Path) -> World {
        let mut options = Options::new()
            .arena_size(64 << 10)
            .reserve(1 << 28)
            .max_size(if program.small { 256 << 10 } else { 16 << 20 })
            .log_limit(1 << 20)
            .collect_threads(1)
            .pin_undo(program.pin_undo);
        if program.eager {
            options = options.collect_least(1).collect_growth(0);
        }
        let options = with_durability(options, program.durable);
        let files = Files { heap: (!program.in_memory).then(|| dir.join("heap")), killed: false };
        let mut world = World { options, base: 0, verify: false, heap: None, files, model: Model::default() };
        world.open();
        world
    }

    fn heap(&self) -> &Heap {
        self.heap.as_ref().expect("it is open")
    }

    /// The root; `None` if there is no room for it.
    fn root(&self) -> Option<Root<All<'static>>> {
        match self.heap().root("all") {
            Ok(root) => Some(root),
            Err(error) => {
                assert!(is_full(&error), "opening the root: {error}");
                None
            }
        }
    }

    fn run(&mut self, op: &Op) {
        match op {
            Op::Txn { steps, end } => self.transaction(steps, *end),
            Op::Reopen { how, pin_undo, durable, moves, verify } => {
                if self.files.heap.is_some() {
                    self.end(*how);
                    self.options = with_durability(self.options.clone().pin_undo(*pin_undo), *durable);
                    self.base = (self.base + usize::from(*moves)) % BASES.len();
                    self.verify = *verify;
                    self.open();
                }
            }
            Op::Collect => self.collect(),
            Op::Check => self.check(),
            Op::Checkpoint => self.heap().checkpoint().expect("it can be made"),
            Op::Remove => {
                if self.heap().remove_root("all").is_ok() {
                    self.model = Model::default();
                }
            }
        }
    }

    fn transaction(&mut self, steps: &[Step], end: End) {
        let Some(root) = self.root() else { return };
        let mut after = self.model.clone();
        let files = &mut self.files;
        let transaction = || {
            root.txn(|tx, all| {
                steps.iter().take(40).try_for_each(|s| step(tx, all, &mut after, s, files))?;
                assert_equal(tx, all, &after);
                match end {
                    End::Commit => Ok(()),
                    End::Abort => Err(Error::abort("as the program says")),
                    // Without the hook, for which a panic is a failure.
                    End::Panic => resume_unwind(Box::new(end)),
                }
            })
        };
        let result = catch_unwind(AssertUnwindSafe(transaction));
        match result {
            Ok(Ok(())) => {
                assert!(end == End::Commit);
                // What was copied before is what a crash leaves.
                if !self.files.killed {
                    self.model = after;
                }
            }
            Ok(Err(Error::Aborted(_))) => assert!(end == End::Abort),
            Ok(Err(error)) => assert!(is_full(&error), "a transaction failed: {error}"),
            Err(panic) => assert!(panic.downcast_ref() == Some(&End::Panic)),
        }
        if !self.files.killed {
            self.compare();
        }
    }

    fn compare(&self) {
        if let Some(root) = self.root() {
            root.read(|view, all| assert_equal(view, all, &self.model)).expect("it can be read");
        }
    }

    fn check(&self) {
        let report = self.heap().check().expect("it can be checked");
        assert!(report.is_clean(), "the heap is not sound: {report}");
    }

    fn collect(&mut self) {
        self.heap().wait_ready().and_then(|()| self.heap().collect()).expect("it can be collected");
        self.check();
        self.compare();
    }

    /// Ends the process, one way or another.
    fn end(&mut self, how: How) {
        if self.files.heap.is_none() {
            return;
        }
        match how {
            How::Close => self.heap.take().expect("it is open").close().expect("it can be closed"),
            How::Drop => self.heap = None,
            How::Killed => {
                // Unless that was done within a transaction.
                if !beside(self.files.heap.as_deref().expect("it has one"), ".copy").exists() {
                    self.files.copy();
                }
                self.heap = None;
                self.files.take_copies();
                self.files.killed = false;
            }
        }
    }

    fn open(&mut self) {
        if self.files.heap.is_none() && self.heap.is_some() {
            return;
        }
        let options = self.options.clone().base(BASES[self.base]).verify(self.verify);
        let heap = match &self.files.heap {
            Some(path) => options.open(path),
            None => options.in_memory(),
        };
        self.heap = Some(heap.expect("it can be opened"));
        self.compare();
    }
}

fn step<'r>(
    tx: &mut Txn<'r>,
    all: P<'r, All<'r>>,
    model: &mut Model,
    step: &Step,
    files: &mut Files,
) -> pheap::Result<()> {
    match step {
        Step::Vec(step) => {
            sequences::vec(tx, field!(all.numbers), field!(all.other), &mut model.numbers, step)
        }
        Step::Boxes(step) => sequences::boxes(tx, field!(all.boxes), &mut model.boxes, step),
        Step::Deque(step) => sequences::deque(tx, field!(all.deque), model, step),
        Step::Text(step) => sequences::text(tx, field!(all.text), &mut model.text, step),
        Step::Names(step) => maps::hash_map(tx, field!(all.names), &mut model.names, step),
        Step::Lists(step) => maps::hash_map(tx, field!(all.lists), &mut model.lists, step),
        Step::HashSet(step) => maps::hash_set(tx, field!(all.hash_set), &mut model.hash_set, step),
        Step::Tree(step) => maps::tree(tx, field!(all.tree), &mut model.tree, step),
        Step::TreeNames(step) => maps::tree(tx, field!(all.tree_names), &mut model.tree_names, step),
        Step::TreeSet(step) => maps::tree_set(tx, field!(all.tree_set), &mut model.tree_set, step),
        Step::CompareAll => {
            assert_equal(tx, all, model);
            Ok(())
        }
        Step::Kill => {
            files.copy();
            Ok(())
        }
    }
}

fn is_full(error: &Error) -> bool {
    matches!(error, Error::OutOfSpace { .. } | Error::ReservationFull { .. })
}
