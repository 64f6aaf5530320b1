//! `sps_recovery`: a process makes the swaps of [`sps`](crate::sps), and is killed after the last one, before
//! it commits. Measures the time until another process has opened the heap with the array as it was before.
//!
//! Each pass makes a new heap, with two processes: one that is killed, and one that opens the heap.

use crate::child::{Figures, Job, await_death, killed_after};
use crate::scratch::{self, heap_in};
use crate::sps::{Array, Swaps, array, checksum, swap_all};
use crate::{Case, Result, Sample, Setup};
use pheap::{Durability, Options, Root};
use std::path::Path;
use std::time::Instant;

/// Returns all variants of `n` elements and swaps.
pub fn cases(setup: &Setup, n: u64) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    let restored: Vec<u64> = (0..n).collect();
    let sum = checksum(&restored);
    for &durability in &setup.durabilities {
        for (job, suffix) in [(&JOBS[0], "slice_mut"), (&JOBS[1], "element")] {
            let (setup, variant) = (setup.clone(), format!("{}:{suffix}", scratch::name(durability)));
            cases.push(Case::new("pheap", "sps_recovery", variant, n, move || {
                let dir = setup.folder()?;
                killed_after(job.name, durability, n, &heap_in(&dir))?;
                // Fails unless the array is as it was.
                let child = killed_after(JOBS[2].name, durability, n, &heap_in(&dir))?;
                Ok(Sample { seconds: child.get("seconds")?, ..Sample::default() }.with(sum))
            }));
        }
    }
    Ok(cases)
}

/// The jobs of children.
pub(crate) static JOBS: [Job; 3] = [
    Job { name: "sps-slice", work: |durability, n, path| job_swap(durability, n, path, Swaps::SliceMut) },
    Job { name: "sps-element", work: |durability, n, path| job_swap(durability, n, path, Swaps::Element) },
    Job { name: "sps-reopen", work: job_reopen },
];

/// Makes the swaps, and waits until it is killed. Never commits.
fn job_swap(durability: Durability, n: u64, path: &Path, swaps: Swaps) -> Result<Figures> {
    let heap = Options::new().durability(durability).open(path)?;
    let root = array(&heap, n)?;
    root.try_txn(|tx, p| {
        let items = tx[p].items;
        swap_all(tx, items, n, swaps);
        await_death(&Vec::new())?;
        Err("nobody has killed this process".into())
    })
}

fn job_reopen(durability: Durability, n: u64, path: &Path) -> Result<Figures> {
    let start = Instant::now();
    let heap = Options::new().durability(durability).open(path)?;
    let seconds = start.elapsed().as_secs_f64();
    let root: Root<Array> = heap.existing_root("array")?;
    let restored = root.read(|view, p| view[view[p].items].iter().copied().eq(0..n))?;
    std::mem::forget(heap);
    if restored { Ok(vec![("seconds", seconds)]) } else { Err("the array is not as it was".into()) }
}
