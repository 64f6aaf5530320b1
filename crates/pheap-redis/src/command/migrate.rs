//! `MIGRATE`: moves keys to another server, with `RESTORE` there.
//!
//! The command locks all shards. Outside of `EXEC` and scripts it is a separate transaction, so that it does
//! not run again because another command has failed: its effect on the other server cannot be rolled back.
//! Until it ends, all clients that need keys wait.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::args::int;
use super::table::WRITE;
use super::{Args, Command, Cx, Done, Fail, Keys, answer};
use crate::rdb;
use crate::resp::Reply;
use crate::resp::request::put_request;
use crate::text::words::lossy;

pub(super) const COMMANDS: &[Command] =
    &[Command::new("migrate", -6, WRITE, Keys::Perhaps { keys: find_keys, everything: |_| true }, migrate)];

/// The position of the first option in the arguments of `MIGRATE`.
const OPTIONS: usize = 6;

const NOT_WRITTEN: &str = "IOERR error or timeout writing to target instance";
const NOT_READ: &str = "IOERR error or timeout reading to target instance";

/// The most bytes that are read of a reply of the other server. The replies to `AUTH`, `SELECT` and `RESTORE`
/// are short.
const LONGEST_REPLY: u64 = 1024;

fn find_keys(args: &Args<'_>, keys: &mut Vec<usize>) {
    let mut at = OPTIONS;
    while let Some(option) = args.get(at) {
        match option.to_ascii_lowercase().as_slice() {
            b"keys" if args[3].is_empty() => return keys.extend(at + 1..args.len()),
            b"keys" => return,
            b"auth" => at += 1,
            b"auth2" => at += 2,
            _ => {}
        }
        at += 1;
    }
    keys.push(3);
}

/// The parsed arguments of `MIGRATE`.
struct MigrateOptions<'a> {
    copies: bool,
    replaces: bool,
    /// The arguments of `AUTH` at the other server.
    auth: &'a [&'a [u8]],
    keys: &'a [&'a [u8]],
}

impl<'a> MigrateOptions<'a> {
    fn parse(args: &'a Args<'a>) -> Result<MigrateOptions<'a>, Fail> {
        let mut options = MigrateOptions { copies: false, replaces: false, auth: &[], keys: &args[3..4] };
        let mut at = OPTIONS;
        while let Some(option) = args.get(at) {
            at += 1;
            let mut auth = |count| {
                options.auth = args.get(at..at + count).ok_or(Fail::SYNTAX)?;
                at += count;
                Ok::<_, Fail>(())
            };
            match option.to_ascii_lowercase().as_slice() {
                b"copy" => options.copies = true,
                b"replace" => options.replaces = true,
                b"auth" => auth(1)?,
                b"auth2" => auth(2)?,
                b"keys" if args[3].is_empty() => {
                    options.keys = &args[at..];
                    break;
                }
                b"keys" => {
                    return Err(Fail::err(
                        "When using MIGRATE KEYS option, the key argument must be set to the empty string",
                    ));
                }
                _ => return Err(Fail::SYNTAX),
            }
        }
        Ok(options)
    }
}

