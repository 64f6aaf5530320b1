//! What is known of clients. In this file: who is connected, as others see it (`CLIENT LIST`, `KILL`,
//! `UNBLOCK`, `PAUSE`).

pub mod buffers;
pub mod client;
pub mod pubsub;
pub mod tracking;
pub mod unsynced;
pub mod waiting;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use crate::text::words::lossy;

/// The clients that are connected.
#[derive(Debug, Default)]
pub struct Clients(Mutex<BTreeMap<u64, Arc<Profile>>>);

/// What others may know of a client.
#[derive(Debug)]
pub struct Profile {
    /// Its number.
    pub id: u64,
    /// The number of its thread.
    pub thread: usize,
    /// The address of its end, and of this one.
    pub addresses: [String; 2],
    /// Its file descriptor.
    pub descriptor: i32,
    /// Whether it is connected by a UNIX socket.
    pub is_unix: bool,
    /// When it came.
    pub since: Instant,
    /// Whether it waits for a key.
    pub is_blocked: AtomicBool,
    /// Whether the client is gone that gets the messages about keys that it has read.
    pub redirect_is_broken: AtomicBool,
    /// What it does. Its own thread says so when it has served it.
    pub state: Mutex<State>,
}

/// What a client does.
#[derive(Debug, Clone)]
pub struct State {
    /// What it calls itself.
    pub name: Vec<u8>,
    /// The name and the version of the library that it uses, if it has told.
    pub library: [Vec<u8>; 2],
    /// When it has last sent something.
    pub last_heard: Instant,
    /// Its database.
    pub db: usize,
    /// Number of channels, patterns, and channels of shards that it listens to.
    pub listens: [usize; 3],
    /// Number of commands that wait for `EXEC`, if it has said `MULTI`, and their bytes.
    pub queued: Option<(usize, usize)>,
    /// Letters that say more, as `CLIENT LIST` has them.
    pub flags: String,
    /// Bytes that it has sent and that were not answered.
    pub input: usize,
    /// Bytes that are to be sent to it.
    pub output: usize,
    /// Its last command.
    pub command: &'static str,
    /// Whether it is answered by RESP3.
    pub resp3: bool,
    /// Who gets the messages about keys that it has read: -1 if it wants none, 0 itself, or another client.
    pub redirects_to: i64,
}

/// Bytes of the buffer that a client's output has without a list, as `CLIENT LIST` tells of it.
pub const OUTPUT_BUFFER: usize = 16 << 10;

impl State {
    /// That of a client that has come now.
    pub fn new(now: Instant) -> State {
        State {
            name: Vec::new(),
            library: Default::default(),
            last_heard: now,
            db: 0,
            listens: [0; 3],
            queued: None,
            flags: String::new(),
            input: 0,
            output: 0,
            command: "NULL",
            resp3: false,
            redirects_to: -1,
        }
    }
}

impl State {
    /// Bytes of its buffers.
    pub fn bytes(&self) -> usize {
        self.input + self.output + self.queued.map_or(0, |(_, bytes)| bytes)
    }
}

/// Which clients are meant. What is None does not matter.
#[derive(Debug, Default)]
pub struct Filter {
    /// That one.
    pub id: Option<u64>,
    /// Those whose end has this address.
    pub addr: Option<Vec<u8>>,
    /// Those that have connected to this address.
    pub laddr: Option<Vec<u8>>,
    /// Those of this kind.
    pub kind: Option<Kind>,
    /// All but that one.
    pub not: Option<u64>,
}

/// Kinds of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Those that send commands.
    Normal,
    /// Those that listen to channels.
    PubSub,
    /// Servers that follow this one, or that this one follows. There are none.
    Server,
}

impl Clients {
    /// A client has come.
    pub fn add(&self, profile: Arc<Profile>) {
        self.0.lock().insert(profile.id, profile);
    }

    /// It is gone.
    pub fn remove(&self, id: u64) {
        self.0.lock().remove(&id);
    }

    /// Number of clients.
    pub fn count(&self) -> usize {
        self.0.lock().len()
    }

    /// One of them.
    pub fn get(&self, id: u64) -> Option<Arc<Profile>> {
        self.0.lock().get(&id).cloned()
    }

    /// The clients that need most memory, with how much: so many that the others need no more than `limit`
    /// bytes. Those that are spared (`CLIENT NO-EVICT`) do not count.
    pub fn above(&self, limit: usize) -> Vec<(Arc<Profile>, usize)> {
        let mut all = Vec::new();
        for profile in self.0.lock().values() {
            let state = profile.state.lock();
            if !state.flags.contains('e') && state.bytes() > 0 {
                all.push((profile.clone(), state.bytes()));
            }
        }
        let mut sum: usize = all.iter().map(|(_, bytes)| bytes).sum();
        all.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        let is_above = |(_, bytes): &(Arc<Profile>, usize)| {
            let is_above = sum > limit;
            sum -= bytes;
            is_above
        };
        all.into_iter().take_while(is_above).collect()
    }

