//! Code that depends on the processor: instructions that move lines to memory (flushes, fences, non-temporal
//! stores), prefetches and comparisons of several words. Also copies of words, and words as bytes.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;

impl FlushInstruction {
    /// The text of the error if the processor has no instruction that
    /// [`Durability::Pmem`](crate::Durability::Pmem) needs.
    pub(crate) const NEEDED: &str = "`Durability::Pmem` needs a processor with clwb, clflushopt or clflush";
}

#[cfg(target_arch = "x86_64")]
mod imp {
    use std::arch::asm;
    use std::arch::x86_64::{__cpuid_count, _mm_sfence, CpuidResult};

    use crate::units::{LINE, LINE_WORDS, lines};

    /// Executes `cpuid`.
    #[allow(unused_unsafe)] // the function is safe from Rust 1.94 on
    fn cpuid(leaf: u32, part: u32) -> CpuidResult {
        // SAFETY: each processor of this architecture has the instruction, and it changes no memory.
        unsafe { __cpuid_count(leaf, part) }
    }

    /// Instructions that write a cache line back, the cheapest first.
    #[derive(Clone, Copy, Debug)]
    pub(crate) enum FlushInstruction {
        /// `clwb` writes the line back, and may keep it in the cache.
        Clwb,
        /// `clflushopt` writes the line back and evicts it. It is not ordered with other flushes.
        Clflushopt,
        /// `clflush` writes the line back and evicts it. It is ordered with other flushes.
        Clflush,
    }

    impl FlushInstruction {
        /// Returns the cheapest instruction that this processor has; `None` if it has none (or is of an
        /// unknown kind).
        pub(crate) fn detect() -> Option<FlushInstruction> {
            // `cpuid` is executed as seldom as possible: the host of a virtual machine emulates it, which
            // takes long.
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
                // SAFETY: these instructions change no memory as a program sees it, and `detect` found the
                // one that is executed. They are not `nomem`, so the compiler completes earlier stores before
                // them.
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
            // SAFETY: `sfence` has no operands, and every x86-64 processor has it. The empty blocks keep the
            // compiler from moving plain stores across it.
            unsafe {
                asm!("", options(nostack, preserves_flags));
                _mm_sfence();
                asm!("", options(nostack, preserves_flags));
            }
        }

