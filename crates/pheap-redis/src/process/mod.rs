//! The process: signals that end it, the file with its number, and what a service manager is told.

pub mod descriptors;
pub mod logging;
pub mod ping;

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::{Handle, Signals};
use signal_hook::low_level::signal_name;

use crate::server::Server;

/// Signals that end the process as it should: SIGTERM and SIGINT.
#[derive(Debug)]
pub struct End {
    signals: Signals,
    /// The next one ends the process at once.
    is_last: Arc<AtomicBool>,
}

impl End {
    /// From now on, one of these signals ends the process at once, which loses nothing that was acknowledged: also the first process of a container, which they would not end otherwise.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn new() -> io::Result<End> {
        let is_last = Arc::new(AtomicBool::new(true));
        for signal in [SIGTERM, SIGINT] {
            // In this order: what the first one sets, the second one finds.
            flag::register_conditional_shutdown(signal, 1, is_last.clone())?;
            flag::register(signal, is_last.clone())?;
        }
        Ok(End { signals: Signals::new([SIGTERM, SIGINT])?, is_last })
    }

    /// There is something to be ended by now: the next signal does nothing until [`wait`](Self::wait) looks at it. A second one ends the process at once, also while the heap is being closed.
    pub fn begin(&self) {
        self.is_last.store(false, SeqCst);
    }

    /// What ends [`wait`](Self::wait).
    pub fn handle(&self) -> Handle {
        self.signals.handle()
    }

    /// Stops the server when a signal says so.
    pub fn wait(mut self, server: &Server) {
        for signal in self.signals.forever() {
            let name = signal_name(signal).unwrap_or("a signal");
            tracing::info!("{name} has asked for the end; once more, and the heap is not closed");
            server.stop();
        }
    }
}

/// A file with the number of the process, which is removed when this is dropped.
#[derive(Debug)]
pub struct PidFile(PathBuf);

impl PidFile {
    /// Writes it. It replaces only a file that has a number, or nothing.
    ///
    /// # Errors
    /// If that is not possible.
    pub fn new(path: &Path) -> io::Result<PidFile> {
        let is_number = |text: &[u8]| {
            (1..32).contains(&text.len())
                && text.iter().all(|b| b.is_ascii_digit() || b.is_ascii_whitespace())
        };
        match std::fs::read(path) {
            Ok(text) if !is_number(&text) => {
                return Err(io::Error::new(
                    io::ErrorKind::AlreadyExists,
                    "there is another file, which is not replaced",
                ));
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        std::fs::write(path, format!("{}\n", std::process::id()))?;
        Ok(PidFile(path.to_owned()))
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // Who reads it finds that there is no such process.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Tells systemd (`Type=notify`) how it is: `READY=1`, `STOPPING=1`. Nothing, if it does not want to know.
pub fn notify(state: &str) {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let told = || {
        let addr = match name.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
            _ => SocketAddr::from_pathname(&name)?,
        };
        UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &addr)
    };
    if let Err(error) = told() {
        tracing::warn!("NOTIFY_SOCKET is set, but nobody can be told there that {state}: {error}");
    }
}
