//! The effects of operations on a root and on its model.

#![allow(clippy::unit_arg)] // transactions of one assignment

pub mod collections;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use pheap::{Error, Held, P, Txn, field, txn};

use crate::layouts::{Handle, Node, Record};
use crate::model::{RootState, SLICE};
use crate::program::{Both, One};

/// Elements of an object that is too large for a redo record.
const BIG: usize = 150;
/// Elements of an object for which a heap of one arena must grow. An undo entry of all of it has two pieces.
const GROW: usize = 4608;
/// Elements of the object of [`One::Fill`].
const FILL: usize = 512;

/// Number of nodes of [`One::Stuff`].
const STUFF: u64 = 5;
/// Elements of an object of [`One::Waste`], and number of these objects.
const WASTED: usize = 127;
const WASTE: usize = 4;
/// Elements of an object that is too large for every heap of the lab.
const TOO_MUCH: usize = 4 << 20;
/// Number of stores of [`One::Weary`], to four elements in turn: a multiple of four, and more than the
/// lookups after which a transaction with few copies spills.
const WEARY: u64 = 528;
/// The elements of [`One::Weary`]. Of two in a row, each takes the other's place in the cache of places, so
/// that each store looks its place up.
const WEARY_ELEMENTS: [usize; 4] = [0, 16, 1, 17];

/// Creates a root with the content of [`RootState::new`].
pub fn create(heap: &pheap::Heap, name: &str, value: u64) -> pheap::Result<Handle> {
    let model = RootState::new(value);
    let root = heap.root_or(name, |tx| {
        let slice = Some(tx.alloc_slice_copy(&model.slice)?);
        Ok(Record { x: value, bytes: [0; 8], gap: [0; 30], y: 0, slice, big: None, list: None })
    })?;
    Ok(Handle::Record(root))
}

fn slice<'r>(tx: &Txn<'r>, p: P<'r, Record<'r>>) -> P<'r, [u64]> {
    tx[p].slice.expect("each root has a slice")
}

#[txn]
fn set<'r>(tx: &mut Txn<'r>, p: P<'r, Record<'r>>, value: u64) -> pheap::Result<()> {
    tx[p].x = value;
    Ok(())
}

fn set_bytes(bytes: &mut [u8; 8], value: u64) {
    (bytes[1], bytes[6]) = ((value / 1000) as u8, (value / 1000 + 1) as u8);
}

#[txn]
fn write_bytes<'r>(tx: &mut Txn<'r>, p: P<'r, Record<'r>>, bytes: [u8; 8]) -> pheap::Result<()> {
    tx[p].bytes[1] = bytes[1];
    let six = 6;
    tx[p].bytes[six] = bytes[6];
    Ok(())
}

#[txn]
fn push<'r>(tx: &mut Txn<'r>, p: P<'r, Record<'r>>, value: u64) -> pheap::Result<()> {
    let node = tx.alloc(Node::new(value, tx[p].list))?;
    tx[p].list = Some(node);
    Ok(())
}

#[txn]
fn pop<'r>(tx: &mut Txn<'r>, p: P<'r, Record<'r>>) -> pheap::Result<P<'r, Node<'r>>> {
    let first = tx[p].list.expect("programs are sensible");
    tx[p].list = tx[first].next;
    Ok(first)
}

/// Allocates more fresh objects than fit a redo record. It reads the root before it writes to it, and not
/// again.
#[txn]
fn stuff<'r>(tx: &mut Txn<'r>, p: P<'r, Record<'r>>, value: u64) -> pheap::Result<()> {
    let mut list = tx[p].list;
    for i in 0..STUFF {
        list = Some(tx.alloc(Node::new(value + i, list))?);
    }
    tx[p].list = list;
    Ok(())
}

/// Unlinks the first node, which a marker may already have visited, and overwrites its pointer to the rest of
/// the list.
#[txn]
fn cut<'r>(tx: &mut Txn<'r>, p: P<'r, Record<'r>>) -> pheap::Result<()> {
    let first = pop(tx, p)?;
    tx[first].next = None;
    Ok(())
}

