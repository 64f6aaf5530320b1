//! Cycles, and values that are nested too deep: errors, and never an overflow of the stack.

use pheap::exchange::{Importer, MAX_DEPTH};
use pheap::{Error, P, PVec, Persist, Root};
use serde::de::DeserializeSeed;

use super::types::Link;
use super::{from_json, refused, to_json};
use pheap_testkit::small;

#[derive(Persist, Default)]
#[persist(serde)]
#[repr(C)]
struct Node<'r> {
    next: Option<P<'r, Node<'r>>>,
}

#[derive(Persist, Default)]
#[persist(serde)]
#[repr(C)]
struct Tree<'r> {
    children: PVec<'r, Tree<'r>>,
}

fn nodes(nodes: usize) -> String {
    format!("{}{}{}", r#"{"next":"#.repeat(nodes), "null", "}".repeat(nodes))
}

const TOO_DEEP: &str =
    "nested deeper than 128 pointers and collections: a cycle? (`max_depth` sets the limit)";

#[test]
fn cycles_cannot_be_exported() {
    let heap = small().in_memory().unwrap();
    let root: Root<Node> = heap.root("cycle").unwrap();
    root.txn(|tx, root| {
        let next = tx.alloc(Node { next: Some(root) })?;
        tx[root].next = Some(next);
        Ok(())
    })
    .unwrap();
    let error = root.read(|view, root| serde_json::to_string(&view.export(root))).unwrap().unwrap_err();
    assert_eq!(error.to_string(), TOO_DEEP);
}

/// Nothing of the data is between these pointers.
#[test]
fn cycles_of_nothing_but_pointers() {
    let heap = small().in_memory().unwrap();
    let root: Root<Link> = heap.root_or("ring", |_| Ok(Link(None))).unwrap();
    root.txn(|tx, root| {
        tx[root].0 = Some(root);
        Ok(())
    })
    .unwrap();
    let error = root.read(|view, root| serde_json::to_string(&view.export(root))).unwrap().unwrap_err();
    assert_eq!(error.to_string(), TOO_DEEP);
}

/// As deep as it may be, and one more.
#[test]
fn the_limit() {
    let heap = small().in_memory().unwrap();
    let root: Root<Node> = heap.root("list").unwrap();
    let lengthen = |root: &Root<Node>| {
        root.txn(|tx, root| {
            let node = tx.alloc(Node { next: tx[root].next })?;
            tx[root].next = Some(node);
            Ok(())
        })
        .unwrap();
    };
    (0..MAX_DEPTH).for_each(|_| lengthen(&root));
    let text = to_json(&root);
    assert_eq!(text, nodes(MAX_DEPTH + 1));
    lengthen(&root);
    let error = root.read(|view, root| serde_json::to_string(&view.export(root))).unwrap().unwrap_err();
    assert_eq!(error.to_string(), TOO_DEEP);
    let deeper = root.read(|view, root| serde_json::to_string(&view.export(root).max_depth(MAX_DEPTH + 1)));
    assert_eq!(deeper.unwrap().unwrap(), nodes(MAX_DEPTH + 2));
}

/// Data that are values already have no limit but ours.
#[test]
fn the_limit_of_imports() {
    let nested =
        |depth| (0..depth).fold(serde_json::Value::Null, |next, _| serde_json::json!({ "next": next }));
    let heap = small().in_memory().unwrap();
    let import = |name: &str, depth| heap.root_or::<Node>(name, |tx| tx.import(nested(depth)));
    let root = import("deep", MAX_DEPTH + 1).unwrap();
    assert_eq!(to_json(&root), nodes(MAX_DEPTH + 1));
    match import("too deep", MAX_DEPTH + 2) {
        Err(Error::Malformed { what }) => assert!(what.ends_with(TOO_DEEP), "{what}"),
        other => panic!("{other:?}"),
    }
    let root: Root<Node> = heap
        .root_or("as deep as told", |tx| {
            let mut into = Importer::new(tx).max_depth(MAX_DEPTH + 1);
            let node = into.seed().deserialize(nested(MAX_DEPTH + 2));
            node.map_err(|error| into.error(error))
        })
        .unwrap();
    let out = root.read(|view, node| serde_json::to_string(&view.export(node).max_depth(1000)));
    assert_eq!(out.unwrap().unwrap(), nodes(MAX_DEPTH + 2));
}

/// serde_json has another limit.
#[test]
fn the_limit_of_json() {
    let heap = small().in_memory().unwrap();
    let root: Root<Node> = from_json(&heap, "deep", &nodes(127)).unwrap();
    assert_eq!(to_json(&root), nodes(127));
    assert!(refused::<Node>(&nodes(128)).contains("recursion limit exceeded"));
}

/// Collections count: their contents can be nested as deep as there is memory.
#[test]
fn collections_in_collections() {
    let heap = small().in_memory().unwrap();
    let root: Root<Tree> = heap
        .root_or("tree", |tx| {
            let mut tree = Tree::default();
            for _ in 0..100_000 {
                tree = Tree { children: PVec::from_iter(tx, [tree])? };
            }
            Ok(tree)
        })
        .unwrap();
    let error = root.read(|view, root| serde_json::to_string(&view.export(root))).unwrap().unwrap_err();
    assert_eq!(error.to_string(), TOO_DEEP);
}
