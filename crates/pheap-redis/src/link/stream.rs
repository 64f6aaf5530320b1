//! Applies the stream of a master's commands. Each part of the stream runs as one transaction, which also
//! records the position.
//!
//! The server reports its position to the master about once a second, and when the master asks for it. With
//! `appendfsync always` it reports the durable position, else the applied one.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use pheap::Commit;

use super::LinkLost;
use super::wire::Wire;
use crate::clients::Profile;
use crate::clients::client::Session;
use crate::clients::unsynced::Counted;
use crate::clients::waiting::Wakeup;
use crate::command::{Effects, Meanwhile};
use crate::config::Master;
use crate::connections::mailbox::{Mailbox, Message, Parcel};
use crate::data::Position;
use crate::execute::{Execution, Note, Output};
use crate::resp::Reply;
use crate::resp::input::Input;
use crate::resp::request::RequestLimits;
use crate::server::Server;
use crate::server::role::Stage;

/// The least room for the bytes of one read.
const CHUNK: usize = 64 << 10;

/// The numbers of commands, and of bytes of them, at which a transaction gets no more commands. The last one
/// may exceed the bytes, and a transaction of the master may exceed both.
const PART: (usize, usize) = (1000, 1 << 20);

/// The interval at which this server reports its position.
const TELL: Duration = Duration::from_secs(1);

/// Applies the commands of a master.
pub(super) struct Follower<'s> {
    server: &'s Server,
    generation: u64,
    session: Session,
    position: Option<Position>,
    waker: Waker,
    /// The results of transactions whose commits may not be durable yet, in order.
    pending: VecDeque<Pending>,
    /// The offset up to which the stream is durable, or was applied if it need not be durable.
    durable_offset: u64,
}

struct Pending {
    commits: Vec<Commit>,
    /// Writes that are counted as unsynced until the commits are durable.
    counted: Counted,
    messages: Vec<(u64, Parcel)>,
    offset: u64,
}

/// Commands that have come and were not applied.
struct UnappliedCommands {
    commands: Vec<Vec<Vec<u8>>>,
    bytes: usize,
    /// The offset up to which the stream was read.
    read: u64,
    /// The start of a transaction whose end has not come: its index in `commands`, and the offset before it.
    multi: Option<(usize, u64)>,
    /// The offset at which the master has asked for a report of the position.
    asked: Option<u64>,
}

/// Serves no clients during a slow script, because the thread of the link has none.
struct NoClients;

impl Meanwhile for NoClients {
    fn serve_others(&mut self) {}
}

impl Drop for Follower<'_> {
    fn drop(&mut self) {
        // An error is ignored: if the disk has failed, later transactions report it.
        let _ = self.wait_durable();
    }
}

