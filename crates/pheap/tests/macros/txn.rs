//! What `#[txn]` makes of functions.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pheap::{P, Root, Txn, txn};

use crate::{Gaps, Node, on_both_paths, strict};

#[txn]
fn fields_and_elements<'r>(tx: &mut Txn<'r>, p: P<'r, Node<'r>>) -> pheap::Result<()> {
    let node = tx.alloc(Node { val: 40, ..Node::default() })?;
    tx[p].next = Some(node);
    tx[tx[p].next.unwrap()].val += 2;
    tx[p].grid[2][1] = 5;
    tx[p].grid[2][1] <<= 1;
    tx[p].nested.gaps[1].b |= 6;
    tx[p].wrapped.0 ^= 3;
    (tx[p]).val = 7;

    let items = tx.alloc_slice(3, |_| Gaps::default())?;
    tx[p].items = Some(items);
    tx[items][1].c = 8;
    tx[items][2] = Gaps { a: 1, b: 2, c: 3 };
    tx[items][..2][0].a = 4; // not a place of one element: left to the slice
    tx[items.at(tx, 0)].b -= 0;
    Ok(())
}

#[test]
fn a_function_joins_a_transaction() {
    on_both_paths(|heap| {
        let root: Root<Node> = heap.root("node").unwrap();
        root.txn(fields_and_elements).unwrap();
        root.read(|view, p| {
            let node = &view[p];
            assert_eq!((node.val, node.grid, node.wrapped.0), (7, [[0, 0], [0, 0], [0, 10]], 3));
            assert_eq!(node.nested.gaps[1], Gaps { a: 0, b: 6, c: 0 });
            assert_eq!(view[node.next.unwrap()].val, 42);
            let items = [Gaps { a: 4, b: 0, c: 0 }, Gaps { a: 0, b: 0, c: 8 }, Gaps { a: 1, b: 2, c: 3 }];
            assert_eq!(view[node.items.unwrap()], items);
        })
        .unwrap();
    });
}

#[derive(Debug)]
enum ShopError {
    Heap,
    TooMany(u64),
}

impl From<pheap::Error> for ShopError {
    fn from(_: pheap::Error) -> Self {
        ShopError::Heap
    }
}

trait Counter {
    fn add(&self, counter: &Root<Node<'static>>, by: u64) -> Result<u64, ShopError>;
}

struct Shop {
    calls: std::cell::Cell<u64>,
}

impl Counter for Shop {
    #[txn]
    fn add(&self, counter: &Root<Node<'static>>, by: u64) -> Result<u64, ShopError> {
        self.calls.set(self.calls.get() + 1);
        if by == 0 {
            return Ok(tx[counter].val);
        }
        tx[counter].val += by;
        tx[counter].grid[0][0] += 1;
        if tx[counter].val > 10 {
            Err(ShopError::TooMany(tx[counter].val))?;
        }
        Ok(tx[counter].val)
    }
}

#[test]
fn a_function_opens_a_transaction() {
    on_both_paths(|heap| {
        let root: Root<Node> = heap.root("counter").unwrap();
        let shop = Shop { calls: 0.into() };
        assert_eq!(shop.add(&root, 4).unwrap(), 4);
        assert!(matches!(shop.add(&root, 7), Err(ShopError::TooMany(11))), "rolled back");
        assert_eq!(shop.add(&root, 0).unwrap(), 4, "returned early");
        assert_eq!(shop.add(&root, 6).unwrap(), 10);
        assert_eq!(shop.calls.get(), 4);
        root.read(|view, p| assert_eq!((view[p].val, view[p].grid[0][0]), (10, 2))).unwrap();
    });
}

#[txn]
fn noisy<'r>(tx: &mut Txn<'r>, p: P<'r, Node<'r>>, order: &mut Vec<u8>) {
    let mut note = |n: u8| order.push(n);
    tx[(note(2), p).1].grid[(note(3), 1).1][(note(4), 0).1] = (note(1), 5).1;
    tx[(note(6), p).1].val += (note(5), 5).1;
}

#[test]
fn the_right_side_is_evaluated_first() {
    on_both_paths(|heap| {
        let root: Root<Node> = heap.root("node").unwrap();
        let mut order = Vec::new();
        root.txn(|tx, p| {
            noisy(tx, p, &mut order);
            Ok(())
        })
        .unwrap();
        assert_eq!(order, [1, 2, 3, 4, 5, 6]);
    });
}

#[txn]
fn grouped<'r>(tx: &mut Txn<'r>, p: P<'r, Node<'r>>, q: P<'r, Node<'r>>, i: usize) {
    let old = &tx[p]; // used for the last time on the right side of the first assignment
    tx[q].val = old.val + 1;
    tx[q].grid[i][0] = 1;
    tx[p].val = tx[q].val * 10;
    tx[p].grid[2][1] += tx[q].grid[0][0];
}

