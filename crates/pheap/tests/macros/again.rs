//! In loops, `#[txn]` keeps what a pointer leads to in a variable. Whatever is done with `tx[p]` there means what it means elsewhere.

#![allow(clippy::all, unused_parens)] // all is said in each way that there is

use std::num::NonZeroU8;

use pheap::{Heap, P, Persist, Root, Txn, View, txn};

#[derive(Persist, Default, Clone, Copy, Debug, PartialEq)]
#[repr(C)]
struct Part {
    x: u64,
    y: [u32; 4],
}

#[derive(Persist, Default, Clone, Copy, Debug, PartialEq)]
#[repr(C)]
struct Whole {
    n: u64,
    flag: bool,
    part: Part,
    parts: [Part; 3],
    maybe: Option<NonZeroU8>,
}

impl Whole {
    fn add(&mut self, by: u64) -> u64 {
        self.n += by;
        self.n
    }

    fn sum(&self) -> u64 {
        self.n + self.part.x + self.parts.iter().map(|part| part.x).sum::<u64>()
    }
}

fn root(heap: &Heap) -> Root<Whole> {
    heap.root("whole").unwrap()
}

fn view_sum<'r>(view: &View<'r>, p: P<'r, Whole>) -> u64 {
    view[p].sum()
}

/// All that reads, and some that borrows mutably, moves, or hides names.
#[txn]
fn everything<'r>(tx: &mut Txn<'r>, p: P<'r, Whole>, mut q: P<'r, Part>, rounds: u64) -> u64 {
    let mut seen = 0;
    let other = q;
    for round in 0..rounds {
        tx[p].n += round;
        tx[q].x = tx[p].n * 2 + tx[p].part.x;
        seen += tx[p].n + (tx[p].n) + { tx[p].n } + [tx[p].n, 1][0] + (tx[p].n, 2).0;
        seen += u64::from(tx[p].part.y[round as usize % 4]) + tx[q].x.min(7) + -(-(tx[p].n as i64)) as u64;
        tx[p].part.y[tx[p].n as usize % 4] ^= round as u32;
        if tx[p].flag {
            seen += 1;
        }
        tx[p].flag = !tx[p].flag && round != 1;
        // Borrowed mutably, by each way to say it.
        seen += tx[p].add(1);
        (tx[p].part).x += 1;
        (tx[p]).part.x += 1;
        *(&mut tx[p].part.x) += 1;
        *(&mut (tx[p].part.x)) += 1;
        let Part { x, .. } = &mut tx[p].part;
        *x += 1;
        std::mem::swap(&mut tx[p].part.x, &mut seen);
        tx[p].parts.reverse();
        tx[p].parts[..2].fill(Part { x: round, ..Part::default() });
        for part in tx[p].parts.iter_mut() {
            part.x += 1;
        }
        match &mut tx[p].maybe {
            Some(byte) => *byte = byte.saturating_add(1),
            none => *none = Some(NonZeroU8::MIN),
        }
        if let Some(byte) = tx[p].maybe {
            seen += u64::from(byte.get());
        }
        let Some(_) = tx[p].maybe else { panic!("it was just set") };
        // Assigned to by a pattern, or in parentheses behind all kinds of things.
        (tx[p].n, seen) = (seen, tx[p].n);
        [tx[p].n, seen] = [tx[p].n + 1, seen];
        Part { x: tx[p].part.x, .. } = Part { x: seen, ..Part::default() };
        if false {}
        (tx[p].part).y.sort();
        match round {
            0 => (tx[p].parts).reverse(),
            _ => (tx[p].part).y.reverse(),
        }
        let is_more = round > (tx[p]).add(1);
        seen += u64::from(is_more);
        // By closures and other functions.
        let sum = |by: u64| tx[p].n + by + tx[other].x;
        seen += sum(1) + (0..3).map(|i| tx[p].parts[i].x).sum::<u64>() + view_sum(tx, p);
        let moved = move |tx: &Txn<'r>| tx[p].n;
        seen += moved(tx);
        assert_eq!(tx[p].n, tx[p].n, "{}", tx[p].n);
        // The same names for something else.
        {
            let p = [3, 4];
            let tx = [5, 6];
            seen += tx[0] + p[1];
        }
        for p in [q] {
            tx[p].x += 1;
            seen += tx[p].x;
        }
        // Another object by the same pointer.
        q = if tx[q].x % 2 == 0 { other } else { pheap::field!(p.part) };
        seen %= 1 << 40;
    }
    let mut i = 0;
    while tx[p].parts[i].x != u64::MAX && i + 1 < tx[p].parts.len() {
        i += 1;
        if i == 1 {
            continue;
        }
        loop {
            tx[p].parts[i].x = u64::MAX;
            break;
        }
    }
    seen + tx[p].parts[i].x % 1000
}

