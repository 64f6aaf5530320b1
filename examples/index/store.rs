//! What lies in the heap: which word is used where.
//!
//! ```text
//! Index ─┬─ words ──→ Words ──→ buckets  [ ·  ·  ·  · ]      a hash table with chains that doubles when it is full
//!        │                                 ↓     ↓
//!        │                                Word  Word ──→ Word ──→ …
//!        │                                 ├─ text ──→ "heap"
//!        │                                 └─ uses ──→ Chunk ──→ Chunk ──→ …       (newest first)
//!        │                                               ↓ each use points to its file
//!        └─ files ──→ File ──→ File ──→ …
//! ```
//!
//! These are plain Rust structs with plain pointers. None of the code below says how they are stored, and none of it can
//! leave them half changed: it runs inside a transaction of the caller, because there is no other way to get a `Txn`.

use std::collections::HashSet;
use std::iter::successors;

use pheap::{P, Persist, Result, Txn, View, txn};

/// The root of the heap.
#[derive(Persist)]
#[repr(C)]
pub struct Index<'r> {
    words: P<'r, Words<'r>>,
    files: Option<P<'r, File<'r>>>,
}

/// A hash table. `buckets` is a power of two long.
#[derive(Persist)]
#[repr(C)]
struct Words<'r> {
    buckets: P<'r, [Bucket<'r>]>,
    len: u64,
}

type Bucket<'r> = Option<P<'r, Word<'r>>>;

/// A word, and a link of its bucket's chain.
#[derive(Persist)]
#[repr(C)]
pub struct Word<'r> {
    pub text: P<'r, str>,
    /// How often it is used: the sum over `uses`.
    pub times: u64,
    hash: u64,
    uses: Option<P<'r, Chunk<'r>>>,
    next: Bucket<'r>,
}

/// Some uses of a word, together: a fifth of the pointers that a list of single uses would need.
#[derive(Persist)]
#[repr(C)]
struct Chunk<'r> {
    older: Option<P<'r, Chunk<'r>>>,
    len: u64,
    /// The first `len` count. The others repeat an old one, for there is no null among `P`s.
    uses: [Use<'r>; 5],
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
    /// Hash of its content, by which a change is noticed.
    pub content: u64,
    pub state: State,
    next: Option<P<'r, File<'r>>>,
}

/// How far we are with a file. Changed by the transaction that adds the words, so the two never disagree.
#[derive(Persist, Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum State {
    /// The lines before this one are indexed; lines count from 0 here.
    UpTo(u32),
    Complete,
    /// Changed or gone. Lasts only as long as the transaction that removes it.
    Stale,
}

impl<'r> Index<'r> {
    /// `buckets` is a power of two, to begin with.
    pub fn new(tx: &mut Txn<'r>, buckets: usize) -> Result<Index<'r>> {
        let words = tx.alloc(Words { buckets: tx.alloc_slice(buckets, |_| None)?, len: 0 })?;
        Ok(Index { words, files: None })
    }

    /// Number of different words.
    pub fn len(index: P<'r, Self>, view: &View<'r>) -> u64 {
        view[view[index].words].len
    }

    /// All words, in no order that means anything.
    pub fn words(index: P<'r, Self>, view: &View<'r>) -> impl Iterator<Item = P<'r, Word<'r>>> {
        let buckets = view[view[index].words].buckets;
        view[buckets].iter().flat_map(|&first| successors(first, |&word| view[word].next))
    }

    pub fn find(index: P<'r, Self>, view: &View<'r>, text: &str) -> Option<P<'r, Word<'r>>> {
        Words::find(view[index].words, view, text, hash(text.as_bytes()))
    }

    pub fn files(index: P<'r, Self>, view: &View<'r>) -> impl Iterator<Item = P<'r, File<'r>>> {
        successors(view[index].files, |&file| view[file].next)
    }

    /// Adds a file of which nothing is indexed yet.
    #[txn]
    pub fn add_file(
        index: P<'r, Self>,
        tx: &mut Txn<'r>,
        name: &str,
        content: u64,
    ) -> Result<P<'r, File<'r>>> {
        let name = tx.alloc_str(name)?;
        let file = tx.alloc(File { name, content, state: State::UpTo(0), next: tx[index].files })?;
        tx[index].files = Some(file);
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
        let word = Words::find_or_add(tx[index].words, tx, text)?;
        Word::push(word, tx, Use { file, line, times: 1 })
    }

    /// Removes some files and all their uses. A single transaction goes over the whole index here, and it does not matter
    /// that this is a long way: before its end nobody has seen it begin.
    #[txn]
    pub fn forget(index: P<'r, Self>, tx: &mut Txn<'r>, names: &HashSet<String>) -> Result<()> {
        // A `Vec` of pointers is fine as long as it stays inside: the brand `'r` sees to that.
        let files: Vec<_> = Index::files(index, tx).collect();
        tx[index].files = None;
        for &file in files.iter().rev() {
            if names.contains(&tx[tx[file].name]) {
                tx[file].state = State::Stale;
            } else {
                tx[file].next = tx[index].files;
                tx[index].files = Some(file);
            }
        }
        Words::forget_stale(tx[index].words, tx)
    }
}

impl<'r> Words<'r> {
    /// Where the chain begins on which a word with this hash is, if it is anywhere: a pointer into the slice of buckets.
    fn bucket(words: P<'r, Self>, view: &View<'r>, hash: u64) -> P<'r, Bucket<'r>> {
        let buckets = view[words].buckets;
        buckets.at(hash as usize & (buckets.len() - 1))
    }

