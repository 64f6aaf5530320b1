//! Size classes: the sizes of slots and spans.

use std::ops::RangeInclusive;

use crate::store::arena::{SMALL_PAGES, SMALL_SLOT};
use crate::units::PAGE;

/// The most bytes of a slot in a span of several objects. An object that needs a larger slot gets a separate
/// span.
pub(super) const LARGE: u64 = 32 << 10;
/// The most bytes of a span of small objects.
pub(crate) const MAX_SPAN: u64 = 1 << 20;
const _: () = assert!(MAX_SPAN + LARGE < SMALL_PAGES as u64 * PAGE);
const _: () = assert!(LARGE <= SMALL_SLOT as u64);

/// Returns the bytes of a slot for a slice or string of `bytes` bytes, its length included. It wastes at most
/// 7 bytes if `bytes` is at most 128, and otherwise less than an eighth of `bytes`.
#[inline]
pub(super) fn size_class(bytes: u64) -> u64 {
    if bytes <= 128 {
        bytes.next_multiple_of(8).max(8)
    } else {
        let step = 1 << ((bytes - 1).ilog2() - 3);
        bytes.next_multiple_of(step)
    }
}

/// Returns the least and the desired bytes of the next span of a class with spans of `owned` bytes. A quarter
/// of `owned` is desired (but no less than the least, and no more than [`MAX_SPAN`]), so that small heaps
/// stay small and large ones have few spans. The caller may take any size between the two: a smaller span is
/// better than a larger file.
pub(super) fn span_size(slot: u64, owned: u64) -> RangeInclusive<u64> {
    let least = if slot > 512 { 4 * slot } else { slot };
    round(slot, least)..=round(slot, (owned / 4).clamp(least, MAX_SPAN))
}

/// Returns an estimate of the bytes of the spans that `objects` objects of a class take at most. It assumes
/// that each span has the fewest slots. If there are several spans, it adds an eighth, because a run of free
/// pages is rarely a whole number of slots long.
pub(crate) fn spans_for(slot: u64, objects: u64) -> u64 {
    let least = *span_size(slot, 0).start();
    let spans = objects.div_ceil(least / slot);
    let all = spans.saturating_mul(least);
    if spans > 1 { all.saturating_add(all / 8) } else { all }
}

/// Rounds `bytes` up to whole pages, so many that at most an eighth of them is left after the last slot of
/// `slot` bytes.
fn round(slot: u64, bytes: u64) -> u64 {
    let mut size = bytes.next_multiple_of(PAGE);
    while size % slot * 8 > size {
        size += PAGE;
    }
    size
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_classes_waste_an_eighth_at_most() {
        for bytes in 1..200_000u64 {
            let class = size_class(bytes);
            assert!(class >= bytes && class.is_multiple_of(8));
            assert!(class - bytes <= (bytes / 8).max(8), "{bytes} in {class}");
            assert_eq!(size_class(class), class);
        }
    }

    #[test]
    fn spans_waste_an_eighth_at_most() {
        for slot in (8..=LARGE).step_by(8) {
            for owned in [0, 1 << 16, 1 << 30] {
                let size = *span_size(slot, owned).end();
                assert!(size % slot * 8 <= size, "{slot} in {size}");
                assert!(size <= MAX_SPAN + slot && (owned > 0 || size <= 16 * slot.max(512)));
            }
        }
    }
}
