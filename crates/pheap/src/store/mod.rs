//! What is in the file of a heap: its header, arenas and their span tables, pages, types, and the headers of regions.
//!
//! Knows pages, spans and types. Must not know regions that are open, transactions, or objects.

pub(crate) mod arena;
pub(crate) mod header;
pub(crate) mod page_map;
pub(crate) mod pages;
pub(crate) mod region_header;
pub(crate) mod relocate;
pub(crate) mod spans;
pub(crate) mod stored;
pub(crate) mod types;
pub(crate) mod word;
