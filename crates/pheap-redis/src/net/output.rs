//! What is to be sent to a client, in order, and what must be durable before.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::task::Poll;

use pheap::Commit;

use crate::mailbox::Parcel;

/// Bytes of chunks that are put together. What was sent of a chunk is kept until all of it was.
const MERGED: usize = 64 << 10;

/// What is to be sent.
#[derive(Debug, Default)]
pub(super) struct Output {
    chunks: VecDeque<Chunk>,
    /// Bytes of the first chunk that were sent.
    sent: usize,
    /// Bytes of all chunks.
    len: usize,
}

#[derive(Debug)]
struct Chunk {
    bytes: Vec<u8>,
    /// Must be durable before this is sent.
    commits: Vec<Commit>,
    /// Messages to others, sent before this is.
    messages: Vec<(u64, Parcel)>,
}

/// Why sending does not go on.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Paused {
    /// Everything was sent.
    Empty,
    /// The client is slow.
    Full,
    /// Something is not durable yet.
    NotDurable,
}

impl Output {
    /// Adds what is to be sent when `commits` are durable, and messages to others, which go out at the same moment.
    pub(super) fn push(&mut self, bytes: Vec<u8>, commits: Vec<Commit>, messages: Vec<(u64, Parcel)>) {
        self.len += bytes.len();
        match self.chunks.back_mut() {
            Some(last)
                if commits.is_empty()
                    && messages.is_empty()
                    && last.messages.is_empty()
                    && last.bytes.len() + bytes.len() <= MERGED =>
            {
                last.bytes.extend_from_slice(&bytes);
            }
            _ => self.chunks.push_back(Chunk { bytes, commits, messages }),
        }
    }

    /// Bytes that are still to be sent.
    pub(super) fn len(&self) -> usize {
        self.len - self.sent
    }

    /// Whether there are messages to others.
    pub(super) fn has_messages(&self) -> bool {
        self.chunks.iter().any(|chunk| !chunk.messages.is_empty())
    }

    /// Sends what can be sent now. `look` tells whether a commit is durable. Messages to others are posted first: who has its reply may rely on it that they are under way.
    ///
    /// # Errors
    /// If the connection, or the disk, has failed.
    pub(super) fn send(
        &mut self,
        to: &mut impl Write,
        look: impl Fn(&Commit) -> Poll<pheap::Result<()>>,
        post: impl Fn(Vec<(u64, Parcel)>),
    ) -> io::Result<Paused> {
        while let Some(chunk) = self.chunks.front_mut() {
            // The last one first: when that is durable, the others are as well.
            while let Some(commit) = chunk.commits.last() {
                match look(commit) {
                    Poll::Pending => return Ok(Paused::NotDurable),
                    Poll::Ready(result) => result.map_err(io::Error::other)?,
                }
                chunk.commits.pop();
            }
            if !chunk.messages.is_empty() {
                post(std::mem::take(&mut chunk.messages));
            }
            while self.sent < chunk.bytes.len() {
                match to.write(&chunk.bytes[self.sent..]) {
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(n) => self.sent += n,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Paused::Full),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            self.len -= self.sent;
            self.sent = 0;
            self.chunks.pop_front();
        }
        // What an encrypted connection has taken need not have been sent.
        match to.flush() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Paused::Full),
            flushed => flushed.map(|()| Paused::Empty),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn nothing(_: &Commit) -> Poll<pheap::Result<()>> {
        unreachable!("nothing waits for a commit")
    }

    /// Takes so many bytes, and then no more.
    struct Slow(usize, Vec<u8>);

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let len = bytes.len().min(self.0);
            if len == 0 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            self.0 -= len;
            self.1.extend_from_slice(&bytes[..len]);
            Ok(len)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_was_sent_is_not_kept() {
        let mut output = Output::default();
        // Never all of it is sent, and never much is left.
        let mut to = Slow(0, Vec::new());
        for _ in 0..10_000 {
            output.push(vec![b'x'; 1000], Vec::new(), Vec::new());
            to.0 = if output.len() > 1000 { 1000 } else { 0 };
            assert_eq!(output.send(&mut to, nothing, |_| ()).unwrap(), Paused::Full);
        }
        let kept: usize = output.chunks.iter().map(|chunk| chunk.bytes.capacity()).sum();
        assert!(output.len() == 1000 && kept < 4 * MERGED, "{kept}");
        assert_eq!(to.1.len(), 9_999_000);
    }

    #[test]
    fn a_slow_client() {
        let mut output = Output::default();
        let posted = Cell::new(0);
        let post = |messages: Vec<_>| posted.set(posted.get() + messages.len());
        output.push(b"hello".to_vec(), Vec::new(), vec![(7, Parcel::Bytes(b"x".to_vec()))]);
        output.push(b" world".to_vec(), Vec::new(), Vec::new());
        let mut to = Slow(3, Vec::new());
        assert!(output.has_messages());
        assert_eq!(output.send(&mut to, nothing, post).unwrap(), Paused::Full);
        // Others do not wait for a client that is slow.
        assert!(posted.get() == 1 && output.len() == 8 && !output.has_messages());
        to.0 = 100;
        assert_eq!(output.send(&mut to, nothing, post).unwrap(), Paused::Empty);
        assert_eq!((&to.1[..], output.len(), posted.get()), (&b"hello world"[..], 0, 1));
    }
}