fn pop_free<'r>(tx: &mut Txn<'r>, p: P<'r, Record<'r>>) -> pheap::Result<()> {
    let first = pop(tx, p)?;
    // SAFETY: a node is in one list only, and this one was just unlinked. A run commits this only if the node
    // is not held; else the transaction or nested part is rolled back, and frees nothing.
    unsafe { tx.__free_at_commit(first) };
    Ok(())
}

/// Unlinks a node, allocates the large object, and links a new node that points to the unlinked one.
#[txn]
fn carry<'r>(tx: &mut Txn<'r>, p: P<'r, Record<'r>>, elements: &[u64], value: u64) -> pheap::Result<()> {
    let first = pop(tx, p)?;
    large(tx, p, elements)?;
    let node = tx.alloc(Node::new(value, Some(first)))?;
    tx[p].list = Some(node);
    Ok(())
}

/// Replaces the slice. Returns the old one.
#[txn]
fn replace<'r>(tx: &mut Txn<'r>, p: P<'r, Record<'r>>, elements: &[u64]) -> pheap::Result<P<'r, [u64]>> {
    let old = slice(tx, p);
    let new = tx.alloc_slice_copy(elements)?;
    tx[p].slice = Some(new);
    Ok(old)
}

/// Makes changes, then various changes in two nested parts that fail, then a change in a nested part that
/// succeeds, and one after it.
fn nest<'r>(tx: &mut Txn<'r>, p: P<'r, Record<'r>>, value: u64, long: bool) -> pheap::Result<()> {
    push(tx, p, value)?;
    // Twice: the transaction may then know where the copy of the field is. The nested part must look it up
    // again.
    tx[p].x = 0;
    tx[p].x = value;
    // Twice: the second part must not use the cached copies of the first.
    for _ in 0..2 {
        nest_failing(tx, p, long)?;
    }
    tx.nested(p, |tx, p| Ok(tx[p].y = value + 1))?;
    // To an element that only the failing parts may have written before.
    let slice = slice(tx, p);
    let element = slice.at(tx, 20);
    Ok(tx[element] = value)
}

/// Runs a nested part with various changes and inner nested parts. The part fails.
fn nest_failing<'r>(tx: &mut Txn<'r>, p: P<'r, Record<'r>>, long: bool) -> pheap::Result<()> {
    aborted(tx.nested(p, |tx, p| {
        let failed = tx.nested(p, |tx, p| {
            set(tx, p, 1)?;
            set(tx, p, 2)?;
            Err(as_it_should())
        });
        aborted(failed)?;
        // The failed inner part may have known the copy of this field.
        set(tx, p, 3)?;
        // A node that this transaction allocated.
        cut(tx, p)?;
        if tx[p].list.is_some() {
            pop_free(tx, p)?;
        }
        push(tx, p, 0)?;
        if long {
            overlap(tx, p, 0)?;
        }
        tx.nested(p, |tx, p| Ok((tx[p].x, tx[p].y) = (0, 0)))?;
        write_bytes(tx, p, [9; 8])?;
        let old = replace(tx, p, &elements(0))?;
        many(tx, p, 7)?;
        // SAFETY: the root held the only pointer to the old slice, and now points to the new one.
        unsafe { tx.__free_at_commit(old) };
        Err(as_it_should())
    }))
}

fn elements(value: u64) -> Vec<u64> {
    (0..SLICE as u64).map(|i| value + i).collect()
}

/// Unlinks the first node and holds it. The held pointer is then the only pointer to it.
pub fn hold(root: &Handle, model: &mut RootState) -> pheap::Result<Held<Node<'static>>> {
    model.list.remove(0);
    root.txn(|tx, p| {
        let first = pop(tx, p)?;
        Ok(tx.hold(first))
    })
}

/// Replaces the list by a new node followed by the held list.
pub fn relink(
    root: &Handle,
    model: &mut RootState,
    (held, values): (&Held<Node<'static>>, &[u64]),
    value: u64,
) -> pheap::Result<()> {
    model.list = std::iter::once(value).chain(values.iter().copied()).collect();
    root.txn(|tx, p| {
        let next = Some(tx.get(held)?);
        let node = tx.alloc(Node::new(value, next))?;
        Ok(tx[p].list = Some(node))
    })
}

fn many<'r>(tx: &mut Txn<'r>, p: P<'r, Record<'r>>, value: u64) -> pheap::Result<()> {
    let slice = slice(tx, p);
    for i in 0..slice.len(tx) {
        let element = slice.at(tx, i);
        tx[element] = value + i as u64;
    }
    Ok(())
}

