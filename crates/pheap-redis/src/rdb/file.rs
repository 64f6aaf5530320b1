//! Reads and writes RDB files: a version, then parts, each of which begins with its opcode or type, and a
//! checksum.

use std::io::{Read, Write};

use crc::{Digest, Table};

use super::write::{put_length, put_string};
use super::{CRC, Error, RdbReader, Result, VERSION, decode, encode, opcodes, rdb_type};
use crate::data::Owned;

/// The first bytes of a file. Four digits of the version follow.
const MAGIC: &[u8; 5] = b"REDIS";

/// The first version with a checksum.
const FIRST_WITH_SUM: u32 = 5;

/// A key and its value.
#[derive(Debug, PartialEq)]
pub struct RdbEntry {
    /// The number of the database.
    pub db: u64,
    /// The key.
    pub key: Vec<u8>,
    /// The value.
    pub value: Owned,
    /// When the key expires, in milliseconds since 1970.
    pub deadline: Option<i64>,
    /// Seconds since the last use of the key.
    pub idle: Option<u64>,
    /// The frequency of uses of the key, as `OBJECT FREQ` replies it.
    pub frequency: Option<u8>,
}

/// A part of a file.
#[derive(Debug, PartialEq)]
pub enum FilePart {
    /// The text of a function library.
    Library(Vec<u8>),
    /// A key and its value.
    Entry(RdbEntry),
}

/// Reads the text of a library, behind its opcode. Returns None if the opcode is another one.
///
/// # Errors
/// If the text cannot be read.
pub fn library<R: Read>(opcode: u8, from: &mut RdbReader<R>) -> Result<Option<Vec<u8>>> {
    match opcode {
        opcodes::FUNCTION_2 => from.string().map(Some),
        opcodes::FUNCTION => {
            // Early versions of this format stored the name and the engine separately from the text.
            let (name, engine) = (from.string()?, from.string()?);
            if from.length()? != 0 {
                from.string()?; // a description
            }
            let code = from.string()?;
            Ok(Some([b"#!", &engine[..], b" name=", &name, b"\n", &code].concat()))
        }
        _ => Ok(None),
    }
}

/// Appends a library: its opcode and its text.
pub fn put_library(out: &mut Vec<u8>, text: &[u8]) {
    out.push(opcodes::FUNCTION_2);
    put_string(out, text);
}

/// A reader that computes the checksum of its bytes.
struct ChecksumReader<R> {
    inner: R,
    digest: Digest<'static, u64, Table<16>>,
}

impl<R: Read> Read for ChecksumReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let len = self.inner.read(buffer)?;
        self.digest.update(&buffer[..len]);
        Ok(len)
    }
}

/// Reads a file part by part.
pub struct FileReader<R> {
    from: RdbReader<ChecksumReader<R>>,
    version: u32,
    db: u64,
    empty: u64,
    size: u64,
}

impl<R: Read> FileReader<R> {
    /// Begins to read a file of `size` bytes.
    ///
    /// # Errors
    /// If the first bytes cannot be read, or are not those of an RDB file of a known version.
    pub fn new(inner: R, size: u64) -> Result<FileReader<R>> {
        let mut from = RdbReader::new(ChecksumReader { inner, digest: CRC.digest() }, size);
        let (magic, digits) = (from.array()?, from.array::<4>()?);
        let version = std::str::from_utf8(&digits).ok().and_then(|digits| digits.parse().ok());
        let version: u32 = version
            .filter(|_| magic == *MAGIC)
            .ok_or(Error::Corrupt("it does not begin as an RDB file does"))?;
        if !(1..=u32::from(VERSION)).contains(&version) {
            return Err(Error::Version(version));
        }
        Ok(FileReader { from, version, db: 0, empty: 0, size })
    }

    /// Returns the number of bytes read.
    pub fn position(&self) -> u64 {
        self.size - self.from.left()
    }

    /// Returns the number of skipped keys: they had lists, hashes, sets or sorted sets without elements.
    /// (Redis skips them too.)
    pub fn empty(&self) -> u64 {
        self.empty
    }

