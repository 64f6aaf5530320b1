//! Scripts that all threads share, and the slow scripts that run now.

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

/// Bytes of stack of a thread that runs scripts. Scripts may nest 200 calls of C functions that call Lua
/// functions, see `sandbox.lua`. With `string.gsub` these need about 2 MiB. With `load`, each in a text that
/// is nested 180 levels deep, they need up to 16 MiB.
pub const STACK: usize = 64 << 20;

/// Runs `f` in a thread with as much stack as a thread that runs scripts. The stack of a test is too small
/// for values of the greatest allowed depth.
#[cfg(test)]
pub(crate) fn with_stack<R: Send + 'static>(f: impl FnOnce() -> R + Send + 'static) -> R {
    std::thread::Builder::new().stack_size(STACK).spawn(f).unwrap().join().unwrap()
}

/// The SHA-1 of a script, in lowercase hexadecimal digits.
pub type Sha = [u8; 40];

/// The flags that a script declares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ScriptFlags(u8);

impl ScriptFlags {
    /// The script only reads.
    pub const NO_WRITES: ScriptFlags = ScriptFlags(1);
    /// The script runs although memory is short.
    pub const ALLOW_OOM: ScriptFlags = ScriptFlags(2);
    /// The script runs although the data may be stale.
    pub const ALLOW_STALE: ScriptFlags = ScriptFlags(4);
    /// The text has no `#!` line, so nothing is declared, and the server checks each command of the script.
    pub const NOTHING: ScriptFlags = ScriptFlags(32);

    const NAMES: [&'static str; 5] =
        ["no-writes", "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys"];

    /// Parses the name of a flag. Returns None if there is no such flag.
    pub fn parse(name: &[u8]) -> Option<ScriptFlags> {
        ScriptFlags::NAMES.iter().position(|known| known.as_bytes() == name).map(|bit| ScriptFlags(1 << bit))
    }

    /// Returns the flags that a script's text declares. None if its first line is invalid.
    pub fn of_text(text: &[u8]) -> Option<ScriptFlags> {
        first_line(text).ok().map(|(declared, _)| declared)
    }

    /// Adds flags.
    #[must_use]
    pub fn and(self, other: ScriptFlags) -> ScriptFlags {
        ScriptFlags(self.0 | other.0)
    }

    /// Returns whether any of these flags is declared.
    pub fn has(self, other: ScriptFlags) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns the names of the declared flags.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        ScriptFlags::NAMES
            .into_iter()
            .enumerate()
            .filter(move |(bit, _)| self.0 & 1 << bit != 0)
            .map(|(_, n)| n)
    }
}

/// A script.
#[derive(Debug)]
pub struct Script {
    /// The SHA-1, by which clients call it.
    pub sha: Sha,
    /// The flags that the script's first line declares.
    pub declared: ScriptFlags,
    /// The text of the script.
    pub text: Vec<u8>,
    /// Length of the `#!` line without its end, which Lua does not compile; 0 if there is none.
    pub shebang: usize,
}

impl Script {
    /// Makes a script from its text. Parses only a first line that begins with `#!`.
    ///
    /// # Errors
    /// If the line is invalid. The error says why.
    pub fn new(text: &[u8]) -> Result<Script, String> {
        let (declared, shebang) = first_line(text)?;
        Ok(Script { sha: sha1(text), declared, text: text.to_vec(), shebang })
    }

    /// Returns the text for Lua: without the `#!` line.
    pub fn code(&self) -> &[u8] {
        &self.text[self.shebang..]
    }
}

/// Returns the SHA-1 of a text.
pub fn sha1(text: &[u8]) -> Sha {
    let mut sha = [0; 40];
    for (digits, byte) in sha.chunks_exact_mut(2).zip(Sha1::digest(text)) {
        digits[0] = b"0123456789abcdef"[usize::from(byte >> 4)];
        digits[1] = b"0123456789abcdef"[usize::from(byte & 15)];
    }
    sha
}

/// Parses a first line that begins with `#!`. Returns its flags, and its length without its end. For another
/// line, returns [`ScriptFlags::NOTHING`] and 0.
fn first_line(text: &[u8]) -> Result<(ScriptFlags, usize), String> {
    if !text.starts_with(b"#!") {
        return Ok((ScriptFlags::NOTHING, 0));
    }
    let end = text.iter().position(|&byte| byte == b'\n').ok_or("Invalid script shebang")?;
    let parts = words::split(&text[..end]).ok_or("Invalid engine in script shebang")?;
    let [engine, options @ ..] = &parts[..] else { return Err("Invalid engine in script shebang".into()) };
    if engine != b"#!lua" {
        return Err(format!("Unexpected engine in script shebang: {}", words::lossy(engine)));
    }
    let mut declared = ScriptFlags::default();
    for option in options {
        let Some(flags) = option.strip_prefix(b"flags=") else {
            return Err(format!("Unknown lua shebang option: {}", words::lossy(option)));
        };
        for flag in flags.split(|&byte| byte == b',').filter(|_| !flags.is_empty()) {
            let unexpected = || format!("Unexpected flag in script shebang: {}", words::lossy(flag));
            declared = declared.and(ScriptFlags::parse(flag).ok_or_else(unexpected)?);
        }
    }
    Ok((declared, end))
}

