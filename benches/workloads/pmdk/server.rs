//! A process that has a pool, and repeats its workload whenever it is told to.

use crate::measure::{Checksum, Sample};
use crate::{Result, Setup};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use tempfile::TempDir;

pub(super) struct Server {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// Has the pool.
    _dir: TempDir,
}

impl Server {
    pub(super) fn start(
        program: &Path,
        setup: &Setup,
        bench: &str,
        variant: &str,
        n: u64,
        threads: u64,
    ) -> Result<Server> {
        let dir = setup.folder()?;
        let mut child = Command::new(program)
            .args(["--serve", "1", "--threads", &threads.to_string(), bench, variant, &n.to_string()])
            .env("PHEAP_BENCH_DIR", dir.path())
            // Or else libpmem would call `msync` where there is no DAX.
            .env("PMEM_IS_PMEM_FORCE", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let requests = child.stdin.take().ok_or("its input is piped")?;
        let answers = BufReader::new(child.stdout.take().ok_or("its output is piped")?);
        Ok(Server { child, requests, answers, _dir: dir })
    }

    /// `passes` repetitions.
    pub(super) fn run(&mut self, passes: u64) -> Result<Sample> {
        writeln!(self.requests, "{passes}")?;
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            return Err("the program has ended".into());
        }
        let answer: Value = serde_json::from_str(&line)?;
        let seconds = answer["seconds"].as_f64().ok_or("an answer has seconds")?;
        let checksum = match &answer["checksum"] {
            sum if sum.is_u64() => sum.as_u64().map(|sum| Checksum::Int(sum.into())),
            sum if sum.is_i64() => sum.as_i64().map(|sum| Checksum::Int(sum.into())),
            sum => sum.as_f64().map(Checksum::Float),
        };
        Ok(Sample { seconds, checksum, ..Sample::default() })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has nothing to lose: the directory of the pool is deleted. Errors mean that it is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
