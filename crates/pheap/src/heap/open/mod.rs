//! Opening a heap: in a file, in memory, or on the simulated medium.
//!
//! | file | |
//! |---|---|
//! | here | which of the others a file comes to |
//! | [`found`] | a file in which there is a heap |
//! | [`verify`], [`lost`] | is it a good one? |
//! | [`choose`] | which durability it gets |
//! | [`wal`] | what a write-ahead log needs before and after |
//! | [`place`] | where it is mapped |
//! | [`survey`] | what there is in it |
//! | [`builder`] | reading, recovering, relocating, and the open heap |

mod builder;
pub(super) mod choose;
mod found;
mod lost;
mod place;
#[cfg(feature = "sim")]
mod simulated;
mod survey;
mod verify;
mod wal;

use builder::{Builder, new_header};
use choose::{Chosen, choose};
use found::open_found;
use place::Place;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use super::Heap;
use super::options::Options;
use crate::error::{Error, Result};
use crate::media::{Medium, SyncedFile};
use crate::os::file_lock::OpenFile;
use crate::os::mapping::Backing;
use crate::os::own_file::OwnFile;
use crate::os::regular;
use crate::os::storage::Disk;
use crate::store::header;
use crate::store::header::Found;
use crate::store::relocate;
use crate::units::HEADER_SIZE;
use crate::wal::WalTail;
use crate::wal::files::Files;

impl Options {
    /// Opens the heap in the file at `path`: creates it if there is none, recovers it if its last user crashed.
    ///
    /// # Errors
    /// [`Error::NotAHeap`], [`Error::Truncated`], [`Error::NewerFormat`], [`Error::OlderFormat`], [`Error::Corrupt`] for files that are not (or no longer) valid
    /// heaps, which are left as they are; [`Error::Locked`] and [`Error::AlreadyOpen`] for heaps that are in use; [`Error::Copied`], [`Error::NotClosed`] and
    /// [`Error::BootUnknown`] for those that may be torn;
    /// [`Error::NoPermission`], [`Error::OutOfSpace`], [`Error::AddressInUse`], [`Error::Io`].
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Heap> {
        self.check()?;
        open_file(self, path.as_ref())
    }

    /// A heap in volatile memory, without a file. It is gone when the last handle is dropped.
    ///
    /// # Errors
    /// [`Error::OutOfSpace`], [`Error::AddressInUse`], [`Error::Io`].
    pub fn in_memory(&self) -> Result<Heap> {
        self.check()?;
        open_memory(self)
    }
}

fn open_file(options: &Options, path: &Path) -> Result<Heap> {
    let mut how = OpenOptions::new();
    how.read(true).write(!options.read_only).create(!options.read_only).truncate(false);
    let file = OwnFile::open(|| regular::open(&mut how, path))?;
    let lock = OpenFile::lock(&file, path, options.read_only)?;
    match open_locked(options, path, file.clone()) {
        Ok(builder) => Ok(builder.finish(options, Some(lock))),
        Err(error) => {
            // A child that another thread has just made shares the lock until it runs another program.
            let _ = file.unlock();
            lock.forget();
            Err(error)
        }
    }
}

/// Opens the heap in a file that nobody else has.
fn open_locked(options: &Options, path: &Path, file: OwnFile) -> Result<Builder> {
    let found = read_header(&file, path)?;
    let again = |e| Error::io(format!("opening {}", path.display()), e);
    let disk: Arc<dyn Disk> = Arc::new(Files::new(file.clone(), path).map_err(again)?);
    match found {
        Found::Header(header) => {
            verify::verify(options, path, &file, &header)?;
            open_found(options, path, file, header, &disk)
        }
        Found::Nothing if options.read_only => Err(Error::NotAHeap { path: path.to_owned() }),
        Found::Nothing => create_file(options, path, file, &disk),
    }
}

fn read_header(mut file: &File, path: &Path) -> Result<Found> {
    let mut bytes = Vec::with_capacity(HEADER_SIZE as usize);
    let io_error = |e| Error::io(format!("reading {}", path.display()), e);
    (&mut file).take(HEADER_SIZE).read_to_end(&mut bytes).map_err(io_error)?;
    let found = header::read(&bytes, path)?;
    // Files of other kinds begin with zeros, too. The first thing that a creation stores is the magic.
    if matches!(found, Found::Nothing)
        && bytes.iter().all(|&b| b == 0)
        && !rest_is_zero(file).map_err(io_error)?
    {
        return Err(Error::NotAHeap { path: path.to_owned() });
    }
    Ok(found)
}

/// Whether the file is zero from here on.
fn rest_is_zero(mut file: &File) -> io::Result<bool> {
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(true),
            n if buffer[..n].iter().any(|&b| b != 0) => return Ok(false),
            _ => {}
        }
    }
}

fn create_file(options: &Options, path: &Path, file: OwnFile, disk: &Arc<dyn Disk>) -> Result<Builder> {
    let header = new_header(options);
    if header.mapped > options.max_size {
        return Err(Error::OutOfSpace { reason: "the maximal size is less than one arena".to_owned() });
    }
    // A log of a heap that is gone may be all that is left of it.
    WalTail::read(&**disk, &header.wal_identity())?;
    wal::remove_old_log(&**disk)?;
    let place = Place { path, file: &file, base: options.base };
    let mut mapping = relocate::reserve(options.base, &header, place.shared(false))?;
    // Cuts off what an interrupted creation left.
    mapping.grow_file(0, header.mapped)?;
    let chosen = choose(options, &file)?;
    if matches!(chosen, Chosen::Wal) {
        disk.may_have_log().inspect_err(|_| {
            let _ = file.set_len(0); // as it was
        })?;
    }
    // SURVIVES unreached: a simulated disk has no directory; `ci/power-cut.sh` is for this.
    sync_directory(path)?;
    match chosen {
        Chosen::Mapped(medium, sync) => {
            tracing::info!(path = %path.display(), ?medium, "created a heap");
            mapping.set_sync(sync);
            Builder::new(mapping, medium, header)
        }
        Chosen::Wal => {
            let header = wal::create(mapping, SyncedFile::new(disk.data()), header)?;
            wal::open(options, &place, header, disk)
        }
    }
}

fn open_memory(options: &Options) -> Result<Heap> {
    let header = new_header(options);
    let mapping = relocate::reserve(options.base, &header, Backing::Memory)?;
    Ok(Builder::new(mapping, Medium::Process, header)?.finish(options, None))
}

/// Makes the name of a new file durable.
fn sync_directory(path: &Path) -> Result<()> {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // SURVIVES unreached: see the call of this.
    File::open(parent)
        .and_then(|directory| directory.sync_all())
        .map_err(|e| Error::io(format!("syncing the directory {}", parent.display()), e))
}
