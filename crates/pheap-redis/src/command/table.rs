//! The table of commands.

use std::collections::HashMap;
use std::sync::LazyLock;

use smallvec::SmallVec;

use super::args::counted_keys;
use super::{Args, Cx, Done, Fail};
use crate::resp::Reply;
use crate::text::words::lossy;

/// What a command is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flags(u32);

macro_rules! flags {
    ($($(#[$doc:meta])* $name:ident = $bit:literal, $text:literal;)*) => {
        impl Flags {
            $($(#[$doc])* pub const $name: Flags = Flags(1 << $bit);)*

            /// Their names, as `COMMAND` tells them.
            pub fn names(self) -> impl Iterator<Item = &'static str> {
                [$((Flags::$name, $text)),*].into_iter().filter(move |(flag, name)| self.has(*flag) && !name.is_empty()).map(|(_, name)| name)
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
    /// It is confirmed by messages, and not by a reply.
    UNASKED = 19, "";
    /// A client in RESP2 may call it while it listens to channels.
    LISTENING = 20, "";
    /// It is not queued after `MULTI`.
    AT_ONCE = 21, "";
    /// The same, and it ends what `MULTI` has begun.
    ENDS_MULTI = 22, "";
    /// It only looks what its keys are, which is no use of them.
    GLANCE = 23, "";
}

/// It only looks.
pub(super) const READ: Flags = Flags::READONLY;
/// It only looks, and that does not take long.
pub(super) const READ_FAST: Flags = READ.and(Flags::FAST);
/// The same, and it is no use of its keys.
pub(super) const GLANCE_FAST: Flags = READ_FAST.and(Flags::GLANCE);
/// It changes something, and needs no more memory.
pub(super) const WRITE: Flags = Flags::WRITE;
/// The same, and that does not take long.
pub(super) const WRITE_FAST: Flags = WRITE.and(Flags::FAST);
/// It changes something, and may need more memory.
pub(super) const ADD: Flags = WRITE.and(Flags::DENYOOM);
/// The same, and that does not take long.
pub(super) const ADD_FAST: Flags = ADD.and(Flags::FAST);
/// It tells of the server, or of the connection.
pub(super) const LOOK: Flags = Flags::LOADING.and(Flags::STALE);
/// It is for administrators.
pub(super) const ADMIN: Flags = LOOK.and(Flags::ADMIN).and(Flags::NOSCRIPT);

/// The same, though not while data are being loaded, nor by a replica that has lost its master.
pub(super) const MANAGE: Flags = Flags::ADMIN.and(Flags::NOSCRIPT);
/// The first argument.
pub(super) const KEY: Keys = Keys::Range(1, 1, 1);
/// The first argument of a subcommand.
pub(super) const SUBKEY: Keys = Keys::Range(2, 2, 1);
/// The first two arguments.
pub(super) const TWO_KEYS: Keys = Keys::Range(1, 2, 1);
/// All arguments.
pub(super) const ALL_KEYS: Keys = Keys::Range(1, -1, 1);
/// As many as the first argument says, behind it.
pub(super) const COUNTED: Keys = Keys::Find(|args, keys| counted_keys(args, 1, keys));
/// The same, with another argument before.
pub(super) const COUNTED_BEHIND_ONE: Keys = Keys::Find(|args, keys| counted_keys(args, 2, keys));

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

macro_rules! groups {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        /// What a command is about. It is an ACL category, too.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Group {
            $($(#[$doc])* $name,)*
        }

        impl Group {
            /// Its name, as `COMMAND DOCS` and ACLs have it.
            pub fn name(self) -> &'static str {
                match self {
                    $(Group::$name => $text,)*
                }
            }
        }
    };
}

groups! {
    /// Bits of strings.
    Bitmap = "bitmap";
    /// Connections.
    Connection = "connection";
    /// Whatever a key stands for.
    Generic = "generic";
    /// Places.
    Geo = "geo";
    /// Hashes.
    Hash = "hash";
    /// HyperLogLogs.
    HyperLogLog = "hyperloglog";
    /// Lists.
    List = "list";
    /// Channels.
    PubSub = "pubsub";
    /// Scripts.
    Scripting = "scripting";
    /// The server.
    Server = "server";
    /// Sets.
    Set = "set";
    /// Sorted sets.
    SortedSet = "sorted-set";
    /// Streams.
    Stream = "stream";
    /// Strings.
    String = "string";
    /// Transactions.
    Transactions = "transactions";
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

/// What a command does.
type Run = fn(&mut Cx<'_>, &Args<'_>, &mut Reply) -> Done;

/// What is done to a key: whether it is read (`RO`), changed (`RW`), overwritten (`OW`) or removed (`RM`) as
/// a whole; and what that means for its value.
pub(super) type Access = &'static str;

/// A command.
pub struct Command {
    /// Its name, in small letters. A subcommand's is that of both, with a `|` between, and its row is behind
    /// that of the command.
    pub name: &'static str,
    /// Number of arguments, the name included. At least so many, if it is negative.
    pub arity: i32,
    /// What it is like.
    pub flags: Flags,
    /// Which keys it touches.
    pub keys: Keys,
    /// What is done to the first key, and to the others, if the flags do not say it.
    pub(super) access: Option<[Access; 2]>,
    /// What it does, without a subcommand.
    pub run: Run,
    has_subcommands: bool,
}

impl Command {
    /// A command.
    pub const fn new(name: &'static str, arity: i32, flags: Flags, keys: Keys, run: Run) -> Command {
        Command { name, arity, flags, keys, access: None, run, has_subcommands: false }
    }

    /// A command that has subcommands, and does nothing without one.
    pub const fn container(name: &'static str) -> Command {
        Command::new(name, -2, Flags::NONE, Keys::None, |_, _, _| unreachable!("resolved to its subcommand"))
            .with_subcommands()
    }

    /// A subcommand that tells which subcommands there are.
    pub const fn help(name: &'static str) -> Command {
        Command::new(name, 2, LOOK, Keys::None, tell_names)
    }

    /// It has subcommands, too.
    pub const fn with_subcommands(mut self) -> Command {
        self.has_subcommands = true;
        self
    }

    /// What it does to its keys.
    pub const fn access(self, all: Access) -> Command {
        self.accesses(all, all)
    }

    /// What it does to its first key, and to the others.
    pub const fn accesses(mut self, first: Access, others: Access) -> Command {
        self.access = Some([first, others]);
        self
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
                let number = args.get(2).and_then(|number| crate::text::words::int(number)).unwrap_or(0);
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
            _ if self.flags.has(Flags::GLANCE) => {}
            Keys::Range(1, 1, _) => f(args[1]),
            _ => self.keys(args).into_iter().for_each(|at| f(args[at])),
        }
    }

    /// Its subcommands.
    pub fn subcommands(&self) -> impl Iterator<Item = Known> + Clone {
        all().filter(|known| known.name.strip_prefix(self.name).is_some_and(|rest| rest.starts_with('|')))
    }

    /// Its name without that of the command whose subcommand it is.
    fn own_name(&self) -> &'static str {
        self.name.rsplit('|').next().unwrap_or_default()
    }
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
    let rows = FAMILIES.iter().flat_map(|(group, rows)| rows.iter().map(|command| (*group, command)));
    rows.enumerate().map(|(number, (group, command))| Known { command, group, number }).collect()
});

/// All commands, and their subcommands.
pub fn all() -> impl Iterator<Item = Known> + Clone {
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
    if !known.has_subcommands || words.len() == 1 {
        return Ok(known);
    }
    let Some(known) = lookup(&[known.name.as_bytes(), b"|", words[1]].concat()) else {
        return refused(Fail::no_subcommand(words[1], known.name), None);
    };
    if !known.takes(words.len()) {
        return refused(Fail::arity(known.name), Some(known.number));
    }
    Ok(known)
}

/// `HELP` of a command that has subcommands: their names.
fn tell_names(_: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let subcommands = lookup(args[0]).into_iter().flat_map(|known| known.command.subcommands());
    let names: Vec<String> = subcommands.map(|sub| sub.own_name().to_uppercase()).collect();
    out.array(names.len() + 1);
    tell_all(args, names.iter().map(String::as_str), out)
}

/// `HELP` of a command that has subcommands: these lines.
pub(super) fn tell_subcommands(args: &Args<'_>, lines: &[&str], out: &mut Reply) -> Done {
    out.array(lines.len() + 3);
    tell_all(args, lines.iter().copied().chain(["HELP", "    Prints this help."]), out)
}

fn tell_all<'l>(args: &Args<'_>, lines: impl Iterator<Item = &'l str>, out: &mut Reply) -> Done {
    let name = lossy(args[0]).to_uppercase();
    out.simple(&format!("{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    lines.for_each(|line| out.simple(line));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order() {
        assert_eq!(all().count(), BY_NAME.len(), "a name is there twice");
        for command in all() {
            assert!(command.name.len() <= 32 && command.name.to_lowercase() == command.name);
            assert_eq!(command.has_subcommands, command.subcommands().count() > 0, "{}", command.name);
            let (container, _) = command.name.split_once('|').unwrap_or((command.name, ""));
            assert!(lookup(container.as_bytes()).is_some(), "{}", command.name);
        }
        assert!(lookup(b"GeT").is_some() && lookup(b"nothing").is_none() && lookup(&[b'x'; 99]).is_none());
    }
}
