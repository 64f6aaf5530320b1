//! The header: the first two pages of the file, which are read before anything else.
//!
//! It has two slots with sequence numbers. A write goes to the older slot, and the newest valid slot counts.
//! So a crash during a write of the header loses nothing. The byte map is in docs/design.md.

#![deny(clippy::wildcard_enum_match_arm)]

use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

use crate::error::{Error, Result};
use crate::faults::{Bug, bug, holds};
use crate::media::{Media, MediumKind};
use crate::os::identity::FileIdentity;
use crate::store::words::MetadataWords;
use crate::units::{HEADER_SIZE, PAGE};
use crate::wal::WalIdentity;

/// The format that this program reads and writes.
pub(crate) const FORMAT: u32 = 3;
/// Feature flag: the logs of regions may hold [parts](crate::txn::parts) of records.
const HAS_PARTS: u64 = 1;
/// First word of a header slot. It is not text, so no text file begins with it.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"\x89PHEAP\r\n");

const WORDS: usize = 64;
/// Bytes of a header slot that are used.
pub(crate) const SLOT_SIZE: usize = WORDS * 8;
/// Largest number of [bases](Header::bases) in a header.
pub(crate) const MAX_BASES: usize = 4;
/// Address behind all addresses that a heap may have: the end of the half of the address space that programs
/// have on x86-64.
pub(crate) const END_OF_ADDRESSES: u64 = 1 << 47;

/// Whether the heap was in use, and with which medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeapUse {
    Closed,
    /// In use with this medium. With `Wal`, the newest transactions are in the log. With `Synced`, the heap
    /// was being prepared for a log, in its file.
    In(MediumKind),
}

impl HeapUse {
    /// Returns whether the logs of regions may have content that is not in place yet. A closed heap has
    /// everything in place, even if its logs are not empty, as in a backup. With a [write-ahead
    /// log](crate::wal), the logs of regions are not written, and their content may be older than that in
    /// place.
    pub(crate) fn needs_region_logs(self) -> bool {
        match self {
            HeapUse::Closed | HeapUse::In(MediumKind::Wal) => false,
            HeapUse::In(MediumKind::Process | MediumKind::Pmem | MediumKind::Synced) => true,
        }
    }

    /// Returns whether a power failure may have left the heap torn.
    pub(crate) fn is_torn_by_power_failure(self) -> bool {
        matches!(self, HeapUse::In(medium) if medium.is_torn_by_power_failure())
    }
}

/// The content of a header slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) sequence: u64,
    pub(crate) uuid: u128,
    /// Bytes of the arena unit: each arena is a multiple of it.
    pub(crate) arena_unit: u64,
    /// Bytes of the file that belong to the heap.
    pub(crate) mapped: u64,
    /// Bytes of addresses that are reserved for the heap.
    pub(crate) reserved: u64,
    /// A secret that is mixed into many checksums (of log entries and of types, for example), so that a
    /// program that does not know the salt cannot choose bytes that look like an entry or a type.
    pub(crate) salt: u64,
    /// First the base (address) at which the heap is mapped; then, while a relocation is incomplete, other
    /// bases that pointers may be relative to.
    pub(crate) bases: Vec<u64>,
    /// The boot in which the heap was last in use; 0 if it is unknown.
    pub(crate) boot: u128,
    pub(crate) in_use: HeapUse,
    /// Whether logs of regions may hold parts of records, which older programs do not know.
    pub(crate) has_parts: bool,
    /// Offset of the first extent of the type table.
    pub(crate) types: u64,
    /// Offset and length of the [bitmaps of live slots](crate::alloc::bitmaps), if the heap is closed and has
    /// them.
    pub(crate) live_slots: (u64, u64),
    /// Number of the heap's newest write-ahead log. If the heap is in use with a log, the log has this
    /// number.
    pub(crate) log: u64,
    /// The file in which the heap was last in use.
    pub(crate) identity: FileIdentity,
    /// The number of the newest run of the write-ahead log. It tells the log apart from that of a copy of the
    /// heap, whose number `log` may be equal.
    pub(crate) log_nonce: u64,
}

impl Header {
    /// Makes this the next header, for the other slot, and lets it say that the heap is complete and closed.
    pub(crate) fn complete(&mut self) {
        self.sequence += 1;
        self.in_use = HeapUse::Closed;
        // The logs of regions are empty, so they hold no parts of records.
        self.has_parts = false;
    }

