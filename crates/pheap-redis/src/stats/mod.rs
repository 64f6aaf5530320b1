//! Statistics of the server: calls of commands, rates, slow commands, processor time.

pub mod counts;
pub mod rates;
pub mod slowlog;
pub mod usage;
