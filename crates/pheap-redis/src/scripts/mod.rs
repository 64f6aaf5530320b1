//! Scripts that all threads know, and which of them are slow.

pub mod gates;
pub mod libraries;

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use parking_lot::{Mutex, RwLock};
use sha1::{Digest, Sha1};

use crate::text::words;

/// Bytes of stack of a thread that runs scripts. Scripts may nest 200 calls of functions of C, see `sandbox.lua`.
/// With `string.gsub` these need 2 MiB; with `load`, each in the middle of a text that is nested 180 levels deep, up to 16.
pub const STACK: usize = 64 << 20;

/// Runs in a thread with the stack of a thread that runs scripts: that of a test is too small for values as deep as
/// they may be.
#[cfg(test)]
pub(crate) fn with_stack<R: Send + 'static>(f: impl FnOnce() -> R + Send + 'static) -> R {
    std::thread::Builder::new().stack_size(STACK).spawn(f).unwrap().join().unwrap()
}

/// The SHA-1 of a script in hexadecimal digits, in small letters.
pub type Sha = [u8; 40];

/// What a script has declared about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Declared(u8);

impl Declared {
    /// It only looks.
    pub const NO_WRITES: Declared = Declared(1);
    /// It runs although there is no memory.
    pub const ALLOW_OOM: Declared = Declared(2);
    /// It runs although what it sees may be old.
    pub const ALLOW_STALE: Declared = Declared(4);
    /// It says nothing: each of its commands is asked.
    pub const NOTHING: Declared = Declared(32);

    const NAMES: [&'static str; 5] =
        ["no-writes", "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys"];

    /// What one word declares.
    pub fn parse(name: &[u8]) -> Option<Declared> {
        Declared::NAMES.iter().position(|known| known.as_bytes() == name).map(|bit| Declared(1 << bit))
    }

    /// What a script of this text declares.
    pub fn of_text(text: &[u8]) -> Option<Declared> {
        first_line(text).ok().map(|(declared, _)| declared)
    }

    /// This, too.
    #[must_use]
    pub fn and(self, other: Declared) -> Declared {
        Declared(self.0 | other.0)
    }

    /// Whether this is declared.
    pub fn has(self, other: Declared) -> bool {
        self.0 & other.0 != 0
    }

    /// The words.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Declared::NAMES.into_iter().enumerate().filter(move |(bit, _)| self.0 & 1 << bit != 0).map(|(_, n)| n)
    }
}

/// A script.
#[derive(Debug)]
pub struct Script {
    /// What it is known by.
    pub sha: Sha,
    /// What it declares in its first line.
    pub declared: Declared,
    /// Its text.
    pub text: Vec<u8>,
    /// Length of a first line that is not for Lua.
    pub shebang: usize,
}

impl Script {
    /// A script of this text. None of it was looked at but a first line that begins with `#!`.
    ///
    /// # Errors
    /// What is wrong with that line.
    pub fn new(text: &[u8]) -> Result<Script, String> {
        let (declared, shebang) = first_line(text)?;
        Ok(Script { sha: sha1(text), declared, text: text.to_vec(), shebang })
    }

    /// What Lua is to compile.
    pub fn code(&self) -> &[u8] {
        &self.text[self.shebang..]
    }
}

/// The SHA-1 of a text.
pub fn sha1(text: &[u8]) -> Sha {
    let mut sha = [0; 40];
    for (digits, byte) in sha.chunks_exact_mut(2).zip(Sha1::digest(text)) {
        digits[0] = b"0123456789abcdef"[usize::from(byte >> 4)];
        digits[1] = b"0123456789abcdef"[usize::from(byte & 15)];
    }
    sha
}

/// What a first line that begins with `#!` declares, and its length.
fn first_line(text: &[u8]) -> Result<(Declared, usize), String> {
    if !text.starts_with(b"#!") {
        return Ok((Declared::NOTHING, 0));
    }
    let end = text.iter().position(|&byte| byte == b'\n').ok_or("Invalid script shebang")?;
    let parts = words::split(&text[..end]).ok_or("Invalid engine in script shebang")?;
    let [engine, options @ ..] = &parts[..] else { return Err("Invalid engine in script shebang".into()) };
    if engine != b"#!lua" {
        return Err(format!("Unexpected engine in script shebang: {}", words::lossy(engine)));
    }
    let mut declared = Declared::default();
    for option in options {
        let Some(flags) = option.strip_prefix(b"flags=") else {
            return Err(format!("Unknown lua shebang option: {}", words::lossy(option)));
        };
        for flag in flags.split(|&byte| byte == b',').filter(|_| !flags.is_empty()) {
            let unexpected = || format!("Unexpected flag in script shebang: {}", words::lossy(flag));
            declared = declared.and(Declared::parse(flag).ok_or_else(unexpected)?);
        }
    }
    Ok((declared, end))
}

/// A script that has run for long.
#[derive(Debug)]
pub struct Slow {
    /// Whether it is no function of a library.
    pub is_eval: bool,
    /// Whether a master has sent it, and so has run it.
    pub is_of_master: bool,
    /// Its SHA-1, or the function's name.
    pub name: String,
    /// The command that runs it.
    pub command: Vec<Vec<u8>>,
    /// When it began.
    pub started: Instant,
    /// Whether it has written something.
    pub has_written: AtomicBool,
    /// Whether somebody wants it to end.
    pub is_killed: AtomicBool,
}