#[test]
fn a_group_is_its_assignments_in_order() {
    on_both_paths(|heap| {
        let root: Root<Node> = heap.root("node").unwrap();
        root.txn(|tx, p| {
            let q = tx.alloc(Node::default())?;
            tx[p].val = 3;
            grouped(tx, p, q, 0);
            assert_eq!((tx[q].val, tx[q].grid[0][0], tx[p].val, tx[p].grid[2][1]), (4, 1, 40, 1));
            Ok(())
        })
        .unwrap();
    });
}

#[test]
fn an_index_out_of_bounds_panics_where_it_stands() {
    on_both_paths(|heap| {
        let root: Root<Node> = heap.root("node").unwrap();
        let mut stored_before = 0;
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            root.txn(|tx, p| {
                let q = tx.alloc(Node::default())?;
                let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| grouped(tx, p, q, 3)));
                stored_before = tx[q].val;
                std::panic::resume_unwind(result.unwrap_err());
                #[allow(unreachable_code)]
                Ok(())
            })
        }));
        assert!(panicked.is_err());
        assert_eq!(stored_before, 1, "the assignment in front of it was done");
        root.read(|view, p| assert_eq!(view[p].val, 0, "rolled back")).unwrap();
    });
}

#[txn]
fn panics_at<'r>(tx: &mut Txn<'r>, p: P<'r, Node<'r>>, q: P<'r, u64>, beyond: usize, which: u32) {
    let zero = beyond as u64 - 9;
    match which {
        0 => tx[p].grid[2][beyond] = 1,
        1 => tx[p].val /= zero,
        2 => tx[q] %= zero,
        _ => {}
    }
    for i in 0..2 {
        match which {
            3 => tx[p].grid[i][beyond] += 1,
            4 => _ = tx[p].grid[i][beyond],
            5 => _ = tx[q] / zero,
            _ => {}
        }
    }
}

#[test]
fn a_panic_is_said_to_stand_where_the_code_stands() {
    thread_local! { static LINE: Cell<u32> = const { Cell::new(0) } }
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        LINE.set(info.location().unwrap().line());
        hook(info);
    }));
    let source = include_str!("txn.rs");
    let heap = pheap::Heap::in_memory().unwrap();
    let root: Root<Node> = heap.root("node").unwrap();
    root.txn(|tx, p| {
        let q = tx.alloc(1)?;
        for which in 0..6 {
            LINE.set(0);
            let result = catch_unwind(AssertUnwindSafe(|| panics_at(tx, p, q, 9, which)));
            assert!(result.is_err(), "{which}");
            let line = source.lines().nth(LINE.get() as usize - 1).unwrap();
            assert!(line.trim_start().starts_with(&format!("{which} => ")), "{which}: {line}");
        }
        Ok(())
    })
    .unwrap();
}

#[txn]
fn shadowed<'r>(tx: &mut Txn<'r>, p: P<'r, Node<'r>>) -> u64 {
    {
        let tx = &mut [0, 1];
        tx[1] = 2;
        tx[0] += 3;
    }
    [[0u8; 2]].iter_mut().for_each(|tx| tx[1] = 1);
    for tx in &mut [[0u8; 2]; 2] {
        tx[1] = 1;
    }
    if let Some(tx) = &mut Some([0u8; 2]) {
        tx[1] = 1;
    }
    match &mut Some([0u8; 2]) {
        Some(tx) => tx[1] = 1,
        None => tx[p].val = 1,
    }
    fn nested(tx: &mut [u8]) {
        tx[0] = 1;
    }
    nested(&mut [0]);
    let mut set = |val| tx[p].val = val;
    set(1);
    set(2);
    tx[p].val
}

macro_rules! bind {
    ($name:ident = $value:expr) => {
        let $name = $value;
    };
}

/// The name of a pointer is given to something that has fields.
#[txn]
fn shadowed_pointer<'r>(tx: &mut Txn<'r>, p: P<'r, Node<'r>>) -> u64 {
    let gaps = |a| Some(Gaps { a, ..Gaps::default() });
    let mut sum = 0;
    if let Some(p) = gaps(tx[p].val as u8)
        && p.a == 2
    {
        sum += u64::from(p.a);
    }
    bind!(p = Gaps { a: 3, ..Gaps::default() });
    sum + u64::from(p.a)
}

#[txn]
fn with_attributes<'r>(tx: &mut Txn<'r>, p: P<'r, Node<'r>>) {
    #[cfg(any())]
    {
        tx[p].val = no_such_variable;
    }
    tx[p].val += 1;
    #[cfg(any())]
    {
        tx[p].no_such_field += 1;
    }
    #[cfg(not(any()))]
    {
        tx[p].grid[1][1] += 2;
    }
    #[allow(clippy::identity_op)]
    {
        tx[p].val <<= 1 + 0;
    }
}

#[test]
fn attributes_of_statements_are_kept() {
    on_both_paths(|heap| {
        let root: Root<Node> = heap.root("node").unwrap();
        root.txn(|tx, p| {
            with_attributes(tx, p);
            assert_eq!((tx[p].val, tx[p].grid[1][1]), (2, 2));
            Ok(())
        })
        .unwrap();
    });
}

#[txn]
fn shared<'a, 'b>(one: &mut Txn<'a>, a: P<'a, Node<'a>>, two: &mut Txn<'b>, b: P<'b, Node<'b>>) {
    one[a].val = 1;
    one[a].grid[0][0] = 2;
    two[b].val = one[a].val + 1;
    two[b].grid[0][0] = 3;
}

