//! The replies that may differ from those of Redis. README.md lists these differences, and others that random
//! commands do not show.

use super::value::Value;

struct Known {
    reason: &'static str,
    /// Whether this reason explains different replies to a command: that of Redis, and that of this server.
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
        reason: "Redis keeps a score of -0 in large sorted sets only; here, it becomes 0 in all of them",
        is: |_, redis, pheap| without_minus(redis) == *pheap,
    },
    Known {
        reason: "`ZSCAN` of a small sorted set of Redis tells large whole scores with all digits",
        is: |words, redis, pheap| {
            let text = |value: &Value| value.bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
            let is_same = |a: &Value, b: &Value| {
                a == b
                    || text(a).is_some_and(|text| text.len() > 17)
                        && text(a).and_then(|a| a.parse::<f64>().ok())
                            == text(b).and_then(|b| b.parse::<f64>().ok())
            };
            let (redis, pheap) = (redis.elements(), pheap.elements());
            has(words, "zscan")
                && redis.len() == pheap.len()
                && redis.iter().zip(pheap).all(|(a, b)| is_same(a, b))
        },
    },
    Known {
        reason: "`COMMAND INFO` has no tips and no specifications of keys",
        is: |words, redis, pheap| {
            words[0].eq_ignore_ascii_case(b"command")
                && has(words, "info")
                && redis.is_array()
                && pheap.is_array()
        },
    },
];

/// Replaces -0 by 0, also in the elements of arrays.
fn without_minus(value: &Value) -> Value {
    match value {
        Value::Line(line) if line == ",-0" => Value::Line(",0".to_owned()),
        Value::Bulk(bytes) if bytes == b"-0" => Value::Bulk(b"0".to_vec()),
        Value::Array(kind, elements) => Value::Array(*kind, elements.iter().map(without_minus).collect()),
        other => other.clone(),
    }
}

fn has(words: &[Vec<u8>], word: &str) -> bool {
    words.iter().any(|other| other.eq_ignore_ascii_case(word.as_bytes()))
}

/// Returns why these replies may differ, or `None` if they may not.
pub(crate) fn reason(words: &[Vec<u8>], redis: &Value, pheap: &Value) -> Option<&'static str> {
    KNOWN.iter().find(|known| (known.is)(words, redis, pheap)).map(|known| known.reason)
}
