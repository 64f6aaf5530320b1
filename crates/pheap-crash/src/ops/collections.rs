//! Effects of operations on the collections of a root.

use std::ops::Range;
use std::panic::resume_unwind;

use pheap::{P, Result, Root, Txn, field};

use super::{Expected, aborted, as_it_should, panicked};
use crate::layouts::Store;
use crate::model::RootState;
use crate::program::{Shelved, THIN, filled_map, filled_tree};
use crate::shelf::{Item, Shelf};

/// A root with collections.
type Handle = Root<Store<'static>>;

/// Returns a key of the ordered maps. The order of keys differs from the order of values.
fn key(value: u64) -> String {
    format!("{:016x}", value.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Returns the value that the hash map has for a number.
fn pair(value: u64) -> [u64; 2] {
    [value, !value]
}

/// Returns a text: some characters of two bytes each, and a number.
fn text(value: u64) -> String {
    "ß".repeat(1 + (value / 1000 % 4) as usize * 5) + &value.to_string()
}

/// Returns more values than the buffer of a vector has room for, if the buffer is at most twice as long as
/// its content.
fn grown(vec: &[u64], value: u64) -> Range<u64> {
    value..value + (vec.len() as u64 + 1).max(8)
}

fn insert<'r>(tx: &mut Txn<'r>, shelf: P<'r, Shelf<'r>>, values: Range<u64>) -> Result<()> {
    values.into_iter().try_for_each(|value| field!(shelf.map).insert(tx, &value, pair(value + 1)).map(drop))
}

fn insert_sorted<'r>(tx: &mut Txn<'r>, shelf: P<'r, Shelf<'r>>, values: Range<u64>) -> Result<()> {
    values.into_iter().try_for_each(|value| field!(shelf.tree).insert(tx, &key(value), value).map(drop))
}

fn insert_versioned<'r>(tx: &mut Txn<'r>, shelf: P<'r, Shelf<'r>>, values: Range<u64>) -> Result<()> {
    field!(shelf.versions).extend(tx, values.map(|value| (key(value), value)))
}

fn push<'r>(tx: &mut Txn<'r>, shelf: P<'r, Shelf<'r>>, value: u64) -> Result<()> {
    let item = tx.alloc(Item::new(value))?;
    field!(shelf.vec).push(tx, item)
}

fn extend<'r>(tx: &mut Txn<'r>, shelf: P<'r, Shelf<'r>>, values: Range<u64>) -> Result<()> {
    let items = values.map(|value| tx.alloc(Item::new(value))).collect::<Result<Vec<_>>>()?;
    field!(shelf.vec).extend(tx, items)
}

/// Changes each collection.
fn change_all<'r>(tx: &mut Txn<'r>, shelf: P<'r, Shelf<'r>>, model: &RootState, value: u64) -> Result<()> {
    if let Some(first) = model.map.keys().next() {
        field!(shelf.map).remove(tx, first);
    }
    insert(tx, shelf, value..value + 10)?;
    if let Some(first) = model.tree.keys().next() {
        field!(shelf.tree).remove(tx, first);
    }
    insert_sorted(tx, shelf, value..value + 3)?;
    if let Some(first) = model.versions.keys().next() {
        field!(shelf.versions).remove(tx, first)?;
    }
    insert_versioned(tx, shelf, value..value + 3)?;
    extend(tx, shelf, grown(&model.vec, value))?;
    field!(shelf.text).set(tx, &text(value))
}

