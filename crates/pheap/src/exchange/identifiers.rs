//! Reads names of fields and variants, or their numbers in formats that have numbers.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, Unexpected, Visitor};

/// A seed that reads the name or the number of a field. Returns the index of the field among these names;
/// `None` for an unknown field.
pub(super) struct FieldName(pub(super) &'static [&'static str]);

impl<'de> DeserializeSeed<'de> for FieldName {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<usize>, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for FieldName {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_u64<E>(self, index: u64) -> Result<Option<usize>, E> {
        Ok(usize::try_from(index).ok().filter(|&index| index < self.0.len()))
    }

    fn visit_str<E>(self, name: &str) -> Result<Option<usize>, E> {
        Ok(self.0.iter().position(|&field| field == name))
    }

    fn visit_bytes<E>(self, name: &[u8]) -> Result<Option<usize>, E> {
        Ok(self.0.iter().position(|field| field.as_bytes() == name))
    }
}

/// A seed that reads the name or the number of a variant. Returns the index of the variant among these names.
/// An unknown variant is an error.
pub(super) struct VariantName(pub(super) &'static [&'static str]);

impl<'de> DeserializeSeed<'de> for VariantName {
    type Value = usize;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<usize, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for VariantName {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a variant")
    }

    fn visit_u64<E: Error>(self, index: u64) -> Result<usize, E> {
        let known = usize::try_from(index).ok().filter(|&index| index < self.0.len());
        known.ok_or_else(|| E::invalid_value(Unexpected::Unsigned(index), &self))
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<usize, E> {
        let known = self.0.iter().position(|&variant| variant == name);
        known.ok_or_else(|| E::unknown_variant(name, self.0))
    }

    fn visit_bytes<E: Error>(self, name: &[u8]) -> Result<usize, E> {
        let known = self.0.iter().position(|variant| variant.as_bytes() == name);
        known.ok_or_else(|| E::unknown_variant(&String::from_utf8_lossy(name), self.0))
    }
}
