//! Values that are exported and imported again are the same.

use pheap::exchange::Importer;
use pheap::{P, PString, PVec, PVecDeque, Root, field};
use proptest::prelude::*;
use serde::de::{DeserializeSeed, Deserializer};

use super::types::{self, model};
use super::{Text, from_json, refused, same, to_json};
use pheap_testkit::both;

fn point() -> impl Strategy<Value = model::Point> {
    (any::<i32>(), any::<i32>()).prop_map(|(x, y)| model::Point { x, y })
}

/// Finite: JSON has no others.
fn number() -> impl Strategy<Value = f64> {
    any::<f64>().prop_filter("finite", |x| x.is_finite())
}

fn shape() -> impl Strategy<Value = model::Shape> {
    let leaf = prop_oneof![
        Just(model::Shape::Empty),
        Just(model::Shape::Unit {}),
        number().prop_map(model::Shape::Circle),
        (point(), point()).prop_map(|(a, b)| model::Shape::Line(a, b)),
        (point(), any::<String>()).prop_map(|(at, text)| model::Shape::Text { at, text }),
        any::<u8>().prop_map(|r#fn| model::Shape::Raw { r#fn }),
    ];
    leaf.prop_recursive(3, 6, 1, |inner| {
        prop::option::of(inner).prop_map(|shape| model::Shape::Group(shape.map(Box::new)))
    })
}

fn link() -> impl Strategy<Value = model::Link> {
    // As data, a link is its target: nothing, in the end.
    Just(model::Link(None))
}

prop_compose! {
    fn numbers()(
        unsigned in any::<(u8, u16, u32, u64, u128)>(),
        signed in any::<(i8, i16, i32, i64, i128)>(),
        floats in (any::<f32>().prop_filter("finite", |x| x.is_finite()), number(), number(), number()),
        others in any::<(bool, char, [i16; 3], [u8; 5])>(),
        large in any::<[u64; 20]>(),
    ) -> (
        (u8, u16, u32, u64, u128), (i8, i16, i32, i64, i128), (f32, f64, f64, f64), (bool, char, [i16; 3], [u8; 5]), [u64; 20],
    ) {
        (unsigned, signed, floats, others, large)
    }
}

prop_compose! {
    fn everything()(
        (unsigned, signed, floats, others, large) in numbers(),
        strings in any::<(String, String, Vec<String>, Option<String>)>(),
        slices in any::<(Vec<u32>, Option<Vec<u8>>, Vec<Vec<u8>>)>(),
        points in (point(), prop::option::of(point()), point(), point()),
        shapes in prop::collection::vec(shape(), 0..6),
        pairs in any::<Vec<(u64, u64)>>(),
        link in link(),
        couple in any::<(u8, bool)>(),
    ) -> model::Everything {
        let (a, b, c, d, e) = unsigned;
        let (f, g, h, i, j) = signed;
        let (yes, letter, array, bytes) = others;
        model::Everything {
            a, b, c, d, e, f, g, h, i, j, yes, letter, array, bytes, large, shapes, link,
            x: floats.0,
            y: floats.1,
            unit: (),
            none: [],
            text: strings.0,
            string: strings.1,
            texts: strings.2,
            maybe_text: strings.3,
            slice: slices.0,
            maybe_slice: slices.1,
            nested: slices.2,
            object: Box::new(points.0),
            maybe: points.1.map(Box::new),
            pairs: pairs.into_iter().map(|(first, second)| model::Pair { first, second }).collect(),
            length: model::Metres(floats.2),
            couple: model::Couple(couple.0, couple.1),
            nothing: model::Nothing,
            braces: model::Braces {},
            generic: model::Pair { first: points.2, second: points.3 },
            array_of_generic: model::Many { all: [model::Metres(floats.2), model::Metres(floats.3)] },
            r#type: a,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn everything_is_as_serde_has_it(model in everything()) {
        let text = serde_json::to_string(&model).unwrap();
        for options in both() {
            let (one, other) = (options.in_memory().unwrap(), options.in_memory().unwrap());
            let root: Root<types::Everything> = from_json(&one, "one", &text).unwrap();
            let out = to_json(&root);
            prop_assert_eq!(&out, &text);
            let copy: Root<types::Everything> = from_json(&other, "copy", &out).unwrap();
            prop_assert_eq!(to_json(&copy), text.as_str());
            let bytes = postcard::to_stdvec(&model).unwrap();
            super::in_postcard::<types::Everything>(&text, &bytes);
            prop_assert!(one.check().unwrap().is_clean() && other.check().unwrap().is_clean());
        }
    }
}

#[test]
fn roots_of_any_type() {
    same::<u64>(&7);
    same::<P<str>>(&"text");
    same::<PString>(&"");
    same::<PVec<f32>>(&[0.5, -1.0]);
    same::<PVecDeque<P<str>>>(&["a", "b"]);
    same::<Option<P<u8>>>(&None::<u8>);
    same::<Option<P<[char]>>>(&['a', '\0']);
    same::<P<[[bool; 2]]>>(&[[true, false]]);
    same::<types::Shape>(&model::Shape::Empty);
    same::<types::Link>(&model::Link(None));
}

/// Parts of an object, in the transaction that changes them.
#[test]
fn exported_in_a_transaction() {
    for options in both() {
        let heap = options.in_memory().unwrap();
        let root: Root<PVec<PString>> = heap.root("names").unwrap();
        root.txn(|tx, names| {
            for name in ["Ada", "Grace"] {
                let name = PString::from_str(tx, name)?;
                names.push(tx, name)?;
            }
            assert_eq!(serde_json::to_string(&tx.export(names)).unwrap(), r#"["Ada","Grace"]"#);
            names.pop(tx);
            assert_eq!(serde_json::to_string(&tx.export(names)).unwrap(), r#"["Ada"]"#);
            Ok(())
        })
        .unwrap();
        assert_eq!(to_json(&root), r#"["Ada"]"#);
    }
}

#[test]
fn any_object_is_exported() {
    let heap = pheap_testkit::small().in_memory().unwrap();
    let model = r#"{"first":{"x":1,"y":2},"second":{"x":3,"y":4}}"#;
    let root: Root<types::Pair<types::Point>> = from_json(&heap, "pair", model).unwrap();
    root.read(|view, pair| {
        assert_eq!(serde_json::to_string(&view.export(view[pair].second)).unwrap(), r#"{"x":3,"y":4}"#);
        assert_eq!(serde_json::to_string(&view.export(field!(pair.first.y))).unwrap(), "2");
    })
    .unwrap();
    root.txn(|tx, pair| {
        tx[pair].second = tx.import(&mut serde_json::Deserializer::from_str(r#"{"y":6,"x":5}"#))?;
        let slice = tx.alloc_slice_copy(&[1u8, 2])?;
        assert_eq!(serde_json::to_string(&tx.export(slice)).unwrap(), "[1,2]");
        let text = tx.alloc_str("é")?;
        assert_eq!(serde_json::to_string(&tx.export(text)).unwrap(), r#""é""#);
        Ok(())
    })
    .unwrap();
    assert_eq!(to_json(&root), r#"{"first":{"x":1,"y":2},"second":{"x":5,"y":6}}"#);
}

/// Objects that two pointers lead to come out twice, and come back as two.
#[test]
fn shared_objects_are_repeated() {
    let heap = pheap_testkit::small().in_memory().unwrap();
    let root: Root<[P<str>; 2]> = heap.root_or("twins", |tx| tx.alloc_str("same").map(|p| [p; 2])).unwrap();
    let text = to_json(&root);
    assert_eq!(text, r#"["same","same"]"#);
    let copy: Root<[P<str>; 2]> = from_json(&heap, "copy", &text).unwrap();
    assert!(copy.read(|view, p| view[p][0] != view[p][1]).unwrap());
}

/// Fields in any order, fields that the type does not have, missing options, and structs written without
/// names.
#[test]
fn lenient() {
    let heap = pheap_testkit::small().in_memory().unwrap();
    let text = r#"{"y":2,"z":[{"deep":null}],"x":1}"#;
    let root: Root<types::Point> = from_json(&heap, "point", text).unwrap();
    assert_eq!(to_json(&root), r#"{"x":1,"y":2}"#);
    let root: Root<types::Point> = from_json(&heap, "sequence", "[1,2]").unwrap();
    assert_eq!(to_json(&root), r#"{"x":1,"y":2}"#);
    #[derive(pheap::Persist)]
    #[persist(serde)]
    #[repr(C)]
    struct Node<'r> {
        value: u8,
        next: Option<P<'r, Node<'r>>>,
        name: Option<Text<'r>>,
    }
    let root: Root<Node> = from_json(&heap, "node", r#"{"value":1,"next":{"value":2}}"#).unwrap();
    assert_eq!(to_json(&root), r#"{"value":1,"next":{"value":2,"next":null,"name":null},"name":null}"#);
    assert_eq!(refused::<Node>(r#"{"next":null}"#), "missing field `value` at line 1 column 13");
}

/// The fields have names that the generated code may use for its variables, and the module hides well-known
/// names.
mod hygiene {
    #![allow(non_camel_case_types, dead_code)]
    struct Result;
    struct Option;
    struct Some;
    struct None;
    struct Ok;
    struct Err;
    struct usize;
    struct str;
    mod core {}
    mod pheap {}
    mod std {}
    mod serde {}

    #[derive(::pheap::Persist)]
    #[persist(serde, id = "hygiene")]
    #[repr(C)]
    pub(super) struct Names<'de> {
        pub(super) __into: u8,
        pub(super) __at: u8,
        pub(super) state: u8,
        pub(super) serializer: ::pheap::P<'de, u8>,
    }

    #[derive(::pheap::Persist)]
    #[persist(serde)]
    #[repr(u8)]
    pub(super) enum Variants<D> {
        Some(D),
        None,
        Ok { index: u8 },
    }

    impl<D> Variants<D> {
        /// Not called instead of the trait's.
        pub(super) fn export() {}
        pub(super) fn import() {}
    }
}

#[test]
fn names_do_not_matter() {
    let heap = pheap_testkit::small().in_memory().unwrap();
    let text = r#"{"__into":1,"__at":2,"state":3,"serializer":4}"#;
    assert_eq!(to_json(&from_json::<hygiene::Names>(&heap, "names", text).unwrap()), text);
    for text in [r#"{"Some":7}"#, r#""None""#, r#"{"Ok":{"index":1}}"#] {
        assert_eq!(to_json(&from_json::<hygiene::Variants<u8>>(&heap, text, text).unwrap()), text);
    }
    hygiene::Variants::<u8>::export();
    hygiene::Variants::<u8>::import();
}

/// Value by value, each in a separate transaction.
#[test]
fn streamed() {
    let heap = pheap_testkit::small().in_memory().unwrap();
    let root: Root<PVec<types::Shape>> = heap.root("shapes").unwrap();
    let values = r#""Empty" {"Circle":1.5} "Nonsense" "#;
    let mut json = serde_json::Deserializer::from_str(values);
    let mut next = || {
        root.txn(|tx, shapes| {
            let mut into = Importer::new(tx);
            let shape = into.seed().deserialize(&mut json);
            let shape = shape.map_err(|error| into.error(error))?;
            shapes.push(tx, shape)
        })
    };
    next().unwrap();
    next().unwrap();
    assert!(next().unwrap_err().to_string().contains("unknown variant `Nonsense`"));
    assert_eq!(to_json(&root), r#"["Empty",{"Circle":1.5}]"#);
    // The text ends behind the last value that was read.
    assert!(
        <&mut serde_json::Deserializer<_>>::deserialize_ignored_any(&mut json, serde::de::IgnoredAny)
            .is_err()
    );
}
