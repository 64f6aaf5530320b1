//! The handshake with a master.

use super::LinkLost;
use super::wire::Wire;
use crate::data::Position;
use crate::server::Server;
use crate::text::words::lossy;

/// The master's reply to `PSYNC`.
pub(super) enum Greeting {
    /// The stream goes on behind this server's position. The master may have a new replication ID.
    Continue(Option<String>),
    /// All data follow, and then the stream from this position on.
    Full(Position),
}

/// Introduces this server, and asks for the stream behind `position`, or for all data.
pub(super) fn greet(
    server: &Server,
    wire: &mut Wire<'_>,
    position: Option<&Position>,
) -> Result<Greeting, LinkLost> {
    let [port, user, password] =
        ["port", "masteruser", "masterauth"].map(|name| server.config.read().text(name).to_owned());
    match ask(wire, "PING", &[b"PING"])? {
        Err(why)
            if !["NOAUTH", "NOPERM", "ERR operation not permitted"]
                .iter()
                .any(|code| why.starts_with(code)) =>
        {
            return Err(LinkLost::Refused { what: "PING", why });
        }
        _ => {}
    }
    if !password.is_empty() {
        let words: &[&[u8]] = if user.is_empty() {
            &[b"AUTH", password.as_bytes()]
        } else {
            &[b"AUTH", user.as_bytes(), password.as_bytes()]
        };
        ask(wire, "AUTH", words)?
            .map_err(|why| LinkLost::Refused { what: "AUTH (`masterauth`, `masteruser`)", why })?;
    }
    // An error reply is ignored, because a master that does not know these options works without them.
    let _ = ask(wire, "REPLCONF", &[b"REPLCONF", b"listening-port", port.as_bytes()])?;
    let _ = ask(wire, "REPLCONF", &[b"REPLCONF", b"capa", b"eof", b"capa", b"psync2"])?;
    let (id, from) = match position {
        Some(position) => (position.id.as_str(), (position.offset + 1).to_string()),
        None => ("?", "-1".to_owned()),
    };
    let answer = ask(wire, "PSYNC", &[b"PSYNC", id.as_bytes(), from.as_bytes()])?;
    let answer = answer.map_err(|why| LinkLost::Refused { what: "PSYNC", why })?;
    let nonsense = || LinkLost::Nonsense(format!("'{answer}' in reply to PSYNC"));
    let words: Vec<&str> = answer.split_ascii_whitespace().collect();
    match words[..] {
        ["CONTINUE"] if position.is_some() => Ok(Greeting::Continue(None)),
        ["CONTINUE", id] if position.is_some() => Ok(Greeting::Continue(Some(id.to_owned()))),
        ["FULLRESYNC", id, offset] => {
            let offset = offset.parse::<u64>().ok().filter(|offset| i64::try_from(*offset).is_ok());
            Ok(Greeting::Full(Position { id: id.to_owned(), offset: offset.ok_or_else(nonsense)?, db: 0 }))
        }
        _ => Err(nonsense()),
    }
}

/// Sends a command. Returns the reply, or the master's error.
fn ask(wire: &mut Wire<'_>, what: &str, words: &[&[u8]]) -> Result<Result<String, String>, LinkLost> {
    wire.send(words)?;
    loop {
        let line = wire.line()?;
        return match &line[..] {
            // By an empty line, the master shows that it is still there.
            [] => continue,
            [b'+', text @ ..] => Ok(Ok(lossy(text).into_owned())),
            [b'-', text @ ..] => Ok(Err(lossy(text).into_owned())),
            other => Err(LinkLost::Nonsense(format!(
                "'{}' in reply to {what}",
                lossy(&other[..other.len().min(128)])
            ))),
        };
    }
}
