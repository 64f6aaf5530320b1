//! The output queue of a client: bytes to send in order, and the commits that must be durable first.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::task::Poll;

use pheap::Commit;

/// The most bytes of a chunk to which more bytes are appended. A chunk's memory is freed when all of the
/// chunk was sent.
const MERGED: usize = 64 << 10;

/// The output queue of a client.
#[derive(Debug, Default)]
pub(super) struct OutputQueue {
    chunks: VecDeque<Chunk>,
    /// Bytes of the first chunk that were sent.
    sent: usize,
    /// Bytes of all chunks, including the sent part of the first one.
    len: usize,
}

#[derive(Debug)]
struct Chunk {
    bytes: Vec<u8>,
    /// Commits that must be durable before this chunk is sent, except those that were found durable.
    commits: Vec<Commit>,
}

/// Why sending has stopped.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SendPause {
    /// Everything was sent.
    Empty,
    /// The connection takes no more bytes now.
    Full,
    /// The next chunk waits for a commit that is not durable.
    NotDurable,
}

impl OutputQueue {
    /// Adds bytes to send when `commits` are durable, behind all bytes that were added before.
    pub(super) fn push(&mut self, bytes: Vec<u8>, commits: Vec<Commit>) {
        self.len += bytes.len();
        match self.chunks.back_mut() {
            Some(last) if commits.is_empty() && last.bytes.len() + bytes.len() <= MERGED => {
                last.bytes.extend_from_slice(&bytes);
            }
            _ => self.chunks.push_back(Chunk { bytes, commits }),
        }
    }

    /// Returns the number of bytes still to send.
    pub(super) fn len(&self) -> usize {
        self.len - self.sent
    }

    /// Sends as much as possible now. Calls `durability` to check whether a commit is durable, before it
    /// sends bytes that wait for the commit.
    ///
    /// # Errors
    /// If the connection has failed, or a commit never becomes durable.
    pub(super) fn send(
        &mut self,
        to: &mut impl Write,
        mut durability: impl FnMut(&Commit) -> Poll<pheap::Result<()>>,
    ) -> io::Result<SendPause> {
        while let Some(chunk) = self.chunks.front_mut() {
            // The last commit is checked first: when it is durable, the others usually are, too.
            while let Some(commit) = chunk.commits.last() {
                match durability(commit) {
                    Poll::Pending => return Ok(SendPause::NotDurable),
                    Poll::Ready(result) => result.map_err(io::Error::other)?,
                }
                chunk.commits.pop();
            }
            while self.sent < chunk.bytes.len() {
                match to.write(&chunk.bytes[self.sent..]) {
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(n) => self.sent += n,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(SendPause::Full),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            self.len -= self.sent;
            self.sent = 0;
            self.chunks.pop_front();
        }
        // An encrypted connection may have buffered bytes without sending them.
        match to.flush() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(SendPause::Full),
            flushed => flushed.map(|()| SendPause::Empty),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn no_commits(_: &Commit) -> Poll<pheap::Result<()>> {
        unreachable!("nothing waits for a commit")
    }

    /// A writer that accepts this many bytes, and then no more.
    struct SlowWriter(usize, Vec<u8>);

    impl Write for SlowWriter {
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
        let mut output = OutputQueue::default();
        // The queue is never empty and never long.
        let mut to = SlowWriter(0, Vec::new());
        for _ in 0..10_000 {
            output.push(vec![b'x'; 1000], Vec::new());
            to.0 = if output.len() > 1000 { 1000 } else { 0 };
            assert_eq!(output.send(&mut to, no_commits).unwrap(), SendPause::Full);
        }
        let kept: usize = output.chunks.iter().map(|chunk| chunk.bytes.capacity()).sum();
        assert!(output.len() == 1000 && kept < 4 * MERGED, "{kept}");
        assert_eq!(to.1.len(), 9_999_000);
    }

    #[test]
    fn a_slow_client() {
        let mut output = OutputQueue::default();
        output.push(b"hello".to_vec(), Vec::new());
        output.push(b" world".to_vec(), Vec::new());
        let mut to = SlowWriter(3, Vec::new());
        assert_eq!(output.send(&mut to, no_commits).unwrap(), SendPause::Full);
        assert_eq!(output.len(), 8);
        to.0 = 100;
        assert_eq!(output.send(&mut to, no_commits).unwrap(), SendPause::Empty);
        assert_eq!((&to.1[..], output.len()), (&b"hello world"[..], 0));
    }
}
