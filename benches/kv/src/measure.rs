//! Runs all cases, the systems in turns, and prints a line for each.

use crate::Result;
use crate::data::{Values, Zipfian};
use crate::systems::{Room, Store, System};
use crate::workload::{Shared, Worker, Workload};
use hdrhistogram::Histogram;
use pheap_suite::disk;
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) dir: PathBuf,
    pub(crate) workloads: Vec<Workload>,
    pub(crate) systems: Vec<System>,
    pub(crate) threads: Vec<usize>,
    pub(crate) sync: Vec<bool>,
    pub(crate) values: Vec<usize>,
    pub(crate) entries: u64,
    pub(crate) room: Room,
    /// Time after which a run ends. It ends earlier if there is nothing left to do.
    pub(crate) run: Duration,
    pub(crate) rounds: usize,
}

/// Entries of a batch when a store is filled before a run.
const LOADED: u64 = 500;
/// Prefixes of columns: for most threads, and for the thread that only writes.
const KINDS: [&str; 2] = ["", "writer_"];

struct Case {
    workload: Workload,
    sync: bool,
    threads: usize,
    value_len: usize,
}

pub(crate) fn run(plan: &Plan) -> Result<()> {
    for &workload in &plan.workloads {
        let values = workload.value_len().map_or(plan.values.clone(), |len| vec![len]);
        for &sync in plan.sync.iter().take(if workload.only_reads() { 1 } else { usize::MAX }) {
            for &value_len in &values {
                for &threads in &plan.threads {
                    measure(plan, &Case { workload, sync, threads, value_len })?;
                }
            }
        }
    }
    Ok(())
}

/// Runs a case on all systems in turns. Prints for each system the run with the median rate.
fn measure(plan: &Plan, case: &Case) -> Result<()> {
    let has = |system: &System| system.has(case.sync) && (system.has_order() || !case.workload.needs_order());
    let systems: Vec<System> = plan.systems.iter().copied().filter(has).collect();
    let mut runs = vec![Vec::new(); systems.len()];
    for _ in 0..plan.rounds {
        for (system, runs) in systems.iter().zip(&mut runs) {
            let run = one_run(plan, case, *system);
            runs.push(
                run.map_err(|error| format!("{} of {}: {error}", case.workload.name(), system.name()))?,
            );
        }
    }
    for (system, mut runs) in systems.iter().zip(runs) {
        let rate = |row: &serde_json::Value| row["ops_per_second"].as_f64().unwrap_or(0.0);
        runs.sort_by(|one, other| rate(one).total_cmp(&rate(other)));
        let mut row = runs[runs.len() / 2].clone();
        row["system"] = system.name().into();
        row["rounds"] = runs.len().into();
        row["least"] = rate(&runs[0]).into();
        row["most"] = rate(&runs[runs.len() - 1]).into();
        println!("{row}");
    }
    Ok(())
}

fn one_run(plan: &Plan, case: &Case, system: System) -> Result<serde_json::Value> {
    let dir = tempfile::Builder::new().prefix("pheap-kv-bench-").tempdir_in(&plan.dir)?;
    let memory = Memory::now()?;
    let store = system.open(dir.path(), case.sync, plan.room)?;
    // The records are ten times larger, so there are a tenth of them.
    let entries = if case.workload == Workload::YcsbG { plan.entries.div_ceil(10) } else { plan.entries };
    let shared = Shared {
        workload: case.workload,
        values: Values::new(),
        value_len: case.value_len,
        entries,
        threads: case.threads,
        next: AtomicU64::new(0),
        zipfian: Zipfian::new(entries),
    };
    if case.workload.is_loaded() {
        load(&*store, &shared)?;
        if case.workload.is_ycsb() {
            shared.next.store(entries, std::sync::atomic::Ordering::Relaxed);
        }
    }
    disk::settle(dir.path())?;
    let (written, by_system) = (store.written(), Written::now()?);
    // `readwhilewriting` has one more thread, which writes.
    let writers = usize::from(case.workload == Workload::Readwhilewriting);
    let cpu_time = || Ok::<_, crate::Error>(cpu_time().as_secs_f64() + store.cpu_elsewhere()?);
    let before = cpu_time()?;
    let mut outcome = run_threads(&*store, &shared, case.threads + writers, plan.run)?;
    let cpu = cpu_time()? - before;
    let written = store.written().zip(written).map(|(after, before)| after - before);
    let writer = if writers > 0 { outcome.pop() } else { None };
    let bytes = outcome.iter().chain(&writer).map(|thread| thread.bytes).sum::<u64>();
    let mut row = json!({
        "bench": case.workload.name(), "sync": case.sync, "threads": case.threads, "value": case.value_len,
        "entries": entries, "dir": plan.dir.display().to_string(), "processors": processors(), "bytes_put": bytes,
    });
    describe(&mut row, KINDS[0], &outcome)?;
    let operations = outcome.iter().chain(&writer).map(|thread| thread.histogram.len()).sum::<u64>();
    row["cpu_us_per_op"] = (cpu * 1e6 / operations.max(1) as f64).into();
    if let Some(writer) = writer {
        describe(&mut row, KINDS[1], &[writer])?;
    }
    if let Some(written) = written.filter(|_| bytes > 0) {
        row["bytes_written"] = written.into();
        row["write_amplification"] = (written as f64 / bytes as f64).into();
    }
    row["space"] = space(dir.path())?.into();
    let memory = Memory::now()?.since(&memory);
    (row["anonymous"], row["mapped"]) = (memory.anonymous.into(), memory.mapped.into());
    store.close()?;
    disk::settle(dir.path())?;
    if bytes > 0 {
        let by_system = Written::now()?.since(&by_system);
        row["system_amplification"] = (by_system.by_calls as f64 / bytes as f64).into();
        row["disk_amplification"] = (by_system.to_disk as f64 / bytes as f64).into();
    }
    Ok(row)
}

