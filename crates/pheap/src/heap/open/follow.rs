//! Copies a heap that another process may have open and write to. The copy shows one moment.
//!
//! The heap's file is copied page by page, while checkpoints write to it. All that checkpoints write comes
//! from records in the log, behind the position up to which the file had everything before. So the
//! [log](crate::wal::LiveLog) is read on while pages are copied, and once more afterwards, and its records
//! are replayed in the copy. No record covers the heap's header, so it is read again: as long as it names the
//! same run of the same log, only the process with that run has written to the file. Arenas that the heap has
//! got meanwhile are copied as well. A closed heap does not change before its header does.
//!
//! If the header shows another use of the heap, or records were overwritten before they were read, the copy
//! begins anew, after a pause. Correctness does not depend on how long a step takes.

use std::fs::OpenOptions;
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::copy::{self, HeapCopy};
use super::found::FoundHeap;
use super::place::{FilePlace, HeapPlace};
use super::verify;
use crate::error::{Error, Result};
use crate::faults::{Bug, bug};
use crate::heap::Heap;
use crate::heap::options::Options;
use crate::media::MediumKind;
use crate::os::own_file::OwnFile;
use crate::os::regular;
use crate::os::storage::Storage;
use crate::store::header::{self, Header, HeapUse};
use crate::units::HEADER_SIZE;
use crate::wal::files::Files;
use crate::wal::{LiveLog, WalTail};

/// Number of attempts to copy a heap, after which the opening fails.
const TRIES: u32 = 16;
/// Half of the first pause between two attempts. Each pause is twice as long as the one before, up to a
/// quarter of a second.
const SOON: Duration = Duration::from_millis(1);

/// The text, for the error, about a heap that is being prepared for a log, and so cannot be followed yet.
const BEING_PREPARED: &str = "`Durability::Wal`, but its file is still being prepared for that (try again)";

/// Opens a copy of the heap at `path`.
pub(super) fn follow(options: &Options, path: &Path) -> Result<Heap> {
    follow_beside(options, path, &mut || {})
}

/// Does the work of [`follow`]. In tests, `meanwhile` acts as another process: it is called at each point
/// where a change by one may matter.
pub(super) fn follow_beside(options: &Options, path: &Path, meanwhile: &mut dyn FnMut()) -> Result<Heap> {
    let copied = copy(options, path, meanwhile)?;
    let place = FilePlace { path, file: copied.file, is_copy: true, disk: copied.live.disk };
    let options = &options.clone().read_only(true);
    let found = FoundHeap { options, place: &place, header: copied.header, tail: Arc::new(copied.tail) };
    verify::open(found)
}

/// A copy of a heap at one moment.
struct FollowerCopy<'a> {
    live: FilePlace<'a>,
    header: Header,
    /// The pages without the header, with the records of the log replayed.
    file: OwnFile,
    tail: WalTail,
}

/// Copies the heap at `path`, in at most [`TRIES`] attempts.
fn copy<'a>(options: &Options, path: &'a Path, meanwhile: &mut dyn FnMut()) -> Result<FollowerCopy<'a>> {
    let mut last = None;
    for number in 0..TRIES {
        if number > 0 {
            // The pause leaves time to a process that is opening the heap: it writes several headers, and
            // syncs each.
            thread::sleep(SOON * (1 << number.min(8)));
        }
        // The file is opened by name in each attempt, because another file may have the name by then.
        let file = OwnFile::open(|| regular::open(OpenOptions::new().read(true), path))?;
        let files = Files::new(file.clone(), path)
            .map_err(|e| Error::io(format!("opening {}", path.display()), e))?;
        let live = FilePlace { path, file, is_copy: false, disk: Arc::new(files) };
        let start = read_header(&live)?;
        let copied = CopyAttempt { live: &live, start: &start, meanwhile: &mut *meanwhile }.copy(options);
        last = match copied {
            Ok(Some((header, file, tail))) => return Ok(FollowerCopy { live, header, file, tail }),
            Ok(None) => None,
            // Preparing a heap for a log does not take long, so there is another attempt.
            Err(error @ Error::NotFollowed { how: BEING_PREPARED, .. }) => Some(error),
            // If the heap has changed, the error may come from the change, so there is another attempt.
            Err(error) if is_unchanged(&live, &start)? => return Err(error),
            Err(error) => Some(error),
        };
    }
    Err(last.unwrap_or_else(|| Error::Overtaken { path: path.to_owned(), tries: TRIES }))
}

/// Reads both slots of the header.
fn read_header(live: &FilePlace<'_>) -> Result<Vec<u8>> {
    let mut bytes = vec![0; HEADER_SIZE as usize];
    let have = live.disk.data().read_copies(&mut bytes, 0).map_err(|e| reading(live.path, e))?;
    bytes.truncate(have);
    Ok(bytes)
}

fn reading(path: &Path, e: io::Error) -> Error {
    Error::io(format!("reading {}", path.display()), e)
}

/// Returns whether the name still leads to the same file, with the same header.
fn is_unchanged(live: &FilePlace<'_>, start: &[u8]) -> Result<bool> {
    let id = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
    let has_name = || Ok(id(live.path.metadata()?) == id(live.file.metadata()?));
    Ok(has_name().map_err(|e| reading(live.path, e))? && read_header(live)? == start)
}

