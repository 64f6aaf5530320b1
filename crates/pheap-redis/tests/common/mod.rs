//! A server of its own for a test, and clients.

#![allow(dead_code)] // each test uses some of it

pub(crate) mod redis;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Among the arguments of a server: its heap may not grow.
pub(crate) const LIMITED: &str = "LIMITED";

/// Among the arguments of a server: it may have a hundred files open.
pub(crate) const FEW_FILES: &str = "FEW_FILES";

/// A server of its own, which is killed when this is dropped.
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
        // One that is free now. Another program may be faster.
        let port = free_port();
        let mut process = Server::spawn(folder, port, arguments);
        let log = BufReader::new(process.stdout.take().unwrap());
        let serves = log.lines().any(|line| line.unwrap().contains("clients connect to"));
        serves.then_some(Server { process, port })
    }

    /// Starts one, and does not wait until it serves clients.
    pub(crate) fn spawn(folder: &Path, port: u16, arguments: &[&str]) -> Child {
        Server::command(folder, port, arguments).stdout(Stdio::piped()).spawn().unwrap()
    }

    /// What starts one.
    pub(crate) fn command(folder: &Path, port: u16, arguments: &[&str]) -> Command {
        let mut command = Command::new("sh");
        command
            // A heap of one arena, which may not grow (in blocks of 512 bytes), where that is asked for.
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

    /// One that was spawned, once it serves clients. What it logs does not matter.
    pub(crate) fn wait_for(process: Child, port: u16) -> Server {
        let mut server = Server { process, port };
        while Client::connect(port).is_err() {
            let ended = server.process.try_wait().unwrap();
            assert!(ended.is_none(), "it has ended: {ended:?}");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        server
    }

    /// Its process.
    pub(crate) fn process(&mut self) -> &mut Child {
        &mut self.process
    }

    /// Bytes of memory that it has.
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
        // A server that says nothing for so long will not say anything.
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

/// A client of it.
pub(crate) struct Client(BufReader<TcpStream>);

impl Client {
    pub(crate) fn connect(port: u16) -> std::io::Result<Client> {
        Ok(Client(BufReader::new(TcpStream::connect(("127.0.0.1", port))?)))
    }

    /// Sends a line as a client may type it.
    pub(crate) fn send(&mut self, line: &str) {
        self.0.get_mut().write_all(format!("{line}\r\n").as_bytes()).unwrap();
    }

    /// The next reply, on one line: `*2 $1 a :1`.
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

    /// All that comes until the server ends the connection.
    pub(crate) fn rest(&mut self, text: &mut String) {
        self.0.read_to_string(text).unwrap();
    }

    /// Sends bytes. If the server does not want them, that is no error.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) {
        let _ = self.0.get_mut().write_all(bytes);
    }

    /// Reads until the server ends the connection.
    pub(crate) fn read_to_end(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        match self.0.read_to_end(&mut all) {
            Ok(_) => {}
            // What was not read by the server makes the end an unfriendly one.
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
        }
        all
    }

    /// Sends a line and reads the reply.
    pub(crate) fn ask(&mut self, line: &str) -> String {
        self.send(line);
        self.reply()
    }
}

/// A line as a client may type it, and what is answered.
pub(crate) fn converse(client: &mut Client, lines: &[(&str, &str)]) {
    for (line, expected) in lines {
        assert_eq!(client.ask(line), *expected, "{line}");
    }
}
