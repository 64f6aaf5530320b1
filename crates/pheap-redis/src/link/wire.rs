//! The connection to a master. A wait ends, for example, when bytes come, when the time is over, or when
//! another thread wakes the thread of the link.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

use super::LinkLost;
use crate::config::Master;
use crate::connections::mailbox::Mailbox;
use crate::connections::stream::Stream;
use crate::connections::tls::Connector;
use crate::resp::request::put_request;
use crate::server::Server;

pub(super) const MAILBOX: Token = Token(0);
const MASTER: Token = Token(1);

/// The most bytes of one read, except of the stream of commands.
const CHUNK: usize = 256 << 10;

/// The longest line of the master in bytes. If more bytes come without a line end, the link fails.
const LINE: usize = 64 << 10;

/// The interval at which this server sends a newline while the master sends its data.
const SIGN: Duration = Duration::from_secs(1);

/// The interval at which the link checks whether it still needs the address that it is resolving.
const LOOK: Duration = Duration::from_millis(20);

/// The poll on which the thread of the link sleeps.
pub(super) struct Sleeper {
    poll: Poll,
    mailbox: Arc<Mailbox>,
    events: Events,
}

impl Sleeper {
    pub(super) fn new() -> io::Result<Sleeper> {
        let poll = Poll::new()?;
        let mailbox = Arc::new(Mailbox::new(poll.registry(), MAILBOX)?);
        Ok(Sleeper { poll, mailbox, events: Events::with_capacity(16) })
    }

    pub(super) fn mailbox(&self) -> &Arc<Mailbox> {
        &self.mailbox
    }

    /// Sleeps until an event, an interruption or `until`. Drops the messages in the mailbox: only the wake-up
    /// counts.
    pub(super) fn sleep(&mut self, until: Instant) -> io::Result<()> {
        // After this call, another thread can wake this thread again.
        self.mailbox.take();
        match self.poll.poll(&mut self.events, Some(until.saturating_duration_since(Instant::now()))) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }
}

/// The connection to a master.
pub(super) struct Wire<'w> {
    server: &'w Server,
    generation: u64,
    sleeper: &'w mut Sleeper,
    stream: Stream,
    /// Received bytes. Those before `at` were used.
    incoming: Vec<u8>,
    at: usize,
    outgoing: Vec<u8>,
    /// How long the master may be silent.
    patience: Duration,
    heard: Instant,
    /// Set while the master sends its data: when this server last sent a newline, and the size of the data if
    /// known.
    signs: Option<(Instant, Option<u64>)>,
    /// Bytes that have come since the last call of `expect_data`.
    data: u64,
    /// The error of the last [`Read::read`], if it came from the connection.
    lost: Option<LinkLost>,
}

impl<'w> Wire<'w> {
    /// Connects to the first of the master's addresses that answers.
    pub(super) fn connect(
        server: &'w Server,
        generation: u64,
        sleeper: &'w mut Sleeper,
        master: &Master,
        tls: Option<&Connector>,
    ) -> Result<Wire<'w>, LinkLost> {
        let patience = Duration::from_secs(server.config.read().int("repl-timeout") as u64);
        let addresses = resolve(server, generation, master)?;
        let mut result = Err(LinkLost::Connect(io::ErrorKind::NotFound.into()));
        for address in addresses {
            result = connect(server, generation, sleeper, address, patience);
            if matches!(result, Ok(_) | Err(LinkLost::Left)) {
                break;
            }
        }
        let socket = result?;
        let stream = match tls {
            None => Stream::Tcp(socket),
            Some(tls) => Stream::Tls(tls.connect(socket, &master.host).map_err(LinkLost::Connect)?),
        };
        Ok(Wire {
            stream,
            server,
            generation,
            sleeper,
            incoming: Vec::new(),
            at: 0,
            outgoing: Vec::new(),
            patience,
            heard: Instant::now(),
            signs: None,
            data: 0,
            lost: None,
        })
    }

    /// Queues a command, and sends as much as the socket takes now.
    pub(super) fn send(&mut self, words: &[&[u8]]) -> Result<(), LinkLost> {
        put_request(&mut self.outgoing, words);
        self.flush_out()
    }

    /// Sends as much as the socket takes now.
    fn flush_out(&mut self) -> Result<(), LinkLost> {
        while !self.outgoing.is_empty() {
            match self.stream.write(&self.outgoing) {
                Ok(0) => return Err(LinkLost::Closed),
                Ok(len) => drop(self.outgoing.drain(..len)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(LinkLost::Io(error)),
            }
        }
        // An encrypted connection may have buffered bytes without sending them.
        match self.stream.flush() {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(LinkLost::Io(error)),
            _ => Ok(()),
        }
    }

    /// Returns whether the socket, or its encryption, has taken everything.
    pub(super) fn is_flushed(&self) -> bool {
        self.outgoing.is_empty()
    }

    /// Returns the next line, without its end.
    pub(super) fn line(&mut self) -> Result<Vec<u8>, LinkLost> {
        loop {
            let rest = &self.incoming[self.at..];
            if let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
                let line = rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]).to_vec();
                self.at += end + 1;
                return Ok(line);
            }
            if rest.len() > LINE {
                return Err(LinkLost::Nonsense("a line without an end".into()));
            }
            self.receive_more()?;
        }
    }

    /// Takes the received bytes that were not used.
    pub(super) fn rest(&mut self) -> Vec<u8> {
        self.incoming.drain(..self.at);
        self.at = 0;
        std::mem::take(&mut self.incoming)
    }

    /// Begins the transfer of the master's data, of `size` bytes if that is known; or ends it, if `size` is
    /// None.
    pub(super) fn expect_data(&mut self, size: Option<Option<u64>>) {
        self.signs = size.map(|size| (Instant::now(), size));
        self.data = 0;
    }

    /// Takes the error with which the last read has failed, if the error came from the connection.
    pub(super) fn take_lost(&mut self) -> Option<LinkLost> {
        self.lost.take()
    }

    /// Waits for more bytes, and appends them to the received ones.
    fn receive_more(&mut self) -> Result<(), LinkLost> {
        if self.at == self.incoming.len() {
            self.incoming.clear();
            self.at = 0;
        }
        let mut incoming = std::mem::take(&mut self.incoming);
        let result = loop {
            match self.receive(&mut incoming, CHUNK) {
                Ok(0) => {}
                Ok(_) => break Ok(()),
                Err(lost) => break Err(lost),
            }
            let until = self.signs.map_or(self.heard + self.patience, |(at, _)| at + SIGN);
            if let Err(lost) = self.wait(until.min(self.heard + self.patience)) {
                break Err(lost);
            }
        };
        self.incoming = incoming;
        if let Some((at, size)) = &mut self.signs {
            self.server.role.set_stage(crate::server::role::Stage::Sync, self.generation, |link| {
                link.data = (self.data, *size);
                link.heard = Some(self.heard);
            });
            if at.elapsed() >= SIGN && self.outgoing.is_empty() {
                *at = Instant::now();
                self.outgoing.push(b'\n');
                self.flush_out()?;
            }
        }
        result
    }

    /// Appends at most `most` bytes that have come already. Returns how many: 0 if none have come.
    pub(super) fn receive(&mut self, to: &mut Vec<u8>, most: usize) -> Result<usize, LinkLost> {
        let before = to.len();
        to.resize(before + most, 0);
        let result = loop {
            // Even a master that sends without a pause must not keep this thread from noticing a change of
            // the master.
            if let Err(lost) = check_not_left(self.server, self.generation) {
                break Err(lost);
            }
            match self.stream.read(&mut to[before..]) {
                Ok(0) => break Err(LinkLost::Closed),
                Ok(len) => break Ok(len),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break Ok(0),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(LinkLost::Io(error)),
            }
        };
        let len = *result.as_ref().unwrap_or(&0);
        to.truncate(before + len);
        if len > 0 {
            self.heard = Instant::now();
            self.data += len as u64;
            if let Some(traffic) = self.server.traffic.last() {
                traffic.read(len);
            }
        }
        result
    }

    /// Sends pending bytes, and sleeps until an event or until `until`. Fails if the master was silent for
    /// too long.
    pub(super) fn wait(&mut self, until: Instant) -> Result<(), LinkLost> {
        check_not_left(self.server, self.generation)?;
        if self.heard.elapsed() >= self.patience {
            return Err(LinkLost::Silent(self.patience.as_secs()));
        }
        self.flush_out()?;
        self.sleeper.sleep(until).map_err(LinkLost::Io)?;
        check_not_left(self.server, self.generation)
    }
}

