//! Values as `DUMP` replies them: the type, the value, the version of the format, and a checksum.

use super::{CRC, Error, RdbReader, Result, VERSION, decode, encode, rdb_type};
use crate::data::Owned;

/// A dumped value may have this many elements in packed strings (listpacks, ziplists, zipmaps, intsets),
/// which may be compressed, and one more for each byte of the payload. A field and its value in a zipmap
/// count as one. Without a limit, a MiB from a client could become some GiB.
const MOST_ELEMENTS: u64 = 4 << 20;

/// Encodes a value with its type, version and checksum.
///
/// # Errors
/// If the value is too large for the format.
pub fn dump(value: &Owned) -> Result<Vec<u8>> {
    let mut out = vec![rdb_type(value)];
    encode(value, &mut out)?;
    seal(&mut out);
    Ok(out)
}

/// Decodes an [opened](open) dump of this server or of Redis. Ignores bytes behind the value.
///
/// # Errors
/// If there is no valid value. This does not check the checksum: see [`open`].
pub fn restore(opened: &[u8]) -> Result<Owned> {
    let mut from = RdbReader::from_bytes(opened);
    from.elements = MOST_ELEMENTS + opened.len() as u64;
    decode(from.byte()?, &mut from)
}

/// Appends the version of the format and the checksum.
pub fn seal(out: &mut Vec<u8>) {
    out.extend_from_slice(&VERSION.to_le_bytes());
    let sum = CRC.checksum(out);
    out.extend_from_slice(&sum.to_le_bytes());
}

/// Checks the version and the checksum, and returns the bytes before them.
///
/// # Errors
/// If one of them is wrong or missing.
pub fn open(sealed: &[u8]) -> Result<&[u8]> {
    let (all, sum) = sealed.split_last_chunk().ok_or(Error::Truncated)?;
    let (opened, version) = all.split_last_chunk().ok_or(Error::Truncated)?;
    let version = u16::from_le_bytes(*version);
    if version > VERSION {
        return Err(Error::Version(version.into()));
    }
    if CRC.checksum(all) == u64::from_le_bytes(*sum) { Ok(opened) } else { Err(Error::Checksum) }
}

#[cfg(test)]
mod tests {
    use super::super::listpack::Listpack;
    use super::super::lzf::compress;
    use super::super::{encodings, kinds};
    use super::*;

    /// Makes a list of `numbers` small numbers in one compressed part.
    fn list_of(numbers: usize) -> Result<Owned> {
        let mut listpack = Listpack::new();
        (0..numbers).for_each(|_| listpack.push_int(1));
        let listpack = listpack.finish().unwrap();
        let compressed = compress(&listpack).unwrap();
        let mut dump = vec![kinds::LIST_QUICKLIST_2, 1, 2, 3 << 6 | encodings::LZF];
        for len in [compressed.len(), listpack.len()] {
            dump.push(0x80);
            dump.extend((len as u32).to_be_bytes());
        }
        dump.extend(compressed);
        restore(&dump)
    }

    #[test]
    fn elements_are_not_made_of_nothing() {
        assert!(matches!(list_of(100_000), Ok(Owned::List(list)) if list.len() == 100_000));
        assert!(matches!(list_of(5 << 20), Err(Error::Corrupt(_))));
    }
}
