//! Checks whether a running server answers (`--ping`), for supervisors such as Docker, where redis-cli may be
//! missing.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::config::Config;

/// The longest time to wait for a TCP connection, and for each part of the reply.
const PATIENCE: Duration = Duration::from_secs(5);

/// Beginnings of error replies that show that the server is running.
const ALIVE: &[&str] = &["-NOAUTH", "-LOADING", "-BUSY", "-MASTERDOWN"];

/// Why the check has failed.
#[derive(Debug, thiserror::Error)]
pub enum PingError {
    /// The options name no port and no socket to connect to.
    #[error("--ping connects without TLS, and neither `port` nor `unixsocket` is set; set one of them")]
    Nowhere,
    /// The server cannot be reached, or does not answer.
    #[error("no answer from {0}: {1}")]
    Io(String, io::Error),
    /// The reply is unexpected.
    #[error("{0} has answered: {1} (a server that is well answers PONG)")]
    Refused(String, String),
}

/// Sends `PING` to the server that has these options.
///
/// # Errors
/// If the options name no port and no socket, the server does not answer, or the reply is unexpected.
pub fn ping(config: &Config) -> Result<(), PingError> {
    let (port, path) = (config.int("port") as u16, config.text("unixsocket"));
    let (shown, answer) = if port != 0 {
        let address = SocketAddr::new(address(config.text("bind")), port);
        let connect = || {
            let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            ask(stream)
        };
        (address.to_string(), connect())
    } else if !path.is_empty() {
        let connect = || {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            ask(stream)
        };
        (path.to_owned(), connect())
    } else {
        return Err(PingError::Nowhere);
    };
    let answer = answer.map_err(|error| PingError::Io(shown.clone(), error))?;
    let is_alive = answer == "+PONG" || ALIVE.iter().any(|code| answer.starts_with(code));
    if is_alive { Ok(()) } else { Err(PingError::Refused(shown, answer)) }
}

/// Returns the address by which to reach a server that listens on these addresses: the first, or the loopback
/// address if the first is a wildcard, a name or missing.
fn address(bind: &str) -> IpAddr {
    let first = bind.split_whitespace().next().unwrap_or_default();
    match first.trim_start_matches('-') {
        "::*" | "::" => Ipv6Addr::LOCALHOST.into(),
        "*" | "0.0.0.0" => Ipv4Addr::LOCALHOST.into(),
        text => text.parse().unwrap_or(Ipv4Addr::LOCALHOST.into()),
    }
}

fn ask(mut stream: impl Read + Write) -> io::Result<String> {
    stream.write_all(b"PING\r\n")?;
    let mut line = String::new();
    BufReader::new(stream.take(1024)).read_line(&mut line)?;
    if line.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_it_is() {
        for (bind, expected) in [
            ("127.0.0.1 -::1", "127.0.0.1"),
            ("-::1", "::1"),
            ("*", "127.0.0.1"),
            ("::*", "::1"),
            ("0.0.0.0", "127.0.0.1"),
            ("192.0.2.7 127.0.0.1", "192.0.2.7"),
            ("", "127.0.0.1"),
        ] {
            assert_eq!(address(bind).to_string(), expected, "{bind}");
        }
    }
}
