//! TLS: redis-cli and other clients, a master, and clients that do not behave.

mod common;
mod replication;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use common::redis::Redis;
use common::{Server, converse, free_port};
use replication::{catch_up, info, until};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};

/// A folder with certificates, made by openssl, and the port at which a server speaks TLS.
struct Place {
    folder: tempfile::TempDir,
    port: u16,
}

/// Runs a command that must succeed.
fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {error}");
    output
}

impl Place {
    /// Makes two authorities, each with certificates of a server and of a client.
    fn new() -> Place {
        let place = Place { folder: tempfile::tempdir().unwrap(), port: free_port() };
        for authority in ["ca", "other"] {
            place.openssl(authority, "req -x509 -subj /CN=authority", &[]);
            for who in ["server", "client"] {
                let by = [
                    ["-CA", &place.text(&format!("{authority}.crt"))],
                    ["-CAkey", &place.text(&format!("{authority}.key"))],
                    ["-addext", "subjectAltName=IP:127.0.0.1"],
                    ["-addext", "basicConstraints=critical,CA:FALSE"],
                ];
                place.openssl(
                    &format!("{authority}-{who}"),
                    "req -x509 -subj /CN=somebody",
                    by.as_flattened(),
                );
            }
        }
        place
    }

    /// Makes a key and its certificate.
    fn openssl(&self, name: &str, what: &str, more: &[&str]) {
        run(Command::new("openssl")
            .args(what.split(' '))
            .args(["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"])
            .args(["-keyout", &self.text(&format!("{name}.key")), "-out", &self.text(&format!("{name}.crt"))])
            .args(more));
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// Starts a server with TLS and these options.
    fn start(&self, options: &[&str]) -> Server {
        let all = [
            format!("tls-port {}", self.port),
            format!("tls-cert-file {}", self.text("ca-server.crt")),
            format!("tls-key-file {}", self.text("ca-server.key")),
            format!("tls-ca-cert-file {}", self.text("ca.crt")),
        ];
        let all = all.iter().map(String::as_str).chain(options.iter().copied());
        let arguments: Vec<&str> = all.flat_map(|option| ["--set", option]).collect();
        let more = ["--durability", "process"];
        Server::start(self.folder.path(), &[&arguments[..], &more].concat())
    }

    /// Returns a command of redis-cli that trusts one of the authorities, and shows a certificate, if given.
    fn cli(&self, trusts: &str, shows: Option<&str>) -> Command {
        let mut command = Command::new("redis-cli");
        command
            .args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "--tls"])
            .args(["--cacert", &self.text(&format!("{trusts}.crt"))])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(name) = shows {
            command.args(["--cert", &self.text(&format!("{name}.crt"))]);
            command.args(["--key", &self.text(&format!("{name}.key"))]);
        }
        command
    }

    /// Runs redis-cli with a valid certificate, and returns its output.
    fn ask(&self, words: &[&str]) -> String {
        let output = run(self.cli("ca", Some("ca-client")).args(words));
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    /// Runs redis-cli with this input, and returns its output.
    fn feed(&self, words: &[&str], input: &[u8]) -> Vec<u8> {
        let path = self.path("input");
        std::fs::write(&path, input).unwrap();
        let file = std::fs::File::open(&path).unwrap();
        run(self.cli("ca", Some("ca-client")).args(words).stdin(file)).stdout
    }

    /// Returns whether redis-cli gets a reply to `PING`.
    fn is_answered(&self, trusts: &str, shows: Option<&str>) -> bool {
        let output = self.cli(trusts, shows).arg("ping").output().unwrap();
        let answer = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(answer == "PONG\n" || !answer.contains("PONG"), "{answer}");
        answer == "PONG\n"
    }
}

#[test]
fn commands_of_all_sizes() {
    let place = Place::new();
    let server = place.start(&["io-threads 2"]);
    assert_eq!(place.ask(&["set", "a", "1"]), "OK");
    assert_eq!(place.ask(&["get", "a"]), "1");
    // A client without TLS sees the same data.
    let plain = &mut server.client();
    assert_eq!(plain.ask("get a"), "1");
    // Many commands in a pipeline.
    let commands: Vec<u8> = (0..100_000).flat_map(|i| format!("SET key:{i} {i}\r\n").into_bytes()).collect();
    let told = place.feed(&["--pipe"], &commands);
    assert!(String::from_utf8_lossy(&told).contains("errors: 0, replies: 100000"));
    assert_eq!(plain.ask("get key:99999"), "99999");
    // A large value, there and back.
    let mut number = 1u32;
    let value: Vec<u8> = std::iter::repeat_with(|| {
        number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (number >> 24) as u8
    })
    .take(20 << 20)
    .collect();
    assert_eq!(place.feed(&["-x", "set", "large"], &value), b"OK\n");
    assert_eq!(plain.ask("strlen large"), (20 << 20).to_string());
    let back = run(place.cli("ca", Some("ca-client")).args(["get", "large"])).stdout;
    assert!(back.strip_suffix(b"\n") == Some(&value[..]), "{} bytes came back", back.len());
    // `CLIENT LIST` shows clients with TLS, too.
    let list = place.ask(&["client", "list"]);
    assert!(list.lines().any(|line| line.contains(&format!("laddr=127.0.0.1:{}", place.port))), "{list}");
}

