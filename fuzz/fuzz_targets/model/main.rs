//! Runs programs of operations on a heap, and compares the heap with a model of plain Rust collections.
//!
//! The heap must equal the model after each transaction and each opening. A program can have short and long
//! transactions, several roots, rollbacks, a full heap, and a simulated `kill -9` between any two steps of a
//! transaction. `ops.rs` defines programs, `store.rs` applies steps to a root and its model, and this file
//! runs programs.

#![no_main]

use std::collections::BTreeMap;
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use pheap::sim::Tuning;
use pheap::{Error, Heap, Held, Options, Root};
use pheap_crash::tuning::SMALL;
use pheap_fuzz::{BASES, Files, assert_sound, is_full};

mod ops;
mod store;

use ops::{End, How, NAMES, Op, Program, Step, Which};
use store::{Content, Node, Store, assert_equal, step};

fuzz_target!(|program: Program| run(&program));

fn run(program: &Program) {
    let dir = pheap_fuzz::scratch();
    let mut world = World::new(program, dir.path());
    for op in program.ops.iter().take(40) {
        world.run(op);
        if let Some(before) = world.killed.take() {
            world.reopen_copies(before);
        }
    }
    world.reopen(How::Killed);
    world.reopen(How::Close);
}

/// State that steps need in addition to the transaction.
pub struct Surroundings {
    /// The files of the heap, unless it is in memory. A step copies them to simulate a crash at this moment.
    files: Option<Files>,
    /// Nodes that the running transaction holds, with their numbers.
    held: Vec<(Held<Node<'static>>, u64)>,
    /// Number of the next node.
    next_id: u64,
    stubborn: bool,
}

struct World {
    options: Options,
    /// Index of the base address in [`BASES`].
    base: usize,
    heap: Option<Heap>,
    around: Surroundings,
    model: BTreeMap<&'static str, Content>,
    /// Nodes that committed transactions hold, with their roots and numbers.
    held: Vec<(&'static str, Held<Node<'static>>, u64)>,
    /// The model before the transaction that has copied the files, if there was one.
    killed: Option<BTreeMap<&'static str, Content>>,
}

impl World {
    fn new(program: &Program, dir: &Path) -> World {
        let options = Options::new()
            .tuning(Tuning { copies: Tuning::SHIPPED.copies, ..SMALL })
            .arena_size(1 << (15 + u32::from(program.arena % 4)))
            .reserve(1 << 28)
            .max_size(if program.small { 400 << 10 } else { 16 << 20 })
            .log_limit(1 << 20)
            .base(BASES[0])
            .pin_undo(program.pin_undo);
        let options = program.durable.of(options);
        let files = (!program.in_memory).then(|| Files::new(dir.join("heap")));
        let heap = match &files {
            Some(files) => options.open(files.heap()),
            None => options.in_memory(),
        };
        World {
            options,
            base: 0,
            heap: Some(heap.expect("a new heap can be made")),
            around: Surroundings { files, held: Vec::new(), next_id: 1, stubborn: program.stubborn },
            model: BTreeMap::new(),
            held: Vec::new(),
            killed: None,
        }
    }

    fn heap(&self) -> &Heap {
        self.heap.as_ref().expect("it is open")
    }

    /// Returns the root of this name. Creates it if it is absent and there is room for it.
    fn root(&mut self, which: Which) -> Option<(&'static str, Root<Store<'static>>)> {
        let name = NAMES[usize::from(which.0) % NAMES.len()];
        match self.heap().root::<Store>(name) {
            Ok(root) => {
                self.model.entry(name).or_default();
                Some((name, root))
            }
            Err(error) => {
                assert!(is_full(&error) && !self.model.contains_key(name), "opening root {name}: {error}");
                None
            }
        }
    }

