//! Heaps whose files are renamed, linked, removed, replaced and copied by name, while programs open them,
//! close them and are killed. The order is random, and a model knows which heap each name leads to. A program
//! that opens a name finds all acknowledged changes of that heap, or gets an error that says why not. It
//! never finds less, and never another heap.

mod program;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use pheap_testkit::log_of;
use program::Running;

/// Mistakes that programs can be told to make.
#[cfg(feature = "sim")]
const BUGS: [pheap::sim::Bug; 2] = [pheap::sim::Bug::TakeCopies, pheap::sim::Bug::OverlookRemoval];

/// Not a test: what the programs run.
#[test]
fn program() {
    program::run();
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Use {
    Closed,
    /// Not closed: its program was killed or failed, or it is a copy of a heap that was open.
    Left,
    /// By the program with this number.
    By(usize),
}

/// A file with a heap in it.
#[derive(Clone, Debug)]
struct Node {
    id: u64,
    /// How often it was changed, as was acknowledged.
    count: u64,
    state: Use,
    /// Whether the heap was opened with a log last, and which one that is.
    log: Option<u64>,
    /// A copy of a file in use. Whether it is torn.
    copy: Option<bool>,
    /// The model does not know its content.
    dubious: bool,
    /// A name of it has changed since it was opened: its log may have been looked for between two changes.
    moved: bool,
}

/// One run of the model.
struct World {
    rng: u64,
    dirs: Vec<tempfile::TempDir>,
    kinds: &'static [&'static str],
    bug: String,
    /// Files by their names, and logs by theirs.
    names: BTreeMap<PathBuf, usize>,
    logs: BTreeMap<PathBuf, u64>,
    nodes: Vec<Node>,
    programs: BTreeMap<usize, (Running, usize)>,
    numbers: u64,
    story: Vec<String>,
}

const PROGRAMS: usize = 3;

