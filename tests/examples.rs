//! Some examples run to their end. (Other files here test `churn`, `index` and `kv`.)

use std::process::Command;

fn run(name: &str, flags: &[&str]) -> String {
    let output =
        Command::new(pheap_testkit::example(name)).args(flags).output().expect("the example can be run");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("the output is text")
}

#[test]
fn list() {
    assert!(run("list", &[]).contains("in the end:                  [7, 201, 20]"));
}

#[test]
fn queue() {
    assert!(run("queue", &["--rounds", "4"]).ends_with("none was done twice\n"));
}

#[test]
fn graph() {
    let said = run("graph", &["--edges", "40000", "--piece", "100", "--rounds", "4"]);
    assert!(said.contains("5000 nodes, 40000 edges") && said.contains("node 0 leads to"), "{said}");
}

#[test]
fn bank() {
    assert!(run("bank", &["--rounds", "5"]).ends_with("none was lost\n"));
}

#[test]
fn a_bank_is_there_the_next_day() {
    let dir = tempfile::tempdir().unwrap();
    let heap = dir.path().join("bank.pheap");
    for _ in 0..2 {
        let output = run("bank", &["--rounds", "1", "--threads", "2", "--heap", heap.to_str().unwrap()]);
        assert!(output.ends_with("none was lost\n"), "{output}");
    }
}
