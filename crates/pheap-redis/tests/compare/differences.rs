//! Where this server answers otherwise than Redis, and why that is right. README.md has the same list.

use super::value::Value;

struct Known {
    reason: &'static str,
    /// Whether this is it.
    is: fn(&[Vec<u8>], &Value, &Value) -> bool,
}

const KNOWN: &[Known] = &[
    Known {
        reason: "`HELP` tells the names of subcommands only",
        is: |words, redis, pheap| has(words, "help") && redis.is_array() && pheap.is_array(),
    },
    Known {
        reason: "Redis counts who else has the object: other keys, if it is a small number, or a transaction",
        is: |words, redis, pheap| {
            has(words, "refcount") && format!("{redis:?}").starts_with(':') && format!("{pheap:?}") == ":1"
        },
    },
    Known {
        reason: "Redis' forms depend on what values were before; here, names of forms depend on values only",
        is: |words, redis, pheap| {
            has(words, "encoding") && redis.bytes().is_some() && pheap.bytes().is_some()
        },
    },
    Known {
        reason: "Redis tells no keys of `PFMERGE` if there is only the one that is written",
        is: |words, redis, pheap| {
            let is_it = |at, name: &[u8]| words.get(at).is_some_and(|word: &Vec<u8>| word.eq_ignore_ascii_case(name));
            is_it(0, b"command") && is_it(2, b"pfmerge") && redis.is_error() && pheap.elements().len() == 1
        },
    },
    Known {
        reason: "Redis keeps a score of -0 in large sorted sets only; here, it becomes 0 in all of them",
        is: |_, redis, pheap| {
            let shown = format!("{redis:?}");
            let without = shown.replace(",-0]", ",0]").replace("\"-0\"", "\"0\"");
            shown != without && without == format!("{pheap:?}")
        },
    },
];

fn has(words: &[Vec<u8>], word: &str) -> bool {
    words.iter().any(|other| other.eq_ignore_ascii_case(word.as_bytes()))
}

/// Why these replies are different, if they may be.
pub(crate) fn reason(words: &[Vec<u8>], redis: &Value, pheap: &Value) -> Option<&'static str> {
    KNOWN.iter().find(|known| (known.is)(words, redis, pheap)).map(|known| known.reason)
}
