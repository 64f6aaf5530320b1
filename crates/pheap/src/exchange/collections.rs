//! Export and import of vectors, queues and strings.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserializer, SeqAccess, Visitor};
use serde::ser::Serializer;

use super::export::{Export, Exporter};
use super::import::{Import, Importer};
use super::{sequence, values};
use crate::collections::{PPriorityQueue, PString, PVec, PVecDeque};
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

impl<'r, T: Persist + Export<'r>> Export<'r> for PVecDeque<'r, T> {
    fn export<S: Serializer>(&self, at: Exporter<'_, 'r>, serializer: S) -> Result<S::Ok, S::Error> {
        at.sequence(serializer, self.iter(at.view()))
    }
}

impl<'r, T: Import<'r>> Import<'r> for PVecDeque<'r, T> {
    fn import<'de, D: Deserializer<'de>>(
        into: &mut Importer<'_, 'r>,
        deserializer: D,
    ) -> Result<Self, D::Error> {
        into.nested(|into| deserializer.deserialize_seq(Queue { into, of: PhantomData }))
    }
}

struct Queue<'i, 't, 'r, T> {
    into: &'i mut Importer<'t, 'r>,
    of: PhantomData<T>,
}

impl<'de, 'r, T: Import<'r>> Visitor<'de> for Queue<'_, '_, 'r, T> {
    type Value = PVecDeque<'r, T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<PVecDeque<'r, T>, A::Error> {
        let into = self.into;
        // Collections grow where they lie. This one is garbage as soon as it has moved to its place.
        let queue = into.tx().alloc(PVecDeque::new());
        let queue = into.heap(queue)?;
        let mut index = 0;
        while let Some(element) = sequence::next(into, &mut seq, index)? {
            let pushed = queue.push_back(into.tx(), element);
            into.heap(pushed)?;
            index += 1;
        }
        Ok(std::mem::take(&mut into.tx()[queue]))
    }
}

/// In any order.
impl<'r, T: Persist + Export<'r>> Export<'r> for PPriorityQueue<'r, T> {
    fn export<S: Serializer>(&self, at: Exporter<'_, 'r>, serializer: S) -> Result<S::Ok, S::Error> {
        at.sequence(serializer, self.iter(at.view()))
    }
}

impl<'r, T: Import<'r> + Ord> Import<'r> for PPriorityQueue<'r, T> {
    fn import<'de, D: Deserializer<'de>>(
        into: &mut Importer<'_, 'r>,
        deserializer: D,
    ) -> Result<Self, D::Error> {
        let elements: Vec<T> = sequence::elements(into, deserializer)?;
        let queue = into.tx().alloc(PPriorityQueue::new());
        let queue = into.heap(queue)?;
        let filled = queue.extend(into.tx(), elements);
        into.heap(filled)?;
        Ok(std::mem::take(&mut into.tx()[queue]))
    }
}

impl<'r> Export<'r> for PString<'r> {
    fn export<S: Serializer>(&self, at: Exporter<'_, 'r>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str(at.view()))
    }
}

impl<'r> Import<'r> for PString<'r> {
    fn import<'de, D: Deserializer<'de>>(
        into: &mut Importer<'_, 'r>,
        deserializer: D,
    ) -> Result<Self, D::Error> {
        values::text(into, deserializer, |into, text| PString::from_str(into.tx(), text))
    }
}
