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

/// How many programs a property is tested with, unless `PHEAP_COPIES_CASES` says so.
fn cases(default: u32) -> u32 {
    std::env::var("PHEAP_COPIES_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}
