//! Export and import of maps.

use std::borrow::Borrow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};

use super::export::{Export, Exporter};
use super::import::{Import, Importer};
use super::keys::{ExchangeKey, ExportedKey, KeySeed};
use super::path::Step;
use crate::collections::{HashKey, OrdKey, PBTreeMap, PHashMap};
use crate::layout::Persist;

/// Reads a map of type `M`.
struct Entries<'i, 't, 'r, M> {
    into: &'i mut Importer<'t, 'r>,
    of: PhantomData<M>,
}

macro_rules! maps {
    ($($map:ident of $key:ident;)*) => {$(
        impl<'r, K: ExchangeKey<'r> + $key<'r>, V: Persist + Export<'r>> Export<'r> for $map<'r, K, V> {
            fn export<S: Serializer>(&self, at: Exporter<'_, 'r>, serializer: S) -> Result<S::Ok, S::Error> {
                let at = at.deeper()?;
                let mut map = serializer.serialize_map(Some(self.len()))?;
                for (query, value) in self.iter(at.view()) {
                    map.serialize_entry(&ExportedKey::<K> { query, at }, &at.of(value))?;
                }
                map.end()
            }
        }

        impl<'r, K: ExchangeKey<'r> + $key<'r>, V: Import<'r>> Import<'r> for $map<'r, K, V> {
            fn import<'de, D: Deserializer<'de>>(into: &mut Importer<'_, 'r>, deserializer: D) -> Result<Self, D::Error> {
                into.nested(|into| deserializer.deserialize_map(Entries::<Self> { into, of: PhantomData }))
            }
        }

        impl<'de, 'r, K: ExchangeKey<'r> + $key<'r>, V: Import<'r>> Visitor<'de> for Entries<'_, '_, 'r, $map<'r, K, V>> {
            type Value = $map<'r, K, V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
                let into = self.into;
                // Collections grow where they lie. This one is garbage as soon as it has moved to its place.
                let map = into.tx().alloc($map::new());
                let map = into.heap(map)?;
                while let Some(key) = entries.next_key_seed(KeySeed::<K> { into, of: PhantomData })? {
                    let query = key.borrow();
                    let value = entries.next_value_seed(into.seed::<V>());
                    let value = value.inspect_err(|_| into.failed_at(Step::Key(K::describe(query))))?;
                    let old = map.insert(into.tx(), query, value);
                    if into.heap::<_, A::Error>(old)?.is_some() {
                        return Err(A::Error::custom(format_args!("duplicate key {}", K::describe(query))));
                    }
                }
                Ok(std::mem::take(&mut into.tx()[map]))
            }
        }
    )*};
}

maps! {
    PHashMap of HashKey;
    PBTreeMap of OrdKey;
}
