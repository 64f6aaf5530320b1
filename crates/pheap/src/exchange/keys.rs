//! Export and import of the keys of maps and the elements of sets.

use std::borrow::Borrow;
use std::fmt::{self, Write};
use std::marker::PhantomData;
use std::num::NonZero;

use serde::de::{DeserializeSeed, Deserializer, Error, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};

use super::export::{Export, Exporter};
use super::import::{Import, Importer};
use crate::collections::{InlineBytes, MapKey, PBytes, PString, SharedStr};
use crate::ptr::P;

/// A key that can be exported and imported. `#[persist(key, serde)]` with `#[derive(Persist)]` implements it.
///
/// The exported form is the key's [borrowed form](MapKey::Query): a string for a `P<str>`, a `PString` or a
/// `SharedStr`.
/// JSON has no other keys; serde_json also writes numbers, `bool`, and variants without fields as strings,
/// and reads them back. Keys of bytes (`[u8; N]`, `P<[u8]>`, `PBytes`, `InlineBytes`) are written in
/// hexadecimal in human-readable formats. Keys of other kinds need another format, or a sequence of pairs
/// instead of a map.
#[diagnostic::on_unimplemented(
    message = "a map with keys of type `{Self}` cannot be exported and imported",
    label = "not an `ExchangeKey`",
    note = "keys of your own need `#[persist(key, serde)]` beside `#[derive(Persist)]`"
)]
pub trait ExchangeKey<'r>: MapKey<'r> {
    /// The imported form of a key, before the key is in a heap.
    type Owned: Borrow<Self::Query>;

    /// Serialises a key.
    ///
    /// # Errors
    /// Those of the serialiser.
    fn export_key<S: Serializer>(
        query: &Self::Query,
        at: Exporter<'_, 'r>,
        serializer: S,
    ) -> Result<S::Ok, S::Error>;

    /// Deserialises a key.
    ///
    /// # Errors
    /// Those of the deserialiser.
    fn import_key<'de, D: Deserializer<'de>>(
        into: &mut Importer<'_, 'r>,
        deserializer: D,
    ) -> Result<Self::Owned, D::Error>;

    /// Returns a text for the key, for messages: `..` unless the type has a better one.
    fn describe(query: &Self::Query) -> String {
        let _ = query;
        "..".to_owned()
    }
}

/// A key in the form that serde can serialise.
pub(super) struct ExportedKey<'v, 'r, K: MapKey<'r>> {
    pub(super) query: &'v K::Query,
    pub(super) at: Exporter<'v, 'r>,
}

impl<'r, K: ExchangeKey<'r>> Serialize for ExportedKey<'_, 'r, K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        K::export_key(self.query, self.at, serializer)
    }
}

/// A seed that reads a key of type `K`.
pub(super) struct KeySeed<'i, 't, 'r, K> {
    pub(super) into: &'i mut Importer<'t, 'r>,
    pub(super) of: PhantomData<fn() -> K>,
}

impl<'de, 'r, K: ExchangeKey<'r>> DeserializeSeed<'de> for KeySeed<'_, '_, 'r, K> {
    type Value = K::Owned;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<K::Owned, D::Error> {
        K::import_key(self.into, deserializer)
    }
}

/// Implements [`ExchangeKey`] for types that are their own borrowed form.
macro_rules! by_itself {
    ($($ty:ty),*) => {$(
        impl<'r> ExchangeKey<'r> for $ty {
            type Owned = $ty;

            fn export_key<S: Serializer>(
                query: &$ty,
                at: Exporter<'_, 'r>,
                serializer: S,
            ) -> Result<S::Ok, S::Error> {
                query.export(at, serializer)
            }

            fn import_key<'de, D: Deserializer<'de>>(
                into: &mut Importer<'_, 'r>,
                deserializer: D,
            ) -> Result<$ty, D::Error> {
                <$ty>::import(into, deserializer)
            }

            fn describe(query: &$ty) -> String {
                format!("{query:?}")
            }
        }
    )*};
}

