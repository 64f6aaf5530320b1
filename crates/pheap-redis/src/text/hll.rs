//! HyperLogLogs in the format of Redis: they estimate how many different elements were added, in few bytes.
//!
//! There are 16384 registers. The hash of an element selects a register. Another part of the hash begins, at
//! its lowest bit, with some number of zeros. The register has the greatest such number of its elements plus
//! one, or 0 if it has no element.
//!
//! The string of a HyperLogLog begins with `HYLL`, a byte for the encoding, three zeros, and the cached
//! number of elements in 8 bytes, the lowest first. If the highest bit is set, the cached number is invalid.
//! The registers follow: six bits each, from the lowest bit of the first byte on (dense); or runs of equal
//! registers (sparse):
//!
//! | byte | run |
//! |---|---|
//! | `00nnnnnn` | n + 1 zeros |
//! | `01nnnnnn nnnnnnnn` | n + 1 zeros |
//! | `1vvvvvnn` | n + 1 times v + 1 |

/// Number of registers.
pub const REGISTERS: usize = 1 << 14;
/// Bytes before the registers.
const HEADER: usize = 16;
/// Length of a dense HyperLogLog.
const DENSE: usize = HEADER + REGISTERS * 6 / 8;
/// The greatest register value of a sparse HyperLogLog.
const GREATEST: u8 = 32;

/// The values of all registers.
pub type Registers = [u8; REGISTERS];

/// A HyperLogLog whose registers do not match its encoding.
#[derive(Debug, PartialEq, Eq)]
pub struct Corrupted;

/// The encoding of the registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// Six bits for each register.
    Dense,
    /// Runs of equal registers.
    Sparse,
}

/// Returns an empty HyperLogLog.
pub fn empty() -> Vec<u8> {
    let zeros = encode(0, REGISTERS);
    [b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\0", &zeros[..]].concat()
}

/// Returns the encoding. None if the string is no HyperLogLog.
pub fn encoding(hll: &[u8]) -> Option<Encoding> {
    match hll {
        [b'H', b'Y', b'L', b'L', 0, ..] if hll.len() == DENSE => Some(Encoding::Dense),
        [b'H', b'Y', b'L', b'L', 1, ..] if hll.len() >= HEADER => Some(Encoding::Sparse),
        _ => None,
    }
}

/// Returns the cached number of elements, if it is valid.
pub fn cached(hll: &[u8]) -> Option<u64> {
    let number = hll[8..HEADER].try_into().map_or(u64::MAX, u64::from_le_bytes);
    (number >> 63 == 0).then_some(number)
}

/// Returns the last bytes of the header for a valid cached number of elements.
pub fn cache(count: u64) -> [u8; 8] {
    count.to_le_bytes()
}

/// The position of the cached number of elements in a HyperLogLog.
pub const CACHE: std::ops::Range<usize> = 8..HEADER;

/// Marks the cached number as invalid. (As in Redis, the other bits stay.)
pub fn forget(cache: &mut [u8]) {
    if let Some(highest) = cache.last_mut() {
        *highest |= 0x80;
    }
}

/// Returns the register of an element, and the value for it.
pub fn pattern(element: &[u8]) -> (usize, u8) {
    let hash = murmur(element, 0xadc8_3b19);
    let rest = hash >> 14 | 1 << 50;
    ((hash % REGISTERS as u64) as usize, rest.trailing_zeros() as u8 + 1)
}

/// MurmurHash2 with 64 bits.
fn murmur(text: &[u8], seed: u64) -> u64 {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    let mut hash = seed ^ (text.len() as u64).wrapping_mul(M);
    let words = text.chunks_exact(8);
    let rest = words.remainder();
    for word in words {
        let mut k = word.try_into().map_or(0, u64::from_le_bytes).wrapping_mul(M);
        k = (k ^ k >> 47).wrapping_mul(M);
        hash = (hash ^ k).wrapping_mul(M);
    }
    if !rest.is_empty() {
        hash ^= rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        hash = hash.wrapping_mul(M);
    }
    hash = (hash ^ hash >> 47).wrapping_mul(M);
    hash ^ hash >> 47
}

/// Returns the place of a register in a dense HyperLogLog: the range of its two bytes (or one at the end),
/// and the number of bits before it.
pub fn place(register: usize) -> (std::ops::Range<usize>, u32) {
    let bit = 6 * register;
    let byte = HEADER + bit / 8;
    (byte..(byte + 2).min(DENSE), bit as u32 % 8)
}

fn word(bytes: &[u8]) -> u16 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u16::from(*byte))
}

