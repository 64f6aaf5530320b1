//! Where a heap is opened.

use std::path::Path;

use super::builder::Builder;
use crate::error::Result;
use crate::media::Medium;
use crate::os::mapping::Backing;
use crate::os::own_file::OwnFile;
use crate::store::header::Header;
use crate::store::relocate;
use crate::wal::WalTail;

/// A file, and where it is to be mapped.
pub(in crate::heap) struct Place<'a> {
    pub(in crate::heap) path: &'a Path,
    pub(in crate::heap) file: &'a OwnFile,
    pub(in crate::heap) base: Option<u64>,
}

impl Place<'_> {
    pub(in crate::heap) fn shared(&self, sync: bool) -> Backing {
        Backing::Shared { file: self.file.clone(), path: self.path.to_owned(), sync }
    }

    /// Opens a heap whose file stores go to.
    pub(in crate::heap) fn open(&self, medium: Medium, sync: bool, header: Header) -> Result<Builder> {
        if let Some(base) = self.base
            && relocate::has_no_room(&header, self.base)
        {
            // The first opening changes how the heap is in use, so that the second one should not fail.
            drop(relocate::reserve_at(base, header.reserved, Backing::Memory)?);
        }
        open_in_place(header, self.base, |header, base| {
            let mapping = relocate::reserve(base, &header, self.shared(sync))?;
            Builder::existing(mapping, medium.clone(), header, &WalTail::default())
        })
    }
}

/// Opens a heap whose medium stores go to, at `base`, by `open`: twice, if a relocation must be completed first.
pub(in crate::heap) fn open_in_place(
    mut header: Header,
    base: Option<u64>,
    open: impl Fn(Header, Option<u64>) -> Result<Builder>,
) -> Result<Builder> {
    if relocate::has_no_room(&header, base) {
        header = open(header, None)?.into_header()?;
    }
    open(header, base)
}
