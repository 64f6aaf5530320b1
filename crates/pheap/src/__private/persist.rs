//! The impls that `#[derive(Persist)]` expands to, as macros, and the functions that these macros call.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;

use super::Slot;

/// Zeroes the bytes `base + from .. base + to`.
///
/// # Safety
/// The bytes `base + from .. base + to` are valid for writes, if there are any.
#[inline(always)]
pub unsafe fn zero(base: *mut u8, from: usize, to: usize) {
    if from < to {
        // SAFETY: the `to - from` bytes at `base + from` are valid for writes, by the caller's premise.
        unsafe { base.wrapping_add(from).write_bytes(0, to - from) };
    }
}

/// Returns the slot of a field in the value at `base`.
///
/// # Safety
/// `base` is the address of a value, and `field` is within that value.
pub const unsafe fn slot_at<S, T>(base: *const S, field: &T) -> Slot {
    // SAFETY: `field` and `base` are addresses within one value, by the caller's premise.
    let offset = unsafe { std::ptr::from_ref(field).byte_offset_from(base) };
    Slot::of::<T>(offset as usize)
}

/// Asserts that the tag of the enum `T` has 8 bytes, if `tag` is 8.
///
/// For each enum without an integer `repr`, a `Discriminant` has 8 bytes, however long the tag is. So this
/// looks at an `Option<T>`, in which the compiler stores `None` as a spare value of the tag. If `None` leaves
/// some of the 8 bytes uninitialized, the program does not compile. Nor does it compile if the tag has no
/// spare value for `None`, as may be the case for a shorter tag.
///
/// # Safety
/// The compiler evaluates the call, in a constant.
#[track_caller]
pub const unsafe fn assert_whole_tag<T>(tag: usize) {
    if tag == 8 {
        assert!(
            size_of::<Option<T>>() == size_of::<T>(),
            "the derive cannot check that the tag of this enum has 8 bytes: give the enum a smaller integer \
             `repr`, or other discriminants"
        );
        let none = MaybeUninit::new(None::<T>);
        // SAFETY: `T`, and so `none`, has at least 8 bytes, by `assert_tag`. The compiler reports bytes that
        // are not initialized.
        unsafe { none.as_ptr().cast::<u64>().read_unaligned() };
    }
}

/// Declares the types of fields and the tags of variants, as they are written, in a trait. If a user's macro
/// stands for a type or a tag, each expansion of that macro may differ. So all other code takes the types and
/// tags from the trait. The trait is within a constant, where it meets no other of the same name.
#[doc(hidden)]
#[macro_export]
macro_rules! __persist_declared {
    (
        [$($generics:tt)*] $this:ty where [$($clause:tt)*]
        { $($variant:ident: $tag:ident = ($start:expr) + $steps:literal)* } { $($binding:ident: $ty:ty,)* }
    ) => {
        #[allow(non_camel_case_types, non_upper_case_globals, dead_code)]
        trait __Declared {
            $(const $variant: $crate::__private::core::primitive::$tag;)*
            $(type $binding;)*
        }

        #[automatically_derived]
        #[allow(deprecated)]
        impl $($generics)* __Declared for $this $($clause)* {
            $(const $variant: $crate::__private::core::primitive::$tag = {
                let start: $crate::__private::core::primitive::$tag = const { $start };
                start.wrapping_add($steps)
            };)*
            $(type $binding = $ty;)*
        }
    };
}

