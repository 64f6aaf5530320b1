//! Slow commands (`SLOWLOG`), and slow events (`LATENCY`).

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use parking_lot::Mutex;

/// Slow commands, the last one first.
#[derive(Debug, Default)]
pub struct SlowLog(Mutex<SlowLogEntries>);

#[derive(Debug, Default)]
struct SlowLogEntries {
    next: u64,
    entries: VecDeque<SlowLogEntry>,
}

/// A slow command.
#[derive(Debug, Clone)]
pub struct SlowLogEntry {
    /// The number of the entry.
    pub number: u64,
    /// When the command ended, in seconds since 1970.
    pub at: i64,
    /// How long the command took.
    pub took: Duration,
    /// The command's arguments, shortened if they are long or many.
    pub words: Vec<Vec<u8>>,
    /// The address of the client.
    pub addr: String,
    /// The name that the client gave itself.
    pub name: Vec<u8>,
}

/// The most arguments of a command, and the most bytes of an argument, in an entry. A note about what was
/// left out takes the place of the last argument, or follows the bytes.
const MOST: (usize, usize) = (32, 128);

/// Shortens the arguments of a command for the log.
fn shortened<'w>(words: impl ExactSizeIterator<Item = &'w [u8]>) -> Vec<Vec<u8>> {
    let len = words.len();
    let kept = if len > MOST.0 { MOST.0 - 1 } else { len };
    let mut short: Vec<Vec<u8>> = words
        .take(kept)
        .map(|word| match word.get(..MOST.1) {
            Some(start) if word.len() > MOST.1 => {
                [start, format!("... ({} more bytes)", word.len() - MOST.1).as_bytes()].concat()
            }
            _ => word.to_vec(),
        })
        .collect();
    if kept < len {
        short.push(format!("... ({} more arguments)", len - kept).into_bytes());
    }
    short
}

impl SlowLog {
    /// Adds a command. Drops the oldest entries if there are more than `most`.
    pub fn add<'w>(
        &self,
        at: i64,
        took: Duration,
        words: impl ExactSizeIterator<Item = &'w [u8]>,
        client: (&str, &[u8]),
        most: usize,
    ) {
        let mut log = self.0.lock();
        let (addr, name) = client;
        let number = log.next;
        log.next += 1;
        let entry = SlowLogEntry {
            number,
            at,
            took,
            words: shortened(words),
            addr: addr.to_owned(),
            name: name.to_vec(),
        };
        log.entries.push_front(entry);
        log.entries.truncate(most);
    }

    /// Returns the last `count` commands.
    pub fn last(&self, count: usize) -> Vec<SlowLogEntry> {
        self.0.lock().entries.iter().take(count).cloned().collect()
    }

    /// Returns the number of commands.
    pub fn count(&self) -> usize {
        self.0.lock().entries.len()
    }

    /// Removes all commands.
    pub fn clear(&self) {
        self.0.lock().entries.clear();
    }
}

/// Events that took at least `latency-monitor-threshold`, by their kind.
#[derive(Debug, Default)]
pub struct Latency(Mutex<BTreeMap<&'static str, Series>>);

/// The events of a kind.
#[derive(Debug, Clone, Default)]
pub struct Series {
    /// The longest event of each of the last seconds that had one: the second since 1970, and the
    /// milliseconds.
    pub samples: VecDeque<(i64, u64)>,
    /// The longest event of all, in milliseconds.
    pub longest: u64,
}

/// The most samples of a kind to keep.
const SAMPLES: usize = 160;

impl Latency {
    /// Adds an event that took `ms` milliseconds.
    pub fn add(&self, event: &'static str, at: i64, ms: u64) {
        let mut events = self.0.lock();
        let series = events.entry(event).or_default();
        series.longest = series.longest.max(ms);
        match series.samples.back_mut() {
            Some((second, longest)) if *second == at => *longest = ms.max(*longest),
            _ => {
                series.samples.push_back((at, ms));
                if series.samples.len() > SAMPLES {
                    series.samples.pop_front();
                }
            }
        }
    }

    /// Returns the events of all kinds.
    pub fn all(&self) -> Vec<(&'static str, Series)> {
        self.0.lock().iter().map(|(event, series)| (*event, series.clone())).collect()
    }

    /// Returns the events of a kind. None if there are none.
    pub fn of(&self, event: &str) -> Option<Series> {
        self.0.lock().get(event).cloned()
    }

    /// Removes the events of these kinds, or all events if `events` is empty. Returns the number of kinds
    /// removed.
    pub fn forget(&self, events: &[&str]) -> usize {
        let mut all = self.0.lock();
        let before = all.len();
        all.retain(|event, _| !events.is_empty() && !events.contains(event));
        before - all.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_commands_are_shortened() {
        let words: Vec<Vec<u8>> = (0..40).map(|_| vec![b'x'; 200]).collect();
        let short = shortened(words.iter().map(Vec::as_slice));
        assert_eq!(short.len(), 32);
        assert!(short[0].ends_with(b"x... (72 more bytes)") && short[31] == b"... (9 more arguments)");
    }

    #[test]
    fn the_last_ones_are_kept() {
        let log = SlowLog::default();
        for at in 0..5 {
            log.add(at, Duration::ZERO, [&b"get"[..]].into_iter(), ("", b""), 3);
        }
        assert_eq!(log.last(2).iter().map(|entry| entry.number).collect::<Vec<_>>(), [4, 3]);
        assert_eq!(log.count(), 3);
        let latency = Latency::default();
        latency.add("command", 1, 5);
        latency.add("command", 1, 3);
        assert_eq!(latency.of("command").unwrap().samples, [(1, 5)]);
        assert_eq!((latency.forget(&["other"]), latency.forget(&[])), (0, 1));
    }
}
