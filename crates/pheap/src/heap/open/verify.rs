//! Checking a file before it is opened.

use std::path::Path;

use super::lost;
use crate::error::{Error, Result};
use crate::heap::options::Options;
use crate::os::own_file::OwnFile;
use crate::store::header::{Header, Use};

/// For [`Options::verify`]: checks a file before it is opened, and before anything in it is changed. Its logs are replayed in memory.
pub(in crate::heap) fn verify(options: &Options, path: &Path, file: &OwnFile, header: &Header) -> Result<()> {
    let is_copy = options.restored && header.in_use != Use::Closed;
    if !options.verify && !is_copy {
        return Ok(());
    }
    let private = options.clone().read_only(true);
    let heap = crate::heap::open::found::open_private(&private, path, file.clone(), header.clone())?;
    let report = heap.check()?;
    // SURVIVES drop: a heap that was opened for this, and nobody else has.
    let arenas = heap.inner().tables.lock().arenas.clone();
    drop(heap);
    let mut problems = report.problems;
    if let Some(lost) = lost::lost_root(file, header, &arenas)
        .map_err(|e| Error::io(format!("reading {}", path.display()), e))?
    {
        problems.insert(0, lost);
    }
    if problems.is_empty() {
        return Ok(());
    }
    let count = problems.len() as u64 + report.more_problems;
    problems.truncate(3);
    let more = if count > 3 { format!("; and {} more problems", count - 3) } else { String::new() };
    Err(Error::corrupt(format!("{}{more}", problems.join("; "))))
}