#[test]
fn messages() {
    let place = Place::new();
    let server = place.start(&["io-threads 2"]);
    let mut listens = place.cli("ca", Some("ca-client")).args(["subscribe", "news"]).spawn().unwrap();
    let mut lines = BufReader::new(listens.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!([(); 3].map(|()| lines.next().unwrap()), ["subscribe", "news", "1"]);
    // The client sends nothing more, so the messages are no answers.
    for i in 0..100 {
        let text = format!("message {i} {}", "x".repeat(i * 600));
        assert_eq!(server.client().ask(&format!("publish news \"{text}\"")), "1");
        assert_eq!([(); 3].map(|()| lines.next().unwrap()), ["message", "news", &text]);
    }
    // From a client with TLS to one without.
    let other = &mut server.client();
    assert_eq!(other.ask("subscribe others"), "[subscribe others 1]");
    assert_eq!(place.ask(&["publish", "others", "hello"]), "1");
    assert_eq!(other.reply(), "[message others hello]");
    listens.kill().unwrap();
    listens.wait().unwrap();
}

#[test]
fn who_may_speak() {
    let place = Place::new();
    for (auth, without) in [("yes", false), ("optional", true), ("no", true)] {
        let _server = place.start(&[&format!("tls-auth-clients {auth}")]);
        assert!(place.is_answered("ca", Some("ca-client")), "{auth}");
        assert_eq!(place.is_answered("ca", None), without, "{auth}");
        // A certificate of an authority that the server does not trust.
        assert_eq!(place.is_answered("ca", Some("other-client")), auth == "no", "{auth}");
        // Here, the client does not trust the server.
        assert!(!place.is_answered("other", Some("ca-client")), "{auth}");
    }
}

#[test]
fn versions() {
    let place = Place::new();
    let speaks = |version: &str| {
        let output = Command::new("openssl")
            .args(["s_client", "-connect", &format!("127.0.0.1:{}", place.port), version])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        output.status.success()
    };
    for (protocols, two, three) in
        [("TLSv1.2", true, false), ("TLSv1.3", false, true), ("TLSv1.2 TLSv1.3", true, true)]
    {
        let _server = place.start(&["tls-auth-clients no", &format!("tls-protocols {protocols}")]);
        assert_eq!((speaks("-tls1_2"), speaks("-tls1_3")), (two, three), "{protocols}");
        assert!(!speaks("-tls1_1"));
    }
}

#[test]
fn a_client_that_is_not_redis_cli() {
    let place = Place::new();
    let server = place.start(&[]);
    let roots = Arc::new({
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(place.path("ca.crt")).unwrap()).unwrap();
        roots
    });
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let config = rustls::ClientConfig::builder_with_protocol_versions(&[version])
            .with_root_certificates(roots.clone())
            .with_client_auth_cert(
                vec![CertificateDer::from_pem_file(place.path("ca-client.crt")).unwrap()],
                PrivateKeyDer::from_pem_file(place.path("ca-client.key")).unwrap(),
            )
            .unwrap();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let tls = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
        let socket = TcpStream::connect(("127.0.0.1", place.port)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        let mut client = rustls::StreamOwned::new(tls, socket);
        // Half a command, and the rest in another record.
        client.write_all(b"SET key ").unwrap();
        client.write_all(b"value\r\nGET key\r\n").unwrap();
        let mut answer = [0; 16];
        client.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"+OK\r\n$5\r\nvalue\r\n");
        // The server closes TLS properly: else the read would fail.
        client.write_all(b"QUIT\r\n").unwrap();
        let mut rest = String::new();
        client.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "+OK\r\n");
    }
    assert_eq!(server.client().ask("get key"), "value");
}

