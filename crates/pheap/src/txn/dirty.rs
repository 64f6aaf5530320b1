//! Lines that redo records cover and that are not flushed yet.

use std::collections::VecDeque;

use crate::media::{LINE, lines};

/// Contiguous lines of this number are noted once.
const RECENT_LINES: usize = 1024;

/// Lines that may wait until the log is emptied, so that those that are written all the time are flushed seldom and the emptying is short. Fewer in a
/// simulation, whose programs write less.
const KEPT: usize = if cfg!(feature = "sim") { 8 } else { RECENT_LINES };
/// Lines that are flushed at a commit, or none: a fence that waits for many takes little longer than one that waits for a few.
const AT_A_TIME: usize = if cfg!(feature = "sim") { 4 } else { 32 };

/// Cache lines that wait to be flushed. A line that is written again and again is noted about once.
pub(crate) struct DirtyLines {
    /// Oldest first.
    lines: VecDeque<usize>,
    /// By a hash of the line: the one that was noted last.
    recent: [usize; RECENT_LINES],
}

impl Default for DirtyLines {
    fn default() -> DirtyLines {
        DirtyLines { lines: VecDeque::new(), recent: [usize::MAX; RECENT_LINES] }
    }
}

impl DirtyLines {
    #[inline]
    pub(crate) fn add(&mut self, addr: usize, len: usize) {
        for line in lines(addr, len) {
            let recent = &mut self.recent[line / LINE % RECENT_LINES];
            if *recent != line {
                *recent = line;
                self.lines.push_back(line);
            }
        }
    }

    /// Takes some of the oldest lines out, if there are many.
    #[inline]
    pub(crate) fn drain_some(&mut self, mut line: impl FnMut(usize)) {
        if self.lines.len() < KEPT + AT_A_TIME {
            return;
        }
        for oldest in self.lines.drain(..AT_A_TIME) {
            // If it is written again, it is noted again.
            let recent = &mut self.recent[oldest / LINE % RECENT_LINES];
            if *recent == oldest {
                *recent = usize::MAX;
            }
            line(oldest);
        }
    }

    pub(crate) fn drain(&mut self, line: impl FnMut(usize)) {
        self.lines.drain(..).for_each(line);
        self.recent.fill(usize::MAX);
    }
}
