//! Checking a file before it is opened.

use super::found::Found;
use super::{fit, lost};
use crate::error::{Error, Result};
use crate::store::header::Use;

/// For [`Options::verify`](crate::Options::verify): checks a file before it is opened, and before anything in it is changed.
///
/// What is checked is a heap whose logs are replayed and whose pointers lead to where it is mapped. The file has none of that yet, so it is a heap of its own, in memory, by the same stages.
pub(super) fn verify(found: &Found<'_>) -> Result<()> {
    let Found { options, place, header, .. } = found;
    let is_copy = options.restored && header.in_use != Use::Closed;
    let Some(file) = place.file().filter(|_| options.verify || is_copy) else { return Ok(()) };
    let options = &(*options).clone().read_only(true);
    let (lost, heap) = fit::survey(Found { options, ..found.clone() }, |surveyed| {
        // Before spans that belong to no root are cleared.
        let lost = lost::lost_root(file, &surveyed.contents)
            .map_err(|e| Error::io(format!("reading {}", place.path().display()), e))?;
        Ok((lost, surveyed.plan()?.recover()?.finish(options, None)))
    })?;
    let report = heap.check()?;
    drop(heap);
    let mut problems = report.problems;
    problems.splice(..0, lost);
    if problems.is_empty() {
        return Ok(());
    }
    let count = problems.len() as u64 + report.more_problems;
    problems.truncate(3);
    let more = if count > 3 { format!("; and {} more problems", count - 3) } else { String::new() };
    Err(Error::corrupt(format!("{}{more}", problems.join("; "))))
}
