//! How commands end that do not succeed.

use std::borrow::Cow;
use std::ops::Range;

use crate::resp::input::Words;
use crate::text::words;

/// How a command ends.
pub type Done = Result<(), Fail>;

/// A command that does not succeed, and has changed nothing.
#[derive(Debug)]
pub enum Fail {
    /// An error for the client: a code in capitals, and a text.
    Error(Cow<'static, str>),
    /// The heap has failed. If the command has changed something, it must be rolled back.
    Heap(pheap::Error),
    /// It is a script that touches shards which are not locked. All is rolled back, and it is run again with all shards.
    MoreShards,
    /// It waits until one of these keys is written to, and is then run again.
    Block(Block),
}

/// What a command waits for.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// Where the keys are among the words of the command.
    pub keys: Range<usize>,
    /// Each key has an id, and these are behind the keys.
    pub has_ids: bool,
    /// The word in front of the keys says how many there are.
    pub is_counted: bool,
    /// Seconds until it gives up. None: it does not.
    pub timeout: Option<f64>,
    /// It ends when one of the keys is removed.
    pub needs_keys: bool,
    /// What is run when it goes on, if that is not the command as it was given.
    pub instead: Option<Vec<Vec<u8>>>,
}

impl Block {
    /// The words of the command with one of its keys, the one at this place.
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
    /// An error with the code `ERR`.
    pub fn err(text: impl std::fmt::Display) -> Fail {
        Fail::Error(format!("ERR {text}").into())
    }

    /// Fails with an error of the code `ERR`, if something is so.
    pub fn err_when(is_so: bool, text: impl std::fmt::Display) -> Done {
        if is_so { Err(Fail::err(text)) } else { Ok(()) }
    }

    /// Fails with this error, if something is so.
    pub fn when(self, is_so: bool) -> Done {
        if is_so { Err(self) } else { Ok(()) }
    }

    /// A value of another type than the command is for.
    pub const WRONG_TYPE: Fail =
        Fail::Error(Cow::Borrowed("WRONGTYPE Operation against a key holding the wrong kind of value"));
    /// Arguments that make no sense together.
    pub const SYNTAX: Fail = Fail::Error(Cow::Borrowed("ERR syntax error"));
    /// Something that should be a whole number.
    pub const NOT_AN_INTEGER: Fail =
        Fail::Error(Cow::Borrowed("ERR value is not an integer or out of range"));
    /// Something that should be a number.
    pub const NOT_A_FLOAT: Fail = Fail::Error(Cow::Borrowed("ERR value is not a valid float"));
    /// A key that does not exist, but would have to.
    pub const NO_SUCH_KEY: Fail = Fail::Error(Cow::Borrowed("ERR no such key"));
    /// A position that is none.
    pub const OUT_OF_RANGE: Fail = Fail::Error(Cow::Borrowed("ERR index out of range"));

    /// A command with too few or too many arguments.
    pub fn arity(name: &str) -> Fail {
        Fail::err(format_args!("wrong number of arguments for '{name}' command"))
    }

    /// Arguments of a subcommand that make no sense.
    pub fn bad_subcommand(args: &[&[u8]]) -> Fail {
        let (name, subcommand) = (words::lossy(args[0]).to_uppercase(), words::lossy(short(args[1])));
        Fail::err(format_args!(
            "unknown subcommand or wrong number of arguments for '{subcommand}'. Try {name} HELP."
        ))
    }

    /// A subcommand that there is not.
    pub fn no_subcommand(subcommand: &[u8], of: &str) -> Fail {
        let subcommand = words::lossy(short(subcommand));
        Fail::err(format_args!("unknown subcommand '{subcommand}'. Try {} HELP.", of.to_uppercase()))
    }
}

/// As much of a word as an error has.
fn short(word: &[u8]) -> &[u8] {
    &word[..word.len().min(128)]
}

impl From<pheap::Error> for Fail {
    fn from(error: pheap::Error) -> Fail {
        Fail::Heap(error)
    }
}