/// Returns the value of a register from the bytes at its [`place`].
pub fn get(bytes: &[u8], shift: u32) -> u8 {
    (word(bytes) >> shift) as u8 & 63
}

/// Sets the value of a register in the bytes at its [`place`].
pub fn put(bytes: &mut [u8], shift: u32, value: u8) {
    let word = word(bytes) & !(63 << shift) | u16::from(value) << shift;
    bytes.iter_mut().zip(word.to_le_bytes()).for_each(|(byte, new)| *byte = new);
}

/// Decodes a run: the value, the number of registers, and the number of bytes of the encoding.
fn run(hll: &[u8], at: usize) -> (u8, usize, usize) {
    let byte = hll[at];
    let low = usize::from(byte & 63);
    match byte >> 6 {
        0 => (0, low + 1, 1),
        1 => (0, (low << 8 | usize::from(hll.get(at + 1).copied().unwrap_or(0))) + 1, 2),
        _ => ((byte >> 2 & 31) + 1, usize::from(byte & 3) + 1, 1),
    }
}

/// Returns the runs of a sparse HyperLogLog, as `run` decodes them.
pub fn runs(hll: &[u8]) -> impl Iterator<Item = (u8, usize, usize)> {
    let mut at = HEADER;
    std::iter::from_fn(move || {
        let found = (at < hll.len()).then(|| run(hll, at))?;
        at += found.2;
        Some(found)
    })
}

/// Encodes a run in one or two bytes.
fn encode(value: u8, len: usize) -> Vec<u8> {
    let rest = len - 1;
    match value {
        0 if rest < 64 => vec![rest as u8],
        0 => vec![0x40 | (rest >> 8) as u8, rest as u8],
        _ => vec![0x80 | (value - 1) << 2 | rest as u8],
    }
}

/// Raises the registers `all` to those of `hll` where these are greater.
pub fn merge(all: &mut Registers, hll: &[u8]) -> Result<(), Corrupted> {
    if encoding(hll) == Some(Encoding::Dense) {
        for (register, greatest) in all.iter_mut().enumerate() {
            let (bytes, shift) = place(register);
            *greatest = (*greatest).max(get(&hll[bytes], shift));
        }
        return Ok(());
    }
    let mut at = 0;
    for (value, len, _) in runs(hll) {
        let some = all.get_mut(at..at + len).ok_or(Corrupted)?;
        if value > 0 {
            some.iter_mut().for_each(|greatest| *greatest = (*greatest).max(value));
        }
        at += len;
    }
    if at == REGISTERS { Ok(()) } else { Err(Corrupted) }
}

/// Makes a sparse HyperLogLog dense. Returns whether it was sparse.
pub fn make_dense(hll: &mut Vec<u8>) -> Result<bool, Corrupted> {
    if encoding(hll) == Some(Encoding::Dense) {
        return Ok(false);
    }
    let mut registers = [0; REGISTERS];
    merge(&mut registers, hll)?;
    hll.truncate(HEADER);
    hll[4] = 0;
    hll.resize(DENSE, 0);
    for (register, value) in registers.into_iter().enumerate() {
        let (bytes, shift) = place(register);
        put(&mut hll[bytes], shift, value);
    }
    Ok(true)
}