fn overlap<'r>(tx: &mut Txn<'r>, p: P<'r, Record<'r>>, value: u64) -> pheap::Result<()> {
    let slice = slice(tx, p);
    // A short transaction becomes long at the second of two overlapping ranges, neither within the other.
    tx.slice_mut(slice, 1..3)[0] = value;
    let _ = tx.slice_mut(slice, 2..4);
    let sum = tx[slice].iter().fold(0u64, |sum, x| sum.wrapping_add(*x));
    let element = slice.at(tx, 20);
    Ok(tx[element] = sum)
}

/// Writes an element, reads the whole slice, then writes another element.
fn widen<'r>(tx: &mut Txn<'r>, p: P<'r, Record<'r>>, value: u64) -> pheap::Result<()> {
    let slice = slice(tx, p);
    let element = slice.at(tx, 1);
    tx[element] = value;
    let sum = tx[slice].iter().fold(0u64, |sum, x| sum.wrapping_add(*x));
    let element = slice.at(tx, 20);
    Ok(tx[element] = sum)
}

/// Writes four elements many times.
fn weary<'r>(tx: &mut Txn<'r>, p: P<'r, Record<'r>>, value: u64) -> pheap::Result<()> {
    let slice = slice(tx, p);
    let elements = WEARY_ELEMENTS.map(|i| slice.at(tx, i));
    (0..WEARY).for_each(|i| tx[elements[i as usize % 4]] = value + i);
    Ok(())
}

/// Allocates a large object and links it. Most callers give it mostly zeros: words that are already zero on
/// the medium make no further images, which saves time.
#[txn]
fn large<'r>(tx: &mut Txn<'r>, p: P<'r, Record<'r>>, elements: &[u64]) -> pheap::Result<()> {
    let big = tx.alloc_slice_copy(elements)?;
    tx[p].big = Some(big);
    Ok(())
}

/// Allocates [`WASTE`] objects, and links none of them.
fn waste<'r>(tx: &Txn<'r>, value: u64) -> pheap::Result<()> {
    let elements = sparse(WASTED, 32, value);
    (0..WASTE).try_for_each(|_| tx.alloc_slice_copy(&elements).map(drop))
}

/// Asks for more memory than there is. pheap completes a running collection before it refuses.
fn too_much(tx: &Txn<'_>) -> pheap::Result<()> {
    match tx.alloc_slice(TOO_MUCH, |_| 0u64) {
        Err(Error::ReservationFull { .. } | Error::OutOfSpace { .. }) => Ok(()),
        Err(error) => Err(error),
        Ok(_) => Err(Error::abort("there was room for more than there is")),
    }
}

/// Asks for more memory than there is while only this transaction has a pointer to the list. So a collection
/// that runs ends there.
fn without<'r>(tx: &mut Txn<'r>, p: P<'r, Record<'r>>, value: u64) -> pheap::Result<()> {
    let list = tx[p].list;
    tx[p].list = None;
    tx.alloc_slice_copy(&sparse(WASTED, 32, value))?;
    too_much(tx)?;
    let node = tx.alloc(Node::new(value, list))?;
    Ok(tx[p].list = Some(node))
}

/// Returns `len` numbers, of which only every `step`th is not zero.
fn sparse(len: usize, step: usize, value: u64) -> Vec<u64> {
    (0..len).map(|i| if i % step == step - 1 { value + i as u64 } else { 0 }).collect()
}

/// Sets the field that [`One::Set`] and similar operations set, in the model.
pub fn set_model(model: &mut RootState, value: u64) {
    model.x = value;
}

/// Sets a field in a deferred transaction, makes a deferred read, then waits for both.
pub fn defer(root: &Handle, model: &mut RootState, value: u64) -> pheap::Result<()> {
    set_model(model, value);
    let [changed, seen] = root.defer(|tx, p| set(tx, p, value))?;
    seen.wait()?;
    assert!(changed.is_durable(), "what was seen is durable, and what was changed before is not");
    changed.wait()
}

