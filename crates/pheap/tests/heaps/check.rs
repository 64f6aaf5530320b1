//! `Heap::check` and `Options::verify`: they find the damage of a heap, and report nothing else.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use pheap::{Durability, Error, Heap, Options, P, PVec, Persist, Report, Result, Root, Txn, View};
use pheap_testkit::*;

/// Something of everything.
#[derive(Persist)]
#[repr(C)]
struct Zoo<'r> {
    magic: u64,
    flag: bool,
    letter: char,
    kind: Kind<'r>,
    text: P<'r, str>,
    pairs: P<'r, [Pair<'r>]>,
    /// Into `pairs`.
    favourite: P<'r, Pair<'r>>,
    many: [Option<P<'r, Pair<'r>>>; 3],
    list: Option<P<'r, Node<'r>>>,
    big: P<'r, [u64]>,
    wide: P<'r, Wide>,
    /// One past the end of a slot.
    nothing: P<'r, ()>,
}

#[derive(Persist, Clone, Copy)]
#[repr(C)]
struct Pair<'r> {
    left: u32,
    inside: bool,
    right: Option<P<'r, Node<'r>>>,
}

#[derive(Persist)]
#[repr(u8)]
#[allow(dead_code)] // bytes that were damaged could say so
enum Kind<'r> {
    Empty = 3,
    Node(P<'r, Node<'r>>),
    Pair { flag: bool, number: u16 } = 200,
}

#[derive(Persist)]
#[repr(C)]
struct Node<'r> {
    value: u64,
    next: Option<P<'r, Node<'r>>>,
}

#[derive(Persist)]
#[repr(C, align(64))]
struct Wide {
    number: u128,
}

const MAGIC: u64 = 0x1122_3344_5566_7788;

fn node<'r>(tx: &Txn<'r>, value: u64, next: Option<P<'r, Node<'r>>>) -> Result<P<'r, Node<'r>>> {
    tx.alloc(Node { value, next })
}

fn zoo<'r>(tx: &mut Txn<'r>) -> Result<Zoo<'r>> {
    let mut list = None;
    for i in 0..20 {
        list = Some(node(tx, i, list)?);
    }
    let last = node(tx, MAGIC + 1, None)?;
    let pairs = tx.alloc_slice(5, |i| Pair { left: i as u32, inside: i % 2 == 0, right: Some(last) })?;
    let other = tx.alloc(Pair { left: 77, inside: true, right: None })?;
    let nothings = tx.alloc_slice(3, |_| ())?;
    Ok(Zoo {
        magic: MAGIC,
        flag: true,
        letter: 'ß',
        kind: Kind::Node(last),
        text: tx.alloc_str("a text, größer than a word")?,
        pairs,
        favourite: pairs.at(tx, 3),
        many: [Some(other), None, Some(pairs.at(tx, 0))],
        list,
        big: tx.alloc_slice(4200, |i| u64::from(i % 64 == 7))?,
        wide: tx.alloc(Wide { number: 1 << 100 })?,
        nothing: nothings.at(tx, 2),
    })
}

/// Objects of a zoo: itself, lists, pairs, text, slices.
const OBJECTS: u64 = 1 + 20 + 1 + 1 + 1 + 1 + 1 + 1;

/// Reads everything.
fn walk<'r>(view: &View<'r>, zoo: P<'r, Zoo<'r>>) -> u64 {
    let zoo = &view[zoo];
    let pair = |pair: &Pair<'r>| {
        u64::from(pair.left) + u64::from(pair.inside) + pair.right.map_or(0, |node| view[node].value)
    };
    let kind = match &zoo.kind {
        Kind::Empty => 0,
        Kind::Node(node) => view[*node].value,
        Kind::Pair { flag, number } => u64::from(*flag) + u64::from(*number),
    };
    let mut sum = kind + u64::from(zoo.flag) + u64::from(u32::from(zoo.letter));
    sum += view[zoo.text].chars().map(|c| u64::from(u32::from(c))).sum::<u64>();
    sum = view[zoo.pairs].iter().map(pair).fold(sum, u64::wrapping_add);
    sum = sum.wrapping_add(pair(&view[zoo.favourite]));
    sum = zoo.many.iter().flatten().map(|p| pair(&view[*p])).fold(sum, u64::wrapping_add);
    let (mut next, mut seen) = (zoo.list, BTreeSet::new());
    while let Some(node) = next {
        sum = sum.wrapping_add(view[node].value);
        next = if seen.insert(node.key()) { view[node].next } else { None };
    }
    sum = view[zoo.big].iter().fold(sum, |sum, n| sum.wrapping_add(*n));
    let () = view[zoo.nothing];
    sum.wrapping_add(view[zoo.wide].number as u64)
}

