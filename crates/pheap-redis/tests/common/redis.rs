//! Starts a Redis for a test. It must be installed (Debian: `redis-server`).

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::{Client, free_port};

/// A Redis process. Dropping this kills it (SIGKILL).
pub(crate) struct Redis {
    process: Child,
    port: u16,
}

impl Redis {
    /// Starts a Redis that loads `dump.rdb` of this folder, if that file exists.
    pub(crate) fn start(folder: &Path) -> Redis {
        Redis::start_with(folder, free_port(), &[])
    }

    /// Like [`Redis::start`], at this port and with more options.
    pub(crate) fn start_with(folder: &Path, port: u16, options: &[&str]) -> Redis {
        let process = Command::new("redis-server")
            .args([
                "--port",
                &port.to_string(),
                "--bind",
                "127.0.0.1",
                "--save",
                "",
                "--enable-debug-command",
                "yes",
            ])
            .args(["--dbfilename", "dump.rdb", "--dir"])
            .arg(folder)
            .args(options)
            .stdout(Stdio::null())
            .spawn()
            .expect("these tests compare with Redis: `redis-server` must be installed");
        let mut redis = Redis { process, port };
        let begun = Instant::now();
        while Client::connect(port).is_err() {
            assert!(redis.process.try_wait().unwrap().is_none(), "Redis has refused to start");
            assert!(begun.elapsed() < Duration::from_secs(60), "Redis does not start");
            sleep(Duration::from_millis(20));
        }
        let mut client = Client::connect(port).unwrap();
        // A Redis that demands a password is ready, too.
        while !["PONG", "-NOAUTH Authentication required."].contains(&client.ask("ping").as_str()) {
            sleep(Duration::from_millis(20));
        }
        let version = Command::new("redis-server").arg("--version").output().unwrap();
        let version = String::from_utf8(version.stdout).unwrap();
        assert!(version.contains("v=7.0."), "these tests compare with Redis 7.0, and this is: {version}");
        redis
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(self.port).unwrap()
    }

    /// Stops the process (SIGSTOP). Its connections stay open.
    pub(crate) fn freeze(&self) {
        self.signal("-STOP");
    }

    /// Lets a stopped process go on (SIGCONT).
    pub(crate) fn thaw(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let status = Command::new("kill").args([signal, &self.process.id().to_string()]).status().unwrap();
        assert!(status.success());
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}
