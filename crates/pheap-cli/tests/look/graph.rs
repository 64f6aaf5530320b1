//! `pheap graph`.

use std::fs;

use serde_json::json;

use crate::heap::{Place, ends_with, json, pheap, text};

/// Returns the names of all elements of a text in XML. Asserts that each is closed.
fn elements(xml: &str) -> Vec<&str> {
    let (mut all, mut open) = (Vec::new(), Vec::new());
    for part in xml.split('<').skip(1) {
        let (tag, text) = part.split_once('>').expect("a tag ends");
        assert!(!text.contains('&') || text.contains(';'), "{text}");
        let name = tag.trim_matches('/').split_whitespace().next().unwrap_or_default();
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name));
            continue;
        }
        all.push(name);
        if !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert!(open.is_empty());
    all
}

#[test]
fn objects_and_pointers_are_drawn() {
    let place = Place::with(3);
    let graph = json("graph", &place.heap, &["--json"]);
    let nodes = graph["nodes"].as_array().unwrap();
    let titles: Vec<&str> = nodes.iter().map(|node| node["title"].as_str().unwrap()).collect();
    assert_eq!(titles[..4], ["shop", "Shop", "versions", "PSnapMap<u32, u64>"]);
    let job = |name: &str| {
        let has = |node: &&serde_json::Value| node["rows"][0]["value"] == format!("\"{name}\"");
        nodes.iter().find(has).unwrap()
    };
    let first = nodes.iter().position(|node| node["rows"][0]["value"] == "\"job 0\"").unwrap();
    assert_eq!(job("job 2")["title"], "Job");
    assert_eq!(
        job("job 2")["rows"],
        json!([
            { "name": "name", "value": "\"job 2\"", "to": null },
            { "name": "state", "value": "Done", "to": null },
            { "name": "state.0", "value": "-2", "to": null },
            { "name": "retries", "value": "2", "to": null },
            { "name": "parent", "value": "", "to": first },
        ])
    );
    // The ring leads back.
    let ring = titles.iter().position(|title| *title == "Ring").unwrap();
    let second = nodes[ring]["rows"][1]["to"].as_u64().unwrap() as usize;
    assert_eq!(nodes[second]["rows"][1]["to"], ring);
    assert_eq!(graph["left_out"], 0);

    let dot = text("graph", &place.heap, &["shop.ring"]);
    assert!(dot.starts_with("digraph heap {") && dot.ends_with("}\n"), "{dot}");
    for line in ["n1:r1:e -> n2:head:w;", "n2:r1:e -> n1:head:w;", "<B>shop.ring</B>", "<B>Ring</B>"] {
        assert!(dot.contains(line), "{line} is not in {dot}");
    }

    let picture = place.path("heap.svg");
    assert_eq!(text("graph", &place.heap, &["-o", picture.to_str().unwrap()]), "");
    let picture = fs::read_to_string(picture).unwrap();
    let elements = elements(&picture);
    let count = |name: &str| elements.iter().filter(|element| **element == name).count();
    assert_eq!((elements[0], count("g")), ("svg", nodes.len()));
    let pointers: usize = nodes
        .iter()
        .map(|node| node["rows"].as_array().unwrap().iter().filter(|row| row["to"].is_u64()).count())
        .sum();
    assert_eq!(picture.matches("class=\"edge").count(), pointers);
    assert!(
        picture.contains("prefers-color-scheme: dark")
            && picture.contains("PBTreeSet") == titles.contains(&"PBTreeSet")
    );
}

#[test]
fn a_picture_is_cut_off() {
    let place = Place::new();
    let graph = json("graph", &place.heap, &["--json", "--nodes", "10", "--items", "20"]);
    assert_eq!(graph["nodes"].as_array().unwrap().len(), 10);
    assert!(graph["left_out"].as_u64().unwrap() > 10);
    let rows = graph["nodes"][1]["rows"].as_array().unwrap();
    assert!(rows.len() <= 90 && rows.iter().any(|row| row["value"] == "… 2980 more"), "{rows:?}");
    let picture = text("graph", &place.heap, &["--format", "svg", "--nodes", "3"]);
    assert!(picture.contains("more objects are not shown; see --nodes"));
    elements(&picture);
    let message = ends_with(&pheap("graph", &place.heap, &["shop.jobs..len"]), 2);
    assert!(message.contains("no object that could be drawn"), "{message}");
}