impl World {
    fn new(seed: u64, kinds: &'static [&'static str], bug: &str) -> World {
        let mut dirs = vec![tempfile::tempdir().expect("a folder")];
        dirs.extend(tempfile::tempdir_in("/dev/shm"));
        World {
            rng: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            dirs,
            kinds,
            bug: bug.to_owned(),
            names: BTreeMap::new(),
            logs: BTreeMap::new(),
            nodes: Vec::new(),
            programs: BTreeMap::new(),
            numbers: 1000,
            story: Vec::new(),
        }
    }

    fn below(&mut self, n: usize) -> usize {
        self.rng ^= self.rng << 13;
        self.rng ^= self.rng >> 7;
        self.rng ^= self.rng << 17;
        (self.rng % n as u64) as usize
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    fn any_name(&mut self) -> PathBuf {
        let dir = self.below(self.dirs.len());
        let name = ["a", "b", "c"][self.below(3)];
        self.dirs[dir].path().join(name)
    }

    /// A name that something has, if any.
    fn a_name(&mut self) -> Option<PathBuf> {
        let number = self.below(self.names.len().max(1));
        self.names.keys().nth(number).cloned()
    }

    fn a_program(&mut self) -> Option<usize> {
        let number = self.below(self.programs.len().max(1));
        self.programs.keys().nth(number).copied()
    }

    fn has_name(&self, node: usize) -> bool {
        self.names.values().any(|other| *other == node)
    }

    fn note(&mut self, what: String) {
        self.story.push(what);
    }

    fn fail(&self, why: &str) -> String {
        format!("{why}\n  {}", self.story.join("\n  "))
    }

    fn step(&mut self) -> Result<(), String> {
        match self.below(20) {
            0..4 => {
                let path = self.any_name();
                let restored = self.below(4) == 0;
                self.open(&path, restored)
            }
            4..8 => self.commit(),
            8 => self.ask("sync"),
            9 => {
                let what = if self.below(2) == 0 { "checkpoint" } else { "grow" };
                self.ask(what)
            }
            10 | 11 => self.ask("close"),
            12 => {
                self.kill();
                Ok(())
            }
            13 | 14 => self.rename(),
            15 => self.link(),
            16 => self.remove(),
            17 => self.copy(false),
            18 => self.copy(true),
            _ => self.backup(),
        }
    }

    fn open(&mut self, path: &Path, restored: bool) -> Result<(), String> {
        let Some(slot) = (0..PROGRAMS).find(|slot| !self.programs.contains_key(slot)) else { return Ok(()) };
        let kind = self.kinds[self.below(self.kinds.len())];
        let id = self.number();
        let mut running = Running::start(&self.bug);
        let answer = running.open(kind, restored, id, path);
        self.note(format!("{slot}: open {} {kind} {restored}: {answer}", path.display()));
        let before = self.names.get(path).copied();
        let stray = self.logs.get(&log_of(path)).copied();
        let log_error = matches!(&*answer, "ForeignLog" | "LogMissing");
        let found =
            answer.split_once(' ').and_then(|(id, count)| Some((id.parse().ok()?, count.parse().ok()?)));
        let (expected, may_fail) = match before.map(|node| self.nodes[node].clone()) {
            None => ((id, 0), stray.is_some() && log_error),
            Some(Node { dubious: true, .. }) => return self.forget(path),
            Some(Node { state: Use::By(_), .. }) => {
                return if answer == "Locked" { Ok(()) } else { Err(self.fail("it is open elsewhere")) };
            }
            Some(Node { copy: Some(_), .. }) if !restored => {
                return if answer == "Copied" {
                    Ok(())
                } else {
                    Err(self.fail("it is a copy of one in use"))
                };
            }
            Some(Node { copy: Some(true), .. }) => return self.forget(path),
            Some(node) => {
                let needs_log = node.state == Use::Left && node.log.is_some();
                let foreign = if needs_log { stray != node.log } else { stray.is_some() };
                ((node.id, node.count), foreign && log_error)
            }
        };
        if found.is_none() && may_fail {
            if before.is_none() && path.exists() {
                fs::remove_file(path).expect("an empty file");
            }
            return Ok(());
        }
        if found != Some(expected) {
            return Err(self.fail(&format!("{expected:?} is there")));
        }
        let node = before.unwrap_or_else(|| {
            let (id, count) = expected;
            self.nodes.push(Node {
                id,
                count,
                state: Use::Closed,
                log: None,
                copy: None,
                dubious: false,
                moved: false,
            });
            self.names.insert(path.to_owned(), self.nodes.len() - 1);
            self.nodes.len() - 1
        });
        // The file at the name of the log is not needed any more, whichever heap it belonged to.
        self.logs.remove(&log_of(path));
        self.nodes[node].log = None;
        if kind == "wal" {
            let log = self.number();
            self.logs.insert(log_of(path), log);
            self.nodes[node].log = Some(log);
        }
        self.nodes[node].state = Use::By(slot);
        (self.nodes[node].copy, self.nodes[node].moved) = (None, false);
        self.programs.insert(slot, (running, node));
        Ok(())
    }

    /// Removes the file with this name, and its log, also from the model.
    fn forget(&mut self, path: &Path) -> Result<(), String> {
        for path in [path.to_owned(), log_of(path)] {
            let _ = fs::remove_file(&path);
            self.names.remove(&path);
            self.logs.remove(&path);
        }
        Ok(())
    }

    /// Whether the log of a node is where the next opening looks for it, under one of its names at least.
    fn log_is_there(&self, node: usize) -> bool {
        let log = self.nodes[node].log;
        let mut names = self.names.iter().filter(|(_, other)| **other == node);
        log.is_none() || names.any(|(name, _)| self.logs.get(&log_of(name)).copied() == log)
    }

    fn tell(&mut self, slot: usize, words: &[&str]) -> (usize, String) {
        let (running, node) = self.programs.get_mut(&slot).expect("it runs");
        let (answer, node) = (running.tell(words), *node);
        self.note(format!("{slot}: {words:?}: {answer}"));
        (node, answer)
    }

    fn commit(&mut self) -> Result<(), String> {
        let Some(slot) = self.a_program() else { return Ok(()) };
        let (node, answer) = self.tell(slot, &["commit"]);
        if answer == "ok" {
            self.nodes[node].count += 1;
            return Ok(());
        }
        self.failed(slot, node, "a commit has failed")
    }

    /// A program whose log was taken away may fail. Then the model does not know whether the change was made.
    fn failed(&mut self, slot: usize, node: usize, why: &str) -> Result<(), String> {
        let is_found = self.log_is_there(node) && self.has_name(node);
        if is_found && !(self.nodes[node].moved && self.nodes[node].log.is_some()) {
            return Err(self.fail(why));
        }
        self.nodes[node].dubious = true;
        self.nodes[node].state = Use::Left;
        self.programs.remove(&slot);
        Ok(())
    }

    fn ask(&mut self, what: &str) -> Result<(), String> {
        let Some(slot) = self.a_program() else { return Ok(()) };
        let (node, answer) = self.tell(slot, &[what]);
        if !self.has_name(node) {
            // It may not have had to grow.
            let noticed = answer == "Removed" || answer == "ok" && what == "grow";
            return if noticed { self.save(slot, node) } else { self.failed_removed(slot, node, &answer) };
        }
        if answer != "ok" {
            return self.failed(slot, node, "it has failed");
        }
        if what == "close" {
            self.programs.remove(&slot);
            self.nodes[node].state = Use::Closed;
            if let Some(log) = self.nodes[node].log.take() {
                self.logs.retain(|_, other| *other != log);
            }
        }
        Ok(())
    }

    fn failed_removed(&mut self, slot: usize, node: usize, answer: &str) -> Result<(), String> {
        if answer == "ok" || self.nodes[node].log.is_none() {
            return Err(self.fail("the file was removed, and nobody has noticed"));
        }
        self.failed(slot, node, "")
    }

    /// What the message says: all that was committed to a heap whose file was removed can be saved.
    fn save(&mut self, slot: usize, node: usize) -> Result<(), String> {
        let to = self.any_name();
        if to.symlink_metadata().is_ok() || self.logs.contains_key(&log_of(&to)) {
            return Ok(());
        }
        let (_, answer) = self.tell(slot, &["backup", to.to_str().expect("text")]);
        if answer != "ok" {
            return self.failed_removed(slot, node, &answer);
        }
        self.add(&to, Node { state: Use::Closed, log: None, ..self.nodes[node].clone() });
        Ok(())
    }

    fn add(&mut self, path: &Path, node: Node) {
        self.nodes.push(Node { copy: node.copy.filter(|_| node.state != Use::Closed), ..node });
        self.names.insert(path.to_owned(), self.nodes.len() - 1);
    }

    fn kill(&mut self) {
        if let Some(slot) = self.a_program()
            && let Some((running, node)) = self.programs.remove(&slot)
        {
            drop(running);
            self.nodes[node].state = Use::Left;
            self.note(format!("{slot}: killed"));
        }
    }

    fn rename(&mut self) -> Result<(), String> {
        let Some(from) = self.a_name() else { return Ok(()) };
        let to = self.any_name();
        if from.parent() != to.parent() || self.names.get(&from) == self.names.get(&to) {
            return Ok(());
        }
        let with_log = self.below(2) == 0;
        self.note(format!("rename {} {} {with_log}", from.display(), to.display()));
        fs::rename(&from, &to).expect("it can be renamed");
        let node = self.names.remove(&from).expect("it has the name");
        self.nodes[node].moved = true;
        self.names.insert(to.clone(), node);
        if with_log && let Some(log) = self.logs.remove(&log_of(&from)) {
            if fs::rename(log_of(&from), log_of(&to)).is_err() {
                return Err(self.fail("somebody has removed a log that is not his"));
            }
            self.logs.insert(log_of(&to), log);
        }
        Ok(())
    }

    fn link(&mut self) -> Result<(), String> {
        let Some(from) = self.a_name() else { return Ok(()) };
        let to = self.any_name();
        if from.parent() == to.parent() && !self.names.contains_key(&to) {
            self.note(format!("link {} {}", from.display(), to.display()));
            fs::hard_link(&from, &to).expect("it can be linked");
            self.names.insert(to, self.names[&from]);
        }
        Ok(())
    }

    fn remove(&mut self) -> Result<(), String> {
        let Some(path) = self.a_name() else { return Ok(()) };
        let with_log = self.below(2) == 0;
        self.note(format!("remove {} {with_log}", path.display()));
        fs::remove_file(&path).expect("it can be removed");
        if let Some(node) = self.names.remove(&path) {
            self.nodes[node].moved = true;
        }
        if with_log && self.logs.remove(&log_of(&path)).is_some() && fs::remove_file(log_of(&path)).is_err() {
            return Err(self.fail("somebody has removed a log that is not his"));
        }
        Ok(())
    }

    /// As `cp` does it, and of a heap in use perhaps with a transaction in the middle of it.
    fn copy(&mut self, torn: bool) -> Result<(), String> {
        let Some(from) = self.a_name() else { return Ok(()) };
        let to = self.any_name();
        if to.symlink_metadata().is_ok() || log_of(&to).exists() {
            return Ok(());
        }
        let number = self.names[&from];
        let mut node = self.nodes[number].clone();
        self.note(format!("copy {} {} {torn}", from.display(), to.display()));
        fs::copy(&from, &to).expect("it can be copied");
        let mut is_torn = node.copy == Some(true);
        if torn && let Use::By(slot) = node.state {
            let half = fs::metadata(&from).expect("a file").len() / 2;
            self.commit()?;
            if !self.programs.contains_key(&slot) {
                node.dubious = true;
            }
            let bytes = fs::read(&from).expect("a file");
            let file = File::options().write(true).open(&to).expect("a file");
            file.write_all_at(&bytes[half as usize..], half).expect("it can be written");
            is_torn = true;
        }
        // The log of the original may go on, or be checkpointed. So the log of the copy is another one.
        let log = log_of(&from);
        if let Some(&number) = self.logs.get(&log) {
            fs::copy(&log, log_of(&to)).expect("it can be copied");
            let new = self.number();
            self.logs.insert(log_of(&to), new);
            node.log = node.log.map(|log| if log == number { new } else { log });
        }
        if node.state != Use::Closed {
            node.state = Use::Left;
            node.copy = Some(is_torn);
        }
        self.add(&to, node);
        Ok(())
    }

    fn backup(&mut self) -> Result<(), String> {
        let Some(slot) = self.a_program() else { return Ok(()) };
        let node = self.programs[&slot].1;
        self.save(slot, node)
    }

    /// Ends all programs. Then opens everything that has a name.
    fn end(&mut self) -> Result<(), String> {
        while !self.programs.is_empty() {
            match self.below(2) {
                0 => self.kill(),
                _ => {
                    let slot = self.a_program().expect("there is one");
                    let node = self.programs[&slot].1;
                    self.ask("close")?;
                    if !self.has_name(node) {
                        self.programs.remove(&slot);
                    }
                }
            }
        }
        let names: BTreeSet<PathBuf> = self.names.keys().cloned().collect();
        for name in names {
            self.open(&name, false)?;
            while !self.programs.is_empty() {
                self.kill();
            }
        }
        Ok(())
    }
}

fn run(seed: u64, kinds: &'static [&'static str], bug: &str) -> Result<(), String> {
    let mut world = World::new(seed, kinds, bug);
    for _ in 0..40 {
        world.step()?;
    }
    world.end().map_err(|why| format!("seed {seed}: {why}"))
}

/// Number of runs: 30, or what `PHEAP_NAMES_RUNS` says.
fn runs() -> u64 {
    std::env::var("PHEAP_NAMES_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(30)
}

fn all(kinds: &'static [&'static str]) {
    for seed in 1..=runs() {
        if let Err(why) = run(seed, kinds, "") {
            panic!("seed {seed}: {why}");
        }
    }
}

#[test]
fn heaps_without_logs() {
    all(&["process", "pmem"]);
}

#[test]
fn heaps_with_logs() {
    all(&["wal"]);
}

#[test]
fn heaps_of_all_kinds() {
    all(&["process", "pmem", "wal"]);
}

#[cfg(feature = "sim")]
#[test]
fn mistakes_are_found() {
    for bug in BUGS {
        let bug = format!("{bug:?}");
        assert!((1..200).any(|seed| run(seed, &["process", "pmem"], &bug).is_err()), "{bug} was not found");
    }
}
