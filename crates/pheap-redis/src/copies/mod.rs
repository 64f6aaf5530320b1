//! Copies of the data in files: the heap itself, and RDB files.

pub mod export;
pub mod import;
pub mod save;
