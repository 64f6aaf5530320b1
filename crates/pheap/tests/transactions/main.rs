//! What a transaction does to the objects that it stores to, and what is left when it is rolled back.

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
