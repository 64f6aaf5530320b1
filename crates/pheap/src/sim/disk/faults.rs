//! Calls that fail, and writes that are short.

use std::io;

use super::{SECTOR, Which};

/// What is asked of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Call {
    /// To read.
    Read,
    /// To write.
    Write,
    /// To make what was written durable.
    Datasync,
    /// To make a file longer.
    Extend,
    /// To open the log.
    Open,
    /// To create the log.
    Create,
    /// To remove the log.
    Remove,
}

/// Makes calls fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fault {
    /// On this file.
    pub which: Which,
    /// Calls of this kind.
    pub call: Call,
    /// After so many from now on that do not fail.
    pub after: usize,
    /// So many of them.
    pub times: usize,
    /// With this error of the operating system.
    pub error: i32,
}

/// How much of a write is done at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ShortWrites {
    /// All of it.
    #[default]
    Never,
    /// At most so many bytes.
    Bytes(usize),
    /// A random number of bytes.
    Random(u64),
    /// Up to a random sector.
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

    /// A call is about to be made: an error if it fails.
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

    /// How much of a write of `len` bytes is done.
    pub(super) fn shorten(&mut self, len: usize) -> usize {
        match &mut self.short {
            ShortWrites::Never => len,
            ShortWrites::Bytes(most) => len.min(*most),
            ShortWrites::Random(seed) => len.min(1 + next(seed) % len.max(1)),
            ShortWrites::Sectors(seed) => len.min(SECTOR * (1 + next(seed) % len.div_ceil(SECTOR).max(1))),
        }
    }
}
