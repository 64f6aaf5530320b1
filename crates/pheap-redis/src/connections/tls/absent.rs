//! Replaces the TLS modules in a build without TLS. Its acceptor and its connector have no values.

use std::io;

use mio::net::TcpStream;

use super::Encrypted;
use crate::config::Config;

/// Why TLS cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// An option asks for TLS, which this build does not have.
    #[error("{0} is set, but this pheap-redis was built without TLS; build it with `--features tls`")]
    Absent(&'static str),
}

/// Accepts TLS clients.
#[derive(Debug, Clone)]
pub enum Acceptor {}

/// Connects to a master by TLS.
#[derive(Debug, Clone)]
pub enum Connector {}

/// Returns None if the options do not ask for TLS.
///
/// # Errors
/// If `tls-port` is set.
pub fn acceptor(config: &Config) -> Result<Option<Acceptor>, TlsError> {
    if config.int("tls-port") != 0 { Err(TlsError::Absent("tls-port")) } else { Ok(None) }
}

/// Returns None if the options do not ask for TLS to a master.
///
/// # Errors
/// If `tls-replication` is `yes`.
pub fn connector(config: &Config) -> Result<Option<Connector>, TlsError> {
    if config.is("tls-replication") { Err(TlsError::Absent("tls-replication")) } else { Ok(None) }
}

impl Acceptor {
    pub(crate) fn accept(&self, _: TcpStream) -> io::Result<Box<dyn Encrypted>> {
        match *self {}
    }
}

impl Connector {
    pub(crate) fn connect(&self, _: TcpStream, _: &str) -> io::Result<Box<dyn Encrypted>> {
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
