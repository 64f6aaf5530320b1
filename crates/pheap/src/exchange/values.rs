//! Export and import of primitives, arrays, pointers, options of pointers, slices and strings.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error as _, IgnoredAny, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeTuple, Serializer};

use super::export::{Export, Exporter};
use super::import::{Import, Importer};
use super::sequence;
use crate::layout::{Persist, Pointee};
use crate::ptr::P;

/// Implements export and import for types that serde supports directly.
macro_rules! themselves {
    ($($ty:ty),*) => {$(
        impl Export<'_> for $ty {
            #[inline]
            fn export<S: Serializer>(&self, _: Exporter<'_, '_>, serializer: S) -> Result<S::Ok, S::Error> {
                self.serialize(serializer)
            }
        }

        impl<'r> Import<'r> for $ty {
            #[inline]
            fn import<'de, D: Deserializer<'de>>(
                _: &mut Importer<'_, 'r>,
                deserializer: D,
            ) -> Result<$ty, D::Error> {
                <$ty>::deserialize(deserializer)
            }
        }
    )*};
}

pub(super) use themselves;

themselves! { u8, u16, u32, u64, u128, i8, i16, i32, i64, i128, f32, f64, bool, char, () }

impl<'r, T: Export<'r>, const N: usize> Export<'r> for [T; N] {
    fn export<S: Serializer>(&self, at: Exporter<'_, 'r>, serializer: S) -> Result<S::Ok, S::Error> {
        let mut tuple = serializer.serialize_tuple(N)?;
        self.iter().try_for_each(|element| tuple.serialize_element(&at.of(element)))?;
        tuple.end()
    }
}

impl<'r, T: Import<'r>, const N: usize> Import<'r> for [T; N] {
    fn import<'de, D: Deserializer<'de>>(
        into: &mut Importer<'_, 'r>,
        deserializer: D,
    ) -> Result<Self, D::Error> {
        deserializer.deserialize_tuple(N, Array { into, of: PhantomData })
    }
}

struct Array<'i, 't, 'r, T> {
    into: &'i mut Importer<'t, 'r>,
    of: PhantomData<T>,
}

impl<'de, 'r, T: Import<'r>, const N: usize> Visitor<'de> for Array<'_, '_, 'r, [T; N]> {
    type Value = [T; N];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an array of length {N}")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<[T; N], A::Error> {
        // The elements are read into a `Vec`, which can hold an incomplete array.
        let mut elements = Vec::with_capacity(N);
        while elements.len() < N {
            match sequence::next(self.into, &mut seq, elements.len())? {
                Some(element) => elements.push(element),
                None => return Err(A::Error::invalid_length(elements.len(), &self)),
            }
        }
        // In a format that is not self-describing, the sequence ends after the `N` elements of the array.
        if seq.next_element::<IgnoredAny>()?.is_some() {
            return Err(A::Error::invalid_length(N + 1, &self));
        }
        Ok(elements.try_into().unwrap_or_else(|_| unreachable!("there are {N} elements")))
    }
}

impl<'r, T: Pointee + Export<'r> + ?Sized> Export<'r> for P<'r, T> {
    fn export<S: Serializer>(&self, at: Exporter<'_, 'r>, serializer: S) -> Result<S::Ok, S::Error> {
        let at = at.deeper()?;
        at.view()[*self].export(at, serializer)
    }
}

impl<'r, T: Import<'r>> Import<'r> for P<'r, T> {
    fn import<'de, D: Deserializer<'de>>(
        into: &mut Importer<'_, 'r>,
        deserializer: D,
    ) -> Result<Self, D::Error> {
        let value = into.nested(|into| T::import(into, deserializer))?;
        let object = into.tx().alloc(value);
        into.heap(object)
    }
}

impl<'r, T: Export<'r>> Export<'r> for [T] {
    fn export<S: Serializer>(&self, at: Exporter<'_, 'r>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(|element| at.of(element)))
    }
}

impl<'r, T: Import<'r>> Import<'r> for P<'r, [T]> {
    fn import<'de, D: Deserializer<'de>>(
        into: &mut Importer<'_, 'r>,
        deserializer: D,
    ) -> Result<Self, D::Error> {
        let elements: Vec<T> = sequence::elements(into, deserializer)?;
        let len = elements.len();
        let mut elements = elements.into_iter();
        let slice = into.tx().alloc_slice(len, |_| elements.next().expect("there are as many"));
        into.heap(slice)
    }
}

impl Export<'_> for str {
    fn export<S: Serializer>(&self, _: Exporter<'_, '_>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl<'r> Import<'r> for P<'r, str> {
    fn import<'de, D: Deserializer<'de>>(
        into: &mut Importer<'_, 'r>,
        deserializer: D,
    ) -> Result<Self, D::Error> {
        text(into, deserializer, |into, text| into.tx().alloc_str(text))
    }
}

/// Reads a string, and returns the value that `make` makes of it.
pub(super) fn text<'de, 't, 'r, T, D: Deserializer<'de>>(
    into: &mut Importer<'t, 'r>,
    deserializer: D,
    make: impl FnOnce(&mut Importer<'t, 'r>, &str) -> crate::Result<T>,
) -> Result<T, D::Error> {
    deserializer.deserialize_str(Text { into, make, of: PhantomData })
}

struct Text<'i, 't, 'r, T, F> {
    into: &'i mut Importer<'t, 'r>,
    make: F,
    of: PhantomData<T>,
}

impl<'t, 'r, T, F> Visitor<'_> for Text<'_, 't, 'r, T, F>
where
    F: FnOnce(&mut Importer<'t, 'r>, &str) -> crate::Result<T>,
{
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        let value = (self.make)(self.into, text);
        self.into.heap(value)
    }
}

impl<'r, T: ?Sized> Export<'r> for Option<P<'r, T>>
where
    P<'r, T>: Export<'r>,
{
    fn export<S: Serializer>(&self, at: Exporter<'_, 'r>, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Some(p) => serializer.serialize_some(&at.of(p)),
            None => serializer.serialize_none(),
        }
    }
}

impl<'r, T: Pointee + ?Sized> Import<'r> for Option<P<'r, T>>
where
    P<'r, T>: Import<'r>,
    Option<P<'r, T>>: Persist<At<'r> = Self>,
{
    fn import<'de, D: Deserializer<'de>>(
        into: &mut Importer<'_, 'r>,
        deserializer: D,
    ) -> Result<Self, D::Error> {
        deserializer.deserialize_option(Optional { into, of: PhantomData })
    }

    fn missing() -> Option<Self> {
        Some(None)
    }
}

pub(super) struct Optional<'i, 't, 'r, T> {
    pub(super) into: &'i mut Importer<'t, 'r>,
    pub(super) of: PhantomData<T>,
}

impl<'de, 'r, T: Import<'r>> Visitor<'de> for Optional<'_, '_, 'r, T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value, or none")
    }

    fn visit_none<E>(self) -> Result<Option<T>, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Option<T>, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<T>, D::Error> {
        T::import(self.into, deserializer).map(Some)
    }
}