    /// Those that are meant, in the order in which they came.
    pub fn matching(&self, filter: &Filter) -> Vec<Arc<Profile>> {
        self.0.lock().values().filter(|profile| profile.is_meant(filter)).cloned().collect()
    }
}

impl Default for Profile {
    fn default() -> Profile {
        Profile::nobody()
    }
}

impl Profile {
    /// That of nobody, who has come now: what scripts run commands as before one has a client.
    pub fn nobody() -> Profile {
        let now = Instant::now();
        Profile {
            id: 0,
            thread: 0,
            addresses: Default::default(),
            descriptor: -1,
            is_unix: false,
            since: now,
            is_blocked: AtomicBool::new(false),
            redirect_is_broken: AtomicBool::new(false),
            state: Mutex::new(State::new(now)),
        }
    }

    /// Whether its other end is on this machine.
    pub fn is_local(&self) -> bool {
        let addr = self.addresses[0].parse::<SocketAddr>();
        self.is_unix || addr.is_ok_and(|addr| addr.ip().to_canonical().is_loopback())
    }

    fn is_meant(&self, filter: &Filter) -> bool {
        let is_one = |wanted: &Option<Vec<u8>>, addr: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted == addr.as_bytes())
        };
        filter.id.is_none_or(|id| id == self.id)
            && filter.not.is_none_or(|id| id != self.id)
            && is_one(&filter.addr, &self.addresses[0])
            && is_one(&filter.laddr, &self.addresses[1])
            && filter.kind.is_none_or(|kind| kind == self.kind())
    }

    fn kind(&self) -> Kind {
        if self.state.lock().listens == [0; 3] { Kind::Normal } else { Kind::PubSub }
    }

    /// What `CLIENT LIST` shows of it: fields and values in a line.
    pub fn line(&self) -> String {
        let state = self.state.lock();
        let mut flags = state.flags.clone();
        if self.is_unix {
            flags.push('U');
        }
        if self.is_blocked.load(Ordering::SeqCst) {
            flags.push('b');
        }
        if self.redirect_is_broken.load(Ordering::Relaxed) {
            flags.push('R');
        }
        if flags.is_empty() {
            flags.push('N');
        }
        let (queued, queued_bytes) =
            state.queued.map_or((-1, 0), |(commands, bytes)| (commands as i64, bytes));
        let listed = state.output.saturating_sub(OUTPUT_BUFFER);
        let mut line = String::new();
        // Writing to a string does not fail.
        let _ = write!(
            line,
            "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={flags} db={} sub={} psub={} ssub={} multi={queued} \
             qbuf={} qbuf-free=0 argv-mem=0 multi-mem={queued_bytes} rbs=0 rbp=0 obl={} oll={} omem={listed} tot-mem={} events={} \
             cmd={} user=default redir={} resp={} lib-name={} lib-ver={}",
            self.id,
            self.addresses[0],
            self.addresses[1],
            self.descriptor,
            lossy(&state.name),
            self.since.elapsed().as_secs(),
            state.last_heard.elapsed().as_secs(),
            state.db,
            state.listens[0],
            state.listens[1],
            state.listens[2],
            state.input,
            state.output - listed,
            listed.div_ceil(OUTPUT_BUFFER),
            size_of::<Profile>() + state.bytes(),
            if state.output > 0 { "rw" } else { "r" },
            state.command,
            state.redirects_to,
            if state.resp3 { 3 } else { 2 },
            lossy(&state.library[0]),
            lossy(&state.library[1]),
        );
        line
    }
}

/// How long clients are not served, and which of their commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    /// Until then.
    pub until: Instant,
    /// All commands wait, not only those that change something.
    pub all: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_go_first_that_need_most() {
        let clients = Clients::default();
        for (id, output, flags) in [(1, 10, ""), (2, 30, ""), (3, 0, ""), (4, 20, ""), (5, 1000, "e")] {
            let profile = Profile { id, ..Profile::nobody() };
            let mut state = profile.state.lock();
            (state.output, state.flags) = (output, flags.into());
            drop(state);
            clients.add(profile.into());
        }
        let above = |limit| clients.above(limit).iter().map(|(profile, _)| profile.id).collect::<Vec<_>>();
        assert_eq!((above(60), above(59), above(30), above(29)), (vec![], vec![2], vec![2], vec![2, 4]));
    }
}
