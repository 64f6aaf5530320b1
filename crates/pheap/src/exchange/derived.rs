//! The functions and types that the expansion of `#[persist(serde)]` uses.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{EnumAccess, SeqAccess, Visitor};

use super::identifiers::VariantName;
use super::path::PathStep;

pub use super::parts::{
    Part, Parts, Shape, import_struct, import_struct_variant, import_tuple, import_tuple_variant,
};
pub use super::{ExchangeKey, Export, Exporter, Import, Importer};
pub use serde::de::{Deserializer, VariantAccess};
pub use serde::ser::{
    SerializeStruct, SerializeStructVariant, SerializeTupleStruct, SerializeTupleVariant, Serializer,
};

/// Exports a field of a struct with named fields.
pub fn export_field<'v, 'r, S: SerializeStruct, T: Export<'r> + ?Sized>(
    state: &mut S,
    name: &'static str,
    at: Exporter<'v, 'r>,
    field: &'v T,
) -> Result<(), S::Error> {
    state.serialize_field(name, &at.of(field))
}

/// Exports a field of a variant with named fields.
pub fn export_variant_field<'v, 'r, S: SerializeStructVariant, T: Export<'r> + ?Sized>(
    state: &mut S,
    name: &'static str,
    at: Exporter<'v, 'r>,
    field: &'v T,
) -> Result<(), S::Error> {
    state.serialize_field(name, &at.of(field))
}

/// Exports a field of a tuple struct.
pub fn export_tuple_field<'v, 'r, S: SerializeTupleStruct, T: Export<'r> + ?Sized>(
    state: &mut S,
    at: Exporter<'v, 'r>,
    field: &'v T,
) -> Result<(), S::Error> {
    state.serialize_field(&at.of(field))
}

/// Exports a field of a tuple variant.
pub fn export_tuple_variant_field<'v, 'r, S: SerializeTupleVariant, T: Export<'r> + ?Sized>(
    state: &mut S,
    at: Exporter<'v, 'r>,
    field: &'v T,
) -> Result<(), S::Error> {
    state.serialize_field(&at.of(field))
}

/// Exports a tuple struct with one field.
pub fn export_newtype<'v, 'r, S: Serializer, T: Export<'r> + ?Sized>(
    serializer: S,
    name: &'static str,
    at: Exporter<'v, 'r>,
    field: &'v T,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_newtype_struct(name, &at.of(field))
}

/// Exports a variant with one field that has no name.
pub fn export_newtype_variant<'v, 'r, S: Serializer, T: Export<'r> + ?Sized>(
    serializer: S,
    name: &'static str,
    index: u32,
    variant: &'static str,
    at: Exporter<'v, 'r>,
    field: &'v T,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_newtype_variant(name, index, variant, &at.of(field))
}

/// Imports the field of a tuple struct with one field.
pub fn import_newtype<'de, 'r, D: Deserializer<'de>, T: Import<'r>>(
    into: &mut Importer<'_, 'r>,
    deserializer: D,
    name: &'static str,
    expecting: &'static str,
) -> Result<T, D::Error> {
    deserializer.deserialize_newtype_struct(name, Newtype { into, expecting, of: PhantomData })
}

struct Newtype<'i, 't, 'r, T> {
    into: &'i mut Importer<'t, 'r>,
    expecting: &'static str,
    of: PhantomData<T>,
}

impl<'de, 'r, T: Import<'r>> Visitor<'de> for Newtype<'_, '_, 'r, T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expecting)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        T::import(self.into, deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<T, A::Error> {
        let value = super::sequence::next(self.into, &mut seq, 0)?;
        value.ok_or_else(|| serde::de::Error::invalid_length(0, &self))
    }
}

/// Imports a unit struct.
pub fn import_unit<'de, D: Deserializer<'de>>(
    deserializer: D,
    name: &'static str,
    expecting: &'static str,
) -> Result<(), D::Error> {
    deserializer.deserialize_unit_struct(name, Unit { expecting })
}

struct Unit {
    expecting: &'static str,
}

impl Visitor<'_> for Unit {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expecting)
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

/// Imports the field of a variant with one field that has no name.
pub fn import_newtype_variant<'de, 'r, A: VariantAccess<'de>, T: Import<'r>>(
    into: &mut Importer<'_, 'r>,
    variant: A,
) -> Result<T, A::Error> {
    variant.newtype_variant_seed(into.seed())
}

/// An enum that can be imported.
pub trait Variants<'r>: Sized {
    /// Name of the enum.
    const NAME: &'static str;

    /// A text for the expected data, for error messages, such as "enum Shape".
    const EXPECTING: &'static str;

    /// Names of the enum's variants, in the order of their indices.
    const NAMES: &'static [&'static str];

    /// Reads the content of the variant with this index.
    fn import_variant<'de, A: VariantAccess<'de>>(
        index: usize,
        into: &mut Importer<'_, 'r>,
        variant: A,
    ) -> Result<Self, A::Error>;
}

/// Imports an enum: one of its variants.
pub fn import_enum<'de, 'r, D: Deserializer<'de>, T: Variants<'r>>(
    into: &mut Importer<'_, 'r>,
    deserializer: D,
) -> Result<T, D::Error> {
    deserializer.deserialize_enum(T::NAME, T::NAMES, Variant { into, of: PhantomData })
}

struct Variant<'i, 't, 'r, T> {
    into: &'i mut Importer<'t, 'r>,
    of: PhantomData<T>,
}

impl<'de, 'r, T: Variants<'r>> Visitor<'de> for Variant<'_, '_, 'r, T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTING)
    }

    fn visit_enum<A: EnumAccess<'de>>(self, data: A) -> Result<T, A::Error> {
        let (index, variant) = data.variant_seed(VariantName(T::NAMES))?;
        let value = T::import_variant(index, self.into, variant);
        value.inspect_err(|_| self.into.failed_at(PathStep::Name(T::NAMES[index])))
    }
}
