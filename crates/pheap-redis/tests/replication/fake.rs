//! A fake master: a test decides what it sends.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use pheap_redis::data::Owned;
use pheap_redis::rdb::FileWriter;

/// ID of the fake master's history.
pub(crate) const ID: &str = "0123456789012345678901234567890123456789";
/// Marks the end of data that are sent without a length.
pub(crate) const MARK: &str = "abcdefghijabcdefghijabcdefghijabcdefghij";

/// A fake master.
pub(crate) struct Fake(TcpListener);

/// A connection from a replica.
pub(crate) struct Guest(BufReader<TcpStream>);

impl Fake {
    pub(crate) fn new() -> Fake {
        Fake(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    pub(crate) fn port(&self) -> u16 {
        self.0.local_addr().unwrap().port()
    }

    /// Accepts the next replica, and answers its greeting up to `PSYNC`. Returns that command, too.
    pub(crate) fn guest(&self) -> (Guest, String) {
        let (stream, _) = self.0.accept().unwrap();
        // A read fails if the replica is silent for so long.
        stream.set_read_timeout(Some(Duration::from_secs(100))).unwrap();
        let mut guest = Guest(BufReader::new(stream));
        assert_eq!(guest.command(), "PING");
        guest.say(b"+PONG\r\n");
        assert!(guest.command().starts_with("REPLCONF listening-port "));
        guest.say(b"+OK\r\n");
        assert_eq!(guest.command(), "REPLCONF capa eof capa psync2");
        guest.say(b"+OK\r\n");
        let asked = guest.command();
        (guest, asked)
    }

    /// Accepts a replica that has no data yet. Sends it `data`, as a file without a length; the stream that
    /// follows begins at `offset`.
    pub(crate) fn new_guest(&self, data: &[(&str, &str)], offset: u64) -> Guest {
        let (mut guest, asked) = self.guest();
        assert_eq!(asked, "PSYNC ? -1");
        guest.say(format!("+FULLRESYNC {ID} {offset}\r\n\n\n$EOF:{MARK}\r\n").as_bytes());
        guest.say(&file(data));
        guest.say(MARK.as_bytes());
        guest
    }
}

/// Returns an RDB file with strings in database 0.
pub(crate) fn file(data: &[(&str, &str)]) -> Vec<u8> {
    let mut writer = FileWriter::new(Vec::new()).unwrap();
    writer.database(0, data.len() as u64, 0).unwrap();
    for (key, value) in data {
        writer.entry(key.as_bytes(), &Owned::String(value.as_bytes().to_vec()), None).unwrap();
    }
    writer.finish().unwrap()
}

/// Encodes commands as they are in a stream.
pub(crate) fn stream(lines: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        bytes.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
        for word in words {
            bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
        }
    }
    bytes
}

impl Guest {
    pub(crate) fn say(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).unwrap();
    }

    /// Sends these bytes again and again until the replica has closed the connection.
    pub(crate) fn say_without_end(&mut self, bytes: &[u8]) {
        while self.0.get_mut().write_all(bytes).is_ok() {}
    }

    /// Reads the next command. Skips empty lines.
    pub(crate) fn command(&mut self) -> String {
        let mut line = String::new();
        while line.trim_end().is_empty() {
            line.clear();
            assert_ne!(self.0.read_line(&mut line).unwrap(), 0, "the replica has closed the connection");
        }
        let count: usize = line.trim_end().strip_prefix('*').unwrap().parse().unwrap();
        let words: Vec<String> = (0..count)
            .map(|_| {
                line.clear();
                self.0.read_line(&mut line).unwrap();
                let len: usize = line.trim_end().strip_prefix('$').unwrap().parse().unwrap();
                let mut word = vec![0; len + 2];
                self.0.read_exact(&mut word).unwrap();
                String::from_utf8(word).unwrap().trim_end().to_owned()
            })
            .collect();
        words.join(" ")
    }

    /// Reads commands until the replica acknowledges exactly this offset.
    pub(crate) fn has(&mut self, offset: u64) {
        while self.command() != format!("REPLCONF ACK {offset}") {}
    }
}
