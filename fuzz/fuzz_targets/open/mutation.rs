//! Mutations that damage the files of a heap.

use std::ops::Range;

use arbitrary::Arbitrary;

use crate::image::{HEAP, Image, LOG, PAGE, Section};

/// A mutation. Sections and most places are taken modulo their number.
#[derive(Arbitrary, Debug)]
pub enum Mutation {
    Flip {
        section: u8,
        at: u16,
        bit: u8,
    },
    Set {
        section: u8,
        word: u16,
        to: Value,
    },
    Copy {
        from: (u8, u16),
        to: (u8, u16),
        words: u8,
    },
    Zero {
        section: u8,
        word: u16,
        words: u8,
    },
    /// Sets a byte, for texts, lengths and codes.
    Byte {
        section: u8,
        at: u16,
        to: u8,
    },
    /// Cuts a file off, or extends it.
    Length {
        log: bool,
        pages: i8,
        bytes: i16,
    },
    /// Copies pages of another heap, to the same place or another one.
    Graft {
        template: u8,
        log: bool,
        from: u8,
        to: u8,
        pages: u8,
    },
    /// Sets four bytes at any place of a file.
    Bytes {
        log: bool,
        at: u32,
        bytes: [u8; 4],
    },
    /// Writes a log entry over an existing one, or after the last one.
    Entry {
        which: u8,
        undo: bool,
        section: u8,
        word: u16,
        to: Value,
        words: u8,
    },
}

/// The new value of a word.
#[derive(Arbitrary, Debug)]
pub enum Value {
    Any(u64),
    Small(u8),
    /// Slightly more or less than the old value.
    Near(i8),
    /// The offset of a page in the file.
    Page(u8),
    Power(u8),
    Max,
    /// The address of a word.
    Address {
        section: u8,
        word: u16,
    },
    /// The value of another word.
    Other {
        section: u8,
        word: u16,
    },
}

/// The parts of a heap that may be damaged.
pub struct Damage<'t> {
    /// Whether objects may be damaged, and mutations may reach any byte. Opening trusts objects, unless it
    /// verifies the heap.
    pub all: bool,
    pub templates: &'t [Image],
}

const MAX_LEN: i64 = 1 << 20;

impl Image {
    fn section(&self, damage: &Damage<'_>, number: u8) -> Option<&Section> {
        let objects = if damage.all { &self.objects[..] } else { &[] };
        let all = self.tables.len() + objects.len();
        let at = usize::from(number).checked_rem(all)?;
        Some(self.tables.get(at).unwrap_or_else(|| &objects[at - self.tables.len()]))
    }

    fn byte_of(&self, damage: &Damage<'_>, section: u8, at: u16) -> Option<(usize, usize)> {
        let Section { file, range } = self.section(damage, section)?;
        Some((*file, range.start + usize::from(at) % range.len()))
    }

    fn word_of(&self, damage: &Damage<'_>, section: u8, word: u16) -> Option<(usize, usize)> {
        let Section { file, range } = self.section(damage, section)?;
        Some((*file, range.start + usize::from(word) % (range.len() / 8) * 8))
    }

    /// Returns the range of up to `words` words within a section.
    fn words_of(
        &self,
        damage: &Damage<'_>,
        section: u8,
        word: u16,
        words: u8,
    ) -> Option<(usize, Range<usize>)> {
        let (file, start) = self.word_of(damage, section, word)?;
        let end = self.section(damage, section)?.range.end;
        Some((file, start..(start + usize::from(words) * 8).min(end)))
    }

    fn value(&self, damage: &Damage<'_>, (file, at): (usize, usize), to: &Value) -> u64 {
        match *to {
            Value::Any(value) => value,
            Value::Small(value) => value.into(),
            Value::Near(by) => self.word(file, at).wrapping_add_signed(by.into()),
            Value::Page(page) => u64::from(page) * PAGE as u64,
            Value::Power(exponent) => 1 << (exponent % 64),
            Value::Max => u64::MAX,
            Value::Address { section, word } => {
                let place = self.word_of(damage, section, word);
                self.base.wrapping_add(place.map_or(0, |(_, at)| at as u64))
            }
            Value::Other { section, word } => {
                self.word_of(damage, section, word).map_or(0, |(file, at)| self.word(file, at))
            }
        }
    }

