//! A log that has grown is cut down when its records are in the heap's file.
//!
//! Its segments have nothing that counts then. But the last one, in which it goes on, may lie anywhere; so it goes on in one of the first segments of the file, as if the last one was full. The mark still names the
//! end of the records there, and so does the first line of the new segment, which is written with the next record: whoever reads the log finds that, whether the old one is there or not.
//! A log that is mapped stays as long as it is: whoever stores behind the end of a file is killed.

use super::Wal;
use super::begin::FIRST_SEGMENTS;
use crate::error::Result;

impl Wal {
    /// Makes the file of the log as short as it was at first, if it has grown, and the heap's file has all of it, by a mark that is durable. Writes nothing, and waits for no disk.
    ///
    /// # Errors
    /// That the log has failed. That the file cannot be made shorter is none.
    pub(crate) fn cut_down(&self) -> Result<()> {
        if !self.has_begun() {
            return Ok(());
        }
        let _folded = self.folded.lock();
        // Until the file ends there: whoever makes the log longer begins where it ends by now.
        let _growth = self.growth.lock();
        if self.is_mapped() {
            return Ok(());
        }
        let segments = {
            let mut state = self.state.lock();
            self.check(&state)?;
            if state.buffer.segments() <= FIRST_SEGMENTS || state.buffer.end() != state.folded {
                return Ok(());
            }
            state.buffer.move_down(FIRST_SEGMENTS);
            let end = state.buffer.end();
            state.folded = end;
            state.buffer.recycle(end);
            state.buffer.give_up_behind(FIRST_SEGMENTS)
        };
        let _ = self.log().cut_off(self.layout.file_offset(segments));
        Ok(())
    }
}
