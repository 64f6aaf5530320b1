//! Where this server answers otherwise than Redis, and why that is right. README.md has the same list.

use super::value::Value;

struct Known {
    reason: &'static str,
    /// Whether this is it.
    is: fn(&[Vec<u8>], &Value, &Value) -> bool,
}

const KNOWN: &[Known] = &[Known {
    reason: "`HELP` tells the names of subcommands only",
    is: |words, redis, pheap| {
        words.iter().any(|word| word.eq_ignore_ascii_case(b"help")) && redis.is_array() && pheap.is_array()
    },
}];

/// Why these replies are different, if they may be.
pub(crate) fn reason(words: &[Vec<u8>], redis: &Value, pheap: &Value) -> Option<&'static str> {
    KNOWN.iter().find(|known| (known.is)(words, redis, pheap)).map(|known| known.reason)
}
