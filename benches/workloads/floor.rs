//! The floor: the time that the processor needs to make lines of a mapped file durable, without a library.
//!
//! The mapping is like that of a heap: shared, of a file in the same directory, and touched before. The
//! stores go round a region of 64 KiB.
#![cfg_attr(not(target_arch = "x86_64"), allow(unused))]

use crate::{Case, Result, Sample, Setup};
use memmap2::MmapMut;
use std::ptr::NonNull;

/// Names of the rows.
pub const NAMES: [&str; 3] = ["nt_line", "nt_5_lines", "clwb_line"];

/// Number of operations in a pass.
pub const OPERATIONS: u64 = 200_000;

/// Number of lines in 64 KiB.
const LINES: usize = 1024;

#[repr(C, align(64))]
struct Line([u64; 8]);

/// Returns the floor of each kind of durable write. Returns none on processors other than x86-64.
pub fn cases(setup: &Setup) -> Result<Vec<Case>> {
    #[cfg(target_arch = "x86_64")]
    {
        let flush = Flush::detect();
        let (mut one, mut five, mut store) = (Region::new(setup)?, Region::new(setup)?, Region::new(setup)?);
        let case = |bench, variant: &str, mut pass: Box<dyn FnMut()>| {
            Case::new("floor", bench, variant, OPERATIONS, move || Ok(Sample::time(&mut pass).0))
        };
        Ok(vec![
            case(NAMES[0], "movntdq", Box::new(move || one.stream::<1>(OPERATIONS))),
            case(NAMES[1], "movntdq", Box::new(move || five.stream::<5>(OPERATIONS))),
            case(NAMES[2], flush.name(), Box::new(move || store.store_and_flush(OPERATIONS, flush))),
        ])
    }
    #[cfg(not(target_arch = "x86_64"))]
    Ok(Vec::new())
}

/// A shared mapping of `LINES` lines. Its file has no name, and the mapping keeps the pages.
struct Region {
    base: NonNull<Line>,
    _mapping: MmapMut,
}

impl Region {
    fn new(setup: &Setup) -> Result<Region> {
        let file = tempfile::tempfile_in(&setup.dir)?;
        file.set_len((LINES * size_of::<Line>()) as u64)?;
        // SAFETY: only this process knows the file, and it changes the file only through this mapping.
        let mut mapping = unsafe { MmapMut::map_mut(&file)? };
        // Touch every page, so that no page fault is timed.
        mapping.fill(0);
        let base = NonNull::new(mapping.as_mut_ptr().cast()).ok_or("mapped at address 0")?;
        Ok(Region { base, _mapping: mapping })
    }

    /// Stores `K` adjacent lines past the cache, and makes a fence, `n` times.
    #[cfg(target_arch = "x86_64")]
    fn stream<const K: usize>(&mut self, n: u64) {
        use std::arch::x86_64::{_mm_set1_epi64x, _mm_sfence, _mm_stream_si128};
        let mut at = 0;
        for i in 0..n {
            if at + K > LINES {
                at = 0;
            }
            for line in at..at + K {
                for quarter in 0..4 {
                    // SAFETY: `line < LINES`, so all four 16-byte quarters of it are inside the mapping. They
                    // are aligned because the line is. `&mut self` is the only access to the memory. SSE2 is
                    // part of x86-64. `sfence` comes before any other access to these bytes, and before this
                    // function returns.
                    unsafe {
                        let address = self.base.as_ptr().add(line).cast::<std::arch::x86_64::__m128i>();
                        _mm_stream_si128(address.add(quarter), _mm_set1_epi64x(i as i64));
                    }
                }
            }
            // SAFETY: `sfence` has no operands; SSE is part of x86-64.
            unsafe { _mm_sfence() };
            at += K;
        }
    }

    /// Stores 8 bytes, writes back their line, and makes a fence, `n` times.
    #[cfg(target_arch = "x86_64")]
    fn store_and_flush(&mut self, n: u64, flush: Flush) {
        match flush {
            Flush::Clwb => self.store_and(n, clwb),
            Flush::Clflushopt => self.store_and(n, clflushopt),
            Flush::Clflush => self.store_and(n, clflush),
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn store_and(&mut self, n: u64, flush: impl Fn(&Line)) {
        for i in 0..n {
            // SAFETY: the index is below `LINES`, so the line is inside the mapping, which is aligned. The
            // mapping was zeroed, and any bytes are a valid `Line`. The reference is borrowed from `&mut
            // self`.
            let line = unsafe { self.base.add(i as usize % LINES).as_mut() };
            line.0[0] = i;
            flush(line);
            // SAFETY: `sfence` has no operands; SSE is part of x86-64.
            unsafe { std::arch::x86_64::_mm_sfence() };
        }
    }
}

/// The best write-back instruction of this processor.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
enum Flush {
    Clwb,
    Clflushopt,
    Clflush,
}

#[cfg(target_arch = "x86_64")]
impl Flush {
    fn detect() -> Flush {
        use std::arch::x86_64::{__cpuid, __cpuid_count};
        let features = if __cpuid(0).eax >= 7 { __cpuid_count(7, 0).ebx } else { 0 };
        match features {
            f if f & 1 << 24 != 0 => Flush::Clwb,
            f if f & 1 << 23 != 0 => Flush::Clflushopt,
            _ => Flush::Clflush,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Flush::Clwb => "clwb",
            Flush::Clflushopt => "clflushopt",
            Flush::Clflush => "clflush",
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn clwb(line: &Line) {
    // SAFETY: the instruction only writes back the line of a live reference. `Flush::detect` has found the
    // instruction.
    unsafe { std::arch::asm!("clwb [{}]", in(reg) line, options(nostack, preserves_flags)) }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn clflushopt(line: &Line) {
    // SAFETY: the instruction only writes back the line of a live reference. `Flush::detect` has found the
    // instruction.
    unsafe { std::arch::asm!("clflushopt [{}]", in(reg) line, options(nostack, preserves_flags)) }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn clflush(line: &Line) {
    // SAFETY: the instruction only writes back the line of a live reference. It is part of x86-64.
    unsafe { std::arch::asm!("clflush [{}]", in(reg) line, options(nostack, preserves_flags)) }
}
