//! The process: signals that end it, the PID file, and messages to the service manager.

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

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::{Handle, Signals};
use signal_hook::low_level::signal_name;

use crate::server::Server;

/// The signals that end the server: SIGTERM and SIGINT. SIGHUP is ignored.
#[derive(Debug)]
pub struct StopSignals {
    signals: Signals,
    /// Whether the next signal ends the process at once.
    is_last: Arc<AtomicBool>,
}

impl StopSignals {
    /// Handles the signals. Until [`begin`](Self::begin), a signal ends the process at once, which loses no
    /// acknowledged write. The first process of a container needs these handlers, because it ignores signals
    /// without a handler.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn new() -> io::Result<StopSignals> {
        let is_last = Arc::new(AtomicBool::new(true));
        for signal in [SIGTERM, SIGINT] {
            // The order matters: the first signal finds the flag as it was, and sets it for the second one.
            flag::register_conditional_shutdown(signal, 1, is_last.clone())?;
            flag::register(signal, is_last.clone())?;
        }
        // The end of a terminal does not end the server.
        flag::register(SIGHUP, Arc::default())?;
        Ok(StopSignals { signals: Signals::new([SIGTERM, SIGINT])?, is_last })
    }

    /// After this call, a first signal only wakes [`wait`](Self::wait). A second one ends the process at
    /// once, even while the heap is being closed.
    pub fn begin(&self) {
        self.is_last.store(false, SeqCst);
    }

    /// Returns the handle that ends [`wait`](Self::wait).
    pub fn handle(&self) -> Handle {
        self.signals.handle()
    }

    /// Stops the server when a signal comes. Returns when [`handle`](Self::handle) is closed.
    pub fn wait(mut self, server: &Server) {
        for signal in self.signals.forever() {
            let name = signal_name(signal).unwrap_or("a signal");
            tracing::info!(
                "{name} ends the server; a second signal ends it at once, without closing the heap"
            );
            server.stop();
        }
    }
}

/// A file with the PID of the process. Dropping it removes the file.
#[derive(Debug)]
pub struct PidFile(PathBuf);

impl PidFile {
    /// Writes the file. Replaces an existing file only if it has 1 to 31 bytes, all of them digits or white
    /// space.
    ///
    /// # Errors
    /// If the file cannot be read or written, or has other content.
    pub fn new(path: &Path) -> io::Result<PidFile> {
        let is_number = |text: &[u8]| {
            (1..32).contains(&text.len())
                && text.iter().all(|b| b.is_ascii_digit() || b.is_ascii_whitespace())
        };
        match std::fs::read(path) {
            Ok(text) if !is_number(&text) => {
                return Err(io::Error::new(
                    io::ErrorKind::AlreadyExists,
                    "it has other content than a process ID, so it is not replaced",
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
        // An error is ignored: the next start replaces the file.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Sends the state (`READY=1`, `STOPPING=1`) to systemd (`Type=notify`), if `NOTIFY_SOCKET` names a socket
/// for it. Logs a failure.
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
        tracing::warn!(
            "{state} cannot be sent to NOTIFY_SOCKET ({}): {error}; if no service manager waits for it, \
             unset NOTIFY_SOCKET",
            Path::new(&name).display(),
        );
    }
}
