//! Cuts a log that has grown down to its first length, when all its records are in the heap's file.
//!
//! The segments then hold no records that count. But the last segment, in which the log would go on, may lie
//! anywhere in the file. So the log goes on in one of the first segments of the file, as if the last one was
//! full. The mark still names the end of the records in the old last segment. The first line of the new
//! segment, which is written with the next record, names the same position, so a reader finds the new segment
//! whether the old one is there, in part or as a whole, or not. A mapped log is not cut down: a store behind
//! the end of the file would end the process.

use super::Wal;
use super::format::FIRST_SEGMENTS;
use crate::error::Result;

impl Wal {
    /// Makes the log's file as short as at first, if it has grown, is not mapped, and the heap's file has
    /// everything by a durable mark. Writes no record and no mark.
    ///
    /// # Errors
    /// The failure that the log has already. It is no error if the file cannot be made shorter.
    pub(crate) fn cut_down(&self) -> Result<()> {
        if !self.has_begun() {
            return Ok(());
        }
        let _folded = self.folded.lock();
        // `growth` stays locked until the file is cut off, because growth begins at the end of the file.
        let _growth = self.growth.lock();
        if self.is_mapped() {
            return Ok(());
        }
        let segments = {
            let mut state = self.state.lock();
            self.check(&state)?;
            if state.buffer.segments() <= FIRST_SEGMENTS || state.buffer.end_position() != state.folded {
                return Ok(());
            }
            state.buffer.move_down(FIRST_SEGMENTS);
            let end = state.buffer.end_position();
            state.folded = end;
            state.buffer.recycle(end);
            state.buffer.give_up_behind(FIRST_SEGMENTS)
        };
        let log = self.log();
        // A later sync makes the new length durable. When the file grows again, a sync comes before any new
        // first line.
        let _ = log.cut_off(self.layout.file_offset(segments));
        Ok(())
    }
}
