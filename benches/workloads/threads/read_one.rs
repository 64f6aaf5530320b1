//! `read_one`: reads of an entry of a small map, a read transaction each, beside a thousand in one. The difference is what a read transaction costs.

use super::rates::{Work, rates};
use super::{Map, OPERATIONS, Setting, at_rate, get, map};
use crate::collections::key;
use crate::{Case, Result, scratch};
use pheap::Root;
use std::hint::black_box;

/// Entries, and reads in a transaction. They stay in the first caches, so that misses do not hide what is measured.
const ENTRIES: u64 = 1000;

pub(super) fn cases(setting: &Setting) -> Result<Vec<Case>> {
    type Reader = fn(Root<Map>) -> Work<'static>;
    let variants: [(&str, Reader); 2] = [("one", one), ("thousand", thousand)];
    let mut cases = Vec::new();
    for &durability in &setting.memory.durabilities {
        for (variant, work) in variants {
            let name = format!("{}:{variant}", scratch::name(durability));
            let setting = setting.clone();
            cases.push(Case::new("pheap", "read_one", name, OPERATIONS, move || {
                let heap = setting.memory.heap(durability)?;
                let root = map(&heap.heap, "map", ENTRIES)?;
                Ok(at_rate(rates(vec![work(root)], setting.time)?[0]))
            }));
        }
    }
    Ok(cases)
}

fn one(root: Root<Map>) -> Work<'static> {
    let keys: Vec<u64> = (0..ENTRIES).map(key).collect();
    Box::new(move || {
        for &key in &keys {
            black_box(get(&root, key)?);
        }
        Ok(ENTRIES)
    })
}

fn thousand(root: Root<Map>) -> Work<'static> {
    let keys: Vec<u64> = (0..ENTRIES).map(key).collect();
    Box::new(move || {
        root.read(|view, map| {
            for key in &keys {
                black_box(view[map].get(view, key).copied().unwrap_or(0));
            }
        })?;
        Ok(ENTRIES)
    })
}
