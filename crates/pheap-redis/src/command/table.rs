//! The table of commands.

use std::collections::HashMap;
use std::sync::LazyLock;

use smallvec::SmallVec;

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
    /// Other servers of a cluster may call it while a slot moves here.
    ASKING = 18, "asking";
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
    /// As [`Find`](Keys::Find) says, or any key at all, which another function tells from the arguments.
    Perhaps {
        /// Adds the numbers of the arguments that are keys.
        keys: fn(&Args<'_>, &mut Vec<usize>),
        /// Whether it may touch others.
        everything: fn(&Args<'_>) -> bool,
    },
    /// Any, in all databases: it looks at all shards.
    Everything,
    /// All that is in the heap: shards, libraries of functions, and how far a master was followed.
    Heap,
    /// Those of a script: their number is the third argument. It may touch others, too.
    Script,
    /// Any of the shards from one on, which a function tells from the arguments and the number of shards. The
    /// command begins with that one, and asks for all if it needs more ([`Fail::MoreShards`]).
    From(fn(&Args<'_>, usize) -> usize),
    /// The libraries of functions, which are behind all shards with keys.
    Libraries,
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
    /// This, if there is no subcommand.
    SubOr(fn(&mut Cx<'_>, &Args<'_>, &mut Reply) -> Done, &'static [Command]),
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

    /// A command that has subcommands, and does something without one.
    pub const fn with_subcommands_or(
        name: &'static str,
        flags: &[Flags],
        run: fn(&mut Cx<'_>, &Args<'_>, &mut Reply) -> Done,
        subcommands: &'static [Command],
    ) -> Command {
        Command { name, arity: -1, flags: union(flags), keys: Keys::None, run: Run::SubOr(run, subcommands) }
    }

    /// Whether it may have so many arguments, its name included.
    pub fn takes(&self, arguments: usize) -> bool {
        let arity = self.arity.unsigned_abs() as usize;
        if self.arity < 0 { arguments >= arity } else { arguments == arity }
    }

    /// Whether it changes nothing. Those that may be replicated remember something in what they look at.
    pub fn only_looks(&self) -> bool {
        self.flags.has(Flags::READONLY) && !self.flags.has(Flags::MAY_REPLICATE)
    }

    /// Whether it may change what is in the heap. What a read-only script calls may remember something in what it looks at.
    pub fn may_write(&self) -> bool {
        self.flags.has(Flags::WRITE.and(Flags::MAY_REPLICATE))
            || matches!(self.keys, Keys::Script | Keys::Heap)
    }

    /// The keys that it may touch. None if those are not all.
    pub fn all_keys<'w>(&self, args: &Args<'w>) -> Option<SmallVec<[&'w [u8]; 1]>> {
        match self.keys {
            Keys::Everything | Keys::Heap | Keys::From(_) | Keys::Libraries | Keys::Script => None,
            Keys::Perhaps { everything, .. } if everything(args) => None,
            Keys::Range(1, 1, _) => Some(SmallVec::from_slice(&[args[1]])),
            _ => Some(self.keys(args).into_iter().map(|at| args[at]).collect()),
        }
    }

    /// The numbers of those of its arguments that are keys.
    pub fn keys(&self, args: &Args<'_>) -> Vec<usize> {
        match self.keys {
            Keys::None | Keys::Everything | Keys::Heap | Keys::From(_) | Keys::Libraries => Vec::new(),
            Keys::Range(first, last, step) => {
                let last = if last < 0 { args.len() as i32 + last } else { last };
                (first..=last)
                    .step_by(step as usize)
                    .map(|at| at as usize)
                    .filter(|&at| at < args.len())
                    .collect()
            }
            Keys::Script => {
                let number = args.get(2).and_then(|number| crate::words::int(number)).unwrap_or(0);
                let number = usize::try_from(number).unwrap_or(0);
                if number > args.len() - 3 { Vec::new() } else { (3..3 + number).collect() }
            }
            Keys::Find(find) | Keys::Perhaps { keys: find, .. } => {
                let mut keys = Vec::new();
                find(args, &mut keys);
                keys.retain(|&at| at < args.len());
                keys
            }
        }
    }

    /// Calls `f` with those of its arguments that are keys, if it uses these: not if it only looks what they are.
    pub fn touch(&self, args: &Args<'_>, mut f: impl FnMut(&[u8])) {
        match self.keys {
            Keys::Script => {} // its commands do
            _ if ONLY_LOOK.contains(&self.name) => {}
            Keys::Range(1, 1, _) => f(args[1]),
            _ => self.keys(args).into_iter().for_each(|at| f(args[at])),
        }
    }

    /// Its subcommands.
    pub fn subcommands(&self) -> &'static [Command] {
        match self.run {
            Run::Sub(subcommands) | Run::SubOr(_, subcommands) => subcommands,
            Run::With(_) => &[],
        }
    }
}

/// Commands that look at keys without using them.
const ONLY_LOOK: &[&str] = &[
    "exists",
    "expiretime",
    "memory|usage",
    "object|encoding",
    "object|freq",
    "object|idletime",
    "object|refcount",
    "pexpiretime",
    "pttl",
    "ttl",
    "type",
    "unwatch",
    "watch",
];

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
    (Group::Connection, super::clients::COMMANDS),
    (Group::Generic, super::dump::COMMANDS),
    (Group::Server, super::dump::OF_SERVERS),
    (Group::Generic, super::expiry::COMMANDS),
    (Group::Generic, super::keys::COMMANDS),
    (Group::Generic, super::migrate::COMMANDS),
    (Group::Generic, super::moving::COMMANDS),
    (Group::Generic, super::scan::COMMANDS),
    (Group::Generic, super::sort::COMMANDS),
    (Group::Server, super::debug::COMMANDS),
    (Group::Server, super::object::COMMANDS),
    (Group::Server, super::replication::COMMANDS),
    (Group::Geo, super::geo::COMMANDS),
    (Group::Geo, super::geo_search::COMMANDS),
    (Group::Hash, super::hashes::COMMANDS),
    (Group::HyperLogLog, super::hyperloglog::COMMANDS),
    (Group::List, super::lists::COMMANDS),
    (Group::Server, super::slow::COMMANDS),
    (Group::List, super::lists_inside::COMMANDS),
    (Group::List, super::lists_waiting::COMMANDS),
    (Group::PubSub, super::pubsub::COMMANDS),
    (Group::Server, super::info::COMMANDS),
    (Group::Server, super::introspect::COMMANDS),
    (Group::Scripting, super::functions::COMMANDS),
    (Group::Scripting, super::scripts::COMMANDS),
    (Group::Server, super::server::COMMANDS),
    (Group::Set, super::sets::COMMANDS),
    (Group::Set, super::set_algebra::COMMANDS),
    (Group::SortedSet, super::sorted_algebra::COMMANDS),
    (Group::SortedSet, super::sorted_pops::COMMANDS),
    (Group::SortedSet, super::sorted_ranges::COMMANDS),
    (Group::SortedSet, super::sorted_sets::COMMANDS),
    (Group::Stream, super::streams::COMMANDS),
    (Group::Stream, super::stream_claims::COMMANDS),
    (Group::Stream, super::stream_groups::COMMANDS),
    (Group::Stream, super::stream_info::COMMANDS),
    (Group::Stream, super::stream_reads::COMMANDS),
    (Group::String, super::lcs::COMMANDS),
    (Group::String, super::strings::COMMANDS),
    (Group::Transactions, super::connection::TRANSACTIONS),
];

/// A command that is in the table: what it is, what it is about, and its number, which counts subcommands, too.
#[derive(Clone, Copy)]
pub struct Known {
    /// The command.
    pub command: &'static Command,
    /// What it is about.
    pub group: Group,
    /// Its number.
    pub number: usize,
}

impl std::ops::Deref for Known {
    type Target = Command;

    fn deref(&self) -> &Command {
        self.command
    }
}

static ALL: LazyLock<Vec<Known>> = LazyLock::new(|| {
    let mut all = Vec::new();
    for (group, commands) in FAMILIES {
        for command in
            commands.iter().flat_map(|command| std::iter::once(command).chain(command.subcommands()))
        {
            all.push(Known { command, group: *group, number: all.len() });
        }
    }
    all
});

/// All commands, and their subcommands.
pub fn all() -> impl Iterator<Item = Known> {
    ALL.iter().copied()
}

/// Those that are no subcommands.
pub fn top() -> impl Iterator<Item = Known> {
    all().filter(|known| !known.name.contains('|'))
}

static BY_NAME: LazyLock<HashMap<&'static str, Known>> =
    LazyLock::new(|| all().map(|known| (known.name, known)).collect());

/// The command of this name, whatever its letters' case. That of a subcommand has a `|` in it.
pub fn lookup(name: &[u8]) -> Option<Known> {
    let mut lower = [0; 32];
    let lower = lower.get_mut(..name.len())?;
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    BY_NAME.get(std::str::from_utf8(lower).ok()?).copied()
}

/// Why a request is no command.
#[derive(Debug)]
pub struct Refused {
    /// What the client is told.
    pub error: String,
    /// The number of the command that it would have been.
    pub number: Option<usize>,
}

/// The command that a request means, with as many arguments as it takes; or why there is none.
pub fn resolve(words: &Args<'_>) -> Result<Known, Refused> {
    let refused = |fail: Fail, number| {
        let error = match fail {
            Fail::Error(text) => text.into_owned(),
            other => format!("{other:?}"),
        };
        Err(Refused { error, number })
    };
    let Some(known) = lookup(words[0]).filter(|known| !known.name.contains('|')) else {
        // As C prints it: up to a byte that is 0.
        let shown = |word: &[u8], most: usize| {
            let word = &word[..word.len().min(most)];
            lossy(word.split(|&byte| byte == 0).next().unwrap_or_default()).into_owned()
        };
        let mut arguments = String::new();
        for word in &words[1..] {
            if arguments.len() >= 128 {
                break;
            }
            arguments.push_str(&format!("'{}' ", shown(word, 128 - arguments.len())));
        }
        let name = shown(words[0], 128);
        let error = format!("ERR unknown command '{name}', with args beginning with: {arguments}");
        return Err(Refused { error, number: None });
    };
    if !known.takes(words.len()) {
        return refused(Fail::arity(known.name), Some(known.number));
    }
    let subcommands = match known.run {
        Run::With(_) => return Ok(known),
        Run::SubOr(..) if words.len() == 1 => return Ok(known),
        Run::Sub(subcommands) | Run::SubOr(_, subcommands) => subcommands,
    };
    let name = |sub: &Command| {
        sub.name.rsplit('|').next().is_some_and(|name| name.as_bytes().eq_ignore_ascii_case(words[1]))
    };
    // The numbers of subcommands follow that of their command.
    let Some(index) = subcommands.iter().position(name) else {
        return refused(Fail::no_subcommand(words[1], known.name), None);
    };
    let known = ALL[known.number + 1 + index];
    if !known.takes(words.len()) {
        return refused(Fail::arity(known.name), Some(known.number));
    }
    Ok(known)
}

/// `HELP` of a command that has subcommands.
pub(super) fn tell_subcommands(args: &Args<'_>, out: &mut Reply) -> Done {
    let subcommands = lookup(args[0]).map_or(&[][..], |known| known.command.subcommands());
    let name = lossy(args[0]).to_uppercase();
    out.array(subcommands.len() + 1);
    out.simple(&format!("{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    for sub in subcommands {
        let name = sub.name.rsplit('|').next().unwrap_or_default().to_uppercase();
        out.simple(&name);
    }
    Ok(())
}

/// A subcommand that tells which subcommands there are.
macro_rules! help {
    ($name:literal) => {
        crate::command::Command::new(
            $name,
            2,
            &[crate::command::Flags::LOADING, crate::command::Flags::STALE],
            crate::command::Keys::None,
            |_, args, out| crate::command::table::tell_subcommands(args, out),
        )
    };
}
pub(super) use help;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order() {
        assert_eq!(all().count(), BY_NAME.len(), "a name is there twice");
        for command in all() {
            assert!(command.name.len() <= 32 && command.name.to_lowercase() == command.name);
            for sub in command.subcommands() {
                assert!(sub.name.starts_with(&format!("{}|", command.name)), "{}", sub.name);
            }
        }
        assert!(lookup(b"GeT").is_some() && lookup(b"nothing").is_none() && lookup(&[b'x'; 99]).is_none());
    }
}
