//! Creates a heap where there is none.

use std::sync::Arc;

use super::choose::ChosenMedium;
use super::contents::{HeapMetadata, RecoveredHeap};
use super::place::{HeapPlace, MappingUse, new_header, sync_directory};
use super::plan::with_log;
use super::wal;
use crate::error::{Error, Result};
use crate::heap::options::Options;
use crate::media::{Medium, SyncedFile};
use crate::os::mapping::Backing;
use crate::os::memory;
use crate::store::relocate;
use crate::wal::WalTail;

/// Creates a heap in a file without one, or on a simulated medium.
pub(super) fn create(options: &Options, place: &dyn HeapPlace) -> Result<RecoveredHeap> {
    let header = place.new_header(options)?;
    if let Some(disk) = place.disk() {
        // The log of a removed heap may have this name, and the only copy of its commits. Such a log is
        // refused, and not overwritten.
        WalTail::read(&**disk, &header.wal_identity())?;
        wal::remove_old_log(&**disk)?;
    }
    let mut mapping = place.reserve(options.base, &header, MappingUse::Synced)?;
    place.create_zeroed(&mapping, &header)?;
    let chosen = place.choose_medium(options).and_then(|chosen| {
        if let (ChosenMedium::Wal, Some(disk)) = (&chosen, place.disk()) {
            disk.may_have_log()?;
            place.check_room(&header)?;
        }
        Ok(chosen)
    });
    let chosen = chosen.inspect_err(|_| {
        let _ = place.file().map(|file| file.set_len(0)); // the file had no heap before
    })?;
    if place.file().is_some() {
        // SURVIVES unreached: a simulated disk has no directory; `ci/power-cut.sh` tests this sync.
        sync_directory(place.path())?;
    }
    match (chosen, place.disk()) {
        (ChosenMedium::Mapped(medium, sync), _) => {
            tracing::info!(path = %place.path().display(), ?medium, "created a heap");
            mapping.set_sync(sync);
            HeapMetadata::create(mapping, medium, header)
        }
        (ChosenMedium::Wal, Some(disk)) => {
            let synced = SyncedFile::new(disk.data());
            let created = HeapMetadata::create(mapping, Medium::Synced(Arc::new(synced)), header)?;
            let mut contents = created.again()?;
            contents.header.complete();
            with_log(options, place, contents)
        }
        (ChosenMedium::Wal, None) => Err(Error::Unsupported("without a file there is no log")),
    }
}

/// Creates a heap in memory.
pub(super) fn create_in_memory(options: &Options) -> Result<RecoveredHeap> {
    let header = new_header(options, memory())?;
    let mapping = relocate::reserve(options.base, &header, Backing::Memory)?;
    HeapMetadata::create(mapping, Medium::Process, header)
}
