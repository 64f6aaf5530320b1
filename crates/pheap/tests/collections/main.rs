//! The collections, beside those of std.

mod btree;
mod deque;
mod hash;
mod string;
mod twins;
mod vec;
