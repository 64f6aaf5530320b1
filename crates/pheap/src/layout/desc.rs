//! The descriptions of types that `#[derive(Persist)]` makes, as a graph of constants; the primitives and
//! their numbers in files.
//!
//! Edges are functions, because a constant that contains itself (`Node` → `P<Node>` → `Node`) would be a
//! cycle.

use super::names::{is_id, is_identifier};

/// A function that returns the description of a type. The function names the type without evaluating the
/// description.
pub type DescFn = fn() -> &'static Desc;

/// The stable id of a type: its name in Rust, or `#[persist(id = "…")]`; for pheap's own, `pheap::…`.
#[derive(Debug, Clone, Copy)]
pub struct Name(&'static str);

/// The beginning of the ids of pheap's own types. Their invariants rely on no other type having such an id: a
/// heap takes two types for the same if their ids and fields are the same.
const OWN: &[u8] = b"pheap::";

impl Name {
    /// Makes the id of a program's type.
    ///
    /// # Panics
    /// If `id` is empty, begins with `pheap::`, or has characters that ids may not have. Derived code calls
    /// this in a constant, so the panic is a compile error.
    pub const fn new(id: &'static str) -> Name {
        assert!(is_id(id), "an id consists of letters, digits, and `_`, `.`, `-`, `/` and `:`");
        let bytes = id.as_bytes();
        let mut i = 0;
        while i < OWN.len() && i < bytes.len() && bytes[i] == OWN[i] {
            i += 1;
        }
        assert!(i < OWN.len(), "ids that begin with `pheap::` are reserved");
        Name(id)
    }

    /// Makes the id of one of pheap's own types, `pheap::…`, or of a type of the language.
    pub(crate) const fn own(id: &'static str) -> Name {
        Name(id)
    }

    /// Returns the id as a string.
    pub const fn as_str(self) -> &'static str {
        self.0
    }
}

/// Checks the name of a field or a variant, and returns it.
///
/// # Panics
/// If `name` is empty, or has ASCII characters other than letters, digits and `_`: a heap with such a name
/// could not be opened again.
pub const fn part_name(name: &'static str) -> &'static str {
    assert!(is_identifier(name), "a part has an identifier or a number for its name");
    name
}

/// One type as the compiler lays it out.
#[derive(Debug)]
pub struct Desc {
    /// The type's stable id.
    pub name: Name,
    /// The type's names and fields in earlier versions of the program.
    pub history: History,
    /// Type arguments of a generic type.
    pub args: &'static [DescFn],
    /// Size in bytes (0 for unsized types).
    pub size: usize,
    /// Alignment in bytes.
    pub align: usize,
    /// The parts of the type.
    pub kind: Kind,
}

impl Desc {
    /// Describes one of pheap's own types, or a type of the language, of this size and alignment.
    pub(crate) const fn own(id: &'static str, (size, align): (usize, usize), kind: Kind) -> Desc {
        Desc { name: Name::own(id), history: History::NONE, args: &[], size, align, kind }
    }

    /// Returns whether values of the type have no bytes.
    pub(crate) fn is_empty(&self) -> bool {
        self.size == 0 && !matches!(self.kind, Kind::Slice { .. } | Kind::Str)
    }
}

/// The parts of a type.
#[derive(Debug)]
pub enum Kind {
    /// A number, `bool`, `char` or `()`.
    Prim(Prim),
    /// An array, `[T; N]`.
    Array {
        /// The type `T` of the elements.
        elem: DescFn,
        /// The number `N` of elements.
        len: usize,
    },
    /// A pointer: `P<T>`, or `Option<P<T>>` if `nullable`.
    Ptr {
        /// Whether the pointer may be null: zero stands for `None`.
        nullable: bool,
        /// The type `T` that the pointer leads to.
        to: DescFn,
    },
    /// A struct.
    Struct {
        /// The fields in the order of their declaration.
        fields: &'static [Field],
    },
    /// An enum with a primitive representation.
    Enum {
        /// Type of the tag, which lies at offset 0.
        tag: Prim,
        /// The variants in the order of their declaration.
        variants: &'static [Variant],
    },
    /// A slice, `[T]`: the length as a `u64`, then the elements.
    Slice {
        /// The type `T` of the elements.
        elem: DescFn,
    },
    /// A string, `str`: the length as a `u64`, then UTF-8.
    Str,
    /// A place for a value in a collection: its bytes are all zero, or it has a value.
    Slot {
        /// The type of the value.
        of: DescFn,
    },
}

/// A field of a struct or variant.
#[derive(Debug)]
pub struct Field {
    /// The field's name; `0`, `1`, … in a tuple.
    pub name: &'static str,
    /// Offset in bytes from the start of the struct or enum.
    pub offset: usize,
    /// The field's type.
    pub ty: DescFn,
    /// The field's names and defaults in earlier versions of the program.
    pub history: History,
}

/// A variant of an enum.
#[derive(Debug)]
pub struct Variant {
    /// The variant's name.
    pub name: &'static str,
    /// The variant's discriminant.
    pub tag: i128,
    /// The variant's fields.
    pub fields: &'static [Field],
    /// The variant's names and fields in earlier versions of the program.
    pub history: History,
}

/// A function that writes the default of a field, padding included, to a place that need not be aligned.
pub(crate) type DefaultFn = unsafe fn(*mut u8);

/// Former properties of a type, a field or a variant, from `#[persist(..)]`.
#[derive(Debug, Clone, Copy)]
pub struct History {
    /// Former names of the type, field or variant.
    pub(super) was: &'static [&'static str],
    /// The version of the type in which the field or variant was added; 1 if it was always there.
    pub(super) since: u32,
    /// For a field: the function that writes its value in objects that lack the field; `None` if the value is
    /// zero.
    pub(super) default: Option<DefaultFn>,
    /// For a type or variant: names of fields that it has no more.
    pub(super) removed: &'static [&'static str],
}

