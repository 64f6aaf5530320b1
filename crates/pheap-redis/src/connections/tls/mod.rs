//! Connections by TLS, if this was built with the feature `tls`: certificates, and a stream that is encrypted.

use std::fmt::Debug;
use std::io::{Read, Write};

use mio::net::TcpStream;

#[cfg(not(feature = "tls"))]
mod absent;
#[cfg(feature = "tls")]
mod setup;
#[cfg(feature = "tls")]
mod stream;

#[cfg(not(feature = "tls"))]
pub use absent::{Acceptor, Connector, TlsError, acceptor, connector};
#[cfg(feature = "tls")]
pub use setup::{Acceptor, Connector, TlsError, acceptor, connector};

/// A connection whose bytes are encrypted.
pub trait Encrypted: Read + Write + Debug + Send {
    /// Whether the handshake is not over yet.
    fn is_greeting(&self) -> bool;

    /// What is encrypted.
    fn socket(&self) -> &TcpStream;

    /// The same.
    fn socket_mut(&mut self) -> &mut TcpStream;
}
