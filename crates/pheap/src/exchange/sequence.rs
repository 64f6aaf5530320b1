//! Export and import of sequences, element by element.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserializer, SeqAccess, Visitor};

use super::import::{Import, Importer};
use super::path::PathStep;
use crate::collections::believed;

/// Reads the next element of a sequence, if there is one. `index` is the index of that element.
pub(super) fn next<'de, 'r, T: Import<'r>, A: SeqAccess<'de>>(
    into: &mut Importer<'_, 'r>,
    seq: &mut A,
    index: usize,
) -> Result<Option<T>, A::Error> {
    seq.next_element_seed(into.seed()).inspect_err(|_| into.failed_at(PathStep::Index(index)))
}

/// Reads all elements of a sequence, one level deeper.
pub(super) fn elements<'de, 'r, T: Import<'r>, D: Deserializer<'de>>(
    into: &mut Importer<'_, 'r>,
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    into.nested(|into| deserializer.deserialize_seq(Elements { into, of: PhantomData }))
}

struct Elements<'i, 't, 'r, T> {
    into: &'i mut Importer<'t, 'r>,
    of: PhantomData<T>,
}

impl<'de, 'r, T: Import<'r>> Visitor<'de> for Elements<'_, '_, 'r, T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<T>, A::Error> {
        let mut elements = Vec::with_capacity(believed::<T>(seq.size_hint().unwrap_or(0)));
        while let Some(element) = next(self.into, &mut seq, elements.len())? {
            elements.push(element);
        }
        Ok(elements)
    }
}
