//! Each failure is reported by an error that says what to do, and nothing is lost.

mod access;
mod files;
mod messages;
mod nesting;
mod order;
mod space;
mod sparse;
mod types;
