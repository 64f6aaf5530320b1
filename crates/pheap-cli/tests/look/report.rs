//! `pheap report`.

use std::fs;

use pheap::{Result, Root, field};
use serde_json::{Value, json};

use crate::heap::{Place, Shop, ends_with, json, options, pheap, text};

#[test]
fn a_report_says_where_the_bytes_are() -> Result<()> {
    let place = Place::new();
    let heap = options().open(&place.heap)?;
    let shop: Root<Shop> = heap.existing_root("shop")?;
    shop.txn(|tx, shop| {
        for number in 0..1000 {
            field!(shop.jobs).remove(tx, number);
        }
        tx.alloc_slice(5000, |i| i as u64).map(drop) // to which nothing refers
    })?;
    drop(shop);
    heap.close()?;
    let report = json("report", &place.heap, &["--json"]);
    let stats = json("stats", &place.heap, &["--json"]);
    assert_eq!((&report["objects"], &report["clean"]), (&stats["objects"], &json!(true)));
    let bytes = report["bytes"].as_object().unwrap();
    let sum: u64 = bytes.values().map(|bytes| bytes.as_u64().unwrap()).sum();
    assert_eq!((sum, &bytes["live"]), (fs::metadata(&place.heap).unwrap().len(), &stats["bytes"]));
    assert!(bytes["garbage"].as_u64().unwrap() >= 40_000, "{bytes:?}");
    let jobs = report["usage"].as_array().unwrap().iter().find(|usage| usage["type"] == "Job").unwrap();
    assert_eq!(
        (&jobs["root"], &jobs["objects"]),
        (&json!("shop"), &json!(2001)),
        "job 0 is the parent of others"
    );
    let of_parts = report["parts"]["use"].as_array().unwrap();
    let in_parts: u64 = of_parts.iter().map(|part| part[1].as_u64().unwrap()).sum();
    assert!(in_parts <= bytes["live"].as_u64().unwrap() && in_parts > bytes["live"].as_u64().unwrap() / 2);
    let growth = report["growth"].as_array().unwrap();
    assert_eq!(growth.iter().map(|bytes| bytes.as_u64().unwrap()).sum::<u64>(), sum);
    let largest = report["largest"].as_array().unwrap();
    assert!(largest.windows(2).all(|two| two[0]["bytes"].as_u64() >= two[1]["bytes"].as_u64()));
    assert!(largest.len() == 24 && largest[0]["bytes"].as_u64().unwrap() > 1000);
    Ok(())
}

#[test]
fn a_report_is_one_page() {
    let place = Place::new();
    let path = place.path("heap.html");
    let output = path.to_str().unwrap();
    assert_eq!(text("report", &place.heap, &["-o", output, "--objects", "100"]), "");
    let page = fs::read_to_string(&path).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
    // Nothing is loaded from anywhere.
    for other in ["http:", "https:", "src=", "@import", "url(", "<link"] {
        let namespace = "http://www.w3.org/2000/svg";
        assert!(!page.replace(namespace, "").contains(other), "{other}");
    }
    assert!(page.contains("default-src 'none'"));
    let data = page.split("id=\"data\">").nth(1).and_then(|rest| rest.split("</script>").next()).unwrap();
    let data: Value = serde_json::from_str(data).unwrap();
    let nodes = data["nodes"].as_array().unwrap();
    assert!((60..=100).contains(&nodes.len()), "{}", nodes.len());
    assert!(nodes.iter().any(|node| node[0] == "Job" && node[3][0][1] == "\"job 20\""));
    // A name cannot end the element.
    let evil = place.path("</script><b>.pheap");
    if let Ok(()) = fs::create_dir_all(evil.parent().unwrap())
        && fs::copy(&place.heap, &evil).is_ok()
    {
        let page = text("report", &evil, &[]);
        assert!(page.matches("</script>").count() == 2 && page.contains("\\u003cb>"));
    }
}

#[test]
fn a_report_of_a_damaged_heap_has_its_problems() {
    let place = Place::with(100);
    let mut bytes = fs::read(&place.heap).unwrap();
    let at = bytes.windows(6).rposition(|text| text == b"job 42").unwrap();
    bytes[at] = 0xff;
    let damaged = place.path("damaged");
    fs::write(&damaged, &bytes).unwrap();
    let report: Value = serde_json::from_str(&ends_with(&pheap("report", &damaged, &["--json"]), 1)).unwrap();
    assert_eq!((&report["clean"], report["problems"].as_array().unwrap().len()), (&json!(false), 1));
    assert!(report["problems"][0].as_str().unwrap().contains("not UTF-8"), "{report}");
}