/// An attempt to copy a heap.
struct CopyAttempt<'a, 'b> {
    live: &'a FilePlace<'b>,
    /// The bytes of the header, read before anything else of the heap.
    start: &'a [u8],
    meanwhile: &'a mut dyn FnMut(),
}

impl CopyAttempt<'_, '_> {
    /// Copies the heap. Returns `None` if it was changed in a way that the copy cannot follow.
    fn copy(mut self, options: &Options) -> Result<Option<(Header, OwnFile, WalTail)>> {
        let path = self.live.path;
        let header = self.header(self.start)?;
        (self.meanwhile)();
        // The space of the log counts, too, because the log's records are kept until they are replayed.
        let need = self.space().map_err(|e| reading(path, e))?;
        let in_memory = copy::is_small(options, need);
        let not_followed = |how| Err(Error::NotFollowed { path: path.to_owned(), how });
        let mut log = match header.in_use {
            HeapUse::Closed | HeapUse::In(MediumKind::Wal) => {
                self.live.check_use(options, &header)?;
                let of = header.wal_identity();
                if !of.in_use {
                    // A leftover log that `open` refuses is refused here, too.
                    WalTail::read(&*self.live.disk, &of)?;
                }
                let folder = options.folder_for_copies();
                let spill = || Box::new(move || copy::empty_file(in_memory, &folder));
                of.in_use.then(|| LiveLog::open(&*self.live.disk, &of, spill())).transpose()?
            }
            HeapUse::In(MediumKind::Process) => return not_followed("`Durability::Process`"),
            HeapUse::In(MediumKind::Pmem) => return not_followed("`Durability::Pmem`"),
            HeapUse::In(MediumKind::Synced) => {
                return not_followed(BEING_PREPARED);
            }
        };
        (self.meanwhile)();
        // The position with which the log begins has been read. Of arenas that are added from here on, all
        // content except their heads is in records behind that position.
        let Some(mut header) = self.same_header(&header)? else { return Ok(None) };
        let copy = HeapCopy::create(options, path, &self.live.file, need, need)?;
        let mut pages = HEADER_SIZE..header.mapped;
        loop {
            if !self.copy_pages(&copy, pages.clone(), log.as_mut())? {
                return Ok(None);
            }
            if let Some(log) = &mut log
                && !log.read_on()?
            {
                return Ok(None);
            }
            (self.meanwhile)();
            // The header is read after all pages, because a process that opens the heap anew writes a header
            // before anything else. It is read after the records, too, so no record is about an arena that
            // this header does not have.
            let Some(now) = self.same_header(&header)? else { return Ok(None) };
            pages = pages.end..now.mapped;
            header = now;
            if pages.is_empty() || bug(Bug::OverlookGrowth) {
                break;
            }
        }
        let tail = log.as_ref().map_or(Ok(WalTail::default()), |log| log.tail(header.mapped))?;
        let replay = |copy: &dyn Storage, room| log.map_or(Ok(()), |log| log.fold(copy, room));
        let file = copy.replay_log(header.mapped, replay)?;
        Ok(Some((header, file, tail)))
    }

    /// Returns the bytes of disk that the heap's file takes, plus the length of its log.
    fn space(&self) -> io::Result<u64> {
        let log = self.live.disk.open_log().ok().flatten();
        Ok(copy::space(&self.live.file)? + log.map_or(Ok(0), |log| log.len())?)
    }

    fn header(&self, bytes: &[u8]) -> Result<Header> {
        match header::read(bytes, self.live.path)? {
            header::FileStart::Header(header) => Ok(header),
            header::FileStart::Nothing => Err(Error::NotAHeap { path: self.live.path.to_owned() }),
        }
    }

    /// Reads the header again. Returns it if it names the same run of the same log as the header `last`, or,
    /// for a closed heap, if it has not changed since the attempt began. Otherwise returns `None`.
    fn same_header(&self, last: &Header) -> Result<Option<Header>> {
        let bytes = read_header(self.live)?;
        let now = self.header(&bytes)?;
        let is_same = match last.in_use {
            HeapUse::Closed => bytes == self.start,
            HeapUse::In(_) => {
                let [of, before] = [&now, last].map(|header| (header.in_use, header.log, header.log_nonce));
                of == before && now.mapped >= last.mapped
            }
        };
        Ok((is_same || bug(Bug::OverlookOpening)).then_some(now))
    }

    /// Copies the range `pages` of the heap's file, and reads the log on beside that. Returns `false` if
    /// records were overwritten before they were read, or if the file is shorter than expected.
    fn copy_pages(
        &mut self,
        to: &HeapCopy<'_>,
        pages: Range<u64>,
        mut log: Option<&mut LiveLog>,
    ) -> Result<bool> {
        // If the file has become shorter, another process has closed or opened the heap, so this attempt is
        // given up.
        to.pages(&*self.live.disk.data(), pages, &mut || {
            (self.meanwhile)();
            log.as_deref_mut().map_or(Ok(true), |log| log.read_on_beside(copy::CHUNK))
        })
    }
}
