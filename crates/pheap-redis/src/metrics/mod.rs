//! Exports figures for Prometheus. Separate threads answer `GET /metrics`. They lock shards only one at a
//! time, so that clients hardly wait for them.

mod figures;
mod text;

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{AcqRel, Acquire};
use std::thread;
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

use crate::server::Server;

/// The longest sleep of the thread that accepts requests, before it checks whether the server stops.
const TICK: Duration = Duration::from_millis(200);
/// The time after which the connection of a request is not read or written any more.
const PATIENCE: Duration = Duration::from_secs(2);
/// The most requests at once, each in its own thread. Further connections are closed, because the next scrape
/// comes soon.
const AT_ONCE: usize = 64;
/// The response to other machines if protected mode refuses them.
const PROTECTED: &str = "This server is in protected mode: it answers other machines only if `requirepass` is set, or `protected-mode` is `no`.\n";
/// A request of this many bytes that is still incomplete is refused.
const LONGEST: usize = 8 << 10;

/// The listener for Prometheus.
#[derive(Debug)]
pub struct Exporter {
    listener: TcpListener,
    poll: Poll,
}

/// Why figures cannot be exported.
#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    /// The option is not a valid address.
    #[error(
        "metrics: '{0}' is not ADDRESS:PORT; give an IP address of this machine and a port, as in \
         127.0.0.1:9121"
    )]
    Address(String),
    /// The operating system does not let the server listen on this address, because the port is in use, for
    /// example.
    #[error("metrics: cannot listen on {0}: {1}; choose an address of this machine, and a port that is free")]
    Io(SocketAddr, io::Error),
}

impl Exporter {
    /// Listens on this address.
    ///
    /// # Errors
    /// If the address is invalid, or the system refuses.
    pub fn new(address: &str) -> Result<Exporter, MetricsError> {
        let address: SocketAddr = address.parse().map_err(|_| MetricsError::Address(address.to_owned()))?;
        let listen = || {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            let poll = Poll::new()?;
            let descriptor = listener.as_raw_fd();
            poll.registry().register(&mut SourceFd(&descriptor), Token(0), Interest::READABLE)?;
            Ok(Exporter { listener, poll })
        };
        listen().map_err(|error| MetricsError::Io(address, error))
    }

    /// Returns the address of the listener.
    ///
    /// # Errors
    /// If the system does not know it.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers requests until the server stops.
    pub fn run(mut self, server: &Server) {
        let mut events = Events::with_capacity(1);
        let slow = AtomicUsize::new(0);
        thread::scope(|scope| {
            while !server.stopping.load(Acquire) {
                // An error of polling is ignored, and the loop goes on.
                let _ = self.poll.poll(&mut events, Some(TICK));
                // Without this check, the server could not end as long as connections are pending.
                while !server.stopping.load(Acquire)
                    && let Ok((stream, _)) = self.listener.accept()
                {
                    let answered = || {
                        if let Err(error) = answer(stream, server) {
                            tracing::debug!("metrics were not collected: {error}");
                        }
                        slow.fetch_sub(1, AcqRel);
                    };
                    // If there are too many requests already, or no thread can start, the connection is
                    // closed, because this thread must not wait for a client.
                    let is_room = slow.fetch_add(1, AcqRel) < AT_ONCE;
                    if !is_room || thread::Builder::new().spawn_scoped(scope, answered).is_err() {
                        slow.fetch_sub(1, AcqRel);
                    }
                }
            }
        });
    }
}

/// Returns whether protected mode forbids the figures for this peer, as it forbids commands for a client.
fn is_protected(stream: &TcpStream, server: &Server) -> bool {
    let config = server.config.read();
    let is_local = || stream.peer_addr().is_ok_and(|addr| addr.ip().to_canonical().is_loopback());
    config.is("protected-mode") && config.text("requirepass").is_empty() && !is_local()
}

/// A connection whose reads and writes fail after `until`.
struct Hurried {
    stream: TcpStream,
    until: Instant,
}

impl Hurried {
    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }
}

impl Read for Hurried {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(buffer)
    }
}

impl Write for Hurried {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

fn answer(stream: TcpStream, server: &Server) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    let is_protected = is_protected(&stream, server);
    let mut stream = Hurried { stream, until: Instant::now() + PATIENCE };
    let (status, body) = match path(&mut stream)?.as_deref() {
        Some(_) if is_protected => ("403 Forbidden", PROTECTED.to_owned()),
        Some("/metrics") => ("200 OK", figures::all(server)),
        Some("/") => ("200 OK", "The figures of this server are at /metrics.\n".to_owned()),
        Some(_) => ("404 Not Found", "There is only /metrics.\n".to_owned()),
        None => ("400 Bad Request", "Only GET is understood.\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes())
}

/// Reads a request. Returns its path without the query, or None if it is no valid `GET` request or too long.
fn path(stream: &mut impl Read) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    loop {
        let mut headers = [httparse::EMPTY_HEADER; 64];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(&bytes) {
            Ok(httparse::Status::Complete(_)) => {
                let path = request.path.filter(|_| request.method == Some("GET"));
                return Ok(path.map(|path| path.split('?').next().unwrap_or_default().to_owned()));
            }
            Ok(httparse::Status::Partial) if bytes.len() < LONGEST => {}
            _ => return Ok(None),
        }
        let mut chunk = [0; 1 << 10];
        match stream.read(&mut chunk) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(n) => bytes.extend_from_slice(&chunk[..n]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
