//! Libraries as `FUNCTION DUMP` writes them, and as Redis does: in the format of RDB files.

/// A library follows.
const LIBRARY: u8 = 245;

/// The version of RDB files.
const VERSION: u16 = 10;

/// The texts of libraries, with a version and a checksum.
pub(super) fn write<'t>(texts: impl Iterator<Item = &'t [u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    for text in texts {
        out.push(LIBRARY);
        match text.len() {
            len @ ..64 => out.push(len as u8),
            len @ ..16384 => out.extend_from_slice(&(len as u16 | 1 << 14).to_be_bytes()),
            len => {
                out.push(0x80);
                out.extend_from_slice(&(len as u32).to_be_bytes());
            }
        }
        out.extend_from_slice(text);
    }
    out.extend_from_slice(&VERSION.to_le_bytes());
    let sum = crc64(&out);
    out.extend_from_slice(&sum.to_le_bytes());
    out
}

/// The texts of the libraries in a dump.
///
/// # Errors
/// What is wrong with it.
pub(super) fn read(dump: &[u8]) -> Result<Vec<Vec<u8>>, &'static str> {
    const WRONG: &str = "DUMP payload version or checksum are wrong";
    let (all, sum) = dump.split_last_chunk().ok_or(WRONG)?;
    let (mut rest, version) = all.split_last_chunk().ok_or(WRONG)?;
    let sum = u64::from_le_bytes(*sum);
    if u16::from_le_bytes(*version) > VERSION || sum != 0 && sum != crc64(all) {
        return Err(WRONG);
    }
    let mut texts = Vec::new();
    while let Some((kind, after)) = rest.split_first() {
        if *kind != LIBRARY {
            return Err("given type is not a function");
        }
        rest = after;
        texts.push(string(&mut rest).ok_or("failed loading the given functions payload")?);
    }
    Ok(texts)
}

fn take<'d>(rest: &mut &'d [u8], len: usize) -> Option<&'d [u8]> {
    let (taken, after) = rest.split_at_checked(len)?;
    *rest = after;
    Some(taken)
}

/// A length, or, with the first two bits set, what kind of string follows.
fn length(rest: &mut &[u8]) -> Option<Result<usize, u8>> {
    let first = take(rest, 1)?[0];
    Some(match (first >> 6, first) {
        (0, _) => Ok(usize::from(first)),
        (1, _) => Ok(usize::from(first & 63) << 8 | usize::from(take(rest, 1)?[0])),
        (2, 0x80) => Ok(u32::from_be_bytes(take(rest, 4)?.try_into().ok()?) as usize),
        (2, 0x81) => Ok(usize::try_from(u64::from_be_bytes(take(rest, 8)?.try_into().ok()?)).ok()?),
        (3, _) => Err(first & 63),
        _ => return None,
    })
}

fn string(rest: &mut &[u8]) -> Option<Vec<u8>> {
    match length(rest)? {
        Ok(len) => take(rest, len).map(<[u8]>::to_vec),
        // Compressed: both lengths, and the bytes.
        Err(3) => {
            let (compressed, len) = (length(rest)?.ok()?, length(rest)?.ok()?);
            expand(take(rest, compressed)?, len)
        }
        Err(_) => None,
    }
}

/// What was compressed by LZF.
fn expand(mut rest: &[u8], len: usize) -> Option<Vec<u8>> {
    let mut out: Vec<u8> = Vec::new();
    while !rest.is_empty() {
        let control = usize::from(take(&mut rest, 1)?[0]);
        if control < 32 {
            out.extend_from_slice(take(&mut rest, control + 1)?);
        } else {
            let mut copied = control >> 5;
            if copied == 7 {
                copied += usize::from(take(&mut rest, 1)?[0]);
            }
            let back = ((control & 31) << 8 | usize::from(take(&mut rest, 1)?[0])) + 1;
            let start = out.len().checked_sub(back)?;
            // It may overlap what is being written.
            (start..start + copied + 2).for_each(|at| out.push(out[at]));
        }
        if out.len() > len {
            return None;
        }
    }
    (out.len() == len).then_some(out)
}

const TABLE: [u64; 256] = {
    // The polynomial of Jones, its bits in reverse.
    const POLYNOMIAL: u64 = 0x95ac_9329_ac4b_c9b5;
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut crc, mut bit) = (byte as u64, 0);
        while bit < 8 {
            crc = if crc & 1 == 0 { crc >> 1 } else { crc >> 1 ^ POLYNOMIAL };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

fn crc64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |crc: u64, byte| crc >> 8 ^ TABLE[usize::from(crc as u8 ^ byte)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        assert_eq!(crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca); // the check value that Redis has
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

    #[test]
    fn compressed_strings() {
        assert_eq!(expand(b"\x00a\xe0\x01\x00", 11).unwrap(), b"aaaaaaaaaaa");
        assert_eq!(expand(b"\x00a\xe0\x01\x01", 11), None);
        assert_eq!(expand(b"\x05a", 6), None);
    }
}
