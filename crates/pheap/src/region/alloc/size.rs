//! How large slots and spans are.

use crate::heap::mapping::PAGE;

/// Larger objects get a span of their own.
pub(super) const LARGE: u64 = 32 << 10;
/// Largest span of small objects.
const MAX_SPAN: u64 = 1 << 20;

/// Bytes of a slot for a slice or string of `bytes`, its length included: at most an eighth is wasted.
#[inline]
pub(super) fn size_class(bytes: u64) -> u64 {
    if bytes <= 128 {
        bytes.next_multiple_of(8).max(8)
    } else {
        let step = 1 << ((bytes - 1).ilog2() - 3);
        bytes.next_multiple_of(step)
    }
}

/// Bytes for the next span of a class that owns so many: a quarter of that, so that small heaps stay small and large ones have few
/// spans.
pub(super) fn span_size(slot: u64, owned: u64) -> u64 {
    let least = if slot > 512 { 4 * slot } else { slot };
    let mut size = (owned / 4).clamp(least, MAX_SPAN).next_multiple_of(PAGE);
    // What is left behind the last slot: an eighth at most.
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
                let size = span_size(slot, owned);
                assert!(size % slot * 8 <= size, "{slot} in {size}");
                assert!(size <= MAX_SPAN + slot && (owned > 0 || size <= 16 * slot.max(512)));
            }
        }
    }
}
