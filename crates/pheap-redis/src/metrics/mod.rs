//! What Prometheus collects: threads of their own answer `GET /metrics`, and wait for nobody who serves clients longer than a look at one shard takes.

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

/// How long the thread sleeps at most, until it looks whether the server is to stop.
const TICK: Duration = Duration::from_millis(200);
/// How long somebody may take to ask and to read the answer, together.
const PATIENCE: Duration = Duration::from_secs(2);
/// Connections that are answered at once, each in a thread of its own. More are closed: a scrape comes again.
const AT_ONCE: usize = 64;
/// What others are told in protected mode.
const PROTECTED: &str = "This server is in protected mode: it answers other machines only if `requirepass` is set, or `protected-mode` is `no`.\n";
/// Bytes of the longest request.
const LONGEST: usize = 8 << 10;

/// Where Prometheus connects.
#[derive(Debug)]
pub struct Exporter {
    listener: TcpListener,
    poll: Poll,
}

/// Why nothing can be collected.
#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    /// The option is no address.
    #[error("metrics: '{0}' is no address; give one of this machine's and a port, as 127.0.0.1:9121")]
    Address(String),
    /// The system refuses.
    #[error("metrics: cannot listen on {0}: {1}; if something else uses it, choose another port")]
    Io(SocketAddr, io::Error),
}

impl Exporter {
    /// One that listens on this address.
    ///
    /// # Errors
    /// If that is no address, or it cannot be had.
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

    /// Where it listens.
    ///
    /// # Errors
    /// If the system does not know.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers until the server is stopped.
    pub fn run(mut self, server: &Server) {
        let mut events = Events::with_capacity(1);
        let slow = AtomicUsize::new(0);
        thread::scope(|scope| {
            while !server.stopping.load(Acquire) {
                // What is wrong with the system, if anything, is told by those who serve clients.
                let _ = self.poll.poll(&mut events, Some(TICK));
                // However many wait in a row, the end of the server waits no longer than for one of them.
                while !server.stopping.load(Acquire)
                    && let Ok((stream, _)) = self.listener.accept()
                {
                    let answered = || {
                        if let Err(error) = answer(stream, server) {
                            tracing::debug!("metrics were not collected: {error}");
                        }
                        slow.fetch_sub(1, AcqRel);
                    };
                    // If there are as many already, or there can be no thread, the connection is closed: this thread must not wait
                    // for a client.
                    let is_room = slow.fetch_add(1, AcqRel) < AT_ONCE;
                    if !is_room || thread::Builder::new().spawn_scoped(scope, answered).is_err() {
                        slow.fetch_sub(1, AcqRel);
                    }
                }
            }
        });
    }
}

/// Whether somebody may not see figures, as clients would not be served.
fn is_protected(stream: &TcpStream, server: &Server) -> bool {
    let config = server.config.read();
    let is_local = || stream.peer_addr().is_ok_and(|addr| addr.ip().to_canonical().is_loopback());
    config.is("protected-mode") && config.text("requirepass").is_empty() && !is_local()
}

/// A connection that is given up at some time.
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

/// What somebody gets, or None if it is no such request.
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
