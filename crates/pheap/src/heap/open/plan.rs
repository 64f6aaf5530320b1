//! The stages `Plan` and `Recovered`: an opening is decided on, and carried out.

#![deny(clippy::wildcard_enum_match_arm)]

use std::sync::Arc;

use super::choose::Chosen;
use super::contents::{Contents, Recovered};
use super::found::{Surveyed, moves_twice};
use super::place::{Place, View};
use super::wal;
use crate::error::{Error, Result};
use crate::faults::{Bug, bug};
use crate::heap::options::Options;
use crate::media::{Medium, MediumKind, SyncedFile};
use crate::os::file_size_limit;
use crate::os::file_system::is_tmpfs;
use crate::os::mapping::Mapping;
use crate::os::storage::Disk;
use crate::store::header::{Header, Use};
use crate::wal::{Settings, Wal};

/// How the heap is going to be opened. It is good, and has its addresses: whatever fails from now on is the disk.
pub(super) struct Plan<'a> {
    surveyed: Surveyed<'a>,
    /// `None` to read only.
    chosen: Option<Chosen>,
    /// Where it goes, if it must first complete a relocation where it was surveyed.
    target: Option<Mapping>,
}

impl<'a> Surveyed<'a> {
    /// Decides how the heap is opened. Nothing has been changed until here.
    pub(super) fn plan(mut self) -> Result<Plan<'a>> {
        let Surveyed { options, place, ref tail, ref mut contents, .. } = self;
        let chosen = if options.read_only { None } else { Some(chosen(options, place, &contents.header)?) };
        if let Some(chosen) = &chosen {
            // Where the disk is full, a store to a hole that is mapped ends the process, and a checkpoint to one fails. With a log, free pages may stay holes until somebody takes them. No byte changes.
            let least = options.tuning.hole;
            let free = if matches!(chosen, Chosen::Wal) { contents.free(least, tail) } else { Vec::new() };
            contents.holes = place.fill(&contents.header, &free)?.then_some(least);
        }
        let header = &contents.header;
        let reserve = || place.reserve(options.base, header, View::Shared { sync: false });
        let target = moves_twice(options, header).then(reserve).transpose()?;
        Ok(Plan { surveyed: self, chosen, target })
    }
}

/// The durability of a heap that is going to be written to. Fails if it cannot have that here.
pub(super) fn chosen(options: &Options, place: &dyn Place, header: &Header) -> Result<Chosen> {
    let chosen = place.choose(options)?;
    if let (Chosen::Wal, Some(disk)) = (&chosen, place.disk()) {
        disk.may_have_log()?;
        may_write(header.mapped, place)?;
    }
    Ok(chosen)
}

/// Fails if a checkpoint could not write the heap's file, which has `mapped` bytes.
fn may_write(mapped: u64, place: &dyn Place) -> Result<()> {
    let limit = file_size_limit();
    if place.file().is_some() && mapped > limit {
        let path = place.path().display();
        let reason =
            format!("{path} has {mapped} bytes, and this process may write {limit} of a file (`ulimit -f`)");
        return Err(Error::OutOfSpace { reason });
    }
    Ok(())
}

