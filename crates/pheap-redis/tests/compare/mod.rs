//! Sends random commands to two servers and compares their replies. See `differential.rs`.

mod commands;
mod differences;
mod generate;
mod pair;
mod shrink;
mod value;

pub(crate) use generate::round;
pub(crate) use pair::Pair;
pub(crate) use shrink::shortest;
