//! Whether a request is run, queued for `EXEC`, put off, or refused.

use super::{Execution, owned};
use crate::command::{Args, Flags, KnownCommand, RefusedRequest, resolve};
use crate::resp::input::Words;
use crate::scripts::ScriptFlags;
use crate::server::OUT_OF_MEMORY;

/// The decision about a request.
pub(super) enum Admitted {
    Run(KnownCommand),
    Exec(KnownCommand),
    Queue(KnownCommand),
    Refused(RefusedRequest),
    /// Clients are paused: the request is decided about again later.
    Paused,
}

impl Execution<'_> {
    /// Decides about a request. `known` is its command, if the caller has resolved it already. If `EXEC` is
    /// refused for the server's present state, discards the transaction.
    pub(super) fn admit(&mut self, known: Option<KnownCommand>, words: &Args<'_>) -> Admitted {
        let known = match known.map_or_else(|| resolve(words), Ok) {
            Ok(known) => known,
            Err(refused) => return Admitted::Refused(refused),
        };
        let refused = |error: &str| {
            Admitted::Refused(RefusedRequest { error: error.to_owned(), number: Some(known.number) })
        };
        if !self.session.authenticated && !known.flags.has(Flags::NO_AUTH) {
            return refused("NOAUTH Authentication required.");
        }
        if self.session.only_listens() && !known.flags.has(Flags::LISTENING) {
            return refused(&format!(
                "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
                known.name
            ));
        }
        if let Some(why) = self.refused_for_now(known) {
            if known.name == "exec" && self.session.multi.take().is_some() {
                self.server.unwatch(self.session);
                return refused(&format!("EXECABORT Transaction discarded because of: {why}"));
            }
            return refused(why);
        }
        if self.session.multi.is_some() && known.flags.has(Flags::NO_MULTI) {
            return refused("ERR Command not allowed inside a transaction");
        }
        if self.server.paused().is_some_and(|pause| pause.all || self.may_change(known, words)) {
            return Admitted::Paused;
        }
        if known.name == "exec" {
            return Admitted::Exec(known);
        }
        if self.session.multi.is_some() && !known.flags.has(Flags::AT_ONCE.and(Flags::ENDS_MULTI)) {
            return Admitted::Queue(known);
        }
        Admitted::Run(known)
    }

    /// Returns why a command is refused in the server's present state (memory, replica, slow script), if it
    /// is.
    pub(super) fn refused_for_now(&self, known: KnownCommand) -> Option<&'static str> {
        let needs_memory = || {
            known.flags.has(Flags::DENYOOM)
                // Queueing a command needs memory, whatever the command does.
                || self.session.multi.is_some() && !known.flags.has(Flags::ENDS_MULTI)
                || known.name == "exec" && self.has_queued(|known, _| known.flags.has(Flags::DENYOOM))
        };
        if self.session.out_of_memory && needs_memory() {
            return Some(OUT_OF_MEMORY);
        }
        if let Some(why) = self.refused_as_replica(known) {
            return Some(why);
        }
        if self.server.scripts.is_busy() && !known.flags.has(Flags::ALLOW_BUSY) {
            return Some(self.server.scripts.busy_error());
        }
        None
    }

    /// Returns whether a command may change data or would be replicated. For a script or function that
    /// declares `no-writes`, returns false. A command that may change data waits while writes are paused.
    pub(super) fn may_change(&self, known: KnownCommand, words: &Args<'_>) -> bool {
        let declares_not_to = || {
            let declared = match known.name {
                "eval" => ScriptFlags::of_text(words[1]),
                "evalsha" => {
                    let sha = words[1].to_ascii_lowercase().try_into().ok();
                    sha.and_then(|sha| self.server.scripts.get(&sha)).map(|script| script.declared)
                }
                "fcall" => {
                    let loaded = self.server.libraries.loaded();
                    loaded.function(words[1]).map(|(_, function)| function.declared)
                }
                _ => None,
            };
            declared.is_some_and(|declared| declared.has(ScriptFlags::NO_WRITES))
        };
        known.flags.has(Flags::WRITE.and(Flags::MAY_REPLICATE)) && !declares_not_to()
            || known.name == "exec" && self.has_queued(|known, words| self.may_change(known, words))
    }

    /// Returns whether `is_one` holds for a command that is queued for `EXEC`.
    pub(super) fn has_queued(&self, is_one: impl Fn(KnownCommand, &Args<'_>) -> bool) -> bool {
        let is_one = |words: &Vec<Vec<u8>>| {
            let words: Words<'_> = words.iter().map(Vec::as_slice).collect();
            resolve(&words).is_ok_and(|known| is_one(known, &words))
        };
        self.session.multi.as_ref().is_some_and(|multi| multi.queue.iter().any(is_one))
    }

    /// Writes an error reply, and counts the error.
    pub(super) fn error(&mut self, text: &str) {
        self.server.count_error(text.split(' ').next().unwrap_or_default());
        self.output.reply.error(text);
    }

    /// Answers a refused request with an error. If the client is in a transaction, `EXEC` will fail.
    pub(super) fn refuse(&mut self, refused: &RefusedRequest) {
        if let Some(multi) = &mut self.session.multi {
            multi.refused = true;
        }
        if let Some(number) = refused.number {
            self.server.counts(self.thread, number).reject();
        }
        self.error(&refused.error);
    }

    pub(super) fn queue(&mut self, words: &Args<'_>) {
        let multi = self.session.multi.get_or_insert_default();
        multi.queue.push(owned(words));
        multi.bytes += words.iter().map(|word| word.len()).sum::<usize>();
        self.output.reply.simple("QUEUED");
    }
}
