//! The stages `OpenPlan` and `RecoveredHeap`: decides how a heap is opened, and does it.

#![deny(clippy::wildcard_enum_match_arm)]

use std::sync::Arc;

use super::choose::ChosenMedium;
use super::contents::{HeapMetadata, RecoveredHeap};
use super::found::{SurveyedHeap, moves_twice};
use super::place::{HeapPlace, MappingUse};
use super::wal;
use crate::error::{Error, Result};
use crate::faults::{Bug, bug};
use crate::heap::options::Options;
use crate::media::{Medium, MediumKind, SyncedFile};
use crate::os::file_size_limit;
use crate::os::file_system::is_tmpfs;
use crate::os::mapping::Mapping;
use crate::os::storage::Disk;
use crate::store::header::{Header, HeapUse};
use crate::wal::{Wal, WalSettings};

/// How the heap is going to be opened. The heap is valid, and has its addresses.
pub(super) struct OpenPlan<'a> {
    surveyed: SurveyedHeap<'a>,
    route: OpenRoute,
}

/// How the heap's file is made ready for its use.
enum OpenRoute {
    /// Neither the heap's file nor its log is written to: the log's records are in private pages, or in a
    /// copy.
    ReadOnly,
    /// Stores go to the file itself, for this medium; the `bool` says whether it is mapped with `MAP_SYNC`.
    /// The mapping, if any, is where the heap moves when its relocation is complete.
    Mapped(Medium, bool, Option<Mapping>),
    /// The log of a killed process goes on. If that log cannot be used, the heap gets a new one, as with
    /// `NewLog`.
    Resume,
    /// The heap was closed in order: its log begins with the first transaction.
    LaterLog,
    /// The heap is mapped at its base, and has no logs of regions to replay or to empty. It only needs a new
    /// write-ahead log.
    NewLog,
    /// Logs of regions are replayed or emptied, or the heap is relocated, in the heap's file. Then the heap
    /// gets a new log. The mapping, if any, is where the heap moves when its relocation is complete.
    Prepare(Option<Mapping>),
}

impl<'a> SurveyedHeap<'a> {
    /// Decides how the heap is opened. No byte of the file was changed before, except by [`fit`](super::fit).
    pub(super) fn plan(mut self) -> Result<OpenPlan<'a>> {
        let SurveyedHeap { options, place, ref tail, ref mut contents, .. } = self;
        if options.read_only {
            return Ok(OpenPlan { surveyed: self, route: OpenRoute::ReadOnly });
        }
        let chosen = chosen(options, place, &contents.header)?;
        // On a full disk, a store to a hole that is mapped ends the process, and a checkpoint that writes to
        // a hole fails. So space for the heap is reserved here, which changes no byte. With a write-ahead
        // log, free pages may stay holes until they are allocated.
        let least = options.tuning.hole;
        let free = if matches!(chosen, ChosenMedium::Wal) { contents.free(least, tail) } else { Vec::new() };
        contents.holes = place.reserve_space(&contents.header, &free)?.then_some(least);
        let reserve = || place.reserve(options.base, &contents.header, MappingUse::Shared { sync: false });
        let target = moves_twice(options, &contents.header).then(reserve).transpose()?;
        let route = match chosen {
            ChosenMedium::Mapped(medium, sync) => OpenRoute::Mapped(medium, sync, target),
            ChosenMedium::Wal => route_to_log(place, contents, target),
        };
        Ok(OpenPlan { surveyed: self, route })
    }
}

/// Returns the route of a heap that is opened with `Wal`.
fn route_to_log(place: &dyn HeapPlace, contents: &HeapMetadata, target: Option<Mapping>) -> OpenRoute {
    let at = target.as_ref().unwrap_or(&contents.mapping).base().addr() as u64;
    if contents.header.bases != [at] || contents.has_stale_logs {
        return OpenRoute::Prepare(target);
    }
    let has_log = || place.disk().is_some_and(|disk| disk.open_log().map_or(true, |log| log.is_some()));
    match contents.header.in_use {
        HeapUse::In(MediumKind::Wal) => OpenRoute::Resume,
        // Without the live slots of an orderly close, a background thread sweeps the heap. It could not
        // return the error if the log cannot be made, so the log is made now.
        HeapUse::Closed if contents.live.is_some() && !has_log() => OpenRoute::LaterLog,
        HeapUse::Closed => OpenRoute::NewLog,
        HeapUse::In(MediumKind::Process | MediumKind::Pmem | MediumKind::Synced) => {
            OpenRoute::Prepare(target)
        }
    }
}

