//! Export and import of maps.

use std::borrow::Borrow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};

use super::export::{Export, Exporter};
use super::import::{Import, Importer};
use super::keys::{ExchangeKey, ExportedKey, KeySeed};
use super::path::PathStep;
use crate::collections::{Frozen, HashKey, MapKey, OrdKey, PBTreeMap, PHashMap, PSnapMap};
use crate::layout::Persist;

/// A visitor that reads a map of type `M`.
struct Entries<'i, 't, 'r, M> {
    into: &'i mut Importer<'t, 'r>,
    of: PhantomData<M>,
}

/// Implements export and import for types of maps. An entry has the type with the bounds of its keys and
/// values, an expression that iterates over a map, and an expression that inserts an entry and returns
/// whether the map had the key.
macro_rules! maps {
    ($(
        [$K:ident: $($key:tt)*] [$V:ident: $($value:tt)*] $map:ident<'r> where [$($clause:tt)*]
        |$this:ident, $view:ident| $entries:expr,
        |$tx:ident, $into:ident, $query:ident, $new:ident| $insert:expr;
    )*) => {$(
        impl<'r, $K: ExchangeKey<'r> + $($key)*, $V: $($value)* + Export<'r>> Export<'r> for $map<'r, $K, $V>
        $($clause)*
        {
            fn export<S: Serializer>(&self, at: Exporter<'_, 'r>, serializer: S) -> Result<S::Ok, S::Error> {
                let at = at.deeper()?;
                let mut map = serializer.serialize_map(Some(self.len()))?;
                let ($this, $view) = (self, at.view());
                for (query, value) in $entries {
                    map.serialize_entry(&ExportedKey::<$K> { query, at }, &at.of(value))?;
                }
                map.end()
            }
        }

        impl<'r, $K: ExchangeKey<'r> + $($key)*, $V: $($value)* + Import<'r>> Import<'r> for $map<'r, $K, $V>
        $($clause)*
        {
            fn import<'de, D: Deserializer<'de>>(
                into: &mut Importer<'_, 'r>,
                deserializer: D,
            ) -> Result<Self, D::Error> {
                into.nested(|into| deserializer.deserialize_map(Entries::<Self> { into, of: PhantomData }))
            }
        }

        impl<'de, 'r, $K: ExchangeKey<'r> + $($key)*, $V: $($value)* + Import<'r>> Visitor<'de>
            for Entries<'_, '_, 'r, $map<'r, $K, $V>>
        $($clause)*
        {
            type Value = $map<'r, $K, $V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
                let into = self.into;
                // A collection is changed through a pointer, so the map is filled in an object. That object
                // is garbage after the map was moved out of it.
                let map = into.tx().alloc($map::new());
                let map = into.heap(map)?;
                while let Some(key) = entries.next_key_seed(KeySeed::<$K> { into, of: PhantomData })? {
                    let query = key.borrow();
                    let value = entries.next_value_seed(into.seed::<$V>());
                    let value = value.inspect_err(|_| into.failed_at(PathStep::Key($K::describe(query))))?;
                    let ($tx, $into, $query, $new) = (into.tx(), map, query, value);
                    let was_there = $insert;
                    if into.heap::<_, A::Error>(was_there)? {
                        return Err(A::Error::custom(format_args!("duplicate key {}", $K::describe(query))));
                    }
                }
                Ok(std::mem::take(&mut into.tx()[map]))
            }
        }
    )*};
}

maps! {
    [K: HashKey<'r>] [V: Persist] PHashMap<'r> where []
    |map, view| map.iter(view), |tx, map, query, value| map.insert(tx, query, value).map(|old| old.is_some());

    [K: OrdKey<'r>] [V: Persist] PBTreeMap<'r> where []
    |map, view| map.iter(view), |tx, map, query, value| map.insert(tx, query, value).map(|old| old.is_some());

    [K: Frozen<'r, Shown = <K as MapKey<'r>>::Query>] [V: Frozen<'r>] PSnapMap<'r>
    where [where <K as MapKey<'r>>::Query: Ord]
    |map, view| map.stored(view).map(|(key, value)| (key.shown(view), value)),
    // `insert_with` requires that no object outside the map points to the objects to which the value points.
    // An imported value points to new objects only.
    |tx, map, query, value| map.insert_with(tx, query, |_| Ok(value)).map(|is_new| !is_new);
}
