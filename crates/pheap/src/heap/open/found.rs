//! Opening a file in which there is a heap.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use super::builder::Builder;
use super::choose::{Chosen, choose};
use super::place::Place;
use super::wal;
use crate::error::{Error, Result};
use crate::heap::Heap;
use crate::heap::options::Options;
use crate::media::Medium;
use crate::os::file_system::is_tmpfs;
use crate::os::holes;
use crate::os::identity::{Identity, boot_id, is_same_boot};
use crate::os::mapping::Backing;
use crate::os::own_file::OwnFile;
use crate::os::storage::Disk;
use crate::store::header::{Header, Use};
use crate::store::relocate;
use crate::wal::WalTail;
use crate::wal::files::Files;

pub(in crate::heap) fn open_found(
    options: &Options,
    path: &Path,
    file: OwnFile,
    header: Header,
    disk: &Arc<dyn Disk>,
) -> Result<Builder> {
    let have = file.metadata().map_err(|e| Error::io(format!("looking at {}", path.display()), e))?.len();
    if have < header.mapped {
        return Err(Error::Truncated { path: path.to_owned(), have, need: header.mapped });
    }
    check_use(options, path, &file, &header)?;
    let leftover = WalTail::read(&**disk, &header.wal_identity()).map_err(|error| match error {
        // Perhaps it lies beside the heap elsewhere.
        Error::LogMissing { .. } => disk.may_have_log().err().unwrap_or(error),
        error => error,
    })?;
    if options.read_only {
        // What a killed process has left may be in the page cache only, and what is shown must not be lost.
        if leftover.transactions() > 0
            && let Ok(Some(log)) = disk.open_log()
        {
            // SURVIVES unreached: only real files are opened to be read.
            log.sync().map_err(|e| Error::io(format!("syncing {}", disk.log_path().display()), e))?;
        }
        let mapping = relocate::reserve(options.base, &header, Backing::Private { file })?;
        let mut builder = Builder::existing(mapping, Medium::Process, header, &leftover)?;
        builder.recovered.replayed += leftover.transactions();
        return Ok(builder);
    }
    let chosen = choose(options, &file)?;
    if matches!(chosen, Chosen::Wal) {
        disk.may_have_log()?;
    }
    holes::fill(&file, path, header.mapped)?;
    let place = Place { path, file: &file, base: options.base };
    let mut header = wal::settle(&place, header, disk, &leftover)?;
    let mut builder = match chosen {
        Chosen::Mapped(medium, sync) => {
            tracing::info!(path = %path.display(), ?medium, "opened a heap");
            // With `MAP_SYNC`, no sync can have failed, and recovery makes durable what it reads.
            if !sync {
                wal::make_durable_to_map(&**disk, &header, is_tmpfs(&file))?;
            }
            wal::retire_old_log(&mut header, &**disk)?;
            place.open(medium, sync, header)?
        }
        Chosen::Wal => wal::open(options, &place, header, disk)?,
    };
    builder.recovered.replayed += leftover.transactions();
    Ok(builder)
}

/// Refuses a heap in use that may be torn: a copy of one, or one that the kernel has not written to its disk.
fn check_use(options: &Options, path: &Path, file: &File, header: &Header) -> Result<()> {
    if header.in_use == Use::Closed || options.restored {
        return Ok(());
    }
    // A file that cannot be looked at is one that nothing is known of.
    let now = Identity::of(file).unwrap_or_default();
    let boot = boot_id();
    // Files in memory do not outlive their boot, and the name of a tmpfs is made when it is mounted.
    let named = header.identity.file_system;
    let same_boot =
        is_same_boot(header.boot, boot) || is_tmpfs(file) && named != 0 && named == now.file_system;
    if header.identity.is_other(&now, same_boot, header.in_use == Use::Process) {
        return Err(Error::Copied { path: path.to_owned() });
    }
    if header.in_use != Use::Process || same_boot || options.verify {
        Ok(())
    } else if header.boot == 0 || boot == 0 {
        Err(Error::BootUnknown { path: path.to_owned() })
    } else {
        Err(Error::NotClosed)
    }
}

/// A heap of its own in memory, with its logs replayed: nothing in the file is changed.
pub(in crate::heap) fn open_private(
    options: &Options,
    path: &Path,
    file: OwnFile,
    header: Header,
) -> Result<Heap> {
    let files =
        Files::new(file.clone(), path).map_err(|e| Error::io(format!("opening {}", path.display()), e))?;
    let disk: Arc<dyn Disk> = Arc::new(files);
    Ok(open_found(options, path, file, header, &disk)?.finish(options, None))
}