/// Returns the durability of a heap that is going to be written to. Fails if the heap cannot have it here.
pub(super) fn chosen(options: &Options, place: &dyn HeapPlace, header: &Header) -> Result<ChosenMedium> {
    let chosen = place.choose_medium(options)?;
    if let (ChosenMedium::Wal, Some(disk)) = (&chosen, place.disk()) {
        disk.may_have_log()?;
        may_write(header.mapped, place)?;
    }
    Ok(chosen)
}

/// Fails if a checkpoint could not write the heap's file, which has `mapped` bytes.
fn may_write(mapped: u64, place: &dyn HeapPlace) -> Result<()> {
    let limit = file_size_limit();
    if place.file().is_some() && mapped > limit {
        let path = place.path().display();
        let reason =
            format!("{path} has {mapped} bytes, and this process may write {limit} of a file (`ulimit -f`)");
        return Err(Error::OutOfSpace { reason });
    }
    Ok(())
}

impl OpenPlan<'_> {
    /// Makes the file ready by the plan's route.
    pub(super) fn recover(self) -> Result<RecoveredHeap> {
        let OpenPlan { surveyed, route } = self;
        let place = surveyed.place;
        let recovered = match route {
            OpenRoute::ReadOnly => return surveyed.read_only(),
            OpenRoute::Mapped(medium, sync, target) => surveyed.settle()?.map(medium, sync, target),
            OpenRoute::Resume => surveyed.resume(),
            OpenRoute::LaterLog => later_log(surveyed.options, place, surveyed.contents),
            OpenRoute::NewLog => new_log(surveyed.settle()?),
            OpenRoute::Prepare(target) => new_log(surveyed.settle()?.prepare(target)?),
        }?;
        tracing::info!(path = %place.path().display(), medium = ?recovered.medium.kind(), "opened a heap");
        Ok(recovered)
    }
}

