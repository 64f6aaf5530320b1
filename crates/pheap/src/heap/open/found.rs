//! The stages `FoundHeap` and `SurveyedHeap`: the header of a heap, and its metadata. No byte of the file is
//! changed.

use std::sync::Arc;

use super::contents::HeapMetadata;
use super::copy;
use super::place::{HeapPlace, MappingUse};
use crate::error::{Error, Result};
use crate::heap::options::Options;
use crate::os::file_system::may_be_tmpfs;
use crate::os::mapping::Mapping;
use crate::store::arena::Arena;
use crate::store::header::{self, Header};
use crate::store::relocate;
use crate::units::{HEADER_SIZE, PAGE};
use crate::wal::WalTail;

/// A heap whose header and log have been read.
#[derive(Clone)]
pub(super) struct FoundHeap<'a> {
    pub(super) options: &'a Options,
    pub(super) place: &'a dyn HeapPlace,
    pub(super) header: Header,
    /// The records in the log that may be missing in the heap's file.
    pub(super) tail: Arc<WalTail>,
}

impl<'a> FoundHeap<'a> {
    /// Reads the header and the log. Returns `None` if there is no heap yet.
    pub(super) fn read(options: &'a Options, place: &'a dyn HeapPlace) -> Result<Option<FoundHeap<'a>>> {
        let not_a_heap = || Error::NotAHeap { path: place.path().to_owned() };
        let error = |e| Error::io(format!("reading {}", place.path().display()), e);
        let mut bytes = vec![0; HEADER_SIZE as usize];
        let have = place.read_start(&mut bytes).map_err(error)?;
        let header = match header::read(&bytes[..have], place.path())? {
            header::FileStart::Header(header) => header,
            header::FileStart::Nothing => {
                // A creation stores the magic, then the first arena's head and the entry of its first span,
                // which is in the first page of its span table, then the header.
                let has_magic = bytes.iter().any(|&byte| byte != 0);
                let unused = if has_magic { Arena::new(0, 0).table() + PAGE } else { HEADER_SIZE };
                let is_unused = place.is_zero_from(unused).map_err(error)?;
                return match (is_unused, has_magic) {
                    (true, _) if !options.read_only => Ok(None),
                    (false, true) => Err(Error::corrupt("the heap has data, but its header is lost")),
                    // A file that is no heap may begin with zeros, too.
                    _ => Err(not_a_heap()),
                };
            }
        };
        place.check_use(options, &header)?;
        let tail = place.disk().map_or(Ok(WalTail::default()), |disk| {
            WalTail::read(&**disk, &header.wal_identity()).map_err(|error| match error {
                // If the heap's file is a mount by itself, its log may lie elsewhere: next to the file that
                // is mounted.
                Error::LogMissing { .. } => disk.may_have_log().err().unwrap_or(error),
                error => error,
            })
        })?;
        Ok(Some(FoundHeap { options, place, header, tail: Arc::new(tail) }))
    }

    /// Reads the heap's metadata, at the addresses that the heap is going to have, or at those where its
    /// relocation is completed first.
    pub(super) fn survey(self) -> Result<SurveyedHeap<'a>> {
        let FoundHeap { options, place, header, tail } = self;
        let mut view = if options.read_only { MappingUse::Private } else { place.first_view() };
        let base = options.base.filter(|_| !moves_twice(options, &header));
        let mut mapping = place.reserve(base, &header, view)?;
        // In a tmpfs, a read of a hole takes space, and ends the process if there is none. On other file
        // systems, the file gets space only when it has proved to be a heap.
        if !options.read_only && place.file().is_some_and(|file| may_be_tmpfs(file)) {
            place.reserve_space(&header, &[])?;
        }
        if !tail.is_empty() {
            // A shared mapping would store the log's records to the file.
            view = MappingUse::Private;
            mapping.show(place.backing(view));
        }
        let mut contents = HeapMetadata::read(mapping, header, &tail)?;
        contents.counts.replayed = tail.transactions();
        Ok(SurveyedHeap { options, place, tail, view, contents })
    }
}

/// Returns the most bytes of private memory that relocating a read-only heap takes; 0 if the file's blocks
/// cannot be counted.
pub(super) fn moved_bytes(place: &dyn HeapPlace, header: &Header) -> u64 {
    place.file().and_then(|file| copy::space(file).ok()).unwrap_or(0).min(header.mapped)
}

/// Returns whether the heap has pointers to rewrite: its header lists another base than that of the mapping.
fn moves(mapping: &Mapping, header: &Header) -> bool {
    header.bases != [mapping.base().addr() as u64]
}

impl FoundHeap<'_> {
    /// Returns whether the heap would be relocated if it were opened read-only now.
    pub(super) fn moves(&self) -> Result<bool> {
        let FoundHeap { options, place, header, .. } = self;
        Ok(moves(&place.reserve(options.base, header, MappingUse::Private)?, header))
    }
}

impl SurveyedHeap<'_> {
    /// Returns the most bytes of private memory that the recovery of a read-only heap takes, in addition to
    /// the pages of the log.
    pub(super) fn private_bytes(&self) -> u64 {
        let SurveyedHeap { place, contents, .. } = self;
        let moves = moves(&contents.mapping, &contents.header);
        contents.logged_bytes() + if moves { moved_bytes(*place, &contents.header) } else { 0 }
    }
}

/// Returns whether the heap must first complete a relocation at another base before it can get the wanted
/// addresses.
pub(super) fn moves_twice(options: &Options, header: &Header) -> bool {
    !options.read_only && relocate::has_no_room(header, options.base)
}

/// A heap all of whose metadata have been read and found valid, as they will be when its logs are replayed.
pub(super) struct SurveyedHeap<'a> {
    pub(super) options: &'a Options,
    pub(super) place: &'a dyn HeapPlace,
    pub(super) tail: Arc<WalTail>,
    /// The purpose for which the heap is mapped now.
    pub(super) view: MappingUse,
    pub(super) contents: HeapMetadata,
}
