//! Strings that were compressed by LZF (Marc Lehmann's library): runs of bytes, and references to what was before.

use super::{Error, Result};

/// The shortest reference, of three bytes, stands for so many.
const MOST_PER_REFERENCE: u64 = 7 + 255 + 2;

const DAMAGED: Error = Error::Corrupt("a compressed string is damaged");

/// What was compressed, which has this length.
pub(super) fn expand(mut rest: &[u8], len: u64) -> Result<Vec<u8>> {
    if len > rest.len() as u64 * MOST_PER_REFERENCE / 2 {
        return Err(DAMAGED);
    }
    let len = usize::try_from(len).map_err(|_| DAMAGED)?;
    let mut out: Vec<u8> = Vec::with_capacity(len);
    let byte = |rest: &mut &[u8]| {
        let (first, after) = rest.split_first().ok_or(DAMAGED)?;
        *rest = after;
        Ok::<_, Error>(usize::from(*first))
    };
    while !rest.is_empty() {
        let control = byte(&mut rest)?;
        if control < 32 {
            let (run, after) = rest.split_at_checked(control + 1).ok_or(DAMAGED)?;
            rest = after;
            out.extend_from_slice(run);
        } else {
            let mut copied = (control >> 5) + 2;
            if copied == 9 {
                copied += byte(&mut rest)?;
            }
            let back = ((control & 31) << 8 | byte(&mut rest)?) + 1;
            let start = out.len().checked_sub(back).ok_or(DAMAGED)?;
            if back >= copied {
                out.extend_from_within(start..start + copied);
            } else {
                // It overlaps what is being written.
                (start..start + copied).for_each(|at| out.push(out[at]));
            }
        }
        if out.len() > len {
            return Err(DAMAGED);
        }
    }
    if out.len() == len { Ok(out) } else { Err(DAMAGED) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressed_strings() {
        assert_eq!(expand(b"\x00a\xe0\x01\x00", 11).unwrap(), b"aaaaaaaaaaa");
        assert_eq!(expand(b"\x03abcd\x20\x03\x00e", 8).unwrap(), b"abcdabce");
        for (wrong, len) in [
            (&b"\x00a\xe0\x01\x01"[..], 11),
            (b"\x05a", 6),
            (b"\x00a\xe0\x01\x00", 10),
            (b"\x00a\xe0\x01\x00", 12),
            (b"\x00a\xe0\x01\x00", u64::MAX),
            (b"\x00a\xe0", 11),
        ] {
            assert!(expand(wrong, len).is_err());
        }
    }
}
