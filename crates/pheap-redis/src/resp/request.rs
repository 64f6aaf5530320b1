//! Requests, as they arrive: arrays of bulk strings, or a line of words.
//!
//! A request that is not all there yet is parsed on from where its last part ended, so one of a million arguments costs no more if it comes in many pieces.

use std::borrow::Cow;
use std::ops::Range;

use crate::text::words;

/// Longest line: an inline command, or a length.
const LINE: usize = 64 << 10;
/// Most arguments of a request.
const ARGUMENTS: i64 = i32::MAX as i64;

/// Adds a request as clients send it.
pub fn put_request(out: &mut Vec<u8>, words: &[&[u8]]) {
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

/// What a client may send.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Longest argument, in bytes (`proto-max-bulk-len`).
    pub bulk: u64,
    /// Whether the client has said who it is. One that has not is allowed little.
    pub authenticated: bool,
}

/// What cannot be understood. The connection is closed after this has been answered.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("Protocol error: {0}")]
pub struct Malformed(Cow<'static, str>);

/// Where the arguments of a request are.
#[derive(Debug, Default)]
pub struct Arguments {
    /// Of an array of bulk strings: places in the buffer.
    places: Vec<Range<usize>>,
    /// Of an inline command: its words, with quotes resolved.
    words: Vec<Vec<u8>>,
}

impl Arguments {
    /// The arguments. `buffer` is the one that was parsed.
    pub fn in_buffer<'a>(&'a self, buffer: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        self.places.iter().map(|place| &buffer[place.clone()]).chain(self.words.iter().map(Vec::as_slice))
    }
}

/// How far a request has been parsed.
#[derive(Debug, Default)]
pub struct Parser {
    arguments: Arguments,
    /// What of the buffer was understood.
    at: usize,
    /// Arguments that are still to come. None before the first line.
    missing: Option<usize>,
    /// Length of the next argument, if that is known.
    bulk: Option<usize>,
}

impl Parser {
    /// Goes on with the request that begins at the beginning of `buffer`. If it is there as a whole, its arguments and its length in bytes; there may be no arguments.
    ///
    /// # Errors
    /// If it is no request.
    pub fn parse(&mut self, buffer: &[u8], limits: Limits) -> Result<Option<(Arguments, usize)>, Malformed> {
        if self.missing.is_none() {
            match buffer.first() {
                None => return Ok(None),
                Some(b'*') => {}
                Some(_) => return self.inline(buffer),
            }
            let Some(line) = self.line(buffer, "too big mbulk count string")? else { return Ok(None) };
            let count = words::int(&line[1..])
                .filter(|&count| count <= ARGUMENTS)
                .ok_or(Malformed("invalid multibulk length".into()))?;
            if count > 10 && !limits.authenticated {
                return Err(Malformed("unauthenticated multibulk length".into()));
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

    /// Bytes that the rest of the request has at least, for a buffer to be made long enough.
    pub fn wanted(&self, buffered: usize) -> usize {
        self.bulk.map_or(0, |bulk| (self.at + bulk + 2).saturating_sub(buffered))
    }

    fn done(&mut self) -> (Arguments, usize) {
        let Parser { arguments, at, .. } = std::mem::take(self);
        (arguments, at)
    }

    /// The next line, without its end.
    fn line<'b>(&mut self, buffer: &'b [u8], too_long: &'static str) -> Result<Option<&'b [u8]>, Malformed> {
        let rest = &buffer[self.at..];
        let Some(end) = rest.iter().take(LINE + 2).position(|&byte| byte == b'\r') else {
            return if rest.len() > LINE { Err(Malformed(too_long.into())) } else { Ok(None) };
        };
        if end + 1 == rest.len() {
            return Ok(None); // the '\n' is still to come
        }
        self.at += end + 2;
        Ok(Some(&rest[..end]))
    }

    fn bulk(&mut self, buffer: &[u8], limits: Limits) -> Result<Option<Range<usize>>, Malformed> {
        if self.bulk.is_none() {
            let Some(line) = self.line(buffer, "too big bulk count string")? else { return Ok(None) };
            let Some((b'$', digits)) = line.split_first() else {
                let got = line.first().map_or(' ', |&byte| char::from(byte));
                return Err(Malformed(format!("expected '$', got '{got}'").into()));
            };
            let len = words::int(digits)
                .and_then(|len| u64::try_from(len).ok())
                .filter(|&len| len <= limits.bulk)
                .ok_or(Malformed("invalid bulk length".into()))?;
            if len > 16384 && !limits.authenticated {
                return Err(Malformed("unauthenticated bulk length".into()));
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

    fn inline(&mut self, buffer: &[u8]) -> Result<Option<(Arguments, usize)>, Malformed> {
        let Some(end) = buffer.iter().take(LINE + 1).position(|&byte| byte == b'\n') else {
            return if buffer.len() > LINE {
                Err(Malformed("too big inline request".into()))
            } else {
                Ok(None)
            };
        };
        let line = buffer[..end].strip_suffix(b"\r").unwrap_or(&buffer[..end]);
        self.arguments.words = words::split(line).ok_or(Malformed("unbalanced quotes in request".into()))?;
        self.at = end + 1;
        Ok(Some(self.done()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { bulk: 512 << 20, authenticated: true };

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