/// Returns the number of processors that this process may use.
pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn load(store: &dyn Store, shared: &Shared) -> Result<()> {
    let (mut session, mut rng) = (store.session()?, pheap_suite::Rng::from_seed(pheap_suite::SEED));
    let keys = shared.workload.keys();
    for start in (0..shared.entries).step_by(LOADED as usize) {
        let numbers = start..shared.entries.min(start + LOADED);
        let entries: Vec<(Vec<u8>, Vec<u8>)> = numbers
            .map(|number| {
                let mut key = Vec::new();
                keys.key(number, &mut key);
                (key, shared.values.random(&mut rng, shared.value_len).to_vec())
            })
            .collect();
        session.load(&mut entries.iter().map(|(key, value)| (&key[..], &value[..])))?;
    }
    drop(session);
    store.settle()
}

#[derive(Clone)]
struct Thread {
    histogram: Histogram<u64>,
    seconds: f64,
    bytes: u64,
}

fn run_threads(store: &dyn Store, shared: &Shared, threads: usize, time: Duration) -> Result<Vec<Thread>> {
    let barrier = Barrier::new(threads);
    std::thread::scope(|scope| {
        let works: Vec<_> = (0..threads)
            .map(|number| {
                let barrier = &barrier;
                scope.spawn(move || -> Result<Thread> {
                    let session = store.session();
                    barrier.wait();
                    let mut worker = Worker::new(shared, session?, number);
                    let mut histogram = Histogram::new(3)?;
                    let begun = Instant::now();
                    let mut last = begun;
                    loop {
                        let more = worker.step()?;
                        let now = Instant::now();
                        if more {
                            histogram.record((now - last).as_nanos() as u64)?;
                        }
                        last = now;
                        if !more || now - begun >= time {
                            return Ok(Thread {
                                histogram,
                                seconds: (now - begun).as_secs_f64(),
                                bytes: worker.bytes,
                            });
                        }
                    }
                })
            })
            .collect();
        works.into_iter().map(|work| work.join().expect("a thread")).collect()
    })
}

fn describe(row: &mut serde_json::Value, kind: &str, threads: &[Thread]) -> Result<()> {
    let mut all = Histogram::<u64>::new(3)?;
    for thread in threads {
        all.add(&thread.histogram)?;
    }
    let seconds = threads.iter().map(|thread| thread.seconds).fold(f64::MIN_POSITIVE, f64::max);
    let mut set = |name: &str, value: f64| row[format!("{kind}{name}")] = value.into();
    set("ops_per_second", all.len() as f64 / seconds);
    set("seconds", seconds);
    for (name, quantile) in
        [("p50_us", 0.5), ("p90_us", 0.9), ("p99_us", 0.99), ("p999_us", 0.999), ("max_us", 1.0)]
    {
        set(name, all.value_at_quantile(quantile) as f64 / 1e3);
    }
    Ok(())
}

/// Returns the processor time of this process, background threads included. Other programs change it less
/// than they change a rate.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::ProcessCPUTime).try_into().expect("it is not negative")
}

/// The system's counters of this process.
struct Written {
    /// Bytes passed to `write` and similar calls.
    by_calls: u64,
    /// Bytes of pages that the process made the system write to disks.
    to_disk: u64,
}

impl Written {
    fn now() -> Result<Written> {
        let io = std::fs::read_to_string("/proc/self/io")?;
        Ok(Written { by_calls: field(&io, "wchar:")?, to_disk: field(&io, "write_bytes:")? })
    }

    fn since(&self, before: &Written) -> Written {
        Written { by_calls: self.by_calls - before.by_calls, to_disk: self.to_disk - before.to_disk }
    }
}

/// Bytes that this process has in memory: private ones, and those of files.
struct Memory {
    anonymous: u64,
    mapped: u64,
}

impl Memory {
    fn now() -> Result<Memory> {
        let status = std::fs::read_to_string("/proc/self/status")?;
        let of = |name| Ok::<_, crate::Error>(field(&status, name)? << 10);
        Ok(Memory { anonymous: of("RssAnon:")?, mapped: of("RssFile:")? + of("RssShmem:")? })
    }

    fn since(&self, before: &Memory) -> Memory {
        Memory {
            anonymous: self.anonymous.saturating_sub(before.anonymous),
            mapped: self.mapped.saturating_sub(before.mapped),
        }
    }
}

/// Returns the number in a line of a file in `/proc`.
fn field(text: &str, name: &str) -> Result<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)).ok_or("a field of /proc is missing")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

/// Returns the bytes that the files take.
pub(crate) fn space(dir: &Path) -> Result<u64> {
    use std::os::unix::fs::MetadataExt as _;
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir)? {
        // An open store may remove files at any time.
        let entry = entry?;
        let Ok(metadata) = entry.metadata() else { continue };
        bytes += if metadata.is_dir() { space(&entry.path())? } else { metadata.blocks() * 512 };
    }
    Ok(bytes)
}
