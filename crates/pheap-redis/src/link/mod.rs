//! The link to a master: a thread of its own, which connects, gets the data as a whole if it must, and then runs what the master sends, as it comes.
//!
//! | file | what is in it |
//! |---|---|
//! | `wire` | the connection |
//! | `greet` | what they say to each other first |
//! | `load` | the data as a whole |
//! | `stream` | what comes then |
//!
//! How far that was is in the heap, and was put there by the transactions that have run it (`execute::replica`). So whenever the link, or the process, ends, the next one asks for what comes
//! behind that. The thread has no clients; what others are to be told is posted to their threads.

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
use crate::execute::Unfollowed;
use crate::rdb;
use crate::server::Server;
use crate::server::role::Stage;

/// How long it waits at first until it tries again.
const PATIENCE: Duration = Duration::from_millis(100);

/// How long it waits at most; and if the master has given its data in vain, which costs it something.
const MOST_PATIENCE: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];

/// Why there is no link.
#[derive(Debug, thiserror::Error)]
pub enum Lost {
    /// The server follows somebody else, or is being stopped.
    #[error("another master is followed")]
    Left,
    /// The master cannot be reached.
    #[error("the master cannot be reached: {0}")]
    Connect(io::Error),
    /// The connection has failed.
    #[error("the connection to the master has failed: {0}")]
    Io(io::Error),
    /// The master has ended it.
    #[error("the master has closed the connection")]
    Closed,
    /// Nothing has come from it.
    #[error("nothing has come from the master for {0} seconds (`repl-timeout`)")]
    Silent(u64),
    /// It does not want to.
    #[error("the master refuses {what}: {why}")]
    Refused {
        /// What it was asked for.
        what: &'static str,
        /// What it has answered.
        why: String,
    },
    /// What comes is not what should.
    #[error("the master sends what cannot be understood: {0}")]
    Nonsense(String),
    /// There is something wrong with its data.
    #[error("the master's data cannot be loaded, byte {at}: {error}")]
    Data {
        /// Up to where they were read.
        at: u64,
        /// What is wrong.
        error: rdb::Error,
    },
    /// They cannot be put in the heap.
    #[error("the master's data cannot be stored: {0}")]
    Store(ImportError),
    /// What it sends cannot be run.
    #[error("what the master sends cannot be run: {0}")]
    Run(Unfollowed),
    /// The heap has failed.
    #[error(transparent)]
    Heap(#[from] pheap::Error),
}

impl From<Unfollowed> for Lost {
    fn from(why: Unfollowed) -> Lost {
        match why {
            Unfollowed::Left => Lost::Left,
            Unfollowed::Heap(error) => Lost::Heap(error),
            other => Lost::Run(other),
        }
    }
}

impl From<ImportError> for Lost {
    fn from(error: ImportError) -> Lost {
        match error {
            ImportError::Heap(error) => Lost::Heap(error),
            other => Lost::Store(other),
        }
    }
}

/// Why there can be no link.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// There are no certificates, or no TLS.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The system refuses.
    #[error("the thread that follows a master cannot be made: {0}")]
    Io(#[from] io::Error),
}

/// The thread that has the link to a master, if there is one.
pub struct Link {
    sleeper: Sleeper,
    tls: Option<Connector>,
}

impl Link {
    /// One that is not connected, and will be as the options say.
    ///
    /// # Errors
    /// If certificates are missing, or the system cannot make it.
    pub fn new(config: &Config) -> Result<Link, LinkError> {
        Ok(Link { tls: connector(config)?, sleeper: Sleeper::new()? })
    }

    /// By this, it is told that something has changed.
    pub fn mailbox(&self) -> Arc<Mailbox> {
        self.sleeper.mailbox().clone()
    }

    /// Follows whatever master the server has, until the server is stopped.
    ///
    /// # Errors
    /// If the system refuses to tell what happens.
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
            let Err(lost) = follow(server, generation, &mut self.sleeper, &master, self.tls.as_ref());
            let stage = server.role.link().stage;
            let was_connected = stage == Stage::Connected;
            if was_connected || matches!(lost, Lost::Left) {
                patience = PATIENCE;
            }
            if matches!(lost, Lost::Left) {
                continue;
            }
            if let Lost::Heap(error) = &lost {
                server.look_at(error);
            }
            // An error of a master may be of several lines.
            let text = lost.to_string().replace(['\r', '\n'], " ");
            // The same again and again is told once.
            if was_connected || text != told {
                tracing::warn!("no link to the master {master}: {text}");
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
fn follow(
    server: &Server,
    generation: u64,
    sleeper: &mut Sleeper,
    master: &Master,
    tls: Option<&Connector>,
) -> Result<std::convert::Infallible, Lost> {
    let mut follower = Follower::new(server, generation, master, sleeper.mailbox().clone())?;
    server.role.set_stage(Stage::Connecting, generation, |_| ());
    let mut wire = Wire::connect(server, generation, sleeper, master, tls)?;
    server.role.set_stage(Stage::Handshake, generation, |_| ());
    match greet(server, &mut wire, follower.position())? {
        Greeting::Continue(id) => {
            follower.go_on(id)?;
            tracing::info!("the master {master} is followed from where that was");
        }
        Greeting::Full(position) => {
            tracing::info!("the master {master} gives all its data");
            server.role.set_stage(Stage::Sync, generation, |_| ());
            let began = Instant::now();
            follower.load(&mut wire, position)?;
            tracing::info!("they are complete after {} ms, and it is followed", began.elapsed().as_millis());
        }
    }
    follower.stream(&mut wire)
}
