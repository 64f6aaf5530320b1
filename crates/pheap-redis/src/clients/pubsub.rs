//! Channels: the subscribers of each, and the messages that they get. Also the classes of keyspace
//! notifications.

use std::collections::HashMap;
use std::fmt::{self, Write};
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::resp::Reply;
use crate::text::words;

/// The kind of a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubscriptionKind {
    /// A channel.
    Channel,
    /// All channels whose names match a pattern.
    Pattern,
    /// A shard channel. It is distinct from a channel of the same name.
    Shard,
}

/// The subscribers of channels.
#[derive(Debug, Default)]
pub struct Channels {
    /// Number of subscriptions of all kinds.
    count: AtomicUsize,
    /// For each kind of subscription: the ids of the subscribed clients, by the name of the channel or
    /// pattern.
    names: [Mutex<HashMap<Vec<u8>, Vec<u64>>>; 3],
}

impl Channels {
    fn names(&self, kind: SubscriptionKind) -> &Mutex<HashMap<Vec<u8>, Vec<u64>>> {
        &self.names[kind as usize]
    }

    /// Adds a subscription to a channel, pattern or shard channel.
    pub fn add(&self, name: &[u8], kind: SubscriptionKind, client: u64) {
        self.names(kind).lock().entry(name.to_vec()).or_default().push(client);
        self.count.fetch_add(1, Ordering::SeqCst);
    }

    /// Removes a subscription.
    pub fn remove(&self, name: &[u8], kind: SubscriptionKind, client: u64) {
        let mut names = self.names(kind).lock();
        let Some(listeners) = names.get_mut(name) else { return };
        let before = listeners.len();
        listeners.retain(|other| *other != client);
        self.count.fetch_sub(before - listeners.len(), Ordering::SeqCst);
        if listeners.is_empty() {
            names.remove(name);
        }
    }

    /// Calls `send` with each subscriber of a channel or shard channel, and with the parts of the message for
    /// it. For a channel, also calls `send` with the subscribers of each pattern that matches.
    pub fn publish(
        &self,
        kind: SubscriptionKind,
        channel: &[u8],
        message: &[u8],
        send: &mut dyn FnMut(u64, &[&[u8]]),
    ) {
        if self.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        let word: &[u8] = if kind == SubscriptionKind::Shard { b"smessage" } else { b"message" };
        for subscriber in self.names(kind).lock().get(channel).into_iter().flatten() {
            send(*subscriber, &[word, channel, message]);
        }
        if kind == SubscriptionKind::Shard {
            return;
        }
        for (pattern, listeners) in &*self.names(SubscriptionKind::Pattern).lock() {
            if words::matches(pattern, channel) {
                listeners.iter().for_each(|to| send(*to, &[b"pmessage", pattern, channel, message]));
            }
        }
    }

    /// Returns the channels of a kind that match a pattern and have subscribers.
    pub fn matching(&self, kind: SubscriptionKind, pattern: &[u8]) -> Vec<Vec<u8>> {
        self.names(kind).lock().keys().filter(|name| words::matches(pattern, name)).cloned().collect()
    }

    /// Returns the number of subscribers of a channel.
    pub fn subscriber_count(&self, kind: SubscriptionKind, channel: &[u8]) -> usize {
        self.names(kind).lock().get(channel).map_or(0, Vec::len)
    }

    /// Returns the number of channels, patterns or shard channels that have subscribers.
    pub fn count(&self, kind: SubscriptionKind) -> usize {
        self.names(kind).lock().len()
    }
}

/// Encodes a message as a push message of RESP3.
pub fn encode_push(parts: &[&[u8]]) -> Vec<u8> {
    let mut reply = Reply::new(true);
    reply.push(parts.len());
    parts.iter().for_each(|part| reply.bulk(part));
    reply.take()
}

/// The wanted keyspace notifications (`notify-keyspace-events`): a bit for each letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NotificationClasses(pub u32);

/// The letters of `notify-keyspace-events`, by the number of their bit: letters of event classes, and last
/// `K` and `E`, which select channels by key and by event. `A` stands for the first ten classes.
const CLASSES: &[u8] = b"g$lshzxetdnmKE";

impl NotificationClasses {
    /// Parses the letters of `notify-keyspace-events`. Returns None if a letter is unknown.
    pub fn parse(text: &str) -> Option<NotificationClasses> {
        let bit = |letter: u8| match letter {
            b'A' => Some((1 << 10) - 1),
            letter => CLASSES.iter().position(|&class| class == letter).map(|bit| 1 << bit),
        };
        text.bytes().try_fold(0, |all, letter| Some(all | bit(letter)?)).map(NotificationClasses)
    }

    /// Returns whether the notifications of a letter are wanted. For `A`, which stands for other letters,
    /// returns false.
    pub fn has(self, class: u8) -> bool {
        CLASSES.iter().position(|&letter| letter == class).is_some_and(|bit| self.0 & 1 << bit != 0)
    }
}

impl fmt::Display for NotificationClasses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const ALL: u32 = (1 << 10) - 1;
        let classes = if self.0 & ALL == ALL { "AnKEm" } else { "g$lshzxetdnKEm" };
        let mut letters = classes.chars().filter(|&letter| letter == 'A' || self.has(letter as u8));
        letters.try_for_each(|letter| f.write_char(letter))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn published(channels: &Channels) -> Vec<(u64, Vec<u8>)> {
        let mut messages = Vec::new();
        channels.publish(SubscriptionKind::Channel, b"news", b"x", &mut |to, parts| {
            messages.push((to, encode_push(parts)))
        });
        messages
    }

    #[test]
    fn who_listens_is_told() {
        let channels = Channels::default();
        assert!(published(&channels).is_empty());
        channels.add(b"news", SubscriptionKind::Channel, 1);
        channels.add(b"n*", SubscriptionKind::Pattern, 2);
        let messages = published(&channels);
        assert_eq!(messages[0], (1, b">3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$1\r\nx\r\n".to_vec()));
        assert_eq!(
            messages[1],
            (2, b">4\r\n$8\r\npmessage\r\n$2\r\nn*\r\n$4\r\nnews\r\n$1\r\nx\r\n".to_vec())
        );
        channels.remove(b"news", SubscriptionKind::Channel, 1);
        channels.remove(b"n*", SubscriptionKind::Pattern, 2);
        assert!(published(&channels).is_empty() && channels.count(SubscriptionKind::Pattern) == 0);
    }

    #[test]
    fn wanted_notifications() {
        let wanted = NotificationClasses::parse("KA").unwrap();
        assert!(
            wanted.has(b'K')
                && wanted.has(b'g')
                && wanted.has(b'd')
                && !wanted.has(b'E')
                && !wanted.has(b'm')
        );
        assert_eq!(NotificationClasses::parse("Q"), None);
        for (given, shown) in [("KA", "AK"), ("EmKg", "gKEm"), ("A", "A"), ("", ""), ("g$lshzxetdE", "AE")] {
            assert_eq!(NotificationClasses::parse(given).unwrap().to_string(), shown);
        }
    }
}
