//! Accepts and disconnects clients.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use mio::{Interest, Token};
use rustix::io::Errno;

use super::{CLIENTS, WorkerState};
use crate::clients::Profile;
use crate::clients::client::Session;
use crate::connections::mailbox::Message;
use crate::connections::stream::Stream;
use crate::net::connection::Connection;
use crate::resp::Reply;

/// The error that a client gets if there are `maxclients` clients already, or too many files are open.
const TOO_MANY_CLIENTS: &str = "ERR max number of clients reached";

/// The system's error code if this process has as many files open as it may.
const TOO_MANY_FILES: i32 = Errno::MFILE.raw_os_error();

impl WorkerState<'_> {
    pub(super) fn accept(&mut self, listener: usize) {
        loop {
            self.spare = self.spare.take().or_else(|| File::open("/dev/null").ok());
            let mut accepted = self.listeners[listener].accept();
            // If the process has too many open files, closing the spare descriptor lets it accept one more
            // client, which gets an error. If no client waits, the second attempt fails with `WouldBlock`.
            let is_full = matches!(&accepted, Err(error) if error.raw_os_error() == Some(TOO_MANY_FILES));
            if is_full && self.spare.take().is_some() {
                accepted = self.listeners[listener].accept();
            }
            match accepted {
                Ok(stream) if is_full => self.refuse(stream, TOO_MANY_CLIENTS),
                Ok(stream) => {
                    let thread = self.next_thread;
                    self.next_thread = (thread + 1) % self.server.threads.len();
                    if thread == self.number {
                        self.connect(stream);
                    } else {
                        self.server.threads[thread].post(Message::Connected(stream));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.deaf.remove(&listener);
                    return;
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                // The system may be short of memory, for example. No event reports that it can accept again,
                // so the tick tries it.
                Err(error) => {
                    if self.deaf.insert(listener) {
                        tracing::warn!(
                            "new clients must wait: {error}; if too many files are open, raise the limit \
                             (`ulimit -n`, or LimitNOFILE of systemd)"
                        );
                    }
                    return;
                }
            }
        }
    }

    /// Tries to send a client the reason why it is refused, and closes the connection.
    fn refuse(&self, mut stream: Stream, why: &str) {
        self.server.stats.rejected.fetch_add(1, Relaxed);
        tracing::debug!("{stream} was refused: {why}");
        let mut reply = Reply::new(false);
        reply.error(why);
        let _ = io::Write::write(&mut stream, &reply.take());
    }

    pub(super) fn connect(&mut self, mut stream: Stream) {
        let config = self.server.config.read();
        let has_password = !config.text("requirepass").is_empty();
        if config.is("protected-mode") && !has_password && !stream.is_local() {
            return self.refuse(
                stream,
                "DENIED this server is in protected mode: it answers clients of other machines only if `requirepass` is set, or `protected-mode` is `no`",
            );
        }
        if self.server.clients.count() >= config.int("maxclients") as usize {
            return self.refuse(stream, TOO_MANY_CLIENTS);
        }
        stream.prepare(config.int("tcp-keepalive") as u64);
        drop(config);
        let id = self.server.client_id();
        let token = Token(CLIENTS + id as usize);
        let interests = Interest::READABLE | Interest::WRITABLE | Interest::PRIORITY;
        if self.poll.registry().register(&mut stream, token, interests).is_err() {
            return;
        }
        self.server.stats.connections.fetch_add(1, Relaxed);
        let profile = Arc::new(Profile {
            id,
            thread: self.number,
            addresses: stream.addresses(),
            descriptor: stream.descriptor(),
            is_unix: stream.is_unix(),
            ..Profile::nobody()
        });
        self.server.clients.add(profile.clone());
        let connection = Connection::new(stream, Session::new(profile, !has_password));
        self.connections.insert(id, Box::new(connection));
        self.ready.insert(id);
    }

    pub(super) fn disconnect(&mut self, mut connection: Box<Connection>) {
        let client = connection.session.id;
        if connection.is_over {
            if connection.needs_all(&self.server.options) {
                self.server.stats.evicted_clients.fetch_add(1, Relaxed);
            }
            tracing::warn!(
                "{} was disconnected, because it needs too much memory: {} bytes of requests and {} bytes of \
                 replies; see client-query-buffer-limit, client-output-buffer-limit and maxmemory-clients",
                connection.stream,
                connection.input.pending(),
                connection.output.len(),
            );
        }
        self.ready.swap_remove(&client);
        self.not_durable.swap_remove(&client);
        self.missed.remove(&client);
        if let Some(blocked) = connection.blocked.take() {
            self.unblock(client, &blocked);
        }
        let Connection { session, stream, .. } = &mut *connection;
        self.server.unwatch(session);
        self.server.listen_to_nothing(session);
        self.server.tracking.disable(session);
        // An error is ignored: closing the descriptor deregisters it, too.
        let _ = self.poll.registry().deregister(stream);
        self.server.clients.remove(client);
        if session.monitors {
            self.server.remove_monitor(client);
        }
        if self.paused.remove(&client) {
            self.server.stats.blocked.fetch_sub(1, Relaxed);
        }
    }
}
