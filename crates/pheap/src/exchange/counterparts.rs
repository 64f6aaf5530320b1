//! Export and import of counterparts of the standard library's types, of `NonZero` and the like, and of types
//! of other crates.

use std::cmp::Reverse;
use std::fmt;
use std::marker::PhantomData;
use std::num::{NonZero, Wrapping};
use std::time::{Duration, SystemTime};

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeTuple, Serializer};

use super::export::{Export, Exporter};
use super::import::{Import, Importer};
use super::sequence;
use super::values::{Optional, themselves};
use crate::collections::{InlineBytes, PBytes, PString, SharedStr};
use crate::layout::{StoreAs, Stored};
use crate::values::{
    PDuration, POption, PSystemTime, PTuple2, PTuple3, PTuple4, PTuple5, PTuple6, PTuple7, PTuple8,
};

themselves! {
    NonZero<u8>, NonZero<u16>, NonZero<u32>, NonZero<u64>, NonZero<u128>,
    NonZero<i8>, NonZero<i16>, NonZero<i32>, NonZero<i64>, NonZero<i128>
}
#[cfg(feature = "uuid")]
themselves! { uuid::Uuid }

macro_rules! optional_numbers {
    ($($ty:ty),*) => {$(
        impl Export<'_> for Option<NonZero<$ty>> {
            fn export<S: Serializer>(&self, _: Exporter<'_, '_>, serializer: S) -> Result<S::Ok, S::Error> {
                self.serialize(serializer)
            }
        }

        impl<'r> Import<'r> for Option<NonZero<$ty>> {
            fn import<'de, D: Deserializer<'de>>(
                _: &mut Importer<'_, 'r>,
                deserializer: D,
            ) -> Result<Self, D::Error> {
                Deserialize::deserialize(deserializer)
            }

            fn missing() -> Option<Self> {
                Some(None)
            }
        }
    )*};
}

optional_numbers! { u8, u16, u32, u64, u128, i8, i16, i32, i64, i128 }

/// Implements export and import for types that are exchanged as another type. An entry has both types, and
/// the conversions to and from the other type.
macro_rules! written_as {
    ($([$($param:tt)*] $ty:ty as $other:ty: |$value:ident| $get:expr, $of:expr;)*) => {$(
        impl<'r $($param)*> Export<'r> for $ty {
            fn export<S: Serializer>(&self, at: Exporter<'_, 'r>, serializer: S) -> Result<S::Ok, S::Error> {
                let ($value, _) = (self, at);
                Serialize::serialize(&$get, serializer)
            }
        }

        impl<'r $($param)*> Import<'r> for $ty {
            fn import<'de, D: Deserializer<'de>>(
                _: &mut Importer<'_, 'r>,
                deserializer: D,
            ) -> Result<Self, D::Error> {
                <$other>::deserialize(deserializer).map($of)
            }
        }
    )*};
}

written_as! {
    [] PDuration as Duration: |value| value.get(), PDuration::from;
    [] PSystemTime as SystemTime: |value| value.get(), PSystemTime::from;
    [, T: Serialize + for<'de> Deserialize<'de>, A: StoreAs<T>] Stored<T, A> as T:
    |value| value.get(), Stored::new;
}

#[cfg(feature = "ordered-float")]
written_as! {
    [] ordered_float::OrderedFloat<f32> as f32: |value| value.0, ordered_float::OrderedFloat;
    [] ordered_float::OrderedFloat<f64> as f64: |value| value.0, ordered_float::OrderedFloat;
}

/// Implements export and import for types that are exchanged as their single field.
macro_rules! around {
    ($($ty:ident),*) => {$(
        impl<'r, T: Export<'r>> Export<'r> for $ty<T> {
            fn export<S: Serializer>(&self, at: Exporter<'_, 'r>, serializer: S) -> Result<S::Ok, S::Error> {
                self.0.export(at, serializer)
            }
        }

        impl<'r, T: Import<'r>> Import<'r> for $ty<T> {
            fn import<'de, D: Deserializer<'de>>(
                into: &mut Importer<'_, 'r>,
                deserializer: D,
            ) -> Result<Self, D::Error> {
                T::import(into, deserializer).map($ty)
            }
        }
    )*};
}

around!(Wrapping, Reverse);

impl<T: ?Sized> Export<'_> for PhantomData<T> {
    fn export<S: Serializer>(&self, _: Exporter<'_, '_>, serializer: S) -> Result<S::Ok, S::Error> {
        self.serialize(serializer)
    }
}

impl<'r, T: ?Sized> Import<'r> for PhantomData<T>
where
    PhantomData<T>: crate::Persist<At<'r> = Self>,
{
    fn import<'de, D: Deserializer<'de>>(
        _: &mut Importer<'_, 'r>,
        deserializer: D,
    ) -> Result<Self, D::Error> {
        Deserialize::deserialize(deserializer)
    }
}

