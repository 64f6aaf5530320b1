//! Objects as `View::debug` shows them.

use pheap::{
    Durability, InlineBytes, Options, P, PBTreeMap, PBTreeSet, PBytes, PDuration, PHashMap, PHashSet,
    POption, PPriorityQueue, PSnapMap, PString, PTuple2, PVec, PVecDeque, Persist, Root, field,
};

#[derive(Persist)]
#[repr(u8)]
enum Kind<'r> {
    Plain,
    Pair(u32, P<'r, str>),
    Named { id: i64 },
}

#[derive(Persist)]
#[repr(C)]
struct Node<'r> {
    number: u32,
    next: Option<P<'r, Node<'r>>>,
}

#[derive(Persist)]
#[repr(C)]
struct All<'r> {
    name: P<'r, str>,
    kinds: [Kind<'r>; 3],
    numbers: PVec<'r, f64>,
    bytes: PBytes<'r>,
    keys: PBTreeSet<'r, InlineBytes<'r>>,
    queue: PVecDeque<'r, char>,
    urgent: PPriorityQueue<'r, u8>,
    text: PString<'r>,
    hashed: PHashMap<'r, P<'r, str>, bool>,
    hash_set: PHashSet<'r, u16>,
    ordered: PBTreeMap<'r, u64, PTuple2<i8, u8>>,
    tree_set: PBTreeSet<'r, PString<'r>>,
    shared: PSnapMap<'r, u64, P<'r, str>>,
    option: POption<u32>,
    nothing: POption<u32>,
    time: PDuration,
    first: P<'r, Node<'r>>,
    list: P<'r, [u16]>,
}

fn all(options: &Options) -> Root<All<'static>> {
    let heap = options.in_memory().unwrap();
    let all = heap
        .root_or::<All>("all", |tx| {
            let kinds = [Kind::Plain, Kind::Pair(7, tx.alloc_str("seven")?), Kind::Named { id: -1 }];
            let last = tx.alloc(Node { number: 2, next: None })?;
            let first = tx.alloc(Node { number: 1, next: Some(last) })?;
            tx[last].next = Some(first);
            Ok(All {
                name: tx.alloc_str("say \"hi\"")?,
                kinds,
                numbers: PVec::from_slice(tx, &[1.5, 2.0])?,
                bytes: PBytes::default(),
                keys: PBTreeSet::new(),
                queue: PVecDeque::new(),
                urgent: PPriorityQueue::new(),
                text: PString::default(),
                hashed: PHashMap::new(),
                hash_set: PHashSet::new(),
                ordered: PBTreeMap::new(),
                tree_set: PBTreeSet::new(),
                shared: PSnapMap::new(),
                option: Some(3).into(),
                nothing: None.into(),
                time: std::time::Duration::from_millis(1500).into(),
                first,
                list: tx.alloc_slice_copy(&[4, 5])?,
            })
        })
        .unwrap();
    all.txn(|tx, all| {
        field!(all.bytes).extend_from_slice(tx, &[1, 2])?;
        field!(all.keys).insert(tx, &[3, 4])?;
        field!(all.keys).insert(tx, &[5; 31])?;
        field!(all.queue).push_front(tx, 'a')?;
        field!(all.urgent).push(tx, 9)?;
        field!(all.text).push_str(tx, "text")?;
        field!(all.hashed).insert(tx, "key", true)?;
        field!(all.hash_set).insert(tx, 6)?;
        field!(all.ordered).insert(tx, 2, PTuple2(-2, 2))?;
        field!(all.ordered).insert(tx, 1, PTuple2(-1, 1))?;
        field!(all.tree_set).insert(tx, "element")?;
        field!(all.shared).insert(tx, &1, "one")?;
        Ok(())
    })
    .unwrap();
    all
}

const SHOWN: &str = r#"All { name: "say \"hi\"", kinds: [Plain, Pair(7, "seven"), Named { id: -1 }], numbers: [1.5, 2.0], bytes: [1, 2], keys: {[3, 4], [5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5]}, queue: ['a'], urgent: [9], text: "text", hashed: {"key": true}, hash_set: {6}, ordered: {1: PTuple2(-1, 1), 2: PTuple2(-2, 2)}, tree_set: {"element"}, shared: {1: "one"}, option: 3, nothing: None, time: PDuration { seconds: 1, nanoseconds: 500000000 }, first: Node { number: 1, next: Node { number: 2, next: <Node above> } }, list: [4, 5] }"#;

