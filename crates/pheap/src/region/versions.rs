//! Keeps the versions of a root, if the root's type has versions, that are the newest durable one or may
//! become it. Gives readers the newest durable version.

use std::rc::Rc;
use std::sync::atomic::Ordering;

use super::Region;
use crate::error::Result;
use crate::gc::held::{Held, HeldTable};
use crate::gc::versions::{RootVersion, WORDS};
use crate::store::Store;
use crate::txn::context::Context;

/// A value of [`Region::versioned`]: the root's versions are not kept. No type has this number.
pub(super) const NONE: u32 = u32::MAX;

/// How a new root object relates to the one that it replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NewRoot {
    /// The new root is a different value. If versions of the old root are kept, they stay until the new root
    /// is durable.
    Another,
    /// The new root is the old value, converted. Its versions count as durable, because they have the same
    /// values as the durable version. No thread asks for an older version.
    Converted,
    /// The new root has the same bytes as the old one, but another type, and so have its versions.
    Renamed { from: u32 },
}

/// The words of a version's root object, and the held pointer that keeps alive the objects to which these
/// words lead.
pub(crate) type KeptVersion = ([u64; WORDS], Option<Held<u8>>);

impl Region {
    /// Keeps versions of the root from now on. The root exists, and no other thread has the region yet.
    pub(crate) fn keep_versions(&mut self) {
        let ty = *self.serves.get_mut();
        *self.versioned.get_mut() = ty;
        let context = Rc::get_mut(&mut self.context).expect("nobody else has it").get_mut();
        record_version(&self.held, context, ty, true);
    }

    /// Records the version that a transaction has left, if versions are kept. `context` is that of the
    /// region, of which no other thread is the writer.
    #[inline(always)]
    pub(super) fn note_version(&self, context: &Context) {
        let versioned = self.versioned.load(Ordering::Relaxed);
        if versioned != NONE {
            self.note_kept(context, versioned);
        }
    }

    #[inline(never)] // transactions on other roots need the registers
    fn note_kept(&self, context: &Context, versioned: u32) {
        let ty = self.serves.load(Ordering::Relaxed);
        record_version(&self.held, context, ty, ty == versioned);
        if ty != versioned {
            // The root has another type now. The last version of the old type is kept until this change is
            // durable; later versions are not kept.
            self.versioned.store(NONE, Ordering::Relaxed);
        }
    }

    /// Changes the kept versions as `by` says, for the present root, of type `ty`, and calls `serve`. Both
    /// happen under the lock of the versions, so a thread that asks for a version sees both or neither of the
    /// two changes.
    pub(super) fn change_versions(&self, context: &Context, ty: u32, by: NewRoot, serve: impl FnOnce()) {
        let converted = (by == NewRoot::Converted && self.versioned.load(Ordering::Relaxed) == ty)
            .then(|| RootVersion { position: 0, ..version(context, ty, true) });
        self.held.change_versions(|versions| {
            if let Some(version) = converted {
                versions.keep_only(version);
            }
            if let NewRoot::Renamed { from } = by {
                versions.retype(from, ty);
            }
            serve();
        });
    }

    /// Returns the newest durable version of a root of type `ty`, without waiting for a thread that has the
    /// region; `None` if no such root is durable yet.
    ///
    /// # Errors
    /// [`Error::Forked`]. If the region is gone, or the root has another type, also [`Error::Closed`],
    /// [`Error::Migrated`], [`Error::Failed`], [`Error::Misplaced`] and [`Error::OutcomeUnknown`] as for a
    /// read. Unlike a read, this does not fail only because the disk has failed.
    pub(crate) fn durable_version(&self, store: &Store, ty: u32) -> Result<Option<KeptVersion>> {
        store.check_not_forked()?;
        if self.is_gone() {
            return Err(store.check_open().err().unwrap_or_else(|| self.why_not(store)));
        }
        let mut serves = false;
        let durable = self.held.durable_version(|| {
            serves = self.serves(ty); // read under the lock of the versions, which change together with it
            store.durable_end()
        });
        match durable {
            Some((version, held)) if version.ty == ty => Ok(Some((version.words, held))),
            _ if serves => Ok(None),
            _ => Err(self.why_not(store)),
        }
    }
}

/// Records the root's version, of type `ty`. Its words are 0 unless `has_versions`.
fn record_version(held: &HeldTable, context: &Context, ty: u32, has_versions: bool) {
    let ends = context.store().wal().map_or([0; 4], |wal| wal.next_ends());
    held.note_version(version(context, ty, has_versions), &ends);
}

fn version(context: &Context, ty: u32, has_versions: bool) -> RootVersion {
    let words = has_versions.then(|| context.gc.root_words(&context.alloc, context.store())).flatten();
    RootVersion { ty, words: words.unwrap_or_default(), position: context.media.position() }
}
