//! The stages `Found` and `Surveyed`: what a heap says of itself, and what there is in it. Nothing is changed.

use std::sync::Arc;

use super::contents::Contents;
use super::copy;
use super::place::{Place, View};
use crate::error::{Error, Result};
use crate::heap::options::Options;
use crate::os::file_system::may_be_tmpfs;
use crate::os::mapping::Mapping;
use crate::store::header::{self, Header};
use crate::store::relocate;
use crate::units::HEADER_SIZE;
use crate::wal::WalTail;

/// A heap as its header and its log describe it, which have been read.
#[derive(Clone)]
pub(super) struct Found<'a> {
    pub(super) options: &'a Options,
    pub(super) place: &'a dyn Place,
    pub(super) header: Header,
    /// What is in the log, and not in the heap's file.
    pub(super) tail: Arc<WalTail>,
}

impl<'a> Found<'a> {
    /// `None` if there is no heap yet.
    pub(super) fn read(options: &'a Options, place: &'a dyn Place) -> Result<Option<Found<'a>>> {
        let not_a_heap = || Error::NotAHeap { path: place.path().to_owned() };
        let error = |e| Error::io(format!("reading {}", place.path().display()), e);
        let mut bytes = vec![0; HEADER_SIZE as usize];
        let have = place.read_start(&mut bytes).map_err(error)?;
        let header = match header::read(&bytes[..have], place.path())? {
            header::Found::Header(header) => header,
            header::Found::Nothing if options.read_only => return Err(not_a_heap()),
            // Files of other kinds begin with zeros, too. The first thing that a creation stores is the magic.
            header::Found::Nothing
                if bytes.iter().all(|&byte| byte == 0) && !place.is_zero().map_err(error)? =>
            {
                return Err(not_a_heap());
            }
            header::Found::Nothing => return Ok(None),
        };
        place.check_use(options, &header)?;
        let tail = place.disk().map_or(Ok(WalTail::default()), |disk| {
            WalTail::read(&**disk, &header.wal_identity()).map_err(|error| match error {
                // Perhaps it lies beside the heap elsewhere.
                Error::LogMissing { .. } => disk.may_have_log().err().unwrap_or(error),
                error => error,
            })
        })?;
        Ok(Some(Found { options, place, header, tail: Arc::new(tail) }))
    }

    /// Reads what there is in the heap, at the addresses that it is going to have, or first of all.
    pub(super) fn survey(self) -> Result<Surveyed<'a>> {
        let Found { options, place, header, tail } = self;
        let mut view = if options.read_only { View::Private } else { place.first_view() };
        let base = options.base.filter(|_| !moves_twice(options, &header));
        let mut mapping = place.reserve(base, &header, view)?;
        // In a tmpfs, a look at a hole takes space, and ends the process if there is none. Elsewhere, a file that is no good heap gets no space.
        if !options.read_only && place.file().is_some_and(|file| may_be_tmpfs(file)) {
            place.fill(&header, &[])?;
        }
        if !tail.is_empty() {
            // A mapping that stores go to must not show what is not in the file.
            view = View::Private;
            mapping.show(place.backing(view));
        }
        let mut contents = Contents::read(mapping, header, &tail)?;
        contents.counts.replayed = tail.transactions();
        Ok(Surveyed { options, place, tail, view, contents })
    }
}

/// Bytes of private memory that it takes to move a heap which is only read.
pub(super) fn moved_bytes(place: &dyn Place, header: &Header) -> u64 {
    place.file().and_then(|file| copy::space(file).ok()).unwrap_or(0).min(header.mapped)
}

fn moves(mapping: &Mapping, header: &Header) -> bool {
    header.bases != [mapping.base().addr() as u64]
}

impl Found<'_> {
    /// Whether a heap that is only read would be moved.
    pub(super) fn moves(&self) -> Result<bool> {
        let Found { options, place, header, .. } = self;
        Ok(moves(&place.reserve(options.base, header, View::Private)?, header))
    }
}

impl Surveyed<'_> {
    /// Bytes of private memory that the recovery of a heap takes which is only read, beside what the log has taken.
    pub(super) fn private_bytes(&self) -> u64 {
        let Surveyed { place, contents, .. } = self;
        let moves = moves(&contents.mapping, &contents.header);
        contents.logged_bytes() + if moves { moved_bytes(*place, &contents.header) } else { 0 }
    }
}

/// Whether the heap must first complete a relocation elsewhere before it can get the addresses that are wanted.
pub(super) fn moves_twice(options: &Options, header: &Header) -> bool {
    !options.read_only && relocate::has_no_room(header, options.base)
}

/// A heap of which all metadata have been read and found good, as they will be when its logs are replayed.
pub(super) struct Surveyed<'a> {
    pub(super) options: &'a Options,
    pub(super) place: &'a dyn Place,
    pub(super) tail: Arc<WalTail>,
    /// How it is mapped.
    pub(super) view: View,
    pub(super) contents: Contents,
}
