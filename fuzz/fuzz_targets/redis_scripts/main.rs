//! Runs scripts of pheap-redis: any text, and programs that call almost all functions of the script
//! environment with odd arguments.
//!
//! Nothing may panic, and each script must have one reply. Lua is written in C. The address sanitizer also
//! checks Lua, if the target is built with `CFLAGS_x86_64_unknown_linux_gnu=-fsanitize=address`. (`CFLAGS`
//! would also apply to LuaJIT's tools, which are linked without the sanitizer.) `program.rs` makes scripts,
//! and this file runs them.

#![no_main]

use std::cell::RefCell;
use std::time::Instant;

use libfuzzer_sys::fuzz_target;
use pheap_fuzz::redis::{encoded, profile, server};
use pheap_redis::clients::client::Session;
use pheap_redis::command::{Effects, Meanwhile};
use pheap_redis::execute::{Execution, Output};
use pheap_redis::resp::Reply;
use pheap_redis::resp::input::Input;
use pheap_redis::server::Server;
use redis_protocol::resp2;
use redis_protocol::resp2::types::{OwnedFrame, Resp2Frame};

mod program;

use program::Script;

/// Number of scripts after which `SCRIPT FLUSH` removes all scripts, so that Lua starts anew.
const FLUSH: u64 = 200;

thread_local! {
    static CLIENT: RefCell<Client> = RefCell::new(Client::new());
}

fuzz_target!(|script: Script| CLIENT.with_borrow_mut(|client| client.run(&script)));

struct Client {
    server: &'static Server,
    session: Session,
    names: Vec<String>,
    runs: u64,
}

/// Kills slow scripts.
struct Killer(&'static Server);

impl Meanwhile for Killer {
    fn serve_others(&mut self) {
        // These scripts only read, so they can be killed.
        let _ = self.0.scripts.kill(true);
    }
}

impl Client {
    fn new() -> Client {
        pheap_fuzz::tell_sanitizer();
        let server = Box::leak(Box::new(server(1, &[("busy-reply-threshold", "20")])));
        let session = Session::new(profile(server), true);
        let mut client = Client { server, session, names: Vec::new(), runs: 0 };
        let names = client.ask(&[b"eval", program::NAMES, b"0"]);
        let OwnedFrame::Array(names) = names else { panic!("no names: {names:?}") };
        let text = |name: &OwnedFrame| name.as_str().expect("it is a name").to_owned();
        client.names = names.iter().map(text).collect();
        assert!(client.names.len() > 80, "{:?}", client.names);
        client
    }

    fn run(&mut self, script: &Script) {
        let reply = self.ask(&[b"eval_ro", &script.text(&self.names), b"1", b"key", b"argument"]);
        if let (Script::Program(..), OwnedFrame::Error(error)) = (script, &reply) {
            assert!(!error.contains("Error compiling") || error.contains("too many"), "{error}");
        }
        self.runs += 1;
        if self.runs.is_multiple_of(FLUSH) {
            self.ask(&[b"script", b"flush"]);
        }
    }

    /// Runs a command. Returns its reply.
    fn ask(&mut self, words: &[&[u8]]) -> OwnedFrame {
        let mut input = Input::default();
        let (buffer, _) = input.room(0);
        buffer.extend_from_slice(&encoded(words));
        let (mut effects, mut commits, mut counted) = (Effects::default(), Vec::new(), Vec::new());
        let mut reply = Reply::new(false);
        let output =
            Output { reply: &mut reply, effects: &mut effects, commits: &mut commits, counted: &mut counted };
        let (server, session, meanwhile) = (self.server, &mut self.session, &mut Killer(self.server));
        Execution { server, session, output, thread: 0, clock: Instant::now(), meanwhile }.run(&mut input);
        let mut bytes = reply.take();
        // The decoder requires UTF-8 in lines. An error may repeat other bytes of a script.
        bytes.iter_mut().filter(|byte| !byte.is_ascii()).for_each(|byte| *byte = b'?');
        let decoded = resp2::decode::decode(&bytes);
        let (frame, len) = decoded.expect("it is a reply").expect("there is a reply");
        assert_eq!(len, bytes.len(), "more than one reply");
        frame
    }
}