impl<'s> Follower<'s> {
    pub(super) fn new(
        server: &'s Server,
        generation: u64,
        master: &Master,
        mailbox: Arc<Mailbox>,
    ) -> Result<Follower<'s>, LinkLost> {
        let position = server.store.progress()?.position;
        let addresses = [format!("{}:{}", master.host, master.port), String::new()];
        let profile = Profile { thread: server.threads.len(), addresses, ..Profile::nobody() };
        let mut session = Session::new(Arc::new(profile), true);
        session.is_master = true;
        session.db = position.as_ref().map_or(0, |position| position.db);
        let durable_offset = position.as_ref().map_or(0, |position| position.offset);
        let (waker, pending) = (Waker::from(mailbox), VecDeque::new());
        Ok(Follower { server, generation, session, position, waker, pending, durable_offset })
    }

    pub(super) fn server(&self) -> &'s Server {
        self.server
    }

    /// Returns the position up to which the heap has the commands.
    pub(super) fn position(&self) -> Option<&Position> {
        self.position.as_ref()
    }

    /// Continues the stream at the present position, with a new replication ID if the master has sent one.
    pub(super) fn resume(&mut self, id: Option<String>) -> Result<(), LinkLost> {
        match (&self.position, id) {
            (Some(position), Some(id)) if position.id != id => {
                let position = Position { id, ..position.clone() };
                self.run(&[], Note::Position(position))
            }
            _ => Ok(()),
        }
    }

    /// Runs commands as one transaction, which also records `note`.
    pub(super) fn run(&mut self, commands: &[Vec<Vec<u8>>], note: Note) -> Result<(), LinkLost> {
        let (server, thread) = (self.server, self.server.threads.len());
        let (mut reply, mut effects) = (Reply::new(false), Effects::default());
        let (mut commits, mut counted) = (Vec::new(), Vec::new());
        let output =
            Output { reply: &mut reply, effects: &mut effects, commits: &mut commits, counted: &mut counted };
        if matches!(note, Note::Begin) {
            self.session.db = 0;
        }
        let (session, clock) = (&mut self.session, Instant::now());
        let mut execution = Execution { server, session, output, thread, clock, meanwhile: &mut NoClients };
        let followed = execution.run_master_stream(commands, &note, self.generation);
        if followed.is_err() {
            // The writes of a failed transaction never become durable, so they are uncounted.
            server.unsynced.uncount(&mut counted);
        }
        for refused in followed? {
            tracing::warn!(
                "a command of the master was refused, so the data may differ from the master's: {refused}"
            );
        }
        self.position = match note {
            Note::Position(position) | Note::Complete(position) => {
                Some(Position { db: self.session.db, ..position })
            }
            Note::Begin | Note::Nothing => None,
        };
        server.stats.dirty.fetch_add(effects.dirty, Relaxed);
        if server.options.always.load(Relaxed) {
            commits.retain(|commit| !commit.is_durable());
        } else {
            commits.clear();
        }
        let messages = effects.take_parcels(server, 0);
        let offset = self.position.as_ref().map_or(0, |position| position.offset);
        self.pending.push_back(Pending { commits, counted, messages, offset });
        if let ([first, ..], false) = (&server.threads[..], effects.signals.is_empty()) {
            first.post(Message::Wake(Wakeup {
                signals: effects.signals.into_iter().collect(),
                ..Wakeup::default()
            }));
        }
        let mut link = server.role.link();
        if server.role.generation() == self.generation {
            link.position.clone_from(&self.position);
        }
        drop(link);
        self.send_durable_messages()
    }

    /// Posts the messages whose commits are durable, in order, and uncounts the writes of these commits.
    fn send_durable_messages(&mut self) -> Result<(), LinkLost> {
        let mut context = Context::from_waker(&self.waker);
        while let Some(first) = self.pending.front_mut() {
            while let Some(commit) = first.commits.last_mut() {
                match Pin::new(commit).poll(&mut context) {
                    Poll::Pending => return Ok(()),
                    Poll::Ready(result) => result?,
                }
                first.commits.pop();
            }
            self.server.unsynced.uncount(&mut first.counted);
            self.durable_offset = first.offset;
            let messages = std::mem::take(&mut first.messages);
            self.pending.pop_front();
            for (client, parcel) in messages {
                for thread in &self.server.threads {
                    thread.post(Message::Send(client, parcel.clone()));
                }
            }
        }
        Ok(())
    }

    /// Applies the stream, until the link is lost.
    pub(super) fn stream(mut self, wire: &mut Wire<'_>) -> Result<Infallible, LinkLost> {
        self.server.role.set_stage(Stage::Connected, self.generation, |link| {
            link.error = None;
            link.down = None;
            link.heard = Some(Instant::now());
        });
        let result = self.receive(wire);
        self.wait_durable()?;
        result
    }

    /// Waits for all commits in `pending`. Even if the link is lost, clients wait for messages about these
    /// commits, and reads wait for the written keys.
    fn wait_durable(&mut self) -> Result<(), LinkLost> {
        // The entries stay in `pending` until all are durable. If the disk has failed, no later call sends
        // their messages.
        self.pending.iter().flat_map(|pending| &pending.commits).try_for_each(Commit::wait)?;
        self.send_durable_messages()
    }

    fn receive(&mut self, wire: &mut Wire<'_>) -> Result<Infallible, LinkLost> {
        let mut input = Input::default();
        input.room(0).0.append(&mut wire.rest());
        let read = self.position.as_ref().map_or(0, |position| position.offset);
        let mut part = UnappliedCommands { commands: Vec::new(), bytes: 0, read, multi: None, asked: None };
        let mut tell_at = Instant::now();
        loop {
            self.apply_input(&mut input, &mut part)?;
            self.send_durable_messages()?;
            let is_asked = part.asked.is_some_and(|asked| self.durable_offset >= asked);
            if (is_asked || Instant::now() >= tell_at) && wire.is_flushed() {
                wire.send(&[b"REPLCONF", b"ACK", self.durable_offset.to_string().as_bytes()])?;
                tell_at = Instant::now() + TELL;
                part.asked = part.asked.filter(|_| !is_asked);
            }
            input.tidy();
            let (buffer, room) = input.room(CHUNK);
            if wire.receive(buffer, room)? == 0 {
                wire.wait(tell_at.max(Instant::now() + Duration::from_millis(1)))?;
            }
        }
    }

    /// Takes complete commands from the input, and runs them.
    fn apply_input(&mut self, input: &mut Input, part: &mut UnappliedCommands) -> Result<(), LinkLost> {
        // The limits of clients do not apply to a master.
        let limits = RequestLimits { bulk: i64::MAX.cast_unsigned(), authenticated: true };
        while input.is_ready(limits).map_err(|malformed| LinkLost::Nonsense(malformed.to_string()))? {
            let (start, before) = (input.start(), part.read);
            let words: Vec<Vec<u8>> = input.words().iter().map(|word| word.to_vec()).collect();
            input.consume();
            part.read += (input.start() - start) as u64;
            let Some(name) = words.first() else { continue };
            let is = |name: &[u8], other: &str| name.eq_ignore_ascii_case(other.as_bytes());
            if is(name, "multi") {
                part.multi = Some((part.commands.len(), before));
            } else if is(name, "exec") {
                part.multi = None;
            } else if is(name, "replconf") && words.get(1).is_some_and(|what| is(what, "getack")) {
                part.asked = Some(part.read);
            }
            part.bytes += input.start() - start;
            part.commands.push(words);
            if part.multi.is_none() && (part.commands.len() >= PART.0 || part.bytes >= PART.1) {
                self.run_part(part)?;
            }
        }
        self.run_part(part)
    }

    /// Runs the commands that have come, except those of a transaction whose end has not come. Does nothing
    /// if there is no position, or if the position would not move.
    fn run_part(&mut self, part: &mut UnappliedCommands) -> Result<(), LinkLost> {
        let (len, offset) = part.multi.unwrap_or((part.commands.len(), part.read));
        let Some(before) = self.position.clone().filter(|position| position.offset < offset) else {
            return Ok(());
        };
        let rest = part.commands.split_off(len);
        let commands = std::mem::replace(&mut part.commands, rest);
        part.multi = part.multi.map(|(_, offset)| (0, offset));
        part.bytes = if part.multi.is_some() { part.bytes } else { 0 };
        self.server.role.set_stage(Stage::Connected, self.generation, |link| {
            link.read = part.read;
            link.heard = Some(Instant::now());
        });
        self.run(&commands, Note::Position(Position { offset, ..before }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::data::{Settings, Store};

    fn server(folder: &tempfile::TempDir) -> Server {
        let store = Store::open(&folder.path().join("heap"), Settings::QUIET_LOG, 1).unwrap();
        Server::new(store, Config::default(), Vec::new(), crate::command::all_commands().count())
    }

    fn follower(server: &Server) -> Follower<'_> {
        let poll = mio::Poll::new().unwrap();
        let mailbox = Arc::new(Mailbox::new(poll.registry(), mio::Token(0)).unwrap());
        let master = Master { host: "master".into(), port: 1 };
        Follower::new(server, server.role.generation(), &master, mailbox).unwrap()
    }

    fn words(text: &str) -> Vec<Vec<u8>> {
        text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
    }

    /// If the writes stayed counted when the link is lost, reads of their keys would wait for the disk
    /// forever.
    #[test]
    fn what_was_counted_is_uncounted_when_the_link_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        let server = server(&folder);
        let mut one = follower(&server);
        one.run(&[words("set a 1"), words("flushall")], Note::Nothing).unwrap();
        drop(one);
        assert!(!server.unsynced.is_unsynced(b"a") && !server.unsynced.is_unsynced(b"b"));
        // A failed transaction counts no write.
        let mut one = follower(&server);
        assert!(one.run(&[words("flushall"), words("select 99")], Note::Nothing).is_err());
        assert!(!server.unsynced.is_unsynced(b"a"));
    }

    #[test]
    fn what_never_becomes_durable_is_not_told() {
        let folder = tempfile::tempdir().unwrap();
        let server = server(&folder);
        let mut one = follower(&server);
        // The next sync finds that the files of the heap are gone, except within a millisecond of the last
        // check. The command comes after that, so no sync before has made it durable.
        folder.close().unwrap();
        std::thread::sleep(Duration::from_millis(2));
        one.run(&[words("set a 1")], Note::Nothing).unwrap();
        for _ in 0..2 {
            assert!(one.wait_durable().is_err() && one.pending.len() == 1);
        }
        drop(one);
        assert!(server.unsynced.is_unsynced(b"a"));
    }
}
