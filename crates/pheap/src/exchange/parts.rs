//! The fields of a struct or variant, as a list of types: `Part<A, Part<B, ()>>`.
//!
//! With such a list, the code that reads fields is written once, here, and the derive only takes the list
//! apart.

use std::fmt;

use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, VariantAccess, Visitor};

use super::identifiers::FieldName;
use super::import::{Import, Importer};
use super::path::PathStep;

/// A field, and the fields after it.
pub struct Part<T, Rest>(pub T, pub Rest);

/// The name of a struct or enum, and the names of the fields of the struct or of a variant.
pub struct Shape {
    /// Name of the struct or enum.
    pub name: &'static str,
    /// A text for the expected data, for error messages, such as "struct Shop".
    pub expecting: &'static str,
    /// Names of the fields, in order. For a tuple: "0", "1".
    pub fields: &'static [&'static str],
}

/// A list of the fields of a struct or variant.
pub trait Parts<'r>: Sized {
    /// A place for each field, empty until the field was read.
    type Places: Default;

    /// Reads the value of field `index` from a map. A second value of the field is an error.
    fn from_map<'de, A: MapAccess<'de>>(
        places: &mut Self::Places,
        index: usize,
        name: &'static str,
        into: &mut Importer<'_, 'r>,
        map: &mut A,
    ) -> Result<(), A::Error>;

    /// Returns all fields. A missing field is an error, unless its type has a value for missing fields.
    fn from_places<E: Error>(places: Self::Places, names: &[&'static str]) -> Result<Self, E>;

    /// Reads all fields from a sequence. `index` is the index of the first field of this list among the
    /// fields of `visitor`.
    fn from_seq<'de, A: SeqAccess<'de>>(
        visitor: &mut Fields<'_, '_, 'r>,
        seq: &mut A,
        index: usize,
    ) -> Result<Self, A::Error>;
}

impl<'r> Parts<'r> for () {
    type Places = ();

    fn from_map<'de, A: MapAccess<'de>>(
        _: &mut (),
        _: usize,
        name: &'static str,
        _: &mut Importer<'_, 'r>,
        _: &mut A,
    ) -> Result<(), A::Error> {
        unreachable!("`{name}` is one of the fields")
    }

    fn from_places<E: Error>(_: (), _: &[&'static str]) -> Result<(), E> {
        Ok(())
    }

    fn from_seq<'de, A: SeqAccess<'de>>(
        visitor: &mut Fields<'_, '_, 'r>,
        seq: &mut A,
        index: usize,
    ) -> Result<(), A::Error> {
        // In a format that is not self-describing, the sequence ends after the number of elements that the
        // struct or variant has.
        match seq.next_element::<IgnoredAny>()? {
            Some(_) => Err(A::Error::invalid_length(index + 1, visitor)),
            None => Ok(()),
        }
    }
}

impl<'r, T: Import<'r>, Rest: Parts<'r>> Parts<'r> for Part<T, Rest> {
    type Places = (Option<T>, Rest::Places);

    fn from_map<'de, A: MapAccess<'de>>(
        (place, rest): &mut Self::Places,
        index: usize,
        name: &'static str,
        into: &mut Importer<'_, 'r>,
        map: &mut A,
    ) -> Result<(), A::Error> {
        if index > 0 {
            return Rest::from_map(rest, index - 1, name, into, map);
        }
        if place.is_some() {
            return Err(A::Error::duplicate_field(name));
        }
        let value = map.next_value_seed(into.seed());
        *place = Some(value.inspect_err(|_| into.failed_at(PathStep::Name(name)))?);
        Ok(())
    }

    fn from_places<E: Error>((place, rest): Self::Places, names: &[&'static str]) -> Result<Self, E> {
        let value = place.or_else(T::missing).ok_or_else(|| E::missing_field(names[0]))?;
        Ok(Part(value, Rest::from_places(rest, &names[1..])?))
    }

    fn from_seq<'de, A: SeqAccess<'de>>(
        visitor: &mut Fields<'_, '_, 'r>,
        seq: &mut A,
        index: usize,
    ) -> Result<Self, A::Error> {
        let value = seq.next_element_seed(visitor.into.seed());
        let value =
            value.inspect_err(|_| visitor.into.failed_at(PathStep::Name(visitor.shape.fields[index])))?;
        let value = value.ok_or_else(|| A::Error::invalid_length(index, &*visitor))?;
        Ok(Part(value, Rest::from_seq(visitor, seq, index + 1)?))
    }
}

/// The importer that reads fields, and the names of these fields.
pub struct Fields<'i, 't, 'r> {
    into: &'i mut Importer<'t, 'r>,
    shape: &'static Shape,
}

impl serde::de::Expected for Fields<'_, '_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} with {} fields", self.shape.expecting, self.shape.fields.len())
    }
}

