//! What a transaction does to the objects that it stores to, and what is left when it is rolled back.

mod commit_words;
#[path = "../common/mod.rs"]
mod common;
mod group_spill;
mod kept_copies;
mod model;
mod padding;
mod rollback;
mod write_set;
