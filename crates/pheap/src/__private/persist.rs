//! The impls that `#[derive(Persist)]` expands to.

#![allow(unsafe_code)]

use super::Slot;

/// Zeroes the bytes `base + from .. base + to`.
///
/// # Safety
/// They are valid for writes.
#[inline(always)]
pub unsafe fn zero(base: *mut u8, from: usize, to: usize) {
    if from < to {
        // SAFETY: `to - from` bytes from there on are valid for writes, the caller's premise.
        unsafe { base.wrapping_add(from).write_bytes(0, to - from) };
    }
}

/// A field where it is found in the value at `base`.
///
/// # Safety
/// `field` is within the value.
pub const unsafe fn slot_at<S, T>(base: *const S, field: &T) -> Slot {
    // SAFETY: two addresses within one value, the caller's premise.
    let offset = unsafe { std::ptr::from_ref(field).byte_offset_from(base) };
    Slot::of::<T>(offset as usize)
}

/// `Persist` for a struct.
#[doc(hidden)]
#[macro_export]
macro_rules! __persist_struct {
    (
        [$($generics:tt)*] $name:ident $this:ty where [$($clause:tt)*]
        at $brand:lifetime $at:ty,
        id $id:ident $text:literal [$($parameter:ident)*]
        repr $repr:ident $align:literal $gaps:literal
        { $($index:literal $member:tt: $ty:ty as $label:literal $binding:ident)* }
    ) => {
        $crate::__persist_header!([$($generics)*] [$($clause)*]);

        #[allow(unused_imports)] // where all fields are `Persist`
        use $crate::__private::NotAField as _;

        #[automatically_derived]
        #[allow(deprecated, unused_variables)]
        // SAFETY: the bodies make sure of what the trait asks for, for the type as it is:
        // 1. `PADDED` asserts that the fields lie as described, and that there is no drop glue, and says itself whether there is padding.
        // 2. `desc` has closures that compile only if the type has these fields and no others, also at any other brand.
        // 3. The fields are `Persist`, or nothing here compiles: all else goes for the whole if it goes for them.
        // 4. `Deref` would be a conflict with the impl below.
        unsafe impl $($generics)* $crate::Persist for $this $($clause)* {
            type At<$brand> = $at;

            const PADDED: $crate::__private::core::primitive::bool = {
                $crate::__persist_no_drop!($name);
                $crate::__private::assert_counted(&[$($index),*]);
                let fields: &[$crate::__private::Slot] = &[$(
                    $crate::__private::Slot::of::<$ty>($crate::__private::core::mem::offset_of!(Self, $member))
                ),*];
                $crate::__persist_repr!($repr $align, fields);
                // Fields do not overlap: there is a gap if, and only if, the parts add up to less than the whole.
                $crate::__private::core::mem::size_of::<Self>()
                    != 0 $(+ $crate::__private::core::mem::size_of::<$ty>())*
                    $(|| <$ty as $crate::Persist>::PADDED)*
            };

            const POINTERS: $crate::__private::core::primitive::bool = false $(|| $crate::__private::FieldOf::<$ty>::POINTERS)*;

            fn desc() -> &'static $crate::__private::Desc {
                // Each field is the same at any brand. An alias can hide one: `type Leak = P<'static, u64>`.
                $($crate::__private::FieldOf::<$ty>::at_any_brand::<Self>(|this, $binding| {
                    let $name { $member: found, .. } = this;
                    // Without an expectation, so that nothing is coerced.
                    let found = $crate::__private::found(found);
                    $binding.is(found);
                });)*
                const {
                    // The type has these fields and no others, of these types.
                    let _: fn(&mut Self) = |this| {
                        let $name { $($member: $binding),* } = this;
                        $(let $binding = $crate::__private::found($binding); let _: $crate::__private::AsDerived<$ty> = $binding;)*
                    };
                    // And so it is at any brand: it is the same type, also if it has no fields.
                    let _: for<'o> fn(&mut <Self as $crate::Persist>::At<'o>) = |this| {
                        let $name { .. } = this;
                    };
                    // For its assertions: nothing lives in a heap without its description.
                    let _: $crate::__private::core::primitive::bool = <Self as $crate::Persist>::PADDED;
                    &$crate::__private::Desc {
                        name: $crate::__private::Name::$id($text),
                        args: &[$(<$parameter as $crate::Persist>::desc),*],
                        size: $crate::__private::core::mem::size_of::<Self>(),
                        align: $crate::__private::core::mem::align_of::<Self>(),
                        kind: $crate::__private::Kind::Struct {
                            fields: &[$($crate::__private::Field {
                                name: $label,
                                offset: $crate::__private::core::mem::offset_of!(Self, $member),
                                ty: $crate::__private::FieldOf::<$ty>::DESC,
                            }),*],
                        },
                    }
                }
            }

            #[inline]
            unsafe fn zero_padding(this: *mut Self) {
                let base = this.cast::<$crate::__private::core::primitive::u8>();
                $crate::__persist_zero!(
                    $repr base, 0, $gaps,
                    [$($crate::__private::Slot::of::<$ty>($crate::__private::core::mem::offset_of!(Self, $member))),*],
                    $($index $ty),*
                );
            }
        }

        $crate::__persist_not_deref!([$($generics)*] $this where [$($clause)*]);
        $crate::__persist_plain!([$($generics)*] $this);
    };
}

