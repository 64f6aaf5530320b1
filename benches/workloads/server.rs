//! Peers: programs in other languages that answer each line of standard input with a JSON object.

use crate::Result;
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use tempfile::TempDir;

pub(crate) struct Server {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// The directory of its files.
    _dir: TempDir,
}

impl Server {
    pub(crate) fn start(command: &mut Command, dir: TempDir) -> Result<Server> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let requests = child.stdin.take().ok_or("its input is piped")?;
        let answers = BufReader::new(child.stdout.take().ok_or("its output is piped")?);
        Ok(Server { child, requests, answers, _dir: dir })
    }

    /// Sends a request. Returns the answer. Skips lines that are no objects, because libraries may print
    /// text.
    pub(crate) fn ask(&mut self, request: &str) -> Result<Value> {
        writeln!(self.requests, "{request}")?;
        let mut line = String::new();
        while !line.starts_with('{') {
            line.clear();
            if self.answers.read_line(&mut line)? == 0 {
                return Err("the program has ended".into());
            }
        }
        Ok(serde_json::from_str(&line)?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process has no state worth keeping, because its directory is deleted. An error means that it
        // has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
