//! Limits of the unread output of clients: `client-output-buffer-limit`.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::text::words;

/// Limits of a client's unread output. For `hard` and `soft`, 0 means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OutputLimit {
    /// Bytes of unread output at which the client is disconnected at once.
    pub hard: u64,
    /// Bytes of unread output. The client is disconnected if its output stays at or above them for more than
    /// `seconds`.
    pub soft: u64,
    /// Seconds for which the output may stay at or above the soft limit.
    pub seconds: u64,
}

/// The limits of unread output for each kind of client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OutputLimits {
    /// The limits of clients that subscribe to no channels.
    pub normal: OutputLimit,
    /// The limits of replicas. This server has no replicas, so they have no effect.
    pub replica: OutputLimit,
    /// The limits of clients that subscribe to channels.
    pub pubsub: OutputLimit,
}

impl OutputLimits {
    /// Sets limits from the text of the option. Each group of four words is a kind of client, the hard limit
    /// and the soft limit in bytes, and the seconds. A kind that the text does not name keeps its limits.
    ///
    /// # Errors
    /// If the text is invalid. The error says why, and the limits are unchanged.
    pub fn set(&mut self, text: &str) -> Result<(), &'static str> {
        let (words, mut new): (Vec<&str>, _) = (text.split_whitespace().collect(), *self);
        let groups = words.chunks_exact(4);
        if !groups.remainder().is_empty() {
            return Err("Wrong number of arguments in buffer limit configuration.");
        }
        for group in groups {
            let limit = match group[0].to_ascii_lowercase().as_str() {
                "normal" => &mut new.normal,
                "slave" | "replica" => &mut new.replica,
                "pubsub" => &mut new.pubsub,
                _ => return Err("Invalid client class specified in buffer limit configuration."),
            };
            match (words::bytes(group[1]), words::bytes(group[2]), group[3].parse::<u32>()) {
                (Some(hard), Some(soft), Ok(seconds)) => {
                    *limit = OutputLimit { hard, soft, seconds: seconds.into() };
                }
                _ => {
                    return Err("Error in hard, soft or soft_seconds setting in buffer limit configuration.");
                }
            }
        }
        *self = new;
        Ok(())
    }
}

impl fmt::Display for OutputLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = [(" normal", self.normal), (" slave", self.replica), (" pubsub", self.pubsub)];
        for (i, (name, OutputLimit { hard, soft, seconds })) in all.into_iter().enumerate() {
            write!(f, "{} {hard} {soft} {seconds}", if i == 0 { name.trim_start() } else { name })?;
        }
        Ok(())
    }
}

/// The output limits of one kind of client, shared by all threads. Each of the three numbers is stored by
/// itself, so a reader may see some old and some new ones.
#[derive(Debug, Default)]
pub struct SharedOutputLimit([AtomicU64; 3]);

impl SharedOutputLimit {
    /// Stores the output limits.
    pub fn set(&self, limit: OutputLimit) {
        let OutputLimit { hard, soft, seconds } = limit;
        self.0.iter().zip([hard, soft, seconds]).for_each(|(shared, new)| shared.store(new, Relaxed));
    }

    /// Returns the output limits.
    pub fn get(&self) -> OutputLimit {
        let [hard, soft, seconds] = self.0.each_ref().map(|shared| shared.load(Relaxed));
        OutputLimit { hard, soft, seconds }
    }
}

/// Measures for how long a client's unread output has reached its soft limit.
#[derive(Debug, Default)]
pub struct SoftLimitTimer {
    /// The time of the first check that found the soft limit reached; None if the last check did not find it
    /// reached.
    since: Option<Instant>,
}

impl SoftLimitTimer {
    /// Returns whether a client with `bytes` bytes of unread output has to be disconnected. The time at the
    /// soft limit begins with the first call that finds it reached.
    pub fn is_over(&mut self, bytes: usize, limit: OutputLimit) -> bool {
        let reaches = |limit: u64| limit > 0 && bytes as u64 >= limit;
        if !reaches(limit.soft) {
            self.since = None;
        } else if let Some(since) = self.since {
            if since.elapsed() > Duration::from_secs(limit.seconds) {
                return true;
            }
        } else {
            self.since = Some(Instant::now());
        }
        reaches(limit.hard)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        let mut limits = OutputLimits::default();
        limits.set("normal 1mb 2mb 60 replica 3mb 4mb 70 pubsub 5mb 6mb 80").unwrap();
        let shown = "normal 1048576 2097152 60 slave 3145728 4194304 70 pubsub 5242880 6291456 80";
        assert_eq!(limits.to_string(), shown);
        for (text, problem) in [
            ("wrong number", "Wrong number of arguments"),
            ("master 1 1 1", "Invalid client class"),
            ("normal 1 1 1 pubsub 1mbs 1 1", "Error in hard, soft or soft_seconds"),
            ("normal 1 1 1s", "Error in hard, soft or soft_seconds"),
        ] {
            assert!(limits.set(text).unwrap_err().contains(problem), "{text}");
        }
        assert_eq!(limits.to_string(), shown);
        limits.set("pubsub 1 0 0").unwrap();
        assert_eq!((limits.pubsub.hard, limits.normal.seconds), (1, 60));
    }

    #[test]
    fn hard_and_soft() {
        let mut watch = SoftLimitTimer::default();
        let limit = OutputLimit { hard: 100, soft: 0, seconds: 0 };
        assert!(!watch.is_over(99, limit) && watch.is_over(100, limit));
        let limit = OutputLimit { hard: 0, soft: 10, seconds: 0 };
        assert!(!watch.is_over(10, limit) && !watch.is_over(9, limit));
        let limit = OutputLimit { hard: 0, soft: 10, seconds: 1000 };
        assert!(!watch.is_over(1000, limit) && watch.since.is_some());
        watch.since = Instant::now().checked_sub(Duration::from_secs(1001));
        assert!(watch.since.is_none() || watch.is_over(10, limit));
        assert!(!watch.is_over(9, limit) && watch.since.is_none());
        assert!(!watch.is_over(usize::MAX, OutputLimit::default()));
    }
}
