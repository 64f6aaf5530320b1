//! The first page of a region: its identity, state and name, and the generation of its log.
//!
//! The byte map is in docs/design.md. Words 0 to 7 are one cache line. The name has two slots, like the
//! heap's header.

use xxhash_rust::xxh3::xxh3_64;

use crate::error::{Error, Result};
use crate::faults::holds;
use crate::media::Media;
use crate::store::word::{VALUE_BITS, checked, with_check};
use crate::store::words::MetadataWords;
use crate::units::PAGE;

const MAGIC: u64 = u64::from_le_bytes(*b"\x89PREGIO\n");
/// Bytes of the longest name of a root.
pub(crate) const MAX_NAME: usize = 255;
/// Bytes of a new region: its header and the first segment of its log.
pub(crate) const REGION_SIZE: u64 = 2 * PAGE;

/// The largest id of a region. The next number still fits into 32 bits.
pub(crate) const LAST_ID: u32 = u32::MAX - 1;

const ID: usize = 1;
const TYPE: usize = 2;
const ROOT: usize = 3;
const REMOVED: usize = 4;
const GENERATION: usize = 5;
const CHECKSUM: usize = 7;
/// Number of words at the beginning of a region from which its identity is read.
const IDENTITY: usize = 8;

const NAME_SLOTS: [u64; 2] = [512, 1024];
/// Words of a name slot: sequence, length, text, checksum.
const NAME_WORDS: usize = 3 + (MAX_NAME + 1) / 8;

/// The word that marks a removed region.
const REMOVED_MARK: u64 = u64::from_le_bytes(*b"removed\0");
/// Returns the root word of a region, which records the offset of the root object.
pub(crate) fn root_word(offset: u64) -> u64 {
    with_check(offset)
}

/// Returns the offset of the root object that the root word of a region records; 0 if the word is zero.
pub(crate) fn root_in(word: u64) -> Result<u64> {
    if word == 0 { Ok(0) } else { checked(word, "the root of a region") }
}

/// The header of a region, where it is mapped. Once it was created and the heap is in use, a thread that
/// changes it has the region's lock, or, for the name, the lock of the heap's metadata.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RegionHeader {
    words: MetadataWords<'static>,
}

impl RegionHeader {
    /// Returns the header at `offset`.
    ///
    /// # Panics
    /// If the first [`REGION_SIZE`] bytes of the region are not within the heap, or `offset` is not a
    /// multiple of 8.
    pub(crate) fn from_offset(heap: MetadataWords<'static>, offset: u64) -> RegionHeader {
        RegionHeader { words: heap.part(offset, REGION_SIZE) }
    }

    /// Returns the offset in the heap of the header's word with this number.
    fn offset_of(self, word: usize) -> u64 {
        self.words.start() + word as u64 * 8
    }

    fn get(self, word: usize) -> u64 {
        self.words.get(self.offset_of(word))
    }

    /// Returns the address of the header.
    pub(crate) fn addr(self) -> usize {
        self.root_word().addr() - ROOT * 8
    }

    fn check(id: u64, ty: u64, salt: u64) -> u64 {
        let bytes: Vec<u8> = [MAGIC, id, ty, salt].iter().flat_map(|w| w.to_le_bytes()).collect();
        xxh3_64(&bytes)
    }

    /// Writes the header of a region that has no root yet. The last step is a [fence](Media::fence).
    pub(crate) fn create(self, media: &Media, id: u32, ty: u32, name: &str, generation: u64, salt: u64) {
        let (id, ty) = (u64::from(id), u64::from(ty));
        let words = [MAGIC, id, ty, 0, 0, with_check(generation), 0, Self::check(id, ty, salt)];
        let start = self.words.start();
        self.words.store(media, start, &[0; REGION_SIZE as usize / 8]);
        self.words.store(media, start, &words);
        self.words.store_bytes(media, start + NAME_SLOTS[0], &name_slot(1, name));
        // SURVIVES delay log-entry: a delayed header is in the same record as the entry of the span table,
        // without which the header does not count.
        media.persist(self.words.addr(start), REGION_SIZE as usize);
    }

    /// Checks the header, and returns the region's id and the type of its root.
    pub(crate) fn read(self, salt: u64) -> Result<(u32, u32)> {
        self.read_through(salt, |at| self.words.get(at))
    }

    /// [Reads](Self::read) the header through `word`, which returns the word at an offset as it will be after
    /// the logs are replayed.
    pub(crate) fn read_through(self, salt: u64, word: impl Fn(u64) -> u64) -> Result<(u32, u32)> {
        identity_in(std::array::from_fn(|number| word(self.offset_of(number))), salt)
    }

    /// Returns the region's id. The id never changes. It is known to be right once the header [was
    /// read](Self::read_through) without an error.
    pub(crate) fn id(self) -> u32 {
        self.get(ID) as u32
    }

    /// Returns the offset of the root object, 0 until the region's creation is complete.
    pub(crate) fn root(self) -> Result<u64> {
        root_in(self.get(ROOT))
    }

    /// Returns the address of the word with the root's offset. A transaction writes this word, like an
    /// object.
    pub(crate) fn root_word(self) -> *mut u64 {
        self.words.addr(self.offset_of(ROOT)).cast()
    }

