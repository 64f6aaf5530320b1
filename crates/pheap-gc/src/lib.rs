//! The collector of the `pheap` crate: tracing over an abstract heap.
//!
//! No mapping and no files here, so that marking can be tested alone.