/// A running script that has reached `busy-reply-threshold`.
#[derive(Debug)]
pub struct SlowScript {
    /// Whether the script is one of `EVAL` or `EVALSHA`, and not a library function.
    pub is_eval: bool,
    /// Whether a master sent the script, and has therefore run it.
    pub is_of_master: bool,
    /// The SHA-1 of the script, or the name of the function.
    pub name: String,
    /// The words of the command that runs the script.
    pub command: Vec<Vec<u8>>,
    /// When the script began.
    pub started: Instant,
    /// Whether the script has run a command that writes.
    pub has_written: AtomicBool,
    /// Whether a client has asked to end the script.
    pub is_killed: AtomicBool,
}

/// The scripts that all threads share.
#[derive(Debug, Default)]
pub struct Scripts {
    known: RwLock<HashMap<Sha, Arc<Script>>>,
    /// Number of calls of [`Scripts::flush`].
    generation: AtomicU64,
    /// Number of slow scripts.
    busy: AtomicUsize,
    slow: Mutex<Vec<Arc<SlowScript>>>,
    /// Hashes of the texts, SHA-1s and names by which scripts were called that needed keys in shards without
    /// a declared key.
    wide: RwLock<HashSet<u64>>,
    has_wide: AtomicBool,
    hasher: RandomState,
    /// Bytes that Lua uses in all threads: for scripts, and for functions.
    pub memory: [AtomicI64; 2],
}

/// The most wide scripts to keep. When one more comes, all earlier ones are forgotten.
const WIDE: usize = 10_000;

/// The error reply to commands while a script is slow.
pub const BUSY_EVAL: &str =
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";
/// The error reply to commands while a library function is slow.
pub const BUSY_FUNCTION: &str =
    "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.";

impl Scripts {
    /// Returns the script with this SHA-1, if it is known.
    pub fn get(&self, sha: &Sha) -> Option<Arc<Script>> {
        self.known.read().get(sha).cloned()
    }

    /// Adds a script.
    pub fn add(&self, script: Arc<Script>) {
        self.known.write().insert(script.sha, script);
    }

    /// Returns the number of scripts.
    pub fn count(&self) -> usize {
        self.known.read().len()
    }

    /// Removes all scripts.
    pub fn flush(&self) {
        let mut known = self.known.write();
        known.clear();
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns the number of calls of [`Scripts::flush`].
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Returns whether [`set_wide`](Self::set_wide) has recorded that a script needs all shards. `name` is
    /// the text or SHA-1 by which a client calls the script. (A call of a function always has all shards.)
    pub fn is_wide(&self, name: &[u8]) -> bool {
        self.has_wide.load(Ordering::Relaxed) && self.wide.read().contains(&self.hasher.hash_one(name))
    }

    /// Records that a script needs all shards, although it may not declare keys in all of them.
    pub fn set_wide(&self, name: &[u8]) {
        let mut wide = self.wide.write();
        if wide.len() >= WIDE {
            wide.clear();
        }
        wide.insert(self.hasher.hash_one(name));
        self.has_wide.store(true, Ordering::Relaxed);
    }

    /// Returns whether a slow script runs.
    pub fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Acquire) > 0
    }

    /// Returns the slow script that became slow first.
    pub fn slowest(&self) -> Option<Arc<SlowScript>> {
        self.slow.lock().first().cloned()
    }

    /// Returns the error reply to commands while a script is slow.
    pub fn busy_error(&self) -> &'static str {
        if self.slowest().is_some_and(|slow| !slow.is_eval) { BUSY_FUNCTION } else { BUSY_EVAL }
    }

    /// Adds a slow script.
    pub fn begin_slow(&self, slow: Arc<SlowScript>) {
        self.slow.lock().push(slow);
        self.busy.fetch_add(1, Ordering::AcqRel);
    }

    /// Removes a slow script, because it has ended.
    pub fn end_slow(&self, slow: &Arc<SlowScript>) {
        self.slow.lock().retain(|other| !Arc::ptr_eq(other, slow));
        self.busy.fetch_sub(1, Ordering::AcqRel);
    }

    /// Asks the script that became slow first to end, unless a master sent it, it has written, or it is of
    /// another kind than `is_eval` says: a script of `EVAL`, or else a library function.
    ///
    /// # Errors
    /// If no script is slow, or the script is not asked to end. The error is the reply to the client.
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
        assert_eq!(first_line(b"return 1"), Ok((ScriptFlags::NOTHING, 0)));
        assert_eq!(first_line(b"#!lua\nreturn 1"), Ok((ScriptFlags::default(), 5)));
        let (declared, _) = first_line(b"#!lua flags=no-writes,allow-oom\n").unwrap();
        assert_eq!(declared.names().collect::<Vec<_>>(), ["no-writes", "allow-oom"]);
        assert_eq!(first_line(b"#!lua flags=\n"), Ok((ScriptFlags::default(), 12)));
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
