//! Calls to a simulated disk that fail, and writes that are short.

use std::io;

use super::{SECTOR, Which};

/// A kind of call to the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Call {
    /// Reading bytes of a file.
    Read,
    /// Writing bytes of a file, or making a hole in it.
    Write,
    /// Making the writes to a file durable.
    Datasync,
    /// Making a file longer, or getting space for its holes.
    Extend,
    /// Opening the log.
    Open,
    /// Creating the log.
    Create,
    /// Removing the log.
    Remove,
}

/// A fault: some calls of one kind on one file fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fault {
    /// The file whose calls fail.
    pub which: Which,
    /// The kind of call that fails.
    pub call: Call,
    /// Number of such calls that succeed first, counted from when the fault is set.
    pub after: usize,
    /// Number of such calls that fail after those.
    pub times: usize,
    /// The error of the operating system that the failing calls return.
    pub error: i32,
}

/// How many bytes of a write one call writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ShortWrites {
    /// Each call writes all bytes.
    #[default]
    Never,
    /// Each call writes at most this many bytes.
    Bytes(usize),
    /// Each call writes a random number of bytes. The field is the seed.
    Random(u64),
    /// Each call writes a random number of whole sectors, or all bytes. The field is the seed.
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

    /// Returns the number of bytes that a call writes which is asked to write `len` bytes.
    pub(super) fn shorten(&mut self, len: usize) -> usize {
        match &mut self.short {
            ShortWrites::Never => len,
            ShortWrites::Bytes(most) => len.min(*most),
            ShortWrites::Random(seed) => len.min(1 + next(seed) % len.max(1)),
            ShortWrites::Sectors(seed) => len.min(SECTOR * (1 + next(seed) % len.div_ceil(SECTOR).max(1))),
        }
    }
}
