//! A value outside of the heap: what is copied from one shard to another, dumped, and restored.

use pheap::{P, PHashMap, PHashSet, PVecDeque, Txn, View};

use super::sorted::{Rank, Sorted};
use super::value::Value;

/// A value outside of the heap.
#[derive(Debug, Clone, PartialEq)]
pub enum Owned {
    /// A string.
    String(Vec<u8>),
    /// A list.
    List(Vec<Vec<u8>>),
    /// A hash: fields and their values.
    Hash(Vec<(Vec<u8>, Vec<u8>)>),
    /// A set.
    Set(Vec<Vec<u8>>),
    /// A sorted set: members and their scores, in no order.
    Sorted(Vec<(Vec<u8>, f64)>),
}

impl Owned {
    /// A copy of a value.
    pub fn of<'r>(view: &View<'r>, value: Value<'r>) -> Owned {
        match value {
            Value::Int(_) | Value::Bytes(_) | Value::Buffer(_) => {
                Owned::String(value.with_bytes(view, <[u8]>::to_vec).expect("these are strings"))
            }
            Value::List(list) => {
                Owned::List(view[list].iter(view).map(|&element| view[element].to_vec()).collect())
            }
            Value::Hash(hash) => Owned::Hash(
                view[hash].iter(view).map(|(field, &value)| (field.to_vec(), view[value].to_vec())).collect(),
            ),
            Value::Set(set) => Owned::Set(view[set].iter(view).map(<[u8]>::to_vec).collect()),
            Value::Sorted(sorted) => {
                let members = view[sorted].unordered(view);
                Owned::Sorted(members.map(|(member, &score)| (member.to_vec(), score)).collect())
            }
        }
    }

    /// The same in the heap.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub fn store<'r>(&self, tx: &mut Txn<'r>) -> pheap::Result<Value<'r>> {
        match self {
            Owned::String(bytes) => Value::string(tx, bytes),
            Owned::List(elements) => {
                let list = tx.alloc(PVecDeque::new())?;
                for element in elements {
                    let element = tx.alloc_slice_copy(element)?;
                    list.push_back(tx, element)?;
                }
                Ok(Value::List(list))
            }
            Owned::Hash(pairs) => {
                let hash = tx.alloc(PHashMap::new())?;
                for (field, value) in pairs {
                    let value = tx.alloc_slice_copy(value)?;
                    hash.insert(tx, field.as_slice(), value)?;
                }
                Ok(Value::Hash(hash))
            }
            Owned::Set(members) => {
                let set: P<'r, _> = tx.alloc(PHashSet::new())?;
                for member in members {
                    set.insert(tx, member.as_slice())?;
                }
                Ok(Value::Set(set))
            }
            Owned::Sorted(members) => {
                let sorted = Sorted::new(tx)?;
                let sorted = tx.alloc(sorted)?;
                for (member, score) in members {
                    sorted.set_score(tx, member, *score)?;
                }
                Ok(Value::Sorted(sorted))
            }
        }
    }
}
