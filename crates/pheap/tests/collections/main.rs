//! The collections, compared with those of std.

mod btree;
mod debug;
mod deque;
mod forged;
mod hash;
mod hash_choose;
mod hash_scan;
mod hash_shapes;
mod keys;
mod panics;
mod prefetch;
mod priority;
mod reuse;
mod snap;
mod string;
mod twins;
mod vec;