/// Scripts that all threads know.
#[derive(Debug, Default)]
pub struct Scripts {
    known: RwLock<HashMap<Sha, Arc<Script>>>,
    /// How often all were forgotten.
    generation: AtomicU64,
    /// Number of slow ones.
    busy: AtomicUsize,
    slow: Mutex<Vec<Arc<Slow>>>,
    /// Hashes of the names and texts of those that have touched keys in other shards than they have declared.
    wide: RwLock<HashSet<u64>>,
    has_wide: AtomicBool,
    hasher: RandomState,
    /// Bytes that Lua uses for scripts, in all threads; and for functions.
    pub memory: [AtomicI64; 2],
}

/// Names of wide scripts that are kept.
const WIDE: usize = 10_000;

/// What a client is told while a script does not come to an end.
pub const BUSY_EVAL: &str =
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";
/// The same, if it is a function.
pub const BUSY_FUNCTION: &str =
    "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.";

impl Scripts {
    /// The script with this SHA-1.
    pub fn get(&self, sha: &Sha) -> Option<Arc<Script>> {
        self.known.read().get(sha).cloned()
    }

    /// Makes a script known.
    pub fn add(&self, script: Arc<Script>) {
        self.known.write().insert(script.sha, script);
    }

    /// Number of scripts that are known.
    pub fn count(&self) -> usize {
        self.known.read().len()
    }

    /// Forgets all.
    pub fn flush(&self) {
        let mut known = self.known.write();
        known.clear();
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// How often all were forgotten.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Whether a script needs all shards, although it has not declared keys in all. `name` is how it is called: its text, SHA-1 or function.
    pub fn is_wide(&self, name: &[u8]) -> bool {
        self.has_wide.load(Ordering::Relaxed) && self.wide.read().contains(&self.hasher.hash_one(name))
    }

    /// It does.
    pub fn set_wide(&self, name: &[u8]) {
        let mut wide = self.wide.write();
        if wide.len() >= WIDE {
            wide.clear();
        }
        wide.insert(self.hasher.hash_one(name));
        self.has_wide.store(true, Ordering::Relaxed);
    }

    /// Whether a slow script runs.
    pub fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Acquire) > 0
    }

    /// The slow script that has run for longest.
    pub fn slowest(&self) -> Option<Arc<Slow>> {
        self.slow.lock().first().cloned()
    }

    /// What clients are told meanwhile.
    pub fn busy_error(&self) -> &'static str {
        if self.slowest().is_some_and(|slow| !slow.is_eval) { BUSY_FUNCTION } else { BUSY_EVAL }
    }

    /// A script is slow.
    pub fn begin_slow(&self, slow: Arc<Slow>) {
        self.slow.lock().push(slow);
        self.busy.fetch_add(1, Ordering::AcqRel);
    }

    /// It has ended.
    pub fn end_slow(&self, slow: &Arc<Slow>) {
        self.slow.lock().retain(|other| !Arc::ptr_eq(other, slow));
        self.busy.fetch_sub(1, Ordering::AcqRel);
    }

    /// Lets the slowest script end, if it has written nothing yet.
    ///
    /// # Errors
    /// Why not, as the client is told.
    pub fn kill(&self, is_eval: bool) -> Result<(), &'static str> {
        let slow = self.slowest().ok_or("NOTBUSY No scripts in execution right now.")?;
        if slow.is_of_master {
            return Err(
                "UNKILLABLE The busy script was sent by a master instance in the context of replication and cannot be killed.",
            );
        }
        if slow.has_written.load(Ordering::Acquire) {
            return Err(
                "UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait the script termination or kill the server in a hard way using the SHUTDOWN NOSAVE command.",
            );
        }
        if slow.is_eval != is_eval {
            return Err(if slow.is_eval { BUSY_EVAL } else { BUSY_FUNCTION });
        }
        slow.is_killed.store(true, Ordering::Release);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_lines() {
        assert_eq!(first_line(b"return 1"), Ok((Declared::NOTHING, 0)));
        assert_eq!(first_line(b"#!lua\nreturn 1"), Ok((Declared::default(), 5)));
        let (declared, _) = first_line(b"#!lua flags=no-writes,allow-oom\n").unwrap();
        assert_eq!(declared.names().collect::<Vec<_>>(), ["no-writes", "allow-oom"]);
        assert_eq!(first_line(b"#!lua flags=\n"), Ok((Declared::default(), 12)));
        for (line, problem) in [
            ("#!lua", "Invalid script shebang"),
            ("#!perl\n", "Unexpected engine in script shebang: #!perl"),
            ("#!lua a=b\n", "Unknown lua shebang option: a=b"),
            ("#!lua flags=what\n", "Unexpected flag in script shebang: what"),
        ] {
            assert_eq!(first_line(line.as_bytes()), Err(problem.to_owned()));
        }
    }

    #[test]
    fn known_by_their_sha() {
        assert_eq!(&sha1(b""), b"da39a3ee5e6b4b0d3255bfef95601890afd80709");
        let scripts = Scripts::default();
        scripts.add(Arc::new(Script::new(b"return 1").unwrap()));
        assert!(scripts.get(&sha1(b"return 1")).is_some());
        assert!(!scripts.is_wide(b"x"));
        scripts.set_wide(b"x");
        assert!(scripts.is_wide(b"x") && !scripts.is_wide(b"y"));
        scripts.flush();
        assert!(scripts.count() == 0 && scripts.generation() == 1);
    }
}
