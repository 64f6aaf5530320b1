//! The content of the heap: the words, and the lines that use them.
//!
//! ```text
//! Index ─┬─ words   "heap" ──→ Word ── uses   [ Use  Use  Use … ]       a hash map, and a vector for each word
//!        │                                        ↓ each use points to its file
//!        └─ files   "README.md" ──→ File                                an ordered map
//! ```
//!
//! These are plain Rust structs, pointers and collections. The code below does not deal with storage. It
//! always runs inside the caller's transaction, because there is no other way to get a `Txn`. So it cannot
//! leave a change half done.

use std::collections::HashSet;

use pheap::{Key, P, PBTreeMap, PHashMap, PVec, Persist, Result, Txn, field, txn};

/// The root of the heap. The program reads its fields directly (`view[index].words.get(view, "heap")`), and
/// changes them with the functions below.
#[derive(Persist, Default)]
#[repr(C)]
pub struct Index<'r> {
    /// The words, by text. A word is a separate object, so that the vector in it can be changed in place.
    pub words: PHashMap<'r, P<'r, str>, P<'r, Word<'r>>>,
    /// The files, by name. A file is a separate object, because uses point to it.
    pub files: PBTreeMap<'r, P<'r, str>, P<'r, File<'r>>>,
}

#[derive(Persist, Default)]
#[repr(C)]
pub struct Word<'r> {
    /// Number of uses: the sum over `uses`.
    pub times: u64,
    /// The lines that use it, in the order in which they were added.
    pub uses: PVec<'r, Use<'r>>,
}

/// A line that uses a word.
#[derive(Persist, Clone, Copy)]
#[repr(C)]
pub struct Use<'r> {
    pub file: P<'r, File<'r>>,
    pub line: u32,
    pub times: u32,
}

/// A file whose words are in the index: all of them, or those of its first lines.
#[derive(Persist)]
#[repr(C)]
pub struct File<'r> {
    pub name: P<'r, str>,
    /// Hash of the content, to detect changes.
    pub content: u64,
    pub state: State,
}

/// The indexed part of a file. The transaction that adds words changes it, too, so the two always agree.
#[derive(Persist, Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum State {
    /// This many lines are indexed, from the first one on.
    UpTo(u32),
    Complete,
}

impl<'r> Index<'r> {
    /// Adds a file without any words.
    pub fn add_file(
        index: P<'r, Self>,
        tx: &mut Txn<'r>,
        name: &str,
        content: u64,
    ) -> Result<P<'r, File<'r>>> {
        let file = tx.alloc(File { name: tx.alloc_str(name)?, content, state: State::UpTo(0) })?;
        field!(index.files).insert(tx, name, file)?;
        Ok(file)
    }

    /// Counts one use of the word `text`.
    pub fn add_use(
        index: P<'r, Self>,
        tx: &mut Txn<'r>,
        text: &str,
        file: P<'r, File<'r>>,
        line: u32,
    ) -> Result<()> {
        let words = field!(index.words);
        let word = match words.get(tx, text) {
            Some(&word) => word,
            None => {
                let word = tx.alloc(Word::default())?;
                words.insert(tx, text, word)?;
                word
            }
        };
        Word::add_use(word, tx, file, line)
    }

    /// Removes files from the index, all uses in them, and the words that have no other use.
    pub fn forget(index: P<'r, Self>, tx: &mut Txn<'r>, names: &HashSet<String>) -> Result<()> {
        let (words, files) = (field!(index.words), field!(index.files));
        let gone: HashSet<_> = names.iter().filter_map(|name| files.remove(tx, name)).map(P::key).collect();
        let all: Vec<_> = words.iter(tx).map(|(text, &word)| (text.to_owned(), word)).collect();
        for (text, word) in all {
            Word::forget(word, tx, &gone);
            if tx[word].uses.is_empty() {
                words.remove(tx, &text);
            }
        }
        Ok(()) // unreachable objects are garbage; the collector frees them
    }
}

impl<'r> Word<'r> {
    #[txn] // logs the counter only, not the whole word
    fn add_use(word: P<'r, Self>, tx: &mut Txn<'r>, file: P<'r, File<'r>>, line: u32) -> Result<()> {
        tx[word].times += 1;
        let uses = field!(word.uses);
        match tx[word].uses.last(tx) {
            Some(last) if last.file == file && last.line == line => {
                let last = uses.len(tx) - 1;
                uses.get_mut(tx, last).expect("there is one").times += 1;
                Ok(())
            }
            _ => uses.push(tx, Use { file, line, times: 1 }),
        }
    }

    /// Removes the uses in these files.
    fn forget(word: P<'r, Self>, tx: &mut Txn<'r>, gone: &HashSet<Key<'r>>) {
        let uses = field!(word.uses);
        let before = uses.len(tx);
        uses.retain(tx, |using| !gone.contains(&using.file.key()));
        if uses.len(tx) < before {
            tx[word].times = uses.iter(tx).map(|using| u64::from(using.times)).sum();
        }
    }
}

/// Returns a hash: FNV-1a, with its upper half mixed into the lower one. The hashes are stored, so they must
/// not depend on the version of Rust. The hasher of `std` may change with it.
pub fn hash(bytes: &[u8]) -> u64 {
    let fnv = bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    fnv ^ (fnv >> 32)
}
