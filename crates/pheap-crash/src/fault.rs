//! Calls of a program's disk that fail, and their text: `fail-log-sync-3`, `fail-data-extend-0-full`,
//! `fail-log-sync-0-evict`.

use std::fmt;
use std::str::FromStr;

use pheap::sim::disk::{Call, Fault, Which};

/// One call that fails. If it is an extension, all later ones of the file on this disk fail as well, until
/// the run heals the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Failing {
    /// The file of the call.
    pub which: Which,
    /// Kind of the call.
    pub call: Call,
    /// Number of calls of this kind on this file before it, which succeed.
    pub after: usize,
    /// Whether the error is `ENOSPC` (a full disk) or `EIO` (a broken one).
    pub full: bool,
    /// Whether the page cache forgets the data of a failed sync before the heap is opened again.
    pub evict: bool,
}

const CALLS: [(Call, &str); 7] = [
    (Call::Read, "read"),
    (Call::Write, "write"),
    (Call::Datasync, "sync"),
    (Call::Extend, "extend"),
    (Call::Open, "open"),
    (Call::Create, "create"),
    (Call::Remove, "remove"),
];

const FILES: [(Which, &str); 2] = [(Which::Data, "data"), (Which::Log, "log")];

/// Returns each pair of a file and a kind of call.
pub(crate) fn kinds() -> impl Iterator<Item = (Which, Call)> {
    FILES.iter().flat_map(|(which, _)| CALLS.iter().map(|(call, _)| (*which, *call)))
}

impl fmt::Display for Failing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (_, file) = FILES.iter().find(|(which, _)| *which == self.which).expect("each has a name");
        let (_, call) = CALLS.iter().find(|(call, _)| *call == self.call).expect("each has a name");
        write!(f, "fail-{file}-{call}-{}", self.after)?;
        if self.full {
            f.write_str("-full")?;
        }
        if self.evict { f.write_str("-evict") } else { Ok(()) }
    }
}

impl FromStr for Failing {
    type Err = String;

    fn from_str(text: &str) -> Result<Failing, String> {
        let none = || format!("there is no failure {text:?}");
        let mut parts = text.strip_prefix("fail-").ok_or_else(none)?.split('-');
        let mut next = || parts.next().ok_or_else(none);
        let (file, call, after) = (next()?, next()?, next()?);
        let (which, _) = FILES.iter().find(|(_, name)| *name == file).ok_or_else(none)?;
        let (call, _) = CALLS.iter().find(|(_, name)| *name == call).ok_or_else(none)?;
        let after = after.parse().map_err(|_| none())?;
        let mut failing = Failing { which: *which, call: *call, after, full: false, evict: false };
        for part in parts {
            match part {
                "full" => failing.full = true,
                "evict" => failing.evict = true,
                _ => return Err(none()),
            }
        }
        Ok(failing)
    }
}

impl Failing {
    /// Returns the fault for a disk, if earlier disks of the run had `before` such calls on this file. `None`
    /// if the failing call was one of these.
    pub fn on_disk(self, before: usize) -> Option<Fault> {
        let times = if self.call == Call::Extend { usize::MAX } else { 1 };
        let error = if self.full { ENOSPC } else { EIO };
        let after = self.after.checked_sub(before)?;
        Some(Fault { which: self.which, call: self.call, after, times, error })
    }

    /// Returns the failures that are tried if a run makes `calls` calls of each kind on each file: one or two
    /// for each call.
    pub fn all(calls: impl Fn(Which, Call) -> usize) -> Vec<Failing> {
        let mut all = Vec::new();
        for (which, call) in kinds() {
            for after in 0..calls(which, call) {
                let failing = Failing { which, call, after, full: false, evict: false };
                match call {
                    Call::Extend | Call::Create => all.push(Failing { full: true, ..failing }),
                    Call::Write => all.extend([failing, Failing { full: true, ..failing }]),
                    Call::Datasync => all.extend([failing, Failing { evict: true, ..failing }]),
                    _ => all.push(failing),
                }
            }
        }
        all
    }
}

const EIO: i32 = 5;
const ENOSPC: i32 = 28;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_its_text() {
        let all = Failing::all(|_, _| 2);
        assert_eq!(all.len(), 2 * 2 * (7 + 2));
        for failing in all {
            assert_eq!(failing.to_string().parse(), Ok(failing));
        }
        assert!(
            "fail-log-sync".parse::<Failing>().is_err() && "fail-log-sync-1-x".parse::<Failing>().is_err()
        );
    }
}