/// `Persist` for an enum.
#[doc(hidden)]
#[macro_export]
macro_rules! __persist_enum {
    (
        [$($generics:tt)*] $name:ident $this:ty where [$($clause:tt)*]
        at $brand:lifetime $at:ty,
        id $id:ident $text:literal [$($parameter:ident)*]
        repr $tag:ident $align:literal
        { $(
            $variant:ident as $variant_label:literal = ($start:expr) + $steps:literal, $gaps:literal
            { $($index:literal $member:tt: $ty:ty as $label:literal $binding:ident)* }
        )* }
    ) => {
        $crate::__persist_header!([$($generics)*] [$($clause)*]);

        #[allow(unused_imports)] // where all fields are `Persist`
        use $crate::__private::NotAField as _;

        #[automatically_derived]
        #[allow(deprecated, unused_variables, unreachable_patterns)]
        // SAFETY: the bodies make sure of what the trait asks for, for the type as it is:
        // 1. `PADDED` asserts that the fields lie as described, and that there is no drop glue, and says itself whether there is padding.
        // 2. `desc` has closures that compile only if the type has these fields and no others, also at any other brand.
        // 3. The fields are `Persist`, or nothing here compiles: all else goes for the whole if it goes for them.
        // 4. `Deref` would be a conflict with the impl below.
        unsafe impl $($generics)* $crate::Persist for $this $($clause)* {
            type At<$brand> = $at;

            const PADDED: $crate::__private::core::primitive::bool = {
                $crate::__persist_no_drop!($name);
                $($crate::__private::assert_counted(&[$($index),*]);)*
                let tag = $crate::__private::core::mem::size_of::<$crate::__private::core::primitive::$tag>();
                $crate::__private::assert_tag::<Self>(tag);
                let mut value = $crate::__private::core::mem::MaybeUninit::<Self>::uninit();
                $crate::__private::assert_c::<Self>($align, tag, &[$(
                    &{
                        let tag: $crate::__private::core::primitive::$tag = $start;
                        let tag = tag.wrapping_add($steps);
                        // SAFETY: `assert_tag` has made sure that there is room for a tag.
                        unsafe { value.as_mut_ptr().cast::<$crate::__private::core::primitive::$tag>().write_unaligned(tag) };
                        // Of an enum with one variant, a pattern does not read the tag.
                        // SAFETY: what is read is the tag, which was just written; or what the compiler finds to be none, and then this is an error, for it
                        // is evaluated by the compiler only.
                        let _ = $crate::__private::core::mem::discriminant(unsafe { &*value.as_ptr() });
                        // SAFETY: `discriminant` has read the tag, so it is one of a variant. Fields are not read: the references say where they are.
                        let slots: [$crate::__private::Slot; $gaps - 1] = match unsafe { &*value.as_ptr() } {
                            Self::$variant { $($member: $binding),* } => [$(
                                // SAFETY: `$binding` refers to a field of this value.
                                unsafe { $crate::__private::slot_at(value.as_ptr(), $binding) }
                            ),*],
                            _ => $crate::__private::unlike(),
                        };
                        slots
                    }
                ),*]);
                // Fields do not overlap: there is a gap if, and only if, the parts add up to less than the whole.
                false $(
                    || $crate::__private::core::mem::size_of::<Self>()
                        != tag $(+ $crate::__private::core::mem::size_of::<$ty>())*
                    $(|| <$ty as $crate::Persist>::PADDED)*
                )*
            };

            const POINTERS: $crate::__private::core::primitive::bool = false $($(|| $crate::__private::FieldOf::<$ty>::POINTERS)*)*;

            fn desc() -> &'static $crate::__private::Desc {
                // Each field is the same at any brand. An alias can hide one: `type Leak = P<'static, u64>`.
                $($($crate::__private::FieldOf::<$ty>::at_any_brand::<Self>(|this, $binding| match this {
                    $name::$variant { $member: found, .. } => {
                        // Without an expectation, so that nothing is coerced.
                        let found = $crate::__private::found(found);
                        $binding.is(found);
                    }
                    _ => {}
                });)*)*
                const {
                    // The type has these variants and no others, with these fields and no others, of these types.
                    let _: fn(&mut Self) = |this| match *this {
                        $($name::$variant { $($member: ref mut $binding),* } => {
                            $(let $binding = $crate::__private::found($binding); let _: $crate::__private::AsDerived<$ty> = $binding;)*
                        })*
                    };
                    // And so it is at any brand: it is the same type, also if it has no fields.
                    let _: for<'o> fn(&mut <Self as $crate::Persist>::At<'o>) = |this| match this {
                        $($name::$variant { .. } => {})*
                    };
                    // For its assertions: nothing lives in a heap without its description.
                    let _: $crate::__private::core::primitive::bool = <Self as $crate::Persist>::PADDED;
                    &$crate::__private::Desc {
                        name: $crate::__private::Name::$id($text),
                        args: &[$(<$parameter as $crate::Persist>::desc),*],
                        size: $crate::__private::core::mem::size_of::<Self>(),
                        align: $crate::__private::core::mem::align_of::<Self>(),
                        kind: $crate::__private::Kind::Enum {
                            tag: <$crate::__private::core::primitive::$tag as $crate::__private::Tag>::PRIM,
                            variants: &[$($crate::__private::Variant {
                                name: $variant_label,
                                tag: {
                                    let tag: $crate::__private::core::primitive::$tag = $start;
                                    tag.wrapping_add($steps) as $crate::__private::core::primitive::i128
                                },
                                fields: &{
                                    let slots = $crate::__persist_slots!($tag $($ty),*);
                                    [$($crate::__private::Field {
                                        name: $label,
                                        offset: slots[$index].offset,
                                        ty: $crate::__private::FieldOf::<$ty>::DESC,
                                    }),*]
                                },
                            }),*],
                        },
                    }
                }
            }

            #[inline]
            unsafe fn zero_padding(this: *mut Self) {
                let base = this.cast::<$crate::__private::core::primitive::u8>();
                // SAFETY: `this` points to a valid value, by the contract of `zero_padding`. The reference serves to find out which variant it is.
                match unsafe { &*this } {
                    $(Self::$variant { .. } => {
                        $crate::__persist_zero!(
                            C base, $crate::__private::core::mem::size_of::<$crate::__private::core::primitive::$tag>(), $gaps,
                            $crate::__persist_slots!($tag $($ty),*),
                            $($index $ty),*
                        );
                    })*
                }
            }
        }

        $crate::__persist_not_deref!([$($generics)*] $this where [$($clause)*]);
        $crate::__persist_plain!([$($generics)*] $this);
    };
}

