//! Starts a server for a test, and connects clients to it.

#![allow(dead_code)] // each test uses a part of it

pub(crate) mod redis;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// An argument of [`Server::start`] and others: no file of the server may grow beyond 64 MiB.
pub(crate) const LIMITED: &str = "LIMITED";

/// An argument of [`Server::start`] and others: the server may have at most 100 files open.
pub(crate) const FEW_FILES: &str = "FEW_FILES";

/// A server process. Dropping this kills it (SIGKILL).
pub(crate) struct Server {
    process: Child,
    port: u16,
}

impl Server {
    pub(crate) fn start(folder: &Path, arguments: &[&str]) -> Server {
        for _ in 0..10 {
            if let Some(server) = Server::try_start(folder, arguments) {
                return server;
            }
        }
        panic!("ten ports were taken between being found free and being used");
    }

    fn try_start(folder: &Path, arguments: &[&str]) -> Option<Server> {
        // Another program may take the port first.
        let port = free_port();
        let mut process = Server::spawn(folder, port, arguments);
        let log = BufReader::new(process.stdout.take().unwrap());
        let serves = log.lines().any(|line| line.unwrap().contains("clients connect to"));
        serves.then_some(Server { process, port })
    }

    /// Starts a server, and does not wait until it serves clients.
    pub(crate) fn spawn(folder: &Path, port: u16, arguments: &[&str]) -> Child {
        Server::command(folder, port, arguments).stdout(Stdio::piped()).spawn().unwrap()
    }

    /// Returns the command that starts a server.
    pub(crate) fn command(folder: &Path, port: u16, arguments: &[&str]) -> Command {
        let mut command = Command::new("sh");
        command
            // `ulimit -f` counts blocks of 512 bytes.
            .args([
                "-c",
                "[ -z \"$LIMITED\" ] || ulimit -f 131072; [ -z \"$FEW_FILES\" ] || ulimit -n 100; exec \"$@\"",
                "sh",
            ])
            .arg(env!("CARGO_BIN_EXE_pheap-redis"))
            .args(["--port", &port.to_string(), "--set", "bind 127.0.0.1", "--heap"])
            .arg(folder.join("heap"))
            .args(arguments.iter().filter(|argument| ![LIMITED, FEW_FILES].contains(argument)))
            .envs(
                [LIMITED, FEW_FILES]
                    .into_iter()
                    .filter(|name| arguments.contains(name))
                    .map(|name| (name, "1")),
            );
        command
    }

    /// Waits until a spawned server accepts connections. Panics if the process ends before that.
    pub(crate) fn wait_for(process: Child, port: u16) -> Server {
        let mut server = Server { process, port };
        while Client::connect(port).is_err() {
            let ended = server.process.try_wait().unwrap();
            assert!(ended.is_none(), "it has ended: {ended:?}");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        server
    }

    /// The server's process.
    pub(crate) fn process(&mut self) -> &mut Child {
        &mut self.process
    }

    /// Resident memory of the server, in bytes.
    pub(crate) fn memory(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap() << 10
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn client(&self) -> Client {
        let client = Client::connect(self.port).unwrap();
        // A read fails if the server is silent for so long.
        client.0.get_ref().set_read_timeout(Some(std::time::Duration::from_secs(120))).unwrap();
        client
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.kill().unwrap(); // -9
        self.process.wait().unwrap();
    }
}

/// A port that is free now.
pub(crate) fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A connection of a client.
pub(crate) struct Client(BufReader<TcpStream>);

impl Client {
    pub(crate) fn connect(port: u16) -> std::io::Result<Client> {
        Ok(Client(BufReader::new(TcpStream::connect(("127.0.0.1", port))?)))
    }

    /// Sends a line, and does not wait for a reply.
    pub(crate) fn send(&mut self, line: &str) {
        self.0.get_mut().write_all(format!("{line}\r\n").as_bytes()).unwrap();
    }

    /// Reads the next reply and returns it as text: the elements of an array, map, set or push as `[a 1]`,
    /// an error with its `-`, and a null as `nil`.
    pub(crate) fn reply(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        let line = line.trim_end();
        match line.split_at(1) {
            ("$", "-1") | ("*", "-1") | ("_", "") => "nil".to_owned(),
            ("$", len) => {
                let mut bytes = vec![0; len.parse::<usize>().unwrap() + 2];
                self.0.read_exact(&mut bytes).unwrap();
                String::from_utf8(bytes).unwrap().trim_end().to_owned()
            }
            ("*" | "%" | "~" | ">", len) => {
                let len = len.parse::<usize>().unwrap() * if line.starts_with('%') { 2 } else { 1 };
                format!("[{}]", (0..len).map(|_| self.reply()).collect::<Vec<_>>().join(" "))
            }
            ("+" | ":" | ",", text) => text.to_owned(),
            ("=", len) => {
                let mut bytes = vec![0; len.parse::<usize>().unwrap() + 2];
                self.0.read_exact(&mut bytes).unwrap();
                String::from_utf8(bytes.split_off(4)).unwrap()
            }
            ("-", _) => line.to_owned(),
            _ => panic!("no reply: {line:?}"),
        }
    }

    /// Appends to `text` all that comes until the server ends the connection.
    pub(crate) fn rest(&mut self, text: &mut String) {
        self.0.read_to_string(text).unwrap();
    }

    /// Sends bytes, and ignores errors: the server may have closed the connection.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) {
        let _ = self.0.get_mut().write_all(bytes);
    }

    /// Reads until the server closes or resets the connection.
    pub(crate) fn read_to_end(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        match self.0.read_to_end(&mut all) {
            Ok(_) => {}
            // The system resets the connection if the server closes it with unread input.
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
        }
        all
    }

    /// Sends a line and reads the next reply.
    pub(crate) fn ask(&mut self, line: &str) -> String {
        self.send(line);
        self.reply()
    }
}

/// Sends each line, and compares the reply with the expected one.
pub(crate) fn converse(client: &mut Client, lines: &[(&str, &str)]) {
    for (line, expected) in lines {
        assert_eq!(client.ask(line), *expected, "{line}");
    }
}
