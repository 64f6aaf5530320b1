//! Where a heap lies: the operations of an opening on a file, or on a simulated medium.

#![deny(clippy::wildcard_enum_match_arm)]

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::choose::{ChosenMedium, choose_medium};
use crate::error::{Error, Result};
use crate::heap::options::Options;
use crate::os::file_system::{is_tmpfs, overwrite_in_place};
use crate::os::holes;
use crate::os::identity::{FileIdentity, boot_id, is_same_boot};
use crate::os::mapping::{Backing, Mapping};
use crate::os::names::folder_of;
use crate::os::own_file::OwnFile;
use crate::os::random;
use crate::os::storage::Disk;
use crate::store::arena::Arena;
use crate::store::header::{Header, HeapUse};
use crate::store::relocate;

/// The purpose of a mapping of a heap.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum MappingUse {
    /// For reading only, or for a survey with the records of the log: stores stay in this process, or go to a
    /// temporary copy.
    Private,
    /// For stores to the medium itself; `sync` says whether with `MAP_SYNC`.
    Shared { sync: bool },
    /// For preparing the heap's file for a write-ahead log: each fence syncs the file.
    Synced,
    /// For use with a write-ahead log: stores stay in private pages.
    Logged,
}

/// A file or simulated medium that has a heap, or in which one is going to be created.
pub(super) trait HeapPlace {
    /// Returns the path, for messages.
    fn path(&self) -> &Path;

    /// Returns the disk with the heap's file and the place of its log; `None` without a file.
    fn disk(&self) -> Option<&Arc<dyn Disk>>;

    /// Returns the operating system's file; `None` for a simulated medium.
    fn file(&self) -> Option<&OwnFile> {
        None
    }

    /// Returns whether this place is a temporary copy of a heap, which is gone when the last handle of the
    /// heap is dropped.
    fn is_copy(&self) -> bool {
        false
    }

    /// Reads the beginning of the file or medium into `bytes`. Returns the number of bytes read, which is
    /// less if the file is shorter.
    fn read_start(&self, bytes: &mut [u8]) -> io::Result<usize> {
        self.disk().map_or(Ok(0), |disk| disk.data().read_up_to(bytes, 0))
    }

    /// Returns whether all bytes from the offset `at` on are zero.
    fn is_zero_from(&self, mut at: u64) -> io::Result<bool> {
        let Some(disk) = self.disk() else { return Ok(true) };
        let (data, mut buffer) = (disk.data(), vec![0; 1 << 20]);
        while let Some(next) = data.data_from(at)? {
            match data.read_up_to(&mut buffer, next)? {
                0 => break,
                n if buffer[..n].iter().any(|&byte| byte != 0) => return Ok(false),
                n => at = next + n as u64,
            }
        }
        Ok(true)
    }

    /// Returns the header of a heap that is going to be created in this file or simulated medium.
    fn new_header(&self, options: &Options) -> Result<Header> {
        // The program may raise `max_size` at the next opening, but the reservation stays. So the reservation
        // has room for 16 times `max_size`.
        new_header(options, options.max_size.saturating_mul(16))
    }

    /// Refuses a heap that is truncated. Unless the options allow it, also refuses one that was copied while
    /// it was in use, or that a power failure may have torn.
    fn check_use(&self, options: &Options, header: &Header) -> Result<()>;

    /// Chooses how the heap is going to be used.
    fn choose_medium(&self, options: &Options) -> Result<ChosenMedium>;

    /// Returns the backing of a mapping for the purpose `view`.
    fn backing(&self, view: MappingUse) -> Backing;

    /// Returns the purpose for which the heap is mapped in the survey, if there are no records of a log and
    /// the file may be written.
    fn first_view(&self) -> MappingUse {
        MappingUse::Shared { sync: false }
    }

    /// Reserves addresses for the heap.
    fn reserve(&self, base: Option<u64>, header: &Header, view: MappingUse) -> Result<Mapping> {
        relocate::reserve(base, header, self.backing(view))
    }

    /// Makes the file as long as a new heap, and all zeros. `mapping` was reserved for the new heap.
    fn create_zeroed(&self, mapping: &Mapping, header: &Header) -> Result<()>;

    /// Reserves space for all of the heap, except the ranges (offset, length) that are `free`. Changes no
    /// byte. Returns whether the free ranges may have no space.
    fn reserve_space(&self, header: &Header, free: &[(u64, u64)]) -> Result<bool>;

    /// Fails if stores to the file may find no space, even after [`reserve_space`](Self::reserve_space).
    fn check_room(&self, header: &Header) -> Result<()> {
        let bytes = header.mapped;
        let room = self.file().map_or(Ok(()), |file| holes::check_room(file, bytes));
        room.map_err(|e| {
            Error::writing(format!("preparing {} takes {bytes} bytes", self.path().display()), e)
        })
    }
}