#[test]
fn all_kinds_of_values() {
    for options in pheap_testkit::both() {
        let all = all(&options);
        all.read(|view, all| {
            assert_eq!(format!("{:?}", view.debug(all)), SHOWN);
            assert_eq!(format!("{:?}", view.shared().debug(all)), SHOWN);
            assert_eq!(format!("{:?}", view.debug(field!(all.tree_set))), r#"{"element"}"#);
            assert_eq!(format!("{:?}", view.debug(view[all].list)), "[4, 5]");
            assert_eq!(format!("{:?}", view.debug(view[all].name)), r#""say \"hi\"""#);
        })
        .unwrap();
    }
}

#[test]
fn in_a_transaction_it_shows_what_was_written() {
    for options in pheap_testkit::both() {
        let all = all(&options);
        all.txn(|tx, all| {
            let first = tx[all].first;
            tx[first].number = 10;
            field!(all.numbers).set(tx, 1, 3.25);
            field!(all.hashed).insert(tx, "key", false)?;
            field!(all.ordered).remove(tx, 1);
            field!(all.text).push_str(tx, "!")?;
            field!(all.bytes).push(tx, 3)?;
            let changed = SHOWN
                .replace("number: 1,", "number: 10,")
                .replace("2.0]", "3.25]")
                .replace("true", "false")
                .replace("1: PTuple2(-1, 1), ", "")
                .replace("\"text\"", "\"text!\"")
                .replace("bytes: [1, 2]", "bytes: [1, 2, 3]");
            assert_eq!(format!("{:?}", tx.debug(all)), changed);
            // The transaction goes on.
            tx[first].number = 11;
            assert!(format!("{:?}", tx.debug(all)).contains("number: 11,"));
            Ok(())
        })
        .unwrap();
        all.read(|view, all| assert_eq!(view[view[all].first].number, 11)).unwrap();
    }
}

#[derive(Persist, Default)]
#[repr(C)]
struct Chain<'r> {
    all: PBTreeMap<'r, u64, P<'r, Node<'r>>>,
    hashed: PHashMap<'r, u64, u64>,
}

#[test]
fn what_is_long_is_cut_off() {
    let heap = Options::new().durability(Durability::Process).in_memory().unwrap();
    let root: Root<Chain> = heap.root("chain").unwrap();
    root.txn(|tx, chain| {
        let mut next = None;
        for number in 0..1000 {
            let node = tx.alloc(Node { number, next })?;
            field!(chain.all).insert(tx, u64::from(number), node)?;
            field!(chain.hashed).insert(tx, u64::from(number), 0)?;
            next = Some(node);
        }
        Ok(())
    })
    .unwrap();
    root.read(|view, chain| {
        let all = field!(chain.all);
        let last = *all.get(view, 999).unwrap();
        let shown = format!("{:?}", view.debug(last));
        assert!(shown.starts_with("Node { number: 999, next: Node { number: 998"), "{shown}");
        assert!(shown.contains("number: 991, next: Node { .. } } }") && !shown.contains("number: 990"), "{shown}");
        let shown = format!("{:?}", view.debug(last).depth(0));
        assert_eq!(shown, "Node { number: 999, next: Node { .. } }");
        let shown = format!("{:?}", view.debug(all).items(2).depth(1));
        assert_eq!(shown, "{0: Node { number: 0, next: None }, 1: Node { number: 1, next: Node { .. } }, ..}");
        // However much there is, it ends; a hundred pointers do not overflow the stack.
        let shown = format!("{:?}", view.debug(all).items(100).depth(usize::MAX));
        assert!(shown.len() < 1_000_000 && shown.contains(".."), "{}", shown.len());
        let shown = format!("{:?}", view.debug(last).depth(usize::MAX));
        assert_eq!(shown.matches("number").count(), 101);
        let shown = format!("{:?}", view.debug(field!(chain.hashed)));
        assert_eq!(shown.matches(": 0").count(), 100);
        let shown = format!("{:#?}", view.debug(last).depth(1));
        assert_eq!(
            shown,
            "Node {\n    number: 999,\n    next: Node {\n        number: 998,\n        next: Node { .. },\n    },\n}"
        );
    })
    .unwrap();
}
