//! Connections by TLS, if this was built with the feature `tls`: certificates, and a stream that is encrypted.

#[cfg(not(feature = "tls"))]
mod absent;
#[cfg(feature = "tls")]
mod setup;
#[cfg(feature = "tls")]
mod stream;

#[cfg(not(feature = "tls"))]
pub use absent::{Acceptor, Connector, TlsError, TlsStream, acceptor, connector};
#[cfg(feature = "tls")]
pub use setup::{Acceptor, Connector, TlsError, acceptor, connector};
#[cfg(feature = "tls")]
pub use stream::TlsStream;
