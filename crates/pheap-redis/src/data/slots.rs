//! Which slot a key is in, as in a Redis cluster: CRC-16/XMODEM of the key, or of the part of it in braces.

/// Number of slots.
pub const SLOTS: usize = 16384;

/// The slot of a key.
pub fn slot(key: &[u8]) -> usize {
    usize::from(crc16(tag(key))) % SLOTS
}

/// The part of the key that counts: what is between the first `{` and the next `}`, if that is something.
fn tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|&byte| byte == b'{') else { return key };
    let inner = &key[open + 1..];
    match inner.iter().position(|&byte| byte == b'}') {
        None | Some(0) => key,
        Some(close) => &inner[..close],
    }
}

const TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut crc, mut bit) = ((byte as u16) << 8, 0);
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc: u16, &byte| crc << 8 ^ TABLE[usize::from((crc >> 8) as u8 ^ byte)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis() {
        assert_eq!(crc16(b"123456789"), 0x31c3); // the check value of the specification
        assert_eq!(slot(b"{user1000}.following"), slot(b"user1000"));
        assert_eq!(slot(b"foo{}{bar}"), usize::from(crc16(b"foo{}{bar}")) % SLOTS);
        assert_eq!(slot(b"foo{{bar}}zap"), slot(b"{bar"));
    }
}