impl Read for Wire<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.incoming.len()
            && let Err(lost) = self.receive_more()
        {
            self.lost = Some(lost);
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        let len = buffer.len().min(self.incoming.len() - self.at);
        buffer[..len].copy_from_slice(&self.incoming[self.at..][..len]);
        self.at += len;
        Ok(len)
    }
}

/// Fails with [`LinkLost::Left`] if the server has changed its master or stops.
fn check_not_left(server: &Server, generation: u64) -> Result<(), LinkLost> {
    if server.role.generation() != generation || server.stopping.load(Acquire) {
        return Err(LinkLost::Left);
    }
    Ok(())
}

/// Resolves the addresses of a master. A resolver may take seconds, so a separate thread asks it, and the
/// calling thread notices if the server changes its master or stops.
fn resolve(server: &Server, generation: u64, master: &Master) -> Result<Vec<SocketAddr>, LinkLost> {
    let name = (master.host.clone(), master.port);
    let (answer, answered) = mpsc::channel();
    let ask = move || {
        let addresses = (name.0.as_str(), name.1).to_socket_addrs();
        let _ = answer.send(addresses.map(Iterator::collect)); // ignored: the link may be gone
    };
    thread::Builder::new().name("resolver".into()).spawn(ask).map_err(LinkLost::Connect)?;
    loop {
        match answered.recv_timeout(LOOK) {
            Ok(addresses) => return addresses.map_err(LinkLost::Connect),
            Err(RecvTimeoutError::Timeout) => check_not_left(server, generation)?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(LinkLost::Connect(io::ErrorKind::Other.into()));
            }
        }
    }
}

fn connect(
    server: &Server,
    generation: u64,
    sleeper: &mut Sleeper,
    address: SocketAddr,
    patience: Duration,
) -> Result<TcpStream, LinkLost> {
    let mut stream = TcpStream::connect(address).map_err(LinkLost::Connect)?;
    let interest = Interest::READABLE | Interest::WRITABLE;
    sleeper.poll.registry().register(&mut stream, MASTER, interest).map_err(LinkLost::Io)?;
    let until = Instant::now() + patience;
    loop {
        if let Some(error) = stream.take_error().map_err(LinkLost::Io)? {
            return Err(LinkLost::Connect(error));
        }
        match stream.peer_addr() {
            Ok(_) => break,
            Err(error) if error.kind() == io::ErrorKind::NotConnected => {}
            Err(error) => return Err(LinkLost::Connect(error)),
        }
        if Instant::now() >= until {
            return Err(LinkLost::Connect(io::ErrorKind::TimedOut.into()));
        }
        sleeper.sleep(until).map_err(LinkLost::Io)?;
        check_not_left(server, generation)?;
    }
    // A failure is ignored, because the connection works without this option.
    let _ = stream.set_nodelay(true);
    Ok(stream)
}