    /// Returns the offsets of the words that transactions write, so that logs may hold them: type, root,
    /// checksum.
    pub(crate) fn logged_words(self) -> [u64; 3] {
        [TYPE, ROOT, CHECKSUM].map(|word| self.offset_of(word))
    }

    /// Returns the values of the [logged words](Self::logged_words) that make the object at `offset`, of type
    /// `ty`, the root.
    pub(crate) fn with_root(self, offset: u64, ty: u32, salt: u64) -> [u64; 3] {
        let (id, ty) = (u64::from(self.id()), u64::from(ty));
        [ty, root_word(offset), Self::check(id, ty, salt)]
    }

    pub(crate) fn is_removed(self) -> Result<bool> {
        removed_in(self.get(REMOVED))
    }

    /// Marks the region as removed, and flushes the mark. A fence must follow.
    #[track_caller]
    pub(crate) fn set_removed(self, media: &Media) {
        let at = self.offset_of(REMOVED);
        self.words.set(media, at, REMOVED_MARK);
        media.flush(self.words.addr(at), 8);
    }

    pub(crate) fn generation(self) -> Result<u64> {
        let generation = checked(self.get(GENERATION), "the log generation of a region")?;
        // A first generation has 47 bits, so counting up never leads to these generations.
        if generation >> (VALUE_BITS - 8) == 0xff {
            return Err(Error::corrupt("the log generation of a region is out of range"));
        }
        Ok(generation)
    }

    /// Stores the generation of the log, and flushes it. A fence must follow.
    #[track_caller]
    pub(crate) fn set_generation(self, media: &Media, generation: u64) {
        let at = self.offset_of(GENERATION);
        self.words.set(media, at, with_check(generation));
        media.flush(self.words.addr(at), 8);
    }

    /// Returns the name in each of the two name slots that is valid, with its sequence number.
    fn names(self) -> [Option<(u64, String)>; 2] {
        NAME_SLOTS.map(|slot| {
            let bytes = self.words.bytes(self.words.start() + slot, NAME_WORDS as u64 * 8);
            let word = |i: usize| {
                u64::from_le_bytes(*bytes[i * 8..].first_chunk().expect("a slot has as many words"))
            };
            let sum = xxh3_64(&bytes[..(NAME_WORDS - 1) * 8]);
            let (sequence, len) = (word(0), word(1) as usize);
            if sequence == 0 || !holds(word(NAME_WORDS - 1), sum) || len > MAX_NAME {
                return None;
            }
            Some((sequence, String::from_utf8(bytes[16..16 + len].to_vec()).ok()?))
        })
    }

    /// Returns the region's name.
    pub(crate) fn name(self) -> Result<String> {
        let newest = self.names().into_iter().flatten().max_by_key(|(sequence, _)| *sequence);
        newest.map(|(_, name)| name).ok_or_else(|| Error::corrupt("a root has lost its name"))
    }

    /// Writes the region's new name to the older name slot, and [persists](Media::persist) it. The caller has
    /// locked the heap's metadata.
    #[track_caller]
    pub(crate) fn set_name(self, media: &Media, name: &str) {
        let sequences = self.names().map(|slot| slot.map_or(0, |(sequence, _)| sequence));
        let older = usize::from(sequences[0] > sequences[1]);
        let bytes = name_slot(sequences[1 - older] + 1, name);
        let at = self.words.start() + NAME_SLOTS[older];
        self.words.store_bytes(media, at, &bytes);
        media.persist(self.words.addr(at), bytes.len());
    }
}

/// Returns the region's id and the type of its root, from the first words of its header.
fn identity_in(words: [u64; IDENTITY], salt: u64) -> Result<(u32, u32)> {
    let (id, ty) = (words[ID], words[TYPE]);
    if words[0] != MAGIC || !holds(words[CHECKSUM], RegionHeader::check(id, ty, salt)) {
        return Err(Error::corrupt("the header of a region has a wrong checksum"));
    }
    match (u32::try_from(id), u32::try_from(ty)) {
        (Ok(id), Ok(ty)) if (1..=LAST_ID).contains(&id) => Ok((id, ty)),
        _ => Err(Error::corrupt(format!("a region has the number {id}, and type {ty}"))),
    }
}

fn removed_in(word: u64) -> Result<bool> {
    match word {
        0 => Ok(false),
        REMOVED_MARK => Ok(true),
        _ => Err(Error::corrupt("the state of a region is damaged")),
    }
}

/// Returns whether words of unknown origin are the first words of the header of a region that has a root.
pub(crate) fn is_of_root(words: [u64; IDENTITY], salt: u64) -> bool {
    identity_in(words, salt).is_ok()
        && matches!(removed_in(words[REMOVED]), Ok(false))
        && matches!(root_in(words[ROOT]), Ok(root) if root != 0)
}

/// Returns the bytes of a name slot.
fn name_slot(sequence: u64, name: &str) -> [u8; NAME_WORDS * 8] {
    let mut bytes = [0; NAME_WORDS * 8];
    bytes[..8].copy_from_slice(&sequence.to_le_bytes());
    bytes[8..16].copy_from_slice(&(name.len() as u64).to_le_bytes());
    bytes[16..16 + name.len()].copy_from_slice(name.as_bytes());
    let sum = xxh3_64(&bytes[..(NAME_WORDS - 1) * 8]);
    bytes[(NAME_WORDS - 1) * 8..].copy_from_slice(&sum.to_le_bytes());
    bytes
}
