//! Estimates how many bytes of the heap a key and its value need.

use pheap::View;

use super::streams::Stream;
use super::value::Value;

/// Bytes that an element is assumed to need in addition to its text.
const OVERHEAD: usize = 24;

/// Estimates the bytes of a string: 8 bytes for the length, and the text, rounded up to a multiple of 8.
pub fn text(len: usize) -> usize {
    (len + 8).next_multiple_of(8)
}

/// Estimates the bytes of a value. Of a value with elements, measures the first `samples` ones, and assumes
/// that the others have the same average size. Measures all consumer groups of a stream.
pub fn value<'r>(view: &View<'r>, value: Value<'r>, samples: usize) -> usize {
    let element = |text: &[u8]| text.len() + OVERHEAD;
    match value {
        Value::Int(_) => 0,
        Value::Bytes(bytes) => text(view[bytes].len()),
        Value::Buffer(buffer) => size_of_val(&view[buffer]) + text(view[buffer].capacity(view)),
        Value::List(list) => {
            let list = &view[list];
            all(list.iter(view).map(|&each| element(&view[each])), list.len(), samples)
        }
        Value::Hash(hash) => {
            let hash = &view[hash];
            let pairs = hash.iter(view).map(|(field, &value)| element(field) + element(&view[value]));
            all(pairs, hash.len(), samples)
        }
        Value::Set(set) => {
            let set = &view[set];
            all(set.iter(view).map(element), set.len(), samples)
        }
        Value::Sorted(sorted) => {
            let sorted = &view[sorted];
            // The heap stores a member's text twice: in the hash by name, and in the order.
            let members = sorted.scores().iter(view).map(|(member, _)| 2 * text(member.len()) + 40);
            all(members, sorted.len(), samples)
        }
        Value::Stream(stream) => of_stream(view, &view[stream], samples),
    }
}

fn of_stream<'r>(view: &View<'r>, stream: &Stream<'r>, samples: usize) -> usize {
    let entries = stream.entries.iter(view);
    let entries = entries.map(|(_, &packed)| view[packed].len() + OVERHEAD + size_of::<u128>());
    let groups = stream
        .groups
        .iter(view)
        .map(|(name, &group)| name.len() + OVERHEAD + view[group].pending.len() * 3 * size_of::<u128>());
    all(entries, stream.entries.len(), samples) + groups.sum::<usize>()
}

/// Estimates the sum over all `len` elements from the first `samples` of them. Returns 0 if there are no
/// samples.
fn all(sizes: impl Iterator<Item = usize>, len: usize, samples: usize) -> usize {
    let (sum, count) = sizes.take(samples).fold((0, 0), |(sum, count), size| (sum + size as u128, count + 1));
    (sum * len as u128).checked_div(count).unwrap_or(0) as usize
}

#[cfg(test)]
mod tests {
    use crate::data::{Change, Owned, Store};

    #[test]
    fn about_as_much_as_the_heap_says() {
        let texts = |len: usize| (0..2000).map(|i| format!("{i:0len$}").into_bytes()).collect::<Vec<_>>();
        let pairs = |len| texts(8).into_iter().zip(texts(len)).collect::<Vec<_>>();
        for len in [8, 40, 200] {
            let values = [
                Owned::String(vec![b'x'; len * 1000]),
                Owned::List(texts(len)),
                Owned::Hash(pairs(len)),
                Owned::Set(texts(len)),
                Owned::Sorted(texts(len).into_iter().map(|text| (text, 1.5)).collect()),
            ];
            for (kind, value) in values.into_iter().enumerate() {
                let store = Store::in_memory().unwrap();
                let root = store.root(0);
                root.collect().unwrap();
                let before = root.live().bytes;
                let estimate = root
                    .txn(|tx, root| {
                        let db = tx[root].dbs.at(tx, 0);
                        let value = value.store(tx)?;
                        db.set(tx, b"key", value)?;
                        Ok(super::value(tx, value, 16))
                    })
                    .unwrap();
                root.collect().unwrap();
                let needed = (root.live().bytes - before) as usize;
                let ratio = estimate as f64 / needed as f64;
                assert!((0.6..1.6).contains(&ratio), "{kind}, {len}: {estimate} of {needed}");
            }
        }
    }
}
