//! A connection of any kind.

use std::fmt;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::time::Duration;

use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};
use socket2::{SockRef, TcpKeepalive};

use crate::connections::tls::Encrypted;

/// A connection.
#[derive(Debug)]
pub enum Stream {
    /// A TCP connection.
    Tcp(TcpStream),
    /// A connection through a Unix socket.
    Unix(UnixStream),
    /// An encrypted TCP connection.
    Tls(Box<dyn Encrypted>),
}

impl Stream {
    /// For TCP, turns off the delay of small packets, and has the system send keep-alive probes after
    /// `keepalive` idle seconds (0: never).
    pub(crate) fn prepare(&self, keepalive: u64) {
        if let Some(stream) = self.tcp() {
            // Failures are ignored, because the connection works without either setting.
            let _ = stream.set_nodelay(true);
            if keepalive > 0 {
                let probes = TcpKeepalive::new().with_time(Duration::from_secs(keepalive));
                let _ = SockRef::from(stream).set_tcp_keepalive(&probes);
            }
        }
    }

    /// Returns the TCP socket, if there is one.
    fn tcp(&self) -> Option<&TcpStream> {
        match self {
            Stream::Tcp(stream) => Some(stream),
            Stream::Unix(_) => None,
            Stream::Tls(stream) => Some(stream.socket()),
        }
    }

    /// Returns the socket to register for events.
    fn source(&mut self) -> &mut dyn Source {
        match self {
            Stream::Tcp(stream) => stream,
            Stream::Unix(stream) => stream,
            Stream::Tls(stream) => stream.socket_mut(),
        }
    }

    /// Returns the file descriptor.
    pub(crate) fn descriptor(&self) -> i32 {
        match self {
            Stream::Tcp(stream) => stream.as_raw_fd(),
            Stream::Unix(stream) => stream.as_raw_fd(),
            Stream::Tls(stream) => stream.socket().as_raw_fd(),
        }
    }

    /// Returns whether this is a Unix socket.
    pub(crate) fn is_unix(&self) -> bool {
        matches!(self, Stream::Unix(_))
    }

    /// Returns whether a read may leave decrypted data behind, for which no event comes.
    pub(crate) fn is_encrypted(&self) -> bool {
        matches!(self, Stream::Tls(_))
    }

    /// Returns whether this is a TLS connection whose handshake is not complete.
    pub(crate) fn is_greeting(&self) -> bool {
        matches!(self, Stream::Tls(stream) if stream.is_greeting())
    }

    /// Returns whether the peer is connected by a Unix socket or has a loopback address.
    pub(crate) fn is_local(&self) -> bool {
        self.tcp()
            .is_none_or(|stream| stream.peer_addr().is_ok_and(|addr| addr.ip().to_canonical().is_loopback()))
    }

    /// Returns the addresses of the peer's end and of this end, as `CLIENT LIST` shows them. For a Unix
    /// socket, both are its path and `:0`.
    pub(crate) fn addresses(&self) -> [String; 2] {
        let shown = |addr: io::Result<std::net::SocketAddr>| {
            addr.map_or_else(|_| "?:0".to_owned(), |addr| addr.to_string())
        };
        match self {
            Stream::Tcp(stream) => [shown(stream.peer_addr()), shown(stream.local_addr())],
            Stream::Tls(stream) => {
                let stream = stream.socket();
                [shown(stream.peer_addr()), shown(stream.local_addr())]
            }
            Stream::Unix(stream) => {
                let path = stream
                    .local_addr()
                    .ok()
                    .and_then(|addr| addr.as_pathname().map(|path| path.display().to_string()));
                let name = format!("{}:0", path.unwrap_or_default());
                [name.clone(), name]
            }
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Unix(stream) => stream.read(buffer),
            Stream::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
            Stream::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Tcp(_) | Stream::Unix(_) => Ok(()),
            Stream::Tls(stream) => stream.flush(),
        }
    }
}

impl Source for Stream {
    fn register(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        self.source().register(registry, token, interests)
    }

    fn reregister(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        self.source().reregister(registry, token, interests)
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        self.source().deregister(registry)
    }
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.addresses()[0])
    }
}
