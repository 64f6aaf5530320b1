//! Import and export: objects as data of any format of [serde](https://serde.rs), and back.
//!
//! [`View::export`](crate::View::export) makes an object `Serialize`; [`Txn::import`](crate::Txn::import)
//! makes objects from a serde `Deserializer`. `#[persist(serde)]` enables both for the types of a program:
//!
//! ```
//! use pheap::{Heap, P, PVec, Persist, Root};
//!
//! #[derive(Persist)]
//! #[persist(serde)]
//! #[repr(C)]
//! struct Shop<'r> {
//!     name: P<'r, str>,
//!     prices: PVec<'r, f64>,
//!     next: Option<P<'r, Shop<'r>>>,
//! }
//!
//! # fn main() -> pheap::Result<()> {
//! # let heap = Heap::in_memory()?;
//! let text = r#"{"name":"corner","prices":[9.5,1.25],"next":null}"#;
//! let shop: Root<Shop> = heap.root_or("shop", |tx| tx.import(&mut serde_json::Deserializer::from_str(text)))?;
//!
//! let out = shop.read(|view, shop| serde_json::to_string(&view.export(shop)))?;
//! assert_eq!(out.unwrap(), text);
//! # Ok(())
//! # }
//! ```
//!
//! # Representation
//!
//! | in the heap | as data |
//! |---|---|
//! | numbers, `bool`, `char`, `()` | themselves (but see serde_json's feature `float_roundtrip`; and JSON has neither NaN nor infinity: it writes `null`, and does not read it back) |
//! | `[T; N]` | a tuple of `N`, which is a sequence in JSON; also `[u8; N]` |
//! | `P<T>` | the object that it points to; a new object on import |
//! | `Option<P<T>>` | nothing (`null`), or the object that it points to; a missing field is `None` |
//! | `P<[T]>`, `PVec`, `PVecDeque` | a sequence |
//! | `PPriorityQueue` | a sequence in any order |
//! | `P<str>`, `PString`, `SharedStr` | a string; a new text on import |
//! | `PBytes`, `InlineBytes` | bytes; in human-readable formats such as JSON, a string in hexadecimal |
//! | `PHashMap`, `PBTreeMap`, `PSnapMap` | a map with the borrowed keys (see [`ExchangeKey`] for keys that JSON cannot have); a duplicate key is an error |
//! | `PHashSet`, `PBTreeSet` | a sequence, which may have duplicates |
//! | structs | maps by the names of the fields; tuple structs are sequences, or with one field just that field |
//! | enums | the name of the variant, or a map from the name to its content |
//!
//! serde's derives represent structs and enums in the same way, so programs without pheap can read and write
//! the same data. Unknown fields are ignored; duplicate fields are errors, and so are missing fields that are
//! no options.
//!
//! # Shared objects and cycles
//!
//! If several pointers lead to an object, it is exported once for each of them, and imported as several
//! objects. A cycle cannot be exported: nesting deeper than [`MAX_DEPTH`] is an error in both directions
//! ([`Exported::max_depth`] and [`Importer::max_depth`] set another limit). A linked list is nested as deep
//! as it is long; a `PVec` adds one level, whatever its length.

mod collections;
mod counterparts;
#[doc(hidden)]
pub mod derived;
mod export;
mod identifiers;
mod import;
mod keys;
mod maps;
mod parts;
mod path;
mod sequence;
mod sets;
mod values;

pub use export::{Export, Exported, Exporter};
pub use import::{Import, Importer, Seed};
pub use keys::ExchangeKey;

/// The default limit for nested pointers and collections. (serde_json's own limit is 127 open brackets.)
pub const MAX_DEPTH: usize = 128;

/// The message of the error for nesting that is deeper than this number of levels.
struct TooDeep(usize);

impl std::fmt::Display for TooDeep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "nested deeper than {} pointers and collections: a cycle? (`max_depth` sets the limit)",
            self.0
        )
    }
}
