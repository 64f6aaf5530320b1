//! What depends on the processor: instructions that move lines to memory (flushes, fences, non-temporal stores), and words and lines as bytes.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;

impl FlushInstruction {
    /// What [`Durability::Pmem`](crate::Durability::Pmem) asks of a processor.
    pub(crate) const NEEDED: &str = "`Durability::Pmem` needs a processor with clwb, clflushopt or clflush";
}

#[cfg(target_arch = "x86_64")]
mod imp {
    use std::arch::asm;
    use std::arch::x86_64::{__cpuid_count, _mm_sfence, CpuidResult};

    use crate::units::{LINE, LINE_WORDS, lines};

    /// What the processor says of itself.
    #[allow(unused_unsafe)] // it is safe from Rust 1.94 on
    fn cpuid(leaf: u32, part: u32) -> CpuidResult {
        // SAFETY: each processor of this architecture has the instruction, and it changes no memory.
        unsafe { __cpuid_count(leaf, part) }
    }

    /// How a cache line is written back, the cheapest first.
    #[derive(Clone, Copy, Debug)]
    pub(crate) enum FlushInstruction {
        /// Writes back, and may keep the line in the cache.
        Clwb,
        /// Writes back and evicts; not ordered among flushes.
        Clflushopt,
        /// Writes back and evicts, one after the other.
        Clflush,
    }

    impl FlushInstruction {
        /// The best one that this processor has. `None` if it has none (or is not known here).
        pub(crate) fn detect() -> Option<FlushInstruction> {
            // As few questions as it takes: a virtual machine's host answers them, which can take longer than all system calls of an opening.
            let extended = if cpuid(0, 0).eax >= 7 { cpuid(7, 0).ebx } else { 0 };
            if extended & 1 << 24 != 0 {
                Some(FlushInstruction::Clwb)
            } else if extended & 1 << 23 != 0 {
                Some(FlushInstruction::Clflushopt)
            } else if cpuid(1, 0).edx & 1 << 19 != 0 {
                Some(FlushInstruction::Clflush)
            } else {
                None
            }
        }

        #[inline(always)]
        #[expect(clippy::multiple_unsafe_ops_per_block, reason = "one of them is executed")]
        pub(crate) fn flush(self, addr: *const u8, len: usize) {
            for line in lines(addr.addr(), len) {
                // SAFETY: these instructions change no memory as a program sees it; `detect` found the one used here.
                // Not `nomem`, so the compiler completes the stores before them.
                unsafe {
                    match self {
                        FlushInstruction::Clwb => {
                            asm!("clwb [{}]", in(reg) line, options(nostack, preserves_flags))
                        }
                        FlushInstruction::Clflushopt => {
                            asm!("clflushopt [{}]", in(reg) line, options(nostack, preserves_flags));
                        }
                        FlushInstruction::Clflush => {
                            asm!("clflush [{}]", in(reg) line, options(nostack, preserves_flags));
                        }
                    }
                }
            }
        }