#[test]
fn names_that_mean_something_else_are_left_alone() {
    on_both_paths(|heap| {
        let root: Root<Node> = heap.root("node").unwrap();
        assert_eq!(root.txn(|tx, p| Ok(shadowed(tx, p))).unwrap(), 2);
        assert_eq!(root.txn(|tx, p| Ok(shadowed_pointer(tx, p))).unwrap(), 2 + 3);
    });
}

#[test]
fn a_function_joins_two_transactions() {
    on_both_paths(|heap| {
        let (one, two): (Root<Node>, Root<Node>) = (heap.root("one").unwrap(), heap.root("two").unwrap());
        pheap::txn((&one, &two), |((ta, a), (tb, b))| {
            shared(ta, a, tb, b);
            Ok(())
        })
        .unwrap();
        one.read(|view, p| assert_eq!((view[p].val, view[p].grid[0][0]), (1, 2))).unwrap();
        two.read(|view, p| assert_eq!((view[p].val, view[p].grid[0][0]), (2, 3))).unwrap();
    });
}

macro_rules! functions {
    ($opens:ident, $joins:ident, $root:ident, $field:ident, $value:expr) => {
        #[txn]
        fn $opens($root: &Root<Node<'_>>) -> pheap::Result<u64> {
            $joins(tx, $root);
            Ok(tx[$root].$field)
        }

        #[txn]
        fn $joins<'r>(tx: &mut Txn<'r>, p: P<'r, Node<'r>>) {
            tx[p].$field = $value;
            let q = p;
            tx[q].$field *= $value;
        }
    };
}

functions!(made_by_macro, joined_by_macro, node, val, 1 + 2);

#[test]
fn functions_may_come_from_a_macro() {
    on_both_paths(|heap| {
        let root: Root<Node> = heap.root("node").unwrap();
        assert_eq!(made_by_macro(&root).unwrap(), 9);
    });
}

#[txn]
fn set_one<'r>(tx: &mut Txn<'r>, p: P<'r, Node<'r>>, value: u64) {
    tx[p].val = value;
}

/// Parts of an object in turn with all of it.
#[txn]
fn set_parts_and_all<'r>(tx: &mut Txn<'r>, p: P<'r, Node<'r>>, value: u64) -> u64 {
    tx[p].val = value;
    tx[p].grid[1][0] = value as u16;
    let before = tx[p].val + u64::from(tx[p].grid[1][0]);
    let all = &mut tx[p];
    all.grid[1][1] = 7;
    all.val += 1;
    tx[p].nested.gaps[0].c = 3;
    tx[p].val *= 2;
    before + tx[p].val
}

/// Whether stores take copies of fields or of objects depends on the transactions before.
#[test]
fn fields_and_objects_agree_whatever_came_before() {
    on_both_paths(|heap| {
        let root: Root<Node> = heap.root("node").unwrap();
        for round in 0..30 {
            for i in 0..round {
                root.txn(|tx, p| {
                    set_one(tx, p, i);
                    Ok(())
                })
                .unwrap();
            }
            let value = 100 * round;
            let commits = round % 3 > 0;
            let result = root.txn(|tx, p| {
                let sum = set_parts_and_all(tx, p, value);
                assert_eq!(sum, 4 * value + 2);
                if commits { Ok(()) } else { Err(pheap::Error::NotHeld) }
            });
            assert_eq!(result.is_ok(), commits);
            root.read(|view, p| {
                let node = &view[p];
                if commits {
                    assert_eq!((node.val, node.grid[1]), (2 * value + 2, [value as u16, 7]));
                } else if round > 0 {
                    assert_eq!(node.val, round - 1);
                }
            })
            .unwrap();
        }
    });
}

#[test]
fn strict_crates_can_use_the_macros() {
    on_both_paths(|heap| {
        let root: Root<u64> = heap.root("number").unwrap();
        assert_eq!(strict::bump(&root, 4).unwrap(), 8);
    });
}

macro_rules! functions_with_body {
    ($opens:ident, $joins:ident, $root:ident, $tx:ident, $p:ident, $opened:block, $joined:block) => {
        #[txn]
        fn $opens($root: &Root<Node<'_>>) -> pheap::Result<u64> $opened

        #[txn]
        fn $joins<'r>($tx: &mut Txn<'r>, $p: P<'r, Node<'r>>) $joined
    };
}

functions_with_body!(
    opened_by_block,
    joined_by_block,
    root,
    tx,
    p,
    {
        let _ = root;
        Ok(4)
    },
    {
        tx[p].val = 5;
    }
);

#[test]
fn bodies_may_come_from_a_macro() {
    on_both_paths(|heap| {
        let root: Root<Node> = heap.root("node").unwrap();
        assert_eq!(opened_by_block(&root).unwrap(), 4);
        root.txn(|tx, p| {
            joined_by_block(tx, p);
            assert_eq!(tx[p].val, 5);
            Ok(())
        })
        .unwrap();
    });
}
