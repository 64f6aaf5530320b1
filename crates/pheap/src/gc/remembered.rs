//! Cache lines that transactions have written since the last marking ended. A minor cycle begins with the
//! written lines of old objects.
//!
//! An object is *old* when a cycle has marked it; its mark stays. A minor cycle takes all old objects for
//! live. It marks the young objects that can be reached from the written lines of old objects, from the root
//! and its versions, or from held pointers.

use crate::units::{LINE, lines};

/// The largest number of written lines with which a minor cycle is worthwhile.
const MOST: usize = 1 << 16;
/// Number of entries of `recent`, which has lines that were noted last. With it, a line that is written again
/// and again is mostly noted once.
const RECENT: usize = 256;

/// Cache lines that transactions have written, by address.
pub(crate) struct RememberedLines {
    lines: Vec<usize>,
    recent: [usize; RECENT],
    /// Whether lines are noted. False if the list is not needed, or has become too long.
    active: bool,
}

impl Default for RememberedLines {
    fn default() -> RememberedLines {
        RememberedLines { lines: Vec::new(), recent: [0; RECENT], active: false }
    }
}

impl RememberedLines {
    /// Empties the list, and notes lines from now on.
    pub(super) fn start(&mut self) {
        self.stop();
        self.active = true;
    }

    /// Empties the list, and notes no more lines: the list is not needed, or too long.
    pub(super) fn stop(&mut self) {
        self.active = false;
        self.lines.clear();
        self.recent.fill(0);
    }

    /// Whether the list has all lines that were written since it was started.
    #[inline(always)]
    pub(crate) fn is_active(&self) -> bool {
        self.active
    }

    /// Notes that `len` bytes at `addr` are written.
    #[inline(always)]
    pub(crate) fn add(&mut self, addr: usize, len: usize) {
        if self.active {
            lines(addr, len).for_each(|line| self.add_line(line));
        }
    }

    #[inline]
    fn add_line(&mut self, line: usize) {
        let recent = &mut self.recent[line / LINE % RECENT];
        if *recent != line {
            *recent = line;
            self.lines.push(line);
            if self.lines.len() > MOST {
                self.stop();
            }
        }
    }

    pub(super) fn take_lines(&mut self) -> Vec<usize> {
        let lines = std::mem::take(&mut self.lines);
        self.stop();
        lines
    }
}
