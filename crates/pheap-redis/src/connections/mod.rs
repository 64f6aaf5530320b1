//! Connections, encrypted or not, and the mailboxes through which threads send each other messages.

pub mod mailbox;
pub mod stream;
pub mod tls;