/// Raises a register to `value`. Returns whether the register was less. A sparse HyperLogLog becomes dense if
/// it would grow beyond `most` bytes, or if the value does not fit.
pub fn set(hll: &mut Vec<u8>, register: usize, value: u8, most: usize) -> Result<bool, Corrupted> {
    if encoding(hll) == Some(Encoding::Sparse) {
        if let Some(is_set) = set_sparse(hll, register, value, most)? {
            return Ok(is_set);
        }
        make_dense(hll)?;
    }
    let (bytes, shift) = place(register);
    let is_greater = value > get(&hll[bytes.clone()], shift);
    if is_greater {
        put(&mut hll[bytes], shift, value);
    }
    Ok(is_greater)
}

/// Raises a register of a sparse HyperLogLog, as [`set`] does. Returns None if the HyperLogLog has to become
/// dense.
fn set_sparse(hll: &mut Vec<u8>, register: usize, value: u8, most: usize) -> Result<Option<bool>, Corrupted> {
    if value > GREATEST {
        return Ok(None);
    }
    let (mut at, mut first, mut before) = (HEADER, 0, HEADER);
    let (old, len, size) = loop {
        if at >= hll.len() {
            return Err(Corrupted);
        }
        let (old, len, size) = run(hll, at);
        if register < first + len {
            break (old, len, size);
        }
        (before, at, first) = (at, at + size, first + len);
    };
    if old >= value {
        return Ok(Some(false));
    }
    // The run is replaced by the part before the register, the register itself, and the part behind it.
    let mut new = Vec::with_capacity(5);
    if register > first {
        new.extend(encode(old, register - first));
    }
    new.extend(encode(value, 1));
    if register + 1 < first + len {
        new.extend(encode(old, first + len - register - 1));
    }
    if new.len() > size && hll.len() + new.len() - size > most {
        return Ok(None);
    }
    hll.splice(at..(at + size).min(hll.len()), new);
    join(hll, before);
    forget(&mut hll[CACHE]);
    Ok(Some(true))
}

/// Joins adjacent runs of the same value other than 0, if one run can have that many registers. As Redis
/// does, takes five steps from `at`: each joins two runs, or goes to the next.
fn join(hll: &mut Vec<u8>, mut at: usize) {
    for _ in 0..5 {
        if at >= hll.len() {
            return;
        }
        let (value, len, size) = run(hll, at);
        if value > 0 && at + 1 < hll.len() {
            let (next, more, _) = run(hll, at + 1);
            if next == value && len + more <= 4 {
                hll[at + 1] = encode(value, len + more)[0];
                hll.remove(at);
                continue;
            }
        }
        at += size;
    }
}

/// Counts the registers of a HyperLogLog with each value.
pub fn histogram(hll: &[u8]) -> Result<[u32; 64], Corrupted> {
    let mut histogram = [0; 64];
    if encoding(hll) == Some(Encoding::Dense) {
        // Three bytes have four registers.
        for bytes in hll[HEADER..].chunks_exact(3) {
            let four = bytes.iter().rev().fold(0, |word: u32, byte| word << 8 | u32::from(*byte));
            (0..4).for_each(|i| histogram[(four >> (6 * i)) as usize & 63] += 1);
        }
        return Ok(histogram);
    }
    let mut all = 0;
    for (value, len, _) in runs(hll) {
        histogram[usize::from(value)] += len as u32;
        all += len;
    }
    if all == REGISTERS { Ok(histogram) } else { Err(Corrupted) }
}

/// Counts the plain registers with each value.
pub fn histogram_of(registers: &Registers) -> [u32; 64] {
    let mut histogram = [0; 64];
    registers.iter().for_each(|value| histogram[usize::from(*value) & 63] += 1);
    histogram
}

