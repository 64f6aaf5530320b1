//! Values as `DUMP` tells them: the type, the value; the version of the format and a checksum behind them.

use super::{CRC, Error, Reader, Result, VERSION, decode, encode, kind};
use crate::data::Owned;

/// A value, with its type, version and checksum.
///
/// # Errors
/// If it is larger than the format allows.
pub fn dump(value: &Owned) -> Result<Vec<u8>> {
    let mut out = vec![kind(value)];
    encode(value, &mut out)?;
    seal(&mut out);
    Ok(out)
}

/// The value that [`dump`] wrote, or Redis. What is behind it does not matter.
///
/// # Errors
/// If it is none. The checksum is not looked at: see [`open`].
pub fn restore(opened: &[u8]) -> Result<Owned> {
    let mut from = Reader::of(opened);
    decode(from.byte()?, &mut from)
}

/// Adds the version of the format, and the checksum.
pub fn seal(out: &mut Vec<u8>) {
    out.extend_from_slice(&VERSION.to_le_bytes());
    let sum = CRC.checksum(out);
    out.extend_from_slice(&sum.to_le_bytes());
}

/// What is before the version and the checksum, if these are right.
///
/// # Errors
/// If they are not.
pub fn open(sealed: &[u8]) -> Result<&[u8]> {
    let (all, sum) = sealed.split_last_chunk().ok_or(Error::Truncated)?;
    let (opened, version) = all.split_last_chunk().ok_or(Error::Truncated)?;
    let version = u16::from_le_bytes(*version);
    if version > VERSION {
        return Err(Error::Version(version.into()));
    }
    if CRC.checksum(all) == u64::from_le_bytes(*sum) { Ok(opened) } else { Err(Error::Checksum) }
}
