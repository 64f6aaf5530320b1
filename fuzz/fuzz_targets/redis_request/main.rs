//! Parses requests to pheap-redis, which arrive in pieces of any size.
//!
//! The sizes of the pieces change neither the requests nor the error. If the library `redis-protocol` reads
//! an array of strings in the usual form, it must be a request of pheap-redis, too, unless it has too many
//! words for a client without a password. A buffer never gets more room than the bytes that have arrived, or
//! a chunk.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use pheap_fuzz::redis::encoded;
use pheap_redis::resp::input::Input;
use pheap_redis::resp::request::{Parser, RequestLimits};
use redis_protocol::resp2::decode::decode;
use redis_protocol::resp2::types::OwnedFrame;

fuzz_target!(|stream: Stream| run(&stream));

#[derive(Arbitrary, Debug)]
struct Stream {
    authenticated: bool,
    pieces: Vec<Piece>,
    /// Sizes of reads, less one. Later reads have up to 7 bytes.
    reads: Vec<u8>,
}

#[derive(Arbitrary, Debug)]
enum Piece {
    Request(Vec<Vec<u8>>),
    /// A request whose lengths may be wrong.
    Damaged {
        count: i16,
        arguments: Vec<(i16, Vec<u8>)>,
    },
    Line(Vec<u8>),
    Bytes(Vec<u8>),
}

impl Piece {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Piece::Request(words) => out.extend_from_slice(&encoded(words)),
            Piece::Damaged { count, arguments } => {
                out.extend_from_slice(format!("*{count}\r\n").as_bytes());
                for (len, argument) in arguments {
                    out.extend_from_slice(format!("${len}\r\n").as_bytes());
                    out.extend_from_slice(argument);
                    out.extend_from_slice(b"\r\n");
                }
            }
            Piece::Line(line) => {
                out.extend_from_slice(line);
                out.extend_from_slice(b"\r\n");
            }
            Piece::Bytes(bytes) => out.extend_from_slice(bytes),
        }
    }
}

type Request = Vec<Vec<u8>>;

fn run(stream: &Stream) {
    let limits = RequestLimits { bulk: 1 << 20, authenticated: stream.authenticated };
    let mut bytes = Vec::new();
    stream.pieces.iter().for_each(|piece| piece.put(&mut bytes));
    let whole = at_once(&bytes, limits);
    assert_eq!(in_pieces(&bytes, &stream.reads, limits), whole);
}

/// Parses the bytes as a whole. Returns all requests, and the error after them, if there is one. Compares
/// with `redis-protocol`.
fn at_once(bytes: &[u8], limits: RequestLimits) -> (Vec<Request>, Option<String>) {
    let (mut all, mut rest) = (Vec::new(), bytes);
    loop {
        let oracle = oracle(rest);
        match Parser::default().parse(rest, limits) {
            Ok(Some((arguments, len))) => {
                let words: Request = arguments.in_buffer(rest).map(<[u8]>::to_vec).collect();
                if rest[0] == b'*' && !words.is_empty() && rest[..len] == encoded(&words) {
                    assert_eq!(oracle.as_ref(), Some(&words), "only pheap-redis takes this for a request");
                }
                if let Some(expected) = oracle {
                    assert_eq!(words, expected);
                }
                all.push(words);
                rest = &rest[len..];
            }
            Ok(None) => {
                assert_eq!(oracle, None, "this is a request, as a whole");
                return (all, None);
            }
            Err(error) => {
                let is_allowed = |words: &Request| limits.authenticated || words.len() <= 10;
                assert!(!oracle.as_ref().is_some_and(is_allowed), "{error}, but it is a request");
                return (all, Some(error.to_string()));
            }
        }
    }
}

/// Returns the request at the start of the bytes, if `redis-protocol` reads one, and its lengths have the
/// form that clients use.
fn oracle(bytes: &[u8]) -> Option<Request> {
    if bytes.first() != Some(&b'*') {
        return None;
    }
    let (OwnedFrame::Array(frames), len) = decode(bytes).ok()?? else { return None };
    let words = frames.into_iter().map(|frame| match frame {
        OwnedFrame::BulkString(word) => Some(word),
        _ => None,
    });
    let words = words.collect::<Option<Request>>()?;
    (bytes[..len] == encoded(&words)).then_some(words)
}

fn in_pieces(bytes: &[u8], reads: &[u8], limits: RequestLimits) -> (Vec<Request>, Option<String>) {
    const CHUNK: usize = 64;
    let (mut input, mut rest, mut all) = (Input::default(), bytes, Vec::new());
    let mut reads = reads.iter().map(|&read| 1 + usize::from(read)).chain(std::iter::repeat(7));
    loop {
        loop {
            match input.is_ready(limits) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => return (all, Some(error.to_string())),
            }
            let start = input.start();
            let words: Request = input.words().iter().map(|word| word.to_vec()).collect();
            input.consume();
            if all.len() % 3 == 0 {
                // Reads the request again, as after a rolled-back transaction.
                input.rewind_to(start);
                assert!(input.is_ready(limits).expect("it was a request before"));
                assert_eq!(input.words().to_vec(), words);
                input.consume();
            }
            all.push(words);
        }
        input.tidy();
        if rest.is_empty() {
            return (all, None);
        }
        let come = input.pending();
        let (buffer, room) = input.room(CHUNK);
        assert!(room <= CHUNK.max(come), "room for {room} bytes, where {come} have come");
        let read = reads.next().expect("it goes on").min(room).min(rest.len());
        buffer.extend_from_slice(&rest[..read]);
        rest = &rest[read..];
    }
}
