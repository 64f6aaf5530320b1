//! TLS connections, if this build has the feature `tls`: certificates, and the encrypted stream.

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

/// An encrypted connection.
pub trait Encrypted: Read + Write + Debug + Send {
    /// Returns whether the handshake is not complete.
    fn is_greeting(&self) -> bool;

    /// Returns the underlying socket.
    fn socket(&self) -> &TcpStream;

    /// Returns the underlying socket.
    fn socket_mut(&mut self) -> &mut TcpStream;
}
