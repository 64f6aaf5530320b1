//! Decides, when a heap is opened, which parts of a redo record count. Without a write-ahead log, a short
//! transaction over several roots has one part in the log of each root that it has changed.
//!
//! The parts of a record form a ring: each names another part. (A single part names itself.) They become
//! durable together, by one fence, before the logs with these parts are used in another way. So a part counts
//! if the part that it names is complete, by one of these signs:
//!
//! * the named log is gone, because its root was removed;
//! * the named log has a newer generation, or goes on behind the named part;
//! * the named log ends with the named part, and the part that this names is complete by one of these signs,
//!   or the ring closes.
//!
//! Only the last entry of a log can be a part of an incomplete record.

use std::cmp::Ordering;
use std::collections::HashMap;

use crate::faults::{Bug, bug};
use crate::log::EntryId;

/// The end of a region's log, as recovery finds it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogEnd {
    pub(crate) region: u32,
    pub(crate) generation: u64,
    /// Number of complete entries of the log in this generation.
    pub(crate) entries: u64,
    /// The part that the log's last entry names, if the last entry is a part itself.
    pub(crate) next: Option<EntryId>,
}

/// What the last entry of one log proves about its record.
enum PartProof {
    Complete,
    Incomplete,
    /// The result is the same as for the last entry of another log, whose index this is.
    Ask(usize),
}

/// Returns for each log whether it ends with a part of an incomplete record. `ends` has all logs of the heap.
pub(crate) fn incomplete(ends: &[LogEnd]) -> Vec<bool> {
    let mut known: Vec<Option<bool>> = vec![None; ends.len()];
    if ends.iter().all(|end| end.next.is_none()) || bug(Bug::PartsCount) {
        return vec![false; ends.len()];
    }
    let by_region: HashMap<u32, usize> = ends.iter().enumerate().map(|(i, end)| (end.region, i)).collect();
    let mut asked = vec![usize::MAX; ends.len()];
    for first in 0..ends.len() {
        let (mut at, mut way) = (first, Vec::new());
        let verdict = loop {
            if let Some(verdict) = known[at] {
                break verdict;
            }
            if asked[at] == first {
                break false; // the ring closes
            }
            asked[at] = first;
            way.push(at);
            match follow_part(ends, &by_region, at) {
                PartProof::Complete => break false,
                PartProof::Incomplete => break true,
                PartProof::Ask(next) => at = next,
            }
        };
        way.into_iter().for_each(|log| known[log] = Some(verdict));
    }
    known.into_iter().map(|verdict| verdict == Some(true)).collect()
}

fn follow_part(ends: &[LogEnd], by_region: &HashMap<u32, usize>, log: usize) -> PartProof {
    let Some(next) = ends[log].next else { return PartProof::Complete };
    let Some(&other) = by_region.get(&next.region) else {
        return if bug(Bug::RemovedPartsMiss) { PartProof::Incomplete } else { PartProof::Complete };
    };
    match ends[other].generation.cmp(&next.generation) {
        Ordering::Less => PartProof::Incomplete, // pheap names no later generation than the log's
        Ordering::Equal => match ends[other].entries.cmp(&(u64::from(next.number) + 1)) {
            Ordering::Less => PartProof::Incomplete,
            Ordering::Equal => PartProof::Ask(other),
            Ordering::Greater => PartProof::Complete,
        },
        Ordering::Greater if bug(Bug::RetiredPartsMiss) => PartProof::Incomplete,
        Ordering::Greater => PartProof::Complete,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the end of the log of region `region`, in generation 7, with 3 entries.
    fn end(region: u32, next: Option<(u32, u32, u64)>) -> LogEnd {
        let next = next.map(|(region, number, generation)| EntryId { region, number, generation });
        LogEnd { region, generation: 7, entries: 3, next }
    }

    #[test]
    fn a_part_counts_with_its_ring() {
        let ring = [end(1, Some((2, 2, 7))), end(2, Some((3, 2, 7))), end(3, Some((1, 2, 7))), end(4, None)];
        assert_eq!(incomplete(&ring), [false; 4]);
        // One part is missing: the other parts do not count. The log without it ends with another entry.
        for missing in 0..3 {
            let mut ring = ring;
            (ring[missing].entries, ring[missing].next) = (2, None);
            let expected: Vec<bool> = (0..4).map(|log| log < 3 && log != missing).collect();
            assert_eq!(incomplete(&ring), expected);
            // The log of the missing part is empty and has a newer generation; or it goes on behind the part;
            // or its root was removed.
            (ring[missing].entries, ring[missing].generation) = (0, 8);
            assert_eq!(incomplete(&ring), [false; 4]);
            (ring[missing].entries, ring[missing].generation) = (4, 7);
            assert_eq!(incomplete(&ring), [false; 4]);
            ring[missing].region = 9;
            assert_eq!(incomplete(&ring), [false; 4]);
        }
    }

    #[test]
    fn a_record_of_one_part_is_complete() {
        assert_eq!(incomplete(&[end(1, Some((1, 2, 7)))]), [false]);
    }

    proptest! {
        /// Parts with any names give a result, and it is `false` for a log that does not end with a part.
        #[test]
        fn any_names_have_an_answer(
            names in prop::collection::vec(prop::option::of((0u32..8, 0u32..4, 6u64..9)), 0..8),
        ) {
            let ends: Vec<LogEnd> = (0..).zip(&names).map(|(region, &name)| end(region, name)).collect();
            let found = incomplete(&ends);
            prop_assert_eq!(found.len(), ends.len());
            for (end, &found) in ends.iter().zip(&incomplete(&ends)) {
                prop_assert!(end.next.is_some() || !found);
            }
        }
    }
}
