//! Space that the heap's file gives back, and gets again. Which pages that are is known above: free ones, of which the records of a complete checkpoint say so.

use std::io;

use super::Wal;

impl Wal {
    /// Gives back the space of these bytes of the heap's file, which are zero from then on.
    ///
    /// # Errors
    /// What the operating system says, which is no failure of the log: nobody needs what was there.
    pub(crate) fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        self.data.punch(offset, len)
    }

    /// Sees to it that the heap's file has space for these bytes.
    ///
    /// # Errors
    /// What the operating system says.
    pub(crate) fn fill(&self, offset: u64, len: u64) -> io::Result<()> {
        self.data.unpunch(offset, len)
    }
}