    fn run(&mut self, op: &Op) {
        match op {
            Op::One { root, steps, end } => self.one(*root, steps, *end),
            Op::Two { roots, steps, end } => self.two(*roots, steps, *end),
            Op::All { steps, end } => self.all(steps, *end),
            Op::Rename { from, to } => self.rename(*from, *to),
            Op::Remove(which) => self.remove(*which),
            Op::Reopen { how, pin_undo, durable, moves } => {
                self.options = durable.of(self.options.clone().pin_undo(*pin_undo));
                if self.around.files.is_some() {
                    self.base = (self.base + usize::from(*moves)) % BASES.len();
                    self.options = self.options.clone().base(BASES[self.base]);
                }
                self.reopen(*how);
            }
            Op::Collect => {
                self.heap().wait_ready().and_then(|()| self.heap().collect()).expect("it can be collected");
                assert_sound(self.heap());
                self.check_all();
            }
            Op::Checkpoint => self.heap().checkpoint().expect("it can be made"),
        }
    }

    fn one(&mut self, which: Which, steps: &[Step], end: End) {
        let Some((name, root)) = self.root(which) else { return };
        let mut after = self.model[name].clone();
        let around = &mut self.around;
        let result = root.txn(|tx, store| {
            for s in steps.iter().take(40) {
                if matches!(s, Step::Nested) {
                    assert!(matches!(root.txn(|_, _| Ok(())), Err(Error::Nested)));
                }
                step(tx, store, &mut after, s, around)?;
            }
            assert_equal(tx, store, &after);
            end.result()
        });
        self.ended(&result, end, vec![(name, after)]);
        self.check(name, &root);
    }

    fn two(&mut self, roots: (Which, Which), steps: &[(bool, Step)], end: End) {
        let (Some((a_name, a)), Some((b_name, b))) = (self.root(roots.0), self.root(roots.1)) else { return };
        if a_name == b_name {
            let twice = pheap::txn((&a, &b), |_| Ok(()));
            assert!(matches!(twice, Err(Error::DuplicateRoot { .. })));
            return;
        }
        let (mut in_a, mut in_b) = (self.model[a_name].clone(), self.model[b_name].clone());
        let around = &mut self.around;
        let result = pheap::txn((&a, &b), |((ta, a), (tb, b))| {
            for (second, s) in steps.iter().take(40) {
                // A held node belongs to one of the roots, but the model does not record which. So only `one`
                // holds nodes.
                let s = if matches!(s, Step::Hold(_)) { &Step::Check } else { s };
                if *second { step(tb, b, &mut in_b, s, around)? } else { step(ta, a, &mut in_a, s, around)? }
            }
            assert_equal(ta, a, &in_a);
            assert_equal(tb, b, &in_b);
            end.result()
        });
        self.ended(&result, end, vec![(a_name, in_a), (b_name, in_b)]);
        self.check(a_name, &a);
        self.check(b_name, &b);
    }

    fn all(&mut self, steps: &[(u8, Step)], end: End) {
        let names: Vec<&'static str> = self.model.keys().copied().collect();
        let roots: Vec<Root<Store>> =
            names.iter().map(|name| self.heap().existing_root(name).expect("it was there")).collect();
        if roots.is_empty() {
            return;
        }
        let mut after: Vec<Content> = names.iter().map(|name| self.model[name].clone()).collect();
        let around = &mut self.around;
        let result = pheap::txn(&roots[..], |mut shards| {
            for (which, s) in steps.iter().take(40) {
                let i = usize::from(*which) % shards.len();
                let s = if matches!(s, Step::Hold(_)) { &Step::Check } else { s };
                shards.with(i, |tx, store| step(tx, store, &mut after[i], s, around))?;
            }
            end.result()
        });
        self.ended(&result, end, names.iter().copied().zip(after).collect());
        for (name, root) in names.iter().zip(&roots) {
            self.check(name, root);
        }
    }