/// Estimates the number of different elements, by Otmar Ertl, "New cardinality estimation algorithms for
/// HyperLogLog sketches", arXiv:1702.01284.
pub fn estimate(histogram: &[u32; 64]) -> u64 {
    const ALPHA: f64 = 0.721_347_520_444_481_7; // 1 / (2 ln 2)
    let m = REGISTERS as f64;
    let mut z = m * tau((m - f64::from(histogram[51])) / m);
    for &count in histogram[1..=50].iter().rev() {
        z = (z + f64::from(count)) * 0.5;
    }
    z += m * sigma(f64::from(histogram[0]) / m);
    (ALPHA * m * m / z).round() as u64
}

fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if z == before {
            return z;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x) * (1.0 - x) * y;
        if z == before {
            return z / 3.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sparse HyperLogLog, a dense one and plain registers agree.
    #[test]
    fn all_forms_say_the_same() {
        let (mut sparse, mut dense, mut registers) = (empty(), empty(), [0; REGISTERS]);
        make_dense(&mut dense).unwrap();
        for i in 0..20_000u32 {
            let (register, value) = pattern(&i.to_le_bytes());
            let is_set = set(&mut sparse, register, value, 3000).unwrap();
            assert_eq!(set(&mut dense, register, value, 0), Ok(is_set));
            assert_eq!(registers[register] < value, is_set);
            registers[register] = registers[register].max(value);
            if i.is_power_of_two() {
                let histogram = histogram_of(&registers);
                assert_eq!(super::histogram(&sparse).unwrap(), histogram);
                assert_eq!(super::histogram(&dense).unwrap(), histogram);
                let mut merged = [0; REGISTERS];
                merge(&mut merged, &sparse).unwrap();
                assert_eq!(merged, registers);
                let (count, exact) = (estimate(&histogram) as f64, f64::from(i + 1));
                assert!((count - exact).abs() <= (exact * 0.05).max(1.0), "{count} {exact}");
            }
            assert!(encoding(&sparse) == Some(Encoding::Dense) || sparse.len() <= 3000);
        }
        assert_eq!(encoding(&sparse), Some(Encoding::Dense));
        assert_eq!(estimate(&histogram(&empty()).unwrap()), 0);
    }

    #[test]
    fn runs_are_split_and_joined() {
        let mut hll = empty();
        let mut set = |register, value| {
            super::set(&mut hll, register, value, 3000).unwrap();
            runs(&hll).map(|(value, len, _)| (value, len)).collect::<Vec<_>>()
        };
        assert_eq!(set(1000, 2), [(0, 1000), (2, 1), (0, 15383)]);
        assert_eq!(set(1001, 2), [(0, 1000), (2, 2), (0, 15382)]);
        assert_eq!(set(1003, 2), [(0, 1000), (2, 2), (0, 1), (2, 1), (0, 15380)]);
        assert_eq!(set(1002, 2), [(0, 1000), (2, 4), (0, 15380)]);
        assert_eq!(set(1001, 3), [(0, 1000), (2, 1), (3, 1), (2, 2), (0, 15380)]);
        assert_eq!(set(16383, 1).last(), Some(&(1, 1)));
        assert_eq!(super::set(&mut hll, 0, 33, 3000), Ok(true));
        assert_eq!(encoding(&hll), Some(Encoding::Dense));
    }

    #[test]
    fn what_is_corrupted_is_noticed() {
        for tail in [&b"hello"[..], b"\x40", b"\xff"] {
            let mut hll = [&empty()[..], tail].concat();
            assert_eq!(histogram(&hll), Err(Corrupted));
            assert_eq!(merge(&mut [0; REGISTERS], &hll), Err(Corrupted));
            assert_eq!(make_dense(&mut hll), Err(Corrupted));
        }
        let mut short = empty();
        short.truncate(HEADER);
        assert_eq!(set(&mut short, 0, 1, 3000), Err(Corrupted));
        assert_eq!(encoding(&short[..8]), None);
        assert_eq!(encoding(b"HYLL\x02\0\0\0\0\0\0\0\0\0\0\0"), None);
    }
}
