//! The sockets on which the server accepts clients.

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use mio::event::Source;
use mio::net::{TcpListener, UnixListener, UnixStream};
use mio::{Interest, Registry, Token};
use socket2::{Domain, Protocol, Socket, Type};

use crate::config::Config;
use crate::connections::stream::Stream;
use crate::connections::tls::{Acceptor, TlsError, acceptor};

/// A socket on which the server accepts clients.
#[derive(Debug)]
pub enum Listener {
    /// A TCP port.
    Tcp(TcpListener),
    /// A TCP port for TLS.
    Tls(TcpListener, Acceptor),
    /// A Unix socket with its path. Dropping the listener removes the path if it is still a socket.
    Unix(UnixListener, PathBuf),
}

/// Why a listener cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// An address in `bind` is invalid.
    #[error("bind: '{0}' is not an IP address; use one of this machine's, `*` or `::*`")]
    Address(String),
    /// TLS cannot be used as the options ask, or this build has no TLS.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The server cannot listen on an address or a Unix socket.
    #[error("cannot listen on {0}: {1}; {advice}", advice = advice(.1))]
    Io(String, io::Error),
}

/// Returns advice on what to do after this error.
fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::AddrInUse => {
            "stop the program that uses it, or set `port`, `tls-port` or `unixsocket` to another value"
        }
        ErrorKind::AddrNotAvailable => "set `bind` to addresses of this machine",
        ErrorKind::PermissionDenied => {
            "choose a port above 1023, or a folder for `unixsocket` that this user can write"
        }
        ErrorKind::AlreadyExists => "move the file away, or set `unixsocket` to another path",
        ErrorKind::NotFound => "create the folder, or set `unixsocket` to another path",
        _ => "check `bind`, `port`, `tls-port` and `unixsocket`",
    }
}

impl Listener {
    /// Opens all listeners that the options ask for.
    ///
    /// # Errors
    /// If an address in `bind` is invalid, TLS cannot be used as the options ask, or the system refuses a
    /// listener. An address with a `-` before it that the system refuses is no error.
    pub fn all(config: &Config) -> Result<Vec<Listener>, ListenError> {
        let mut all = Vec::new();
        all.extend(ports(config, "port")?.into_iter().map(Listener::Tcp));
        if let Some(tls) = acceptor(config)? {
            all.extend(ports(config, "tls-port")?.into_iter().map(|port| Listener::Tls(port, tls.clone())));
        }
        let path = PathBuf::from(config.text("unixsocket"));
        if !path.as_os_str().is_empty() {
            let failed = |error| ListenError::Io(path.display().to_string(), error);
            remove_socket(&path).map_err(failed)?;
            let listener = UnixListener::bind(&path).map_err(failed)?;
            let mode = u32::from_str_radix(config.text("unixsocketperm"), 8).unwrap_or(0);
            if mode != 0 {
                std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).map_err(failed)?;
            }
            all.push(Listener::Unix(listener, path));
        }
        Ok(all)
    }

    /// Accepts the next client. Does not wait for one.
    pub(super) fn accept(&self) -> io::Result<Stream> {
        match self {
            Listener::Tcp(listener) => Ok(Stream::Tcp(listener.accept()?.0)),
            Listener::Unix(listener, _) => Ok(Stream::Unix(listener.accept()?.0)),
            Listener::Tls(listener, acceptor) => Ok(Stream::Tls(acceptor.accept(listener.accept()?.0)?)),
        }
    }

    pub(super) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match self {
            Listener::Tcp(listener) => listener.register(registry, token, Interest::READABLE),
            Listener::Unix(listener, _) => listener.register(registry, token, Interest::READABLE),
            Listener::Tls(listener, _) => listener.register(registry, token, Interest::READABLE),
        }
    }
}

impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |addr: io::Result<SocketAddr>| addr.map_or("?".to_owned(), |addr| addr.to_string());
        match self {
            Listener::Tcp(listener) => f.write_str(&shown(listener.local_addr())),
            Listener::Unix(_, path) => write!(f, "{}", path.display()),
            Listener::Tls(listener, _) => write!(f, "{} (TLS)", shown(listener.local_addr())),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listener::Unix(_, path) = self
            && std::fs::symlink_metadata(&path).is_ok_and(|found| found.file_type().is_socket())
        {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Removes a socket that an earlier run left. Fails if a server listens on it, or if there is another file.
/// (Redis removes any file with this name, even the socket of a server that is running.)
fn remove_socket(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => {
            // Only a refused connection shows that no server listens.
            let Err(error) = UnixStream::connect(path) else { return Err(ErrorKind::AddrInUse.into()) };
            if error.kind() == ErrorKind::ConnectionRefused { std::fs::remove_file(path) } else { Err(error) }
        }
        Ok(_) => Err(io::Error::new(ErrorKind::AlreadyExists, "there is a file that is not a socket")),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Listens on the port of this option, unless it is 0, at each address in `bind`. If the system refuses an
/// address with a `-` before it, that address is left out.
fn ports(config: &Config, option: &str) -> Result<Vec<TcpListener>, ListenError> {
    let (port, mut all) = (config.int(option) as u16, Vec::new());
    for text in config.text("bind").split_whitespace().filter(|_| port != 0) {
        let (text, may_fail) = text.strip_prefix('-').map_or((text, false), |text| (text, true));
        let ip: IpAddr = match text {
            "*" => [0, 0, 0, 0].into(),
            "::*" => [0u16; 8].into(),
            text => text.parse().map_err(|_| ListenError::Address(text.to_owned()))?,
        };
        let addr = SocketAddr::new(ip, port);
        match listen(addr, config.int("tcp-backlog") as i32) {
            Ok(listener) => all.push(listener),
            Err(_) if may_fail => {}
            Err(error) => return Err(ListenError::Io(addr.to_string(), error)),
        }
    }
    Ok(all)
}

fn listen(addr: SocketAddr, backlog: i32) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    if addr.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&addr.into())?;
    socket.listen(backlog)?;
    Ok(TcpListener::from_std(socket.into()))
}
