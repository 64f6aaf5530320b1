//! Parses requests: arrays of bulk strings, or lines of words.
//!
//! When more of an incomplete array comes, parsing continues behind the last complete argument. A request
//! with a million arguments therefore costs hardly more if it comes in many pieces.

use std::borrow::Cow;
use std::ops::Range;

use crate::text::words;

/// The most bytes of an inline command, and about the most of a line with a length.
const LINE: usize = 64 << 10;
/// The most arguments of an array.
const ARGUMENTS: i64 = i32::MAX as i64;

/// Appends a request in the form in which clients send it.
pub fn put_request(out: &mut Vec<u8>, words: &[&[u8]]) {
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

/// Limits of the requests of a client.
#[derive(Debug, Clone, Copy)]
pub struct RequestLimits {
    /// The longest argument in bytes (`proto-max-bulk-len`).
    pub bulk: u64,
    /// Whether the client has authenticated. Lower limits apply until then.
    pub authenticated: bool,
}

/// A malformed request. Its text is that of the error reply, without the code.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("Protocol error: {0}")]
pub struct MalformedRequest(Cow<'static, str>);

/// The arguments of a request.
#[derive(Debug, Default)]
pub struct RequestArguments {
    /// Arguments of an array: ranges of the buffer.
    places: Vec<Range<usize>>,
    /// Arguments of an inline command, with quotes resolved.
    words: Vec<Vec<u8>>,
}

impl RequestArguments {
    /// Returns the arguments. `buffer` must begin with the bytes of the request.
    pub fn in_buffer<'a>(&'a self, buffer: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        self.places.iter().map(|place| &buffer[place.clone()]).chain(self.words.iter().map(Vec::as_slice))
    }
}

/// The state of parsing a request.
#[derive(Debug, Default)]
pub struct Parser {
    arguments: RequestArguments,
    /// The number of bytes of the request that were parsed.
    at: usize,
    /// The number of arguments that are still to be parsed. None before the first line was parsed.
    missing: Option<usize>,
    /// The length of the next argument, if its line was parsed.
    bulk: Option<usize>,
}

impl Parser {
    /// Continues to parse the request at the start of `buffer`. If it is complete, returns its arguments,
    /// which may be none, and its length in bytes.
    ///
    /// # Errors
    /// If the request is malformed.
    pub fn parse(
        &mut self,
        buffer: &[u8],
        limits: RequestLimits,
    ) -> Result<Option<(RequestArguments, usize)>, MalformedRequest> {
        if self.missing.is_none() {
            match buffer.first() {
                None => return Ok(None),
                Some(b'*') => {}
                Some(_) => return self.inline(buffer),
            }
            let Some(line) = self.line(buffer, "too big mbulk count string")? else { return Ok(None) };
            let count = words::int(&line[1..])
                .filter(|&count| count <= ARGUMENTS)
                .ok_or(MalformedRequest("invalid multibulk length".into()))?;
            if count > 10 && !limits.authenticated {
                return Err(MalformedRequest("unauthenticated multibulk length".into()));
            }
            let count = usize::try_from(count).unwrap_or(0);
            self.arguments.places.reserve(count.min(1024));
            self.missing = Some(count);
        }
        while self.missing != Some(0) {
            let Some(place) = self.bulk(buffer, limits)? else { return Ok(None) };
            self.arguments.places.push(place);
            self.missing = self.missing.map(|missing| missing - 1);
        }
        Ok(Some(self.done()))
    }

    /// Returns how many bytes of an argument of known length are still missing, or 0, to size the buffer.
    /// `buffered` is how many bytes have come.
    pub fn wanted(&self, buffered: usize) -> usize {
        self.bulk.map_or(0, |bulk| (self.at + bulk + 2).saturating_sub(buffered))
    }

    fn done(&mut self) -> (RequestArguments, usize) {
        let Parser { arguments, at, .. } = std::mem::take(self);
        (arguments, at)
    }

    /// Returns the next line, without its end.
    fn line<'b>(
        &mut self,
        buffer: &'b [u8],
        too_long: &'static str,
    ) -> Result<Option<&'b [u8]>, MalformedRequest> {
        let rest = &buffer[self.at..];
        let Some(end) = rest.iter().take(LINE + 2).position(|&byte| byte == b'\r') else {
            return if rest.len() > LINE { Err(MalformedRequest(too_long.into())) } else { Ok(None) };
        };
        if end + 1 == rest.len() {
            return Ok(None); // the '\n' is still to come
        }
        self.at += end + 2;
        Ok(Some(&rest[..end]))
    }

    fn bulk(
        &mut self,
        buffer: &[u8],
        limits: RequestLimits,
    ) -> Result<Option<Range<usize>>, MalformedRequest> {
        if self.bulk.is_none() {
            let Some(line) = self.line(buffer, "too big bulk count string")? else { return Ok(None) };
            let Some((b'$', digits)) = line.split_first() else {
                let got = line.first().map_or(' ', |&byte| char::from(byte));
                return Err(MalformedRequest(format!("expected '$', got '{got}'").into()));
            };
            let len = words::int(digits)
                .and_then(|len| u64::try_from(len).ok())
                .filter(|&len| len <= limits.bulk)
                .ok_or(MalformedRequest("invalid bulk length".into()))?;
            if len > 16384 && !limits.authenticated {
                return Err(MalformedRequest("unauthenticated bulk length".into()));
            }
            self.bulk = Some(len as usize);
        }
        let len = self.bulk.expect("known by now");
        if buffer.len() - self.at < len + 2 {
            return Ok(None);
        }
        let place = self.at..self.at + len;
        self.at += len + 2;
        self.bulk = None;
        Ok(Some(place))
    }

    fn inline(&mut self, buffer: &[u8]) -> Result<Option<(RequestArguments, usize)>, MalformedRequest> {
        let Some(end) = buffer.iter().take(LINE + 1).position(|&byte| byte == b'\n') else {
            return if buffer.len() > LINE {
                Err(MalformedRequest("too big inline request".into()))
            } else {
                Ok(None)
            };
        };
        let line = buffer[..end].strip_suffix(b"\r").unwrap_or(&buffer[..end]);
        self.arguments.words =
            words::split(line).ok_or(MalformedRequest("unbalanced quotes in request".into()))?;
        self.at = end + 1;
        Ok(Some(self.done()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: RequestLimits = RequestLimits { bulk: 512 << 20, authenticated: true };

    fn parsed(bytes: &[u8]) -> Vec<Vec<Vec<u8>>> {
        let (mut all, mut rest) = (Vec::new(), bytes);
        let mut parser = Parser::default();
        while let Some((arguments, len)) = parser.parse(rest, LIMITS).unwrap() {
            all.push(arguments.in_buffer(rest).map(<[u8]>::to_vec).collect());
            rest = &rest[len..];
        }
        all
    }

    #[test]
    fn requests_in_a_row() {
        let bytes = b"*2\r\n$3\r\nGET\r\n$1\r\na\r\nping \"a b\"\r\n*0\r\n*1\r\n$4\r\nPING\r\n";
        let words: Vec<Vec<Vec<u8>>> = parsed(bytes);
        assert_eq!(
            words,
            [
                vec![b"GET".to_vec(), b"a".to_vec()],
                vec![b"ping".to_vec(), b"a b".to_vec()],
                vec![],
                vec![b"PING".to_vec()]
            ]
        );
    }

    #[test]
    fn a_request_byte_by_byte() {
        let bytes = b"*3\r\n$3\r\nSET\r\n$5\r\nhello\r\n$0\r\n\r\n";
        let mut parser = Parser::default();
        for end in 0..bytes.len() {
            assert!(parser.parse(&bytes[..end], LIMITS).unwrap().is_none());
        }
        let (arguments, len) = parser.parse(bytes, LIMITS).unwrap().unwrap();
        assert_eq!(len, bytes.len());
        assert_eq!(arguments.in_buffer(bytes).collect::<Vec<_>>(), [&b"SET"[..], b"hello", b""]);
    }

    #[test]
    fn what_is_no_request() {
        let error = |bytes: &[u8]| Parser::default().parse(bytes, LIMITS).unwrap_err().to_string();
        assert_eq!(error(b"*x\r\n"), "Protocol error: invalid multibulk length");
        assert_eq!(error(b"*3\r\n$3\r\nSET\r\n$1\r\nx\r\nfooz\r\n"), "Protocol error: expected '$', got 'f'");
        assert_eq!(error(b"*1\r\n$-10\r\n"), "Protocol error: invalid bulk length");
        assert_eq!(error(b"set x \"y\r\n"), "Protocol error: unbalanced quotes in request");
        assert_eq!(error(&[b'x'; LINE + 1]), "Protocol error: too big inline request");
    }
}
