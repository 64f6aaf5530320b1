//! The server reads all that comes by a connection, in whatever pieces, and however the connection ends.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::{Client, Server};
use socket2::SockRef;

/// A read fails if the server is silent for so long.
const SILENCE: Option<Duration> = Some(Duration::from_secs(60));

fn start(folder: &Path, more: &[&str]) -> Server {
    Server::start(folder, &[&["--durability", "process", "--shards", "4"], more].concat())
}

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    stream.set_read_timeout(SILENCE).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// Waits until so many clients are connected, including the one that asks.
fn wait_for_clients(client: &mut Client, number: usize) {
    let began = Instant::now();
    loop {
        let list = client.ask("CLIENT LIST");
        if list.lines().filter(|line| line.starts_with("id=")).count() == number {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "there are not {number} clients:\n{list}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Reads all replies until the server closes the connection.
fn rest(mut stream: impl Read) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

fn line(stream: impl Read) -> String {
    let mut text = String::new();
    BufReader::new(stream).read_line(&mut text).unwrap();
    text
}

#[test]
fn a_client_that_has_said_all_is_answered_all() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let socket = format!("unixsocket {}", path.display());
    for threads in ["1", "3"] {
        let server = start(folder.path(), &["--threads", threads, "--set", &socket]);
        let client = &mut server.client();
        for round in 0..20 {
            // The end of the connection comes with the last request, or a little later.
            let wait = || std::thread::sleep(Duration::from_millis(round % 4));
            let mut stream = connect(&server);
            stream.write_all(&b"PING\r\n".repeat(round as usize + 1)).unwrap();
            wait();
            stream.shutdown(Shutdown::Write).unwrap();
            assert_eq!(rest(stream), "+PONG\r\n".repeat(round as usize + 1));
            let mut stream = UnixStream::connect(&path).unwrap();
            stream.set_read_timeout(SILENCE).unwrap();
            stream.write_all(b"ECHO a\r\nECHO b\r\n").unwrap();
            wait();
            stream.shutdown(Shutdown::Write).unwrap();
            assert_eq!(rest(stream), "$1\r\na\r\n$1\r\nb\r\n");
            // Commands of a client that has gone are executed nevertheless.
            let mut stream = connect(&server);
            stream.write_all(b"INCR n\r\nINCR n\r\n").unwrap();
            wait();
            drop(stream);
        }
        wait_for_clients(client, 1);
        assert_eq!(client.ask("GET n"), "40");
        assert_eq!(client.ask("DEL n"), "1");
    }
}

#[test]
fn a_socket_of_another_server_is_left_to_it() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = folder.path().join("socket");
    let socket = format!("unixsocket {}", path.display());
    let refuses = |why: &str| {
        let output = Server::command(other.path(), 0, &["--set", &socket]).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && told.contains(why), "{told}");
        assert!(!other.path().join("heap").exists());
    };
    let server = start(folder.path(), &["--set", &socket]);
    refuses("in use");
    assert_eq!(line(pinged(&path)), "+PONG\r\n");
    // A killed server leaves its socket behind.
    drop(server);
    assert!(path.exists());
    let server = start(folder.path(), &["--set", &socket]);
    assert_eq!(line(pinged(&path)), "+PONG\r\n");
    drop(server);
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "a letter").unwrap();
    refuses("is not a socket; move the file away");
    assert_eq!(std::fs::read(&path).unwrap(), b"a letter");
}

/// Returns a connection on which `PING` was sent.
fn pinged(path: &Path) -> UnixStream {
    let mut stream = UnixStream::connect(path).unwrap();
    stream.write_all(b"PING\r\n").unwrap();
    stream
}

#[test]
fn clients_that_come_and_go_while_nobody_listens() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), &[]);
    let client = &mut server.client();
    let mut waits = connect(&server);
    waits.write_all(b"ECHO here\r\n").unwrap();
    assert_eq!(line(&waits), "$4\r\n");
    assert_eq!(client.ask("CONFIG SET busy-reply-threshold 1"), "OK");
    // The only thread is busy until a client kills the script. It serves other clients now and then.
    client.send("EVAL 'while true do end' 0");
    let mut other = server.client();
    while !other.ask("PING").starts_with("-BUSY") {}
    // These clients connect meanwhile, and send all that they will ever send.
    let streams: Vec<TcpStream> = (0..20)
        .map(|_| {
            let mut stream = connect(&server);
            stream.write_all(b"PING\r\n").unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            stream
        })
        .collect();
    waits.write_all(b"ECHO again\r\n").unwrap();
    waits.shutdown(Shutdown::Write).unwrap();
    // The script's own client sends another command.
    client.send("INCR after");
    assert_eq!(other.ask("SCRIPT KILL"), "OK");
    for stream in streams {
        let answer = rest(stream);
        assert!(answer == "+PONG\r\n" || answer.starts_with("-BUSY"), "{answer}");
    }
    let answer = rest(waits);
    assert!(
        answer == "here\r\n$5\r\nagain\r\n" || answer.starts_with("-BUSY") || answer == "$5\r\nagain\r\n"
    );
    assert!(client.reply().contains("Script killed"));
    assert_eq!(client.reply(), "1");
    wait_for_clients(&mut other, 2);
}