impl SurveyedHeap<'_> {
    /// Recovers a heap that is only read.
    fn read_only(self) -> Result<RecoveredHeap> {
        let SurveyedHeap { place, tail, contents, .. } = self;
        if let Some(disk) = place.disk() {
            // SURVIVES unreached: the crash lab opens no heap read-only.
            tail.sync().map_err(|e| Error::io(format!("syncing {}", disk.log_path().display()), e))?;
        }
        contents.recover(Medium::Process)
    }

    /// Goes on with the log of a killed process. If that log cannot be used, the heap gets a new one.
    fn resume(self) -> Result<RecoveredHeap> {
        let disk = disk_of(self.place);
        let of = self.contents.header.wal_identity();
        wal::make_durable(&**disk, &self.contents.header, false)?;
        let Some(log) = Wal::resume(disk, &of, settings(self.options), &self.tail)? else {
            return new_log(self.settle()?);
        };
        let SurveyedHeap { place, tail, view, mut contents, .. } = self;
        drop(tail);
        let logged = place.backing(MappingUse::Logged);
        if view == MappingUse::Private {
            contents.mapping.show(logged); // the private pages of the survey stay mapped
        } else {
            contents = contents.show(None, logged)?;
        }
        use_log(log, contents)
    }

    /// If the heap was in use with a write-ahead log, brings the log's records to the heap's file, and marks
    /// the heap as closed. This comes before a new log is made, which gets the old log's name.
    fn settle(mut self) -> Result<Self> {
        let SurveyedHeap { options, place, tail, contents, .. } = &mut self;
        if contents.header.in_use == HeapUse::In(MediumKind::Wal) {
            // The private pages of the survey count against the memory limit, too.
            let room = (options.memory() / 2).saturating_sub(tail.bytes());
            wal::settle(&mut contents.header, &**disk_of(*place), tail, room)?;
            contents.live = None;
        }
        self.tail = Arc::default();
        Ok(self)
    }

    /// Recovers a heap whose stores go to its file.
    fn map(self, medium: Medium, sync: bool, target: Option<Mapping>) -> Result<RecoveredHeap> {
        let SurveyedHeap { place, mut view, mut contents, .. } = self;
        let shared = MappingUse::Shared { sync };
        if let Some(disk) = place.disk() {
            // With `MAP_SYNC`, no sync can have failed, and recovery makes durable all that it reads.
            if !sync && !bug(Bug::TrustHeader) {
                // The recovery of a heap that was being prepared for a log relies on all of its file, so the
                // whole file is rewritten. A file in memory outlives no power failure, so it need not be
                // rewritten.
                let in_memory = place.file().is_some_and(|file| is_tmpfs(file));
                let whole = contents.header.in_use == HeapUse::In(MediumKind::Synced) && !in_memory;
                wal::make_durable(&**disk, &contents.header, whole)?;
                if whole {
                    view = shared;
                    contents = contents.read_again(place.backing(view))?;
                }
            }
            wal::retire_old_log(&mut contents.header, &**disk)?;
        }
        if view != shared {
            contents = contents.show(None, place.backing(shared))?;
        }
        let recovered = contents.recover(medium.clone())?;
        if target.is_none() {
            return Ok(recovered);
        }
        recovered.again()?.show(target, place.backing(shared))?.recover(medium)
    }

    /// Recovers a heap, and relocates it, in its file. Then the heap is complete, but the header in the file
    /// still says that it is being prepared for a log ([`MediumKind::Synced`]). If a crash comes before the
    /// header that names the log, the next opening prepares the heap again.
    fn prepare(mut self, target: Option<Mapping>) -> Result<Self> {
        let SurveyedHeap { place, mut contents, .. } = self;
        let disk = disk_of(place);
        let whole = contents.header.in_use != HeapUse::Closed;
        wal::make_durable(&**disk, &contents.header, whole)?;
        if whole {
            contents = contents.read_again(place.backing(MappingUse::Synced))?;
        }
        let recover = |contents: HeapMetadata, target| {
            place.check_room(&contents.header)?;
            let contents = contents.show(target, place.backing(MappingUse::Synced))?;
            contents.recover(Medium::Synced(Arc::new(SyncedFile::new(disk.data()))))?.again()
        };
        contents = recover(contents, None)?;
        if target.is_some() {
            contents = recover(contents, target)?;
        }
        contents.header.complete();
        self.contents = contents;
        Ok(self)
    }
}

/// Returns the disk of a heap that has a log, or gets one.
fn disk_of(place: &dyn HeapPlace) -> &Arc<dyn Disk> {
    place.disk().expect("a heap that has a log, or gets one, has a disk")
}

/// Opens a heap that is complete, at its present base. Its write-ahead log begins with the first transaction,
/// unless [`HeapMetadata::begins_log`] is set: then the log begins with the opening.
fn later_log(options: &Options, place: &dyn HeapPlace, contents: HeapMetadata) -> Result<RecoveredHeap> {
    let contents = contents.show(None, place.backing(MappingUse::Logged))?;
    let of = contents.header.wal_identity();
    use_log(Wal::new(disk_of(place).clone(), of, settings(options))?, contents)
}

/// Opens a heap as `later_log` does, but makes the write-ahead log at once.
pub(super) fn with_log(
    options: &Options,
    place: &dyn HeapPlace,
    mut contents: HeapMetadata,
) -> Result<RecoveredHeap> {
    let disk = disk_of(place);
    wal::make_durable(&**disk, &contents.header, false)?;
    wal::retire_old_log(&mut contents.header, &**disk)?;
    contents.begins_log = true;
    later_log(options, place, contents)
}

fn new_log(surveyed: SurveyedHeap<'_>) -> Result<RecoveredHeap> {
    with_log(surveyed.options, surveyed.place, surveyed.contents)
}

/// Opens a heap whose file is complete except for its header, with the write-ahead log `wal`.
fn use_log(wal: Arc<Wal>, contents: HeapMetadata) -> Result<RecoveredHeap> {
    wal.set_base(contents.mapping.base().addr());
    let recovered = contents.recover(Medium::Wal(wal.clone()));
    wal.failure().map_or(recovered, Err)
}

fn settings(options: &Options) -> WalSettings {
    WalSettings {
        policy: options.sync_policy,
        log_limit: options.log_limit,
        memory_limit: options.memory(),
        unsynced_limit: options.unsynced_limit,
    }
}