fn tiny() -> Options {
    Options::new().arena_size(32 << 10).reserve(1 << 26).durability(Durability::Process)
}

/// A closed heap with two zoos, as bytes.
fn sample(path: &Path) -> Result<Vec<u8>> {
    let heap = tiny().open(path)?;
    for name in ["one", "two"] {
        let root = heap.root_or::<Zoo>(name, zoo)?;
        root.read(walk)?;
    }
    let report = heap.check()?;
    assert!(report.is_clean(), "{report}");
    assert_eq!((report.objects, report.roots), (2 * OBJECTS, 2));
    heap.close()?;
    Ok(fs::read(path).expect("a file"))
}

#[test]
fn a_good_heap_is_clean() -> Result<()> {
    let dir = tempdir();
    let path = dir.path().join("x");
    sample(&path)?;
    for options in [tiny(), tiny().read_only(true), tiny().verify(true), tiny().verify(true).read_only(true)]
    {
        let heap = options.open(&path)?;
        let report = heap.check()?;
        assert!(report.is_clean() && report.to_string().ends_with(": clean"), "{report}");
        assert_eq!(report.objects, 2 * OBJECTS);
        let of_nodes: Vec<_> = report.usage.iter().filter(|usage| usage.type_name == "Node").collect();
        assert!(
            of_nodes.len() == 2 && of_nodes.iter().all(|usage| (usage.objects, usage.bytes) == (21, 21 * 16))
        );
        assert_eq!(report.usage.iter().map(|usage| usage.bytes).sum::<u64>(), report.bytes);
        heap.existing_root::<Zoo>("one")?.read(walk)?;
        heap.close()?;
    }
    let empty = Heap::in_memory()?.check()?;
    assert_eq!((empty.objects, empty.roots, empty.is_clean()), (0, 0, true));
    Ok(())
}

/// What a check says of `bytes`, opened as they are; opening with `verify` fails, and changes nothing.
fn damage(bytes: &[u8]) -> Report {
    let dir = tempdir();
    let path = dir.path().join("x");
    fs::write(&path, bytes).unwrap();
    for options in [tiny().verify(true), tiny().verify(true).read_only(true)] {
        let error = options.open(&path).expect_err("it is damaged");
        assert!(matches!(error, Error::Corrupt { .. }), "{error}");
        assert!(fs::read(&path).unwrap() == bytes, "the file was changed");
    }
    let heap = tiny().read_only(true).open(&path).unwrap();
    let report = heap.check().unwrap();
    assert!(!report.is_clean());
    report
}