/// Derived code calls the public functions in a constant, so a panic is a compile error.
impl History {
    /// The history of something that was always the same.
    pub(crate) const NONE: History = History { was: &[], since: 1, default: None, removed: &[] };

    /// Makes the history of a program's type.
    ///
    /// # Panics
    /// If a former name begins with `pheap::`: types with such names keep promises that a program's type
    /// would not. Also if a former name is not an [id](Name::new).
    pub const fn of_type(was: &'static [&'static str], removed: &'static [&'static str]) -> History {
        let mut i = 0;
        while i < was.len() {
            Name::new(was[i]);
            i += 1;
        }
        History { was, removed, ..History::NONE }
    }

    /// Makes the history of a field.
    pub const fn of_field(was: &'static [&'static str], since: u32, default: Option<DefaultFn>) -> History {
        History { was, since, default, ..History::NONE }
    }

    /// Makes the history of a variant.
    pub const fn of_variant(
        was: &'static [&'static str],
        since: u32,
        removed: &'static [&'static str],
    ) -> History {
        History { was, since, removed, ..History::NONE }
    }

    /// Returns whether the field or variant may be missing in the heap, because it was added in a later
    /// version.
    pub(super) fn is_new(&self) -> bool {
        self.since > 1
    }
}

macro_rules! prims {
    ($($prim:ident $ty:ty),*) => {
        /// Types without parts. The integers come first: the tag of an enum can be any of them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[allow(missing_docs)]
        #[repr(u8)]
        pub enum Prim {
            $($prim),*
        }

        impl Prim {
            pub(crate) const ALL: [Prim; 15] = [$(Prim::$prim),*];

            /// Returns the type's name in Rust.
            pub fn name(self) -> &'static str {
                match self {
                    $(Prim::$prim => stringify!($ty)),*
                }
            }

            /// Returns the type's size and alignment, in bytes.
            pub(crate) const fn layout(self) -> (u64, u64) {
                match self {
                    $(Prim::$prim => (size_of::<$ty>() as u64, align_of::<$ty>() as u64)),*
                }
            }
        }
    };
}

// The type table of a heap has the numbers of primitive types, so their order here must not change.
prims! {
    U8 u8, U16 u16, U32 u32, U64 u64, U128 u128, I8 i8, I16 i16, I32 i32, I64 i64, I128 i128,
    F32 f32, F64 f64, Bool bool, Char char, Unit ()
}

impl Prim {
    /// Returns the number of bytes of a tag of this type; `None` if a tag cannot have this type.
    pub(super) fn tag_bytes(self) -> Option<usize> {
        (self as u8 <= Prim::I128 as u8).then_some(self.layout().0 as usize)
    }

    /// Returns whether `tag` is a possible value of a tag of this type. Tags are kept as `i128`, those of
    /// type `u128` by their bits.
    pub(super) fn has_tag(self, tag: i128) -> bool {
        let Some(bytes) = self.tag_bytes() else { return false };
        let is_signed = self as u8 >= Prim::I8 as u8;
        // The bits above those of the value: copies of its sign, or zeros.
        let above = if bytes == 16 { 0 } else { tag >> (8 * bytes - usize::from(is_signed)) };
        above == 0 || is_signed && above == -1
    }

    /// Returns the integer of this type that is encoded in the bytes that `bytes` returns; 0 if this type is
    /// no integer. `bytes` gets the number of bytes. A `u128` is returned by its bits, as tags are kept.
    #[inline]
    pub(crate) fn integer<'a>(self, bytes: impl FnOnce(u64) -> &'a [u8]) -> i128 {
        fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
            *bytes.first_chunk().expect("as many were asked for")
        }
        match self {
            Prim::U8 => u8::from_ne_bytes(array(bytes(1))).into(),
            Prim::I8 => i8::from_ne_bytes(array(bytes(1))).into(),
            Prim::U16 => u16::from_ne_bytes(array(bytes(2))).into(),
            Prim::I16 => i16::from_ne_bytes(array(bytes(2))).into(),
            Prim::U32 => u32::from_ne_bytes(array(bytes(4))).into(),
            Prim::I32 => i32::from_ne_bytes(array(bytes(4))).into(),
            Prim::U64 => u64::from_ne_bytes(array(bytes(8))).into(),
            Prim::I64 => i64::from_ne_bytes(array(bytes(8))).into(),
            Prim::U128 | Prim::I128 => i128::from_ne_bytes(array(bytes(16))),
            Prim::F32 | Prim::F64 | Prim::Bool | Prim::Char | Prim::Unit => 0,
        }
    }
}
