//! Connections, encrypted or not, and what other threads leave for them.

pub mod mailbox;
pub mod stream;
pub mod tls;
