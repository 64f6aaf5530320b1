//! Runs programs of operations on collections, and compares the results with collections of the standard
//! library.
//!
//! The root must equal the model after each transaction and each opening. A program can have commits,
//! rollbacks and panics, a full heap, garbage collections, a simulated `kill -9` between any two steps of a
//! transaction, moves to other addresses, and all durabilities. `ops.rs` defines programs, `sequences.rs` and
//! `maps.rs` apply a step to both sides, and this file runs programs.

#![no_main]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use pheap::sim::Tuning;
use pheap::{Error, Heap, Options, P, Root, Txn, field};
use pheap_crash::tuning::SMALL;
use pheap_fuzz::{BASES, Files, assert_sound, is_full};

mod content;
mod maps;
mod ops;
mod sequences;

use content::{All, Model, assert_equal};
use ops::{End, How, Op, Program, Step};

fuzz_target!(|program: Program| run(&program));

fn run(program: &Program) {
    let dir = pheap_fuzz::scratch();
    let mut world = World::new(program, dir.path());
    for op in program.ops.iter().take(30) {
        world.run(op);
        if world.is_killed() {
            world.end(How::Killed);
            world.open();
        }
    }
    world.collect();
    world.end(How::Close);
    world.open();
}

struct World {
    options: Options,
    /// Index of the base address in [`BASES`].
    base: usize,
    verify: bool,
    heap: Option<Heap>,
    /// The files of the heap, unless it is in memory.
    files: Option<Files>,
    model: Model,
}

impl World {
    fn new(program: &Program, dir: &Path) -> World {
        let mut options = Options::new()
            .tuning(Tuning { copies: Tuning::SHIPPED.copies, ..SMALL })
            .arena_size(64 << 10)
            .reserve(1 << 28)
            .max_size(if program.small { 256 << 10 } else { 16 << 20 })
            .log_limit(1 << 20)
            .collect_threads(1)
            .pin_undo(program.pin_undo);
        if program.eager {
            options = options.collect_least(1).collect_growth(0);
        }
        let options = program.durable.of(options);
        let files = (!program.in_memory).then(|| Files::new(dir.join("heap")));
        let mut world = World { options, base: 0, verify: false, heap: None, files, model: Model::default() };
        world.open();
        world
    }

    /// Returns whether a transaction has copied the files that a crash leaves.
    fn is_killed(&self) -> bool {
        self.files.as_ref().is_some_and(Files::are_copied)
    }

    fn heap(&self) -> &Heap {
        self.heap.as_ref().expect("it is open")
    }

    /// Returns the root, or `None` if there is no room for it.
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
                if self.files.is_some() {
                    self.end(*how);
                    self.options = durable.of(self.options.clone().pin_undo(*pin_undo));
                    self.base = (self.base + usize::from(*moves)) % BASES.len();
                    self.verify = *verify;
                    self.open();
                }
            }
            Op::Collect => self.collect(),
            Op::Check => assert_sound(self.heap()),
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
                    // Skips the panic hook, which takes a panic for a failure.
                    End::Panic => resume_unwind(Box::new(end)),
                }
            })
        };
        let result = catch_unwind(AssertUnwindSafe(transaction));
        match result {
            Ok(Ok(())) => {
                assert!(end == End::Commit);
                // If the files were copied, a crash leaves the state before the transaction.
                if !self.is_killed() {
                    self.model = after;
                }
            }
            Ok(Err(Error::Aborted(_))) => assert!(end == End::Abort),
            Ok(Err(error)) => assert!(is_full(&error), "a transaction failed: {error}"),
            Err(panic) => assert!(panic.downcast_ref() == Some(&End::Panic)),
        }
        if !self.is_killed() {
            self.compare();
        }
    }

    fn compare(&self) {
        if let Some(root) = self.root() {
            root.read(|view, all| assert_equal(view, all, &self.model)).expect("it can be read");
        }
    }

    fn collect(&mut self) {
        self.heap().wait_ready().and_then(|()| self.heap().collect()).expect("it can be collected");
        assert_sound(self.heap());
        self.compare();
    }

    /// Closes or drops the heap, or simulates a killed process. Does nothing to a heap in memory.
    fn end(&mut self, how: How) {
        let Some(files) = &mut self.files else { return };
        match how {
            How::Close => self.heap.take().expect("it is open").close().expect("it can be closed"),
            How::Drop => self.heap = None,
            How::Killed => {
                files.copy();
                self.heap = None;
                files.take_copies();
            }
        }
    }

    fn open(&mut self) {
        if self.files.is_none() && self.heap.is_some() {
            return;
        }
        let options = self.options.clone().base(BASES[self.base]).verify(self.verify);
        let heap = match &self.files {
            Some(files) => options.open(files.heap()),
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
    files: &mut Option<Files>,
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
        Step::Versions(step) => maps::versions(tx, field!(all.versions), &mut model.versions, step),
        Step::CompareAll => {
            assert_equal(tx, all, model);
            Ok(())
        }
        Step::Kill => {
            files.as_mut().map(Files::copy);
            Ok(())
        }
    }
}
