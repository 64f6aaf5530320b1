//! Export and import of vectors and queues.

use serde::de::Deserializer;
use serde::ser::Serializer;

use super::export::{Export, Exporter};
use super::import::{Import, Importer};
use super::sequence;
use crate::collections::{PPriorityQueue, PVec, PVecDeque};
use crate::layout::Persist;

impl<'r, T: Persist + Export<'r>> Export<'r> for PVec<'r, T> {
    fn export<S: Serializer>(&self, at: Exporter<'_, 'r>, serializer: S) -> Result<S::Ok, S::Error> {
        at.sequence(serializer, self.iter(at.view()))
    }
}

impl<'r, T: Import<'r>> Import<'r> for PVec<'r, T> {
    fn import<'de, D: Deserializer<'de>>(
        into: &mut Importer<'_, 'r>,
        deserializer: D,
    ) -> Result<Self, D::Error> {
        let elements: Vec<T> = sequence::elements(into, deserializer)?;
        let vec = PVec::from_iter(into.tx(), elements);
        into.heap(vec)
    }
}

/// Implements export and import for types of queues. An entry has the type, and the additional bound of its
/// elements, if any. Queues are exported in the order of their iterators.
macro_rules! queues {
    ($($queue:ident of [$($order:ident)?];)*) => {$(
        impl<'r, T: Persist + Export<'r>> Export<'r> for $queue<'r, T> {
            fn export<S: Serializer>(&self, at: Exporter<'_, 'r>, serializer: S) -> Result<S::Ok, S::Error> {
                at.sequence(serializer, self.iter(at.view()))
            }
        }

        impl<'r, T: Import<'r> $(+ $order)?> Import<'r> for $queue<'r, T> {
            fn import<'de, D: Deserializer<'de>>(
                into: &mut Importer<'_, 'r>,
                deserializer: D,
            ) -> Result<Self, D::Error> {
                let elements: Vec<T> = sequence::elements(into, deserializer)?;
                // A collection is changed through a pointer, so the queue is filled in an object. That object
                // is garbage after the queue was moved out of it.
                let queue = into.tx().alloc($queue::new());
                let queue = into.heap(queue)?;
                let filled = queue.extend(into.tx(), elements);
                into.heap(filled)?;
                Ok(std::mem::take(&mut into.tx()[queue]))
            }
        }
    )*};
}

queues! {
    PVecDeque of [];
    PPriorityQueue of [Ord];
}