    /// Returns the fields that identify the heap's write-ahead log.
    pub(crate) fn wal_identity(&self) -> WalIdentity {
        WalIdentity {
            uuid: self.uuid,
            salt: self.salt,
            id: self.log,
            nonce: self.log_nonce,
            in_use: self.in_use == HeapUse::In(MediumKind::Wal),
            mapped: self.mapped,
            reserved: self.reserved,
        }
    }

    fn to_words(&self) -> [u64; WORDS] {
        let mut w = [0; WORDS];
        w[0] = MAGIC;
        let flags = if self.has_parts { HAS_PARTS } else { 0 };
        w[1] = flags << 32 | u64::from(FORMAT);
        w[2] = self.sequence;
        (w[3], w[4]) = (self.uuid as u64, (self.uuid >> 64) as u64);
        w[5] = self.arena_unit;
        w[6] = self.mapped;
        w[7] = self.reserved;
        w[8] = self.salt;
        w[9] = self.bases.len() as u64;
        w[10..10 + self.bases.len()].copy_from_slice(&self.bases);
        (w[14], w[15]) = (self.boot as u64, (self.boot >> 64) as u64);
        w[16] = match self.in_use {
            HeapUse::Closed => 0,
            HeapUse::In(medium) => medium as u64,
        };
        w[17] = self.types;
        (w[18], w[19]) = self.live_slots;
        w[20] = self.log;
        w[21..25].copy_from_slice(&self.identity.to_words());
        w[25] = self.log_nonce;
        w[WORDS - 1] = checksum(&w);
        w
    }

    /// Returns the bytes of the header slot.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        self.to_words().iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn from_words(w: &[u64]) -> Result<Header> {
        let (format, flags) = (w[1] as u32, w[1] >> 32);
        if format < FORMAT && format > 0 && flags == 0 {
            return Err(Error::OlderFormat { found: format.into(), oldest: FORMAT.into() });
        }
        if format != FORMAT || flags & !HAS_PARTS != 0 {
            return Err(Error::NewerFormat {
                found: if flags & !HAS_PARTS != 0 { w[1] } else { format.into() },
                supported: FORMAT.into(),
            });
        }
        let header = Header {
            sequence: w[2],
            uuid: u128::from(w[3]) | u128::from(w[4]) << 64,
            arena_unit: w[5],
            mapped: w[6],
            reserved: w[7],
            salt: w[8],
            bases: w[10..10 + (w[9] as usize).min(MAX_BASES)].to_vec(),
            boot: u128::from(w[14]) | u128::from(w[15]) << 64,
            in_use: match w[16] {
                0 => HeapUse::Closed,
                number => HeapUse::In(MediumKind::from_number(number).ok_or_else(|| {
                    Error::corrupt(format!(
                        "the header has the unknown number {number} for how the heap is in use"
                    ))
                })?),
            },
            has_parts: flags & HAS_PARTS != 0,
            types: w[17],
            live_slots: (w[18], w[19]),
            log: w[20],
            identity: FileIdentity::from_words([w[21], w[22], w[23], w[24]]),
            log_nonce: w[25],
        };
        let sane = header.arena_unit.is_power_of_two()
            && header.arena_unit >= 8 * PAGE
            && header.reserved.is_power_of_two()
            && header.mapped.is_multiple_of(header.arena_unit)
            && (header.arena_unit..=header.reserved).contains(&header.mapped)
            && (1..=MAX_BASES as u64).contains(&w[9])
            && header.bases.iter().all(|&base| is_base(base, header.reserved))
            && (1..header.bases.len()).all(|i| !header.bases[..i].contains(&header.bases[i]))
            && header.sequence < 1 << 63
            && header.log < 1 << 48
            && header.types < header.mapped;
        if sane { Ok(header) } else { Err(Error::corrupt("the sizes in the header contradict each other")) }
    }

    /// Returns the salt of the checksums in the log of a region.
    pub(crate) fn log_identity(&self, region: u32) -> u64 {
        self.salt ^ u64::from(region).wrapping_mul(0xe703_7ed1_a0b4_28db)
    }

    /// Returns the first generation of the log of a new region. When a region is removed and the heap is
    /// opened again, its id and the pages of its log may be used again, but its generations must not. So the
    /// generation is a hash of, among others, the sequence number of the header, which each opening that
    /// changes the heap increases.
    pub(crate) fn first_generation(&self, region: u32) -> u64 {
        let words = [self.salt, self.sequence, u64::from(region)];
        // The hash is cut to 47 bits, so that the generation can be counted up within 48 bits.
        xxh3_64(&words.map(u64::to_le_bytes).concat()) >> 17 | 1
    }

    /// Returns the number of the slot for this header: 0 or 1, by the sequence number.
    pub(crate) fn slot_number(&self) -> usize {
        (self.sequence % 2) as usize
    }

    /// [Persists](Media::persist) the slot of the header that was read when the heap was opened, because the
    /// header may be in a cache only.
    #[track_caller]
    pub(crate) fn persist_again(&self, media: &Media, heap: MetadataWords<'_>) {
        media.persist(heap.addr(self.slot_number() as u64 * PAGE), SLOT_SIZE);
    }

    /// Writes the header with the next sequence number to the older slot, and
    /// [persists](MetadataWords::persist_directly) it. The medium or the log keeps a failure.
    #[track_caller]
    pub(crate) fn write(&mut self, media: &Media, heap: MetadataWords<'_>) {
        self.sequence += 1;
        let slot = self.slot_number() as u64 * PAGE;
        heap.store(media, slot, &self.to_words());
        heap.persist_directly(media, slot, SLOT_SIZE);
    }

    /// [Writes](Self::write) the header to both slots, one after the other. So one slot is whole at any time,
    /// and if one is damaged later, the other says the same. `sync` is called after each slot. After an
    /// error, nothing more is stored. If the write-ahead log fails to write a slot, this is no error here:
    /// the log keeps the failure, and its later calls return it.
    ///
    /// # Errors
    /// Those of `sync`, and of the medium's fences.
    pub(crate) fn write_both(
        &mut self,
        media: &Media,
        heap: MetadataWords<'_>,
        sync: impl Fn() -> Result<()>,
    ) -> Result<()> {
        for _ in 0..2 {
            self.write(media, heap);
            if !bug(Bug::OverlookFences) {
                media.check_fences()?;
            }
            sync()?;
        }
        Ok(())
    }
}