/// Runs a transaction over one root, or a step of an operation that has several.
pub fn one(root: &Handle, model: &mut RootState, what: One, value: u64) -> pheap::Result<()> {
    // Gets the state after the transaction, also if the transaction fails or its outcome is unknown.
    match what {
        One::Set | One::Burst => {
            set_model(model, value);
            root.txn(|tx, p| set(tx, p, value))
        }
        One::Pair => {
            (model.x, model.y) = (value, value + 1);
            root.txn(|tx, p| {
                let record = &mut tx[p];
                Ok((record.x, record.y) = (value, value + 1))
            })
        }
        One::Bytes => {
            set_bytes(&mut model.bytes, value);
            root.txn(|tx, p| write_bytes(tx, p, model.bytes))
        }
        One::Slice => {
            model.slice[3..7].fill(value);
            root.txn(|tx, p| Ok(tx.slice_mut(slice(tx, p), 3..7).fill(value)))
        }
        One::Swap => {
            model.slice.swap(0, 30);
            root.txn(|tx, p| {
                let slice = slice(tx, p);
                Ok(tx.swap(slice.at(tx, 0), slice.at(tx, 30)))
            })
        }
        One::Push => {
            model.list.insert(0, value);
            root.txn(|tx, p| push(tx, p, value))
        }
        One::Pop | One::PopFree | One::Cut => {
            model.list.remove(0);
            match what {
                One::Pop => root.txn(|tx, p| pop(tx, p).map(drop)),
                One::PopFree => root.txn(pop_free),
                _ => root.txn(cut),
            }
        }
        One::Stuff => {
            (0..STUFF).for_each(|i| model.list.insert(0, value + i));
            root.txn(|tx, p| stuff(tx, p, value))
        }
        One::Carry => {
            let elements = sparse(GROW, 512, value);
            model.list.insert(0, value);
            model.big = Some(elements.clone());
            root.txn(|tx, p| carry(tx, p, &elements, value))
        }
        One::Replace | One::ReplaceFree => {
            model.slice = elements(value);
            root.txn(|tx, p| {
                let old = replace(tx, p, &model.slice)?;
                if what == One::ReplaceFree {
                    // SAFETY: the root held the only pointer to the old slice, and now points to the new one.
                    unsafe { tx.__free_at_commit(old) };
                }
                Ok(())
            })
        }
        One::Unlink | One::FreeBig => {
            model.big = None;
            root.txn(|tx, p| {
                let old = tx[p].big.expect("programs are sensible");
                tx[p].big = None;
                if what == One::FreeBig {
                    // SAFETY: the root held the only pointer to the object, and no longer does.
                    unsafe { tx.__free_at_commit(old) };
                }
                Ok(())
            })
        }
        One::Hold | One::LetGo | One::Relink | One::Churn | One::Shelved(_) => {
            unreachable!("a run sees to these itself")
        }
        One::Many => {
            model.slice = elements(value);
            root.txn(|tx, p| many(tx, p, value))
        }
        One::Overlap | One::Widen => {
            model.slice[1] = value;
            model.slice[20] = model.slice.iter().fold(0u64, |sum, x| sum.wrapping_add(*x));
            let write = if what == One::Widen { widen } else { overlap };
            root.txn(|tx, p| write(tx, p, value))
        }
        One::Weary => {
            WEARY_ELEMENTS.into_iter().zip(WEARY - 4..).for_each(|(at, i)| model.slice[at] = value + i);
            root.txn(|tx, p| weary(tx, p, value))
        }
        One::Big | One::Grow => {
            let elements = if what == One::Big { sparse(BIG, 16, value) } else { sparse(GROW, 512, value) };
            model.big = Some(elements.clone());
            root.txn(|tx, p| large(tx, p, &elements))
        }
        One::Wide => {
            let big = model.big.as_mut().expect("programs are sensible");
            let step = (big.len() / 8).max(2);
            let write = |big: &mut [u64]| big.iter_mut().step_by(step).for_each(|x| *x = value);
            write(big);
            root.txn(|tx, p| {
                let big = tx[p].big.expect("programs are sensible");
                Ok(write(tx.slice_mut(big, ..)))
            })
        }
        One::Fill => {
            let is_first = model.big.as_ref().is_none_or(|big| big.len() != FILL);
            let elements = vec![value; FILL];
            model.big = Some(elements.clone());
            root.txn(|tx, p| {
                if is_first {
                    return large(tx, p, &elements);
                }
                // Four ranges, each as long as a copy of a write set may be.
                let big = tx[p].big.expect("the step before has made it");
                for at in (0..FILL).step_by(FILL / 4) {
                    tx.slice_mut(big, at..at + FILL / 4).fill(value);
                }
                Ok(())
            })
        }
        One::AbortFree => aborted(root.txn(|tx, p| {
            pop_free(tx, p)?;
            push(tx, p, value)?;
            let old = replace(tx, p, &elements(value))?;
            // SAFETY: the root held the only pointer to the old slice, and now points to the new one.
            unsafe { tx.__free_at_commit(old) };
            Err(as_it_should())
        })),
        One::Waste => root.txn(|tx, _| waste(tx, value)),
        One::TooMuch => aborted(root.txn(|tx, p| {
            tx.alloc_slice_copy(&sparse(WASTED, 32, value))?;
            push(tx, p, value)?;
            too_much(tx)?;
            Err(as_it_should())
        })),
        One::Without => {
            model.list.insert(0, value);
            root.txn(|tx, p| without(tx, p, value))
        }
        One::WithoutLong => {
            model.slice = elements(value);
            model.list.insert(0, value);
            root.txn(|tx, p| {
                many(tx, p, value)?;
                without(tx, p, value)
            })
        }
        One::Nest | One::NestLong => {
            model.list.insert(0, value);
            (model.x, model.y, model.slice[20]) = (value, value + 1, value);
            root.txn(|tx, p| nest(tx, p, value, what == One::NestLong))
        }
        One::Abort | One::AbortLong => aborted(root.txn(|tx, p| {
            set(tx, p, value)?;
            push(tx, p, value)?;
            if what == One::AbortLong {
                many(tx, p, value)?;
            }
            Err(as_it_should())
        })),
        One::Panic => panicked(|| {
            root.txn(|tx, p| {
                overlap(tx, p, value)?;
                push(tx, p, value)?;
                large(tx, p, &sparse(BIG, 16, value))?;
                resume_unwind(Box::new(Expected))
            })
        }),
    }
}

