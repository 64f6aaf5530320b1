//! Whether the file of an open heap still has a name. What is committed to one that has none is gone when the heap is closed.
//!
//! Asked for where it costs nothing beside what is done anyway, never by a commit: when the file grows, by `sync` and `checkpoint`, and at the end. A file that was given
//! another name, or has one more, is found by that.

use super::HeapInner;
use crate::error::{Error, Result};
use crate::faults::{Bug, bug};
use crate::os::names::has_name;

impl HeapInner {
    /// Fails if the file of the heap has been removed, or another one was given its last name.
    pub(super) fn check_named(&self) -> Result<()> {
        if self.has_name
            && let (Some(file), Some(path)) = (self.mapping.file(), self.mapping.path())
            && has_name(file).is_ok_and(|named| !named)
            && !bug(Bug::OverlookRemoval)
        {
            return Err(Error::Removed { path: path.to_owned() });
        }
        Ok(())
    }
}
