//! Runs the example `churn` for a while, in some tests with kills. It fails if the file does not stay small,
//! or the content is wrong. Run the example by itself for ten million replacements, and for figures.

use std::process::Command;

fn churn(flags: &[&str]) {
    let small = ["--live-mib", "4", "--arena-mib", "1", "--limit", "8"];
    let output = Command::new(pheap_testkit::example("churn"))
        .args(small)
        .args(flags)
        .output()
        .expect("it can be run");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("the heap is sound"), "{output:?}");
    println!("{said}");
}

#[test]
fn nothing_is_freed_by_hand() {
    churn(&["--replacements", "100000"]);
    churn(&["--replacements", "50000", "--pmem", "--seed", "2"]);
}

#[test]
fn nothing_is_lost_by_kills() {
    churn(&["--replacements", "50000", "--kill-every", "8000"]);
}

#[test]
fn nothing_is_lost_by_kills_on_the_move() {
    churn(&["--replacements", "50000", "--kill-every", "8000", "--move-about"]);
}
