//! State of the clients. This file has the list of connected clients as other clients see it (`CLIENT LIST`,
//! `KILL`, `UNBLOCK`, `PAUSE`).

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

/// The connected clients, by id.
#[derive(Debug, Default)]
pub struct Clients(Mutex<BTreeMap<u64, Arc<Profile>>>);

/// The state of a client that other threads may read.
#[derive(Debug)]
pub struct Profile {
    /// The client's id.
    pub id: u64,
    /// The index of the client's thread.
    pub thread: usize,
    /// The addresses of the client's end and of the server's end, as `CLIENT LIST` shows them.
    pub addresses: [String; 2],
    /// The connection's file descriptor; -1 if there is no connection.
    pub descriptor: i32,
    /// Whether the client is connected by a Unix socket.
    pub is_unix: bool,
    /// When the client connected.
    pub since: Instant,
    /// Whether the client waits for a key.
    pub is_blocked: AtomicBool,
    /// Whether a tracking message was lost because the client that should get it has disconnected.
    pub redirect_is_broken: AtomicBool,
    /// The part of the state that changes. The client's thread writes it, most fields only after it has
    /// served the client.
    pub state: Mutex<State>,
}

/// The part of a client's state that changes, for other threads to read.
#[derive(Debug, Clone)]
pub struct State {
    /// The name that the client gave itself.
    pub name: Vec<u8>,
    /// The name and the version of the client's library, if it has sent them.
    pub library: [Vec<u8>; 2],
    /// When the client last sent something.
    pub last_heard: Instant,
    /// The selected database.
    pub db: usize,
    /// Number of channels, patterns, and shard channels that the client subscribes to.
    pub listens: [usize; 3],
    /// After `MULTI`: the number of commands that wait for `EXEC`, and their bytes.
    pub queued: Option<(usize, usize)>,
    /// The flags of the session, as letters of `CLIENT LIST`. The flags `U`, `b` and `R` are in the profile.
    pub flags: String,
    /// Bytes of input without a reply, when the client's thread last updated this state.
    pub input: usize,
    /// Bytes of output still to send, when the client's thread last updated this state.
    pub output: usize,
    /// The name of the last command.
    pub command: &'static str,
    /// Whether replies use RESP3.
    pub resp3: bool,
    /// The id of the client that gets this client's tracking messages; 0 if this client gets them itself; -1
    /// if it does not track keys.
    pub redirects_to: i64,
}

/// The most bytes of output that `CLIENT LIST` shows as a buffer. It shows the rest as a list.
pub const OUTPUT_BUFFER: usize = 16 << 10;

impl State {
    /// Returns the state of a client that connects at `now`.
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
    /// Returns the bytes of the client's buffers and of its commands that wait for `EXEC`.
    pub fn bytes(&self) -> usize {
        self.input + self.output + self.queued.map_or(0, |(_, bytes)| bytes)
    }
}

/// Selects the clients that meet all conditions. A field that is None is no condition.
#[derive(Debug, Default)]
pub struct Filter {
    /// Selects only the client with this id.
    pub id: Option<u64>,
    /// Selects clients whose own end of the connection has this address.
    pub addr: Option<Vec<u8>>,
    /// Selects clients that have connected to this address of the server.
    pub laddr: Option<Vec<u8>>,
    /// Selects clients of this kind.
    pub kind: Option<ClientKind>,
    /// Selects all clients except the one with this id.
    pub not: Option<u64>,
}

/// The kind of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientKind {
    /// A client without subscriptions.
    Normal,
    /// A client with subscriptions.
    PubSub,
    /// A master or replica. No client has this kind: the link to a master is not in the list, and this server
    /// has no replicas.
    Server,
}

impl Clients {
    /// Adds a client.
    pub fn add(&self, profile: Arc<Profile>) {
        self.0.lock().insert(profile.id, profile);
    }

    /// Removes a client.
    pub fn remove(&self, id: u64) {
        self.0.lock().remove(&id);
    }

    /// Returns the number of clients.
    pub fn count(&self) -> usize {
        self.0.lock().len()
    }

    /// Returns a client by its id.
    pub fn get(&self, id: u64) -> Option<Arc<Profile>> {
        self.0.lock().get(&id).cloned()
    }

    /// Returns the clients that need most memory, and the bytes that each needs: just so many that the other
    /// clients need at most `limit` bytes. Clients with `CLIENT NO-EVICT` do not count.
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

    /// Returns the selected clients, in the order of their ids.
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
    /// Returns a profile without a client, for example for a script before a client calls it.
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

    /// Returns whether the client is connected by a Unix socket or from a loopback address.
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

    fn kind(&self) -> ClientKind {
        if self.state.lock().listens == [0; 3] { ClientKind::Normal } else { ClientKind::PubSub }
    }

    /// Returns the client's line of `CLIENT LIST`: fields and values.
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
        // The result is ignored, because writing to a string does not fail.
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

/// A pause of the clients (`CLIENT PAUSE`), and which commands it stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    /// The end of the pause.
    pub until: Instant,
    /// Whether all commands wait, and not only those that may change data.
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