impl<'r, T: Export<'r>> Export<'r> for POption<T> {
    fn export<S: Serializer>(&self, at: Exporter<'_, 'r>, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            POption::Some(value) => serializer.serialize_some(&at.of(value)),
            POption::None => serializer.serialize_none(),
        }
    }
}

impl<'r, T: Import<'r>> Import<'r> for POption<T> {
    fn import<'de, D: Deserializer<'de>>(
        into: &mut Importer<'_, 'r>,
        deserializer: D,
    ) -> Result<Self, D::Error> {
        deserializer.deserialize_option(Optional { into, of: PhantomData }).map(POption::from)
    }

    fn missing() -> Option<Self> {
        Some(POption::None)
    }
}

struct Tuple<'i, 't, 'r, T> {
    into: &'i mut Importer<'t, 'r>,
    of: PhantomData<T>,
}

macro_rules! tuples {
    ($($name:ident $len:literal <$($part:ident $index:tt),*>;)*) => {$(
        impl<'r, $($part: Export<'r>),*> Export<'r> for $name<$($part),*> {
            fn export<S: Serializer>(&self, at: Exporter<'_, 'r>, serializer: S) -> Result<S::Ok, S::Error> {
                let mut tuple = serializer.serialize_tuple($len)?;
                $(tuple.serialize_element(&at.of(&self.$index))?;)*
                tuple.end()
            }
        }

        impl<'r, $($part: Import<'r>),*> Import<'r> for $name<$($part),*> {
            fn import<'de, De: Deserializer<'de>>(
                into: &mut Importer<'_, 'r>,
                deserializer: De,
            ) -> Result<Self, De::Error> {
                deserializer.deserialize_tuple($len, Tuple { into, of: PhantomData::<Self> })
            }
        }

        impl<'de, 'r, $($part: Import<'r>),*> Visitor<'de> for Tuple<'_, '_, 'r, $name<$($part),*>> {
            type Value = $name<$($part),*>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(concat!("a tuple of size ", $len))
            }

            fn visit_seq<Seq: SeqAccess<'de>>(self, mut seq: Seq) -> Result<Self::Value, Seq::Error> {
                Ok($name($({
                    let part = sequence::next(self.into, &mut seq, $index)?;
                    part.ok_or_else(
                        || Seq::Error::invalid_length($index, &concat!("a tuple of size ", $len))
                    )?
                }),*))
            }
        }
    )*};
}

tuples! {
    PTuple2 2 <A 0, B 1>;
    PTuple3 3 <A 0, B 1, C 2>;
    PTuple4 4 <A 0, B 1, C 2, D 3>;
    PTuple5 5 <A 0, B 1, C 2, D 3, E 4>;
    PTuple6 6 <A 0, B 1, C 2, D 3, E 4, F 5>;
    PTuple7 7 <A 0, B 1, C 2, D 3, E 4, F 5, G 6>;
    PTuple8 8 <A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7>;
}

/// Implements export and import for types of strings. An entry has the type, and the function that makes a
/// value from a text.
macro_rules! texts {
    ($($ty:ident by $make:ident;)*) => {$(
        impl<'r> Export<'r> for $ty<'r> {
            fn export<S: Serializer>(&self, at: Exporter<'_, 'r>, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str(at.view()))
            }
        }

        impl<'r> Import<'r> for $ty<'r> {
            fn import<'de, D: Deserializer<'de>>(
                into: &mut Importer<'_, 'r>,
                deserializer: D,
            ) -> Result<Self, D::Error> {
                super::values::text(into, deserializer, |into, text| $ty::$make(into.tx(), text))
            }
        }
    )*};
}

texts! {
    PString by from_str;
    SharedStr by new;
}

/// Implements export and import for types of bytes. In human-readable formats, the bytes are written in
/// hexadecimal, like keys of bytes.
macro_rules! bytes {
    ($($ty:ident),*) => {$(
        impl<'r> Export<'r> for $ty<'r> {
            fn export<S: Serializer>(&self, at: Exporter<'_, 'r>, serializer: S) -> Result<S::Ok, S::Error> {
                super::keys::export_bytes(self.as_slice(at.view()), serializer)
            }
        }

        impl<'r> Import<'r> for $ty<'r> {
            fn import<'de, D: Deserializer<'de>>(
                into: &mut Importer<'_, 'r>,
                deserializer: D,
            ) -> Result<Self, D::Error> {
                let bytes = super::keys::import_bytes(deserializer)?;
                let bytes = $ty::from_slice(into.tx(), &bytes);
                into.heap(bytes)
            }
        }
    )*};
}

bytes!(PBytes, InlineBytes);
