//! What is told of the server: calls of commands, how many in a second, slow ones, processor time.

pub mod counts;
pub mod rates;
pub mod slowlog;
pub mod usage;