fn change_both<'r, 's>(
    (ta, a): (&mut Txn<'r>, P<'r, Record<'r>>),
    (tb, b): (&mut Txn<'s>, P<'s, Record<'s>>),
    what: Both,
    value: u64,
) -> pheap::Result<()> {
    match what {
        Both::Set => {
            set(ta, a, value)?;
            set(tb, b, value + 1)?;
        }
        Both::Many => {
            set(tb, b, value + 1)?;
            many(ta, a, value)?;
        }
        Both::Push => {
            push(ta, a, value)?;
            push(tb, b, value + 1)?;
        }
        Both::Big => large(ta, a, &sparse(BIG, 16, value + tb[b].x % 2))?,
        Both::Without => {
            push(tb, b, value + 1)?;
            without(ta, a, value)?;
            too_much(tb)?;
            waste(tb, value)?;
        }
        Both::Replace => {
            replace(ta, a, &elements(value))?;
            let old = replace(tb, b, &elements(value + 1))?;
            // SAFETY: the root held the only pointer to the old slice, and now points to the new one.
            unsafe { tb.__free_at_commit(old) };
        }
        Both::Abort => {
            push(ta, a, value)?;
            set(tb, b, value + 1)?;
            many(tb, b, value)?;
            return Err(as_it_should());
        }
        Both::Map | Both::Three | Both::Last => unreachable!("these are not of this kind"),
    }
    Ok(())
}

/// Runs a transaction over three roots. With [`Both::Last`] it changes nothing in the first.
pub fn three(roots: [&Handle; 3], models: [&mut RootState; 3], what: Both, value: u64) -> pheap::Result<()> {
    let first = usize::from(what == Both::Last);
    (value..).zip(models).skip(first).for_each(|(value, model)| set_model(model, value));
    // No program gives the third root collections.
    let Handle::Record(c) = roots[2] else { return Err(Error::abort("the third root has collections")) };
    match (roots[0], roots[1]) {
        (Handle::Record(a), Handle::Record(b)) => pheap::txn((a, b, c), |((ta, a), (tb, b), (tc, c))| {
            set_three((ta, a), (tb, b), (tc, c), first, value)
        }),
        (Handle::Store(a), Handle::Record(b)) => pheap::txn((a, b, c), |((ta, a), (tb, b), (tc, c))| {
            set_three((ta, field!(a.record)), (tb, b), (tc, c), first, value)
        }),
        (Handle::Record(a), Handle::Store(b)) => pheap::txn((a, b, c), |((ta, a), (tb, b), (tc, c))| {
            set_three((ta, a), (tb, field!(b.record)), (tc, c), first, value)
        }),
        (Handle::Store(a), Handle::Store(b)) => pheap::txn((a, b, c), |((ta, a), (tb, b), (tc, c))| {
            set_three((ta, field!(a.record)), (tb, field!(b.record)), (tc, c), first, value)
        }),
    }
}

fn set_three<'r, 's, 't>(
    (ta, a): (&mut Txn<'r>, P<'r, Record<'r>>),
    (tb, b): (&mut Txn<'s>, P<'s, Record<'s>>),
    (tc, c): (&mut Txn<'t>, P<'t, Record<'t>>),
    first: usize,
    value: u64,
) -> pheap::Result<()> {
    if first == 0 {
        set(ta, a, value)?;
    }
    set(tb, b, value + 1)?;
    set(tc, c, value + 2)
}

/// Runs a transaction over two roots.
pub fn both(
    (a, b): (&Handle, &Handle),
    (model_a, model_b): (&mut RootState, &mut RootState),
    what: Both,
    value: u64,
) -> pheap::Result<()> {
    use Handle::{Record, Store};
    let result = match (a, b) {
        (Record(a), Record(b)) => pheap::txn((a, b), |(a, b)| change_both(a, b, what, value)),
        (Record(a), Store(b)) => {
            pheap::txn((a, b), |(a, (tb, b))| change_both(a, (tb, field!(b.record)), what, value))
        }
        (Store(a), Record(b)) => {
            pheap::txn((a, b), |((ta, a), b)| change_both((ta, field!(a.record)), b, what, value))
        }
        (Store(a), Store(b)) => pheap::txn((a, b), |((ta, a), (tb, b))| {
            change_both((ta, field!(a.record)), (tb, field!(b.record)), what, value)
        }),
    };
    match what {
        Both::Abort => return aborted(result),
        Both::Set => (model_a.x, model_b.x) = (value, value + 1),
        Both::Many => {
            model_b.x = value + 1;
            model_a.slice = elements(value);
        }
        Both::Push | Both::Without => {
            model_a.list.insert(0, value);
            model_b.list.insert(0, value + 1);
        }
        Both::Big => model_a.big = Some(sparse(BIG, 16, value + model_b.x % 2)),
        Both::Replace => (model_a.slice, model_b.slice) = (elements(value), elements(value + 1)),
        Both::Map | Both::Three | Both::Last => unreachable!("these are not of this kind"),
    }
    result
}

fn as_it_should() -> Error {
    Error::abort("as it should")
}

fn aborted(result: pheap::Result<()>) -> pheap::Result<()> {
    match result {
        Err(Error::Aborted(_)) => Ok(()),
        Ok(()) => Err(Error::abort("a transaction that returned an error was committed")),
        other => other,
    }
}

/// The payload of an expected panic.
struct Expected;

fn panicked(transaction: impl FnOnce() -> pheap::Result<()>) -> pheap::Result<()> {
    match catch_unwind(AssertUnwindSafe(transaction)) {
        Err(payload) if payload.is::<Expected>() => Ok(()),
        Err(payload) => resume_unwind(payload),
        Ok(result) => result,
    }
}
