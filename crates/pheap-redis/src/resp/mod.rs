//! The protocol of Redis, RESP2 and RESP3: requests are [parsed](request), replies are [written](reply). Knows nothing of commands.

pub mod input;
pub mod reply;
pub mod request;

pub use reply::Reply;
