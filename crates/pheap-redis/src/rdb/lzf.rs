//! Compresses and expands strings by LZF (the format of Marc Lehmann's library): literal runs, and references
//! to earlier bytes.

use super::{Error, Result};

/// The most bytes of the text that one reference stands for. Such a reference takes three bytes.
const MOST_PER_REFERENCE: u64 = 7 + 255 + 2;

/// The least and the most bytes of the text that one reference stands for.
const LEAST: usize = 3;
const MOST: usize = MOST_PER_REFERENCE as usize;
/// The greatest distance of a reference.
const REACH: usize = 1 << 13;
/// The most bytes of a literal run.
const RUN: usize = 32;

const DAMAGED: Error = Error::Corrupt("a compressed string is damaged");

/// Expands a compressed string to `len` bytes. Fails if it has another length.
pub(super) fn expand(mut rest: &[u8], len: u64) -> Result<Vec<u8>> {
    if len > rest.len() as u64 * MOST_PER_REFERENCE / 2 {
        return Err(DAMAGED);
    }
    let len = usize::try_from(len).map_err(|_| DAMAGED)?;
    let mut out: Vec<u8> = Vec::new();
    // `len` is up to 132 times the input, which may be more memory than the system has.
    out.try_reserve_exact(len).map_err(|_| DAMAGED)?;
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
                // The source overlaps the destination.
                (start..start + copied).for_each(|at| out.push(out[at]));
            }
        }
        if out.len() > len {
            return Err(DAMAGED);
        }
    }
    if out.len() == len { Ok(out) } else { Err(DAMAGED) }
}

/// Compresses a text. Returns None if that does not save at least four bytes.
pub(super) fn compress(text: &[u8]) -> Option<Vec<u8>> {
    let bits = text.len().clamp(64, REACH).next_power_of_two().ilog2();
    // For each hash of three bytes: one more than the last position in the text that was looked up with this
    // hash; or 0.
    let mut last = vec![0u32; 1 << bits];
    let most = text.len().checked_sub(4)?;
    let mut out = Vec::with_capacity(most);
    let (mut at, mut run) = (0, 0);
    while at < text.len() {
        let found = text.get(at..at + LEAST).and_then(|three| {
            let key = u32::from_le_bytes([three[0], three[1], three[2], 0]);
            let place = &mut last[(key.wrapping_mul(0x9e37_79b1) >> (32 - bits)) as usize];
            let before = std::mem::replace(place, u32::try_from(at + 1).ok()?).checked_sub(1)? as usize;
            (at - before <= REACH && text[before..].starts_with(three)).then_some(before)
        });
        let Some(before) = found else {
            at += 1;
            continue;
        };
        put_runs(&mut out, &text[run..at]);
        let alike = text[before..].iter().zip(&text[at..]).take(MOST).take_while(|(a, b)| a == b).count();
        let (copied, back) = (alike - 2, at - before - 1);
        if copied < 7 {
            out.push((copied << 5 | back >> 8) as u8);
        } else {
            out.extend([(7 << 5 | back >> 8) as u8, (copied - 7) as u8]);
        }
        out.push(back as u8);
        at += alike;
        run = at;
        if out.len() > most {
            return None;
        }
    }
    put_runs(&mut out, &text[run..]);
    (out.len() <= most).then_some(out)
}

fn put_runs(out: &mut Vec<u8>, bytes: &[u8]) {
    for run in bytes.chunks(RUN) {
        out.push(run.len() as u8 - 1);
        out.extend_from_slice(run);
    }
}

#[cfg(test)]
mod tests {
    use pheap_testkit::Rng;

    use super::*;

    #[test]
    fn what_is_compressed_is_expanded() {
        let mut random = Rng::new(&[1]);
        for _ in 0..2000 {
            let mut text = Vec::new();
            for _ in 0..random.below(40) {
                let piece: Vec<u8> = (0..1 + random.below(40)).map(|_| random.below(4) as u8).collect();
                let most = random.below(400) + 1;
                text.extend(piece.repeat(1 + random.below(most)));
            }
            if let Some(compressed) = compress(&text) {
                assert!(compressed.len() + 4 <= text.len());
                assert!(expand(&compressed, text.len() as u64).unwrap() == text);
            }
        }
    }

    #[test]
    fn repetitions_are_compressed() {
        assert_eq!(compress(&[b'x'; 1000]).unwrap().len(), 14);
        assert_eq!(compress(b"none of this"), None);
        assert_eq!(compress(b""), None);
    }

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
            (&[0xff; 1 << 20], 132 << 20),
            (b"\x00a\xe0", 11),
        ] {
            assert!(expand(wrong, len).is_err());
        }
    }
}