/// Implements `Persist` for a struct.
#[doc(hidden)]
#[macro_export]
macro_rules! __persist_struct {
    (
        [$($generics:tt)*] $name:ident
        [$($brand:lifetime $at:lifetime)*] [$(($(type $param:ident)? $(const $constant:ident)?))*]
        where [$($clause:tt)*],
        id $id:ident $text:literal was [$($was:literal)*] removed [$($removed:literal)*]
        repr $repr:ident $align:literal $gaps:literal
        { $(
            $index:literal $member:tt: $ty:ty as $label:literal
            was [$($was_part:literal)*] since $since:literal default [$($default:expr)?] $binding:ident
        )* }
    ) => {
        $crate::__persist_header!([$($generics)*] [$($clause)*]);

        const _: () = {
            $crate::__persist_declared! {
                [$($generics)*] $name<$($brand,)* $($($param)? $($constant)?),*> where [$($clause)*]
                {} { $($binding: $ty,)* }
            }

            #[allow(unused_imports)] // unused if all fields are `Persist`
            use $crate::__private::NotAField as _;

            #[automatically_derived]
            #[allow(deprecated, unused_variables)]
            // SAFETY: the bodies check the premises of the trait for the type as it is:
            // 1. `PADDED` asserts that the fields lie as described, and that there is no drop glue, and
            //    computes whether there is padding.
            // 2. `desc` has closures that compile only if the type has these fields and no others, and if
            //    each field has the same type with any brand. `At` is the same type, with its parameters
            //    replaced. The type of each field, and each tag, is that of `__Declared`, which has only one.
            // 3. `PADDED` asserts that the fields are `Persist`: all other premises hold for the whole if
            //    they hold for the fields.
            // 4. If the type is `Deref`, the impl of `NotDeref` conflicts, or `desc` does not compile.
            unsafe impl $($generics)* $crate::Persist for $name<$($brand,)* $($($param)? $($constant)?),*>
            $($clause)*
            {
                type At<'__at> =
                    $name<$($at,)* $($(<$param as $crate::Persist>::At<'__at>)? $($constant)?),*>;

                const PADDED: $crate::__private::core::primitive::bool = {
                    // If the type of a field is not `Persist`, the compiler's message points to this place.
                    // The type in `__Declared` is the one that counts.
                    $(let _: $crate::__private::core::primitive::bool = <$ty as $crate::Persist>::PADDED;)*
                    $crate::__private::core::assert!(
                        true $(&& $crate::__private::FieldOf::<<Self as __Declared>::$binding>::IS_PERSIST)*,
                        "the type of a field must not change with each expansion: replace the macro in it by \
                         the type itself"
                    );
                    $crate::__persist_no_drop!($name);
                    $crate::__private::assert_counted(&[$($index),*]);
                    let fields: &[$crate::__private::Slot] = &[$(
                        $crate::__private::Slot::of::<<Self as __Declared>::$binding>(
                            $crate::__private::core::mem::offset_of!(Self, $member)
                        )
                    ),*];
                    $crate::__persist_repr!($repr $align, fields);
                    // Fields do not overlap: there is a gap if, and only if, the sizes of the parts add up to
                    // less than the size of the whole.
                    $crate::__private::core::mem::size_of::<Self>()
                        != 0 $(+ $crate::__private::core::mem::size_of::<<Self as __Declared>::$binding>())*
                        $(|| $crate::__private::FieldOf::<<Self as __Declared>::$binding>::PADDED)*
                };

                const POINTERS: $crate::__private::core::primitive::bool =
                    false $(|| $crate::__private::FieldOf::<<Self as __Declared>::$binding>::POINTERS)*;

                fn desc() -> &'static $crate::__private::Desc {
                    // Checks that each field has its declared type with any brand. An alias can hide a brand:
                    // `type Leak = P<'static, u64>`.
                    $($crate::__private::FieldOf::<<Self as __Declared>::$binding>
                    ::at_any_brand::<Self>(|this, $binding| {
                        let $name { $member: found, .. } = this;
                        // The result has no expected type, so that the compiler coerces nothing.
                        let found = $crate::__private::found(found);
                        $binding.is(found);
                    });)*
                    const {
                        // Checks that the type has these fields and no others, of these types.
                        let _: fn(&mut Self) = |this| {
                            let $name { $($member: $binding),* } = this;
                            $(
                                let $binding = $crate::__private::found($binding);
                                let _: $crate::__private::AsDerived<<Self as __Declared>::$binding> =
                                    $binding;
                            )*
                        };
                        // Evaluates the assertions of `PADDED`: no object lives in a heap without this
                        // description.
                        let _: $crate::__private::core::primitive::bool = <Self as $crate::Persist>::PADDED;
                        // If a macro in the `where` clause has expanded to fewer bounds in the impl of
                        // `NotDeref`, a `Deref` would not conflict with that impl.
                        $crate::__private::core::assert!(
                            <Self as $crate::__private::NotDeref>::DERIVED,
                            "the `where` clause of this type must not change with each expansion: replace \
                             the macro in it by the bounds themselves"
                        );
                        &$crate::__private::Desc {
                            name: $crate::__private::Name::$id($text),
                            history: $crate::__private::History::of_type(&[$($was),*], &[$($removed),*]),
                            args: &[$($(<$param as $crate::Persist>::desc,)?)*],
                            size: $crate::__private::core::mem::size_of::<Self>(),
                            align: $crate::__private::core::mem::align_of::<Self>(),
                            kind: $crate::__private::Kind::Struct {
                                fields: &[$($crate::__private::Field {
                                    name: $crate::__private::part_name($label),
                                    offset: $crate::__private::core::mem::offset_of!(Self, $member),
                                    ty: $crate::__private::FieldOf::<<Self as __Declared>::$binding>::DESC,
                                    history: $crate::__persist_history!(
                                        [$($was_part)*] $since (<Self as __Declared>::$binding) $ty
                                        [$($default)?]
                                    ),
                                }),*],
                            },
                        }
                    }
                }

                #[inline]
                unsafe fn zero_padding(this: *mut Self) {
                    // There is a valid value at `this`, by the contract of `zero_padding`.
                    let base = this.cast::<$crate::__private::core::primitive::u8>();
                    let (slots, gaps): $crate::__private::Inside<{ $gaps - 1 }, $gaps> = const {
                        let slots = [$($crate::__private::Slot::of::<<Self as __Declared>::$binding>(
                            $crate::__private::core::mem::offset_of!(Self, $member)
                        )),*];
                        (slots, $crate::__persist_gaps!($repr slots, $gaps))
                    };
                    $(
                        if $crate::__private::FieldOf::<<Self as __Declared>::$binding>::PADDED {
                            let field = base
                                .wrapping_add(slots[$index].offset)
                                .cast::<<Self as __Declared>::$binding>();
                            // SAFETY: `field` is a field of the valid value at `base`, at the offset that
                            // `PADDED` has checked.
                            unsafe {
                                $crate::__private::FieldOf::<<Self as __Declared>::$binding>
                                    ::zero_padding(field)
                            };
                        }
                        // SAFETY: the range is the gap before this field, within the value at `base`.
                        unsafe { $crate::__private::zero(base, gaps[$index].0, gaps[$index].1) };
                    )*
                    // SAFETY: the range is the gap after the last field, within the value at `base`.
                    unsafe { $crate::__private::zero(base, gaps[$gaps - 1].0, gaps[$gaps - 1].1) };
                }
            }

            $crate::__persist_not_deref!(
                [$($generics)*] $name<$($brand,)* $($($param)? $($constant)?),*> where [$($clause)*]
            );
            $crate::__persist_plain!([$($generics)*] $name<$($brand,)* $($($param)? $($constant)?),*>);
        };
    };
}

/// Implements `Persist` for an enum.
#[doc(hidden)]
#[macro_export]
macro_rules! __persist_enum {
    (
        [$($generics:tt)*] $name:ident
        [$($brand:lifetime $at:lifetime)*] [$(($(type $param:ident)? $(const $constant:ident)?))*]
        where [$($clause:tt)*],
        id $id:ident $text:literal was [$($was:literal)*] removed [$($removed:literal)*]
        repr $tag:ident $align:literal
        { $(
            $variant:ident as $variant_label:literal
            was [$($was_variant:literal)*] since $variant_since:literal removed [$($removed_part:literal)*]
            = ($start:expr) + $steps:literal, $gaps:literal
            { $(
                $index:literal $member:tt: $ty:ty as $label:literal
                was [$($was_part:literal)*] since $since:literal default [$($default:expr)?] $binding:ident
            )* }
        )* }
    ) => {
        $crate::__persist_header!([$($generics)*] [$($clause)*]);

        const _: () = {
            $crate::__persist_declared! {
                [$($generics)*] $name<$($brand,)* $($($param)? $($constant)?),*> where [$($clause)*]
                { $($variant: $tag = ($start) + $steps)* } { $($($binding: $ty,)*)* }
            }

            #[allow(unused_imports)] // unused if all fields are `Persist`
            use $crate::__private::NotAField as _;

            #[automatically_derived]
            #[allow(deprecated, unused_variables, unreachable_patterns)]
            // SAFETY: the bodies check the premises of the trait for the type as it is:
            // 1. `PADDED` asserts that the fields lie as described, and that there is no drop glue, and
            //    computes whether there is padding.
            // 2. `desc` has closures that compile only if the type has these fields and no others, and if
            //    each field has the same type with any brand. `At` is the same type, with its parameters
            //    replaced. The type of each field, and each tag, is that of `__Declared`, which has only one.
            // 3. `PADDED` asserts that the fields are `Persist`: all other premises hold for the whole if
            //    they hold for the fields.
            // 4. If the type is `Deref`, the impl of `NotDeref` conflicts, or `desc` does not compile.
            unsafe impl $($generics)* $crate::Persist for $name<$($brand,)* $($($param)? $($constant)?),*>
            $($clause)*
            {
                type At<'__at> =
                    $name<$($at,)* $($(<$param as $crate::Persist>::At<'__at>)? $($constant)?),*>;

                const PADDED: $crate::__private::core::primitive::bool = {
                    // If the type of a field is not `Persist`, the compiler's message points to this place.
                    // The type in `__Declared` is the one that counts.
                    $($(
                        let _: $crate::__private::core::primitive::bool = <$ty as $crate::Persist>::PADDED;
                    )*)*
                    $crate::__private::core::assert!(
                        true $($(
                            && $crate::__private::FieldOf::<<Self as __Declared>::$binding>::IS_PERSIST
                        )*)*,
                        "the type of a field must not change with each expansion: replace the macro in it by \
                         the type itself"
                    );
                    $crate::__persist_no_drop!($name);
                    $($crate::__private::assert_counted(&[$($index),*]);)*
                    let tag =
                        $crate::__private::core::mem::size_of::<$crate::__private::core::primitive::$tag>();
                    $crate::__private::assert_tag::<Self>(tag);
                    let mut value = $crate::__private::core::mem::MaybeUninit::<Self>::uninit();
                    $crate::__private::assert_c::<Self>($align, tag, &[$(
                        &{
                            let tag: $crate::__private::core::primitive::$tag =
                                <Self as __Declared>::$variant;
                            // SAFETY: `value` has room for a tag, as `assert_tag` has checked.
                            unsafe {
                                value
                                    .as_mut_ptr()
                                    .cast::<$crate::__private::core::primitive::$tag>()
                                    .write_unaligned(tag)
                            };
                            // In an enum with a single variant, the pattern below does not read the tag, but
                            // `discriminant` does.
                            // SAFETY: `discriminant` reads the tag, which was just written. Only the compiler
                            // evaluates this code, and it reports an error if the bytes are no valid tag.
                            let _ = $crate::__private::core::mem::discriminant(unsafe { &*value.as_ptr() });
                            // SAFETY: `discriminant` has read the tag, so it is that of a variant. Fields are
                            // not read: the references only give their addresses.
                            let slots: [$crate::__private::Slot; $gaps - 1] = match unsafe {
                                &*value.as_ptr()
                            } {
                                Self::$variant { $($member: $binding),* } => [$(
                                    // SAFETY: `$binding` refers to a field of this value.
                                    unsafe { $crate::__private::slot_at(value.as_ptr(), $binding) }
                                ),*],
                                _ => $crate::__private::unlike(),
                            };
                            slots
                        }
                    ),*]);
                    // SAFETY: the compiler evaluates this constant.
                    unsafe { $crate::__private::assert_whole_tag::<Self>(tag) };
                    // Fields do not overlap: there is a gap if, and only if, the sizes of the parts add up to
                    // less than the size of the whole.
                    false $(
                        || $crate::__private::core::mem::size_of::<Self>()
                            != tag $(
                                + $crate::__private::core::mem::size_of::<<Self as __Declared>::$binding>()
                            )*
                        $(|| $crate::__private::FieldOf::<<Self as __Declared>::$binding>::PADDED)*
                    )*
                };

                const POINTERS: $crate::__private::core::primitive::bool =
                    false $($(|| $crate::__private::FieldOf::<<Self as __Declared>::$binding>::POINTERS)*)*;

                fn desc() -> &'static $crate::__private::Desc {
                    // Checks that each field has its declared type with any brand. An alias can hide a brand:
                    // `type Leak = P<'static, u64>`.
                    $($($crate::__private::FieldOf::<<Self as __Declared>::$binding>
                    ::at_any_brand::<Self>(|this, $binding| match this {
                        $name::$variant { $member: found, .. } => {
                            // The result has no expected type, so that the compiler coerces nothing.
                            let found = $crate::__private::found(found);
                            $binding.is(found);
                        }
                        _ => {}
                    });)*)*
                    const {
                        // Checks that the type has these variants and no others, with these fields and no
                        // others, of these types.
                        let _: fn(&mut Self) = |this| match *this {
                            $($name::$variant { $($member: ref mut $binding),* } => {
                                $(
                                    let $binding = $crate::__private::found($binding);
                                    let _: $crate::__private::AsDerived<<Self as __Declared>::$binding> =
                                        $binding;
                                )*
                            })*
                        };
                        // Evaluates the assertions of `PADDED`: no object lives in a heap without this
                        // description.
                        let _: $crate::__private::core::primitive::bool = <Self as $crate::Persist>::PADDED;
                        // If a macro in the `where` clause has expanded to fewer bounds in the impl of
                        // `NotDeref`, a `Deref` would not conflict with that impl.
                        $crate::__private::core::assert!(
                            <Self as $crate::__private::NotDeref>::DERIVED,
                            "the `where` clause of this type must not change with each expansion: replace \
                             the macro in it by the bounds themselves"
                        );
                        &$crate::__private::Desc {
                            name: $crate::__private::Name::$id($text),
                            history: $crate::__private::History::of_type(&[$($was),*], &[$($removed),*]),
                            args: &[$($(<$param as $crate::Persist>::desc,)?)*],
                            size: $crate::__private::core::mem::size_of::<Self>(),
                            align: $crate::__private::core::mem::align_of::<Self>(),
                            kind: $crate::__private::Kind::Enum {
                                tag: <$crate::__private::core::primitive::$tag
                                    as $crate::__private::Tag>::PRIM,
                                variants: &[$($crate::__private::Variant {
                                    name: $crate::__private::part_name($variant_label),
                                    tag: <Self as __Declared>::$variant
                                        as $crate::__private::core::primitive::i128,
                                    fields: &{
                                        let slots = $crate::__persist_slots!(
                                            $tag $(<Self as __Declared>::$binding),*
                                        );
                                        [$($crate::__private::Field {
                                            name: $crate::__private::part_name($label),
                                            offset: slots[$index].offset,
                                            ty: $crate::__private::FieldOf::<
                                                <Self as __Declared>::$binding
                                            >::DESC,
                                            history: $crate::__persist_history!(
                                                [$($was_part)*] $since (<Self as __Declared>::$binding) $ty
                                                [$($default)?]
                                            ),
                                        }),*]
                                    },
                                    history: $crate::__private::History::of_variant(
                                        &[$($was_variant),*], $variant_since, &[$($removed_part),*],
                                    ),
                                }),*],
                            },
                        }
                    }
                }

                #[inline]
                unsafe fn zero_padding(this: *mut Self) {
                    // There is a valid value at `this`, by the contract of `zero_padding`.
                    let base = this.cast::<$crate::__private::core::primitive::u8>();
                    // SAFETY: there is a valid value at `this`, by the contract of `zero_padding`. The
                    // reference only serves to find its variant.
                    match unsafe { &*this } {
                        $(Self::$variant { .. } => {
                            let (slots, gaps): $crate::__private::Inside<{ $gaps - 1 }, $gaps> = const {
                                let slots = $crate::__persist_slots!(
                                    $tag $(<Self as __Declared>::$binding),*
                                );
                                let tag: $crate::__private::core::primitive::$tag = 0;
                                let head = $crate::__private::core::mem::size_of_val(&tag);
                                let size = $crate::__private::core::mem::size_of::<Self>();
                                (slots, $crate::__private::gaps(head, slots, size))
                            };
                            $(
                                if $crate::__private::FieldOf::<<Self as __Declared>::$binding>::PADDED {
                                    let field = base
                                        .wrapping_add(slots[$index].offset)
                                        .cast::<<Self as __Declared>::$binding>();
                                    // SAFETY: `field` is a field of the valid value at `base`, at the offset
                                    // that `PADDED` has checked.
                                    unsafe {
                                        $crate::__private::FieldOf::<<Self as __Declared>::$binding>
                                            ::zero_padding(field)
                                    };
                                }
                                // SAFETY: the range is the gap before this field, within the value at `base`.
                                unsafe { $crate::__private::zero(base, gaps[$index].0, gaps[$index].1) };
                            )*
                            // SAFETY: the range is the gap after the last field, within the value at `base`.
                            unsafe { $crate::__private::zero(base, gaps[$gaps - 1].0, gaps[$gaps - 1].1) };
                        })*
                    }
                }
            }

            $crate::__persist_not_deref!(
                [$($generics)*] $name<$($brand,)* $($($param)? $($constant)?),*> where [$($clause)*]
            );
            $crate::__persist_plain!([$($generics)*] $name<$($brand,)* $($($param)? $($constant)?),*>);
        };
    };
}

/// Makes the history of a field: its earlier names, its version, and its default. The user's expression for
/// the default is the body of a separate closure, whose result is the value: no `return` in it leaves the
/// closure that must write that value.
#[doc(hidden)]
#[macro_export]
macro_rules! __persist_history {
    ([$($was:literal)*] $since:literal ($declared:ty) $ty:ty []) => {
        $crate::__private::History::of_field(
            &[$($was),*], $since, $crate::__private::core::option::Option::None,
        )
    };
    ([$($was:literal)*] $since:literal ($declared:ty) $ty:ty [$default:expr]) => {
        $crate::__private::History::of_field(
            &[$($was),*],
            $since,
            $crate::__private::core::option::Option::Some(|place| {
                let value = (|| -> $ty { $default })();
                // SAFETY: `place` has room for a value of the type, by the contract of `DefaultFn`.
                unsafe { $crate::__private::FieldOf::<$declared>::put(place, value) }
            }),
        )
    };
}

/// Compiles only if the tokens for the generics and for the `where` clause of an impl are nothing else. A
/// block in the clause would become the body of an `unsafe impl`, and the body that this crate writes would
/// belong to another item after it. In this macro a `;` ends the item after the clause. So a block does not
/// fit, and there is one item only.
#[doc(hidden)]
#[macro_export]
macro_rules! __persist_header {
    ([$($generics:tt)*] [$($clause:tt)*]) => {
        $crate::__persist_header!(item fn header $($generics)* () $($clause)*;);
    };
    (item $item:item) => {};
}

/// Asserts that the type has no `Drop`, because no object in a heap is ever dropped. The assertion is in
/// `PADDED`: where the compiler evaluates `PADDED`, the fields are known to be `Persist`. So a `Drop` is the
/// type's own, and a `String` is reported once, as a field.
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

/// Asserts that a struct has the layout of its `repr`, `C` or `transparent`.
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

/// Returns the slots of the fields of a variant, which follow a tag of this type.
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

/// Returns the gaps of a struct. A `repr(transparent)` does not define where empty fields lie, and has no
/// gaps.
#[doc(hidden)]
#[macro_export]
macro_rules! __persist_gaps {
    (C $slots:ident, $gaps:literal) => {
        $crate::__private::gaps(0, $slots, $crate::__private::core::mem::size_of::<Self>())
    };
    (transparent $slots:ident, $gaps:literal) => {
        [(0, 0); $gaps]
    };
}

/// Implements `NotDeref`. `pheap` implements it for every `Deref` type, so that a user's `Deref` is a
/// conflict: `tx[p].a.b = v` under `#[txn]` must not run a `DerefMut`.
#[doc(hidden)]
#[macro_export]
macro_rules! __persist_not_deref {
    ([$($generics:tt)*] $this:ty where [$($clause:tt)*]) => {
        #[automatically_derived]
        impl $($generics)* $crate::__private::NotDeref for $this $($clause)* {
            const DERIVED: $crate::__private::core::primitive::bool = true;
        }
    };
}

/// Implements `Plain` for a type without parameters: it has no brand, and so no pointers. (For a type with
/// parameters, the impl would need more bounds than the type declares.)
#[doc(hidden)]
#[macro_export]
macro_rules! __persist_plain {
    ([] $this:ty) => {
        #[automatically_derived]
        impl $crate::Plain for $this {}
    };
    ([$($generics:tt)+] $this:ty) => {};
}

/// Implements `Persist` for a type that the derive has rejected. The impl prevents further errors, and cannot
/// be used.
#[doc(hidden)]
#[macro_export]
macro_rules! __persist_nothing {
    (
        [$($generics:tt)*] $name:ident
        [$($brand:lifetime $at:lifetime)*] [$(($(type $param:ident)? $(const $constant:ident)?))*]
        where [$($clause:tt)*]
    ) => {
        $crate::__persist_header!([$($generics)*] [$($clause)*]);

        #[automatically_derived]
        #[allow(deprecated)]
        // SAFETY: no object lives in a heap without its description, and this `desc` never returns one.
        unsafe impl $($generics)* $crate::Persist for $name<$($brand,)* $($($param)? $($constant)?),*>
        $($clause)*
        {
            type At<'__at> =
                $name<$($at,)* $($(<$param as $crate::Persist>::At<'__at>)? $($constant)?),*>;

            const PADDED: $crate::__private::core::primitive::bool = false;

            const POINTERS: $crate::__private::core::primitive::bool = false;

            fn desc() -> &'static $crate::__private::Desc {
                // The parameter delays the panic: the compiler evaluates it only where the description is
                // used. Code that did not compile has its own errors.
                fn nothing<T>() -> &'static $crate::__private::Desc {
                    const { $crate::__private::core::panic!("this type did not compile") }
                }
                nothing::<Self>()
            }

            unsafe fn zero_padding(_: *mut Self) {}
        }
    };
}

/// Implements `MapKey` for a type that is its own borrowed form.
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
