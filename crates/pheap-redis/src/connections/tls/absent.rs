//! What there is where TLS is not: the same, but no values of it.

use std::io::{self, Read, Write};

use mio::net::TcpStream;

use crate::config::Config;

/// Why nobody can connect by TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// What is asked for is not there.
    #[error("{0} is set, but this pheap-redis was built without TLS; build it with `--features tls`")]
    Absent(&'static str),
}

/// By what clients are let in.
#[derive(Debug, Clone)]
pub enum Acceptor {}

/// By what a master is connected to.
#[derive(Debug, Clone)]
pub enum Connector {}

/// Nothing, if the options do not ask for it.
///
/// # Errors
/// If they do.
pub fn acceptor(config: &Config) -> Result<Option<Acceptor>, TlsError> {
    if config.int("tls-port") != 0 { Err(TlsError::Absent("tls-port")) } else { Ok(None) }
}

/// The same.
///
/// # Errors
/// If the options ask for it.
pub fn connector(config: &Config) -> Result<Option<Connector>, TlsError> {
    if config.is("tls-replication") { Err(TlsError::Absent("tls-replication")) } else { Ok(None) }
}

/// A connection by TLS.
#[derive(Debug)]
pub enum TlsStream {}

impl TlsStream {
    pub(crate) fn accept(_: TcpStream, acceptor: &Acceptor) -> io::Result<TlsStream> {
        match *acceptor {}
    }

    pub(crate) fn connect(_: TcpStream, connector: &Connector, _: &str) -> io::Result<TlsStream> {
        match *connector {}
    }

    pub(crate) fn is_greeting(&self) -> bool {
        match *self {}
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        match *self {}
    }

    pub(crate) fn socket_mut(&mut self) -> &mut TcpStream {
        match *self {}
    }
}

impl Read for TlsStream {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        match *self {}
    }
}

impl Write for TlsStream {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        match *self {}
    }

    fn flush(&mut self) -> io::Result<()> {
        match *self {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_for_it_is_told() {
        let mut config = Config::default();
        assert!(acceptor(&config).unwrap().is_none() && connector(&config).unwrap().is_none());
        config.set("tls-port", "6379").unwrap();
        config.set("tls-replication", "yes").unwrap();
        let told = acceptor(&config).unwrap_err().to_string();
        assert!(told.starts_with("tls-port is set, but ") && told.contains("--features tls"), "{told}");
        assert!(connector(&config).unwrap_err().to_string().starts_with("tls-replication is set, but "));
    }
}
