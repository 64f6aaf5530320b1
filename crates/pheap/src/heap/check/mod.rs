//! Checks a heap: every pointer must lead to an object of its type, and every value must be valid for its
//! type.
//!
//! The check follows all pointers from the roots, by the type table, without the program that made the heap.
//! It has a view of the spans ([`map`]) and marks ([`trace`]) of its own, so that it finds mistakes of the
//! allocator and the collector, too.

pub(super) mod decode;
pub(super) mod map;
mod own;
mod plan;
pub(crate) mod rule;
pub(super) mod trace;

use std::fmt;

use super::Heap;
use super::memory::QuiescentHeap;
use crate::error::{Error, Result};
use map::HeapMap;

/// Largest number of problems that a report has as sentences.
const SPELLED_OUT: usize = 100;

/// The result of [`Heap::check`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Number of reachable objects.
    pub objects: u64,
    /// Bytes of the slots of reachable objects.
    pub bytes: u64,
    /// Number of spans, those of logs and the type table included.
    pub spans: u64,
    /// Number of roots.
    pub roots: u64,
    /// The objects by root and type, ordered by the name of the root; for each root, the most bytes first.
    pub usage: Vec<Usage>,
    /// The first hundred problems, as sentences.
    pub problems: Vec<String>,
    /// Number of problems beyond the first hundred.
    pub more_problems: u64,
}

/// The objects of one type below one root.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// The root's name.
    pub root: String,
    /// The type's name.
    pub type_name: String,
    /// The type's [number](super::TypeInfo::number): of several equal types, the number of the first.
    pub type_number: u32,
    /// Number of objects that are reachable from the root.
    pub objects: u64,
    /// Bytes of the slots of these objects.
    pub bytes: u64,
    /// Bytes of all spans for such objects. The excess over `bytes` is garbage, free for new objects, or too
    /// short for a slot.
    pub span_bytes: u64,
}

impl Report {
    /// Returns whether no problem was found.
    pub fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }

    fn add(&mut self, problem: impl FnOnce() -> String) {
        if self.problems.len() < SPELLED_OUT {
            self.problems.push(problem());
        } else {
            self.more_problems += 1;
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { objects, bytes, spans, roots, problems, more_problems, .. } = self;
        let plural = |n: u64| if n == 1 { "" } else { "s" };
        write!(f, "{objects} object{} of {bytes} bytes in {spans} spans, ", plural(*objects))?;
        write!(f, "{roots} root{}: ", plural(*roots))?;
        match problems.len() as u64 + more_problems {
            0 => f.write_str("clean")?,
            1 => f.write_str("1 problem")?,
            n => write!(f, "{n} problems")?,
        }
        problems.iter().try_for_each(|problem| write!(f, "\n  {problem}"))?;
        if *more_problems > 0 { write!(f, "\n  and {more_problems} more") } else { Ok(()) }
    }
}

impl Heap {
    /// Checks the whole heap: follows all pointers from the roots, and tests that each leads to an object of
    /// its type in its root; that every length, `bool`, `char`, enum and string is valid; that collections
    /// have the structure on which their code relies; and that no reachable object lies in a slot that the
    /// allocator takes for free. Nothing is repaired. The objects of a root whose
    /// [conversion](Heap::evolve) is not finished are not looked at.
    ///
    /// Transactions wait until the check is complete; reads go on. The check takes about as long as reading
    /// all objects, and a little memory for each.
    ///
    /// # Errors
    /// [`Error::Nested`] if this thread is inside a transaction or read of the heap, [`Error::SeveralHeaps`]
    /// if it is inside another heap, [`Error::Unsupported`] if it is inside too many heaps;
    /// [`Error::Failed`], [`Error::Closed`], [`Error::Forked`]; with a log, [`Error::OutcomeUnknown`] if the
    /// disk fails, and [`Error::Misplaced`] if the heap's files cannot be found. Problems in the heap are not
    /// an error of this call: see [`Report::is_clean`].
    pub fn check(&self) -> Result<Report> {
        let still = self.inner().still()?;
        let is_live = still.is_live();
        match still.map() {
            Ok(map) => Ok(trace::trace(&map, is_live, &mut |_| {}).0),
            Err(Error::Corrupt { what }) => Ok(Report { problems: vec![what], ..Report::default() }),
            Err(error) => Err(error),
        }
    }
}

impl QuiescentHeap<'_> {
    /// Reads the heap's tables into a map of its spans, types and roots.
    pub(super) fn map(&self) -> Result<HeapMap<'_>> {
        HeapMap::read(self)
    }
}
