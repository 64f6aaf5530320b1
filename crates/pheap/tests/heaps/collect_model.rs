//! Random programs run while the heap is collected, and are compared with a model in volatile memory.
//!
//! Except in one test, a cycle begins after a few bytes, and is cut into slices of a few objects, so that
//! transactions come between all of its steps. Every other cycle is a minor one.

use std::cell::RefCell;

use pheap::{Error, Heap, Held, Options, P, Persist, Root, Txn, View};
use proptest::prelude::*;

const LISTS: usize = 12;

#[derive(Persist, Default)]
#[repr(C)]
struct Lists<'r> {
    lists: [Option<P<'r, Node<'r>>>; LISTS],
    table: Option<P<'r, [Entry<'r>]>>,
}

#[derive(Persist)]
#[repr(C)]
struct Node<'r> {
    value: u64,
    next: Option<P<'r, Node<'r>>>,
    text: Option<P<'r, str>>,
}

#[derive(Persist, Clone, Copy)]
#[repr(u8)]
enum Entry<'r> {
    Nothing,
    Number(u64),
    Node(P<'r, Node<'r>>),
}

#[derive(Debug, Clone)]
enum Op {
    Push(usize, u64, bool),
    Pop(usize),
    /// Moves the list behind the first node to another list, which is lost.
    Move(usize, usize),
    /// The same, and cuts it off from that node, or one some steps behind it: what a marker must not miss.
    Cut(usize, usize, usize),
    Swap(usize, usize),
    Clear(usize),
    /// Puts the first node of a list into the table, or a number.
    Table(usize, usize),
    /// Writes a run of the table at once: the long path.
    Fill(usize, usize),
    NewTable(usize),
    Hold(usize),
    LetGo,
    Collect,
    /// Allocates much that is lost at once.
    Waste(usize),
}

#[derive(Debug, Clone)]
struct Step {
    ops: Vec<Op>,
    abort: bool,
}

fn op() -> impl Strategy<Value = Op> {
    let list = 0..LISTS;
    prop_oneof![
        6 => (list.clone(), any::<u64>(), any::<bool>()).prop_map(|(l, v, t)| Op::Push(l, v, t)),
        2 => list.clone().prop_map(Op::Pop),
        2 => (list.clone(), list.clone()).prop_map(|(a, b)| Op::Move(a, b)),
        3 => (list.clone(), list.clone(), 0usize..4).prop_map(|(a, b, n)| Op::Cut(a, b, n)),
        2 => (list.clone(), list.clone()).prop_map(|(a, b)| Op::Swap(a, b)),
        1 => list.clone().prop_map(Op::Clear),
        3 => (0usize..40, list.clone()).prop_map(|(i, l)| Op::Table(i, l)),
        1 => (0usize..40, list.clone()).prop_map(|(i, l)| Op::Fill(i, l)),
        1 => (1usize..200).prop_map(Op::NewTable),
        1 => list.prop_map(Op::Hold),
        1 => Just(Op::LetGo),
        1 => Just(Op::Collect),
        1 => (1usize..300).prop_map(Op::Waste),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (prop::collection::vec(op(), 1..6), prop::bool::weighted(0.15))
        .prop_map(|(ops, abort)| Step { ops, abort });
    prop::collection::vec(step, 1..60)
}

/// A node: its value, its text, and the nodes behind it, shared as on the heap.
type Link = Option<std::rc::Rc<Model>>;

#[derive(Debug)]
struct Model {
    value: u64,
    text: bool,
    next: RefCell<Link>,
}

impl Model {
    fn next(&self) -> Link {
        self.next.borrow().clone()
    }
}

#[derive(Clone, Default)]
struct State {
    /// Links that the transaction has cut, to be restored if it is aborted.
    cut: Vec<(std::rc::Rc<Model>, Link)>,
    lists: [Link; LISTS],
    table: Vec<Cell>,
}

#[derive(Clone)]
enum Cell {
    Nothing,
    Number(u64),
    Node(std::rc::Rc<Model>),
}

fn apply<'r>(tx: &mut Txn<'r>, p: P<'r, Lists<'r>>, state: &mut State, op: &Op) -> pheap::Result<()> {
    match *op {
        Op::Push(list, value, text) => {
            let words = if text { Some(tx.alloc_str(&value.to_string())?) } else { None };
            let node = tx.alloc(Node { value, next: tx[p].lists[list], text: words })?;
            tx[p].lists[list] = Some(node);
            let next = state.lists[list].take();
            state.lists[list] = Some(Model { value, text, next: next.into() }.into());
        }
        Op::Pop(list) => {
            if let Some(node) = tx[p].lists[list] {
                tx[p].lists[list] = tx[node].next;
                state.lists[list] = state.lists[list].take().unwrap().next.borrow().clone();
            }
        }
        Op::Move(from, to) => {
            if let Some(node) = tx[p].lists[from] {
                let rest = tx[node].next;
                tx[p].lists[to] = rest;
                state.lists[to] = state.lists[from].as_ref().unwrap().next();
            }
        }
        Op::Cut(from, to, steps) => {
            let (Some(mut node), Some(mut model)) = (tx[p].lists[from], state.lists[from].clone()) else {
                return Ok(());
            };
            for _ in 0..steps {
                let (Some(next), Some(behind)) = (tx[node].next, model.next()) else { break };
                (node, model) = (next, behind);
            }
            tx[p].lists[to] = tx[node].next;
            tx[node].next = None;
            state.lists[to] = model.next();
            state.cut.push((model.clone(), model.next()));
            model.next.replace(None);
        }
        Op::Swap(a, b) => {
            let lists = &mut tx[p].lists;
            lists.swap(a, b);
            state.lists.swap(a, b);
        }
        Op::Clear(list) => {
            tx[p].lists[list] = None;
            state.lists[list] = None;
        }
        Op::Table(at, list) => {
            if let Some(table) = tx[p].table {
                let at = at % table.len(tx);
                let node = tx[p].lists[list];
                let element = table.at(tx, at);
                tx[element] = node.map_or(Entry::Number(at as u64), Entry::Node);
                let node = state.lists[list].clone();
                state.table[at] = node.map_or(Cell::Number(at as u64), Cell::Node);
            }
        }
        Op::Fill(from, list) => {
            if let Some(table) = tx[p].table {
                let from = from % table.len(tx);
                let node = tx[p].lists[list];
                tx.slice_mut(table, from..).fill(node.map_or(Entry::Nothing, Entry::Node));
                let node = state.lists[list].clone();
                state.table[from..].fill(node.map_or(Cell::Nothing, Cell::Node));
            }
        }
        Op::NewTable(len) => {
            tx[p].table = Some(tx.alloc_slice(len, |i| Entry::Number(i as u64))?);
            state.table = (0..len).map(|i| Cell::Number(i as u64)).collect();
        }
        Op::Waste(count) => {
            for i in 0..count {
                let text = Some(tx.alloc_str("waste")?);
                tx.alloc(Node { value: i as u64, next: tx[p].lists[i % LISTS], text })?;
            }
        }
        Op::Hold(_) | Op::LetGo | Op::Collect => {}
    }
    Ok(())
}

