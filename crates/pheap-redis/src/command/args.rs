//! Arguments that mean something.

use super::{Args, Cx, Fail};
use crate::data::DATABASES;
use crate::resp::Reply;
use crate::words;

/// A whole number.
pub(super) fn int(text: &[u8]) -> Result<i64, Fail> {
    words::int(text).ok_or(Fail::NOT_AN_INTEGER)
}

/// A time that is none, or not one that a key could expire at.
pub(super) fn invalid_time(command: &str) -> Fail {
    Fail::err(format_args!("invalid expire time in '{command}' command"))
}

/// The number of a database.
pub(super) fn database(cx: &Cx<'_>, text: &[u8]) -> Result<usize, Fail> {
    let number = int(text)?;
    if i32::try_from(number).is_err() {
        let (least, most) = (i32::MIN, i32::MAX);
        return Err(Fail::err(format_args!("value is out of range, value must between {least} and {most}")));
    }
    let databases = (cx.server.config.read().int("databases") as usize).min(DATABASES);
    let db = usize::try_from(number).ok().filter(|&db| db < databases);
    db.ok_or_else(|| Fail::err("DB index is out of range"))
}

/// A number.
pub(super) fn float(text: &[u8]) -> Result<f64, Fail> {
    words::float(text).ok_or(Fail::NOT_A_FLOAT)
}

/// Milliseconds until a command gives up. 0: never.
pub(super) fn timeout_ms(text: &[u8]) -> Result<u64, Fail> {
    let ms = words::int(text).ok_or_else(|| Fail::err("timeout is not an integer or out of range"))?;
    u64::try_from(ms).map_err(|_| Fail::err("timeout is negative"))
}

/// Seconds until a command gives up that waits for a key. None: never.
pub(super) fn timeout(text: &[u8]) -> Result<Option<f64>, Fail> {
    let seconds = words::float(text).ok_or_else(|| Fail::err("timeout is not a float or out of range"))?;
    // In whole milliseconds, rounded up: so a little less than nothing is nothing.
    let ms = (seconds * 1000.0).ceil();
    if ms < 0.0 {
        return Err(Fail::err("timeout is negative"));
    }
    if ms >= i64::MAX as f64 / 1e3 {
        return Err(Fail::err("timeout is out of range"));
    }
    Ok(Some(ms / 1000.0).filter(|&seconds| seconds > 0.0))
}

/// What `SCAN` and its relatives are asked for.
pub(super) struct Scan<'a> {
    /// Where to go on.
    pub(super) from: u64,
    /// What names must match. None: any name does.
    pub(super) pattern: Option<&'a [u8]>,
    /// How much to look at, roughly.
    pub(super) count: usize,
    /// Which type the keys must have, in small letters.
    pub(super) kind: Option<Vec<u8>>,
}

/// The number of a `SCAN`.
pub(super) fn cursor(text: &[u8]) -> Result<u64, Fail> {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| Fail::err("invalid cursor"))
}

impl<'a> Scan<'a> {
    /// A cursor and the options behind it. `TYPE` is one of them where `has_kind`.
    pub(super) fn parse(args: &Args<'a>, has_kind: bool) -> Result<Scan<'a>, Fail> {
        let mut scan = Scan { from: cursor(args[0])?, pattern: None, count: 10, kind: None };
        let options = args[1..].chunks_exact(2);
        if !options.remainder().is_empty() {
            return Err(Fail::SYNTAX);
        }
        for option in options {
            match option[0].to_ascii_lowercase().as_slice() {
                b"match" => scan.pattern = Some(option[1]),
                b"count" => {
                    let count = usize::try_from(int(option[1])?).ok().filter(|&count| count > 0);
                    scan.count = count.ok_or(Fail::SYNTAX)?;
                }
                b"type" if has_kind => scan.kind = Some(option[1].to_ascii_lowercase()),
                _ => return Err(Fail::SYNTAX),
            }
        }
        Ok(scan)
    }

    /// Answers that there is nothing.
    pub(super) fn nothing(out: &mut Reply) {
        out.array(2);
        out.bulk(b"0");
        out.array(0);
    }

    /// Answers what one of the relatives of `SCAN` is asked for: goes on with `step`, which says some elements
    /// and where the next ones are, until enough were looked at. As Redis does, it answers all that a value has
    /// if that is in a compact form (`is_compact`). `write` adds an element to the reply, and says as how many.
    pub(super) fn answer<'v, T: Copy, I: Iterator<Item = T>>(
        &self,
        is_compact: bool,
        step: impl Fn(u64) -> (I, u64),
        name: impl Fn(T) -> &'v [u8],
        out: &mut Reply,
        write: impl Fn(T, &mut Reply) -> usize,
    ) {
        let from = if is_compact { 0 } else { self.from };
        let (mut at, mut seen, mut found) = (from, 0, Vec::new());
        loop {
            let (some, next) = step(at);
            for element in some {
                seen += 1;
                if self.wants(name(element)) {
                    found.push(element);
                }
            }
            at = next;
            if at == 0 || seen >= self.count && !is_compact {
                break;
            }
        }
        out.array(2);
        out.bulk(at.to_string().as_bytes());
        let (begun, mut count) = (out.begin(), 0);
        found.into_iter().for_each(|element| count += write(element, out));
        out.end_array(begun, count);
    }

    /// Whether it asks for this name.
    pub(super) fn wants(&self, name: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| words::matches(pattern, name))
    }
}
