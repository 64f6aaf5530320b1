//! The output of the program for a heap with collections.

#![allow(unreachable_pub)] // nothing outside could reach anything

mod damage;
mod diff;
mod get;
mod graph;
mod heap;
mod report;

use heap::{Place, json, text};
use serde_json::json;

#[test]
fn collections_are_shown_as_what_they_are() {
    let place = Place::with(4);
    let mut shop = json("dump", &place.heap, &["shop"]);
    let first = shop["jobs"]["0"]["$id"].clone();
    let parent = json!({ "$ref": first });
    assert_eq!(
        shop["jobs"].take(),
        json!({
            "0": { "$id": first, "name": "job 0", "state": "Waiting", "retries": 0, "parent": null },
            "1": { "name": "job 1", "state": { "Running": { "worker": 1 } }, "retries": null, "parent": parent },
            "2": { "name": "job 2", "state": { "Done": { "0": -2 } }, "retries": 2, "parent": parent },
            "3": { "name": "job 3", "state": "Waiting", "retries": null, "parent": parent },
        })
    );
    assert_eq!(shop["by_owner"]["ada"], json!({ "k0": 0, "k1": 1, "k2": 2 }));
    let bob = shop["by_owner"]["bob"].as_object().unwrap();
    assert_eq!((bob.len(), &bob["k39"]), (40, &json!(39)));
    assert_eq!(shop["tags"], json!([0, 2, 4, 6]));
    assert_eq!(shop["words"], json!(["apple", "fig", "pear"]));
    assert_eq!(shop["waiting"], json!([4, 5, 10, 11, 12, 13, 14]));
    assert_eq!(shop["log"][1], "saw \"apple\", once");
    assert_eq!(
        shop["points"],
        json!([{ "key": { "0": -1, "1": 5 }, "value": -0.5 }, { "key": { "0": 1, "1": 2 }, "value": 0.5 }])
    );
    let ring = shop["ring"]["$id"].clone();
    assert_eq!(shop["ring"]["next"], json!({ "number": 2, "next": { "$ref": ring } }));
    assert_eq!((&shop["raw"], &shop["text"]), (&json!({ "$bytes": "009f9296" }), &json!("abcd")));
    assert_eq!(shop["odd"], json!([7, null]));
    let versions = json("dump", &place.heap, &["versions"]);
    assert_eq!((versions.as_object().unwrap().len(), &versions["199"]), (200, &json!(1990)));
}

#[test]
fn large_collections_are_shown_whole() {
    let place = Place::new();
    let shop = json("dump", &place.heap, &["shop"]);
    let jobs = shop["jobs"].as_object().unwrap();
    assert_eq!((jobs.len() as u64, shop["tags"].as_array().unwrap().len() as u64), (heap::JOBS, heap::JOBS));
    assert!((0..heap::JOBS).all(|i| jobs[&i.to_string()]["name"] == format!("job {i}")));
    let some = json("dump", &place.heap, &["shop", "--items", "2"]);
    assert_eq!(
        (&some["jobs"]["1"]["name"], &some["jobs"]["$more"]),
        (&json!("job 1"), &json!(heap::JOBS - 2))
    );
    assert_eq!(some["waiting"], json!([4, 5, { "$more": 5 }]));
}

#[test]
fn a_dump_has_a_line_for_each_element() {
    let place = Place::with(4);
    let lines = text("dump", &place.heap, &["shop.jobs", "--format", "jsonl"]);
    let lines: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 4);
    assert_eq!((&lines[2]["key"], &lines[2]["value"]["name"]), (&json!(2), &json!("job 2")));
    // Each line stands for itself.
    assert_eq!(lines[3]["value"]["parent"]["name"], "job 0");
    assert_eq!(
        text("dump", &place.heap, &["shop.words", "--format", "jsonl"]),
        "\"apple\"\n\"fig\"\n\"pear\"\n"
    );
    assert_eq!(text("dump", &place.heap, &["shop.waiting", "--format", "jsonl", "--items", "2"]), "4\n5\n");
    let table = text("dump", &place.heap, &["shop.jobs", "--format", "csv", "--depth", "0"]);
    let rows: Vec<&str> = table.lines().collect();
    assert_eq!(rows[..2], ["key,name,state,retries,parent", "0,job 0,Waiting,0,"]);
    assert!(
        rows[2].starts_with("1,job 1,\"{\"\"Running\"\":{\"\"worker\"\":1}}\",,\"{\"\"$ref\"\":"),
        "{table}"
    );
    assert_eq!(
        text("dump", &place.heap, &["shop.log", "--format", "csv"]).lines().nth(1),
        Some("\"saw \"\"pear\"\", once\"")
    );
    let all = heap::pheap("dump", &place.heap, &["shop", "--format", "csv"]);
    let message = heap::ends_with(&all, 2);
    assert!(message.contains("leads to a struct `Shop`; it has `.jobs`, `.by_owner`"), "{message}");
}