        #[inline(always)]
        #[expect(
            clippy::multiple_unsafe_ops_per_block,
            reason = "one instruction, and what keeps it in its place"
        )]
        pub(crate) fn fence(self) {
            // SAFETY: `sfence` has no operands; every x86-64 processor has it. The empty block keeps the compiler from moving plain
            // stores across.
            unsafe {
                asm!("", options(nostack, preserves_flags));
                _mm_sfence();
                asm!("", options(nostack, preserves_flags));
            }
        }

        /// # Safety
        /// `dst` is aligned to a line and valid for writes of `words`, which are whole lines. A fence must follow before anyone else
        /// looks at them.
        #[inline(always)]
        pub(crate) unsafe fn stream(self, dst: *mut u64, words: &[u64]) {
            debug_assert!(dst.addr().is_multiple_of(LINE));
            for (i, line) in words.as_chunks::<LINE_WORDS>().0.iter().enumerate() {
                // Two words at a time, but loaded one by one: what was written in words a moment ago cannot be loaded in larger pieces before it has left
                // the processor's store queue, where it may be behind a fence. The compiler would join the loads.
                // SAFETY: a line of `dst`, which is valid for writes of `words`, the caller's premise; SSE2 is part of x86-64.
                unsafe {
                    asm!(
                        "movq {a}, [{src}]",
                        "movq {b}, [{src} + 16]",
                        "movq {c}, [{src} + 32]",
                        "movq {d}, [{src} + 48]",
                        "movhps {a}, [{src} + 8]",
                        "movhps {b}, [{src} + 24]",
                        "movhps {c}, [{src} + 40]",
                        "movhps {d}, [{src} + 56]",
                        "movntps [{dst}], {a}",
                        "movntps [{dst} + 16], {b}",
                        "movntps [{dst} + 32], {c}",
                        "movntps [{dst} + 48], {d}",
                        src = in(reg) line.as_ptr(),
                        dst = in(reg) dst.wrapping_add(i * LINE_WORDS),
                        a = out(xmm_reg) _,
                        b = out(xmm_reg) _,
                        c = out(xmm_reg) _,
                        d = out(xmm_reg) _,
                        options(nostack, preserves_flags)
                    );
                }
            }
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod imp {
    /// No flush instruction is known for this processor, so `Durability::Pmem` is refused.
    #[derive(Clone, Copy, Debug)]
    pub(crate) enum FlushInstruction {}

    impl FlushInstruction {
        pub(crate) fn detect() -> Option<FlushInstruction> {
            None
        }

        pub(crate) fn flush(self, _addr: *const u8, _len: usize) {
            match self {}
        }

        pub(crate) fn fence(self) {
            match self {}
        }

        pub(crate) unsafe fn stream(self, _dst: *mut u64, _words: &[u64]) {
            match self {}
        }
    }
}

pub(crate) use imp::FlushInstruction;

/// Says that what comes to here does so seldom.
#[cold]
#[inline]
#[allow(unreachable_pub)] // what `#[txn]` expands to says it, too
pub fn seldom() {}

/// Starts to load the line at `addr`, to be read. Only a hint. Other processors keep the line.
#[inline(always)]
pub(crate) fn prefetch_read(addr: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch has no effect that a program can see, whatever the address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(addr.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = addr;
}

/// Starts to load the line at `addr`, to be written soon. Only a hint. It takes the line from all other
/// processors, if the program is built for a processor that has an instruction for that.
#[inline(always)]
pub(crate) fn prefetch_write(addr: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch has no effect that a program can see, whatever the address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_ET0 }>(addr.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = addr;
}

/// Which of these words are equal to `word` in the bits of `mask`, of which it has no others: a bit for each.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
#[expect(clippy::multiple_unsafe_ops_per_block, reason = "all are instructions of SSE2")]
pub(crate) fn equal_words(words: &[u16; 24], last: [u16; 4], mask: u16, word: u16) -> u32 {
    use std::arch::x86_64::*;
    // SAFETY: SSE2 is part of x86-64; each load is of 8 of the words.
    unsafe {
        let (mask, word) = (_mm_set1_epi16(mask as i16), _mm_set1_epi16(word as i16));
        let equal = |words: __m128i| _mm_cmpeq_epi16(_mm_and_si128(words, mask), word);
        let eight = |from: usize| equal(_mm_loadu_si128(words[from..from + 8].as_ptr().cast()));
        let [a, b, c, d] = last.map(u64::from);
        // One load, too.
        let last = _mm_cvtsi64_si128((a | b << 16 | c << 32 | d << 48) as i64);
        let (first, second) = (_mm_packs_epi16(eight(0), eight(8)), _mm_packs_epi16(eight(16), equal(last)));
        _mm_movemask_epi8(first) as u32 | (_mm_movemask_epi8(second) as u32) << 16
    }
}

/// Tells the compiler that bytes may have been written by someone else, with some definite values: those at `addr`, and all whose address was exposed.
///
/// Padding bytes of a value have no definite value in Rust's model, yet checksums and comparisons look at every byte. An opaque
/// block of assembly that could have stored to them makes them definite, and costs nothing. What it could have stored to is what it can have a pointer
/// to: memory that it is given, or whose provenance was [exposed](pointer::expose_provenance). All of a heap is, since it is mapped, and so are the copies of
/// a write set, since they have memory. So a commit need not name them: `addr` may be null.
#[inline(always)]
pub(crate) fn settle(addr: *mut u8) {
    #[cfg(not(miri))]
    // SAFETY: an empty block; it claims the right to write memory, and writes none.
    unsafe {
        std::arch::asm!("/* {0} */", in(reg) addr, options(nostack, preserves_flags));
    }
    #[cfg(miri)]
    let _ = addr;
}

/// Copies words that may hold padding. A few of them without a call, for most objects are small.
///
/// # Safety
/// `src` is valid for reads and `dst` for writes of `len` words; both are aligned, and they do not overlap.
#[inline(always)]
pub(crate) unsafe fn copy_words(dst: *mut u64, src: *const u64, len: usize) {
    let (dst, src) = (dst.cast::<MaybeUninit<u64>>(), src.cast::<MaybeUninit<u64>>());
    if len > 16 {
        // SAFETY: both are valid for `len` words, aligned, and apart: the caller's premises, all of them.
        unsafe { dst.copy_from_nonoverlapping(src, len) };
        return;
    }
    for i in 0..len {
        // SAFETY: `src` is valid for reads of `len` words, and aligned; `i < len`.
        let word = unsafe { src.wrapping_add(i).read() };
        // Volatile, or the compiler would make it a call of `memcpy` again.
        // SAFETY: `dst` is valid for writes of `len` words, and aligned; `i < len`.
        unsafe { dst.wrapping_add(i).write_volatile(word) };
    }
}

/// Words as bytes.
pub(crate) fn bytes(words: &[u64]) -> &[u8] {
    // SAFETY: so many bytes, of which any are valid, borrowed as the words are.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) }
}

/// [`bytes`], to be written.
pub(crate) fn bytes_mut(words: &mut [u64]) -> &mut [u8] {
    // SAFETY: so many bytes, borrowed as the words are; any bytes are words.
    unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), size_of_val(words)) }
}
