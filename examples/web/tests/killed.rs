//! Kills the service while it answers requests, and checks its heap: all answered changes are there.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use pheap::{Heap, Root};
use serde_json::{Value, json};

#[allow(dead_code, unreachable_pub)] // the program uses more of this module
#[path = "../store.rs"]
mod store;

struct Service {
    child: Child,
    address: SocketAddr,
}

impl Service {
    fn start(heap: &Path) -> Service {
        let mut child = Command::new(env!("CARGO_BIN_EXE_web"))
            .args(["--port", "0", "--heap"])
            .arg(heap)
            .stdout(Stdio::piped())
            .spawn()
            .expect("it can be run");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("it is piped")).read_line(&mut line).expect("it is text");
        let address = line.trim().rsplit('/').next().and_then(|address| address.parse().ok());
        Service { child, address: address.unwrap_or_else(|| panic!("no address: {line:?}")) }
    }

    fn kill(mut self) {
        self.child.kill().expect("it runs"); // SIGKILL
        self.child.wait().expect("it ran");
    }
}

struct Answer {
    status: u16,
    cookie: Option<String>,
    body: String,
}

fn ask(to: SocketAddr, method: &str, path: &str, cookie: &str, body: &Value) -> io::Result<Answer> {
    let body = body.to_string();
    let mut stream = TcpStream::connect(to)?;
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {to}\r\nConnection: close\r\nCookie: {cookie}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")?.split(';').next());
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    if length.is_some_and(|length: usize| length != body.len()) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Answer {
        status: status.ok_or(io::ErrorKind::InvalidData)?,
        cookie: cookie.map(str::to_owned),
        body: body.to_owned(),
    })
}

/// The state of a client.
#[derive(Default)]
struct Client {
    name: String,
    cookie: String,
    /// Points in the service's last answer, or in the heap after the last kill.
    points: u64,
    /// Points of the request that was not answered yet, or 0.
    asked: u64,
}

impl Client {
    /// Plays until a request fails.
    fn play(&mut self, to: SocketAddr) -> io::Result<()> {
        if self.cookie.is_empty() {
            let answer = ask(to, "POST", "/login", "", &json!({ "name": self.name }))?;
            assert_eq!(answer.status, 204, "{}", answer.body);
            self.cookie = answer.cookie.expect("a session");
        }
        for more in (1..5).cycle() {
            self.asked = more;
            let answer = ask(to, "POST", "/points", &self.cookie, &json!({ "points": more }))?;
            // Sessions outlive the service.
            assert_eq!(answer.status, 200, "{}: {}", self.name, answer.body);
            let line: Value = serde_json::from_str(&answer.body)?;
            self.points = line["points"].as_u64().expect("a number");
            self.asked = 0;
        }
        Ok(())
    }

    fn may_have(&self, points: u64) -> bool {
        points == self.points || points == self.points + self.asked
    }
}

/// Checks that the heap has all answered changes.
fn look(heap: &Path, clients: &mut [Client]) {
    let heap = Heap::open(heap).expect("it is whole");
    assert!(heap.check().expect("it is open").is_clean());
    let game: Root<store::Game> = heap.root("game").expect("it is there");
    let players: HashMap<String, u64> = game
        .read(|view, game| {
            let game = &view[game];
            let of_names = game.players.iter(view).map(|(name, &player)| {
                let place = view[player].place;
                assert!(*name == view[view[player].name]);
                assert!(game.board.get(view, place) == Some(&player), "{name} is elsewhere on the board");
                (name.to_owned(), place.points)
            });
            let players: HashMap<_, _> = of_names.collect();
            assert_eq!(game.board.len(), players.len());
            for client in &*clients {
                if let Some(token) = client.cookie.strip_prefix("session=") {
                    let token = u128::from_str_radix(token, 16).expect("a token");
                    let player = game.player(view, token).expect("its session was begun");
                    assert!(view[view[player].name] == *client.name);
                }
            }
            players
        })
        .expect("it is open");
    for client in clients {
        let points = players.get(&client.name).copied().unwrap_or(0);
        assert!(client.may_have(points), "{}: {points}, after {}", client.name, client.points);
        (client.points, client.asked) = (points, 0);
    }
}

#[test]
fn what_was_answered_is_still_so_after_a_kill() {
    const ROUNDS: u64 = 4;

    let folder = tempfile::tempdir().unwrap();
    let heap = folder.path().join("game.pheap");
    let mut clients: Vec<Client> =
        (0..4).map(|i| Client { name: format!("player {i}"), ..Client::default() }).collect();
    for round in 0..ROUNDS {
        let service = Service::start(&heap);
        let (to, killed) = (service.address, AtomicBool::new(false));
        thread::scope(|scope| {
            for client in &mut clients {
                scope.spawn(|| {
                    let gone = client.play(to).unwrap_err();
                    assert!(killed.load(Ordering::Relaxed), "{gone}");
                });
            }
            thread::sleep(Duration::from_millis(60 + 70 * round));
            killed.store(true, Ordering::Relaxed);
            service.kill();
        });
        look(&heap, &mut clients);
    }

    let service = Service::start(&heap);
    let board = ask(service.address, "GET", "/board?lines=3", "", &Value::Null).unwrap();
    let lines: Vec<Value> = serde_json::from_str(&board.body).unwrap();
    let said: Vec<u64> = lines.iter().map(|line| line["points"].as_u64().unwrap()).collect();
    let mut best: Vec<u64> = clients.iter().map(|client| client.points).collect();
    best.sort_by(|a, b| b.cmp(a));
    assert_eq!(said, best[..3]);
    service.kill();
}

#[test]
fn what_the_service_answers() {
    let folder = tempfile::tempdir().unwrap();
    let service = Service::start(&folder.path().join("game.pheap"));
    let ask = |method: &str, path: &str, cookie: &str, body: Value| {
        ask(service.address, method, path, cookie, &body).expect("it answers")
    };
    assert!(ask("GET", "/", "", Value::Null).body.contains("<h1>Leaderboard</h1>"));
    assert_eq!(ask("GET", "/board", "", Value::Null).body, "[]");
    assert_eq!(ask("POST", "/login", "", json!({ "name": "" })).status, 400);
    for cookie in ["", "session=7", "session=no number"] {
        assert_eq!(ask("POST", "/points", cookie, json!({ "points": 1 })).status, 401);
    }
    let [ada, bob] = ["Ada", "Bob"]
        .map(|name| ask("POST", "/login", "", json!({ "name": name })).cookie.expect("a session"));
    for (cookie, points) in [(&ada, 3), (&bob, 5), (&ada, 2)] {
        assert_eq!(ask("POST", "/points", cookie, json!({ "points": points })).status, 200);
    }
    // Of two players with equal points, the earlier one comes first.
    let board = ask("GET", "/board", "", Value::Null).body;
    assert_eq!(board, r#"[{"name":"Ada","points":5},{"name":"Bob","points":5}]"#);
    assert_eq!(ask("POST", "/logout", &ada, json!({})).status, 204);
    assert_eq!(ask("POST", "/points", &ada, json!({ "points": 1 })).status, 401);
    assert_eq!(ask("POST", "/points", &bob, json!({ "points": 1 })).status, 200);
    service.kill();
}