/// An error unless the generics and the clause of an impl are that: with a block in them they would bring a body of their own for an `unsafe impl`, and begin
/// some other item with ours. In front of a `;`, where only functions and constants may be, there is no way to go on behind it.
#[doc(hidden)]
#[macro_export]
macro_rules! __persist_header {
    ([] []) => {};
    ([$($generics:tt)*] [$($clause:tt)*]) => {
        const _: () = {
            #[allow(dead_code, single_use_lifetimes, clippy::extra_unused_lifetimes)]
            trait __Header {
                fn header $($generics)* () $($clause)*;
            }
        };
    };
}

/// Nothing in a heap is ever dropped. The assertion is in `PADDED`, because the fields are known to be `Persist` where that has a value: `Drop` is then
/// the type's own, and a `String` is reported once, as the field that it is.
#[doc(hidden)]
#[macro_export]
macro_rules! __persist_no_drop {
    ($name:ident) => {
        $crate::__private::core::assert!(
            !$crate::__private::core::mem::needs_drop::<Self>(),
            $crate::__private::core::concat!(
                "nothing in a persistent heap is ever dropped: remove the `Drop` of `",
                $crate::__private::core::stringify!($name),
                "`"
            )
        );
    };
}

/// Asserts that a struct has this `repr`.
#[doc(hidden)]
#[macro_export]
macro_rules! __persist_repr {
    (C $align:literal, $fields:ident) => {
        $crate::__private::assert_c::<Self>($align, 0, &[$fields]);
    };
    (transparent $align:literal, $fields:ident) => {
        $crate::__private::assert_transparent::<Self>($fields);
    };
}

