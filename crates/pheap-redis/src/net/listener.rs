//! Where clients connect.

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

/// Where clients connect.
#[derive(Debug)]
pub enum Listener {
    /// A port.
    Tcp(TcpListener),
    /// A port where clients speak TLS.
    Tls(TcpListener, Acceptor),
    /// A socket in the file system, which is removed in the end.
    Unix(UnixListener, PathBuf),
}

/// Why nobody can connect.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// What `bind` says is no address.
    #[error("bind: '{0}' is not an IP address; use one of this machine's, `*` or `::*`")]
    Address(String),
    /// There are no certificates, or no TLS.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The system refuses.
    #[error("cannot listen on {0}: {1}; if something else uses it, choose another `port`, or `unixsocket`")]
    Io(String, io::Error),
}

impl Listener {
    /// All that the options ask for.
    ///
    /// # Errors
    /// If one cannot be had.
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

    /// The next client, if one has come.
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

/// Removes a socket that is left from before. (Redis removes whatever is there, also if another server listens.)
fn remove_socket(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => {
            // Nobody is told that there is nobody, unless it is so.
            let Err(error) = UnixStream::connect(path) else { return Err(ErrorKind::AddrInUse.into()) };
            if error.kind() == ErrorKind::ConnectionRefused { std::fs::remove_file(path) } else { Err(error) }
        }
        Ok(_) => Err(io::Error::new(ErrorKind::AlreadyExists, "there is a file that is no socket")),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// A port at all addresses of this machine that are asked for. One with a `-` before it may be absent.
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