/// Fails if a file is shorter than the heap in it.
pub(super) fn check_length(path: &Path, have: io::Result<u64>, header: &Header) -> Result<()> {
    let have = have.map_err(|e| Error::io(format!("looking at {}", path.display()), e))?;
    if have < header.mapped {
        return Err(Error::Truncated { path: path.to_owned(), have, need: header.mapped });
    }
    Ok(())
}

/// A heap in a file that no other process writes to, except for a follower's view of a live heap.
pub(super) struct FilePlace<'a> {
    pub(super) path: &'a Path,
    pub(super) file: OwnFile,
    /// Whether `file` is a temporary copy of the heap, without a name, and not the file at `path`.
    pub(super) is_copy: bool,
    pub(super) disk: Arc<dyn Disk>,
}

impl HeapPlace for FilePlace<'_> {
    fn path(&self) -> &Path {
        self.path
    }

    fn disk(&self) -> Option<&Arc<dyn Disk>> {
        Some(&self.disk)
    }

    fn file(&self) -> Option<&OwnFile> {
        Some(&self.file)
    }

    fn is_copy(&self) -> bool {
        self.is_copy
    }

    /// A copy of a heap in use may be torn. After a power failure, so may be a heap that was in use with
    /// `Process`, because the kernel had not written all of it.
    fn check_use(&self, options: &Options, header: &Header) -> Result<()> {
        check_length(self.path, self.disk.data().len(), header)?;
        if header.in_use == HeapUse::Closed || options.restored {
            return Ok(());
        }
        // If the file's identity cannot be read, it counts as unknown, so the heap does not count as a copy.
        let now = FileIdentity::from_file(&self.file).unwrap_or_default();
        let boot = boot_id();
        // Files in a tmpfs do not outlive the boot, and a tmpfs gets a new id when it is mounted. So an equal
        // id means the same boot.
        let named = header.identity.file_system;
        let same_boot =
            is_same_boot(header.boot, boot) || is_tmpfs(&self.file) && named != 0 && named == now.file_system;
        if header.identity.is_other(&now, same_boot, header.in_use.is_torn_by_power_failure()) {
            return Err(Error::Copied { path: self.path.to_owned() });
        }
        if !header.in_use.is_torn_by_power_failure() || same_boot || options.verify {
            Ok(())
        } else if header.boot == 0 || boot == 0 {
            Err(Error::BootUnknown { path: self.path.to_owned() })
        } else {
            Err(Error::NotClosed)
        }
    }

    fn choose_medium(&self, options: &Options) -> Result<ChosenMedium> {
        choose_medium(options.durability, &self.file)
    }

    fn backing(&self, view: MappingUse) -> Backing {
        let (file, path) = (self.file.clone(), self.path.to_owned());
        match view {
            MappingUse::Private => Backing::Private { file, is_copy: self.is_copy },
            MappingUse::Shared { sync } => Backing::Shared { file, path, sync },
            MappingUse::Synced => Backing::Shared { file, path, sync: false },
            MappingUse::Logged => Backing::Logged { file, path },
        }
    }

    fn create_zeroed(&self, mapping: &Mapping, header: &Header) -> Result<()> {
        overwrite_in_place(&self.file);
        // This first cuts off the rest of an interrupted creation.
        mapping.grow_file(0, header.mapped)?;
        mapping.sync_length()
    }

    fn reserve_space(&self, header: &Header, free: &[(u64, u64)]) -> Result<bool> {
        holes::reserve_space(&self.file, self.path, header.mapped, free)
    }
}

/// Makes the name of a new file durable, by a sync of its directory.
pub(super) fn sync_directory(path: &Path) -> Result<()> {
    let parent = folder_of(path);
    // SURVIVES unreached: a simulated disk has no directory.
    File::open(parent)
        .and_then(|directory| directory.sync_all())
        .map_err(|e| Error::io(format!("syncing the directory {}", parent.display()), e))
}

/// Returns the header of a new heap, which by default [reserves](Options::reservation) addresses for `most`
/// bytes.
///
/// # Errors
/// [`Error::OutOfSpace`] if the first arena is larger than `Options::max_size`; [`Error::Io`] if the
/// operating system gives no random numbers.
pub(super) fn new_header(options: &Options, most: u64) -> Result<Header> {
    let [a, b, salt] = random().map_err(|e| Error::io("asking for random numbers", e))?;
    let unit = options.arena_size;
    let mapped = Arena::size_for(0, 1, unit);
    if mapped > options.max_size {
        return Err(Error::OutOfSpace {
            reason: "`Options::max_size` is less than one arena (`Options::arena_size`)".to_owned(),
        });
    }
    Ok(Header {
        sequence: 0,
        uuid: u128::from(a) | u128::from(b) << 64,
        arena_unit: unit,
        mapped,
        reserved: options.reservation(most),
        salt,
        bases: Vec::new(),
        boot: 0,
        in_use: HeapUse::Closed,
        has_parts: false,
        types: 0,
        live_slots: (0, 0),
        log: 0,
        identity: FileIdentity::default(),
        log_nonce: 0,
    })
}
