//! The state of a client, such as its database, transaction, watched keys, and subscriptions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;

use crate::clients::Profile;
use crate::clients::pubsub::SubscriptionKind;
use crate::text::words;

/// The number of a database, and a key in this database.
pub type Name = (usize, Vec<u8>);

/// The state of a client that commands use.
#[derive(Debug, Default)]
pub struct Session {
    /// The client's id. No other client of this run of the server has it. A script has the id of its caller,
    /// and the link to a master has 0.
    pub id: u64,
    /// The selected database.
    pub db: usize,
    /// The part of the client's state that other threads may read.
    pub profile: Arc<Profile>,
    /// Whether the client has authenticated, or no password was set when it connected or sent `RESET`.
    pub authenticated: bool,
    /// The queue of commands that wait for `EXEC`, after `MULTI`.
    pub multi: Option<Multi>,
    /// Watched keys, and whether each had already expired when the client watched it.
    pub watched: BTreeMap<Name, bool>,
    /// Whether a watched key may have changed. A thread that changes or removes a watched key sets this flag,
    /// and `EXEC` sets it if a watched key has expired.
    pub watched_changed: Arc<AtomicBool>,
    /// Subscribed channels, patterns, and shard channels.
    pub listens: [BTreeSet<Vec<u8>>; 3],
    /// Which of the client's commands get a reply.
    pub replies: Replies,
    /// Whether to close the connection when all output was sent.
    pub closing: bool,
    /// Whether replies use RESP3.
    pub resp3: bool,
    /// Whether the script that the present command has run has already counted the error in the reply.
    pub error_is_counted: bool,
    /// Whether this is the session of the link to the master that this server follows.
    pub is_master: bool,
    /// Whether this is the session of a script, which runs commands.
    pub is_script: bool,
    /// Whether the client uses `MONITOR`.
    pub monitors: bool,
    /// Whether the client is exempt from `maxmemory-clients`.
    pub never_evicted: bool,
    /// Whether the client's commands, except `TOUCH`, do not record that they use keys (`CLIENT NO-TOUCH`).
    pub touches_nothing: bool,
    /// Whether memory was short and no key could be evicted when the memory was last checked for this client.
    pub out_of_memory: bool,
    /// The tracking options, if the client tracks keys.
    pub tracking: Option<TrackingOptions>,
    /// Whether `CLIENT CACHING` applies to the client's next reads.
    pub caching: bool,
    /// The name of the last command that was queued or run; `NULL` before the first one.
    pub last_command: &'static str,
    /// Bytes of input without a reply, when the thread last began to run the client's commands or last sent
    /// output.
    pub input: usize,
    /// Bytes of output still to send, when the thread last began to run the client's commands or last sent
    /// output.
    pub output: usize,
    /// Whether the present command is a blocked command that runs again.
    pub resumes: bool,
}

/// Options of `CLIENT TRACKING`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TrackingOptions {
    /// The id of the client that gets the invalidation messages instead of the tracking client.
    pub redirect: Option<u64>,
    /// Whether the client gets messages about all keys with certain prefixes, whether or not it has read
    /// them.
    pub broadcast: bool,
    /// The reads after which the client may have copies of the keys.
    pub reads: Reads,
    /// Whether the client gets no messages about its own changes.
    pub no_loop: bool,
}

/// The reads after which a client may have copies of the keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reads {
    /// All reads may leave copies.
    #[default]
    All,
    /// Only reads of the command or transaction that follows `CLIENT CACHING YES` may leave copies.
    OptIn,
    /// All reads may leave copies, except those of the command or transaction that follows `CLIENT CACHING
    /// NO`.
    OptOut,
}

/// Commands that wait for `EXEC`.
#[derive(Debug, Default)]
pub struct Multi {
    /// The words of each queued command.
    pub queue: Vec<Vec<Vec<u8>>>,
    /// Bytes of the words of all queued commands.
    pub bytes: usize,
    /// Whether a command was refused, so that `EXEC` fails.
    pub refused: bool,
}

/// Which commands of a client get a reply (`CLIENT REPLY`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Replies {
    /// All commands get a reply.
    #[default]
    On,
    /// No command gets a reply.
    Off,
    /// All commands except the next one get a reply.
    SkipNext,
    /// All commands except the present one get a reply.
    Skip,
}

impl Session {
    /// Makes the session of a new client.
    pub fn new(profile: Arc<Profile>, authenticated: bool) -> Session {
        Session { id: profile.id, profile, authenticated, last_command: "NULL", ..Session::default() }
    }