#[test]
fn a_master_that_speaks_it() {
    let place = Place::new();
    let theirs = tempfile::tempdir().unwrap();
    let [cert, key, ca] = ["ca-server.crt", "ca-server.key", "ca.crt"].map(|name| place.text(name));
    let (tls_port, plain) = (place.port.to_string(), free_port());
    let options = ["--tls-port", &tls_port, "--tls-cert-file", &cert, "--tls-key-file", &key];
    let options = [&options[..], &["--tls-ca-cert-file", &ca, "--repl-diskless-sync-delay", "0"]].concat();
    let redis = Redis::start_with(theirs.path(), plain, &options);
    let mut master = redis.client();
    converse(&mut master, &[("debug populate 20000 many 1000", "OK"), ("set a 1", "OK")]);
    let follow = |authority: &str, host: &str| {
        let named = |what: &str, name: String| format!("tls-{what}-file {}", place.text(&name));
        let all = [
            "tls-replication yes".to_owned(),
            named("cert", "ca-client.crt".into()),
            named("key", "ca-client.key".into()),
            named("ca-cert", format!("{authority}.crt")),
        ];
        let arguments: Vec<&str> = all.iter().flat_map(|option| ["--set", option]).collect();
        let more = ["--durability", "process", "--replicaof", host, &tls_port];
        Server::start(place.folder.path(), &[&arguments[..], &more].concat())
    };
    // The master's certificate is of another authority, or for another name.
    for (authority, host) in [("other", "127.0.0.1"), ("ca", "localhost")] {
        let server = follow(authority, host);
        let mut replica = server.client();
        until("the master was refused", || {
            let told = replica.ask("info replication");
            told.lines().any(|line| line.starts_with("master_link_error:") && line.contains("certificate"))
        });
        assert_eq!(replica.ask("dbsize"), "0");
    }
    let server = follow("ca", "127.0.0.1");
    let mut replica = server.client();
    catch_up(&mut master, &mut replica);
    converse(&mut replica, &[("get a", "1"), ("dbsize", "20002")]);
    for i in 0..1000 {
        master.ask(&format!("set key:{i} {}", "x".repeat(i * 50)));
    }
    catch_up(&mut master, &mut replica);
    assert_eq!(replica.ask("strlen key:999"), (999 * 50).to_string());
    // After a restart, the replica gets only what it has missed.
    drop(server);
    master.ask("set a 2");
    let server = follow("ca", "127.0.0.1");
    let mut replica = server.client();
    catch_up(&mut master, &mut replica);
    assert_eq!(replica.ask("get a"), "2");
    assert_eq!(info(&mut master, "stats", "sync_full"), "1");
}

/// Reads until the server closes or resets the connection.
fn rest(mut stream: TcpStream) -> Vec<u8> {
    stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    let mut all = Vec::new();
    match stream.read_to_end(&mut all) {
        Err(error) if error.kind() != std::io::ErrorKind::ConnectionReset => panic!("{error}"),
        _ => all,
    }
}

#[test]
fn those_who_do_not_behave_disturb_nobody() {
    let place = Place::new();
    let server = place.start(&[]);
    let connect = || TcpStream::connect(("127.0.0.1", place.port)).unwrap();
    // Some clients send the first bytes of a handshake only, others send nothing.
    let mut slow: Vec<TcpStream> = (0..50).map(|_| connect()).collect();
    for stream in &mut slow[..25] {
        stream.write_all(&[0x16, 0x03, 0x01, 0x02, 0x00, 0x01]).unwrap();
    }
    assert_eq!(place.ask(&["set", "a", "1"]), "OK");
    assert_eq!(server.client().ask("get a"), "1");
    // One more byte changes nothing.
    slow[0].write_all(&[0x00]).unwrap();
    assert_eq!(place.ask(&["get", "a"]), "1");
    // A client that does not speak TLS gets no answer, at most an alert.
    let mut plain = connect();
    plain.write_all(b"SET a 2\r\nGET a\r\n").unwrap();
    let told = rest(plain);
    assert!(told.is_empty() || told.first() == Some(&0x15), "{told:?}");
    // Nor does a client that speaks TLS at the other port.
    let mut command = place.cli("ca", Some("ca-client"));
    let output = command.args(["-p", &server.port().to_string(), "get", "a"]).output().unwrap();
    assert!(!String::from_utf8_lossy(&output.stdout).contains('1'));
    // Clients that leave during the handshake are gone.
    drop(slow);
    let mut clients = server.client();
    while clients.ask("client list").lines().count() > 1 {}
    assert_eq!(clients.ask("get a"), "1");
}

#[test]
fn what_is_wrong_with_certificates() {
    let place = Place::new();
    let (cert, key, ca) = (place.text("ca-server.crt"), place.text("ca-server.key"), place.text("ca.crt"));
    let refused = |options: &[String], expected: &str| {
        let all = [&[format!("tls-port {}", place.port)], options].concat();
        let mut command = Command::new(env!("CARGO_BIN_EXE_pheap-redis"));
        command.args(["--port", "0", "--heap"]).arg(place.path("heap"));
        command.args(all.iter().flat_map(|option| ["--set", option]));
        let output = command.output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && error.contains(expected), "{error}");
        assert!(!Path::new(&place.path("heap")).exists());
    };
    let option = |name: &str, value: &str| format!("tls-{name} {value}");
    refused(
        &[],
        "tls-ca-cert-file is not; set it to the file with the certificates of the clients' authorities",
    );
    refused(&[option("auth-clients", "no")], "tls-cert-file is not");
    refused(&[option("ca-cert-file", &ca), option("cert-file", &cert)], "tls-key-file is not");
    let both = [option("ca-cert-file", &ca), option("cert-file", &cert)];
    let with = |more: String| [&both[..], &[more]].concat();
    refused(&with(option("key-file", "/absent")), "tls-key-file /absent: ");
    refused(&with(option("key-file", &cert)), "it must be a file in PEM format");
    refused(
        &with(option("key-file", &place.text("ca.key"))),
        "tls-cert-file and tls-key-file cannot be used",
    );
    let protocols = [with(option("key-file", &key)), vec![option("protocols", "SSLv3")]].concat();
    refused(&protocols, "'SSLv3' is not known here; give TLSv1.2, TLSv1.3 or both");
}
