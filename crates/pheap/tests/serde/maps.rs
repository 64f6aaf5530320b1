//! Maps and sets, and their keys.

use std::collections::BTreeMap;

use pheap::{
    Import, InlineBytes, P, PBTreeMap, PBTreeSet, PHashMap, PHashSet, PSnapMap, PString, PVec, Persist, Root,
};
use proptest::prelude::*;
use serde_json::Value;

use super::{from_json, in_postcard, refused, same, to_json};
use pheap_testkit::small;

/// Imports a text into both kinds of maps, and expects it to come out again, in any order of the keys.
fn both<K: Persist, V: Persist>(text: &str)
where
    for<'r> PBTreeMap<'r, K::At<'r>, V::At<'r>>: Import<'r> + pheap::Export<'r>,
    for<'r> PHashMap<'r, K::At<'r>, V::At<'r>>: Import<'r> + pheap::Export<'r>,
{
    let heap = small().in_memory().unwrap();
    let same = |out: String| {
        let values = [text, &out].map(|text| serde_json::from_str::<Value>(text).unwrap());
        assert_eq!(values[0], values[1], "{out} for {text}");
    };
    same(to_json(&from_json::<PBTreeMap<K, V>>(&heap, "ordered", text).unwrap()));
    same(to_json(&from_json::<PHashMap<K, V>>(&heap, "hashed", text).unwrap()));
    assert!(heap.check().unwrap().is_clean());
}