/// Runs a transaction over the collections of one root. Does nothing for operations that the run performs.
pub fn one(root: &Handle, model: &mut RootState, what: Shelved, value: u64) -> Result<()> {
    let run = |f: &dyn for<'r> Fn(&mut Txn<'r>, P<'r, Shelf<'r>>) -> Result<()>| {
        root.txn(|tx, store| f(tx, field!(store.shelf)))
    };
    match what {
        Shelved::MapInsert | Shelved::MapFill => {
            let more = filled_map(model.map.len()) - model.map.len();
            let values = value..value + if what == Shelved::MapFill { more as u64 } else { 1 };
            model.map.extend(values.clone().map(|value| (value, value + 1)));
            run(&|tx, shelf| insert(tx, shelf, values.clone()))
        }
        Shelved::MapSet => {
            let mut first = model.map.first_entry().expect("programs are sensible");
            first.insert(value);
            let key = first.key();
            let set = |entry: Option<&mut [u64; 2]>| *entry.expect("the model has it") = pair(value);
            run(&|tx, shelf| Ok(set(field!(shelf.map).get_mut(tx, key))))
        }
        Shelved::MapRemove => {
            let (first, _) = model.map.pop_first().expect("programs are sensible");
            run(&|tx, shelf| {
                field!(shelf.map).remove(tx, &first).expect("the model had it");
                Ok(())
            })
        }
        Shelved::MapClear => {
            model.map.clear();
            run(&|tx, shelf| Ok(field!(shelf.map).clear(tx)))
        }
        Shelved::TreeInsert | Shelved::TreeFill => {
            let more = filled_tree(model.tree.len()) - model.tree.len();
            let values = value..value + if what == Shelved::TreeFill { more as u64 } else { 1 };
            model.tree.extend(values.clone().map(|value| (key(value), value)));
            run(&|tx, shelf| insert_sorted(tx, shelf, values.clone()))
        }
        Shelved::TreeRemove | Shelved::TreeThin => {
            let gone = if what == Shelved::TreeRemove { 1 } else { model.tree.len() - THIN };
            let gone: Vec<String> = model.tree.keys().take(gone).cloned().collect();
            model.tree.retain(|key, _| !gone.contains(key));
            run(&|tx, shelf| {
                for key in &gone {
                    field!(shelf.tree).remove(tx, key).expect("the model had it");
                }
                Ok(())
            })
        }
        Shelved::SnapInsert | Shelved::SnapFill => {
            let more = filled_tree(model.versions.len()) - model.versions.len();
            let values = value..value + if what == Shelved::SnapFill { more as u64 } else { 1 };
            model.versions.extend(values.clone().map(|value| (key(value), value)));
            run(&|tx, shelf| insert_versioned(tx, shelf, values.clone()))
        }
        Shelved::SnapThin => {
            let gone: Vec<String> =
                model.versions.keys().take(model.versions.len() - THIN).cloned().collect();
            model.versions.retain(|key, _| !gone.contains(key));
            let last = model.versions.last_entry().map(|mut last| {
                last.insert(value);
                last.key().clone()
            });
            run(&|tx, shelf| {
                for key in &gone {
                    assert!(field!(shelf.versions).remove(tx, key)?, "the model had it");
                }
                let last = last.as_ref().expect("a few are left");
                field!(shelf.versions).insert(tx, last, &value).map(drop)
            })
        }
        Shelved::VecPush => {
            model.vec.push(value);
            run(&|tx, shelf| push(tx, shelf, value))
        }
        Shelved::VecGrow => {
            let values = grown(&model.vec, value);
            model.vec.extend(values.clone());
            run(&|tx, shelf| extend(tx, shelf, values.clone()))
        }
        Shelved::StringSet => {
            model.text = text(value);
            run(&|tx, shelf| field!(shelf.text).set(tx, &model.text))
        }
        Shelved::MapAbort => aborted(run(&|tx, shelf| {
            change_all(tx, shelf, model, value)?;
            Err(as_it_should())
        })),
        Shelved::MapPanic => panicked(|| {
            run(&|tx, shelf| {
                change_all(tx, shelf, model, value)?;
                resume_unwind(Box::new(Expected))
            })
        }),
        Shelved::MapNest => {
            for value in value..value + 3 {
                model.versions.insert(key(value), value);
            }
            run(&|tx, shelf| {
                // So the map has nodes that this transaction has allocated.
                insert_versioned(tx, shelf, value..value + 1)?;
                insert_versioned(tx, shelf, value + 1..value + 2)?;
                aborted(tx.nested(shelf, |tx, shelf| {
                    change_all(tx, shelf, model, value)?;
                    insert_versioned(tx, shelf, value..value + 40)?;
                    Err(as_it_should())
                }))?;
                tx.nested(shelf, |tx, shelf| insert_versioned(tx, shelf, value + 2..value + 3))
            })
        }
        // For `Shelve`, finding the root has given it collections. The run performs the steps of `MapChurn`.
        Shelved::Shelve | Shelved::MapChurn => Ok(()),
    }
}

/// Runs a transaction over the collections of two roots.
pub fn both(
    (a, b): (&Handle, &Handle),
    (model_a, model_b): (&mut RootState, &mut RootState),
    value: u64,
) -> Result<()> {
    let result = pheap::txn((a, b), |((ta, a), (tb, b))| {
        let (a, b) = (field!(a.shelf), field!(b.shelf));
        insert(ta, a, value..value + 1)?;
        insert(tb, b, value..value + 2)?;
        push(ta, a, value)
    });
    model_a.map.insert(value, value + 1);
    model_b.map.extend((value..value + 2).map(|value| (value, value + 1)));
    model_a.vec.push(value);
    result
}