#[test]
fn requests_in_pieces_of_any_length() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), &[]);
    // Multiples of the most bytes of one read, or one byte more or less.
    for total in [1 << 16, (1 << 16) - 1, (1 << 16) + 1, 3 << 16, (3 << 16) + 1] {
        let mut stream = connect(&server);
        let request = |len| format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${len}\r\n{}\r\n", "x".repeat(len));
        let len = 2 * total - request(total).len();
        let request = request(len);
        assert_eq!(request.len(), total);
        for _ in 0..3 {
            stream.write_all(request.as_bytes()).unwrap();
            assert_eq!(line(&stream), "+OK\r\n");
        }
        for piece in request.as_bytes().chunks(1 << 16) {
            stream.write_all(piece).unwrap();
            std::thread::sleep(Duration::from_millis(2));
        }
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(rest(stream), "+OK\r\n");
        assert_eq!(server.client().ask("STRLEN k"), len.to_string());
    }
}

#[test]
fn a_byte_out_of_band_hides_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), &[]);
    for _ in 0..20 {
        let mut stream = connect(&server);
        // The only thread is busy while the requests arrive.
        let mut busy = connect(&server);
        busy.write_all(b"EVAL 'for i = 1, 1000000 do end' 0\r\n").unwrap();
        // A read ends before the byte out of band, whatever follows it.
        stream.write_all(b"ECHO a\r\n").unwrap();
        SockRef::from(&stream).send_out_of_band(b"!").unwrap();
        stream.write_all(b"ECHO b\r\n").unwrap();
        let mut answer = [0; b"$1\r\na\r\n$1\r\nb\r\n".len()];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"$1\r\na\r\n$1\r\nb\r\n");
    }
}

#[test]
fn those_who_wait_and_leave() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), &["--threads", "2"]);
    let client = &mut server.client();
    for reset in [false, true] {
        let streams: Vec<TcpStream> = (0..8).map(|_| connect(&server)).collect();
        for (i, mut stream) in streams.iter().enumerate() {
            // Some clients only wait for a key, others have sent another command, too.
            let more = if i % 2 == 0 { "" } else { "PING\r\n" };
            stream.write_all(format!("BLPOP nothing 0\r\n{more}").as_bytes()).unwrap();
        }
        wait_for_clients(client, 9);
        streams.iter().for_each(|stream| {
            if reset {
                // The connection is reset.
                SockRef::from(stream).set_linger(Some(Duration::ZERO)).unwrap();
            }
        });
        drop(streams);
        wait_for_clients(client, 1);
        assert_eq!(client.ask("RPUSH nothing x"), "1");
        assert_eq!(client.ask("LPOP nothing"), "x");
    }
    // A paused client that stays, and one that leaves.
    let mut stays = connect(&server);
    let endless = client.ask(&format!("CLIENT PAUSE {} WRITE", i64::MAX));
    assert_eq!(endless, "-ERR timeout is out of range");
    assert_eq!(client.ask("CLIENT PAUSE 600000 WRITE"), "OK");
    stays.write_all(b"INCR n\r\n").unwrap();
    let mut leaves = connect(&server);
    leaves.write_all(b"INCR n\r\n").unwrap();
    SockRef::from(&leaves).set_linger(Some(Duration::ZERO)).unwrap();
    drop(leaves);
    wait_for_clients(client, 2);
    assert_eq!(client.ask("CLIENT UNPAUSE"), "OK");
    assert_eq!(line(&stays), ":1\r\n");
}

#[test]
fn reset_restores_settings() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--durability", "process"]);
    let mut client = server.client();
    assert_eq!(client.ask("client no-evict on"), "OK");
    assert_eq!(client.ask("client no-touch on"), "OK");
    assert!(client.ask("client info").contains(" flags=eT "));
    assert_eq!(client.ask("reset"), "RESET");
    assert!(client.ask("client info").contains(" flags=N "));
}
