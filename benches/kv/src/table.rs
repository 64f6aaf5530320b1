//! The table of redb's own comparison with other stores (`redb-bench-compare` in its repository), with the
//! same rows, in the same order and of the same sizes.
//!
//! Keys have 24 random bytes, values 150. Each write is synced. The reads of a row share one transaction in
//! each thread, if the store has such.

use crate::Result;
use crate::measure::{Plan, processors, space};
use crate::systems::{Reader, Session, Store, System};
use pheap_suite::{Rng, disk};
use serde_json::json;
use std::sync::Barrier;
use std::time::Instant;

/// Default number of entries of the bulk load. The other sizes are in proportion.
pub(crate) const ENTRIES: u64 = 5_000_000;

const KEY: usize = 24;
const VALUE: usize = 150;
/// Number of entries in a range read.
const RANGE: usize = 10;
const THREADS: [usize; 4] = [4, 8, 16, 32];

/// Numbers of entries and operations.
struct Sizes {
    bulk: usize,
    individual: usize,
    batches: usize,
    batch: usize,
    reads: usize,
    ranges: usize,
}

impl Sizes {
    fn of(entries: u64) -> Sizes {
        let part = |whole: u64| (whole * entries).div_ceil(ENTRIES).max(1) as usize;
        Sizes {
            bulk: entries as usize,
            individual: part(1_000),
            batches: part(100),
            batch: 1_000.min(entries as usize),
            reads: part(1_000_000),
            ranges: part(500_000),
        }
    }
}

const MS: &str = "ms";
const BYTES: &str = "bytes";

/// Name of a row, its unit `ms` or `bytes`, and its value.
type Row = (String, &'static str, Option<f64>);

/// Runs all systems in turns. Prints for each row the median of the rounds.
pub(crate) fn run(plan: &Plan) -> Result<()> {
    let systems: Vec<System> =
        plan.systems.iter().copied().filter(|system| system.has(true) && system.has_order()).collect();
    let mut runs: Vec<Vec<Vec<Row>>> = vec![Vec::new(); systems.len()];
    for _ in 0..plan.rounds {
        for (system, runs) in systems.iter().zip(&mut runs) {
            let rows = one_run(plan, *system).map_err(|error| format!("{}: {error}", system.name()))?;
            runs.push(rows);
        }
    }
    let first = runs.first().and_then(|runs| runs.first()).map_or(0, Vec::len);
    for row in 0..first {
        for (system, runs) in systems.iter().zip(&runs) {
            let (name, unit, _) = &runs[0][row];
            let mut values: Vec<f64> = runs.iter().filter_map(|rows| rows[row].2).collect();
            values.sort_by(f64::total_cmp);
            let median = values.get(values.len() / 2);
            let (entries, dir) = (plan.entries, plan.dir.display().to_string());
            println!(
                "{}",
                json!({
                    "bench": "redb_table", "row": name, "system": system.name(), *unit: median,
                    "entries": entries, "rounds": plan.rounds, "dir": dir, "processors": processors(),
                })
            );
        }
    }
    Ok(())
}

fn one_run(plan: &Plan, system: System) -> Result<Vec<Row>> {
    let sizes = Sizes::of(plan.entries);
    let dir = tempfile::Builder::new().prefix("pheap-kv-bench-").tempdir_in(&plan.dir)?;
    let mut rows = Vec::new();
    let total = sizes.bulk + sizes.individual + sizes.batches * sizes.batch;
    let entries = Entries::new(total);
    let mut store = system.open(dir.path(), true, plan.room)?;
    disk::settle(dir.path())?;
    let mut timed = |name: &str, f: &mut dyn FnMut() -> Result<()>| -> Result<()> {
        let begun = Instant::now();
        f()?;
        let ms = begun.elapsed().as_secs_f64() * 1e3;
        // Reports the progress: a store may take long, and its rows are only printed at the end.
        eprintln!("{}: {name}: {ms:.1} ms", system.name());
        rows.push((name.to_owned(), MS, Some(ms)));
        Ok(())
    };
    let (bulk, rest) = entries.0.split_at(sizes.bulk);
    let (individual, rest) = rest.split_at(sizes.individual);
    write(&*store, &mut timed, bulk, individual, rest.chunks(sizes.batch))?;
    let mut len = 0;
    timed("len()", &mut || {
        len = store.len()?;
        Ok(())
    })?;
    // A store may also count one entry of its own, such as the name of a key space.
    if !(total as u64..=total as u64 + 1).contains(&len) {
        return Err(format!("{len} entries instead of {total}").into());
    }
    {
        let session = store.session()?;
        let mut reader = session.reader()?;
        for name in ["random reads", "random reads (again)"] {
            timed(name, &mut || read(&mut *reader, &entries.0[..sizes.reads.min(total)]))?;
        }
        for name in ["random range reads", "random range reads (again)"] {
            timed(name, &mut || read_ranges(&mut *reader, &entries.0[..sizes.ranges.min(total)]))?;
        }
    }
    for threads in THREADS {
        timed(&format!("random reads ({threads} threads)"), &mut || {
            read_side_by_side(&*store, &entries.0, threads)
        })?;
    }
    let mut removed = entries.0[..total / 2].iter().map(|(key, _)| &key[..]);
    timed("removals", &mut || store.session()?.delete_all(&mut removed))?;
    store.settle()?;
    rows.push(("uncompacted size".to_owned(), BYTES, Some(space(dir.path())? as f64)));
    let begun = Instant::now();
    let is_compact = store.compact()?;
    let ms = begun.elapsed().as_secs_f64() * 1e3;
    rows.push(("compaction".to_owned(), MS, is_compact.then_some(ms)));
    check(&*store, &entries.0[total / 2..])?;
    store.close()?;
    rows.push(("compacted size".to_owned(), BYTES, Some(space(dir.path())? as f64)));
    Ok(rows)
}

type Entry = (Vec<u8>, Vec<u8>);

/// Entries in random order.
struct Entries(Vec<Entry>);

impl Entries {
    fn new(len: usize) -> Entries {
        let mut rng = Rng::from_seed(pheap_suite::SEED);
        let mut bytes = |len: usize| -> Vec<u8> {
            let mut bytes = Vec::with_capacity(len.next_multiple_of(8));
            while bytes.len() < len {
                bytes.extend_from_slice(&rng.next_u64().to_le_bytes());
            }
            bytes.truncate(len);
            bytes
        };
        Entries((0..len).map(|_| (bytes(KEY), bytes(VALUE))).collect())
    }
}

type Timed<'t> = dyn FnMut(&str, &mut dyn FnMut() -> Result<()>) -> Result<()> + 't;

fn write<'e>(
    store: &dyn Store,
    timed: &mut Timed<'_>,
    bulk: &[Entry],
    individual: &[Entry],
    batches: impl Iterator<Item = &'e [Entry]> + Clone,
) -> Result<()> {
    let mut session = store.session()?;
    timed("bulk load", &mut || load(&mut *session, bulk))?;
    timed("individual writes", &mut || {
        individual.iter().try_for_each(|(key, value)| session.put(key, value))
    })?;
    timed("batch writes", &mut || batches.clone().try_for_each(|batch| load(&mut *session, batch)))
}

