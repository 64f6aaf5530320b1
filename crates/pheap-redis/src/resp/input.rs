//! The input of a client: a buffer, and the next request in it.

use smallvec::SmallVec;

use super::request::{MalformedRequest, Parser, RequestArguments, RequestLimits};

/// The most bytes that an empty buffer keeps allocated behind [`Input::tidy`].
const KEPT: usize = 1 << 20;

/// The bytes that a client has sent. The bytes before `start` were consumed.
#[derive(Debug, Default)]
pub struct Input {
    bytes: Vec<u8>,
    start: usize,
    parser: Parser,
    /// The arguments and the length of the next request, if the request is known to be complete.
    request: Option<(RequestArguments, usize)>,
}

/// The arguments of a request.
pub type Words<'a> = SmallVec<[&'a [u8]; 8]>;

impl Input {
    /// Returns the buffer to which input is appended, and how many bytes to read at once: at least `least`.
    pub fn room(&mut self, least: usize) -> (&mut Vec<u8>, usize) {
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
        } else if self.start > self.bytes.len() / 2 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        // The room beyond `least` is at most as large as the input that has come, so that an announced length
        // alone allocates no memory. A reader may also fill the room with zeros before it reads, which takes
        // time.
        let come = self.bytes.len() - self.start;
        let wanted = self.parser.wanted(come).min(come).min(1 << 20);
        (&mut self.bytes, least.max(wanted))
    }

    /// Appends input.
    pub fn append(&mut self, bytes: &[u8]) {
        self.room(0).0.extend_from_slice(bytes);
    }

    /// Returns the number of bytes that were not consumed.
    pub fn pending(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Returns where the next request begins in the buffer, until [`room`](Self::room) moves it.
    pub fn start(&self) -> usize {
        self.start
    }

    /// Returns whether the next request is complete.
    ///
    /// # Errors
    /// If the request is malformed. Then later calls with these limits fail too.
    pub fn is_ready(&mut self, limits: RequestLimits) -> Result<bool, MalformedRequest> {
        if self.request.is_none() {
            let parsed = self.parser.parse(&self.bytes[self.start..], limits);
            self.request = parsed.inspect_err(|_| self.parser = Parser::default())?;
        }
        Ok(self.request.is_some())
    }

    /// Returns the arguments of the next request, which must be complete.
    pub fn words(&self) -> Words<'_> {
        let request =
            self.request.as_ref().map(|(arguments, _)| arguments.in_buffer(&self.bytes[self.start..]));
        request.into_iter().flatten().collect()
    }

    /// Moves behind the next request, if it is complete.
    pub fn consume(&mut self) {
        self.start += self.request.take().map_or(0, |(_, len)| len);
    }

    /// Frees the memory of a long buffer, if no input is left.
    pub fn tidy(&mut self) {
        if self.pending() == 0 && self.bytes.capacity() > KEPT {
            *self = Input::default();
        }
    }

    /// Moves back to an earlier request, which must still be in the buffer.
    pub fn rewind_to(&mut self, start: usize) {
        (self.start, self.request, self.parser) = (start, None, Parser::default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_request_stays_none() {
        let limits = RequestLimits { bulk: 100, authenticated: true };
        let mut input = Input::default();
        input.room(100).0.extend_from_slice(b"PING\r\n*x\r\n*1\r\n$4\r\nPING\r\n");
        assert!(input.is_ready(limits).unwrap());
        input.consume();
        for _ in 0..3 {
            assert!(input.is_ready(limits).is_err());
        }
    }
}