fn same<'r>(view: &View<'r>, mut node: Option<P<'r, Node<'r>>>, model: &Link) {
    let mut model = model.clone();
    while let (Some(at), Some(expected)) = (node, model.clone()) {
        assert_eq!(view[at].value, expected.value);
        let text = view[at].text.map(|text| view[text].to_owned());
        assert_eq!(text, expected.text.then(|| expected.value.to_string()));
        (node, model) = (view[at].next, expected.next());
    }
    assert_eq!(node.is_some(), model.is_some());
}

fn compare(heap: &Heap, root: &Root<Lists<'static>>, state: &State, held: &[(Held<Node<'static>>, Link)]) {
    root.read(|view, p| {
        for (list, model) in view[p].lists.iter().zip(&state.lists) {
            same(view, *list, model);
        }
        let table: &[Entry<'_>] = view[p].table.map_or(&[], |table| &view[table]);
        assert_eq!(table.len(), state.table.len());
        for (entry, cell) in table.iter().zip(&state.table) {
            match (entry, cell) {
                (Entry::Nothing, Cell::Nothing) => {}
                (Entry::Number(a), Cell::Number(b)) => assert_eq!(a, b),
                (Entry::Node(node), Cell::Node(model)) => same(view, Some(*node), &Some(model.clone())),
                _ => panic!("an entry of the table differs"),
            }
        }
        for (held, model) in held {
            same(view, Some(view.get(held).unwrap()), model);
        }
    })
    .unwrap();
    let report = heap.check().unwrap();
    assert!(report.is_clean(), "{report}");
}

fn run(options: &Options, steps: &[Step]) {
    let heap = options.in_memory().unwrap();
    let root: Root<Lists> = heap.root("lists").unwrap();
    let mut state = State::default();
    let mut held: Vec<(Held<Node>, Link)> = Vec::new();
    for step in steps {
        let mut next = state.clone();
        let done = root.txn(|tx, p| {
            step.ops.iter().try_for_each(|op| apply(tx, p, &mut next, op))?;
            let hold = |op: &Op| match *op {
                Op::Hold(list) => tx[p].lists[list].map(|node| (tx.hold(node), next.lists[list].clone())),
                _ => None,
            };
            held.extend(step.ops.iter().filter_map(hold));
            if step.abort { Err(Error::abort("on purpose")) } else { Ok(()) }
        });
        let cut = std::mem::take(&mut next.cut);
        if done.is_ok() {
            state = next;
        } else {
            cut.into_iter().rev().for_each(|(node, next)| drop(node.next.replace(next)));
            held.retain(|(held, _)| root.read(|view, _| view.get(held).is_ok()).unwrap());
        }
        for op in &step.ops {
            match op {
                Op::LetGo => drop(held.pop()),
                Op::Collect => heap.collect().unwrap(),
                _ => {}
            }
        }
        compare(&heap, &root, &state, &held);
    }
    heap.collect().unwrap();
    compare(&heap, &root, &state, &held);
}

fn small() -> Options {
    Options::new().arena_size(32 << 10).reserve(1 << 28)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn slices_of_an_object(steps in steps()) {
        run(&small().collect_least(1), &steps);
    }

    #[test]
    fn slices_of_some_objects(steps in steps()) {
        run(&small().collect_least(700), &steps);
    }

    #[test]
    fn long_transactions(steps in steps()) {
        run(&small().collect_least(100).pin_undo(true), &steps);
    }

    #[test]
    fn a_cycle_now_and_then(steps in steps()) {
        run(&small().collect_least(65 << 10), &steps);
    }
}
