//! Runs commands of pheap-redis: almost all commands of its table, in any order and with any arguments.
//!
//! Nothing may panic. The library `redis-protocol` must be able to read all replies, in the client's version
//! of the protocol. Most commands must have one reply each. In the end, the heap must be sound. `program.rs`
//! defines programs, and this file runs them.

#![no_main]

use std::time::Instant;

use libfuzzer_sys::fuzz_target;
use pheap_fuzz::assert_sound;
use pheap_fuzz::redis::{encoded, profile, server};
use pheap_redis::clients::client::{Replies, Session};
use pheap_redis::command::{Block, Effects, Meanwhile};
use pheap_redis::execute::expire::Expiry;
use pheap_redis::execute::{Execution, Output, Stop};
use pheap_redis::resp::Reply;
use pheap_redis::resp::input::Input;
use pheap_redis::server::Server;
use redis_protocol::{resp2, resp3};

mod program;

use program::{Program, Step};

/// A small number, so that a heap is made quickly.
const SHARDS: u32 = 3;

fuzz_target!(|program: Program| run(&program));

fn run(program: &Program) {
    let server = server(SHARDS, &[("proto-max-bulk-len", "1mb"), ("notify-keyspace-events", "KEA")]);
    let mut clients = [Client::new(&server), Client::new(&server)];
    for step in program.steps.iter().take(50) {
        clients[usize::from(step.client) % 2].run(&server, step);
    }
    if program.expires {
        let _ = Expiry::default().run(&server, Instant::now(), &mut Effects::default(), &mut Vec::new());
    }
    let heap = server.store.heap();
    assert_sound(heap);
    if program.collects {
        heap.collect().expect("it can be collected");
        assert_sound(heap);
    }
}

/// Serves no other clients while a script runs.
struct Nobody;

impl Meanwhile for Nobody {
    fn serve_others(&mut self) {}
}

struct Client {
    session: Session,
    input: Input,
    reply: Reply,
}

impl Client {
    fn new(server: &Server) -> Client {
        let profile = profile(server);
        server.clients.add(profile.clone());
        let mut reply = Reply::new(false);
        reply.set_limit(1 << 20);
        Client { session: Session::new(profile, true), input: Input::default(), reply }
    }

    /// Runs the commands of a step, 8 at most. The client sends them at once.
    fn run(&mut self, server: &Server, step: &Step) {
        let (mut count, mut is_countable) = (0, true);
        for command in step.commands.iter().take(8) {
            let Some(words) = command.words() else { continue };
            let name = words[0].to_ascii_lowercase();
            // The replies to a step are not counted if one of its commands may have another number of replies
            // than one, or may call such a command.
            is_countable &= !name.ends_with(b"subscribe")
                && ![
                    &b"client"[..],
                    b"publish",
                    b"spublish",
                    b"monitor",
                    b"eval",
                    b"exec",
                    b"hello",
                    b"reset",
                ]
                .contains(&&name[..]);
            let (buffer, _) = self.input.room(0);
            buffer.extend_from_slice(&encoded(&words));
            count += 1;
        }
        is_countable &=
            self.session.tracking.is_none() && self.session.subscriptions() == 0 && !self.session.monitors;
        is_countable &= self.session.replies == Replies::On;
        let mut waits = None;
        let mut replies = 0;
        loop {
            let (mut effects, mut commits, mut counted) = (Effects::default(), Vec::new(), Vec::new());
            let was_resp3 = self.session.resp3;
            let output = Output {
                reply: &mut self.reply,
                effects: &mut effects,
                commits: &mut commits,
                counted: &mut counted,
            };
            let (session, clock, meanwhile) = (&mut self.session, Instant::now(), &mut Nobody);
            let mut execution = Execution { server, session, output, thread: 0, clock, meanwhile };
            let stop = match waits.take() {
                None => execution.run(&mut self.input),
                Some((block, words)) => {
                    let (block, words): (Block, Vec<Vec<u8>>) = (block, words);
                    let words = block.with_key(&words, block.keys.start);
                    if !matches!(execution.retry(&words), Ok(None)) {
                        is_countable = false;
                    }
                    Stop::Signals
                }
            };
            self.session.publish();
            let messages = effects.parcels(server, self.session.id);
            drop(messages);
            let bytes = self.reply.take();
            replies += well_formed(&bytes, was_resp3 || self.session.resp3);
            server.tracking.forget(&server.clients);
            match stop {
                Stop::Signals => {}
                Stop::Blocked(block, words) => {
                    assert!(!block.keys.is_empty(), "it waits for nothing");
                    let words = block.instead.clone().unwrap_or(words);
                    waits = Some((block, words));
                }
                Stop::Paused => server.pause(None),
                Stop::Nothing => break,
                Stop::TooLong | Stop::Closing => return self.leave(server),
            }
        }
        assert!(!is_countable || replies == count, "{count} commands, {replies} replies");
    }

    fn leave(&mut self, server: &Server) {
        server.unwatch(&mut self.session);
        server.listen_to_nothing(&mut self.session);
        server.tracking.disable(&mut self.session);
        server.clients.remove(self.session.id);
        server.remove_monitor(self.session.id);
        *self = Client::new(server);
    }
}

/// Returns the number of replies. All bytes must belong to replies.
fn well_formed(bytes: &[u8], is_resp3: bool) -> usize {
    let (mut rest, mut count) = (bytes, 0);
    while !rest.is_empty() {
        let shown = || String::from_utf8_lossy(&rest[..rest.len().min(500)]).into_owned();
        let len = if is_resp3 {
            resp3::decode::complete::decode(rest).map(|parsed| parsed.map(|(_, len)| len))
        } else {
            resp2::decode::decode(rest).map(|parsed| parsed.map(|(_, len)| len))
        };
        let len = len.unwrap_or_else(|error| panic!("{error}: {:?}", shown()));
        let len = len.unwrap_or_else(|| panic!("no reply: {:?}", shown()));
        rest = &rest[len..];
        count += 1;
    }
    count
}