/// Where the fields of a variant lie.
#[doc(hidden)]
#[macro_export]
macro_rules! __persist_slots {
    ($tag:ident $($ty:ty),*) => {
        $crate::__private::c_slots(
            $crate::__private::core::mem::size_of::<$crate::__private::core::primitive::$tag>(),
            [$($crate::__private::Slot::of::<$ty>(0)),*],
        )
    };
}

/// Zeroes the gaps, and the padding inside of the fields. (`repr(transparent)` does not say where its empty fields are, and needs no padding of its own.)
#[doc(hidden)]
#[macro_export]
macro_rules! __persist_zero {
    (C $base:ident, $head:expr, $gaps:literal, $slots:expr, $($index:literal $ty:ty),*) => {
        $crate::__persist_zero!(transparent $base, $head, $gaps, $slots, $($index $ty),*);
        let gaps: [($crate::__private::core::primitive::usize, $crate::__private::core::primitive::usize); $gaps] =
            const { $crate::__private::gaps($head, $slots, $crate::__private::core::mem::size_of::<Self>()) };
        $(
            // SAFETY: `base` points to a valid value, by the contract of `zero_padding`, and this is within: the gap before a field.
            unsafe { $crate::__private::zero($base, gaps[$index].0, gaps[$index].1) };
        )*
        // SAFETY: `base` points to a valid value, by the contract of `zero_padding`, and this is within: the gap behind the last field.
        unsafe { $crate::__private::zero($base, gaps[$gaps - 1].0, gaps[$gaps - 1].1) };
    };
    (transparent $base:ident, $head:expr, $gaps:literal, $slots:expr, $($index:literal $ty:ty),*) => {
        let slots: [$crate::__private::Slot; $gaps - 1] = const { $slots };
        $(if $crate::__private::FieldOf::<$ty>::PADDED {
            // SAFETY: `base` points to a valid value, by the contract of `zero_padding`, and this is a field of it: where the fields are was asserted in `PADDED`.
            unsafe { $crate::__private::FieldOf::<$ty>::zero_padding($base.wrapping_add(slots[$index].offset).cast::<$ty>()) };
        })*
    };
}

/// A second impl for every `Deref` type is in `pheap`, so that a user's `Deref` is a conflict: `tx[p].a.b = v` under `#[txn]` must not find a `DerefMut`
/// on its way.
#[doc(hidden)]
#[macro_export]
macro_rules! __persist_not_deref {
    ([$($generics:tt)*] $this:ty where [$($clause:tt)*]) => {
        #[automatically_derived]
        impl $($generics)* $crate::__private::NotDeref for $this $($clause)* {}
    };
}

/// A type without parameters has no brand, and so no pointers. (If it had one, `Plain` would ask for more than it has.)
#[doc(hidden)]
#[macro_export]
macro_rules! __persist_plain {
    ([] $this:ty) => {
        #[automatically_derived]
        impl $crate::Plain for $this {}
    };
    ([$($generics:tt)+] $this:ty) => {};
}

/// `Persist` for a type that did not pass: it stands for it in other errors, and cannot be used.
#[doc(hidden)]
#[macro_export]
macro_rules! __persist_nothing {
    ([$($generics:tt)*] $name:ident $this:ty where [$($clause:tt)*] at $brand:lifetime $at:ty) => {
        $crate::__persist_header!([$($generics)*] [$($clause)*]);

        #[automatically_derived]
        #[allow(deprecated)]
        // SAFETY: nothing lives in a heap without its description, and this never returns one.
        unsafe impl $($generics)* $crate::Persist for $this $($clause)* {
            type At<$brand> = $at;

            const PADDED: $crate::__private::core::primitive::bool = false;

            const POINTERS: $crate::__private::core::primitive::bool = false;

            fn desc() -> &'static $crate::__private::Desc {
                $crate::__private::core::panic!("this type did not compile")
            }

            unsafe fn zero_padding(_: *mut Self) {}
        }
    };
}

/// `MapKey` for a type that is a key itself.
#[doc(hidden)]
#[macro_export]
macro_rules! __persist_key {
    ($name:ident) => {
        $crate::__key_by_value!([] $name);

        #[automatically_derived]
        // SAFETY: `query` returns the key itself.
        unsafe impl<'r> $crate::collections::MapKey<'r> for $name {
            type Query = Self;

            #[inline]
            fn query<'v>(&'v self, _: &'v $crate::View<'r>) -> &'v Self {
                self
            }

            #[inline]
            fn from_query(_: &$crate::Txn<'r>, query: &Self) -> $crate::Result<Self> {
                $crate::__private::core::result::Result::Ok(*query)
            }
        }
    };
}
