//! Types that have changed somewhere in the middle of what a root leads to.
#![allow(clippy::unit_arg)] // `Ok(tx[p] = 1)` is a transaction in one line

mod accepted;
mod converted;
#[macro_use]
mod hostile;
mod killed;
mod lengths;
mod middle;
mod plans;
mod pointers;
mod refused;
mod stored;
mod versions;
