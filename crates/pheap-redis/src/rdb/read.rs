//! Reads numbers and strings of RDB files.

use std::io::Read;

use super::{Error, Result, encodings, lzf};
use crate::text::words;

/// The most memory to allocate for bytes that have not come yet.
const AHEAD: u64 = 1 << 20;

/// Reads from an input of at most a given length.
#[derive(Debug)]
pub struct RdbReader<R> {
    inner: R,
    /// The most bytes that may follow.
    left: u64,
    /// The most elements that may still come in packed strings, which can be compressed.
    pub(super) elements: u64,
}

impl<'d> RdbReader<&'d [u8]> {
    /// Makes a reader of these bytes.
    pub fn from_bytes(bytes: &'d [u8]) -> RdbReader<&'d [u8]> {
        RdbReader::new(bytes, bytes.len() as u64)
    }
}

impl<R: Read> RdbReader<R> {
    /// Makes a reader of at most `left` bytes from `inner`.
    pub fn new(inner: R, left: u64) -> RdbReader<R> {
        RdbReader { inner, left, elements: u64::MAX }
    }

    /// Returns how many bytes may follow at most.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Returns the underlying reader.
    pub(super) fn inner(&self) -> &R {
        &self.inner
    }

    /// Reads the next `N` bytes.
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.left = self.left.checked_sub(N as u64).ok_or(Error::Truncated)?;
        self.inner.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Reads the next `len` bytes.
    pub(super) fn bytes(&mut self, len: u64) -> Result<Vec<u8>> {
        self.left = self.left.checked_sub(len).ok_or(Error::Truncated)?;
        // `len` may be any number, because data from another server may have no known length.
        let mut bytes = Vec::with_capacity(len.min(AHEAD) as usize);
        if self.inner.by_ref().take(len).read_to_end(&mut bytes)? as u64 != len {
            return Err(Error::Truncated);
        }
        Ok(bytes)
    }

    /// Reads a byte.
    ///
    /// # Errors
    /// If there is none, or reading fails.
    pub fn byte(&mut self) -> Result<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Reads a length, or instead the number of the encoding of the string that follows.
    fn length_or_encoding(&mut self) -> Result<std::result::Result<u64, u8>> {
        let first = self.byte()?;
        Ok(match (first >> 6, first) {
            (0, _) => Ok(u64::from(first)),
            (1, _) => Ok(u64::from(first & 63) << 8 | u64::from(self.byte()?)),
            (2, 0x80) => Ok(u64::from(u32::from_be_bytes(self.array()?))),
            (2, 0x81) => Ok(u64::from_be_bytes(self.array()?)),
            (3, _) => Err(first & 63),
            _ => return Err(Error::Corrupt("a length has an unknown encoding")),
        })
    }

    /// Reads a length.
    pub(super) fn length(&mut self) -> Result<u64> {
        self.length_or_encoding()?.map_err(|_| Error::Corrupt("there is a string where a length should be"))
    }

    /// Reads a string.
    ///
    /// # Errors
    /// If there is no valid string, or reading fails.
    pub fn string(&mut self) -> Result<Vec<u8>> {
        let number = match self.length_or_encoding()? {
            Ok(len) => return self.bytes(len),
            Err(encodings::INT_8) => i64::from(i8::from_le_bytes(self.array()?)),
            Err(encodings::INT_16) => i64::from(i16::from_le_bytes(self.array()?)),
            Err(encodings::INT_32) => i64::from(i32::from_le_bytes(self.array()?)),
            Err(encodings::LZF) => {
                let (compressed, len) = (self.length()?, self.length()?);
                return lzf::expand(&self.bytes(compressed)?, len);
            }
            Err(_) => return Err(Error::Corrupt("a string has an unknown encoding")),
        };
        Ok(words::decimal(number, &mut [0; 20]).to_vec())
    }

    /// Reads a number as text, as old versions of Redis wrote it.
    pub(super) fn text_double(&mut self) -> Result<f64> {
        match self.byte()? {
            255 => Ok(f64::NEG_INFINITY),
            254 => Ok(f64::INFINITY),
            253 => Err(Error::Corrupt("a score is not a number")),
            len => score(&self.bytes(u64::from(len))?),
        }
    }

    /// Reads a floating-point number of 64 bits. NaN is an error.
    pub(super) fn double(&mut self) -> Result<f64> {
        let number = f64::from_le_bytes(self.array()?);
        if number.is_nan() { Err(Error::Corrupt("a score is not a number")) } else { Ok(number) }
    }
}

/// Parses a score that is written as text.
pub(super) fn score(text: &[u8]) -> Result<f64> {
    words::float(text).ok_or(Error::Corrupt("a score is not a number"))
}
