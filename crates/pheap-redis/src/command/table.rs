//! The table of commands.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::{Args, Cx, Done, Fail};
use crate::resp::Reply;
use crate::words::lossy;

/// What a command is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flags(u32);

macro_rules! flags {
    ($($(#[$doc:meta])* $name:ident = $bit:literal, $text:literal;)*) => {
        impl Flags {
            $($(#[$doc])* pub const $name: Flags = Flags(1 << $bit);)*

            /// Their names, as `COMMAND` tells them.
            pub fn names(self) -> impl Iterator<Item = &'static str> {
                [$((Flags::$name, $text)),*].into_iter().filter(move |(flag, _)| self.has(*flag)).map(|(_, name)| name)
            }
        }
    };
}

flags! {
    /// It may change something.
    WRITE = 0, "write";
    /// It only looks.
    READONLY = 1, "readonly";
    /// It may need more memory.
    DENYOOM = 2, "denyoom";
    /// It is for administrators.
    ADMIN = 3, "admin";
    /// It is about channels.
    PUBSUB = 4, "pubsub";
    /// Scripts may not call it.
    NOSCRIPT = 5, "noscript";
    /// It may wait for a key.
    BLOCKING = 6, "blocking";
    /// It is answered while data are being loaded.
    LOADING = 7, "loading";
    /// It is answered by a replica that has lost its master.
    STALE = 8, "stale";
    /// `MONITOR` does not show it.
    SKIP_MONITOR = 9, "skip_monitor";
    /// `SLOWLOG` does not show it.
    SKIP_SLOWLOG = 10, "skip_slowlog";
    /// It takes constant or logarithmic time.
    FAST = 11, "fast";
    /// It needs no authentication.
    NO_AUTH = 12, "no_auth";
    /// It may be replicated although it only looks.
    MAY_REPLICATE = 13, "may_replicate";
    /// Transactions may not contain it.
    NO_MULTI = 14, "no_multi";
    /// Its keys cannot be told from its first arguments.
    MOVABLE_KEYS = 15, "movablekeys";
    /// It may be run asynchronously with regard to replicas.
    NO_ASYNC_LOADING = 16, "no_async_loading";
    /// It may be called while a script is busy.
    ALLOW_BUSY = 17, "allow_busy";
}

impl Flags {
    /// None of them.
    pub const NONE: Flags = Flags(0);

    /// These, too.
    pub const fn and(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// Whether one of these is among them.
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }
}

/// What a command is about. It is an ACL category, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// Bits of strings.
    Bitmap,
    /// Connections.
    Connection,
    /// Whatever a key stands for.
    Generic,
    /// Places.
    Geo,
    /// Hashes.
    Hash,
    /// HyperLogLogs.
    HyperLogLog,
    /// Lists.
    List,
    /// Channels.
    PubSub,
    /// Scripts.
    Scripting,
    /// The server.
    Server,
    /// Sets.
    Set,
    /// Sorted sets.
    SortedSet,
    /// Streams.
    Stream,
    /// Strings.
    String,
    /// Transactions.
    Transactions,
}

impl Group {
    /// Its name, as `COMMAND DOCS` and ACLs have it.
    pub fn name(self) -> &'static str {
        match self {
            Group::Bitmap => "bitmap",
            Group::Connection => "connection",
            Group::Generic => "generic",
            Group::Geo => "geo",
            Group::Hash => "hash",
            Group::HyperLogLog => "hyperloglog",
            Group::List => "list",
            Group::PubSub => "pubsub",
            Group::Scripting => "scripting",
            Group::Server => "server",
            Group::Set => "set",
            Group::SortedSet => "sorted-set",
            Group::Stream => "stream",
            Group::String => "string",
            Group::Transactions => "transactions",
        }
    }
}

/// Which keys a command touches.
#[derive(Clone, Copy)]
pub enum Keys {
    /// None, and no shard.
    None,
    /// Those arguments: the first, the last (from the end, if negative), and how far they are apart.
    Range(i32, i32, i32),
    /// Where they are is said by a function, which adds the arguments' numbers. It gets arguments as many as the command's arity asks for, and may add none if they make no sense.
    Find(fn(&Args<'_>, &mut Vec<usize>)),
    /// Any, in all databases: it looks at all shards.
    Everything,
    /// Any of one shard, which a function tells from the arguments and the number of shards.
    Shard(fn(&Args<'_>, usize) -> usize),
}

/// A command.
pub struct Command {
    /// Its name, in small letters. A subcommand's is that of both, with a `|` between.
    pub name: &'static str,
    /// Number of arguments, the name included. At least so many, if it is negative.
    pub arity: i32,
    /// What it is like.
    pub flags: Flags,
    /// Which keys it touches.
    pub keys: Keys,
    /// What it does. One with subcommands does nothing.
    pub run: Run,
}

/// What a command does.
#[derive(Clone, Copy)]
pub enum Run {
    /// This.
    With(fn(&mut Cx<'_>, &Args<'_>, &mut Reply) -> Done),
    /// What its subcommand does.
    Sub(&'static [Command]),
}

impl Command {
    /// A command.
    pub const fn new(
        name: &'static str,
        arity: i32,
        flags: &[Flags],
        keys: Keys,
        run: fn(&mut Cx<'_>, &Args<'_>, &mut Reply) -> Done,
    ) -> Command {
        Command { name, arity, flags: union(flags), keys, run: Run::With(run) }
    }

    /// A command that has subcommands.
    pub const fn with_subcommands(
        name: &'static str,
        flags: &[Flags],
        subcommands: &'static [Command],
    ) -> Command {
        Command { name, arity: -2, flags: union(flags), keys: Keys::None, run: Run::Sub(subcommands) }
    }

    /// Whether it may have so many arguments, its name included.
    pub fn takes(&self, arguments: usize) -> bool {
        let arity = self.arity.unsigned_abs() as usize;
        if self.arity < 0 { arguments >= arity } else { arguments == arity }
    }

    /// The numbers of those of its arguments that are keys.
    pub fn keys(&self, args: &Args<'_>) -> Vec<usize> {
        match self.keys {
            Keys::None | Keys::Everything | Keys::Shard(_) => Vec::new(),
            Keys::Range(first, last, step) => {
                let last = if last < 0 { args.len() as i32 + last } else { last };
                (first..=last)
                    .step_by(step as usize)
                    .map(|at| at as usize)
                    .filter(|&at| at < args.len())
                    .collect()
            }
            Keys::Find(find) => {
                let mut keys = Vec::new();
                find(args, &mut keys);
                keys.retain(|&at| at < args.len());
                keys
            }
        }
    }

    /// Its subcommands.
    pub fn subcommands(&self) -> &'static [Command] {
        match self.run {
            Run::Sub(subcommands) => subcommands,
            Run::With(_) => &[],
        }
    }
}

const fn union(flags: &[Flags]) -> Flags {
    let (mut all, mut i) = (Flags::NONE, 0);
    while i < flags.len() {
        all = all.and(flags[i]);
        i += 1;
    }
    all
}

/// All families.
const FAMILIES: &[(Group, &[Command])] = &[
    (Group::Bitmap, super::bitfield::COMMANDS),
    (Group::Bitmap, super::bits::COMMANDS),
    (Group::Connection, super::connection::COMMANDS),
    (Group::Connection, super::server::CLIENT),
    (Group::Generic, super::keys::COMMANDS),
    (Group::HyperLogLog, super::hyperloglog::COMMANDS),
    (Group::List, super::lists::COMMANDS),
    (Group::List, super::lists_inside::COMMANDS),
    (Group::List, super::lists_waiting::COMMANDS),
    (Group::PubSub, super::pubsub::COMMANDS),
    (Group::Server, super::server::COMMANDS),
    (Group::String, super::lcs::COMMANDS),
    (Group::String, super::strings::COMMANDS),
    (Group::Transactions, super::connection::TRANSACTIONS),
];

/// All commands, and what they are about.
pub fn all() -> impl Iterator<Item = (Group, &'static Command)> {
    FAMILIES.iter().flat_map(|(group, commands)| commands.iter().map(|command| (*group, command)))
}

static BY_NAME: LazyLock<HashMap<&'static str, (Group, &'static Command)>> =
    LazyLock::new(|| all().map(|(group, command)| (command.name, (group, command))).collect());

/// The command of this name, whatever its letters' case.
pub fn lookup(name: &[u8]) -> Option<(Group, &'static Command)> {
    let mut lower = [0; 32];
    let lower = lower.get_mut(..name.len())?;
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    BY_NAME.get(std::str::from_utf8(lower).ok()?).copied()
}

/// The command that a request means, with as many arguments as it takes; or why there is none.
pub fn resolve(words: &Args<'_>) -> Result<&'static Command, String> {
    let reason = |fail: Fail| match fail {
        Fail::Error(text) => text.into_owned(),
        other => format!("{other:?}"),
    };
    let Some((_, command)) = lookup(words[0]) else {
        let shown = |word: &[u8]| lossy(&word[..word.len().min(128)]).into_owned();
        let mut arguments = String::new();
        for word in &words[1..] {
            if arguments.len() >= 128 {
                break;
            }
            arguments.push_str(&format!("'{}' ", shown(word)));
        }
        return Err(format!(
            "ERR unknown command '{}', with args beginning with: {arguments}",
            shown(words[0])
        ));
    };
    if !command.takes(words.len()) {
        return Err(reason(Fail::arity(command.name)));
    }
    let Run::Sub(subcommands) = command.run else { return Ok(command) };
    let name = |sub: &Command| {
        sub.name.rsplit('|').next().is_some_and(|name| name.as_bytes().eq_ignore_ascii_case(words[1]))
    };
    let Some(command) = subcommands.iter().find(|sub| name(sub)) else {
        return Err(reason(Fail::no_subcommand(words[1], command.name)));
    };
    if !command.takes(words.len()) {
        return Err(reason(Fail::arity(command.name)));
    }
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order() {
        assert_eq!(all().count(), BY_NAME.len(), "a name is there twice");
        for (_, command) in all() {
            assert!(command.name.len() <= 32 && command.name.to_lowercase() == command.name);
            for sub in command.subcommands() {
                assert!(sub.name.starts_with(&format!("{}|", command.name)), "{}", sub.name);
            }
        }
        assert!(lookup(b"GeT").is_some() && lookup(b"nothing").is_none() && lookup(&[b'x'; 99]).is_none());
    }
}