/// Returns whether `base` can be a base of a heap with `reserved` bytes of addresses. All bases of a heap are
/// multiples of its reservation, so the ranges at its bases do not overlap.
pub(crate) fn is_base(base: u64, reserved: u64) -> bool {
    base.is_multiple_of(reserved)
        && base >= PAGE
        && base.checked_add(reserved).is_some_and(|end| end <= END_OF_ADDRESSES)
}

fn checksum(words: &[u64]) -> u64 {
    let bytes: Vec<u8> = words[..WORDS - 1].iter().flat_map(|w| w.to_le_bytes()).collect();
    xxh3_64(&bytes)
}

/// Returns whether a torn write has left these bytes of a header slot: they are neither a valid header, nor
/// zero behind the first word.
pub(crate) fn is_torn(slot: &[u8]) -> bool {
    let words: Vec<u64> =
        slot.chunks_exact(8).map(|b| u64::from_le_bytes(b.try_into().expect("8 bytes"))).collect();
    let is_header = words.len() == WORDS && words[0] == MAGIC && words[WORDS - 1] == checksum(&words);
    !is_header && words.iter().skip(1).any(|&word| word != 0)
}

/// The result of reading the beginning of a file.
#[derive(Debug)]
pub(crate) enum FileStart {
    /// There is no heap yet: the file is empty, or its creation was cut short.
    Nothing,
    Header(Header),
}

/// Reads the two header slots. `bytes` is the beginning of the file, up to [`HEADER_SIZE`] bytes; `path` is
/// for messages.
pub(crate) fn read(bytes: &[u8], path: &Path) -> Result<FileStart> {
    if bytes.is_empty() {
        return Ok(FileStart::Nothing);
    }
    let short = (bytes.len() as u64) < HEADER_SIZE;
    let mut words: Vec<u64> =
        bytes.chunks_exact(8).map(|b| u64::from_le_bytes(b.try_into().expect("8 bytes"))).collect();
    let is_zero = bytes.iter().all(|&b| b == 0);
    words.resize(HEADER_SIZE as usize / 8, 0);
    let slots = [&words[..WORDS], &words[PAGE as usize / 8..][..WORDS]];

    if slots.iter().all(|slot| slot[0] != MAGIC) {
        // A crash before the first store of a creation leaves all zeros.
        return if is_zero && !short {
            Ok(FileStart::Nothing)
        } else {
            Err(Error::NotAHeap { path: path.to_owned() })
        };
    }
    if short {
        return Err(Error::Truncated { path: path.to_owned(), have: bytes.len() as u64, need: HEADER_SIZE });
    }
    let newest = slots
        .into_iter()
        .filter(|slot| slot[0] == MAGIC && holds(slot[WORDS - 1], checksum(slot)))
        .max_by_key(|slot| slot[2]);
    match newest {
        Some(slot) => Header::from_words(slot).map(FileStart::Header),
        // The first header goes to slot 1, and slot 0 has only the magic until that header is complete. So
        // this heap was never used.
        None if slots[0][0] == MAGIC && slots[0][1..].iter().all(|&w| w == 0) => Ok(FileStart::Nothing),
        None => Err(Error::corrupt("both headers have wrong checksums")),
    }
}

