//! Cache lines that redo records in the log cover, and that were not flushed yet.

use std::collections::VecDeque;

use crate::tuning::Tuning;
use crate::units::{LINE, lines};

/// Number of slots of `recent`. As many contiguous lines do not share slots, so each of them is noted only
/// once.
const RECENT_LINES: usize = 1024;

/// Cache lines that wait to be flushed. A line that is written again and again is mostly noted once.
pub(crate) struct DirtyLines {
    /// Addresses of lines, oldest first.
    lines: VecDeque<usize>,
    /// A direct-mapped cache of noted lines: in each slot, the address of the line with this slot that was
    /// noted last.
    recent: [usize; RECENT_LINES],
    /// The number of noted lines from which on `drain_some` removes lines; and the number of lines that it
    /// removes.
    many: usize,
    some: usize,
}

impl DirtyLines {
    pub(crate) fn new(tuning: &Tuning) -> DirtyLines {
        DirtyLines {
            lines: VecDeque::new(),
            recent: [usize::MAX; RECENT_LINES],
            many: tuning.kept_lines + tuning.lines_at_a_time,
            some: tuning.lines_at_a_time,
        }
    }

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

    /// Removes the oldest lines and passes them to `line`, if there are many lines.
    #[inline]
    pub(crate) fn drain_some(&mut self, mut line: impl FnMut(usize)) {
        if self.lines.len() < self.many {
            return;
        }
        for oldest in self.lines.drain(..self.some) {
            // If the line is written again, it must be noted again, so `recent` forgets it.
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
