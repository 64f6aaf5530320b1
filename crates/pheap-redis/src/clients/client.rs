//! What a client has: its database, its transaction, what it watches and listens to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;

use crate::clients::Profile;
use crate::clients::pubsub::Kind;
use crate::text::words;

/// A database, and a key in it.
pub type Name = (usize, Vec<u8>);

/// A client, as commands see it.
#[derive(Debug, Default)]
pub struct Session {
    /// Its number. No other client of this server has had it.
    pub id: u64,
    /// The database that its commands are about.
    pub db: usize,
    /// What others may know of it.
    pub profile: Arc<Profile>,
    /// Whether it may do more than say who it is.
    pub authenticated: bool,
    /// Commands that wait for `EXEC`.
    pub multi: Option<Multi>,
    /// Keys that `EXEC` depends on, and whether their time had come before.
    pub watched: BTreeMap<Name, bool>,
    /// Whether one of them was written to.
    pub watched_changed: Arc<AtomicBool>,
    /// Channels, patterns of such, and channels of shards that it listens to.
    pub listens: [BTreeSet<Vec<u8>>; 3],
    /// Which of its commands are answered.
    pub replies: Replies,
    /// Whether its connection is closed when everything was sent.
    pub closing: bool,
    /// Whether replies are RESP3.
    pub resp3: bool,
    /// The error that its command has given was counted already.
    pub error_is_counted: bool,
    /// Whether it is the master that this server follows.
    pub is_master: bool,
    /// Whether it is a script that runs commands.
    pub is_script: bool,
    /// Whether it watches all commands.
    pub monitors: bool,
    /// Whether it is spared when clients need too much memory.
    pub never_evicted: bool,
    /// Its commands are no use of a key that counts.
    pub touches_nothing: bool,
    /// There was no memory for its command when that began.
    pub out_of_memory: bool,
    /// How it is told of changes to keys that it has read, if it is.
    pub tracking: Option<Options>,
    /// It has said `CLIENT CACHING` about what it reads next.
    pub caching: bool,
    /// Its last command.
    pub last_command: &'static str,
    /// Bytes of what it has sent that were not answered when its commands began to run.
    pub input: usize,
    /// Bytes that were to be sent to it then.
    pub output: usize,
    /// Whether a command is run again that has waited for a key. It waits on if the key has another type than it is for.
    pub resumes: bool,
}

/// How a client wants to be told of keys that it may have copies of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// Another client gets the messages.
    pub redirect: Option<u64>,
    /// It is told of all keys that begin with one of its prefixes, whether it has read them or not.
    pub broadcast: bool,
    /// Which of its reads count.
    pub reads: Reads,
    /// It is not told of what it has changed itself.
    pub no_loop: bool,
}

/// Which reads of a client count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reads {
    /// All.
    #[default]
    All,
    /// Those after `CLIENT CACHING YES`.
    OptIn,
    /// All but those after `CLIENT CACHING NO`.
    OptOut,
}

/// Commands that wait for `EXEC`.
#[derive(Debug, Default)]
pub struct Multi {
    /// Their arguments.
    pub queue: Vec<Vec<Vec<u8>>>,
    /// Bytes of these.
    pub bytes: usize,
    /// One of them was refused, so `EXEC` will be.
    pub refused: bool,
}

/// Which commands are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Replies {
    /// All.
    #[default]
    On,
    /// None.
    Off,
    /// Not the next one.
    SkipNext,
    /// Not this one, but those after it.
    Skip,
}

impl Session {
    /// One that has done nothing yet.
    pub fn new(profile: Arc<Profile>, authenticated: bool) -> Session {
        Session { id: profile.id, profile, authenticated, last_command: "NULL", ..Session::default() }
    }

    /// Lets others know what it does.
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

    /// Whether it still wants what others have sent it: that may have come later than it has left a channel, or `MONITOR`.
    pub fn wants(&self, message: &[u8]) -> bool {
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
            (b"message", Some(channel)) => self.listens[Kind::Channel as usize].contains(channel),
            (b"smessage", Some(channel)) => self.listens[Kind::Shard as usize].contains(channel),
            (b"pmessage", Some(pattern)) => self.listens[Kind::Pattern as usize].contains(pattern),
            _ => true,
        }
    }

    /// How much it listens to.
    pub fn subscriptions(&self) -> usize {
        self.listens.iter().map(BTreeSet::len).sum()
    }

    /// What it listens to of this kind.
    pub fn listens_to(&mut self, kind: Kind) -> &mut BTreeSet<Vec<u8>> {
        &mut self.listens[kind as usize]
    }

    /// Who gets the messages about keys that it has read: -1 if it wants none, 0 itself, or another client.
    pub fn redirects_to(&self) -> i64 {
        self.tracking.map_or(-1, |options| options.redirect.unwrap_or(0) as i64)
    }

    /// Whether it is told of changes to what it reads now.
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

    /// Whether it may do nothing but listen: so it is in RESP2 while it listens.
    pub fn only_listens(&self) -> bool {
        !self.resp3 && self.subscriptions() > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::Reply;

    fn push(resp3: bool, parts: &[&[u8]]) -> Vec<u8> {
        let mut reply = Reply::new(resp3);
        reply.push(parts.len());
        parts.iter().for_each(|part| reply.bulk(part));
        reply.take()
    }

    #[test]
    fn what_is_not_wanted_any_more() {
        let mut session = Session::new(Profile::nobody().into(), true);
        for resp3 in [false, true] {
            session.listens[Kind::Channel as usize].insert(b"news\r\n".to_vec());
            session.listens[Kind::Pattern as usize].insert(b"n*".to_vec());
            for (parts, is_there) in [
                (&[&b"message"[..], b"news\r\n", b"x"][..], true),
                (&[b"message", b"news", b"x"], false),
                (&[b"message", b"n*", b"x"], false),
                (&[b"pmessage", b"n*", b"news", b"x"], true),
                (&[b"pmessage", b"news\r\n", b"news", b"x"], false),
                (&[b"invalidate", b"key"], true),
            ] {
                assert_eq!(session.wants(&push(resp3, parts)), is_there, "{parts:?}");
            }
        }
        assert!(!session.wants(b"+a line\r\n"));
        session.monitors = true;
        assert!(session.wants(b"+a line\r\n"));
    }
}
