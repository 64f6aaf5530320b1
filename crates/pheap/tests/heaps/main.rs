//! The content of a heap: roots and their types, held objects, the objects that a collection frees, and the
//! report of `check`.

mod check;
mod collect;
mod collect_model;
mod held;
mod holders;
mod roots;
mod shared;
mod type_identity;
mod watch;
