//! Checks a file before it is opened.

use super::found::FoundHeap;
use super::{fit, lost};
use crate::error::{Error, Result};
use crate::heap::Heap;
use crate::store::header::HeapUse;

/// Checks the file before it is opened, and before anything in it is changed, if
/// [`Options::verify`](crate::Options::verify) asks for that, or
/// [`Options::restored`](crate::Options::restored) for a heap that was not closed.
///
/// The check needs a heap whose logs are replayed and whose pointers lead into its mapping. The file may not
/// be in that state yet, so a separate heap is opened for it, read-only, in private memory or a temporary
/// copy, by the same stages. A heap on a simulated medium is not checked.
pub(super) fn verify(found: &FoundHeap<'_>) -> Result<()> {
    if !is_wanted(found) || found.place.file().is_none() {
        return Ok(());
    }
    let options = &found.options.clone().read_only(true);
    open(FoundHeap { options, ..found.clone() }).map(drop)
}

fn is_wanted(found: &FoundHeap<'_>) -> bool {
    found.options.verify || found.options.restored && found.header.in_use != HeapUse::Closed
}

/// Opens a heap that is only read, and checks it if the options ask for that. Returns the checked heap
/// itself, because the heap may be in a copy that was stored to, which cannot be opened twice.
pub(super) fn open(found: FoundHeap<'_>) -> Result<Heap> {
    let (options, place) = (found.options, found.place);
    let file = place.file().filter(|_| is_wanted(&found));
    let (lost, heap) = fit::survey(found, |surveyed| {
        // A lost root is looked for before the opening clears spans that belong to no root.
        let lost = file.map_or(Ok(None), |file| lost::lost_root(file, &surveyed.contents));
        let lost = lost.map_err(|e| Error::io(format!("reading {}", place.path().display()), e))?;
        Ok((lost, surveyed.plan()?.recover()?.into_heap(options, None)))
    })?;
    if file.is_none() {
        return Ok(heap);
    }
    let report = heap.check()?;
    let mut problems = report.problems;
    problems.splice(..0, lost);
    if problems.is_empty() {
        return Ok(heap);
    }
    drop(heap);
    let count = problems.len() as u64 + report.more_problems;
    problems.truncate(3);
    let more = if count > 3 { format!("; and {} more problems", count - 3) } else { String::new() };
    Err(Error::corrupt(format!("{}{more}", problems.join("; "))))
}
