//! The effects of a transaction on the objects that it stores to, and the state after its rollback.

mod aliases;
mod commit_words;
mod copies;
mod garbage;
mod group_spill;
mod kept_copies;
mod looks;
mod model;
mod nested;
mod padding;
mod parts;
mod rollback;
mod slices;
mod write_set;
