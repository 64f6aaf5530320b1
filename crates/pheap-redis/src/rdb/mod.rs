//! The format of RDB files: version 10, which Redis 7.0 writes, and older ones. `DUMP` uses it too.
//!
//! | module | contents |
//! |---|---|
//! | `read` | reads numbers and strings |
//! | `write` | writes numbers and strings |
//! | `lzf` | compressed strings |
//! | `listpack`, `old` | many elements in one string: listpacks; ziplists, zipmaps, intsets |
//! | `decode`, `encode` | reads and writes values |
//! | `streams` | reads and writes streams |
//! | `dump` | values with a checksum, as `DUMP` replies them |
//! | `file` | files: keys, values, deadlines, libraries |
//!
//! The input may be anything. It is checked, and the memory that reading uses is at most a constant and a
//! multiple of the length of the input.

mod decode;
mod dump;
mod encode;
mod file;
mod listpack;
mod lzf;
mod old;
mod read;
mod streams;
mod write;

#[cfg(test)]
mod samples;
#[cfg(test)]
mod tests;

pub use decode::decode;
pub use dump::{dump, open, restore, seal};
pub use encode::{encode, rdb_type};
pub use file::{FilePart, FileReader, FileWriter, RdbEntry, library, put_library};
pub use read::RdbReader;

use crc::{CRC_64_REDIS, Crc, Table};

/// The version of the format that this server writes, and the latest version that it reads.
pub const VERSION: u16 = 10;

/// The checksum of files and dumps.
static CRC: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_REDIS);

/// Why reading or writing has failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The input ends too early.
    #[error("it ends too early")]
    Truncated,
    /// The input is damaged.
    #[error("it is damaged: {0}")]
    Corrupt(&'static str),
    /// A list, hash, set or sorted set without elements. The reader is at the end of this value.
    #[error("it is a value without elements")]
    Empty,
    /// The input has a part that is unknown here.
    #[error("it has {0}, which this server does not know")]
    Unknown(&'static str),
    /// The input has a version that is unknown here.
    #[error(
        "it has version {0} of the format, and this server reads versions 1 to {VERSION} (of Redis up to 7.0)"
    )]
    Version(u32),
    /// The checksum is wrong.
    #[error("its checksum is wrong")]
    Checksum,
    /// A value is too large for the format.
    #[error("an entry of a stream is larger than the format allows")]
    TooLarge,
    /// The underlying reader or writer has failed.
    #[error(transparent)]
    Io(std::io::Error),
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Error {
        match error.kind() {
            std::io::ErrorKind::UnexpectedEof => Error::Truncated,
            _ => Error::Io(error),
        }
    }
}

/// The result of reading or writing.
pub type Result<T> = std::result::Result<T, Error>;

/// The numbers of the types of values.
mod kinds {
    pub(super) const STRING: u8 = 0;
    pub(super) const LIST: u8 = 1;
    pub(super) const SET: u8 = 2;
    pub(super) const ZSET: u8 = 3;
    pub(super) const HASH: u8 = 4;
    pub(super) const ZSET_2: u8 = 5;
    pub(super) const MODULE: u8 = 6;
    pub(super) const MODULE_2: u8 = 7;
    pub(super) const HASH_ZIPMAP: u8 = 9;
    pub(super) const LIST_ZIPLIST: u8 = 10;
    pub(super) const SET_INTSET: u8 = 11;
    pub(super) const ZSET_ZIPLIST: u8 = 12;
    pub(super) const HASH_ZIPLIST: u8 = 13;
    pub(super) const LIST_QUICKLIST: u8 = 14;
    pub(super) const STREAM_LISTPACKS: u8 = 15;
    pub(super) const HASH_LISTPACK: u8 = 16;
    pub(super) const ZSET_LISTPACK: u8 = 17;
    pub(super) const LIST_QUICKLIST_2: u8 = 18;
    pub(super) const STREAM_LISTPACKS_2: u8 = 19;
}

/// The numbers that begin other parts of a file.
mod opcodes {
    pub(super) const FUNCTION_2: u8 = 245;
    pub(super) const FUNCTION: u8 = 246;
    pub(super) const MODULE_AUX: u8 = 247;
    pub(super) const IDLE: u8 = 248;
    pub(super) const FREQ: u8 = 249;
    pub(super) const AUX: u8 = 250;
    pub(super) const RESIZE_DB: u8 = 251;
    pub(super) const EXPIRE_TIME_MS: u8 = 252;
    pub(super) const EXPIRE_TIME: u8 = 253;
    pub(super) const SELECT_DB: u8 = 254;
    pub(super) const EOF: u8 = 255;
}

/// The numbers of the encodings of strings.
mod encodings {
    pub(super) const INT_8: u8 = 0;
    pub(super) const INT_16: u8 = 1;
    pub(super) const INT_32: u8 = 2;
    pub(super) const LZF: u8 = 3;
}