by_itself! {
    u8, u16, u32, u64, u128, i8, i16, i32, i64, i128, bool, char,
    NonZero<u8>, NonZero<u16>, NonZero<u32>, NonZero<u64>, NonZero<u128>,
    NonZero<i8>, NonZero<i16>, NonZero<i32>, NonZero<i64>, NonZero<i128>
}
#[cfg(feature = "uuid")]
by_itself! { uuid::Uuid }

/// Implements [`ExchangeKey`] for types whose borrowed form is a string.
macro_rules! by_text {
    ($($ty:ty),*) => {$(
        impl<'r> ExchangeKey<'r> for $ty {
            type Owned = String;

            fn export_key<S: Serializer>(
                query: &str,
                _: Exporter<'_, 'r>,
                serializer: S,
            ) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(query)
            }

            fn import_key<'de, D: Deserializer<'de>>(
                _: &mut Importer<'_, 'r>,
                deserializer: D,
            ) -> Result<String, D::Error> {
                serde::Deserialize::deserialize(deserializer)
            }

            fn describe(query: &str) -> String {
                format!("{query:?}")
            }
        }
    )*};
}

by_text! { P<'r, str>, PString<'r>, SharedStr<'r> }

impl<'r, const N: usize> ExchangeKey<'r> for [u8; N] {
    type Owned = [u8; N];

    fn export_key<S: Serializer>(
        query: &[u8; N],
        _: Exporter<'_, 'r>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        export_bytes(query, serializer)
    }

    fn import_key<'de, D: Deserializer<'de>>(
        _: &mut Importer<'_, 'r>,
        deserializer: D,
    ) -> Result<[u8; N], D::Error> {
        let bytes = import_bytes(deserializer)?;
        let len = bytes.len();
        bytes.try_into().map_err(|_| D::Error::invalid_length(len, &format!("a key of {N} bytes").as_str()))
    }

    fn describe(query: &[u8; N]) -> String {
        hexadecimal(query)
    }
}

/// Implements [`ExchangeKey`] for types whose borrowed form is a slice of bytes.
macro_rules! by_bytes { ($($ty:ty),*) => {$(
impl<'r> ExchangeKey<'r> for $ty {
    type Owned = Vec<u8>;

    fn export_key<S: Serializer>(
        query: &[u8],
        _: Exporter<'_, 'r>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        export_bytes(query, serializer)
    }

    fn import_key<'de, D: Deserializer<'de>>(
        _: &mut Importer<'_, 'r>,
        deserializer: D,
    ) -> Result<Vec<u8>, D::Error> {
        import_bytes(deserializer)
    }

    fn describe(query: &[u8]) -> String {
        hexadecimal(query)
    }
}
)*} }

by_bytes! { P<'r, [u8]>, PBytes<'r>, InlineBytes<'r> }

fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        write!(text, "{byte:02x}").expect("a string has no errors");
    }
    text
}

pub(super) fn export_bytes<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    match serializer.is_human_readable() {
        true => serializer.serialize_str(&hexadecimal(bytes)),
        false => serializer.serialize_bytes(bytes),
    }
}

pub(super) fn import_bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    match deserializer.is_human_readable() {
        true => deserializer.deserialize_str(Bytes),
        false => deserializer.deserialize_byte_buf(Bytes),
    }
}

struct Bytes;

impl<'de> Visitor<'de> for Bytes {
    type Value = Vec<u8>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes in hexadecimal")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Vec<u8>, E> {
        let digit = |digit: u8| char::from(digit).to_digit(16).map(|digit| digit as u8);
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        let bytes = pairs.iter().map(|&[high, low]| Some(digit(high)? << 4 | digit(low)?));
        let bytes = bytes.collect::<Option<Vec<u8>>>().filter(|_| rest.is_empty());
        bytes.ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
        Ok(bytes.to_vec())
    }

    fn visit_byte_buf<E>(self, bytes: Vec<u8>) -> Result<Vec<u8>, E> {
        Ok(bytes)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<u8>, A::Error> {
        let mut bytes = Vec::new();
        while let Some(byte) = seq.next_element()? {
            bytes.push(byte);
        }
        Ok(bytes)
    }
}