    fn find(words: P<'r, Self>, view: &View<'r>, text: &str, hash: u64) -> Option<P<'r, Word<'r>>> {
        let first = view[Words::bucket(words, view, hash)];
        let mut chain = successors(first, |&word| view[word].next);
        chain.find(|&word| view[word].hash == hash && view[view[word].text] == *text)
    }

    #[txn]
    fn find_or_add(words: P<'r, Self>, tx: &mut Txn<'r>, text: &str) -> Result<P<'r, Word<'r>>> {
        let hash = hash(text.as_bytes());
        if let Some(word) = Words::find(words, tx, text, hash) {
            return Ok(word);
        }
        if tx[words].len == tx[words].buckets.len() as u64 {
            Words::grow(words, tx)?;
        }
        let bucket = Words::bucket(words, tx, hash);
        let text = tx.alloc_str(text)?;
        let word = tx.alloc(Word { text, times: 0, hash, uses: None, next: tx[bucket] })?;
        tx[bucket] = Some(word);
        tx[words].len += 1;
        Ok(word)
    }

    /// Twice as many buckets. All words change their places at once; if the process dies on the way, none has.
    #[txn]
    fn grow(words: P<'r, Self>, tx: &mut Txn<'r>) -> Result<()> {
        let old = tx[words].buckets;
        tx[words].buckets = tx.alloc_slice(2 * old.len(), |_| None)?;
        for i in 0..old.len() {
            let mut next = tx[old][i];
            while let Some(word) = next {
                next = tx[word].next;
                let bucket = Words::bucket(words, tx, tx[word].hash);
                tx[word].next = tx[bucket];
                tx[bucket] = Some(word);
            }
        }
        Ok(()) // the old buckets are garbage now: nothing is ever freed by hand
    }

    /// Removes the uses in stale files, and the words that have no others.
    #[txn]
    fn forget_stale(words: P<'r, Self>, tx: &mut Txn<'r>) -> Result<()> {
        let buckets = tx[words].buckets;
        for i in 0..buckets.len() {
            let chain: Vec<_> = successors(tx[buckets][i], |&word| tx[word].next).collect();
            let mut kept = None;
            for &word in &chain {
                Word::forget_stale(word, tx)?;
                if tx[word].times == 0 {
                    tx[words].len -= 1;
                } else {
                    tx[word].next = kept;
                    kept = Some(word);
                }
            }
            tx[buckets.at(i)] = kept;
        }
        Ok(())
    }
}

impl<'r> Word<'r> {
    /// The lines that use it, in the order in which they were added.
    pub fn uses(word: P<'r, Self>, view: &View<'r>) -> Vec<Use<'r>> {
        let chunks = successors(view[word].uses, |&chunk| view[chunk].older);
        let newest_first = chunks.flat_map(|chunk| view[chunk].uses[..view[chunk].len as usize].iter().rev());
        let mut uses: Vec<_> = newest_first.copied().collect();
        uses.reverse();
        uses
    }

    #[txn]
    fn push(word: P<'r, Self>, tx: &mut Txn<'r>, new: Use<'r>) -> Result<()> {
        tx[word].times += u64::from(new.times);
        if let Some(chunk) = tx[word].uses {
            let len = tx[chunk].len as usize;
            let newest = tx[chunk].uses[len - 1];
            if newest.file == new.file && newest.line == new.line {
                tx[chunk].uses[len - 1].times += new.times;
                return Ok(());
            }
            if len < tx[chunk].uses.len() {
                tx[chunk].uses[len] = new;
                tx[chunk].len += 1;
                return Ok(());
            }
        }
        let chunk = tx.alloc(Chunk { older: tx[word].uses, len: 1, uses: [new; 5] })?;
        tx[word].uses = Some(chunk);
        Ok(())
    }

    fn forget_stale(word: P<'r, Self>, tx: &mut Txn<'r>) -> Result<()> {
        let uses = Word::uses(word, tx);
        if uses.iter().all(|using| tx[using.file].state != State::Stale) {
            return Ok(()); // most words: nothing to change, so nothing to log
        }
        let object = &mut tx[word]; // a plain `&mut Word`; all of it is crash-safe from here on
        (object.times, object.uses) = (0, None);
        for using in uses {
            if tx[using.file].state != State::Stale {
                Word::push(word, tx, using)?;
            }
        }
        Ok(())
    }
}

/// FNV-1a. Not the hasher of `std`: these hashes are stored, so they must be the same with the next version of Rust.
pub fn hash(bytes: &[u8]) -> u64 {
    let fnv = bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    fnv ^ (fnv >> 32) // the buckets go by the low bits
}
