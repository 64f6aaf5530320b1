//! Results of commands that do not succeed.

use std::borrow::Cow;
use std::ops::Range;

use crate::resp::input::Words;
use crate::text::words;

/// The result of a command.
pub type Done = Result<(), Fail>;

/// A command did not succeed. It has changed no data, except where a variant says that the transaction is
/// rolled back.
#[derive(Debug)]
pub enum Fail {
    /// An error for the client: a code in capitals, and a text.
    Error(Cow<'static, str>),
    /// The heap has returned an error, for example because it has no space. The transaction is rolled back.
    Heap(pheap::Error),
    /// A script or `SCAN` needs shards that are not locked. The transaction is rolled back, and the command
    /// runs again with all shards locked.
    MoreShards,
    /// The command waits until one of its keys is written to, and then runs again, or until the timeout.
    Block(Block),
}

/// The condition that a command waits for.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// Positions of the keys in the command, or in [`instead`](Self::instead) if that is given.
    pub keys: Range<usize>,
    /// Whether each key has an id. The ids follow the keys.
    pub has_ids: bool,
    /// Whether the argument before the keys is their number.
    pub is_counted: bool,
    /// Seconds until the command gives up. `None`: never.
    pub timeout: Option<f64>,
    /// Whether the command must run again, and fail, when one of the keys is removed.
    pub needs_keys: bool,
    /// The command to run when a key is written to, if not the original one.
    pub instead: Option<Vec<Vec<u8>>>,
}

impl Block {
    /// Returns the command with only the key at position `at`.
    pub fn with_key<'w>(&self, words: &'w [Vec<u8>], at: usize) -> Words<'w> {
        let ids = if self.has_ids { self.keys.len() } else { 0 };
        let mut some: Words<'w> = words[..self.keys.start].iter().map(Vec::as_slice).collect();
        if let (true, Some(count)) = (self.is_counted, some.last_mut()) {
            *count = b"1";
        }
        some.push(&words[at]);
        some.extend(self.has_ids.then(|| words[at + ids].as_slice()));
        some.extend(words[self.keys.end + ids..].iter().map(Vec::as_slice));
        some
    }
}

impl Fail {
    /// Returns an error with the code `ERR`.
    pub fn err(text: impl std::fmt::Display) -> Fail {
        Fail::Error(format!("ERR {text}").into())
    }

    /// Fails with an error with the code `ERR` if `is_so`.
    pub fn err_when(is_so: bool, text: impl std::fmt::Display) -> Done {
        if is_so { Err(Fail::err(text)) } else { Ok(()) }
    }

    /// Fails with this error if `is_so`.
    pub fn when(self, is_so: bool) -> Done {
        if is_so { Err(self) } else { Ok(()) }
    }

    /// The value of a key has another type than the command requires.
    pub const WRONG_TYPE: Fail =
        Fail::Error(Cow::Borrowed("WRONGTYPE Operation against a key holding the wrong kind of value"));
    /// The arguments are invalid.
    pub const SYNTAX: Fail = Fail::Error(Cow::Borrowed("ERR syntax error"));
    /// The argument is not a whole number.
    pub const NOT_AN_INTEGER: Fail =
        Fail::Error(Cow::Borrowed("ERR value is not an integer or out of range"));
    /// The argument is not a number.
    pub const NOT_A_FLOAT: Fail = Fail::Error(Cow::Borrowed("ERR value is not a valid float"));
    /// The key does not exist.
    pub const NO_SUCH_KEY: Fail = Fail::Error(Cow::Borrowed("ERR no such key"));
    /// The index is out of range.
    pub const OUT_OF_RANGE: Fail = Fail::Error(Cow::Borrowed("ERR index out of range"));

    /// Returns the error for a wrong number of arguments.
    pub fn arity(name: &str) -> Fail {
        Fail::err(format_args!("wrong number of arguments for '{name}' command"))
    }

    /// Returns the error for invalid arguments of a subcommand.
    pub fn bad_subcommand(args: &[&[u8]]) -> Fail {
        let (name, subcommand) = (words::lossy(args[0]).to_uppercase(), words::lossy(short(args[1])));
        Fail::err(format_args!(
            "unknown subcommand or wrong number of arguments for '{subcommand}'. Try {name} HELP."
        ))
    }

    /// Returns the error for an unknown subcommand.
    pub fn no_subcommand(subcommand: &[u8], of: &str) -> Fail {
        let subcommand = words::lossy(short(subcommand));
        Fail::err(format_args!("unknown subcommand '{subcommand}'. Try {} HELP.", of.to_uppercase()))
    }
}

/// Returns the beginning of a word, as long as an error shows it.
fn short(word: &[u8]) -> &[u8] {
    &word[..word.len().min(128)]
}

impl From<pheap::Error> for Fail {
    fn from(error: pheap::Error) -> Fail {
        Fail::Heap(error)
    }
}