/// Reads a list of fields, from a sequence or, if they have names, from a map.
struct PartsVisitor<'i, 't, 'r, L> {
    fields: Fields<'i, 't, 'r>,
    named: bool,
    list: std::marker::PhantomData<L>,
}

impl<'i, 't, 'r, L> PartsVisitor<'i, 't, 'r, L> {
    fn new(into: &'i mut Importer<'t, 'r>, shape: &'static Shape, named: bool) -> Self {
        PartsVisitor { fields: Fields { into, shape }, named, list: std::marker::PhantomData }
    }
}

impl<'de, 'r, L: Parts<'r>> Visitor<'de> for PartsVisitor<'_, '_, 'r, L> {
    type Value = L;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.fields.shape.expecting)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<L, A::Error> {
        L::from_seq(&mut self.fields, &mut seq, 0)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<L, A::Error> {
        let Fields { into, shape } = self.fields;
        if !self.named {
            return Err(A::Error::invalid_type(serde::de::Unexpected::Map, &shape.expecting));
        }
        let mut places = L::Places::default();
        while let Some(field) = map.next_key_seed(FieldName(shape.fields))? {
            match field {
                Some(index) => L::from_map(&mut places, index, shape.fields[index], into, &mut map)?,
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        L::from_places(places, shape.fields)
    }
}

/// Imports the fields of a struct with named fields.
pub fn import_struct<'de, 'r, D: Deserializer<'de>, L: Parts<'r>>(
    into: &mut Importer<'_, 'r>,
    deserializer: D,
    shape: &'static Shape,
) -> Result<L, D::Error> {
    deserializer.deserialize_struct(shape.name, shape.fields, PartsVisitor::new(into, shape, true))
}

/// Imports the fields of a tuple struct.
pub fn import_tuple<'de, 'r, D: Deserializer<'de>, L: Parts<'r>>(
    into: &mut Importer<'_, 'r>,
    deserializer: D,
    shape: &'static Shape,
) -> Result<L, D::Error> {
    let visitor = PartsVisitor::new(into, shape, false);
    deserializer.deserialize_tuple_struct(shape.name, shape.fields.len(), visitor)
}

/// Imports the fields of a variant with named fields.
pub fn import_struct_variant<'de, 'r, A: VariantAccess<'de>, L: Parts<'r>>(
    into: &mut Importer<'_, 'r>,
    variant: A,
    shape: &'static Shape,
) -> Result<L, A::Error> {
    variant.struct_variant(shape.fields, PartsVisitor::new(into, shape, true))
}

/// Imports the fields of a tuple variant.
pub fn import_tuple_variant<'de, 'r, A: VariantAccess<'de>, L: Parts<'r>>(
    into: &mut Importer<'_, 'r>,
    variant: A,
    shape: &'static Shape,
) -> Result<L, A::Error> {
    variant.tuple_variant(shape.fields.len(), PartsVisitor::new(into, shape, false))
}
