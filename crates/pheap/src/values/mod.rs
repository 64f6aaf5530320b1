//! Counterparts of types of the standard library whose layout Rust does not define: `POption`, `PTuple2` and
//! so on, `PDuration`, `PSystemTime`; and room for future fields, `Spare`.
//!
//! This module knows layouts of values. It must not know where values lie.

mod option;
mod spare;
mod time;
mod tuple;

pub use option::POption;
pub use spare::Spare;
pub use time::{PDuration, PSystemTime};
pub use tuple::{PTuple2, PTuple3, PTuple4, PTuple5, PTuple6, PTuple7, PTuple8};