/// The same without `#[txn]`.
fn everything_plain<'r>(tx: &mut Txn<'r>, p: P<'r, Whole>, q: P<'r, Part>, rounds: u64) -> u64 {
    let (mut q, other, mut seen) = (q, q, 0);
    for round in 0..rounds {
        let n = tx[p].n + round;
        tx[p].n = n;
        tx[q].x = n * 2 + tx[p].part.x;
        seen += 5 * tx[p].n;
        seen += u64::from(tx[p].part.y[round as usize % 4]) + tx[q].x.min(7) + tx[p].n;
        tx[p].part.y[n as usize % 4] ^= round as u32;
        seen += u64::from(tx[p].flag);
        tx[p].flag = !tx[p].flag && round != 1;
        seen += tx[p].add(1);
        tx[p].part.x += 5;
        let x = std::mem::replace(&mut tx[p].part.x, seen);
        seen = x;
        let whole = &mut tx[p];
        whole.parts.reverse();
        whole.parts[..2].fill(Part { x: round, ..Part::default() });
        whole.parts.iter_mut().for_each(|part| part.x += 1);
        whole.maybe = Some(whole.maybe.map_or(NonZeroU8::MIN, |byte| byte.saturating_add(1)));
        seen += u64::from(whole.maybe.unwrap().get());
        let n = tx[p].n;
        tx[p].n = seen + 1;
        seen = n;
        tx[p].part.x = seen;
        tx[p].part.y.sort();
        match round {
            0 => tx[p].parts.reverse(),
            _ => tx[p].part.y.reverse(),
        }
        seen += u64::from(round > tx[p].add(1));
        seen += tx[p].n + 1 + tx[other].x;
        seen += tx[p].parts.iter().map(|part| part.x).sum::<u64>() + tx[p].sum() + tx[p].n + 9;
        tx[q].x += 1;
        seen += tx[q].x;
        q = if tx[q].x % 2 == 0 { other } else { pheap::field!(p.part) };
        seen %= 1 << 40;
    }
    tx[p].parts[2].x = u64::MAX;
    seen + u64::MAX % 1000
}

#[test]
fn loops_mean_what_they_say() {
    let heap = Heap::in_memory().unwrap();
    let root = root(&heap);
    for (rounds, fills) in [(1, 0), (2, 1), (9, 0), (40, 0), (40, 300)] {
        let results = [everything, everything_plain].map(|run| {
            root.txn(|tx, p| {
                tx[p] = Whole { n: rounds, ..Whole::default() };
                let q = tx.alloc(Part { x: 3, ..Part::default() })?;
                // With other copies beside those, or none.
                for _ in 0..fills {
                    let new = tx.alloc(Part::default())?;
                    tx[new].x = 1;
                }
                let seen = run(tx, p, q, rounds);
                Ok((seen, tx[p], tx[q]))
            })
            .unwrap()
        });
        assert_eq!(results[0], results[1], "{rounds} rounds");
    }
}

/// Where a pattern borrows mutably, nothing that is read is rewritten.
#[txn]
fn by_ref_mut<'r>(tx: &mut Txn<'r>, p: P<'r, Whole>) -> u64 {
    let mut seen = 0;
    loop {
        let Whole { ref mut n, ref flag, .. } = tx[p];
        *n += 1;
        seen += *n + u64::from(*flag);
        let ref mut x = tx[p].part.x;
        *x += 1;
        match tx[p].parts[1] {
            Part { ref mut x, .. } => *x += 1,
        }
        if tx[p].n > 3 {
            return seen;
        }
    }
}

/// What is lent lives as long as the transaction is borrowed.
#[txn]
fn first_with<'t, 'r>(tx: &'t mut Txn<'r>, p: P<'r, Whole>, x: u64) -> Option<&'t Part> {
    for i in 0..3 {
        tx[p].parts[i].y[0] += 1;
        if tx[p].parts[i].x == x {
            return Some(&tx[p].parts[i]);
        }
    }
    None
}

/// What outlives the function has none of its variables.
#[txn]
fn sums<'t, 'r>(tx: &'t mut Txn<'r>, p: P<'r, Whole>) -> impl Fn(u64) -> u64 + use<'t, 'r> {
    for _ in 0..2 {
        tx[p].n += 1;
    }
    move |rounds| {
        let mut sum = 0;
        for _ in 0..rounds {
            sum += tx[p].n;
        }
        sum
    }
}

/// A pattern that borrows mutably.
macro_rules! mutably {
    ($bound:ident) => {
        ref mut $bound
    };
}

/// What a macro was given stands for a place, too.
macro_rules! bumps {
    ($name:ident, $tx:ident, $p:ident, $place:expr) => {
        #[txn]
        fn $name<'r>($tx: &mut Txn<'r>, $p: P<'r, Whole>) -> u64 {
            for _ in 0..2 {
                $place.add(1);
                (&mut $place).add(1);
                let mutably!(n) = $tx[$p].n;
                *n += 1;
            }
            $tx[$p].n
        }
    };
}

bumps!(bump_by_macro, tx, p, tx[p]);

/// A root whose object is the pointer.
#[txn]
fn opens(root: &Root<Whole>, rounds: u64) -> pheap::Result<u64> {
    for round in 0..rounds {
        tx[root].n = tx[root].n + round;
    }
    Ok(tx[root].n)
}

#[test]
fn references_that_are_lent() {
    let heap = Heap::in_memory().unwrap();
    let root = root(&heap);
    assert_eq!(opens(&root, 5).unwrap(), 10);
    root.txn(|tx, p| {
        tx[p].n = 0;
        assert_eq!(by_ref_mut(tx, p), 1 + 2 + 3 + 4);
        assert_eq!((tx[p].part.x, tx[p].parts[1].x), (4, 4));
        tx[p].parts[2].x = 8;
        assert_eq!(first_with(tx, p, 8).unwrap().y, [1, 0, 0, 0]);
        assert_eq!(first_with(tx, p, 9), None);
        let n = tx[p].n;
        assert_eq!(bump_by_macro(tx, p), n + 6);
        assert_eq!(sums(tx, p)(3), 3 * (n + 8));
        Ok(())
    })
    .unwrap();
}