#[test]
fn maps_with_versions() {
    let heap = small().in_memory().unwrap();
    let texts = r#"{"":"empty","a\nb":"lines","x":""}"#;
    assert_eq!(to_json(&from_json::<PSnapMap<P<str>, P<str>>>(&heap, "texts", texts).unwrap()), texts);
    let lists = r#"{"1":[],"70":[[1,2],[3,4]]}"#;
    assert_eq!(to_json(&from_json::<PSnapMap<u64, P<[[u8; 2]]>>>(&heap, "lists", lists).unwrap()), lists);
    let ids = r#"{"0a00":{"x":1,"y":2}}"#;
    assert_eq!(to_json(&from_json::<PSnapMap<[u8; 2], Place>>(&heap, "ids", ids).unwrap()), ids);
    let twice = from_json::<PSnapMap<u8, u8>>(&heap, "twice", r#"{"1":1,"1":2}"#).unwrap_err();
    assert!(twice.to_string().contains("duplicate key 1"), "{twice}");
    assert!(heap.check().unwrap().is_clean());
}

#[derive(Persist, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[persist(key, serde)]
#[repr(u8)]
enum Colour {
    Red,
    Green,
}

#[derive(Persist, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[persist(key, serde)]
#[repr(C)]
struct Id(u64);

#[derive(Persist, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[persist(key, serde)]
#[repr(C)]
struct Place {
    x: i32,
    y: i32,
}

#[test]
fn keys_of_all_kinds() {
    both::<u8, u8>(r#"{"0":1,"255":2}"#);
    both::<u64, bool>(r#"{"18446744073709551615":true,"7":false}"#);
    both::<i64, ()>(r#"{"-9223372036854775808":null}"#);
    both::<u128, u8>(r#"{"340282366920938463463374607431768211455":1}"#);
    both::<i128, u8>(r#"{"-170141183460469231731687303715884105728":1}"#);
    both::<bool, u8>(r#"{"true":1,"false":0}"#);
    both::<char, char>(r#"{"é":"e","\"":"'"}"#);
    both::<P<str>, P<str>>(r#"{"":"empty","a\nb":"lines"}"#);
    both::<PString, Option<P<str>>>(r#"{"some":"text","none":null}"#);
    both::<[u8; 3], u8>(r#"{"0a00ff":1,"000000":2}"#);
    both::<[u8; 0], u8>(r#"{"":1}"#);
    both::<P<[u8]>, u8>(r#"{"":1,"00":2,"0000":3}"#);
    both::<InlineBytes, InlineBytes>(r#"{"":"00","00":"","0000":"ff"}"#);
    both::<Colour, u8>(r#"{"Red":1,"Green":2}"#);
    both::<Id, u8>(r#"{"12":1}"#);
    both::<u8, u8>("{}");
}

#[test]
fn maps_of_collections() {
    both::<u8, PVec<u8>>(r#"{"1":[],"2":[1,2]}"#);
    both::<P<str>, PBTreeMap<u16, P<str>>>(r#"{"a":{},"b":{"1":"x","2":"y"}}"#);
    both::<P<str>, PHashMap<u16, PString>>(r#"{"a":{},"b":{"1":"x"}}"#);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn ordered_maps(model in any::<BTreeMap<String, Vec<u64>>>()) {
        same::<PBTreeMap<P<str>, PVec<u64>>>(&model);
        same::<PBTreeMap<PString, P<[u64]>>>(&model);
    }

    #[test]
    fn numbers_in_order(model in prop::collection::btree_map(any::<i32>(), any::<u8>(), 0..2000)) {
        same::<PBTreeMap<i32, u8>>(&model);
        both::<i32, u8>(&serde_json::to_string(&model).unwrap());
    }
}

#[test]
fn malformed() {
    assert_eq!(refused::<PHashMap<u8, u8>>(r#"{"1":2,"1":3}"#), "duplicate key 1 at line 1 column 13");
    assert_eq!(
        refused::<PBTreeMap<P<str>, u8>>(r#"{"a":2,"a":2}"#),
        r#"duplicate key "a" at line 1 column 13"#
    );
    assert_eq!(
        refused::<PBTreeMap<P<str>, PVec<u8>>>(r#"{"a":[],"b":[1,-1]}"#),
        r#"["b"][1]: invalid value: integer `-1`, expected u8 at line 1 column 17"#
    );
    assert!(refused::<PHashMap<u8, u8>>(r#"{"x":2}"#).starts_with("invalid value: "));
    assert!(refused::<PHashMap<u8, u8>>("[]").starts_with("invalid type: sequence, expected a map"));
    for text in [r#"{"0":1}"#, r#"{"0g00":1}"#, r#"{"é0":1}"#] {
        assert!(refused::<PHashMap<[u8; 2], u8>>(text).contains("expected bytes in hexadecimal"));
    }
    assert!(refused::<PHashMap<[u8; 2], u8>>(r#"{"00":1}"#).contains("expected a key of 2 bytes"));
}

#[test]
fn keys_in_other_formats() {
    // The number of entries, then a key and a value each.
    in_postcard::<PBTreeMap<u64, u8>>(r#"{"7":1}"#, &[1, 7, 1]);
    in_postcard::<PBTreeMap<P<str>, u8>>(r#"{"a":1}"#, &[1, 1, b'a', 1]);
    in_postcard::<PBTreeMap<[u8; 2], u8>>(r#"{"00ff":1}"#, &[1, 2, 0, 255, 1]);
    in_postcard::<PHashMap<P<[u8]>, u8>>(r#"{"00ff":1}"#, &[1, 2, 0, 255, 1]);
    in_postcard::<PHashMap<Colour, u8>>(r#"{"Green":1}"#, &[1, 1, 1]);
}

#[test]
fn sets() {
    same::<PBTreeSet<u8>>(&[0; 0]);
    same::<PBTreeSet<P<str>>>(&["a", "b"]);
    same::<PBTreeSet<[u8; 2]>>(&["00ff", "0100"]);
    same::<PBTreeSet<Place>>(&serde_json::json!([{"x": 1, "y": 2}, {"x": 1, "y": 3}]));
    same::<PHashSet<PString>>(&["a"]);
    same::<PHashSet<u8>>(&[0; 0]);
    in_postcard::<PBTreeSet<i16>>("[-1,2]", &[2, 1, 4]);
    let heap = small().in_memory().unwrap();
    let root: Root<PBTreeSet<PString>> = from_json(&heap, "set", r#"["b","a","b"]"#).unwrap();
    assert_eq!(to_json(&root), r#"["a","b"]"#);
    let numbers: std::collections::BTreeSet<u32> = (0..1000).map(|i| i * i).collect();
    let root: Root<PHashSet<u32>> =
        from_json(&heap, "hashed", &serde_json::to_string(&numbers).unwrap()).unwrap();
    let out: Vec<u32> = serde_json::from_str(&to_json(&root)).unwrap();
    assert_eq!(out.len(), 1000);
    assert_eq!(out.into_iter().collect::<std::collections::BTreeSet<_>>(), numbers);
    assert!(heap.check().unwrap().is_clean());
    assert_eq!(
        refused::<PBTreeSet<u8>>("[1,256]"),
        "[1]: invalid value: integer `256`, expected u8 at line 1 column 6"
    );
}

/// A struct is no key for JSON.
#[test]
fn keys_that_json_cannot_have() {
    let heap = small().in_memory().unwrap();
    let root: Root<PBTreeMap<Place, u8>> = heap.root("places").unwrap();
    root.txn(|tx, places| places.insert(tx, &Place { x: 1, y: 2 }, 3).map(|_| ())).unwrap();
    let error = root.read(|view, places| serde_json::to_string(&view.export(places))).unwrap().unwrap_err();
    assert_eq!(error.to_string(), "key must be a string");
}