        /// Copies `words` to `dst` by non-temporal stores.
        ///
        /// # Safety
        /// `dst` is aligned to a line and valid for writes of `words.len()` words, which are whole lines. A
        /// fence must follow before another thread reads them.
        #[inline(always)]
        pub(crate) unsafe fn stream(self, dst: *mut u64, words: &[u64]) {
            debug_assert!(dst.addr().is_multiple_of(LINE));
            for (i, line) in words.as_chunks::<LINE_WORDS>().0.iter().enumerate() {
                // Stores two words at a time, but loads them one by one: a word that was just stored cannot
                // be part of a wider load before it has left the processor's store queue, where it may wait
                // behind a fence. The compiler would join the loads, hence assembly.
                // SAFETY: `line` is one line of `words`, so it is readable. The line at `dst` with the same
                // number is valid for writes (premise). SSE2 is part of x86-64.
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

/// Tells the compiler that code that calls this is executed seldom.
#[cold]
#[inline]
#[allow(unreachable_pub)] // the expansion of `#[txn]` calls it
pub fn seldom() {}

/// Starts to load the cache line at `addr` for reading. The call is only a hint. Other processors keep the
/// line.
#[inline(always)]
pub(crate) fn prefetch_read(addr: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch has no effect that a program can see, for any address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(addr.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = addr;
}

/// Starts to load the cache line at `addr` for writing. The call is only a hint. It takes the line from all
/// other processors, if the program is built for a processor that has an instruction for that.
#[inline(always)]
pub(crate) fn prefetch_write(addr: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch has no effect that a program can see, for any address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_ET0 }>(addr.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = addr;
}

/// Returns a bit for each of the 24 `words` and the 4 words in `last`: whether the word equals `word` in the
/// bits of `mask`. `word` has no other bits. The four bits above those of the 28 words have no meaning.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
#[expect(clippy::multiple_unsafe_ops_per_block, reason = "all are instructions of SSE2")]
pub(crate) fn equal_words(words: &[u16; 24], last: [u16; 4], mask: u16, word: u16) -> u32 {
    use std::arch::x86_64::*;
    // SAFETY: SSE2 is part of x86-64. Each load is of the 16 bytes of a slice of 8 words.
    unsafe {
        let (mask, word) = (_mm_set1_epi16(mask as i16), _mm_set1_epi16(word as i16));
        let equal = |words: __m128i| _mm_cmpeq_epi16(_mm_and_si128(words, mask), word);
        let eight = |from: usize| equal(_mm_loadu_si128(words[from..from + 8].as_ptr().cast()));
        let [a, b, c, d] = last.map(u64::from);
        // The four words in `last` are one load, too.
        let last = _mm_cvtsi64_si128((a | b << 16 | c << 32 | d << 48) as i64);
        let (first, second) = (_mm_packs_epi16(eight(0), eight(8)), _mm_packs_epi16(eight(16), equal(last)));
        _mm_movemask_epi8(first) as u32 | (_mm_movemask_epi8(second) as u32) << 16
    }
}

/// Tells the compiler that other code may have written definite values to the bytes at `addr`, and to all
/// memory whose address was exposed. Does nothing under Miri.
///
/// Padding bytes of a value have no definite value in Rust's model, yet checksums and comparisons read every
/// byte. An opaque block of assembly that could have stored to them makes them definite, and executes
/// nothing. It could have stored to any memory to which it can have a pointer: memory that it is given, or
/// whose provenance was [exposed](pointer::expose_provenance). The memory of a heap is exposed when it is
/// mapped, and that of a write set's copies when it is allocated. So a commit need not name them: `addr` may
/// be null.
#[inline(always)]
pub(crate) fn settle(addr: *mut u8) {
    #[cfg(not(miri))]
    // SAFETY: the block is empty. It claims the right to write memory, and writes none.
    unsafe {
        std::arch::asm!("/* {0} */", in(reg) addr, options(nostack, preserves_flags));
    }
    #[cfg(miri)]
    let _ = addr;
}

/// Copies words that may have padding. Copies few words without a call, because most objects are small.
///
/// # Safety
/// `src` is valid for reads and `dst` for writes of `len` words; both are aligned, and they do not overlap.
#[inline(always)]
pub(crate) unsafe fn copy_words(dst: *mut u64, src: *const u64, len: usize) {
    let (dst, src) = (dst.cast::<MaybeUninit<u64>>(), src.cast::<MaybeUninit<u64>>());
    if len > 16 {
        // SAFETY: `src` is valid for reads and `dst` for writes of `len` words, both are aligned, and they do
        // not overlap: the caller's premises.
        unsafe { dst.copy_from_nonoverlapping(src, len) };
        return;
    }
    for i in 0..len {
        // SAFETY: `src` is valid for reads of `len` words, and aligned; `i < len`.
        let word = unsafe { src.wrapping_add(i).read() };
        // The store is volatile, because the compiler would otherwise replace the loop by a call of `memcpy`.
        // SAFETY: `dst` is valid for writes of `len` words, and aligned; `i < len`.
        unsafe { dst.wrapping_add(i).write_volatile(word) };
    }
}

/// Returns words as bytes.
pub(crate) fn bytes(words: &[u64]) -> &[u8] {
    // SAFETY: the words have `size_of_val(words)` bytes, which are borrowed like the words. Any byte is
    // valid.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) }
}

/// Returns words as bytes that can be written.
pub(crate) fn bytes_mut(words: &mut [u64]) -> &mut [u8] {
    // SAFETY: the words have `size_of_val(words)` bytes, which are borrowed like the words. Any bytes are
    // valid words.
    unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), size_of_val(words)) }
}
