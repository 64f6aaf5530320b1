//! Calls that fail, and writes that are short.

use std::io;

use super::{SECTOR, Which};

/// A kind of call to the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Call {
    /// Read.
    Read,
    /// Write.
    Write,
    /// Make the writes to a file durable.
    Datasync,
    /// Make a file longer.
    Extend,
    /// Open the log.
    Open,
    /// Create the log.
    Create,
    /// Remove the log.
    Remove,
}

/// Makes calls fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fault {
    /// The file.
    pub which: Which,
    /// The kind of call.
    pub call: Call,
    /// Number of such calls, from now on, that succeed first.
    pub after: usize,
    /// Number of calls that fail then.
    pub times: usize,
    /// Error of the operating system that they return.
    pub error: i32,
}

/// How much of a write one call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ShortWrites {
    /// All of it.
    #[default]
    Never,
    /// At most this many bytes.
    Bytes(usize),
    /// A random number of bytes. The field is the seed.
    Random(u64),
    /// A random number of whole sectors. The field is the seed.
    Sectors(u64),
}

#[derive(Debug, Default)]
pub(super) struct Faults {
    faults: Vec<Fault>,
    pub(super) short: ShortWrites,
    pub(super) failed: usize,
    counts: Vec<(Which, Call, usize)>,
}

fn next(seed: &mut u64) -> usize {
    *seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
    (*seed >> 40) as usize
}

impl Faults {
    pub(super) fn add(&mut self, fault: Fault) {
        self.faults.push(fault);
    }

    pub(super) fn heal(&mut self) {
        self.faults.clear();
    }

    pub(super) fn count(&self, which: Which, call: Call) -> usize {
        self.counts.iter().find(|count| (count.0, count.1) == (which, call)).map_or(0, |count| count.2)
    }

    /// Counts a call, and returns an error if it is to fail.
    pub(super) fn check(&mut self, which: Which, call: Call) -> io::Result<()> {
        match self.counts.iter_mut().find(|count| (count.0, count.1) == (which, call)) {
            Some(count) => count.2 += 1,
            None => self.counts.push((which, call, 1)),
        }
        let mut error = None;
        for fault in self.faults.iter_mut().filter(|fault| (fault.which, fault.call) == (which, call)) {
            if fault.after > 0 {
                fault.after -= 1;
            } else if fault.times > 0 {
                fault.times -= 1;
                error = Some(fault.error);
            }
        }
        let Some(error) = error else { return Ok(()) };
        self.failed += 1;
        Err(io::Error::from_raw_os_error(error))
    }

    /// Returns the number of bytes that a write of `len` bytes does.
    pub(super) fn shorten(&mut self, len: usize) -> usize {
        match &mut self.short {
            ShortWrites::Never => len,
            ShortWrites::Bytes(most) => len.min(*most),
            ShortWrites::Random(seed) => len.min(1 + next(seed) % len.max(1)),
            ShortWrites::Sectors(seed) => len.min(SECTOR * (1 + next(seed) % len.div_ceil(SECTOR).max(1))),
        }
    }
}