fn migrate(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let options = MigrateOptions::parse(args)?;
    let (timeout, db) = (int(args[5])?, int(args[4])?);
    let timeout = Duration::from_millis(if timeout <= 0 { 1000 } else { timeout as u64 });
    let (mut request, mut keys) = (Vec::new(), Vec::new());
    if !options.auth.is_empty() {
        put_request(&mut request, &[&[&b"AUTH"[..]], options.auth].concat());
    }
    put_request(&mut request, &[b"SELECT", db.to_string().as_bytes()]);
    let before = if options.auth.is_empty() { 1 } else { 2 };
    for &key in options.keys {
        let Some((value, deadline)) = cx.copy_of(key) else { continue };
        let dumped = rdb::dump(&value).map_err(Fail::err)?;
        // For a key with a deadline, this is not 0, which would mean no deadline: a key that has not expired
        // has at least a millisecond left.
        let ttl = deadline.map_or(0, |deadline| deadline - cx.clock).to_string();
        let words = [b"RESTORE", key, ttl.as_bytes(), &dumped, b"REPLACE"];
        put_request(&mut request, if options.replaces { &words } else { &words[..4] });
        keys.push(key);
    }
    if keys.is_empty() {
        return answer::simple(out, "NOKEY");
    }
    // The keys must be durable here before the other server gets them.
    if cx.server.options.always.load(Relaxed) {
        cx.store().heap().sync()?;
    }
    let mut target = connect(args[1], args[2], timeout).map_err(|error| match error.kind() {
        // Redis connects asynchronously, so a refused connection shows as a failed write.
        ErrorKind::ConnectionRefused => Fail::Error(NOT_WRITTEN.into()),
        _ => Fail::Error("IOERR error or timeout connecting to the client".into()),
    })?;
    target.get_mut().write_all(&request).map_err(|_| Fail::Error(NOT_WRITTEN.into()))?;
    let mut error = None;
    for _ in 0..before {
        let reply = reply_of(&mut target).map_err(|_| Fail::Error(NOT_READ.into()))?;
        error = error.or(error_of(&reply));
    }
    let is_refused = error.is_some();
    for key in keys {
        let Ok(reply) = reply_of(&mut target) else {
            error = error.or_else(|| Some(NOT_READ.to_owned()));
            break;
        };
        match error_of(&reply) {
            Some(problem) => error = error.or(Some(problem)),
            None if !is_refused && !options.copies => _ = cx.remove(key),
            None => {}
        }
    }
    match error {
        None => out.ok(),
        // Some keys may be gone, so this is not a `Fail`, which would mean that nothing was changed.
        Some(error) => out.error(&error),
    }
    Ok(())
}

fn connect(host: &[u8], port: &[u8], timeout: Duration) -> std::io::Result<BufReader<TcpStream>> {
    let unknown = || std::io::Error::from(std::io::ErrorKind::InvalidInput);
    let port = int(port).ok().and_then(|port| u16::try_from(port).ok()).ok_or_else(unknown)?;
    let mut result = Err(unknown());
    for address in (&*lossy(host), port).to_socket_addrs()? {
        result = TcpStream::connect_timeout(&address, timeout);
        if result.is_ok() {
            break;
        }
    }
    let stream = result?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    Ok(BufReader::new(stream))
}

/// Reads the next reply, which is one line.
fn reply_of(target: &mut BufReader<TcpStream>) -> std::io::Result<Vec<u8>> {
    let mut line = Vec::new();
    target.take(LONGEST_REPLY).read_until(b'\n', &mut line)?;
    match line.strip_suffix(b"\n") {
        Some(line) => Ok(line.strip_suffix(b"\r").unwrap_or(line).to_vec()),
        None => Err(std::io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Returns the error for the client if the reply is not `OK`: then it is an error, or the target is no Redis.
fn error_of(reply: &[u8]) -> Option<String> {
    let error = reply.strip_prefix(b"-").unwrap_or(reply);
    (reply != b"+OK").then(|| format!("ERR Target instance replied with error: {}", lossy(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(line: &str) -> Vec<usize> {
        let words: Vec<&[u8]> = line.split(' ').map(|word| word.trim_matches('"').as_bytes()).collect();
        let mut keys = Vec::new();
        find_keys(&words, &mut keys);
        keys
    }

    #[test]
    fn only_ok_is_no_error() {
        assert_eq!(error_of(b"+OK"), None);
        for (reply, error) in
            [("-BUSYKEY Target", "BUSYKEY Target"), ("HTTP/1.1 400 Bad", "HTTP/1.1 400 Bad")]
        {
            assert_eq!(
                error_of(reply.as_bytes()).unwrap(),
                format!("ERR Target instance replied with error: {error}")
            );
        }
    }

    #[test]
    fn which_arguments_are_keys() {
        assert_eq!(keys("migrate host port k 0 5"), [3]);
        assert_eq!(keys("migrate host port k 0 5 copy auth keys"), [3]);
        assert_eq!(keys("migrate host port \"\" 0 5 auth2 keys keys replace keys a keys"), [11, 12]);
        assert_eq!(keys("migrate host port k 0 5 keys a b"), []);
        assert_eq!(keys("migrate host port \"\" 0 5 keys"), []);
    }
}
