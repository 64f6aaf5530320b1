//! `pheap diff`.

use std::path::Path;

use pheap::{PHashMap, PString, Persist, Result, Root, field};
use serde_json::json;

use crate::heap::{Place, Shop, State, ends_with, make, options, pheap};

fn diff(a: &Path, b: &Path, more: &[&str], status: i32) -> String {
    ends_with(&pheap("diff", a, &[&[b.to_str().unwrap()], more].concat()), status)
}

#[test]
fn heaps_with_the_same_values_are_the_same() -> Result<()> {
    let place = Place::with(200);
    let other = place.path("other");
    // With another secret of its hash maps, so their entries come in another order.
    make(&other, 200)?;
    assert_eq!(diff(&place.heap, &other, &[], 0), "");
    let copy = place.path("copy");
    std::fs::copy(&place.heap, &copy).unwrap();
    assert_eq!(diff(&place.heap, &copy, &[], 0), "");
    assert_eq!(diff(&place.heap, &copy, &["shop.jobs..len"], 0), "");
    let itself = ends_with(&pheap("diff", &place.heap, &[place.heap.to_str().unwrap()]), 2);
    assert!(itself.contains("was given twice"), "{itself}");
    Ok(())
}

#[test]
fn differences_have_paths() -> Result<()> {
    let place = Place::with(200);
    let other = place.path("other");
    make(&other, 200)?;
    let heap = options().open(&other)?;
    let shop: Root<Shop> = heap.existing_root("shop")?;
    shop.txn(|tx, shop| {
        let job = *tx[shop].jobs.get(tx, &42).expect("it is there");
        tx[job].state = State::Done(1);
        field!(shop.jobs).remove(tx, 43);
        let job = *tx[shop].jobs.get(tx, &7).expect("it is there");
        let name = PString::from_str(tx, "a job")?;
        tx[job].name = name;
        field!(shop.tags).insert(tx, 1)?;
        let line = PString::from_str(tx, "more")?;
        field!(shop.log).push(tx, line)?;
        let owners = tx.alloc(PHashMap::new())?;
        field!(shop.by_owner).insert(tx, "eve", owners)?;
        let ring = tx[shop].ring.expect("it is there");
        tx[ring].next = Some(ring);
        Ok(())
    })?;
    #[derive(Persist, Default)]
    #[repr(C)]
    struct New {
        x: u32,
    }
    heap.root::<New>("new")?;
    drop(shop);
    heap.close()?;
    let text = diff(&place.heap, &other, &[], 1);
    for line in [
        "+ type New: New { x: u32 @0 }, 4 bytes, aligned to 4",
        "+ new: root of type New",
        "~ shop.jobs[42].state: \"Waiting\" → {\"Done\":{\"0\":1}}",
        "- shop.jobs[43]: →Job",
        "~ shop.jobs[7].name: \"job 7\" → \"a job\"",
        "+ shop.tags[1]: null",
        "+ shop.log[3]: \"more\"",
        "+ shop.by_owner[eve]: →PHashMap<SharedStr, u32>",
    ] {
        assert!(text.lines().any(|other| other == line), "{line:?} is not in {text}");
    }
    assert!(
        text.contains("~ shop.ring.next: →Ring") || text.contains("~ shop.ring.next.number: 2 → 1"),
        "{text}"
    );
    let part = diff(&place.heap, &other, &["shop.log", "--json"], 1);
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&part).unwrap(),
        json!({
            "same": false, "types": [], "more": 0,
            "values": [{ "path": "shop.log[3]", "a": null, "b": "\"more\"" }],
        })
    );
    let few = diff(&place.heap, &other, &["--most", "2"], 1);
    assert!(few.lines().count() == 4 && few.contains("more; see `--most`"), "{few}");
    Ok(())
}
