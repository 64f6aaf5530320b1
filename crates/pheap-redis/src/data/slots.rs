//! The hash slot of a key, as in a Redis cluster: CRC-16/XMODEM of the key, or of the part of it in braces,
//! modulo the number of slots.

use crc::{CRC_16_XMODEM, Crc, Table};

/// Number of slots.
pub const SLOTS: usize = 16384;

/// Returns the slot of a key.
pub fn slot(key: &[u8]) -> usize {
    usize::from(CRC.checksum(tag(key))) % SLOTS
}

/// Returns the part of the key that is hashed: the text between the first `{` and the next `}`, if both exist
/// and the text is not empty; else the whole key.
fn tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|&byte| byte == b'{') else { return key };
    let inner = &key[open + 1..];
    match inner.iter().position(|&byte| byte == b'}') {
        None | Some(0) => key,
        Some(close) => &inner[..close],
    }
}

static CRC: Crc<u16, Table<16>> = Crc::<u16, Table<16>>::new(&CRC_16_XMODEM);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis() {
        assert_eq!(CRC.checksum(b"123456789"), 0x31c3); // the check value of CRC-16/XMODEM
        assert_eq!(slot(b"{user1000}.following"), slot(b"user1000"));
        assert_eq!(slot(b"foo{}{bar}"), usize::from(CRC.checksum(b"foo{}{bar}")) % SLOTS);
        assert_eq!(slot(b"foo{{bar}}zap"), slot(b"{bar"));
    }
}
