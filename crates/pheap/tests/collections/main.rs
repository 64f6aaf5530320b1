//! The collections, beside those of std.

mod twins;
mod vec;
