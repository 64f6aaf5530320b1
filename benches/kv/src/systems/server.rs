//! Servers on a local socket: they show the cost of a request that leaves the process. Each thread has a
//! client.

use super::{Reader, Session, Store};
use crate::Result;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Kind of the server, which also determines the protocol.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Redis,
    /// With the binary protocol, because keys may have any bytes.
    Memcached,
}

impl Kind {
    fn program(self) -> &'static str {
        match self {
            Kind::Redis => "redis-server",
            Kind::Memcached => "memcached",
        }
    }

    /// Returns whether the server is installed.
    pub(crate) fn is_there(self) -> bool {
        Command::new(self.program()).arg("--version").output().is_ok()
    }
}

pub(crate) struct Server {
    kind: Kind,
    process: Child,
    socket: PathBuf,
}

/// Longest time for a server to start.
const START: Duration = Duration::from_secs(10);
/// Requests that are sent before their replies are read, when many entries are put.
const PIPELINE: usize = 100;

impl Server {
    pub(crate) fn open(kind: Kind, dir: &Path, sync: bool, cache: usize) -> Result<Server> {
        let socket = dir.join("socket");
        let mut command = Command::new(kind.program());
        match kind {
            Kind::Redis => command
                .args(["--port", "0", "--save", "", "--appendonly", "yes", "--appendfsync"])
                .arg(if sync { "always" } else { "no" })
                .arg("--dir")
                .arg(dir)
                .arg("--unixsocket")
                .arg(&socket),
            Kind::Memcached => {
                command.args(["-u", "root", "-m"]).arg((cache >> 20).to_string()).arg("-s").arg(&socket)
            }
        };
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let server = Server { kind, process, socket };
        let begun = Instant::now();
        while server.connect().is_err() {
            if begun.elapsed() > START {
                return Err(format!("{} does not answer", kind.program()).into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(server)
    }

    fn connect(&self) -> Result<Client> {
        let stream = UnixStream::connect(&self.socket)?;
        Ok(Client {
            kind: self.kind,
            replies: BufReader::new(stream),
            requests: Vec::new(),
            value: Vec::new(),
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The server may already have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Store for Server {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(self.connect()?))
    }

    fn settle(&self) -> Result<()> {
        Ok(()) // acknowledged writes are in the log, if there is one
    }

    fn len(&self) -> Result<u64> {
        Err("servers have no rows in this table".into())
    }

    fn compact(&mut self) -> Result<bool> {
        Ok(false)
    }

    fn cpu_elsewhere(&self) -> Result<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id()))?;
        // The fields after the name, which may have spaces: the first one is the state, and the twelfth and
        // thirteenth are times in hundredths of a second.
        let fields = stat.rsplit(')').next().unwrap_or("").split_whitespace();
        let ticks = fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>();
        Ok(ticks as f64 / 100.0)
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

struct Client {
    kind: Kind,
    replies: BufReader<UnixStream>,
    /// Requests that were not sent yet.
    requests: Vec<u8>,
    /// Value of the last reply.
    value: Vec<u8>,
}

enum Request<'r> {
    Get(&'r [u8]),
    Set(&'r [u8], &'r [u8]),
    Delete(&'r [u8]),
}

impl Client {
    fn add(&mut self, request: &Request<'_>) {
        match self.kind {
            Kind::Redis => self.add_redis(request),
            Kind::Memcached => self.add_memcached(request),
        }
    }

    fn add_redis(&mut self, request: &Request<'_>) {
        let words: &[&[u8]] = match request {
            Request::Get(key) => &[b"GET", key],
            Request::Set(key, value) => &[b"SET", key, value],
            Request::Delete(key) => &[b"DEL", key],
        };
        let out = &mut self.requests;
        out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
        for word in words {
            out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            out.extend_from_slice(word);
            out.extend_from_slice(b"\r\n");
        }
    }

    fn add_memcached(&mut self, request: &Request<'_>) {
        let (code, extras, key, value): (u8, &[u8], _, &[u8]) = match *request {
            Request::Get(key) => (0, &[], key, &[]),
            Request::Set(key, value) => (1, &[0; 8], key, value), // flags, and no expiration
            Request::Delete(key) => (4, &[], key, &[]),
        };
        let body = extras.len() + key.len() + value.len();
        let mut header = [0; 24];
        (header[0], header[1], header[4]) = (0x80, code, extras.len() as u8);
        header[2..4].copy_from_slice(&(key.len() as u16).to_be_bytes());
        header[8..12].copy_from_slice(&(body as u32).to_be_bytes());
        for part in [&header, extras, key, value] {
            self.requests.extend_from_slice(part);
        }
    }

    fn send(&mut self) -> Result<()> {
        self.replies.get_mut().write_all(&self.requests)?;
        self.requests.clear();
        Ok(())
    }

    /// Reads a reply. Returns whether it has a value, which is then in `value`.
    fn reply(&mut self) -> Result<bool> {
        match self.kind {
            Kind::Redis => self.reply_of_redis(),
            Kind::Memcached => self.reply_of_memcached(),
        }
    }

    fn reply_of_redis(&mut self) -> Result<bool> {
        let mut line = String::new();
        self.replies.read_line(&mut line)?;
        match line.trim_end().split_at_checked(1) {
            Some(("+" | ":", _)) | Some(("$", "-1")) => Ok(false),
            Some(("$", len)) => {
                self.value.resize(len.parse::<usize>()? + 2, 0);
                self.replies.read_exact(&mut self.value)?;
                self.value.truncate(self.value.len() - 2);
                Ok(true)
            }
            _ => Err(format!("Redis answers {line:?}").into()),
        }
    }

    fn reply_of_memcached(&mut self) -> Result<bool> {
        const NOT_FOUND: u16 = 1;
        let mut header = [0; 24];
        self.replies.read_exact(&mut header)?;
        let number =
            |at: usize, len: usize| header[at..at + len].iter().fold(0, |n, b| n << 8 | usize::from(*b));
        let (extras, body, status) = (number(4, 1), number(8, 4), number(6, 2) as u16);
        self.value.resize(body, 0);
        self.replies.read_exact(&mut self.value)?;
        match (status, header[1]) {
            (0, 0) => {
                self.value.drain(..extras);
                Ok(true)
            }
            (0 | NOT_FOUND, _) => Ok(false),
            _ => Err(format!("memcached answers {:?}", String::from_utf8_lossy(&self.value)).into()),
        }
    }

    fn ask(&mut self, request: &Request<'_>) -> Result<bool> {
        self.add(request);
        self.send()?;
        self.reply()
    }

    fn ask_all<'r>(&mut self, requests: impl Iterator<Item = Request<'r>>) -> Result<()> {
        let mut requests = requests.peekable();
        while requests.peek().is_some() {
            let mut sent = 0;
            for request in requests.by_ref().take(PIPELINE) {
                self.add(&request);
                sent += 1;
            }
            self.send()?;
            for _ in 0..sent {
                self.reply()?;
            }
        }
        Ok(())
    }
}

impl Reader for Client {
    fn get(&mut self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<()> {
        if self.ask(&Request::Get(key))? {
            see(&self.value);
        }
        Ok(())
    }

    fn scan(&mut self, _: &[u8], _: usize, _: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        Err("keys of these servers have no order".into())
    }
}

impl Session for Client {
    fn load(&mut self, entries: &mut dyn Iterator<Item = (&[u8], &[u8])>) -> Result<()> {
        self.ask_all(entries.map(|(key, value)| Request::Set(key, value)))
    }

    fn delete_all(&mut self, keys: &mut dyn Iterator<Item = &[u8]>) -> Result<()> {
        self.ask_all(keys.map(Request::Delete))
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>> {
        Err("servers have no rows in that table".into())
    }
}
