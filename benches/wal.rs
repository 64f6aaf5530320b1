//! The write amplification of the write-ahead log, and its memory.
//!
//! `cargo bench --bench wal -- [--quick] [--dir DIR]` prints a line of JSON for each case. Amplification is
//! bytes written per byte changed. It is counted in three ways: by the disk (`/proc/diskstats`, which
//! includes other programs), by the kernel for this process (`/proc/self/io`), and by pheap (records, and
//! pages written by checkpoints).

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use clap::Parser;
use pheap::{Durability, Heap, Options, P, Persist, Root, Stats, SyncPolicy};
use pheap_suite::{Rng, disk};

#[derive(Parser)]
struct Args {
    /// A small part of the work.
    #[arg(long)]
    quick: bool,
    /// A directory on the disk to write to; a temporary one in the current directory unless given.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// What `cargo bench` passes.
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Persist, Clone, Copy)]
#[repr(C)]
struct Block {
    words: [u64; 100],
}

#[derive(Persist)]
#[repr(C)]
struct Entry<'r> {
    next: Option<P<'r, Entry<'r>>>,
    value: [u8; 100],
}

#[derive(Persist, Default)]
#[repr(C)]
struct Chain<'r> {
    head: Option<P<'r, Entry<'r>>>,
}

/// Returns the bytes written so far by the disk of `dir`, and for this process.
fn written(dir: &Path) -> (u64, u64) {
    disk::settle(dir).expect("the disk works");
    let dev = fs::metadata(dir).expect("the directory is there").dev();
    let (major, minor) = (rustix::fs::major(dev), rustix::fs::minor(dev));
    let disks = fs::read_to_string("/proc/diskstats").unwrap_or_default();
    let sectors = disks.lines().find_map(|line| {
        let mut fields = line.split_whitespace();
        let found = fields.next()?.parse() == Ok(major) && fields.next()?.parse() == Ok(minor);
        found.then(|| fields.nth(7)?.parse::<u64>().ok()).flatten()
    });
    let io = fs::read_to_string("/proc/self/io").unwrap_or_default();
    let of_process = io.lines().find_map(|line| line.strip_prefix("write_bytes: ")?.parse().ok());
    (sectors.unwrap_or(0) * 512, of_process.unwrap_or(0))
}

fn of_heap(stats: &Stats) -> u64 {
    stats.log_bytes + stats.checkpoint_bytes
}

struct Case<'a> {
    dir: &'a Path,
    name: &'a str,
    policy: SyncPolicy,
    /// Bytes that each operation changes.
    bytes: u64,
    n: u64,
    working_set: u64,
}

impl Case<'_> {
    fn run(&self, prepare: impl FnOnce(&Heap), work: impl FnOnce(&Heap, u64)) {
        let path = self.dir.join("heap");
        let open = || {
            let options = Options::new().durability(Durability::Wal).sync_policy(self.policy);
            options.open(&path).expect("the heap opens")
        };
        let heap = open();
        prepare(&heap);
        heap.close().expect("the heap closes");
        let heap = open();
        let before = (written(self.dir), of_heap(&heap.stats()));
        work(&heap, self.n);
        heap.checkpoint().expect("the disk works");
        let stats = heap.stats();
        let after = (written(self.dir), of_heap(&stats));
        heap.close().expect("the heap closes");
        fs::remove_file(&path).expect("it was there");
        let changed = (self.bytes * self.n) as f64;
        println!(
            "{{\"system\":\"pheap\",\"bench\":\"amplification\",\"variant\":\"{}:{}\",\"n\":{},\"working_set\":{},\"disk\":{:.2},\"process\":{:.2},\"own\":{:.2},\"syncs\":{},\"checkpoints\":{}}}",
            self.name,
            if self.policy == SyncPolicy::OnDemand { "on_demand" } else { "every_commit" },
            self.n,
            self.working_set,
            (after.0.0 - before.0.0) as f64 / changed,
            (after.0.1 - before.0.1) as f64 / changed,
            (after.1 - before.1) as f64 / changed,
            stats.syncs,
            stats.checkpoints,
        );
    }
}

