//! Which roots have versions that are kept until a newer one is durable, and who asks for one.

use std::rc::Rc;
use std::sync::atomic::Ordering;

use super::Region;
use crate::error::Result;
use crate::gc::held::{Held, HeldTable};
use crate::gc::versions::{Version, WORDS};
use crate::store::Store;
use crate::txn::context::Context;

/// In [`Region::versioned`]: the root's versions are not kept. No type has this number.
pub(super) const NONE: u32 = u32::MAX;

/// What a root's object is to the one that it replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NewRoot {
    /// Another one. What was there is kept until this is durable.
    Another,
    /// The same, converted. Versions of it count as durable: it has what the durable one had. Nobody asks for an older one.
    Converted,
    /// The same bytes, which were of another type, as were those of its versions.
    Renamed { from: u32 },
}

/// A version as a root had it, and what holds it.
pub(crate) type Kept = ([u64; WORDS], Option<Held<u8>>);

impl Region {
    /// Keeps versions of the root from now on. Nobody else has the region yet, and the root is there.
    pub(crate) fn keep_versions(&mut self) {
        let ty = *self.serves.get_mut();
        *self.versioned.get_mut() = ty;
        let context = Rc::get_mut(&mut self.context).expect("nobody else has it").get_mut();
        note(&self.held, context, ty, true);
    }

    /// Notes what a transaction has left whose context this is. Nobody else has the region for writing.
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
        note(&self.held, context, ty, ty == versioned);
        if ty != versioned {
            // The root is of another kind now. What it was is kept until that is durable, and nothing that comes after.
            self.versioned.store(NONE, Ordering::Relaxed);
        }
    }

    /// Makes the versions those of the root as it is now, of type `ty`, and `serve`s it: for who asks for one, both happen at once.
    pub(super) fn change_versions(&self, context: &Context, ty: u32, by: NewRoot, serve: impl FnOnce()) {
        let converted = (by == NewRoot::Converted && self.versioned.load(Ordering::Relaxed) == ty)
            .then(|| Version { position: 0, ..version(context, ty, true) });
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

    /// The newest durable version of a root of type `ty`, without waiting for anybody who has the region. `None` if there is none, because no such root is durable yet.
    ///
    /// # Errors
    /// [`Error::Forked`]; [`Error::Closed`], [`Error::Migrated`] and [`Error::Failed`] as for a read, but that no root fails because the disk has.
    pub(crate) fn durable_version(&self, store: &Store, ty: u32) -> Result<Option<Kept>> {
        store.check_not_forked()?;
        if self.is_gone() {
            return Err(store.check_open().err().unwrap_or_else(|| self.why_not(store)));
        }
        let mut serves = false;
        let durable = self.held.durable_version(|| {
            serves = self.serves(ty); // with the versions locked, which change with this
            store.durable_end()
        });
        match durable {
            Some((version, held)) if version.ty == ty => Ok(Some((version.words, held))),
            _ if serves => Ok(None),
            _ => Err(self.why_not(store)),
        }
    }
}

/// Notes what a root of type `ty` is now, which is nothing to anybody who asks for versions unless it `has_versions`.
fn note(held: &HeldTable, context: &Context, ty: u32, has_versions: bool) {
    let ends = context.store().wal().map_or([0; 4], |wal| wal.next_ends());
    held.note_version(version(context, ty, has_versions), &ends);
}

fn version(context: &Context, ty: u32, has_versions: bool) -> Version {
    let words = has_versions.then(|| context.gc.root_words(&context.alloc, context.store())).flatten();
    Version { ty, words: words.unwrap_or_default(), position: context.media.position() }
}
