//! Values outside of the heap, for example to copy a value to another shard, or to dump and restore it.

use pheap::{P, PBTreeSet, PHashMap, PHashSet, PVecDeque, Txn, View, field};

use super::sorted::{Rank, Sorted};
use super::streams::{Consumer, Consumers, Delivery, Id, Past, Progress, Stream};
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
    /// A sorted set: members and their scores, in no particular order.
    Sorted(Vec<(Vec<u8>, f64)>),
    /// A stream.
    Stream(OwnedStream),
}

/// A stream outside of the heap.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OwnedStream {
    /// Ids, and the fields and values of each entry as [`pack`](super::streams::pack) writes them.
    pub entries: Vec<(Id, Vec<u8>)>,
    /// The stream's counters.
    pub past: Past,
    /// Groups of consumers.
    pub groups: Vec<OwnedGroup>,
}

/// A consumer group outside of the heap.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OwnedGroup {
    /// The name of the group.
    pub name: Vec<u8>,
    /// How far the group has read.
    pub progress: Progress,
    /// The consumers' names, and when each was last seen, in milliseconds since 1970.
    pub consumers: Vec<(Vec<u8>, i64)>,
    /// Entries that were delivered and not acknowledged: the id, the index of the consumer in `consumers`,
    /// the time of the last delivery in milliseconds since 1970, and the number of deliveries.
    pub pending: Vec<(Id, usize, i64, i64)>,
}

impl Owned {
    /// Copies a value out of the heap.
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
                let members = view[sorted].scores().iter(view);
                Owned::Sorted(members.map(|(member, &score)| (member.to_vec(), score)).collect())
            }
            Value::Stream(stream) => Owned::Stream(OwnedStream::of(view, &view[stream])),
        }
    }

    /// Returns whether the value is a string of no bytes, or a container without elements. A stream counts as
    /// not empty, because a stream without entries is a valid value.
    pub fn is_empty(&self) -> bool {
        match self {
            Owned::String(bytes) => bytes.is_empty(),
            Owned::List(elements) | Owned::Set(elements) => elements.is_empty(),
            Owned::Hash(pairs) => pairs.is_empty(),
            Owned::Sorted(members) => members.is_empty(),
            Owned::Stream(_) => false,
        }
    }

    /// Stores the value in the heap.
    ///
    /// # Errors
    /// If the heap cannot allocate memory.
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
                set.extend(tx, members.iter().map(Vec::as_slice))?;
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
            Owned::Stream(stream) => stream.store(tx),
        }
    }
}

impl OwnedStream {
    fn of<'r>(view: &View<'r>, stream: &Stream<'r>) -> OwnedStream {
        let entries = stream.entries.iter(view).map(|(&id, &packed)| (id, view[packed].to_vec()));
        let groups = stream.groups.iter(view).map(|(name, &group)| OwnedGroup::of(view, name, &view[group]));
        OwnedStream { entries: entries.collect(), past: stream.past, groups: groups.collect() }
    }

    fn store<'r>(&self, tx: &mut Txn<'r>) -> pheap::Result<Value<'r>> {
        let stream = tx.alloc(Stream { past: self.past, ..Stream::default() })?;
        for (id, packed) in &self.entries {
            let packed = tx.alloc_slice_copy(packed)?;
            field!(stream.entries).insert(tx, id, packed)?;
        }
        for group in &self.groups {
            let stored = group.store(tx)?;
            field!(stream.groups).insert(tx, &group.name, stored)?;
        }
        Ok(Value::Stream(stream))
    }
}

impl OwnedGroup {
    fn of<'r>(view: &View<'r>, name: &[u8], group: &Consumers<'r>) -> OwnedGroup {
        let names: Vec<P<'r, Consumer<'r>>> = group.names.iter(view).map(|(_, &consumer)| consumer).collect();
        let consumers = names.iter().map(|&one| (view[view[one].name].to_vec(), view[one].seen)).collect();
        let pending = group.pending.iter(view).filter_map(|(&id, delivery)| {
            let consumer = names.iter().position(|&one| one == delivery.consumer)?;
            Some((id, consumer, delivery.at, delivery.count))
        });
        OwnedGroup { name: name.to_vec(), progress: group.progress, consumers, pending: pending.collect() }
    }

    fn store<'r>(&self, tx: &mut Txn<'r>) -> pheap::Result<P<'r, Consumers<'r>>> {
        let group = tx.alloc(Consumers { progress: self.progress, ..Consumers::default() })?;
        let mut consumers = Vec::new();
        for (name, seen) in &self.consumers {
            let name_stored = tx.alloc_slice_copy(name)?;
            let consumer =
                tx.alloc(Consumer { name: name_stored, seen: *seen, pending: PBTreeSet::default() })?;
            field!(group.names).insert(tx, name, consumer)?;
            consumers.push(consumer);
        }
        for &(id, consumer, at, count) in &self.pending {
            let Some(&consumer) = consumers.get(consumer) else { continue };
            field!(group.pending).insert(tx, &id, Delivery { consumer, at, count })?;
            field!(consumer.pending).insert(tx, &id)?;
        }
        Ok(group)
    }
}