/// Each kind of damage is found, and reported as that kind.
#[test]
fn what_is_wrong_is_found() -> Result<()> {
    let dir = tempdir();
    let good = sample(&dir.path().join("sample"))?;
    let base = base_of(&good);
    let zoo = find(&good, &MAGIC.to_le_bytes())[0];
    let at = |field: &str| {
        zoo + match field {
            "flag" => std::mem::offset_of!(Zoo, flag),
            "letter" => std::mem::offset_of!(Zoo, letter),
            "kind" => std::mem::offset_of!(Zoo, kind),
            "text" => std::mem::offset_of!(Zoo, text),
            "pairs" => std::mem::offset_of!(Zoo, pairs),
            "favourite" => std::mem::offset_of!(Zoo, favourite),
            "many" => std::mem::offset_of!(Zoo, many),
            "list" => std::mem::offset_of!(Zoo, list),
            _ => std::mem::offset_of!(Zoo, big),
        }
    };
    let offset = |field: &str| (word(&good, at(field)) - base) as usize;
    let (other_zoo, last) =
        (find(&good, &MAGIC.to_le_bytes())[1], find(&good, &(MAGIC + 1).to_le_bytes())[0]);
    let region = find(&good, b"\x89PREGIO\n")[0];
    let with = |place: usize, value: u64| {
        let mut bytes = good.clone();
        set_word(&mut bytes, place, value);
        damage(&bytes)
    };
    let with_byte = |place: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[place] = value;
        damage(&bytes)
    };
    let list = word(&good, at("list"));
    let cases: Vec<(&str, Report)> = vec![
        ("`Zoo.list`", with(at("list"), base + (1 << 25))),
        ("outside of the heap", with(at("list"), 8)),
        ("outside of the heap", with(at("list"), u64::MAX)),
        ("as if it were a `Node`", with(at("list"), list + 8)),
        ("as if it were a `Node`", with(at("list"), list + 1)),
        ("as if it were a `Node`", with(at("list"), base + zoo as u64)),
        ("which is not for objects", with(at("list"), base + region as u64)),
        ("which belongs to no span", with(at("list"), base + 3 * PAGE as u64)),
        ("which belongs to no span", with(at("list"), base + good.len() as u64 - PAGE as u64)),
        ("which belongs to root", with(at("list"), word(&good, other_zoo + at("list") - zoo))),
        ("`[Pair][4].right`", {
            let mut bytes = good.clone();
            set_word(&mut bytes, offset("pairs") + 8 + 4 * 16 + 8, list + 4);
            damage(&bytes)
        }),
        // Behind the end of the slice; at a field of an element; at the length of the slice.
        ("as if it were a `Pair`", with(at("favourite"), word(&good, at("pairs")) + 8 + 5 * 16)),
        ("as if it were a `Pair`", with(at("favourite"), word(&good, at("pairs")) + 8 + 8)),
        ("as if it were a `Pair`", with(at("many") + 8, word(&good, at("pairs")))),
        ("`Zoo.flag`", with_byte(at("flag"), 2)),
        ("which is no char", with_byte(at("letter") + 3, 1)),
        ("which no variant has", with_byte(at("kind"), 5)),
        ("is not UTF-8", with_byte(offset("text") + 8, 0xff)),
        ("has a length of", with(offset("text"), 1000)),
        ("has a length of", with(offset("pairs"), 6 * 1000)),
        ("has a length of", with(offset("big"), u64::MAX / 8 + 2)),
        ("`Node.next`", with(last + 8, 4096)),
    ];
    for (i, (expected, report)) in cases.iter().enumerate() {
        assert!(report.to_string().contains(expected), "case {i}: {expected} is not in {report}");
    }
    Ok(())
}

/// Many problems are counted, not listed.
#[test]
fn problems_are_capped() -> Result<()> {
    let dir = tempdir();
    let path = dir.path().join("x");
    let heap = tiny().open(&path)?;
    heap.root_or::<Option<P<[bool]>>>("flags", |tx| Ok(Some(tx.alloc_slice(1000, |_| true)?)))?;
    heap.close()?;
    let mut bytes = fs::read(&path).unwrap();
    let flags = find(&bytes, &[1; 1000])[0];
    bytes[flags..flags + 1000].fill(9);
    let report = damage(&bytes);
    assert_eq!((report.problems.len(), report.more_problems), (100, 900));
    assert!(report.to_string().contains("1000 problems") && report.to_string().ends_with("and 900 more"));
    Ok(())
}

/// Asserts that everything can be read, and that the check is clean.
fn is_sound(heap: &Heap) -> Result<()> {
    assert_eq!(heap.roots().len(), 2, "a root is lost");
    for root in heap.roots() {
        heap.existing_root::<Zoo>(&root.name)?.read(walk)?;
    }
    let report = heap.check()?;
    assert!(report.is_clean(), "{report}");
    Ok(())
}