impl Plan<'_> {
    /// Makes of the file what the plan says.
    pub(super) fn recover(self) -> Result<Recovered> {
        let Plan { surveyed: Surveyed { options, place, tail, mut view, mut contents }, chosen, target } =
            self;
        let Some(chosen) = chosen else {
            if let Some(disk) = place.disk() {
                // SURVIVES unreached: only real files are opened to be read.
                tail.sync().map_err(|e| Error::io(format!("syncing {}", disk.log_path().display()), e))?;
            }
            return contents.recover(Medium::Process);
        };
        if let Some(disk) = place.disk()
            && contents.header.in_use == Use::In(MediumKind::Wal)
        {
            let at = contents.mapping.base().addr() as u64;
            if matches!(chosen, Chosen::Wal)
                && target.is_none()
                && contents.header.bases == [at]
                && !contents.has_stale_logs
            {
                wal::make_durable(&**disk, &contents.header, false)?;
                let of = contents.header.wal_identity();
                if let Some(log) = Wal::resume(disk, &of, settings(options), &tail)? {
                    drop(tail);
                    let logged = place.backing(View::Logged);
                    if view == View::Private {
                        contents.mapping.show(logged); // with what was stored there
                    } else {
                        contents = contents.show(None, logged)?;
                    }
                    tracing::info!(path = %place.path().display(), medium = "Wal", "opened a heap");
                    return use_log(log, contents);
                }
            }
            // Beside the private pages.
            let room = (options.memory() / 2).saturating_sub(tail.bytes());
            wal::settle(&mut contents.header, &**disk, &tail, room)?;
            contents.live = None;
        }
        // A new log may need the space of the old one, which is there as long as that is open.
        drop(tail);
        let path = place.path().display();
        match chosen {
            Chosen::Mapped(medium, sync) => {
                tracing::info!(%path, ?medium, "opened a heap");
                if let Some(disk) = place.disk() {
                    // With `MAP_SYNC`, no sync can have failed, and recovery makes durable what it reads.
                    if !sync && !bug(Bug::TrustHeader) {
                        // One that was prepared for a log relies on all of its file; but a file in memory outlives no power failure.
                        let in_memory = place.file().is_some_and(|file| is_tmpfs(file));
                        let whole = contents.header.in_use == Use::In(MediumKind::Synced) && !in_memory;
                        wal::make_durable(&**disk, &contents.header, whole)?;
                        if whole {
                            view = View::Shared { sync };
                            contents = contents.read_again(place.backing(view))?;
                        }
                    }
                    wal::retire_old_log(&mut contents.header, &**disk)?;
                }
                let shared = View::Shared { sync };
                if view != shared {
                    contents = contents.show(None, place.backing(shared))?;
                }
                let recovered = contents.recover(medium.clone())?;
                if target.is_none() {
                    return Ok(recovered);
                }
                recovered.again()?.show(target, place.backing(shared))?.recover(medium)
            }
            Chosen::Wal => {
                let disk = place.disk().expect("where a log was chosen, there is a disk");
                let at = target.as_ref().unwrap_or(&contents.mapping).base().addr() as u64;
                // What settles the log of a crash writes a header that says so, but leaves the log.
                let is_complete = !contents.has_stale_logs && contents.header.in_use == Use::Closed;
                // Else it is going to be swept, in the background, where that the log cannot be made would be nobody's error.
                let is_complete = is_complete && contents.live.is_some();
                let has_log = || disk.open_log().map_or(true, |log| log.is_some());
                if is_complete && contents.header.bases == [at] && !has_log() {
                    tracing::info!(%path, medium = "Wal", "opened a heap");
                    let contents = contents.show(None, place.backing(View::Logged))?;
                    let wal = Wal::later(disk.clone(), contents.header.wal_identity(), settings(options))?;
                    return use_log(wal, contents);
                }
                if contents.header.in_use != Use::Closed
                    || contents.header.bases != [at]
                    || contents.has_stale_logs
                {
                    let whole = contents.header.in_use != Use::Closed;
                    wal::make_durable(&**disk, &contents.header, whole)?;
                    if whole {
                        contents = contents.read_again(place.backing(View::Synced))?;
                    }
                    contents = prepare(place, disk, contents, None)?;
                    if target.is_some() {
                        contents = prepare(place, disk, contents, target)?;
                    }
                    contents.header.in_use = Use::Closed;
                }
                tracing::info!(%path, medium = "Wal", "opened a heap");
                with_log(options, place, disk, contents)
            }
        }
    }
}

/// Recovers a heap, and moves it, in its file, for a log. It is complete then, but for its header, which goes on to say how the heap is in use: a crash before the one that names the
/// log leaves a heap that is prepared again.
fn prepare(
    place: &dyn Place,
    disk: &Arc<dyn Disk>,
    contents: Contents,
    target: Option<Mapping>,
) -> Result<Contents> {
    place.check_room(&contents.header)?;
    let contents = contents.show(target, place.backing(View::Synced))?;
    let synced = SyncedFile::new(disk.data());
    contents.recover(Medium::Synced(Arc::new(synced)))?.again()
}

/// Makes a log for a heap that is complete, closed, and where it is mapped.
pub(super) fn with_log(
    options: &Options,
    place: &dyn Place,
    disk: &Arc<dyn Disk>,
    mut contents: Contents,
) -> Result<Recovered> {
    wal::make_durable(&**disk, &contents.header, false)?;
    wal::retire_old_log(&mut contents.header, &**disk)?;
    let contents = contents.show(None, place.backing(View::Logged))?;
    let wal = Wal::create(disk.clone(), contents.header.wal_identity(), settings(options))?;
    let recovered = use_log(wal.clone(), contents);
    if wal.failure().is_none() && recovered.is_err() {
        wal.remove(); // else the header may say by now that it counts
    }
    recovered
}

/// Opens a heap that is complete, but for its header, with its log.
fn use_log(wal: Arc<Wal>, contents: Contents) -> Result<Recovered> {
    wal.set_base(contents.mapping.base().addr());
    let recovered = contents.recover(Medium::Wal(wal.clone()));
    wal.failure().map_or(recovered, Err)
}

fn settings(options: &Options) -> Settings {
    Settings {
        policy: options.sync_policy,
        log_limit: options.log_limit,
        memory_limit: options.memory(),
        unsynced_limit: options.unsynced_limit,
    }
}