    /// Copies the state that other threads may read to the client's profile.
    pub fn publish(&self) {
        let mut state = self.profile.state.lock();
        state.db = self.db;
        state.listens = self.listens.each_ref().map(BTreeSet::len);
        state.queued = self.multi.as_ref().map(|multi| (multi.queue.len(), multi.bytes));
        state.flags.clear();
        let flags = [
            ('O', self.monitors),
            ('P', self.subscriptions() > 0),
            ('x', self.multi.is_some()),
            ('t', self.tracking.is_some()),
            ('B', self.tracking.is_some_and(|options| options.broadcast)),
            ('d', self.watched_changed.load(SeqCst)),
            ('c', self.closing),
            ('e', self.never_evicted),
            ('T', self.touches_nothing),
        ];
        state.flags.extend(flags.into_iter().filter(|(_, is_so)| *is_so).map(|(letter, _)| letter));
        (state.input, state.output) = (self.input, self.output);
        state.command = self.last_command;
        state.resp3 = self.resp3;
        state.redirects_to = self.redirects_to();
    }

    /// Returns whether the client still wants a message of a channel or of `MONITOR`. The message may have
    /// come after the client unsubscribed or ended `MONITOR`. Other messages are always wanted.
    pub fn still_wants(&self, message: &[u8]) -> bool {
        if message.starts_with(b"+") {
            return self.monitors;
        }
        let mut rest = message.split_inclusive(|&byte| byte == b'\n').map(<[u8]>::len).take(4);
        let [Some(head), Some(len), Some(kind), Some(name_len)] = [(); 4].map(|()| rest.next()) else {
            return true;
        };
        let (kind_at, name_at) = (head + len, head + len + kind + name_len);
        let digits = message[kind_at + kind..name_at].trim_ascii();
        let name_len = words::int(digits.strip_prefix(b"$").unwrap_or_default());
        let name = name_len.and_then(|len| message.get(name_at..name_at + usize::try_from(len).ok()?));
        match (message[kind_at..kind_at + kind].trim_ascii(), name) {
            (b"message", Some(channel)) => self.listens[SubscriptionKind::Channel as usize].contains(channel),
            (b"smessage", Some(channel)) => self.listens[SubscriptionKind::Shard as usize].contains(channel),
            (b"pmessage", Some(pattern)) => {
                self.listens[SubscriptionKind::Pattern as usize].contains(pattern)
            }
            _ => true,
        }
    }

    /// Returns the number of subscriptions of all kinds.
    pub fn subscriptions(&self) -> usize {
        self.listens.iter().map(BTreeSet::len).sum()
    }

    /// Returns the subscriptions of a kind.
    pub fn listens_to(&mut self, kind: SubscriptionKind) -> &mut BTreeSet<Vec<u8>> {
        &mut self.listens[kind as usize]
    }

    /// Returns the id of the client that gets this client's tracking messages; 0 if this client gets them
    /// itself; -1 if it does not track keys.
    pub fn redirects_to(&self) -> i64 {
        self.tracking.map_or(-1, |options| options.redirect.unwrap_or(0) as i64)
    }

    /// Returns whether the keys that the client reads now have to be recorded, because the client may keep
    /// copies. For a client in broadcast mode, reads are not recorded.
    pub fn keeps_copies(&self) -> bool {
        self.tracking.is_some_and(|options| {
            !options.broadcast
                && match options.reads {
                    Reads::All => true,
                    Reads::OptIn => self.caching,
                    Reads::OptOut => !self.caching,
                }
        })
    }

    /// Returns whether the client may only subscribe, unsubscribe, and send `PING`, `QUIT` and `RESET`: RESP2
    /// allows nothing else during a subscription.
    pub fn only_listens(&self) -> bool {
        !self.resp3 && self.subscriptions() > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::pubsub::encode_push;

    #[test]
    fn what_is_not_wanted_any_more() {
        let mut session = Session::new(Profile::nobody().into(), true);
        session.listens[SubscriptionKind::Channel as usize].insert(b"news\r\n".to_vec());
        session.listens[SubscriptionKind::Pattern as usize].insert(b"n*".to_vec());
        for (parts, is_there) in [
            (&[&b"message"[..], b"news\r\n", b"x"][..], true),
            (&[b"message", b"news", b"x"], false),
            (&[b"message", b"n*", b"x"], false),
            (&[b"pmessage", b"n*", b"news", b"x"], true),
            (&[b"pmessage", b"news\r\n", b"news", b"x"], false),
            (&[b"invalidate", b"key"], true),
        ] {
            assert_eq!(session.still_wants(&encode_push(parts)), is_there, "{parts:?}");
        }
        assert!(!session.still_wants(b"+a line\r\n"));
        session.monitors = true;
        assert!(session.still_wants(b"+a line\r\n"));
    }
}
