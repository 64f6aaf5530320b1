//! Writes numbers and strings of RDB files.

use super::{encodings, lzf};
use crate::text::words;

/// Appends a length.
pub(super) fn put_length(out: &mut Vec<u8>, len: u64) {
    match len {
        ..64 => out.push(len as u8),
        64..16384 => out.extend_from_slice(&(len as u16 | 1 << 14).to_be_bytes()),
        16384..0x1_0000_0000 => {
            out.push(0x80);
            out.extend_from_slice(&(len as u32).to_be_bytes());
        }
        _ => {
            out.push(0x81);
            out.extend_from_slice(&len.to_be_bytes());
        }
    }
}

/// Appends a string: as a number if it is one of 32 bits, or compressed if that saves some bytes.
pub(super) fn put_string(out: &mut Vec<u8>, text: &[u8]) {
    let number = if text.len() <= 11 { words::int(text) } else { None };
    if let Some(number) = number.and_then(|number| i32::try_from(number).ok()) {
        let (encoding, len) = match number {
            -0x80..0x80 => (encodings::INT_8, 1),
            -0x8000..0x8000 => (encodings::INT_16, 2),
            _ => (encodings::INT_32, 4),
        };
        out.push(3 << 6 | encoding);
        out.extend_from_slice(&number.to_le_bytes()[..len]);
        return;
    }
    // As in Redis, strings of up to 20 bytes are not compressed.
    let compressed = if text.len() > 20 { lzf::compress(text) } else { None };
    match compressed {
        Some(compressed) => {
            out.push(3 << 6 | encodings::LZF);
            put_length(out, compressed.len() as u64);
            put_length(out, text.len() as u64);
            out.extend_from_slice(&compressed);
        }
        None => put_bytes(out, text),
    }
}

/// Appends a string as it is.
pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_length(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}
