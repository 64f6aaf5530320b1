//! `InlineBytes`: bytes for keys; up to 30 lie in the key itself.

use crate::Persist;
use crate::api::tx::Txn;
use crate::api::view::View;
use crate::collections::bytes::PBytes;
use crate::error::Result;

/// Immutable bytes for keys: up to 30 lie in the key itself, more in an object that the key owns.
///
/// ```
/// # use pheap::{Heap, InlineBytes, PBTreeMap, Root};
/// # fn main() -> pheap::Result<()> {
/// # let heap = Heap::in_memory()?;
/// let sessions: Root<PBTreeMap<InlineBytes, u64>> = heap.root("sessions")?;
/// sessions.txn(|tx, sessions| sessions.insert(tx, b"user 17", 1))?;
/// assert_eq!(sessions.read(|view, sessions| sessions.get(view, b"user 17").copied())?, Some(1));
/// # Ok(())
/// # }
/// ```
///
/// A map whose keys are `P<[u8]>` keeps 8 bytes for each key in its node, and a separate object: a search
/// that has to compare the key itself reads that object, which may not be in the cache, nor in memory. For
/// `InlineBytes` of up to 30 bytes, a search reads the node only; an insertion allocates no object for the
/// key, and a removal frees none. The cost is 32 bytes for each key in the node, whatever its length, also in
/// free slots, and in the inner nodes of a [`PBTreeMap`](crate::PBTreeMap). So `InlineBytes` is for keys that
/// are rarely longer than 30 bytes, and that searches compare: each key that is found, and in an ordered map
/// also keys that share their first bytes. A `P<[u8]>` is better if most keys are longer (an `InlineBytes` of
/// more than 30 bytes takes 32 bytes in the node, and an object), or if there are many keys that are rarely
/// looked up. Order, hashes, and the arguments of a search are the same for both types.
//
// Invariant: the program has no `P` to the bytes, and no copy of the key: the vector has the only pointer to
// its buffer. In a file, `check` verifies that by the rule of the vector.
#[derive(Persist)]
#[repr(transparent)]
#[persist(own, id = "pheap::InlineBytes", crate = "crate")]
pub struct InlineBytes<'r> {
    form: Form<'r>,
}

/// The most bytes that an `InlineBytes` has in itself, and not in a buffer.
const ROOM: usize = 30;

/// The place of the bytes of a key: in the key, or in a buffer. The type has no padding, so a commit need not
/// zero any.
#[derive(Persist)]
#[repr(u8)]
#[persist(own, id = "pheap::InlineForm", crate = "crate")]
pub(super) enum Form<'r> {
    /// The bytes lie in the key: their number, then the bytes, followed by zeros.
    Short(u8, [u8; ROOM]),
    /// The bytes lie in the buffer of a `PBytes`. The other two fields are zero.
    Long([u8; 7], PBytes<'r>, u64),
}

const _: () = assert!(size_of::<InlineBytes<'_>>() == 32 && !<InlineBytes<'_> as Persist>::PADDED);

impl Default for InlineBytes<'_> {
    fn default() -> Self {
        InlineBytes::new()
    }
}

impl<'r> InlineBytes<'r> {
    /// Returns a key of 0 bytes.
    pub const fn new() -> Self {
        InlineBytes { form: Form::Short(0, [0; ROOM]) }
    }

    /// Makes a key with a copy of `bytes`. O(n); allocates only for more than 30 bytes.
    ///
    /// # Errors
    /// As for [`Txn::alloc_slice`].
    #[inline]
    pub fn from_slice(tx: &Txn<'r>, bytes: &[u8]) -> Result<Self> {
        let form = if bytes.len() <= ROOM {
            let mut room = [0; ROOM];
            room[..bytes.len()].copy_from_slice(bytes);
            Form::Short(bytes.len() as u8, room)
        } else {
            Form::Long([0; 7], PBytes::from_slice(tx, bytes)?, 0)
        };
        Ok(InlineBytes { form })
    }

