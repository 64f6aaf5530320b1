//! What cannot be imported leaves nothing.

use pheap::{Error, Heap, P, PVec, Root};

use super::types::{Couple, Everything, Metres, Nothing, Point, Shape};
use super::{from_json, refused, to_json};
use pheap_testkit::{MIB, small};

#[test]
fn malformed() {
    assert_eq!(refused::<Point>(r#"{"x":1,"#), "EOF while parsing a value at line 1 column 7");
    assert_eq!(refused::<Point>(r#"{"x":1,"y":"#), "y: EOF while parsing a value at line 1 column 11");
    assert_eq!(
        refused::<Point>(r#"{"x":1,"y":"two"}"#),
        r#"y: invalid type: string "two", expected i32 at line 1 column 16"#
    );
    assert_eq!(refused::<Point>(r#"{"x":1}"#), "missing field `y` at line 1 column 7");
    assert_eq!(refused::<Point>(r#"{"x":1,"y":2,"x":1}"#), "duplicate field `x` at line 1 column 16");
    assert_eq!(refused::<Point>("7"), "invalid type: integer `7`, expected struct Point at line 1 column 1");
    assert_eq!(
        refused::<Point>("[1]"),
        "invalid length 1, expected struct Point with 2 fields at line 1 column 3"
    );
    assert_eq!(
        refused::<Couple>("[1,true,3]"),
        "invalid length 3, expected tuple struct Couple with 2 fields at line 1 column 10"
    );
    assert_eq!(
        refused::<Couple>(r#"{"0":1,"1":true}"#),
        "invalid type: map, expected tuple struct Couple at line 1 column 0"
    );
    assert_eq!(
        refused::<Nothing>("{}"),
        "invalid type: map, expected unit struct Nothing at line 1 column 0"
    );
    assert_eq!(refused::<Metres>("null"), "invalid type: null, expected f64 at line 1 column 4");
    assert_eq!(refused::<u8>("256"), "invalid value: integer `256`, expected u8 at line 1 column 3");
    assert_eq!(
        refused::<[u8; 3]>("[1,2]"),
        "invalid length 2, expected an array of length 3 at line 1 column 5"
    );
    assert_eq!(
        refused::<[u8; 1]>("[1,2]"),
        "invalid length 2, expected an array of length 1 at line 1 column 5"
    );
    assert_eq!(refused::<P<str>>("1"), "invalid type: integer `1`, expected a string at line 1 column 1");
}

#[test]
fn malformed_enums() {
    let unknown =
        "unknown variant `Square`, expected one of `Empty`, `Circle`, `Line`, `Text`, `Group`, `Unit`, `Raw`";
    assert_eq!(refused::<Shape>(r#""Square""#), format!("{unknown} at line 1 column 8"));
    assert_eq!(refused::<Shape>(r#"{"Square":1}"#), format!("{unknown} at line 1 column 9"));
    assert_eq!(
        refused::<Shape>(r#""Circle""#),
        "Circle: invalid type: unit variant, expected newtype variant"
    );
    assert_eq!(
        refused::<Shape>(r#"{"Text":{"at":{"x":1,"y":2}}}"#),
        "Text: missing field `text` at line 1 column 28"
    );
    assert_eq!(
        refused::<Shape>(r#"{"Group":{"Line":[{"x":1,"y":2},{"x":1,"y":[]}]}}"#),
        "Group.Line.1.y: invalid type: sequence, expected i32 at line 1 column 43"
    );
}

/// Where in the data.
#[test]
fn the_path_is_told() {
    let what = refused::<PVec<Shape>>(r#"["Empty", {"Text": {"text": "x", "at": {"x": 1, "y": true}}}]"#);
    assert_eq!(what, "[1].Text.at.y: invalid type: boolean `true`, expected i32 at line 1 column 57");
    let what = refused::<P<[[u8; 2]]>>("[[1,2],[3,-4]]");
    assert_eq!(what, "[1][1]: invalid value: integer `-4`, expected u8 at line 1 column 12");
}

#[test]
fn what_to_do() {
    let heap = small().in_memory().unwrap();
    let error = from_json::<Point>(&heap, "point", "no").unwrap_err();
    assert_eq!(
        error.to_string(),
        "the data cannot be imported: expected ident at line 1 column 2; correct them, or import another type"
    );
}

fn objects(heap: &Heap) -> u64 {
    let report = heap.check().unwrap();
    assert!(report.is_clean());
    report.objects
}

/// A transaction that is aborted because of bad data leaves nothing. A transaction that goes on leaves the
/// old content.
#[test]
fn nothing_is_left() {
    let heap = small().in_memory().unwrap();
    assert!(from_json::<Everything>(&heap, "everything", r#"{"texts":["a","b"]}"#).is_err());
    assert!(heap.roots().is_empty());
    let root: Root<PVec<P<str>>> = from_json(&heap, "names", r#"["Ada","Grace"]"#).unwrap();
    let before = objects(&heap);
    let half = r#"["Edsger","Barbara""#;
    let refused = root.txn(|tx, names| {
        tx[names] = tx.import(&mut serde_json::Deserializer::from_str(half))?;
        Ok(())
    });
    assert!(matches!(refused, Err(Error::Malformed { .. })));
    assert_eq!((to_json(&root).as_str(), objects(&heap)), (r#"["Ada","Grace"]"#, before));
    root.txn(|tx, names| {
        let import = tx.import::<PVec<P<str>>, _>(&mut serde_json::Deserializer::from_str(half));
        assert!(matches!(import, Err(Error::Malformed { .. })));
        let last = tx.alloc_str("Leslie")?;
        names.push(tx, last)
    })
    .unwrap();
    assert_eq!(to_json(&root), r#"["Ada","Grace","Leslie"]"#);
    heap.collect().unwrap();
    assert!(heap.check().unwrap().is_clean());
}

/// Errors of the heap come through unchanged, from any depth.
#[test]
fn out_of_space() {
    let heap = small().max_size(3 * MIB).in_memory().unwrap();
    let root: Root<PVec<P<[P<str>]>>> = from_json(&heap, "lines", r#"[["kept"]]"#).unwrap();
    let line = serde_json::to_string(&vec!["x".repeat(1000); 100]).unwrap();
    let text = format!("[{}]", vec![line; 100].join(","));
    let error = root.txn(|tx, lines| {
        tx[lines] = tx.import(&mut serde_json::Deserializer::from_str(&text))?;
        Ok(())
    });
    assert!(matches!(error, Err(Error::OutOfSpace { .. })), "{error:?}");
    assert_eq!(to_json(&root), r#"[["kept"]]"#);
    assert!(heap.check().unwrap().is_clean());
    assert!(matches!(from_json::<PVec<P<[P<str>]>>>(&heap, "other", &text), Err(Error::OutOfSpace { .. })));
}