    /// Does a mutation. Returns `None` if there is no place for it.
    pub fn apply(&mut self, damage: &Damage<'_>, mutation: &Mutation) -> Option<()> {
        match *mutation {
            Mutation::Flip { section, at, bit } => {
                let (file, at) = self.byte_of(damage, section, at)?;
                *self.files[file].get_mut(at)? ^= 1 << (bit % 8);
            }
            Mutation::Byte { section, at, to } => {
                let (file, at) = self.byte_of(damage, section, at)?;
                *self.files[file].get_mut(at)? = to;
            }
            Mutation::Set { section, word, ref to } => {
                let (file, at) = self.word_of(damage, section, word)?;
                self.set_word(file, at, self.value(damage, (file, at), to));
            }
            Mutation::Copy { from, to, words } => {
                let (from_file, from) = self.words_of(damage, from.0, from.1, words)?;
                let (to_file, to) = self.words_of(damage, to.0, to.1, words)?;
                let len = from.len().min(to.len());
                let bytes = self.files[from_file].get(from.start..from.start + len)?.to_vec();
                self.files[to_file].get_mut(to.start..to.start + len)?.copy_from_slice(&bytes);
            }
            Mutation::Zero { section, word, words } => {
                let (file, range) = self.words_of(damage, section, word, words)?;
                self.files[file].get_mut(range)?.fill(0);
            }
            Mutation::Length { log, pages, bytes } => {
                let file = &mut self.files[if log { LOG } else { HEAP }];
                let len = file.len() as i64 + i64::from(pages) * PAGE as i64 + i64::from(bytes);
                file.resize(len.clamp(0, MAX_LEN) as usize, 0);
            }
            Mutation::Graft { .. } | Mutation::Bytes { .. } | Mutation::Entry { .. } if !damage.all => {
                return None;
            }
            Mutation::Graft { template, log, from, to, pages } => {
                let file = if log { LOG } else { HEAP };
                let other = &damage.templates[usize::from(template) % damage.templates.len()].files[file];
                let page =
                    |n: u8, of: &Vec<u8>| usize::from(n).checked_rem(of.len() / PAGE).map(|n| n * PAGE);
                let (from, to) = (page(from, other)?, page(to, &self.files[file])?);
                let len = (usize::from(pages % 16) + 1) * PAGE;
                let len = len.min(other.len() - from).min(self.files[file].len() - to);
                self.files[file][to..to + len].copy_from_slice(&other[from..from + len]);
            }
            Mutation::Bytes { log, at, bytes } => {
                let file = &mut self.files[if log { LOG } else { HEAP }];
                let at = (at as usize).checked_rem(file.len())?;
                let len = bytes.len().min(file.len() - at);
                file[at..at + len].copy_from_slice(&bytes[..len]);
            }
            Mutation::Entry { which, undo, section, word, ref to, words } => {
                let entries = &self.seals.entries;
                let entry = *entries.get(usize::from(which).checked_rem(entries.len())?)?;
                let place = self.word_of(damage, section, word)?;
                let value = self.value(damage, place, to);
                let words = u64::from(words % 4) + 1;
                let kind = u64::from(undo) << 32;
                let range = place.1 as u64 / 8 | words << 40;
                let values = (0..words)
                    .map(|i| if i == 0 { value } else { self.word(place.0, place.1 + i as usize * 8) });
                let new: Vec<u64> = [0, kind | (3 + words), range].into_iter().chain(values).collect();
                for (i, word) in new.into_iter().enumerate() {
                    self.set_word(entry.file, entry.at + i * 8, word);
                }
            }
        }
        Some(())
    }
}
