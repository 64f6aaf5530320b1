//! What a client has sent: a buffer, and the next request in it.

use smallvec::SmallVec;

use super::request::{Arguments, Limits, Malformed, Parser};

/// Bytes that a buffer may have for the next request.
const KEPT: usize = 1 << 20;

/// What a client has sent and was not answered yet.
#[derive(Debug, Default)]
pub struct Input {
    bytes: Vec<u8>,
    start: usize,
    parser: Parser,
    /// The next request, if it is there as a whole, and its length.
    request: Option<(Arguments, usize)>,
}

/// The arguments of a request.
pub type Words<'a> = SmallVec<[&'a [u8]; 8]>;

impl Input {
    /// Where more is to be appended, and how many bytes at once: at least `least`.
    pub fn room(&mut self, least: usize) -> (&mut Vec<u8>, usize) {
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
        } else if self.start > self.bytes.len() / 2 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        // Never much more than has come: what a client only announces needs no memory. And what is read at once is overwritten before.
        let come = self.bytes.len() - self.start;
        let wanted = self.parser.wanted(come).min(come).min(1 << 20);
        (&mut self.bytes, least.max(wanted))
    }

    /// Appends what has come.
    pub fn append(&mut self, bytes: &[u8]) {
        self.room(0).0.extend_from_slice(bytes);
    }

    /// Bytes that were not answered yet.
    pub fn pending(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Where the next request begins.
    pub fn start(&self) -> usize {
        self.start
    }

    /// Whether the next request is there as a whole.
    ///
    /// # Errors
    /// If it is no request. Then asking again says the same.
    pub fn is_ready(&mut self, limits: Limits) -> Result<bool, Malformed> {
        if self.request.is_none() {
            let parsed = self.parser.parse(&self.bytes[self.start..], limits);
            self.request = parsed.inspect_err(|_| self.parser = Parser::default())?;
        }
        Ok(self.request.is_some())
    }

    /// The next request, which is there.
    pub fn words(&self) -> Words<'_> {
        let request =
            self.request.as_ref().map(|(arguments, _)| arguments.in_buffer(&self.bytes[self.start..]));
        request.into_iter().flatten().collect()
    }

    /// It was answered.
    pub fn consume(&mut self) {
        self.start += self.request.take().map_or(0, |(_, len)| len);
    }

    /// Lets go of memory that was needed for a long request, if all was answered.
    pub fn tidy(&mut self) {
        if self.pending() == 0 && self.bytes.capacity() > KEPT {
            *self = Input::default();
        }
    }

    /// Goes back to a request that was answered.
    pub fn go_back(&mut self, start: usize) {
        (self.start, self.request, self.parser) = (start, None, Parser::default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_request_stays_none() {
        let limits = Limits { bulk: 100, authenticated: true };
        let mut input = Input::default();
        input.room(100).0.extend_from_slice(b"PING\r\n*x\r\n*1\r\n$4\r\nPING\r\n");
        assert!(input.is_ready(limits).unwrap());
        input.consume();
        for _ in 0..3 {
            assert!(input.is_ready(limits).is_err());
        }
    }
}
