//! For tests of replication: random commands, descriptions of contents, and a fake master.

#![allow(dead_code)] // each test uses a part of it

pub(crate) mod fake;
pub(crate) mod shown;
pub(crate) mod work;

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::Client;

/// Waits until `is_so`. Panics after 100 seconds.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(100), "waited in vain until {what}");
        sleep(Duration::from_millis(5));
    }
}

/// Returns a field of `INFO`.
pub(crate) fn info(client: &mut Client, section: &str, field: &str) -> String {
    let text = client.ask(&format!("info {section}"));
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{field}:")));
    line.unwrap_or_else(|| panic!("no {field} in {text}")).trim_end().to_owned()
}

pub(crate) fn is_up(replica: &mut Client) -> bool {
    info(replica, "replication", "master_link_status") == "up"
}

/// Waits until the link is up and the replica has the master's offset. The master executes one more command.
pub(crate) fn catch_up(master: &mut Client, replica: &mut Client) {
    master.ask("incr mark-of-the-test");
    until("the replica has caught up", || {
        is_up(replica)
            && info(replica, "replication", "slave_repl_offset")
                == info(master, "replication", "master_repl_offset")
    });
}
