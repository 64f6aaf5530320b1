//! What is in a heap: roots and their types, what is held and what a collection frees, and what `check` says of it.

mod check;
mod collect;
mod collect_model;
mod held;
mod holders;
mod roots;
mod shared;
mod type_identity;
mod watch;