/// Marks the file as a heap whose creation has begun.
///
/// # Errors
/// The error of the medium's fence. After an error, nothing else must be stored.
#[track_caller]
pub(crate) fn begin_creation(media: &Media, heap: MetadataWords<'_>) -> Result<()> {
    heap.set(media, 0, MAGIC);
    media.persist(heap.addr(0), 8);
    media.check_fences()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn header(sequence: u64) -> Header {
        Header {
            sequence,
            uuid: 7 << 70 | 3,
            arena_unit: 1 << 26,
            mapped: 1 << 27,
            reserved: 1 << 37,
            salt: 99,
            bases: vec![1 << 44],
            boot: 5,
            in_use: HeapUse::In(MediumKind::Pmem),
            has_parts: true,
            types: 4096,
            live_slots: (8192, 80),
            log: 3,
            identity: FileIdentity { device: 4, inode: 5, file_system: 6, created: 7 },
            log_nonce: 9,
        }
    }

    fn file(slots: [Option<&Header>; 2]) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_SIZE as usize];
        for (i, slot) in slots.into_iter().enumerate() {
            for (j, word) in slot.map_or([0; WORDS], Header::to_words).into_iter().enumerate() {
                bytes[i * PAGE as usize + j * 8..][..8].copy_from_slice(&word.to_le_bytes());
            }
        }
        bytes
    }

    fn found(bytes: &[u8]) -> Header {
        match read(bytes, Path::new("x")).unwrap() {
            FileStart::Header(header) => header,
            FileStart::Nothing => panic!("no header"),
        }
    }

    #[test]
    fn the_newest_valid_slot_wins() {
        let (a, b) = (header(4), header(5));
        let mut bytes = file([Some(&a), Some(&b)]);
        assert_eq!(found(&bytes), b);
        // The newer slot is torn.
        bytes[PAGE as usize + 20] ^= 1;
        assert_eq!(found(&bytes), a);
        bytes[20] ^= 1;
        assert!(matches!(read(&bytes, Path::new("x")), Err(Error::Corrupt { .. })));
    }

    #[test]
    fn a_creation_cut_short_is_no_heap_yet() {
        let mut bytes = vec![0; HEADER_SIZE as usize];
        assert!(matches!(read(&bytes, Path::new("x")), Ok(FileStart::Nothing)));
        bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
        assert!(matches!(read(&bytes, Path::new("x")), Ok(FileStart::Nothing)));
        // Slot 1 has only the beginning of the first header: its writing was cut short.
        let whole = file([None, Some(&header(1))]);
        bytes[PAGE as usize..][..100].copy_from_slice(&whole[PAGE as usize..][..100]);
        assert!(matches!(read(&bytes, Path::new("x")), Ok(FileStart::Nothing)));
    }

    #[test]
    fn other_files_are_refused() {
        assert!(matches!(read(b"hello", Path::new("x")), Err(Error::NotAHeap { .. })));
        assert!(matches!(read(&[0; 100], Path::new("x")), Err(Error::NotAHeap { .. })));
        assert!(matches!(read(&[1; 9000], Path::new("x")), Err(Error::NotAHeap { .. })));
        let bytes = file([Some(&header(4)), None]);
        assert!(matches!(read(&bytes[..600], Path::new("x")), Err(Error::Truncated { .. })));
    }

    #[test]
    fn what_a_torn_write_leaves_is_told_from_headers_and_from_nothing() {
        let whole = header(7).to_bytes();
        let magic = [&MAGIC.to_le_bytes()[..], &[0; SLOT_SIZE - 8]].concat();
        for bytes in [&whole[..], &[0; SLOT_SIZE], &magic] {
            assert!(!is_torn(bytes));
        }
        for word in 0..WORDS {
            let mut torn = whole.to_vec();
            torn[word * 8] ^= 1;
            assert!(is_torn(&torn), "{word}");
        }
    }
}
