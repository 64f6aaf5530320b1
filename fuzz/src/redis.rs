//! Functions that the targets of pheap-redis share: a server without connections, its clients, and their
//! requests.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use parking_lot::Mutex;
use pheap::Options;
use pheap_redis::clients::{Profile, State};
use pheap_redis::config::Config;
use pheap_redis::data::Store;
use pheap_redis::net::Worker;
use pheap_redis::server::Server;

/// Returns a server with a heap in memory. `settings` has options of its configuration, with their values.
pub fn server(shards: u32, settings: &[(&str, &str)]) -> Server {
    let mut config = Config::default();
    for (option, value) in settings {
        config.set(option, value).expect("there is such an option");
    }
    let options = Options::new().arena_size(256 << 10).reserve(1 << 28).collect_threads(1);
    let heap = options.in_memory().expect("there is memory");
    let store = Store::in_heap(heap, shards).expect("there is memory");
    let worker = Worker::new().expect("the system can do that");
    Server::new(store, config, vec![worker.mailbox()], pheap_redis::command::all_commands().count())
}

/// Returns the profile of a client that has just connected.
pub fn profile(server: &Server) -> Arc<Profile> {
    let now = Instant::now();
    Arc::new(Profile {
        id: server.client_id(),
        thread: 0,
        addresses: ["127.0.0.1:1".into(), "127.0.0.1:2".into()],
        descriptor: 0,
        is_unix: false,
        since: now,
        is_blocked: AtomicBool::new(false),
        redirect_is_broken: AtomicBool::new(false),
        state: Mutex::new(State::new(now)),
    })
}

/// Returns a request in the form in which clients send it: an array of strings.
pub fn encoded(words: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", words.len()).into_bytes();
    for word in words.iter().map(AsRef::as_ref) {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
    out
}
