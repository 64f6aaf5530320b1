//! The link to a master. Its thread connects to the master, loads all its data if necessary, and then applies
//! the commands that the master sends.
//!
//! | file | contents |
//! |---|---|
//! | `wire` | the connection |
//! | `greet` | the handshake |
//! | `load` | the transfer of all data |
//! | `stream` | the stream of commands |
//!
//! The heap has the position in the stream. The transactions that apply the commands write it
//! (`execute::replica`). Whenever the link or the process ends, the next link therefore asks for the stream
//! behind that position, if there is one. The thread has no clients. It posts messages for clients to the
//! threads that serve clients.

mod greet;
mod load;
mod stream;
mod wire;

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;
use std::time::{Duration, Instant};

use self::greet::{Greeting, greet};
use self::stream::Follower;
use self::wire::{Sleeper, Wire};
use crate::config::{Config, Master};
use crate::connections::mailbox::Mailbox;
use crate::connections::tls::{Connector, TlsError, connector};
use crate::copies::import::ImportError;
use crate::data::explained;
use crate::execute::Unfollowed;
use crate::rdb;
use crate::server::Server;
use crate::server::role::Stage;

/// The first pause before another attempt to connect. Each failed attempt doubles the pause, up to a limit.
const PATIENCE: Duration = Duration::from_millis(100);

/// The longest pause before another attempt to connect; and the longest pause after a failed transfer of all
/// data, which is expensive for the master.
const MOST_PATIENCE: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];

/// Why there is no link.
#[derive(Debug, thiserror::Error)]
pub enum LinkLost {
    /// The server has changed to another master or none, or it stops.
    #[error("another master is followed")]
    Left,
    /// The master cannot be reached.
    #[error("the master cannot be reached: {0}")]
    Connect(io::Error),
    /// The connection, or waiting for it, has failed.
    #[error("the connection to the master has failed: {0}")]
    Io(io::Error),
    /// The master has closed the connection.
    #[error("the master has closed the connection")]
    Closed,
    /// The master was silent for longer than `repl-timeout`.
    #[error("nothing has come from the master for {0} seconds (`repl-timeout`)")]
    Silent(u64),
    /// The master refuses a command or request.
    #[error("the master refuses {what}: {why}")]
    Refused {
        /// The command or request.
        what: &'static str,
        /// The master's reply.
        why: String,
    },
    /// The master has sent something that is invalid here.
    #[error(
        "the master has sent something that cannot be understood: {0}; check its address and \
         `tls-replication`"
    )]
    Nonsense(String),
    /// The master's data are damaged or have an unknown format.
    #[error("the master's data cannot be loaded (byte {at}): {error}")]
    Data {
        /// The position up to which the data were read, in bytes.
        at: u64,
        /// The problem.
        error: rdb::Error,
    },
    /// The master's data cannot be stored in the heap.
    #[error("the master's data cannot be stored: {0}")]
    Store(ImportError),
    /// A command of the master cannot be run.
    #[error("a command of the master cannot be run: {0}")]
    Run(Unfollowed),
    /// The heap reports an error.
    #[error("{}", explained(.0))]
    Heap(#[from] pheap::Error),
}

impl From<Unfollowed> for LinkLost {
    fn from(why: Unfollowed) -> LinkLost {
        match why {
            Unfollowed::Left => LinkLost::Left,
            Unfollowed::Heap(error) => LinkLost::Heap(error),
            other => LinkLost::Run(other),
        }
    }
}

impl From<ImportError> for LinkLost {
    fn from(error: ImportError) -> LinkLost {
        match error {
            ImportError::Heap(error) => LinkLost::Heap(error),
            other => LinkLost::Store(other),
        }
    }
}

/// Why the link cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// TLS cannot be used as the options ask, or this build has no TLS.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The system refuses a resource.
    #[error("the link to a master cannot be prepared: {0}")]
    Io(#[from] io::Error),
}

/// The thread of the link to a master. It runs even if there is no master.
pub struct Link {
    sleeper: Sleeper,
    tls: Option<Connector>,
}

impl Link {
    /// Makes a link that is not connected, with the TLS options.
    ///
    /// # Errors
    /// If TLS cannot be used as the options ask (an option is missing, a file or an option is invalid, or
    /// this build has no TLS), or the system cannot create the poll.
    pub fn new(config: &Config) -> Result<Link, LinkError> {
        Ok(Link { tls: connector(config)?, sleeper: Sleeper::new()? })
    }

    /// Returns the mailbox, through which other threads wake the thread of the link when something has
    /// changed.
    pub fn mailbox(&self) -> Arc<Mailbox> {
        self.sleeper.mailbox().clone()
    }

    /// Follows the server's present master, if it has one, until the server stops.
    ///
    /// # Errors
    /// If polling for events fails while there is no connection.
    pub fn run(mut self, server: &Server) -> io::Result<()> {
        let mut patience = PATIENCE;
        let mut told = String::new();
        while !server.stopping.load(Acquire) {
            let generation = server.role.generation();
            let master = server.role.link().master.clone();
            let Some(master) = master else {
                self.sleeper.sleep(Instant::now() + MOST_PATIENCE[1])?;
                continue;
            };
            let Err(lost) = follow_master(server, generation, &mut self.sleeper, &master, self.tls.as_ref());
            let stage = server.role.link().stage;
            let was_connected = stage == Stage::Connected;
            if was_connected || matches!(lost, LinkLost::Left) {
                patience = PATIENCE;
            }
            if matches!(lost, LinkLost::Left) {
                continue;
            }
            if let LinkLost::Heap(error) = &lost {
                server.look_at(error);
            }
            // The text must fit in one line of the log.
            let text = lost.to_string().replace(['\r', '\n'], " ");
            // An error that repeats itself without a connection in between is logged once.
            if was_connected || text != told {
                tracing::warn!("no link to the master {master}: {text}; trying again");
            }
            told.clone_from(&text);
            server.role.set_stage(Stage::Down, generation, |link| {
                link.error = Some(text);
                link.down = link.down.or(Some(Instant::now()));
            });
            let until = Instant::now() + patience;
            patience = (patience * 2).min(MOST_PATIENCE[usize::from(stage == Stage::Sync)]);
            while Instant::now() < until
                && server.role.generation() == generation
                && !server.stopping.load(Acquire)
            {
                self.sleeper.sleep(until)?;
            }
        }
        Ok(())
    }
}

/// Follows a master until the link is lost.
fn follow_master(
    server: &Server,
    generation: u64,
    sleeper: &mut Sleeper,
    master: &Master,
    tls: Option<&Connector>,
) -> Result<std::convert::Infallible, LinkLost> {
    let mut follower = Follower::new(server, generation, master, sleeper.mailbox().clone())?;
    server.role.set_stage(Stage::Connecting, generation, |_| ());
    let mut wire = Wire::connect(server, generation, sleeper, master, tls)?;
    server.role.set_stage(Stage::Handshake, generation, |_| ());
    match greet(server, &mut wire, follower.position())? {
        Greeting::Continue(id) => {
            follower.resume(id)?;
            tracing::info!("following the master {master} from the last position on");
        }
        Greeting::Full(position) => {
            tracing::info!("the master {master} sends all its data");
            server.role.set_stage(Stage::Sync, generation, |_| ());
            let began = Instant::now();
            follower.load(&mut wire, position)?;
            tracing::info!(
                "all data of the master {master} were loaded in {} ms; following it",
                began.elapsed().as_millis()
            );
        }
    }
    follower.stream(&mut wire)
}