/// Span tables have no checksums, except for a few bits.
#[test]
fn damaged_span_tables_are_found() -> Result<()> {
    let dir = tempdir();
    let good = sample(&dir.path().join("sample"))?;
    let tables = find(&good, b"\x89PARENA\n").into_iter().map(|head| head + PAGE);
    let entries = tables.flat_map(|table| (table..table + PAGE).step_by(16));
    let entries: Vec<usize> = entries.filter(|&at| matches!(good[at], 1 | 4 | 5)).collect();
    assert!(entries.len() >= 16);
    let mut messages = BTreeSet::new();
    for entry in entries {
        let flips = [(0, 1), (0, 4), (0, 0xff), (1, 8), (3, 0x80), (4, 1), (8, 1), (11, 1), (12, 3), (15, 1)];
        // Also with the right check, as an attacker would write it.
        for ((byte, flip), checked) in flips.into_iter().flat_map(|flip| [(flip, false), (flip, true)]) {
            let mut bytes = good.clone();
            bytes[entry + byte] ^= flip;
            if checked {
                let word = u64::from_le_bytes(bytes[entry..][..8].try_into().unwrap()) & !(0xff << 24);
                bytes[entry + 3] = (word % 255 + 1) as u8;
            }
            let path = dir.path().join("x");
            fs::write(&path, &bytes).unwrap();
            match tiny().verify(true).open(&path) {
                Err(Error::Corrupt { what }) => {
                    assert!(fs::read(&path).unwrap() == bytes, "the file was changed");
                    messages.insert(what);
                }
                Err(error) => panic!("byte {byte} of the entry at {entry}: {error}"),
                // A page more, or larger slots, of which only the first is in use.
                Ok(heap) => is_sound(&heap)?,
            }
        }
    }
    assert!(messages.len() > 50, "{messages:#?}");
    let all = messages.into_iter().collect::<Vec<_>>().join("\n");
    for expected in
        ["which do not fit its type", "is not in the span table", "which belongs to", "of the unknown kind"]
    {
        assert!(all.contains(expected), "{expected} is not in {all}");
    }
    Ok(())
}

/// With `verify`, a byte flipped anywhere is an error, or the value around it is sound.
#[test]
fn flipped_bytes_are_errors_or_sound() -> Result<()> {
    let dir = tempdir();
    let good = sample(&dir.path().join("sample"))?;
    let path = dir.path().join("x");
    let mut rng = Rng::from_seed(0x5eed);
    let (mut refused, mut opened) = (0, 0);
    // Most of the bytes that are not zero, and some that are.
    let places: Vec<usize> = (0..good.len())
        .filter(|&at| if good[at] != 0 { rng.below(5) > 0 } else { rng.below(150) == 0 })
        .collect();
    assert!(places.len() > 2000, "{}", places.len());
    for (i, at) in places.into_iter().enumerate() {
        let mut bytes = good.clone();
        bytes[at] ^= if i % 2 == 0 { 1 << rng.below(8) } else { 1 + rng.below(255) as u8 };
        fs::write(&path, &bytes).unwrap();
        // Writers sync the disk.
        let options = tiny().verify(true).read_only(i % 64 != 0);
        match options.open(&path) {
            Err(_) => {
                assert!(
                    fs::read(&path).unwrap() == bytes,
                    "byte {at}: the file was changed before the error"
                );
                refused += 1;
            }
            Ok(heap) => {
                is_sound(&heap)?;
                heap.close()?;
                opened += 1;
            }
        }
    }
    assert!(refused > 500 && opened > 500, "{refused} were refused, {opened} opened");
    Ok(())
}

/// The logs count: they are replayed, in memory, before the check.
#[test]
fn a_crashed_heap_is_verified_with_its_logs() -> Result<()> {
    const TEST: &str = "check::a_crashed_heap_is_verified_with_its_logs";
    if let Some((role, path)) = role() {
        let heap = tiny().pin_undo(role == "long").open(&path)?;
        let root = heap.root_or::<Zoo>("one", zoo)?;
        root.txn(|tx, zoo| {
            let new = node(tx, 5, tx[zoo].list)?;
            tx[zoo].list = Some(new);
            Ok(())
        })?;
        let _ = root.txn(|tx, zoo| -> Result<()> {
            let big = tx[zoo].big;
            tx[big].fill(0);
            tx[zoo].flag = false;
            die()
        });
    }
    let dir = tempdir();
    for role in ["short", "long"] {
        let path = dir.path().join(role);
        run_killed(TEST, role, &path);
        let before = fs::read(&path).unwrap();
        let heap = tiny().verify(true).read_only(true).open(&path)?;
        assert_eq!(heap.check()?.objects, OBJECTS + 1);
        heap.close()?;
        assert!(fs::read(&path).unwrap() == before);
        let heap = tiny().verify(true).open(&path)?;
        let root: Root<Zoo> = heap.existing_root("one")?;
        assert!(root.read(|view, zoo| view[zoo].flag && view[view[zoo].big][7] == 1)?);
        assert_eq!(heap.check()?.objects, OBJECTS + 1);
    }
    Ok(())
}

