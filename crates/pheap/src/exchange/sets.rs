//! Export and import of sets.

use std::borrow::Borrow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserializer, SeqAccess, Visitor};
use serde::ser::Serializer;

use super::export::{Export, Exporter};
use super::import::{Import, Importer};
use super::keys::{ExchangeKey, ExportedKey, KeySeed};
use super::path::PathStep;
use crate::collections::{HashKey, OrdKey, PBTreeSet, PHashSet};

/// A visitor that reads a set of type `S`.
struct Members<'i, 't, 'r, S> {
    into: &'i mut Importer<'t, 'r>,
    of: PhantomData<S>,
}

macro_rules! sets {
    ($($set:ident of $key:ident;)*) => {$(
        impl<'r, K: ExchangeKey<'r> + $key<'r>> Export<'r> for $set<'r, K> {
            fn export<S: Serializer>(&self, at: Exporter<'_, 'r>, serializer: S) -> Result<S::Ok, S::Error> {
                let at = at.deeper()?;
                serializer.collect_seq(self.iter(at.view()).map(|query| ExportedKey::<K> { query, at }))
            }
        }

        impl<'r, K: ExchangeKey<'r> + $key<'r>> Import<'r> for $set<'r, K> {
            fn import<'de, D: Deserializer<'de>>(
                into: &mut Importer<'_, 'r>,
                deserializer: D,
            ) -> Result<Self, D::Error> {
                into.nested(|into| deserializer.deserialize_seq(Members::<Self> { into, of: PhantomData }))
            }
        }

        impl<'de, 'r, K: ExchangeKey<'r> + $key<'r>> Visitor<'de> for Members<'_, '_, 'r, $set<'r, K>> {
            type Value = $set<'r, K>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a sequence")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
                let into = self.into;
                // A collection is changed through a pointer, so the set is filled in an object. That object
                // is garbage after the set was moved out of it.
                let set = into.tx().alloc($set::new());
                let set = into.heap(set)?;
                for index in 0.. {
                    let member = members.next_element_seed(KeySeed::<K> { into, of: PhantomData });
                    let Some(member) =
                        member.inspect_err(|_| into.failed_at(PathStep::Index(index)))? else { break };
                    let inserted = set.insert(into.tx(), member.borrow());
                    into.heap::<bool, A::Error>(inserted)?;
                }
                Ok(std::mem::take(&mut into.tx()[set]))
            }
        }
    )*};
}

sets! {
    PHashSet of HashKey;
    PBTreeSet of OrdKey;
}
