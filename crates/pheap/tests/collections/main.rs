//! The collections, beside those of std.

mod deque;
mod string;
mod twins;
mod vec;
