//! What is to be sent to a client, in order, and what must be durable before.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::task::Poll;

use pheap::Commit;

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
    /// Adds what is to be sent when `commits` are durable.
    pub(super) fn push(&mut self, bytes: Vec<u8>, commits: Vec<Commit>) {
        self.len += bytes.len();
        match self.chunks.back_mut() {
            Some(last) if commits.is_empty() && last.bytes.len() + bytes.len() <= MERGED => {
                last.bytes.extend_from_slice(&bytes);
            }
            _ => self.chunks.push_back(Chunk { bytes, commits }),
        }
    }

    /// Bytes that are still to be sent.
    pub(super) fn len(&self) -> usize {
        self.len - self.sent
    }

    /// Sends what can be sent now. `look` tells whether a commit is durable, immediately before what waits for that is sent.
    ///
    /// # Errors
    /// If the connection, or the disk, has failed.
    pub(super) fn send(
        &mut self,
        to: &mut impl Write,
        mut look: impl FnMut(&Commit) -> Poll<pheap::Result<()>>,
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
            output.push(vec![b'x'; 1000], Vec::new());
            to.0 = if output.len() > 1000 { 1000 } else { 0 };
            assert_eq!(output.send(&mut to, nothing).unwrap(), Paused::Full);
        }
        let kept: usize = output.chunks.iter().map(|chunk| chunk.bytes.capacity()).sum();
        assert!(output.len() == 1000 && kept < 4 * MERGED, "{kept}");
        assert_eq!(to.1.len(), 9_999_000);
    }

    #[test]
    fn a_slow_client() {
        let mut output = Output::default();
        output.push(b"hello".to_vec(), Vec::new());
        output.push(b" world".to_vec(), Vec::new());
        let mut to = Slow(3, Vec::new());
        assert_eq!(output.send(&mut to, nothing).unwrap(), Paused::Full);
        assert_eq!(output.len(), 8);
        to.0 = 100;
        assert_eq!(output.send(&mut to, nothing).unwrap(), Paused::Empty);
        assert_eq!((&to.1[..], output.len()), (&b"hello world"[..], 0));
    }
}