fn amplification(dir: &Path, quick: bool) {
    let few = if quick { 20 } else { 1 };
    for (policy, share) in [(SyncPolicy::OnDemand, 1), (SyncPolicy::EveryCommit, 100)] {
        let cells = 1 << 20;
        let case = Case {
            dir,
            name: "update8",
            policy,
            bytes: 8,
            n: 4_000_000 / share / few,
            working_set: cells * 8,
        };
        case.run(
            |heap| {
                drop(
                    heap.root_or::<P<'static, [u64]>>("cells", |tx| tx.alloc_slice(cells as usize, |_| 0))
                        .expect("it fits"),
                )
            },
            |heap, n| {
                let root: Root<P<'static, [u64]>> = heap.existing_root("cells").expect("it was made");
                let mut rng = Rng::from_seed(1);
                for i in 0..n {
                    let at = rng.below(cells as usize);
                    root.txn(|tx, cells| {
                        let cell = tx[cells].at(tx, at);
                        tx[cell] = i + 1;
                        Ok(())
                    })
                    .expect("the disk works");
                }
            },
        );
        let case = Case { dir, name: "insert100", policy, bytes: 100, n: 1_000_000 / few, working_set: 0 };
        case.run(
            |heap| drop(heap.root::<Chain>("chain").expect("it fits")),
            |heap, n| {
                let root: Root<Chain> = heap.existing_root("chain").expect("it was made");
                for batch in 0..n / 1000 {
                    root.txn(|tx, chain| {
                        for i in 0..1000 {
                            let next = tx[chain].head;
                            let entry = tx.alloc(Entry { next, value: [(batch + i) as u8 | 1; 100] })?;
                            tx[chain].head = Some(entry);
                        }
                        Ok(())
                    })
                    .expect("the disk works");
                }
            },
        );
        let blocks = 80_000u64;
        let case = Case {
            dir,
            name: "overwrite800",
            policy,
            bytes: 800,
            n: 800_000 / share / few,
            working_set: blocks * 800,
        };
        case.run(
            |heap| {
                let block = Block { words: [1; 100] };
                let made = heap.root_or::<P<'static, [Block]>>("blocks", |tx| {
                    tx.alloc_slice(blocks as usize, |_| block)
                });
                drop(made.expect("it fits"));
            },
            |heap, n| {
                let root: Root<P<'static, [Block]>> = heap.existing_root("blocks").expect("it was made");
                let mut rng = Rng::from_seed(2);
                for i in 0..n {
                    let at = rng.below(blocks as usize);
                    root.txn(|tx, blocks| {
                        let block = tx[blocks].at(tx, at);
                        tx[block] = Block { words: [i << 8 | 3; 100] };
                        Ok(())
                    })
                    .expect("the disk works");
                }
            },
        );
    }
}

/// Returns the bytes of this process's memory that do not belong to a file.
fn anonymous() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Changes a small part of a large heap all the time.
fn memory(dir: &Path, quick: bool) {
    const LIMIT: u64 = 128 << 20;
    let chunk = 32 << 20;
    let chunks: u64 = if quick { 16 } else { 128 };
    let path = dir.join("heap");
    let options =
        Options::new().durability(Durability::Wal).sync_policy(SyncPolicy::OnDemand).memory_limit(LIMIT);
    let heap = options.open(&path).expect("the heap opens");
    let mut most = (0, 0);
    let mut look = |heap: &Heap| {
        let now = (heap.stats().private_bytes, anonymous());
        most = (most.0.max(now.0), most.1.max(now.1));
    };
    let root = |heap: &Heap, i: u64| -> Root<P<'static, [u64]>> {
        heap.root_or(&format!("chunk {i}"), |tx| tx.alloc_slice(chunk as usize / 8, |j| j as u64 | 1))
            .expect("it fits")
    };
    for i in 0..chunks {
        root(&heap, i);
        look(&heap);
    }
    let filled = most;
    // 100 MiB are a bit more than three chunks.
    let hot: Vec<_> = (0..4).map(|i| root(&heap, i)).collect();
    let mut rng = Rng::from_seed(3);
    most = (0, 0);
    for i in 0..if quick { 200_000 } else { 4_000_000u64 } {
        let at = rng.below((100 << 20) / 8);
        let (which, cell) = (at / (chunk as usize / 8), at % (chunk as usize / 8));
        hot[which]
            .txn(|tx, cells| {
                let cell = tx[cells].at(tx, cell);
                tx[cell] = i;
                Ok(())
            })
            .expect("the disk works");
        if i % 10_000 == 0 {
            let now = (heap.stats().private_bytes, anonymous());
            most = (most.0.max(now.0), most.1.max(now.1));
        }
    }
    println!(
        "{{\"system\":\"pheap\",\"bench\":\"memory\",\"variant\":\"limit_{LIMIT}\",\"n\":{},\"working_set\":{},\"private\":{},\"anonymous\":{},\"private_filling\":{},\"anonymous_filling\":{},\"checkpoints\":{}}}",
        chunks * chunk,
        100 << 20,
        most.0,
        most.1,
        filled.0,
        filled.1,
        heap.stats().checkpoints,
    );
    drop(hot);
    heap.close().expect("the heap closes");
    fs::remove_file(&path).expect("it was there");
}

fn main() {
    let args = Args::parse();
    let _ = args.bench;
    let own =
        tempfile::Builder::new().prefix("pheap-wal").tempdir_in(".").expect("a directory can be made here");
    let dir = args.dir.unwrap_or_else(|| own.path().to_owned());
    amplification(&dir, args.quick);
    memory(&dir, args.quick);
}
