//! A heap with some of everything: maps in maps, enums, options, texts, a ring.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use pheap::{
    Durability, Options, P, PBTreeMap, PBTreeSet, PBytes, PHashMap, PHashSet, POption, PSnapMap, PString,
    PTuple2, PVec, PVecDeque, Persist, Result, Root, SharedStr, field,
};

#[derive(Persist)]
#[repr(C)]
pub struct Shop<'r> {
    pub jobs: PBTreeMap<'r, u64, P<'r, Job<'r>>>,
    pub by_owner: PHashMap<'r, P<'r, str>, P<'r, PHashMap<'r, SharedStr<'r>, u32>>>,
    pub tags: PHashSet<'r, u32>,
    pub words: PBTreeSet<'r, P<'r, str>>,
    pub waiting: PVecDeque<'r, u16>,
    pub log: PVec<'r, PString<'r>>,
    pub points: PBTreeMap<'r, PTuple2<i32, i32>, f64>,
    pub ring: Option<P<'r, Ring<'r>>>,
    pub raw: PBytes<'r>,
    pub text: P<'r, [u8]>,
    pub odd: [Option<std::num::NonZero<u8>>; 2],
}

#[derive(Persist)]
#[repr(C)]
pub struct Job<'r> {
    pub name: PString<'r>,
    pub state: State,
    pub retries: POption<u32>,
    pub parent: Option<P<'r, Job<'r>>>,
}

#[derive(Persist, Clone, Copy)]
#[repr(u8)]
pub enum State {
    Waiting,
    Running { worker: u32 },
    Done(i32),
}

#[derive(Persist)]
#[repr(C)]
pub struct Ring<'r> {
    pub number: u32,
    pub next: Option<P<'r, Ring<'r>>>,
}

/// Jobs in the heap, enough for inner nodes.
pub const JOBS: u64 = 3000;

pub fn options() -> Options {
    Options::new().arena_size(1 << 20).reserve(1 << 30).durability(Durability::Process)
}

/// Makes the heap, with so many jobs.
pub fn make(path: &Path, jobs: u64) -> Result<()> {
    let heap = options().open(path)?;
    let shop: Root<Shop> = heap.root_or("shop", |tx| {
        let first = tx.alloc(Ring { number: 1, next: None })?;
        let second = tx.alloc(Ring { number: 2, next: Some(first) })?;
        tx[first].next = Some(second);
        Ok(Shop {
            jobs: PBTreeMap::new(),
            by_owner: PHashMap::new(),
            tags: PHashSet::new(),
            words: PBTreeSet::new(),
            waiting: PVecDeque::new(),
            log: PVec::new(),
            points: PBTreeMap::new(),
            ring: Some(first),
            raw: PBytes::from_slice(tx, &[0, 159, 146, 150])?,
            text: tx.alloc_slice(4, |i| b"abcd"[i])?,
            odd: [std::num::NonZero::new(7), None],
        })
    })?;
    shop.txn(|tx, shop| {
        let mut parent = None;
        for number in 0..jobs {
            let state = match number % 3 {
                0 => State::Waiting,
                1 => State::Running { worker: number as u32 },
                _ => State::Done(-(number as i32)),
            };
            let retries = (number % 2 == 0).then_some(number as u32).into();
            let name = PString::from_str(tx, &format!("job {number}"))?;
            let job = tx.alloc(Job { name, state, retries, parent })?;
            parent = (number == 0).then_some(job).or(parent);
            field!(shop.jobs).insert(tx, number, job)?;
            field!(shop.tags).insert(tx, number as u32 * 2)?;
        }
        for (owner, of) in [("ada", 3), ("bob", 40)] {
            let map = tx.alloc(PHashMap::new())?;
            for i in 0..of {
                let key = SharedStr::new(tx, &format!("k{i}"))?;
                map.insert(tx, key, i)?;
            }
            field!(shop.by_owner).insert(tx, owner, map)?;
        }
        for word in ["pear", "apple", "fig"] {
            field!(shop.words).insert(tx, word)?;
            let line = PString::from_str(tx, &format!("saw \"{word}\", once"))?;
            field!(shop.log).push(tx, line)?;
        }
        for i in 0..6 {
            field!(shop.waiting).push_back(tx, i)?;
        }
        for _ in 0..4 {
            field!(shop.waiting).pop_front(tx);
        }
        for i in 10..15 {
            field!(shop.waiting).push_back(tx, i)?;
        }
        for (x, y) in [(1, 2), (-1, 5)] {
            field!(shop.points).insert(tx, PTuple2(x, y), f64::from(x) / 2.0)?;
        }
        Ok(())
    })?;
    let versions: Root<PSnapMap<u32, u64>> = heap.root("versions")?;
    versions.txn(|tx, versions| {
        (0..200).try_for_each(|i| versions.insert(tx, &i, &(u64::from(i) * 10)).map(drop))
    })?;
    drop((shop, versions));
    heap.close()
}

/// A folder with the heap in it.
pub struct Place {
    dir: tempfile::TempDir,
    pub heap: PathBuf,
}

impl Place {
    pub fn new() -> Place {
        Place::with(JOBS)
    }

    pub fn with(jobs: u64) -> Place {
        let dir = tempfile::tempdir().unwrap();
        let heap = dir.path().join("shop.pheap");
        make(&heap, jobs).unwrap();
        Place { dir, heap }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

pub fn pheap(command: &str, file: &Path, more: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_pheap"));
    program.arg(command).arg(file).args(more).output().expect("the program can be run")
}

/// Asserts that the program ended with this status. Returns its output, or its message if the status is 2.
#[track_caller]
pub fn ends_with(output: &Output, status: i32) -> String {
    assert_eq!(output.status.code(), Some(status), "{output:?}");
    let text = if status == 2 { &output.stderr } else { &output.stdout };
    String::from_utf8(text.clone()).unwrap()
}

#[track_caller]
pub fn text(command: &str, file: &Path, more: &[&str]) -> String {
    ends_with(&pheap(command, file, more), 0)
}

#[track_caller]
pub fn json(command: &str, file: &Path, more: &[&str]) -> serde_json::Value {
    serde_json::from_str(&text(command, file, more)).expect("the output is JSON")
}
