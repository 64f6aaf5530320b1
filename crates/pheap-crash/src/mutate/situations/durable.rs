//! Durable snapshots during deferred transactions. After a power failure, the heap has at least each version
//! that a snapshot has shown.

use pheap::{Commit, PSnapMap, Root};

use super::{Start, crash_everywhere};
use crate::medium::{Medium, Moment};
use crate::program::Setting;
use crate::report::Said;
use crate::run::options;

type Map = PSnapMap<'static, u64, u64>;

/// Returns the number of entries of the durable version. Each transaction adds an entry.
fn durable(map: &Root<Map>) -> Result<usize, String> {
    map.durable_snapshot().and_then(|snapshot| snapshot.read(|map| map.len())).said()
}

pub(super) fn explore(start: Start) -> Result<(), String> {
    let medium = Medium::new(start.content.on_disk());
    let options = options(Setting::default(), None);
    let heap = medium.opened(&options)?;
    let map: Root<Map> = heap.root("map").said()?;
    medium.take_points();
    let before = medium.durable();
    let mut commits: Vec<Commit> = Vec::new();
    let mut seen = Vec::new();
    // Number of transactions to add, then the transaction to wait for.
    for (add, wait) in [(4, 1), (1, 4), (3, 5), (2, 9)] {
        for _ in 0..add {
            let key = commits.len() as u64;
            commits.push(map.txn_deferred(|tx, map| map.insert(tx, &key, &!key)).said()?.1);
            seen.push(durable(&map)?);
            medium.acknowledge(seen[seen.len() - 1], seen[seen.len() - 1]);
        }
        commits[wait].wait().said()?;
        seen.push(durable(&map)?);
        medium.acknowledge(seen[seen.len() - 1], seen[seen.len() - 1]);
        if seen.last() <= Some(&wait) {
            return Err("what is durable is not shown".to_owned());
        }
    }
    let points = medium.take_points();
    drop((map, heap));
    if seen[..4] != [0; 4] || !seen.is_sorted() {
        return Err(format!("{seen:?} were shown as durable"));
    }
    for shown in 0..=commits.len() {
        let wanted = |point: &Moment| point.acknowledged().1 == shown;
        crash_everywhere(before.clone(), &points, wanted, |content| {
            let heap = Medium::new(content).open(&options).map_err(|error| error.to_string())?;
            let left = durable(&heap.root("map").said()?)?;
            if left >= shown { Ok(()) } else { Err(format!("it has {left} entries")) }
        })
        .map_err(|error| format!("when {shown} entries were shown as durable, {error}"))?;
    }
    Ok(())
}
