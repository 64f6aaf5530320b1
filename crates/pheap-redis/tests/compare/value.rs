//! Replies, and when two of them are equal.

use std::fmt;
use std::io::BufRead;

/// What of two replies must be equal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Norm {
    /// All.
    Exact,
    /// All but the order of the elements.
    Any,
    /// All but the order of the pairs.
    Pairs,
    /// Of two arrays: the kind, the number of elements, and the number of elements of each. Nothing of two
    /// strings. Else all. For commands that return random elements.
    Size,
    /// All, but integers above 100,000 may differ by less than 60,000: a minute, if they are milliseconds.
    Near,
    /// All but times, idle times and the numbers of a stream's nodes.
    Clock,
    /// The elements of all pages until the cursor is 0, in any order, however often each comes.
    Scan,
    /// If both are dumps, each server can restore that of the other.
    Dump,
    /// All. The command begins a transaction.
    Begin,
    /// Of each queued command, what its own norm demands, if each has a reply; else all. The command ends a
    /// transaction.
    End,
}

/// A reply of either version of the protocol.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Value {
    /// A reply of one line, with its first character. A null is one, too.
    Line(String),
    Bulk(Vec<u8>),
    /// An array, a set or a push, with its first character.
    Array(char, Vec<Value>),
    Map(Vec<(Value, Value)>),
}

impl Value {
    pub(crate) fn is_error(&self) -> bool {
        matches!(self, Value::Line(line) if line.starts_with('-'))
    }

    pub(crate) fn is_array(&self) -> bool {
        matches!(self, Value::Array(..))
    }

    pub(crate) fn elements(&self) -> &[Value] {
        match self {
            Value::Array(_, elements) => elements,
            _ => &[],
        }
    }

    pub(crate) fn bytes(&self) -> Option<&[u8]> {
        match self {
            Value::Bulk(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Reads a reply.
    pub(crate) fn read(from: &mut impl BufRead) -> std::io::Result<Value> {
        let mut line = Vec::new();
        from.read_until(b'\n', &mut line)?;
        let line = String::from_utf8_lossy(&line).trim_end_matches("\r\n").to_owned();
        let kind = line.chars().next().ok_or(std::io::ErrorKind::UnexpectedEof)?;
        let count = || line[1..].parse::<usize>().unwrap_or_else(|_| panic!("no reply: {line}"));
        Ok(match kind {
            '+' | '-' | ':' | ',' | '#' | '_' | '(' => Value::Line(line),
            '$' | '*' if &line[1..] == "-1" => Value::Line(line),
            '$' | '=' => {
                let mut bytes = vec![0; count() + 2];
                from.read_exact(&mut bytes)?;
                bytes.truncate(bytes.len() - 2);
                Value::Bulk(bytes)
            }
            '*' | '~' | '>' => {
                Value::Array(kind, (0..count()).map(|_| Value::read(from)).collect::<Result<_, _>>()?)
            }
            '%' => {
                let pairs = (0..count()).map(|_| Ok((Value::read(from)?, Value::read(from)?)));
                Value::Map(pairs.collect::<std::io::Result<_>>()?)
            }
            _ => panic!("no reply: {line}"),
        })
    }

    /// Returns the value with its elements sorted ([`Norm::Any`]), or its pairs.
    fn sorted(&self, norm: &Norm) -> Value {
        match self {
            Value::Array(kind, elements) if *norm == Norm::Any => {
                let mut elements = elements.clone();
                elements.sort();
                Value::Array(*kind, elements)
            }
            // A map of RESP3 is a flat array in RESP2.
            Value::Array(kind, elements) if elements.len() % 2 == 0 => {
                let mut pairs: Vec<_> = elements.chunks(2).collect();
                pairs.sort();
                Value::Array(*kind, pairs.concat())
            }
            Value::Map(pairs) => {
                let mut pairs = pairs.clone();
                pairs.sort();
                Value::Map(pairs)
            }
            other => other.clone(),
        }
    }

    /// Returns the value without times and numbers of nodes. A name precedes each of these; but in the list
    /// of delivered entries, the time is the last element but one.
    fn timeless(&self) -> Value {
        const NAMES: [&[u8]; 4] = [b"idle", b"seen-time", b"radix-tree-keys", b"radix-tree-nodes"];
        let is_time = |name: &Value| name.bytes().is_some_and(|name| NAMES.contains(&name));
        let is_number = |value: &Value| matches!(value, Value::Line(line) if line.starts_with(':'));
        match self {
            Value::Array(kind, elements) => {
                let mut elements: Vec<Value> = elements.iter().map(Value::timeless).collect();
                for i in 1..elements.len() {
                    if is_time(&elements[i - 1]) {
                        elements[i] = Value::Line("time".to_owned());
                    }
                }
                if let [id, .., time, count] = &mut elements[..]
                    && id.bytes().is_some_and(|id| id.contains(&b'-'))
                    && is_number(time)
                    && is_number(count)
                {
                    *time = Value::Line("time".to_owned());
                }
                Value::Array(*kind, elements)
            }
            Value::Map(pairs) => Value::Map(
                pairs
                    .iter()
                    .map(|(name, value)| {
                        let time = || Value::Line("time".to_owned());
                        (name.clone(), if is_time(name) { time() } else { value.timeless() })
                    })
                    .collect(),
            ),
            other => other.clone(),
        }
    }

    fn number(&self) -> Option<i64> {
        match self {
            Value::Line(line) => line.strip_prefix(':')?.parse().ok(),
            _ => None,
        }
    }
}

impl Norm {
    /// Whether these replies are equal as far as the norm demands. For [`Norm::Scan`], they are already
    /// collected and sorted.
    pub(crate) fn equal(&self, a: &Value, b: &Value) -> bool {
        match self {
            Norm::Exact | Norm::Scan | Norm::Dump | Norm::Begin | Norm::End => a == b,
            Norm::Any | Norm::Pairs => a.sorted(self) == b.sorted(self),
            Norm::Size => match (a, b) {
                (Value::Array(a_kind, a), Value::Array(b_kind, b)) => {
                    a_kind == b_kind
                        && a.len() == b.len()
                        && a.iter().zip(b).all(|(a, b)| a.elements().len() == b.elements().len())
                }
                (Value::Bulk(_), Value::Bulk(_)) => true,
                _ => a == b,
            },
            Norm::Near => match (a.number(), b.number()) {
                (Some(a), Some(b)) if a.min(b) > 100_000 => a.abs_diff(b) < 60_000,
                _ => a == b,
            },
            Norm::Clock => a.timeless() == b.timeless(),
        }
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Line(line) => f.write_str(line),
            Value::Bulk(bytes) => write!(f, "\"{}\"", bytes.escape_ascii()),
            Value::Array(kind, elements) => {
                write!(f, "{kind}")?;
                f.debug_list().entries(elements).finish()
            }
            Value::Map(pairs) => {
                f.debug_map().entries(pairs.iter().map(|(key, value)| (key, value))).finish()
            }
        }
    }
}
