//! The first page of a region: identity, state, name, and the commit word of its log.
//!
//! The byte map is in docs/design.md. Words 0 to 7 are one cache line; the name has two slots, like the heap's header.

use xxhash_rust::xxh3::xxh3_64;

use crate::error::{Error, Result};
use crate::faults::holds;
use crate::media::Media;
use crate::store::word::{VALUE_BITS, checked, with_check};
use crate::units::PAGE;

const MAGIC: u64 = u64::from_le_bytes(*b"\x89PREGIO\n");
/// Longest name of a root in bytes.
pub(crate) const MAX_NAME: usize = 255;
/// Bytes of a new region: its header and the first segment of its log.
pub(crate) const REGION_SIZE: u64 = 2 * PAGE;

const ID: usize = 1;
const TYPE: usize = 2;
const ROOT: usize = 3;
const REMOVED: usize = 4;
const GENERATION: usize = 5;
const CHECKSUM: usize = 7;

const NAME_SLOTS: [usize; 2] = [512, 1024];
const NAME_WORDS: usize = 3 + (MAX_NAME + 1) / 8; // sequence, length, text, checksum

/// What the word says that marks a removed region.
const REMOVED_MARK: u64 = u64::from_le_bytes(*b"removed\0");
/// The word that records where the root object is.
pub(crate) fn root_word(offset: u64) -> u64 {
    with_check(offset)
}

/// The offset that such a word records, 0 if none.
pub(crate) fn root_in(word: u64) -> Result<u64> {
    if word == 0 { Ok(0) } else { checked(word, "the root of a region") }
}

/// Where a region's header is mapped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RegionHeader {
    words: *mut u64,
}

impl RegionHeader {
    /// The header at `offset`.
    ///
    /// # Safety
    /// The span of a region is mapped there, relative to `base`.
    pub(crate) unsafe fn at(base: *mut u8, offset: u64) -> RegionHeader {
        // SAFETY: by the caller's promise.
        RegionHeader { words: unsafe { base.add(offset as usize).cast() } }
    }

    /// # Safety
    /// The header is mapped; the caller holds the lock that guards the word.
    unsafe fn get(self, word: usize) -> u64 {
        // SAFETY: by the caller's promise.
        unsafe { self.words.add(word).read_volatile() }
    }

    /// Where it is.
    pub(crate) fn addr(self) -> usize {
        self.words.addr()
    }

    fn check(id: u64, ty: u64, salt: u64) -> u64 {
        let bytes: Vec<u8> = [MAGIC, id, ty, salt].iter().flat_map(|w| w.to_le_bytes()).collect();
        xxh3_64(&bytes)
    }

    /// Writes the header of a region that is not complete: its root comes later. Durable on return.
    ///
    /// # Safety
    /// The page is mapped, and belongs to nobody else.
    pub(crate) unsafe fn create(
        self,
        media: &Media,
        id: u32,
        ty: u32,
        name: &str,
        generation: u64,
        salt: u64,
    ) {
        let (id, ty) = (u64::from(id), u64::from(ty));
        let words = [MAGIC, id, ty, 0, 0, with_check(generation), 0, Self::check(id, ty, salt)];
        let zeros = [0u8; REGION_SIZE as usize];
        // SAFETY: by the caller's promise.
        unsafe {
            media.store(self.words.cast(), zeros.as_ptr(), zeros.len());
            media.store(self.words.cast(), words.as_ptr().cast(), words.len() * 8);
            media.store(
                self.words.cast::<u8>().add(NAME_SLOTS[0]),
                name_slot(1, name).as_ptr(),
                NAME_WORDS * 8,
            );
            // SURVIVES delay log-entry: it is in the same record then as the entry of the span table, which makes it count.
            media.persist(self.words.cast(), zeros.len());
        }
    }

    /// Checks the header and returns the region's id and the type of its root.
    ///
    /// # Safety
    /// The header is mapped, and not written meanwhile.
    pub(crate) unsafe fn read(self, salt: u64) -> Result<(u32, u32)> {
        // SAFETY: by the caller's promise.
        self.read_through(salt, |at| unsafe { at.read_volatile() })
    }

    /// [`read`](Self::read), with `word` to tell what a word will be when the logs are replayed.
    pub(crate) fn read_through(self, salt: u64, word: impl Fn(*mut u64) -> u64) -> Result<(u32, u32)> {
        let get = |number| word(self.words.wrapping_add(number));
        let (magic, id, ty, sum) = (get(0), get(ID), get(TYPE), get(CHECKSUM));
        if magic != MAGIC || !holds(sum, Self::check(id, ty, salt)) || id == 0 {
            return Err(Error::corrupt("the header of a region has a wrong checksum"));
        }
        Ok((id as u32, ty as u32))
    }

    /// The region's id. It never changes; whether it is right is known when the header [can be read](Self::read_through).
    ///
    /// # Safety
    /// The header is mapped.
    pub(crate) unsafe fn id(self) -> u32 {
        // SAFETY: by the caller's promise.
        unsafe { self.get(ID) as u32 }
    }

    /// Offset of the root object; 0 as long as the region's creation is not complete.
    ///
    /// # Safety
    /// The header is mapped, and its region is locked or not open yet.
    pub(crate) unsafe fn root(self) -> Result<u64> {
        // SAFETY: by the caller's promise.
        root_in(unsafe { self.get(ROOT) })
    }

