//! `pheap get`.

use serde_json::json;

use crate::heap::{Place, ends_with, json, pheap, text};

#[test]
fn paths_lead_to_values() {
    let place = Place::with(50);
    let get = |path: &str| text("get", &place.heap, &[path]);
    assert_eq!(get("shop.jobs[42].name"), "job 42\n");
    assert_eq!(get("shop.jobs[43].state.Running.worker"), "43\n");
    assert_eq!(get("shop.jobs.43.state.worker"), "43\n");
    assert_eq!(get("shop.jobs[43].parent.name"), "job 0\n");
    assert_eq!(get("shop.jobs[3].retries"), "null\n");
    assert_eq!(get("shop.jobs..len"), "50\n");
    assert_eq!(get("shop.by_owner.bob[\"k7\"]"), "7\n");
    assert_eq!(get("shop.waiting[0]"), "4\n");
    assert_eq!(get("shop.waiting[-1]"), "14\n");
    assert_eq!(get("shop.waiting[1..3]"), "5\n10\n");
    assert_eq!(get("shop.points[{\"0\": -1, \"1\": 5}]"), "-0.5\n");
    assert_eq!(get("shop.words[fig]"), "fig\n");
    assert_eq!(get("shop.text[1]"), "98\n");
    assert_eq!(get("shop.ring.next.next.number"), "1\n");
    assert_eq!(get("shop.jobs[1]..type"), "Job\n");
    assert_eq!(get("shop.jobs[1]..keys"), "name\nstate\nretries\nparent\n");
    assert_eq!(get("shop.by_owner..type"), "PHashMap<P<str>, P<PHashMap<SharedStr, u32>>>\n");
    assert_eq!(get("versions[7]"), "70\n");
    assert_eq!(get("shop.log[*]"), "saw \"pear\", once\nsaw \"apple\", once\nsaw \"fig\", once\n");
    assert_eq!(get("shop.jobs[*].name").lines().count(), 50);
    assert_eq!(text("get", &place.heap, &["shop.jobs[42].name", "--json"]), "\"job 42\"\n");
    let job = json("get", &place.heap, &["shop.jobs[1]", "--depth", "0"]);
    assert_eq!((&job["name"], &job["state"]), (&json!("job 1"), &json!({ "Running": { "worker": 1 } })));
    assert!(job["parent"]["$ref"].is_string());
}

#[test]
fn what_is_there_instead_is_said() {
    let place = Place::with(50);
    for (path, says) in [
        ("shop.job", "`shop` is a struct `Shop`, which has no field `job`; is it `jobs`?"),
        (
            "shop.jobs[1].owner",
            "`shop.jobs[1]` is a struct `Job`, which has no field `owner`; it has `name`, `state`, `retries`, `parent`",
        ),
        (
            "shop.jobs[99]",
            "`shop.jobs` is a `PBTreeMap<u64, P<Job>>` of 50 entries, which has no key `99`; there are keys such as `0`, `1`, `2`",
        ),
        ("shop.waiting[7]", "`shop.waiting` is a `PVecDeque<u16>` of 7 elements: there is no [7]"),
        ("shop.waiting.first", "its elements are `shop.waiting[0]` and so on"),
        ("shop.jobs[0].parent.name", "`shop.jobs[0].parent` is null"),
        ("shop.jobs[0].name.x", "is a text of 5 bytes, which has no field `x`"),
        ("shop.jobs[1].state.Done", "is the variant `Running` of `State`, which has no field `Done`"),
        ("shop.jobs[1]..len", "has no length"),
        ("shop.jobs..size", "there is no `..size`"),
        ("shop.jobs[1", "a `]` is missing"),
        ("nothing.at.all", "there is no root \"nothing\"; there are \"shop\", \"versions\""),
    ] {
        let message = ends_with(&pheap("get", &place.heap, &[path]), 2);
        assert!(message.contains(says), "{path}: {message}");
    }
}
