//! What macros of pheap do with whatever they are given: it does not compile, or does what plain code does.

mod cells;
mod persist;
mod places;
