//! Connections by TLS, if this was built with the feature `tls`: certificates, and a stream that is encrypted.

#[cfg(feature = "tls")]
mod setup;
#[cfg(feature = "tls")]
mod stream;

#[cfg(feature = "tls")]
pub use setup::{TlsError, setup};
#[cfg(feature = "tls")]
pub use stream::TlsStream;