    /// Checks the result of a transaction, and updates the model.
    fn ended(&mut self, result: &pheap::Result<()>, end: End, after: Vec<(&'static str, Content)>) {
        match result {
            Ok(()) => assert!(end == End::Commit),
            Err(Error::Aborted(_)) => assert!(end == End::Abort),
            Err(error) => assert!(is_full(error), "a transaction failed: {error}"),
        }
        if self.around.files.as_ref().is_some_and(Files::are_copied) {
            self.killed.get_or_insert_with(|| self.model.clone());
        }
        let held: Vec<_> = self.around.held.drain(..).collect();
        let root: Option<(&'static str, Root<Store>)> =
            after.first().map(|(name, _)| (*name, self.heap().existing_root(name).expect("it was there")));
        for (held, id) in held {
            let (name, root) = root.as_ref().expect("a transaction is on a root");
            if result.is_ok() {
                self.held.push((name, held, id));
            } else {
                root.read(|view, _| assert!(matches!(view.get(&held), Err(Error::NotHeld))))
                    .expect("it can be read");
            }
        }
        if result.is_ok() {
            self.model.extend(after);
        }
    }

    fn check(&self, name: &'static str, root: &Root<Store<'static>>) {
        root.read(|view, store| {
            assert_equal(view, store, &self.model[name]);
            for (owner, held, id) in &self.held {
                match view.get(held) {
                    Ok(node) => assert!(*owner == name && view[node].id() == *id),
                    Err(error) => assert!(*owner != name, "{error}"),
                }
            }
        })
        .expect("a root can be read");
    }

    fn check_all(&self) {
        let names: Vec<String> = self.heap().roots().into_iter().map(|root| root.name).collect();
        assert_eq!(names, self.model.keys().copied().collect::<Vec<_>>());
        for name in self.model.keys() {
            self.check(name, &self.heap().existing_root(name).expect("it was there"));
        }
    }

    fn rename(&mut self, from: Which, to: Which) {
        let [from, to] = [from, to].map(|which| NAMES[usize::from(which.0) % NAMES.len()]);
        match self.heap().rename_root(from, to) {
            Ok(()) => {
                let content = self.model.remove(from).expect("it was there");
                self.model.insert(to, content);
                self.held.iter_mut().filter(|(name, ..)| *name == from).for_each(|(name, ..)| *name = to);
            }
            Err(Error::NoSuchRoot(_)) => assert!(!self.model.contains_key(from)),
            Err(Error::RootExists(_)) => assert!(self.model.contains_key(to)),
            Err(error) => panic!("renaming {from} to {to}: {error}"),
        }
    }

    fn remove(&mut self, which: Which) {
        let name = NAMES[usize::from(which.0) % NAMES.len()];
        let handle = self.heap().existing_root::<Store>(name);
        match self.heap().remove_root(name) {
            Ok(()) => {
                self.model.remove(name).expect("it was there");
                self.held.retain(|(owner, ..)| *owner != name);
                assert!(matches!(handle.expect("it was there").read(|_, _| ()), Err(Error::Closed)));
            }
            Err(Error::NoSuchRoot(_)) => assert!(!self.model.contains_key(name)),
            Err(error) => panic!("removing {name}: {error}"),
        }
        self.check_all();
    }

    /// Closes or drops the heap, or simulates a killed process, and opens the heap again. Does nothing to a
    /// heap in memory.
    fn reopen(&mut self, how: How) {
        let Some(files) = &mut self.around.files else { return };
        self.held.clear();
        match how {
            How::Close => self.heap.take().expect("it is open").close().expect("it can be closed"),
            How::Drop => self.heap = None,
            How::Killed | How::ReadOnly => {
                files.copy();
                self.heap = None;
                files.take_copies();
            }
        }
        if how == How::ReadOnly {
            let before = files.read();
            self.heap =
                Some(self.options.clone().read_only(true).open(files.heap()).expect("it can be opened"));
            self.check_all();
            self.heap = None;
            let after = self.around.files.as_ref().expect("it has some").read();
            assert!(before == after, "a read-only heap has changed its files");
        }
        self.open();
    }

    /// Continues with the copies of the files. They must have this content.
    fn reopen_copies(&mut self, content: BTreeMap<&'static str, Content>) {
        (self.heap, self.model) = (None, content);
        self.held.clear();
        self.around.files.as_mut().expect("there are copies of files only").take_copies();
        self.open();
    }

    fn open(&mut self) {
        let files = self.around.files.as_ref().expect("it has some");
        self.heap = Some(self.options.open(files.heap()).expect("it can be opened"));
        self.check_all();
    }
}
