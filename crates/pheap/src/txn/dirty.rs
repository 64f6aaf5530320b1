//! Lines that redo records cover and that are not flushed yet.

use crate::media::{LINE, lines};

/// Contiguous lines of this number are noted once.
const RECENT_LINES: usize = 1024;

/// Cache lines that wait to be flushed. A line that is written again and again is noted about once.
pub(crate) struct DirtyLines {
    lines: Vec<usize>,
    /// By a hash of the line: the one that was noted last.
    recent: [usize; RECENT_LINES],
}

impl Default for DirtyLines {
    fn default() -> DirtyLines {
        DirtyLines { lines: Vec::new(), recent: [usize::MAX; RECENT_LINES] }
    }
}

impl DirtyLines {
    #[inline]
    pub(crate) fn add(&mut self, addr: usize, len: usize) {
        for line in lines(addr, len) {
            let recent = &mut self.recent[line / LINE % RECENT_LINES];
            if *recent != line {
                *recent = line;
                self.lines.push(line);
            }
        }
    }

    pub(crate) fn drain(&mut self, line: impl FnMut(usize)) {
        self.lines.drain(..).for_each(line);
        self.recent.fill(usize::MAX);
    }
}
