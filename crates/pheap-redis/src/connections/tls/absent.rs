//! What there is where TLS is not: the same, but no values of it.

use std::io;

use mio::net::TcpStream;

use super::Encrypted;
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
