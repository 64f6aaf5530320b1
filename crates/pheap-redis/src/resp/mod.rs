//! The protocol of Redis, RESP2 and RESP3: [requests](request) are parsed, [replies](reply) are written. This
//! module knows nothing of commands.

pub mod input;
pub mod reply;
pub mod request;

pub use reply::Reply;
