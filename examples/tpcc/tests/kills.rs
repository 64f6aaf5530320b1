//! Kills runs with a small company: no reported order is lost, and all conditions hold.

use std::path::Path;
use std::process::Command;

fn tpcc(command: &str, path: &Path, durability: &str, flags: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_tpcc"))
        .args([command, "--durability", durability, "--path"])
        .arg(path)
        .args(flags)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn kill(durability: &str, flags: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tpcc.pheap");
    tpcc("load", &path, durability, &["--warehouses", "2", "--items", "500", "--customers", "50"]);
    let run = ["--threads", "2", "--seconds", "60", "--kills", "3"];
    let said = tpcc("run", &path, durability, &[&run, flags].concat());
    assert!(said.ends_with("all conditions held each time\n"), "{said}");
    let said = tpcc("check", &path, durability, &[]);
    assert!(said.starts_with("all conditions hold"), "{said}");
}

#[test]
fn nothing_is_lost_with_pmem() {
    kill("pmem", &[]);
}

#[test]
fn nothing_is_lost_with_a_log() {
    kill("wal", &[]);
}

#[test]
fn nothing_that_was_reported_is_lost_with_shared_syncs() {
    kill("wal", &["--outstanding", "100"]);
}

#[test]
fn more_threads_than_warehouses_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tpcc.pheap");
    tpcc("load", &path, "process", &["--warehouses", "1", "--items", "100", "--customers", "10"]);
    let output = Command::new(env!("CARGO_BIN_EXE_tpcc"))
        .args(["run", "--threads", "2", "--path"])
        .arg(&path)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.contains("more threads than warehouses"), "{said}");
}
