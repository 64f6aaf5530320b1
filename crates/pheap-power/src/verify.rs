//! Checks the heap after it was opened.

use std::path::Path;

use pheap::{Heap, Root};

use crate::content::{MONEY, MOST_ROOTS, Shard, verify_shard};
use crate::temps::Life;
use crate::{Result, say, shard_name, text};

/// Checks the heap, and prints the last transaction of each shard and the steps of each thread. Returns the
/// temporary roots of the threads.
pub fn verify(heap: &Heap, roots: u64, threads: u64) -> Result<Vec<Life>> {
    let report = heap.check().map_err(text)?;
    if !report.is_clean() {
        return Err(format!("check: {report}"));
    }
    let mut lives = Vec::new();
    let mut known = Vec::new();
    for thread in 0..threads {
        let (life, names) = Life::find(heap, thread)?;
        lives.push(life);
        known.extend(names);
    }
    let there = heap.roots();
    let mut shards: Vec<Root<Shard<'static>>> = Vec::new();
    for i in 0..roots {
        if there.iter().any(|root| root.name == shard_name(i)) {
            shards.push(heap.existing_root(&shard_name(i)).map_err(text)?);
        }
    }
    known.extend(shards.iter().map(|root| root.name().to_owned()));
    if known.len() != there.len() {
        return Err(format!("{} roots, of which these are known: {known:?}; {there:?}", there.len()));
    }
    let mut found = Vec::new();
    for root in &shards {
        found.push(look(root)?);
    }
    balance(&found)?;
    for &Found { root, n, .. } in &found {
        say(format_args!("found {root} {n}"));
    }
    for life in &lives {
        life.say("alive");
    }
    Ok(lives)
}

/// The fields that are compared between shards.
pub struct Found {
    pub root: u64,
    pub n: u64,
    pub money: u64,
    pub witness: [u64; MOST_ROOTS],
}

impl Found {
    pub fn of(shard: &Shard<'_>) -> Found {
        Found { root: shard.root, n: shard.n, money: shard.money, witness: shard.witness }
    }
}

/// Verifies one shard.
fn look(root: &Root<Shard<'static>>) -> Result<Found> {
    root.read(|view, shard| {
        let found = Found::of(&view[shard]);
        if root.name() != shard_name(found.root) {
            return Err(format!("{:?} has number {}", root.name(), found.root));
        }
        verify_shard(view, shard, found.root)?;
        Ok(found)
    })
    .map_err(text)?
}

/// Verifies that transfers left the sum of the money, and that each shard has the transactions that other
/// shards know of.
pub fn balance(found: &[Found]) -> Result {
    let (money, expected) = (found.iter().map(|f| f.money).sum::<u64>(), found.len() as u64 * MONEY);
    if money != expected {
        return Err(format!("money: {money} in all shards, not {expected}"));
    }
    for shard in found {
        for other in found {
            let witness = shard.witness[other.root as usize];
            if witness > other.n {
                let (root, n, Found { root: o, n: m, .. }) = (shard.root, shard.n, other);
                return Err(format!(
                    "order: shard {root} at {n} knows transaction {witness} of shard {o}, which is at {m}"
                ));
            }
        }
    }
    Ok(())
}

/// Returns whether the kernel maps a file with `MAP_SYNC`.
pub fn is_mapped_with_sync(path: &Path) -> bool {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    let Some(path) = path.to_str() else { return false };
    // The line of a mapping ends with the path; the flags of the mapping follow.
    let mut lines = maps.lines().skip_while(|line| !line.ends_with(path));
    let flags = lines.find_map(|line| line.strip_prefix("VmFlags:"));
    flags.is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "sf"))
}
