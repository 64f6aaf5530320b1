//! Replication. This server can follow a master (`REPLICAOF`, `ROLE`), but cannot have replicas.

use std::sync::atomic::Ordering::SeqCst;

use super::args::int;
use super::table::{ADMIN, LOOK};
use super::{Args, Command, Cx, Done, Fail, Flags, Keys, answer, ok};
use crate::clients::Filter;
use crate::config::Master;
use crate::connections::mailbox::Message;
use crate::data::Progress;
use crate::resp::Reply;
use crate::server::Server;
use crate::server::role::Stage;
use crate::text::words::lossy;

/// Flags of `REPLICAOF`. It may not be in a transaction: the link to the master is outside the heap and
/// cannot be rolled back.
const FOLLOW: Flags =
    Flags::ADMIN.and(Flags::NOSCRIPT).and(Flags::STALE).and(Flags::NO_MULTI).and(Flags::NO_ASYNC_LOADING);
const TELL: Flags = LOOK.and(Flags::NOSCRIPT).and(Flags::FAST);
const SYNC: Flags = Flags::ADMIN.and(Flags::NOSCRIPT).and(Flags::NO_MULTI).and(Flags::NO_ASYNC_LOADING);
const CONFIGURE: Flags = ADMIN.and(Flags::ALLOW_BUSY);

pub(super) const COMMANDS: &[Command] = &[
    Command::new("psync", -3, SYNC, Keys::None, no_replicas),
    Command::new("replconf", -1, CONFIGURE, Keys::None, no_replicas),
    Command::new("replicaof", 3, FOLLOW, Keys::Heap, replicaof),
    Command::new("role", 1, TELL, Keys::None, role),
    Command::new("slaveof", 3, FOLLOW, Keys::Heap, replicaof),
    Command::new("sync", 1, SYNC, Keys::None, no_replicas),
];

fn no_replicas(cx: &mut Cx<'_>, _: &Args<'_>, _: &mut Reply) -> Done {
    if cx.session.is_master {
        return Ok(()); // The link answers the requests of a master.
    }
    // On this error, a replica of Redis waits before it tries to synchronise again. On most other errors it
    // would try again at once.
    Err(Fail::Error("NOMASTERLINK pheap-redis cannot have replicas; it can be one (REPLICAOF)".into()))
}

fn replicaof(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    Fail::err_when(cx.session.is_master, "a replica does not take REPLICAOF from its master")?;
    let server = cx.server;
    let is_nobody = args[1].eq_ignore_ascii_case(b"no") && args[2].eq_ignore_ascii_case(b"one");
    let master = if is_nobody {
        None
    } else {
        let port = int(args[2])?;
        let port = u16::try_from(port).map_err(|_| Fail::err("Invalid master port"))?;
        Some(Master { host: lossy(args[1]).into_owned(), port })
    };
    let before = server.role.link().master.clone();
    match (&master, &before) {
        (None, None) => {
            return ok(out);
        }
        (Some(new), Some(old)) if new.host.eq_ignore_ascii_case(&old.host) && new.port == old.port => {
            return answer::simple(out, "OK Already connected to specified master");
        }
        _ => {}
    }
    let mut progress = Progress::default();
    cx.write_shard(cx.store().shards().len() + 1, |tx, dbs| {
        let db = dbs.at(tx, 0);
        let before_it = Progress::read(tx, &tx[db]);
        progress = match &master {
            // The new master may have the same history, if it was a replica, so the position is kept.
            Some(_) => Progress { left: None, ..before_it },
            // From now on, the data may differ from those of any master, so the position is removed.
            None => Progress { left: before.as_ref().map(Master::to_string), ..Progress::default() },
        };
        progress.write(tx, db)
    })?;
    let text = master.as_ref().map(Master::to_string).unwrap_or_default();
    server.config.write().set("replicaof", &text).map_err(Fail::err)?;
    server.gates.enable();
    server.role.set_master(master, progress.position);
    if before.is_none() {
        // The waits of blocked clients end with an error, because a read-only replica refuses the writes for
        // which they wait.
        for client in server.clients.matching(&Filter::default()) {
            if client.is_blocked.load(SeqCst) {
                server.threads[client.thread].post(Message::Unblock { client: client.id, with_error: true });
            }
        }
    }
    ok(out)
}

/// Starts to follow the master in the options, unless the heap says that this master was left (`REPLICAOF NO
/// ONE`). In that case, the server stays promoted until the command `REPLICAOF` is given: otherwise, a
/// restart would replace the writes since then by the old master's data.
///
/// # Errors
/// If the heap cannot be read or changed.
pub fn begin_replication(server: &Server) -> pheap::Result<()> {
    let before = server.store.progress()?;
    let option = server.config.read().text("replicaof").to_owned();
    // Parsing fails only if the option is empty, because it was checked when it was set.
    let master = option.parse::<Master>().ok().filter(|_| before.left.as_ref() != Some(&option));
    if let Some(master) = master {
        server.gates.enable();
        server.role.set_master(Some(master), before.position);
        return Ok(());
    }
    if !option.is_empty() {
        tracing::warn!(
            "`replicaof {option}` does nothing, because this server was promoted (REPLICAOF NO ONE); give \
             the command REPLICAOF {option} to follow that master again"
        );
        let _ = server.config.write().set("replicaof", "");
    }
    if before.position.is_some() {
        // Clients may write from now on, so the data may differ from those of any master, and the position is
        // removed.
        server.store.set_progress(&Progress { position: None, ..before })?;
    }
    Ok(())
}

fn role(cx: &mut Cx<'_>, _: &Args<'_>, out: &mut Reply) -> Done {
    let link = cx.server.role.link();
    let offset = link.position.as_ref().map(|position| position.offset);
    let Some(master) = &link.master else {
        out.array(3);
        out.bulk(b"master");
        out.int(0);
        return answer::empty(out);
    };
    out.array(5);
    out.bulk(b"slave");
    out.bulk(master.host.as_bytes());
    out.int(i64::from(master.port));
    out.bulk(link.stage.name().as_bytes());
    let offset = offset.filter(|_| link.stage == Stage::Connected);
    answer::int(out, offset.map_or(-1, u64::cast_signed))
}
