//! An encrypted stream over a socket that does not block. If a call cannot go on, it fails with `WouldBlock`,
//! during the handshake too.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};

use mio::net::TcpStream;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, Connection, ServerConnection};

use super::Encrypted;
use super::setup::{Acceptor, Connector};

/// A TLS connection.
struct TlsStream {
    socket: TcpStream,
    tls: Connection,
}

impl Acceptor {
    /// Makes the connection of a client. Reads and writes carry out the handshake.
    pub(crate) fn accept(&self, socket: TcpStream) -> io::Result<Box<dyn Encrypted>> {
        let tls = ServerConnection::new(self.0.clone()).map_err(io::Error::other)?;
        Ok(Box::new(TlsStream { socket, tls: tls.into() }))
    }
}

impl Connector {
    /// Makes a connection to another server, which must have a certificate for this name or address. Writes
    /// and reads carry out the handshake.
    pub(crate) fn connect(&self, socket: TcpStream, host: &str) -> io::Result<Box<dyn Encrypted>> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|error| io::Error::new(ErrorKind::InvalidInput, error))?;
        let tls = ClientConnection::new(self.0.clone(), name).map_err(io::Error::other)?;
        Ok(Box::new(TlsStream { socket, tls: tls.into() }))
    }
}

impl Encrypted for TlsStream {
    fn is_greeting(&self) -> bool {
        self.tls.is_handshaking()
    }

    fn socket(&self) -> &TcpStream {
        &self.socket
    }

    fn socket_mut(&mut self) -> &mut TcpStream {
        &mut self.socket
    }
}

impl TlsStream {
    /// Sends all encrypted bytes.
    fn send(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut self.socket) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Sends as many encrypted bytes as the socket takes now.
    fn try_to_send(&mut self) -> io::Result<()> {
        match self.send() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            result => result,
        }
    }

    /// Reads decrypted bytes.
    fn decrypted(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.tls.reader().read(buffer) {
            // The peer has disconnected without closing TLS. That counts as the end of the stream, because a
            // request shows by itself whether it is complete.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(0),
            result => result,
        }
    }
}

impl Read for TlsStream {
    /// Reads from the socket at most once, and fails with `Interrupted` if the bytes contain no data. A loop
    /// in this function could last as long as a peer sends only key updates.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.decrypted(buffer) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            result => return result,
        }
        self.tls.read_tls(&mut self.socket)?;
        if let Err(error) = self.tls.process_new_packets() {
            // Sends the peer the reason, if it still reads.
            let _ = self.send();
            return Err(io::Error::new(ErrorKind::InvalidData, error));
        }
        self.try_to_send()?;
        self.decrypted(buffer).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => ErrorKind::Interrupted.into(),
            _ => error,
        })
    }
}

impl Write for TlsStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut taken = self.tls.writer().write(bytes)?;
        if taken == 0 {
            // `bytes` is empty, or a buffer of `tls` is full.
            self.send()?;
            taken = self.tls.writer().write(bytes)?;
        }
        if taken == 0 && !bytes.is_empty() {
            // Until the handshake is complete, the plain bytes stay in their buffer.
            return Err(ErrorKind::WouldBlock.into());
        }
        self.try_to_send()?;
        Ok(taken)
    }

    /// Sends all bytes that are encrypted: all written ones, if the handshake is complete.
    fn flush(&mut self) -> io::Result<()> {
        self.send()
    }
}

impl Drop for TlsStream {
    fn drop(&mut self) {
        // The notification shows the peer that the stream was not cut off.
        self.tls.send_close_notify();
        let _ = self.send();
    }
}

impl fmt::Debug for TlsStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsStream").field("socket", &self.socket).finish_non_exhaustive()
    }
}