    /// Returns the bytes.
    #[inline(always)]
    pub fn as_slice<'v>(&'v self, view: &'v View<'r>) -> &'v [u8] {
        match &self.form {
            // In a file of unknown origin, the stored length may be greater than `ROOM`.
            Form::Short(len, room) => &room[..usize::from(*len).min(ROOM)],
            Form::Long(_, bytes, _) => bytes.as_slice(view),
        }
    }

    /// Returns the number of bytes.
    #[inline]
    pub fn len(&self) -> usize {
        match &self.form {
            Form::Short(len, _) => usize::from(*len).min(ROOM),
            Form::Long(_, bytes, _) => bytes.len(),
        }
    }

    /// Whether there are no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Frees the key's buffer, if it has one, when the transaction commits, earlier than the collector would.
    /// It is for a key that a map has returned.
    pub fn free(self, tx: &Txn<'r>) {
        if let Form::Long(_, bytes, _) = self.form {
            bytes.free(tx);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collections::key::{HashKey, KeyHasher, OrdKey};
    use crate::ptr::P;
    use crate::{Heap, PBTreeMap, PHashMap, Root, field};

    /// Returns sequences of bytes for keys, sorted. Some lengths are around `ROOM`.
    fn samples() -> Vec<Vec<u8>> {
        let mut all: Vec<Vec<u8>> = [0, 1, 7, 8, 9, 29, 30, 31, 32, 200]
            .iter()
            .flat_map(|&len| [vec![0; len], vec![7; len], (0..len).map(|i| 255 - i as u8).collect()])
            .collect();
        all.sort();
        all.dedup();
        all
    }

    #[test]
    fn up_to_thirty_bytes_lie_in_the_key() {
        let heap = Heap::in_memory().unwrap();
        let root: Root<u64> = heap.root("number").unwrap();
        root.txn(|tx, _| {
            for bytes in samples() {
                let key = InlineBytes::from_slice(tx, &bytes)?;
                assert_eq!(matches!(key.form, Form::Short(..)), bytes.len() <= 30);
                if let Form::Short(len, room) = &key.form {
                    assert!(room[usize::from(*len)..].iter().all(|&byte| byte == 0));
                }
                assert_eq!((key.as_slice(tx), key.len()), (&bytes[..], bytes.len()));
                assert_eq!(key.is_empty(), bytes.is_empty());
            }
            assert_eq!(InlineBytes::default().as_slice(tx), b"");
            Ok(())
        })
        .unwrap();
    }

    /// A file of unknown origin may have a key with a stored length greater than `ROOM`.
    #[test]
    fn a_length_that_is_too_large_is_that_of_the_room() {
        let heap = Heap::in_memory().unwrap();
        let root: Root<u64> = heap.root("number").unwrap();
        root.txn(|tx, _| {
            for len in 30..=u8::MAX {
                let key = InlineBytes { form: Form::Short(len, [7; ROOM]) };
                assert_eq!((key.as_slice(tx), key.len()), (&[7; ROOM][..], ROOM));
            }
            Ok(())
        })
        .unwrap();
    }

    #[test]
    fn hashes_and_prefixes_are_those_of_other_keys_of_bytes() {
        let hash = |feed: fn(&[u8], &mut KeyHasher), bytes: &[u8]| {
            let mut hasher = KeyHasher::new([1, 2]);
            feed(bytes, &mut hasher);
            hasher.finish()
        };
        let all = samples();
        for bytes in &all {
            let other = <P<'_, [u8]> as HashKey>::hash;
            assert_eq!(hash(<InlineBytes as HashKey>::hash, bytes), hash(other, bytes));
            assert_eq!(InlineBytes::prefix(bytes), <P<'_, [u8]> as OrdKey>::prefix(bytes));
        }
        assert!(all.is_sorted_by_key(|bytes| InlineBytes::prefix(bytes)));
    }

    #[derive(Persist, Default)]
    #[persist(crate = "crate")]
    #[repr(C)]
    struct Maps<'r> {
        ordered: PBTreeMap<'r, InlineBytes<'r>, u64>,
        hashed: PHashMap<'r, InlineBytes<'r>, u64>,
        apart: Option<P<'r, [u8]>>,
    }

    #[test]
    fn maps_find_order_and_free_them() {
        let heap = Heap::in_memory().unwrap();
        let root: Root<Maps> = heap.root("maps").unwrap();
        root.txn(|tx, maps| {
            for (bytes, i) in samples().iter().rev().zip(0..) {
                assert_eq!(field!(maps.ordered).insert(tx, bytes, i)?, None);
                assert_eq!(field!(maps.hashed).insert(tx, bytes, i)?, None);
                assert_eq!(field!(maps.ordered).insert(tx, bytes, i)?, Some(i));
            }
            let apart = tx.alloc_slice_copy(&samples()[5])?;
            tx[maps].apart = Some(apart);
            assert!(
                field!(maps.ordered).contains_key(tx, apart) && field!(maps.hashed).contains_key(tx, apart)
            );
            Ok(())
        })
        .unwrap();
        root.read(|view, maps| assert!(view[maps].ordered.keys(view).eq(samples()))).unwrap();
        assert_eq!(heap.check().unwrap().problems, Vec::<String>::new());
        root.txn(|tx, maps| {
            for bytes in samples() {
                assert!(field!(maps.ordered).remove(tx, &bytes).is_some());
                assert!(field!(maps.hashed).remove(tx, &bytes).is_some());
            }
            Ok(())
        })
        .unwrap();
        let buffers = |report: &crate::Report| {
            report
                .usage
                .iter()
                .filter(|usage| usage.type_name.contains("u8"))
                .map(|usage| usage.objects)
                .sum::<u64>()
        };
        let report = heap.check().unwrap();
        assert!(report.problems.is_empty() && buffers(&report) == 1, "{report}");
    }
}