/// After the machine went down, `Process` data are refused unless they are verified.
#[test]
fn a_torn_machine_is_verified() -> Result<()> {
    let dir = tempdir();
    let path = dir.path().join("x");
    let mut bytes = sample(&path)?;
    let slot = newest_slot(&bytes);
    patch_header(&mut bytes, slot, 14, 1);
    patch_header(&mut bytes, slot, 16, 1);
    fs::write(&path, &bytes).unwrap();
    assert!(matches!(tiny().open(&path), Err(Error::NotClosed)));
    assert!(matches!(tiny().read_only(true).open(&path), Err(Error::NotClosed)));
    tiny().verify(true).read_only(true).open(&path)?.close()?;
    tiny().verify(true).open(&path)?.close()?;
    tiny().open(&path)?.close()
}

/// A list is as long as it likes; the stack of a thread is not.
#[test]
fn long_lists_are_checked() -> Result<()> {
    const LEN: u64 = 300_000;
    let heap = Heap::in_memory()?;
    let list = heap.root::<Option<P<Node>>>("list")?;
    list.txn(|tx, list| {
        for i in 0..LEN {
            let new = node(tx, i, tx[list])?;
            tx[list] = Some(new);
        }
        Ok(())
    })?;
    let report = heap.check()?;
    assert_eq!((report.objects, report.bytes, report.is_clean()), (LEN + 1, LEN * 16 + 8, true));
    // Garbage is not counted.
    list.txn(|tx, list| {
        tx[list] = None;
        Ok(())
    })?;
    assert_eq!(heap.check()?.objects, 1);
    Ok(())
}

#[test]
fn a_check_does_not_wait_for_itself() -> Result<()> {
    let heap = Heap::in_memory()?;
    let roots: Vec<Root<u64>> = (0..40).map(|i| heap.root(&format!("{i}"))).collect::<Result<_>>()?;
    assert!(matches!(roots[0].txn(|_, _| heap.check().map(drop)), Err(Error::Nested)));
    assert!(matches!(roots[0].read(|_, _| heap.check().map(drop))?, Err(Error::Nested)));
    // More roots than a thread can be inside of heaps.
    assert_eq!(heap.check()?.roots, 40);
    let again = heap.clone();
    heap.close()?;
    assert!(matches!(again.check(), Err(Error::Closed)));
    Ok(())
}

/// While there are transactions, and while roots come and go.
#[test]
fn a_running_heap_is_clean() -> Result<()> {
    let heap = Heap::in_memory()?;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for name in ["one", "two"] {
            let (heap, stop) = (&heap, &stop);
            scope.spawn(move || -> Result<()> {
                let root = heap.root_or::<Zoo>(name, zoo)?;
                while !stop.load(Ordering::Relaxed) {
                    root.txn(|tx, zoo| {
                        let new = node(tx, 1, tx[zoo].list)?;
                        tx[zoo].list = Some(new);
                        Ok(())
                    })?;
                    heap.root_or::<Zoo>(&format!("{name} for now"), zoo)?;
                    heap.remove_root(&format!("{name} for now"))?;
                }
                Ok(())
            });
        }
        for _ in 0..100 {
            let report = heap.check().unwrap();
            assert!(report.is_clean(), "{report}");
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(heap.check()?.is_clean());
    Ok(())
}

#[derive(Persist, Default)]
#[repr(C)]
struct Deep<'r> {
    next: PVec<'r, Deep<'r>>,
}

#[test]
fn collections_are_as_deep_in_each_other_as_they_like() -> Result<()> {
    let dir = tempdir();
    let path = dir.path().join("x");
    let heap = small().open(&path)?;
    heap.root::<Deep>("deep")?.txn(|tx, deep| {
        let mut next = PVec::default();
        for _ in 0..20_000 {
            next = PVec::from_iter(tx, [Deep { next }])?;
        }
        tx[deep].next = next;
        Ok(())
    })?;
    let report = heap.check()?;
    assert!(report.is_clean() && report.objects == 20_001, "{report}");
    heap.close()?;
    small().verify(true).open(&path).map(drop)
}