    /// Address of the word that holds the root's offset. A transaction writes it, like any object.
    pub(crate) fn root_word(self) -> *mut u64 {
        self.words.wrapping_add(ROOT)
    }

    /// Addresses of the words that transactions write, and hence logs may hold.
    pub(crate) fn logged_words(self) -> [*mut u64; 3] {
        [TYPE, ROOT, CHECKSUM].map(|word| self.words.wrapping_add(word))
    }

    /// What a transaction writes to these words to make the object at `offset`, of type `ty`, the root.
    ///
    /// # Safety
    /// The header is mapped.
    pub(crate) unsafe fn with_root(self, offset: u64, ty: u32, salt: u64) -> [u64; 3] {
        let ty = u64::from(ty);
        // SAFETY: by the caller's promise.
        let id = u64::from(unsafe { self.id() });
        [ty, root_word(offset), Self::check(id, ty, salt)]
    }

    /// # Safety
    /// The header is mapped, and its region is locked or not open yet.
    pub(crate) unsafe fn is_removed(self) -> Result<bool> {
        // SAFETY: by the caller's promise.
        match unsafe { self.get(REMOVED) } {
            0 => Ok(false),
            REMOVED_MARK => Ok(true),
            _ => Err(Error::corrupt("the state of a region is damaged")),
        }
    }

    /// Marks the region as removed; durable after a fence.
    ///
    /// # Safety
    /// The header is mapped, and the region is locked.
    #[track_caller]
    pub(crate) unsafe fn set_removed(self, media: &Media) {
        // SAFETY: by the caller's promise.
        unsafe {
            let word = self.words.add(REMOVED);
            media.store_word(word, REMOVED_MARK);
            media.flush(word.cast(), 8);
        }
    }

    /// # Safety
    /// The header is mapped, and the region is locked or not open yet.
    pub(crate) unsafe fn generation(self) -> Result<u64> {
        // SAFETY: by the caller's promise.
        let generation = checked(unsafe { self.get(GENERATION) }, "the log generation of a region")?;
        // A first generation has 47 bits, so that it can never have been counted up this far.
        if generation >> (VALUE_BITS - 8) == 0xff {
            return Err(Error::corrupt("the log generation of a region is out of range"));
        }
        Ok(generation)
    }

    /// Stores the generation of the log; durable after a fence.
    ///
    /// # Safety
    /// As for [`set_removed`](Self::set_removed).
    #[track_caller]
    pub(crate) unsafe fn set_generation(self, media: &Media, generation: u64) {
        // SAFETY: by the caller's promise.
        unsafe {
            let word = self.words.add(GENERATION);
            media.store_word(word, with_check(generation));
            media.flush(word.cast(), 8);
        }
    }

    /// The words of both name slots that are valid, with their sequence numbers.
    unsafe fn names(self) -> [Option<(u64, String)>; 2] {
        NAME_SLOTS.map(|slot| {
            // SAFETY: within the header's page.
            let words: [u64; NAME_WORDS] =
                unsafe { self.words.add(slot / 8).cast::<[u64; NAME_WORDS]>().read() };
            let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
            let sum = xxh3_64(&bytes[..(NAME_WORDS - 1) * 8]);
            let (sequence, len) = (words[0], words[1] as usize);
            if sequence == 0 || !holds(words[NAME_WORDS - 1], sum) || len > MAX_NAME {
                return None;
            }
            Some((sequence, String::from_utf8(bytes[16..16 + len].to_vec()).ok()?))
        })
    }

    /// The region's name.
    ///
    /// # Safety
    /// The header is mapped, and its name is not written meanwhile.
    pub(crate) unsafe fn name(self) -> Result<String> {
        // SAFETY: by the caller's promise.
        let names = unsafe { self.names() };
        let newest = names.into_iter().flatten().max_by_key(|(sequence, _)| *sequence);
        newest.map(|(_, name)| name).ok_or_else(|| Error::corrupt("a root has lost its name"))
    }

    /// Writes the name over the older one; durable on return.
    ///
    /// # Safety
    /// The header is mapped, and the caller holds the lock on the heap's metadata.
    #[track_caller]
    pub(crate) unsafe fn set_name(self, media: &Media, name: &str) {
        // SAFETY: by the caller's promise.
        let sequences = unsafe { self.names() }.map(|slot| slot.map_or(0, |(sequence, _)| sequence));
        let older = usize::from(sequences[0] > sequences[1]);
        let bytes = name_slot(sequences[1 - older] + 1, name);
        // SAFETY: within the header's page.
        unsafe {
            let slot = self.words.cast::<u8>().add(NAME_SLOTS[older]);
            media.store(slot, bytes.as_ptr(), bytes.len());
            media.persist(slot, bytes.len());
        }
    }
}

/// What a slot holds for a name.
fn name_slot(sequence: u64, name: &str) -> [u8; NAME_WORDS * 8] {
    let mut bytes = [0; NAME_WORDS * 8];
    bytes[..8].copy_from_slice(&sequence.to_le_bytes());
    bytes[8..16].copy_from_slice(&(name.len() as u64).to_le_bytes());
    bytes[16..16 + name.len()].copy_from_slice(name.as_bytes());
    let sum = xxh3_64(&bytes[..(NAME_WORDS - 1) * 8]);
    bytes[(NAME_WORDS - 1) * 8..].copy_from_slice(&sum.to_le_bytes());
    bytes
}
