//! The format of `FUNCTION DUMP`, which is that of RDB files, as in Redis.

use crate::rdb::{RdbReader, library, open, put_library, seal};

const DAMAGED: &str = "failed loading the given functions payload";

/// Returns the texts of libraries, followed by a version and a checksum.
pub(super) fn write<'t>(texts: impl Iterator<Item = &'t [u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    texts.for_each(|text| put_library(&mut out, text));
    seal(&mut out);
    out
}

/// Returns the texts of the libraries in a dump.
///
/// # Errors
/// If the dump is invalid. The error says why.
pub(super) fn read(dump: &[u8]) -> Result<Vec<Vec<u8>>, &'static str> {
    let dump = open(dump).map_err(|_| "DUMP payload version or checksum are wrong")?;
    let (mut from, mut texts) = (RdbReader::from_bytes(dump), Vec::new());
    while from.left() > 0 {
        let opcode = from.byte().map_err(|_| DAMAGED)?;
        let text = library(opcode, &mut from).map_err(|_| DAMAGED)?;
        texts.push(text.ok_or("given type is not a function")?);
    }
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn function_dump_round_trip() {
        let texts = [vec![b'a'; 10], vec![b'b'; 1000], vec![b'c'; 100_000]];
        let dump = write(texts.iter().map(Vec::as_slice));
        assert_eq!(read(&dump).unwrap(), texts);
        for at in [0, 5, dump.len() - 1] {
            let mut wrong = dump.clone();
            wrong[at] ^= 1;
            assert!(read(&wrong).is_err());
        }
        assert!(read(b"bad_payload").is_err() && read(b"").is_err());
    }
}
