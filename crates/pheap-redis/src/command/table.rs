//! The table of commands.

use std::collections::HashMap;
use std::sync::LazyLock;

use smallvec::SmallVec;

use super::args::counted_keys;
use super::{Args, Cx, Done, Fail};
use crate::resp::Reply;
use crate::text::words::lossy;

/// Properties of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flags(u32);

macro_rules! flags {
    ($($(#[$doc:meta])* $name:ident = $bit:literal, $text:literal;)*) => {
        impl Flags {
            $($(#[$doc])* pub const $name: Flags = Flags(1 << $bit);)*

            /// Returns the names of those flags that `COMMAND` shows.
            pub fn names(self) -> impl Iterator<Item = &'static str> {
                [$((Flags::$name, $text)),*]
                    .into_iter()
                    .filter(move |(flag, name)| self.has(*flag) && !name.is_empty())
                    .map(|(_, name)| name)
            }
        }
    };
}

flags! {
    /// The command may change data.
    WRITE = 0, "write";
    /// The command only reads. (`PFCOUNT` also stores its result for later calls.)
    READONLY = 1, "readonly";
    /// The command may need more memory.
    DENYOOM = 2, "denyoom";
    /// The command is for administrators.
    ADMIN = 3, "admin";
    /// The command is about channels.
    PUBSUB = 4, "pubsub";
    /// Scripts may not call the command.
    NOSCRIPT = 5, "noscript";
    /// The command may wait for a key.
    BLOCKING = 6, "blocking";
    /// The command is answered while data are being loaded.
    LOADING = 7, "loading";
    /// A replica that has lost its master answers the command even with `replica-serve-stale-data no`.
    STALE = 8, "stale";
    /// `MONITOR` does not show the command, unless the command runs a script.
    SKIP_MONITOR = 9, "skip_monitor";
    /// `SLOWLOG` does not show the command.
    SKIP_SLOWLOG = 10, "skip_slowlog";
    /// Redis calls the command fast, for example in the category `@fast` and in the events of `LATENCY`.
    FAST = 11, "fast";
    /// The command needs no authentication.
    NO_AUTH = 12, "no_auth";
    /// Redis may replicate the command, although it is not marked as a write.
    MAY_REPLICATE = 13, "may_replicate";
    /// Transactions may not contain the command.
    NO_MULTI = 14, "no_multi";
    /// The positions of the command's keys depend on its arguments.
    MOVABLE_KEYS = 15, "movablekeys";
    /// Redis refuses the command during an asynchronous load of a master's data. Shown by `COMMAND` only.
    NO_ASYNC_LOADING = 16, "no_async_loading";
    /// The command may be called while a script is slow.
    ALLOW_BUSY = 17, "allow_busy";
    /// In a Redis cluster, other servers may call the command while a slot moves. Shown by `COMMAND` only.
    ASKING = 18, "asking";
    /// Messages confirm the command; it has no reply.
    UNASKED = 19, "";
    /// A client in RESP2 may call the command while it listens to channels.
    LISTENING = 20, "";
    /// The command is not queued after `MULTI`.
    AT_ONCE = 21, "";
    /// The command is not queued after `MULTI`, and ends the transaction.
    ENDS_MULTI = 22, "";
    /// The command looks at properties of its keys, which is not counted as a use of the keys.
    GLANCE = 23, "";
}

/// Flags of a command that only reads.
pub(super) const READ: Flags = Flags::READONLY;
/// Flags of a fast command that only reads.
pub(super) const READ_FAST: Flags = READ.and(Flags::FAST);
/// Flags of a fast command that only reads properties of its keys.
pub(super) const GLANCE_FAST: Flags = READ_FAST.and(Flags::GLANCE);
/// Flags of a command that changes data and is not refused if memory is short.
pub(super) const WRITE: Flags = Flags::WRITE;
/// Flags of a fast command that changes data and is not refused if memory is short.
pub(super) const WRITE_FAST: Flags = WRITE.and(Flags::FAST);
/// Flags of a command that changes data and is refused if memory is short.
pub(super) const ADD: Flags = WRITE.and(Flags::DENYOOM);
/// Flags of a fast command that changes data and is refused if memory is short.
pub(super) const ADD_FAST: Flags = ADD.and(Flags::FAST);
/// Flags of a command that is answered during loading and on a stale replica, too.
pub(super) const LOOK: Flags = Flags::LOADING.and(Flags::STALE);
/// Flags of a command for administrators that is answered during loading and on a stale replica, too.
pub(super) const ADMIN: Flags = LOOK.and(Flags::ADMIN).and(Flags::NOSCRIPT);

/// Flags of a command for administrators that is refused during loading and on a stale replica.
pub(super) const MANAGE: Flags = Flags::ADMIN.and(Flags::NOSCRIPT);
/// The first argument is the key.
pub(super) const KEY: Keys = Keys::Range(1, 1, 1);
/// The first argument of the subcommand is the key.
pub(super) const SUBKEY: Keys = Keys::Range(2, 2, 1);
/// The first two arguments are keys.
pub(super) const TWO_KEYS: Keys = Keys::Range(1, 2, 1);
/// All arguments are keys.
pub(super) const ALL_KEYS: Keys = Keys::Range(1, -1, 1);
/// The first argument is the number of keys; the keys follow it.
pub(super) const COUNTED: Keys = Keys::Find(|args, keys| counted_keys(args, 1, keys));
/// The second argument is the number of keys; the keys follow it.
pub(super) const COUNTED_BEHIND_ONE: Keys = Keys::Find(|args, keys| counted_keys(args, 2, keys));

impl Flags {
    /// No flags.
    pub const NONE: Flags = Flags(0);

    /// Returns the union of both.
    pub const fn and(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// Returns whether at least one of the flags in `other` is set.
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }
}

macro_rules! groups {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        /// The group of a command, from which one of its ACL categories derives.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Group {
            $($(#[$doc])* $name,)*
        }

        impl Group {
            /// Returns the name of the group in `COMMAND DOCS`.
            pub fn name(self) -> &'static str {
                match self {
                    $(Group::$name => $text,)*
                }
            }
        }
    };
}

groups! {
    /// Commands for bits of strings.
    Bitmap = "bitmap";
    /// Connections.
    Connection = "connection";
    /// Commands for keys of any type.
    Generic = "generic";
    /// Commands for geographic positions.
    Geo = "geo";
    /// Hashes.
    Hash = "hash";
    /// HyperLogLogs.
    HyperLogLog = "hyperloglog";
    /// Lists.
    List = "list";
    /// Commands for channels and messages.
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

/// The keys that a command touches.
#[derive(Clone, Copy)]
pub enum Keys {
    /// No key, and no shard.
    None,
    /// The arguments from the first position to the last (from the end if negative), in steps of the third
    /// number.
    Range(i32, i32, i32),
    /// The function adds the positions of the keys. It gets at least as many arguments as the arity requires,
    /// and may add no positions if the arguments are invalid.
    Find(fn(&Args<'_>, &mut Vec<usize>)),
    /// The keys that a function finds, as for [`Find`](Keys::Find), and possibly any other key.
    Perhaps {
        /// Adds the positions of the arguments that are keys.
        keys: fn(&Args<'_>, &mut Vec<usize>),
        /// Returns whether the command may touch other keys, given its arguments.
        everything: fn(&Args<'_>) -> bool,
    },
    /// Any key, in all databases: the command needs all shards.
    Everything,
    /// The whole heap: all shards, the libraries of functions, and the position in a master's stream.
    Heap,
    /// The keys of a script: the second argument is their number. The script may touch other keys, too.
    Script,
    /// Keys of any shards from a first one on, which the function computes from the arguments and the number
    /// of shards. The command starts with that shard, and asks for all shards if it needs more
    /// ([`Fail::MoreShards`]).
    From(fn(&Args<'_>, usize) -> usize),
    /// The libraries of functions, whose root has the number behind that of the last shard.
    Libraries,
}

/// The function of a command.
type CommandFn = fn(&mut Cx<'_>, &Args<'_>, &mut Reply) -> Done;

/// How a command accesses a key: whether it reads (`RO`), changes (`RW`), overwrites (`OW`) or removes (`RM`)
/// the key, and what that means for the value. In the words of `COMMAND GETKEYSANDFLAGS`.
pub(super) type Access = &'static str;

/// A row of the table of commands.
pub struct Command {
    /// Name in small letters. A subcommand is named `command|subcommand`, and its row follows the command's.
    pub name: &'static str,
    /// Number of arguments, including the name. If negative, the minimum.
    pub arity: i32,
    /// Properties of the command.
    pub flags: Flags,
    /// The keys that the command touches.
    pub keys: Keys,
    /// The access to the first key, and to the other keys. `None`: the flags determine it, or for some
    /// commands the arguments.
    pub(super) access: Option<[Access; 2]>,
    /// The function of the command, called if there is no subcommand.
    pub run: CommandFn,
    has_subcommands: bool,
}

impl Command {
    /// Returns a row for a command.
    pub const fn new(name: &'static str, arity: i32, flags: Flags, keys: Keys, run: CommandFn) -> Command {
        Command { name, arity, flags, keys, access: None, run, has_subcommands: false }
    }

    /// Returns a row for a command that has subcommands and cannot be called without one.
    pub const fn container(name: &'static str) -> Command {
        Command::new(name, -2, Flags::NONE, Keys::None, |_, _, _| unreachable!("resolved to its subcommand"))
            .with_subcommands()
    }

    /// Returns a row for a `HELP` subcommand, which lists the subcommands.
    pub const fn help(name: &'static str) -> Command {
        Command::new(name, 2, LOOK, Keys::None, tell_names)
    }

    /// Marks the command as having subcommands.
    pub const fn with_subcommands(mut self) -> Command {
        self.has_subcommands = true;
        self
    }

    /// Sets the access to all keys.
    pub const fn access(self, all: Access) -> Command {
        self.accesses(all, all)
    }

    /// Sets the access to the first key, and to the others.
    pub const fn accesses(mut self, first: Access, others: Access) -> Command {
        self.access = Some([first, others]);
        self
    }

    /// Returns whether this number of arguments, including the name, is allowed.
    pub fn accepts_arity(&self, arguments: usize) -> bool {
        let arity = self.arity.unsigned_abs() as usize;
        if self.arity < 0 { arguments >= arity } else { arguments == arity }
    }

    /// Returns whether the flags say that the command changes nothing in the heap. `PFCOUNT` has the flag
    /// `READONLY` but stores its result, so it has `MAY_REPLICATE`, too.
    pub fn only_looks(&self) -> bool {
        self.flags.has(Flags::READONLY) && !self.flags.has(Flags::MAY_REPLICATE)
    }

    /// Returns whether the command may change the heap. All commands that run scripts count, read-only ones
    /// too.
    pub fn may_write(&self) -> bool {
        self.flags.has(Flags::WRITE.and(Flags::MAY_REPLICATE))
            || matches!(self.keys, Keys::Script | Keys::Heap)
    }

    /// Returns all keys that the command may touch, or `None` if the arguments do not name all of them.
    pub fn all_keys<'w>(&self, args: &Args<'w>) -> Option<SmallVec<[&'w [u8]; 1]>> {
        match self.keys {
            Keys::Everything | Keys::Heap | Keys::From(_) | Keys::Libraries | Keys::Script => None,
            Keys::Perhaps { everything, .. } if everything(args) => None,
            Keys::Range(1, 1, _) => Some(SmallVec::from_slice(&[args[1]])),
            _ => Some(self.keys(args).into_iter().map(|at| args[at]).collect()),
        }
    }

    /// Returns the positions of the arguments that are keys.
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

    /// Calls `f` with each key that the command uses, for the statistics of eviction. A script uses no keys
    /// itself: the commands that it runs use them. A command that only looks at properties of its keys uses
    /// no keys either.
    pub fn for_each_used_key(&self, args: &Args<'_>, mut f: impl FnMut(&[u8])) {
        match self.keys {
            Keys::Script => {} // the script's commands call this function
            _ if self.flags.has(Flags::GLANCE) => {}
            Keys::Range(1, 1, _) => f(args[1]),
            _ => self.keys(args).into_iter().for_each(|at| f(args[at])),
        }
    }

    /// Returns the subcommands of the command.
    pub fn subcommands(&self) -> impl Iterator<Item = KnownCommand> + Clone {
        all_commands()
            .filter(|known| known.name.strip_prefix(self.name).is_some_and(|rest| rest.starts_with('|')))
    }

    /// Returns the name of the command or subcommand, without the name of its container.
    fn own_name(&self) -> &'static str {
        self.name.rsplit('|').next().unwrap_or_default()
    }
}

/// The tables of all families, with their groups.
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

/// A command of the table, with its group and its number. Subcommands have numbers, too.
#[derive(Clone, Copy)]
pub struct KnownCommand {
    /// The row of the command.
    pub command: &'static Command,
    /// The group of the command.
    pub group: Group,
    /// The index of the command in the table of all commands.
    pub number: usize,
}

impl std::ops::Deref for KnownCommand {
    type Target = Command;

    fn deref(&self) -> &Command {
        self.command
    }
}

static ALL: LazyLock<Vec<KnownCommand>> = LazyLock::new(|| {
    let rows = FAMILIES.iter().flat_map(|(group, rows)| rows.iter().map(|command| (*group, command)));
    rows.enumerate().map(|(number, (group, command))| KnownCommand { command, group, number }).collect()
});

/// Returns all commands and subcommands.
pub fn all_commands() -> impl Iterator<Item = KnownCommand> + Clone {
    ALL.iter().copied()
}

/// Returns all commands, without subcommands.
pub fn top_level_commands() -> impl Iterator<Item = KnownCommand> {
    all_commands().filter(|known| !known.name.contains('|'))
}

static BY_NAME: LazyLock<HashMap<&'static str, KnownCommand>> =
    LazyLock::new(|| all_commands().map(|known| (known.name, known)).collect());

/// Returns the command of a name, in any letter case. The name of a subcommand contains a `|`.
pub fn lookup(name: &[u8]) -> Option<KnownCommand> {
    let mut lower = [0; 32];
    let lower = lower.get_mut(..name.len())?;
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    BY_NAME.get(std::str::from_utf8(lower).ok()?).copied()
}

/// Why a request is refused.
#[derive(Debug)]
pub struct RefusedRequest {
    /// Error text for the client.
    pub error: String,
    /// Number of the command. `None` if the request names no command or subcommand of the table.
    pub number: Option<usize>,
}

/// Returns the command that a request names. Fails if there is none, or if the number of arguments is wrong.
pub fn resolve(words: &Args<'_>) -> Result<KnownCommand, RefusedRequest> {
    let refused = |fail: Fail, number| {
        let error = match fail {
            Fail::Error(text) => text.into_owned(),
            other => format!("{other:?}"),
        };
        Err(RefusedRequest { error, number })
    };
    let Some(known) = lookup(words[0]).filter(|known| !known.name.contains('|')) else {
        // The error shows a word as C prints strings: up to the first zero byte.
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
        return Err(RefusedRequest { error, number: None });
    };
    if !known.accepts_arity(words.len()) {
        return refused(Fail::arity(known.name), Some(known.number));
    }
    if !known.has_subcommands || words.len() == 1 {
        return Ok(known);
    }
    let Some(known) = lookup(&[known.name.as_bytes(), b"|", words[1]].concat()) else {
        return refused(Fail::no_subcommand(words[1], known.name), None);
    };
    if !known.accepts_arity(words.len()) {
        return refused(Fail::arity(known.name), Some(known.number));
    }
    Ok(known)
}

/// Answers `HELP` with a head and the names of the subcommands.
fn tell_names(_: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let subcommands = lookup(args[0]).into_iter().flat_map(|known| known.command.subcommands());
    let names: Vec<String> = subcommands.map(|sub| sub.own_name().to_uppercase()).collect();
    out.array(names.len() + 1);
    tell_all(args, names.iter().map(String::as_str), out)
}

/// Answers `HELP` with a head, these lines, and the lines about `HELP`.
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
        assert_eq!(all_commands().count(), BY_NAME.len(), "a name is there twice");
        for command in all_commands() {
            assert!(command.name.len() <= 32 && command.name.to_lowercase() == command.name);
            assert_eq!(command.has_subcommands, command.subcommands().count() > 0, "{}", command.name);
            let (container, _) = command.name.split_once('|').unwrap_or((command.name, ""));
            assert!(lookup(container.as_bytes()).is_some(), "{}", command.name);
        }
        assert!(lookup(b"GeT").is_some() && lookup(b"nothing").is_none() && lookup(&[b'x'; 99]).is_none());
    }
}