    /// Reads the next part. Returns None at the end, if the checksum is right or missing.
    ///
    /// # Errors
    /// If the file cannot be read, is damaged, or has a part that is unknown here.
    pub fn next_part(&mut self) -> Result<Option<FilePart>> {
        let (from, mut deadline, mut idle, mut frequency) = (&mut self.from, None, None, None);
        loop {
            match from.byte()? {
                opcodes::EOF => return self.check_sum().map(|()| None),
                opcodes::SELECT_DB => self.db = from.length()?,
                opcodes::RESIZE_DB => _ = (from.length()?, from.length()?),
                opcodes::AUX => _ = (from.string()?, from.string()?),
                opcodes::IDLE => idle = Some(from.length()?),
                opcodes::FREQ => frequency = Some(from.byte()?),
                opcodes::EXPIRE_TIME => {
                    deadline = Some(i64::from(i32::from_le_bytes(from.array()?)) * 1000);
                }
                opcodes::EXPIRE_TIME_MS => deadline = Some(i64::from_le_bytes(from.array()?)),
                opcodes::MODULE_AUX => return Err(Error::Unknown("data of a module")),
                other => {
                    if let Some(text) = library(other, from)? {
                        return Ok(Some(FilePart::Library(text)));
                    }
                    let key = from.string()?;
                    match decode(other, from) {
                        Ok(value) => {
                            let db = self.db;
                            return Ok(Some(FilePart::Entry(RdbEntry {
                                db,
                                key,
                                value,
                                deadline,
                                idle,
                                frequency,
                            })));
                        }
                        Err(Error::Empty) => {
                            self.empty += 1;
                            (deadline, idle, frequency) = (None, None, None);
                        }
                        Err(error) => return Err(error),
                    }
                }
            }
        }
    }

    fn check_sum(&mut self) -> Result<()> {
        if self.version < FIRST_WITH_SUM {
            return Ok(());
        }
        let read = self.from.inner().digest.clone().finalize();
        // The checksum is 0 if the writer has not computed it.
        match u64::from_le_bytes(self.from.array()?) {
            0 => Ok(()),
            sum if sum == read => Ok(()),
            _ => Err(Error::Checksum),
        }
    }
}

/// Writes a file part by part.
pub struct FileWriter<W> {
    inner: W,
    digest: Digest<'static, u64, Table<16>>,
    part: Vec<u8>,
}

impl<W: Write> FileWriter<W> {
    /// Begins a file. Its first parts name the version of Redis that the writer follows, and its 64 bits.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn new(inner: W) -> Result<FileWriter<W>> {
        let mut writer = FileWriter { inner, digest: CRC.digest(), part: Vec::new() };
        writer.part.extend_from_slice(MAGIC);
        writer.part.extend_from_slice(format!("{VERSION:04}").as_bytes());
        let aux = [("redis-ver", crate::REDIS_VERSION), ("redis-bits", "64")];
        for (name, value) in aux {
            writer.part.push(opcodes::AUX);
            put_string(&mut writer.part, name.as_bytes());
            put_string(&mut writer.part, value.as_bytes());
        }
        writer.write_part()?;
        Ok(writer)
    }

    fn write_part(&mut self) -> Result<()> {
        self.digest.update(&self.part);
        self.inner.write_all(&self.part).map_err(Error::Io)?;
        self.part.clear();
        Ok(())
    }

    /// Writes a function library. The caller writes libraries before all databases.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn library(&mut self, text: &[u8]) -> Result<()> {
        put_library(&mut self.part, text);
        self.write_part()
    }

    /// Begins a database of about `keys` keys, of which about `expiring` have a deadline.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn database(&mut self, db: u64, keys: u64, expiring: u64) -> Result<()> {
        self.part.push(opcodes::SELECT_DB);
        put_length(&mut self.part, db);
        self.part.push(opcodes::RESIZE_DB);
        put_length(&mut self.part, keys);
        put_length(&mut self.part, expiring);
        self.write_part()
    }

    /// Writes a key and its value.
    ///
    /// # Errors
    /// If the file cannot be written, or the value is too large for the format.
    pub fn entry(&mut self, key: &[u8], value: &Owned, deadline: Option<i64>) -> Result<()> {
        if let Some(deadline) = deadline {
            self.part.push(opcodes::EXPIRE_TIME_MS);
            self.part.extend_from_slice(&deadline.to_le_bytes());
        }
        self.part.push(rdb_type(value));
        put_string(&mut self.part, key);
        encode(value, &mut self.part)?;
        self.write_part()
    }

    /// Ends the file: writes its checksum, and returns the underlying writer.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn finish(mut self) -> Result<W> {
        self.part.push(opcodes::EOF);
        self.write_part()?;
        let sum = self.digest.finalize();
        self.inner.write_all(&sum.to_le_bytes()).map_err(Error::Io)?;
        Ok(self.inner)
    }
}