fn load(session: &mut dyn Session, entries: &[Entry]) -> Result<()> {
    session.load(&mut entries.iter().map(|(key, value)| (&key[..], &value[..])))
}

/// Looks up all of these keys, and reads the values.
fn read(reader: &mut dyn Reader, entries: &[Entry]) -> Result<()> {
    let (mut sum, mut expected) = (0u64, 0u64);
    for (key, value) in entries {
        reader.get(key, &mut |found| sum += u64::from(found[0]))?;
        expected += u64::from(value[0]);
    }
    if sum == expected { Ok(()) } else { Err("values are not those that were put".into()) }
}

fn read_ranges(reader: &mut dyn Reader, entries: &[Entry]) -> Result<()> {
    let mut seen = 0u64;
    for (key, _) in entries {
        reader.scan(key, RANGE, &mut |_, value| {
            std::hint::black_box(value[0]);
            seen += u64::from(value.len() == VALUE);
        })?;
    }
    if seen >= entries.len() as u64 { Ok(()) } else { Err("entries are not there".into()) }
}

fn read_side_by_side(store: &dyn Store, entries: &[Entry], threads: usize) -> Result<()> {
    let barrier = Barrier::new(threads);
    std::thread::scope(|scope| {
        let parts = entries.chunks(entries.len().div_ceil(threads));
        let works: Vec<_> = (0..threads)
            .zip(parts.chain(std::iter::repeat(&[][..])))
            .map(|(_, part)| {
                let barrier = &barrier;
                scope.spawn(move || -> Result<()> {
                    let session = store.session();
                    barrier.wait();
                    let session: Box<dyn Session + '_> = session?;
                    let mut reader = session.reader()?;
                    read(&mut *reader, part)
                })
            })
            .collect();
        works.into_iter().try_for_each(|work| work.join().expect("a thread"))
    })
}

/// Checks that the entries that were not removed are there.
fn check(store: &dyn Store, left: &[Entry]) -> Result<()> {
    let session = store.session()?;
    let mut reader = session.reader()?;
    read(&mut *reader, left)
}
