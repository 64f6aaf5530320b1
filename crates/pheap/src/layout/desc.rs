//! What `#[derive(Persist)]` says about a type: a graph of constants.
//!
//! Edges are functions, because a constant that contained itself (`Node` → `P<Node>` → `Node`) would be a cycle.

use super::names::is_id;

/// Names a type without evaluating its description.
pub type DescFn = fn() -> &'static Desc;

/// The stable id of a type: its name in Rust, or `#[persist(id = "…")]`.
#[derive(Debug, Clone, Copy)]
pub struct Name(&'static str);

/// What the ids of this crate's own types begin with. Their invariants rest on it that no other type has such an id: a heap takes two
/// types for one if their ids and fields are the same.
const OWN: &[u8] = b"pheap::";

impl Name {
    /// The id of a user's type.
    ///
    /// # Panics
    /// If it begins with `pheap::`, or has characters that no id has. Derived code calls this in a constant, so that is an error of the compiler's.
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

    /// The id of a type of this crate, `pheap::…`.
    pub(crate) const fn own(id: &'static str) -> Name {
        Name(id)
    }

    /// As a string.
    pub const fn as_str(self) -> &'static str {
        self.0
    }
}

/// One type as the compiler lays it out.
#[derive(Debug)]
pub struct Desc {
    /// The stable id.
    pub name: Name,
    /// Type arguments of a generic type.
    pub args: &'static [DescFn],
    /// Size in bytes (0 for unsized types).
    pub size: usize,
    /// Alignment in bytes.
    pub align: usize,
    /// What it is made of.
    pub kind: Kind,
}

/// What a type is made of.
#[derive(Debug)]
pub enum Kind {
    /// A number, `bool`, `char` or `()`.
    Prim(Prim),
    /// `[T; N]`.
    Array {
        /// `T`.
        elem: DescFn,
        /// `N`.
        len: usize,
    },
    /// `P<T>`, or `Option<P<T>>` if `nullable`.
    Ptr {
        /// Whether zero stands for `None`.
        nullable: bool,
        /// `T`.
        to: DescFn,
    },
    /// A struct.
    Struct {
        /// In the order of their declaration.
        fields: &'static [Field],
    },
    /// An enum with a primitive representation.
    Enum {
        /// Type of the tag, which lies at offset 0.
        tag: Prim,
        /// In the order of their declaration.
        variants: &'static [Variant],
    },
    /// `[T]`: the length as a `u64`, then the elements.
    Slice {
        /// `T`.
        elem: DescFn,
    },
    /// `str`: the length as a `u64`, then UTF-8.
    Str,
    /// A place in a collection: all bytes are zero, or it is a value.
    Slot {
        /// The type of the value.
        of: DescFn,
    },
}

/// A field of a struct or variant.
#[derive(Debug)]
pub struct Field {
    /// Its name; `0`, `1`, … in a tuple.
    pub name: &'static str,
    /// Offset in bytes from the start of the struct or enum.
    pub offset: usize,
    /// Its type.
    pub ty: DescFn,
}

/// A variant of an enum.
#[derive(Debug)]
pub struct Variant {
    /// Its name.
    pub name: &'static str,
    /// Its discriminant.
    pub tag: i128,
    /// Its fields.
    pub fields: &'static [Field],
}

/// Types without parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
#[repr(u8)]
pub enum Prim {
    U8,
    U16,
    U32,
    U64,
    U128,
    I8,
    I16,
    I32,
    I64,
    I128,
    F32,
    F64,
    Bool,
    Char,
    Unit,
}

impl Prim {
    pub(crate) const ALL: [Prim; 15] = {
        use Prim::*;
        [U8, U16, U32, U64, U128, I8, I16, I32, I64, I128, F32, F64, Bool, Char, Unit]
    };

    /// The name in Rust.
    pub fn name(self) -> &'static str {
        match self {
            Prim::U8 => "u8",
            Prim::U16 => "u16",
            Prim::U32 => "u32",
            Prim::U64 => "u64",
            Prim::U128 => "u128",
            Prim::I8 => "i8",
            Prim::I16 => "i16",
            Prim::I32 => "i32",
            Prim::I64 => "i64",
            Prim::I128 => "i128",
            Prim::F32 => "f32",
            Prim::F64 => "f64",
            Prim::Bool => "bool",
            Prim::Char => "char",
            Prim::Unit => "()",
        }
    }
}
