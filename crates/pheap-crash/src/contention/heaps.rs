//! Threads that use a heap. Most programs have it in memory.

use std::sync::Mutex;

use pheap::{Error, Heap, Held, Options, P, Persist, Root};

use super::{add, in_memory, run, small};

#[derive(Persist)]
#[repr(C)]
pub(super) struct Node<'r> {
    value: u64,
    next: Option<P<'r, Node<'r>>>,
}

#[derive(Persist, Default)]
#[repr(C)]
pub(super) struct List<'r> {
    pub(super) head: Option<P<'r, Node<'r>>>,
}

#[derive(Persist, Default)]
#[repr(C)]
struct Wide {
    a: u64,
    b: u64,
}

/// Replaces the list of a root. The old one becomes garbage.
pub(super) fn replace(root: &Root<List<'static>>, nodes: u64) -> pheap::Result<()> {
    root.txn(|tx, list| {
        let mut head = None;
        for value in 0..nodes {
            head = Some(tx.alloc(Node { value, next: head })?);
        }
        Ok(tx[list].head = head)
    })
}

/// Returns the length of the list.
pub(super) fn length(root: &Root<List<'static>>) -> pheap::Result<u64> {
    root.read(|view, list| {
        let (mut n, mut next) = (0, view[list].head);
        while let Some(node) = next {
            n += 1;
            next = view[node].next;
        }
        n
    })
}

/// Takes spans in transactions that fail, so that the spans are returned.
pub(super) fn given_up() -> Result<(), String> {
    let heap = in_memory();
    let (a, b) = (heap.root::<List>("a").unwrap(), heap.root::<List>("b").unwrap());
    let give_up = |root: &Root<List<'static>>| {
        let given_up = root.txn(|tx, _| -> pheap::Result<()> {
            tx.alloc_slice(8 << 10, |i| i as u64)?;
            Err(Error::abort("given up"))
        });
        assert!(matches!(given_up, Err(Error::Aborted(_))));
    };
    run(20, &[&|_| give_up(&a), &|_| give_up(&b)], &[&|_| drop(heap.stats())])
}

/// Runs transactions that find no space and are rolled back, while other threads read.
pub(super) fn no_space() -> Result<(), String> {
    let heap = small().max_size(1 << 20).in_memory().expect("a heap in memory");
    let list = heap.root::<List>("list").unwrap();
    replace(&list, 3).unwrap();
    let ask_for_more = |_| {
        let refused = list.txn(|tx, _| tx.alloc_slice(1 << 20, |i| i as u8).map(drop));
        assert!(matches!(refused, Err(Error::OutOfSpace { .. })), "{refused:?}");
    };
    let read = |_| assert_eq!(length(&list).unwrap(), 3);
    run(20, &[&ask_for_more, &ask_for_more], &[&read, &read])
}

/// Runs transactions over one root and over two, and reads of one root, and holds pointers that other threads
/// release.
pub(super) fn transactions() -> Result<(), String> {
    let heap = in_memory();
    let (a, b) = (heap.root::<u64>("a").unwrap(), heap.root::<u64>("b").unwrap());
    let list = heap.root::<List>("list").unwrap();
    replace(&list, 3).unwrap();
    let held: Mutex<Vec<Held<Node<'static>>>> = Mutex::default();
    let hold = |_| {
        let new = list.txn(|tx, list| {
            let head = tx[list].head.expect("there are nodes");
            tx[head].value += 1;
            Ok(tx.hold(head))
        });
        let rolled_back = list.txn(|tx, list| -> pheap::Result<()> {
            let head = tx[list].head.expect("there are nodes");
            drop(tx.hold(head));
            Err(Error::Unsupported("not today"))
        });
        assert!(rolled_back.is_err());
        held.lock().unwrap().push(new.unwrap());
    };
    hold(0);
    let kept = held.lock().unwrap()[0].clone();
    let let_go = |round| {
        let some = held.lock().unwrap().last().cloned();
        if let Some(some) = some {
            let copy = some.clone();
            list.read(|view, _| view[view.get(&copy).expect("it is held")].value).unwrap();
        }
        if round % 4 == 0 {
            let mut held = held.lock().unwrap();
            let newest = held.pop();
            *held = newest.into_iter().collect();
        }
    };
    let both = |(x, y): (&Root<u64>, &Root<u64>)| {
        pheap::txn((x, y), |((tx, x), (ty, y))| {
            tx[x] += 1;
            ty[y] += 1;
            Ok(())
        })
        .unwrap();
    };
    let read = |root: &Root<u64>| root.read(|view, n| view[n]).unwrap();
    let rounds = 300;
    run(
        rounds,
        &[&|_| add(&a).unwrap(), &|_| both((&a, &b)), &|_| both((&b, &a)), &hold],
        &[
            &|_| assert!(read(&a) <= 3 * rounds),
            &|_| assert!(read(&b) <= 2 * rounds),
            &|_| assert!(pheap::txn((&a, &a), |_| Ok(())).is_err()),
            &let_go,
            &|_| drop(kept.clone()),
            &|_| drop(kept.clone()),
            &|_| replace(&list, 3).unwrap(),
            &|_| heap.collect().unwrap(),
        ],
    )?;
    assert_eq!((read(&a), read(&b)), (3 * rounds, 2 * rounds));
    Ok(())
}

/// Creates, removes and renames roots.
pub(super) fn roots() -> Result<(), String> {
    let heap = in_memory();
    let come_and_go = |_| {
        if let Ok(root) = heap.root::<u64>("x") {
            let _ = add(&root);
            let _ = root.read(|_, _| std::thread::yield_now());
        }
        let _ = heap.remove_root("x");
    };
    let fail = |_| {
        let made = heap.root_or::<u64>("never", |_| Err(Error::Unsupported("not today")));
        assert!(made.is_err());
    };
    let rename = |round| {
        let names = ["y", "z"];
        let _ = heap.root::<u64>(names[round as usize % 2]);
        let _ = heap.rename_root(names[round as usize % 2], names[(round as usize + 1) % 2]);
    };
    let list = |_| assert!(heap.roots().len() <= 3);
    let handle = heap.root::<u64>("y").unwrap();
    let name = |_| assert!(["y", "z"].contains(&&*handle.name()));
    let other_names = |_| {
        assert!(format!("{handle:?}").contains(['y', 'z']));
        assert!(matches!(pheap::txn((&handle, &handle), |_| Ok(())), Err(Error::DuplicateRoot { .. })));
    };
    run(60, &[&come_and_go, &come_and_go, &rename, &rename], &[&name, &other_names, &fail, &list])
}

/// Removes roots while other threads read them.
pub(super) fn removals() -> Result<(), String> {
    let heap = in_memory();
    let come_and_go = |_| {
        drop(heap.root::<u64>("x").unwrap());
        heap.remove_root("x").unwrap();
    };
    let read = |_| {
        if let Ok(root) = heap.existing_root::<u64>("x") {
            let _ = (0..1000).take_while(|_| root.read(|view, n| view[n]).is_ok()).count();
        }
    };
    run(60, &[&come_and_go], &[&read, &read])
}

/// Checks and inspects a heap while other threads change it.
pub(super) fn looking() -> Result<(), String> {
    let heap = in_memory();
    let list = heap.root::<List>("list").unwrap();
    let look = |_| {
        assert!(heap.stats().file_bytes > 0);
        assert!(heap.types().len() > 1);
        assert!(heap.info().arenas > 0);
        heap.inspect("list", |object| object.offset()).unwrap();
    };
    let check = |_| {
        let report = heap.check().unwrap();
        assert!(report.is_clean(), "{report}");
    };
    let grow = |_| {
        replace(&list, 400).unwrap();
        heap.collect().unwrap();
    };
    run(20, &[&check, &grow, &grow], &[&look, &look, &check])
}

/// Collects in transactions and on request.
pub(super) fn collections() -> Result<(), String> {
    let heap = small().collect_least(4096).collect_threads(2).in_memory().unwrap();
    let list = heap.root::<List>("list").unwrap();
    replace(&list, 500).unwrap();
    let garbage = |_| replace(&list, 500).unwrap();
    let collect = |_| heap.collect().unwrap();
    let read = |_| assert_eq!(length(&list).unwrap(), 500);
    let ready = |_| {
        heap.wait_ready().unwrap();
        list.collect().unwrap();
    };
    // The collection has spans of these roots to free.
    let (one, two) = (heap.root::<u64>("one").unwrap(), heap.root::<u64>("two").unwrap());
    let large = |root: &Root<u64>| {
        root.txn(|tx, _| tx.alloc_slice_copy(&[1u64; 2048]).map(drop)).unwrap();
        let taken_back = root.txn(|tx, _| {
            tx.alloc_slice_copy(&[1u64; 2048])?;
            Err::<(), _>(Error::Unsupported("not today"))
        });
        assert!(taken_back.is_err());
        root.collect().unwrap();
    };
    run(
        20,
        &[&garbage, &garbage, &collect, &|_| large(&one), &|_| large(&two)],
        &[&collect, &read, &read, &ready, &|_| large(&one), &|_| {
            assert_eq!(one.read(|view, n| view[n]).unwrap(), 0)
        }],
    )
}

/// Migrates a root while other threads use it.
pub(super) fn migrations() -> Result<(), String> {
    let heap = in_memory();
    let migrate = |_| {
        let migrated = heap.migrate::<u64, Wide>("x", |tx, old| Ok(Wide { a: tx[old], b: 1 }));
        assert!(matches!(
            migrated,
            Ok(_)
                | Err(Error::NoSuchRoot(_)
                    | Error::Migrated { .. }
                    | Error::Closed
                    | Error::TypeMismatch { .. })
        ));
    };
    let use_old = |_| {
        if let Ok(root) = heap.root::<u64>("x") {
            let used = add(&root);
            assert!(matches!(used, Ok(()) | Err(Error::Migrated { .. } | Error::Closed)), "{used:?}");
        }
    };
    let use_new = |_| {
        if let Ok(root) = heap.existing_root::<Wide>("x") {
            let _ = root.txn(|tx, wide| Ok(tx[wide].b += 1));
        }
    };
    let remove = |_| drop(heap.remove_root("x"));
    let old = heap.root::<u64>("other").unwrap();
    assert!(heap.migrate::<u64, Wide>("other", |_, _| Ok(Wide::default())).unwrap());
    let too_late = |_| assert!(matches!(add(&old), Err(Error::Migrated { .. })));
    let name = |_| assert_eq!(old.name(), "other");
    run(
        60,
        &[&migrate, &remove],
        &[&migrate, &use_old, &use_old, &use_new, &too_late, &name, &|_| drop(heap.stats())],
    )
}

/// Closes heaps while other threads use them.
pub(super) fn closing() -> Result<(), String> {
    for _ in 0..6 {
        closed_while(false, &small().collect_least(4096), |options| options.in_memory().unwrap())?;
    }
    Ok(())
}

/// Closes a heap while other threads use it and, with `checkpoints`, make checkpoints all the time. The
/// operations must end with success or [`Error::Closed`].
pub(super) fn closed_while(
    checkpoints: bool,
    options: &Options,
    open: impl Fn(&Options) -> Heap,
) -> Result<(), String> {
    let heap = open(options);
    let list = heap.root::<List>("list").unwrap();
    let is_fine =
        |result: pheap::Result<()>| assert!(matches!(result, Ok(()) | Err(Error::Closed)), "{result:?}");
    let change = |_| is_fine(replace(&list, 50));
    // A root that was created after the others, and sorts behind them.
    let last = heap.root::<u64>("z").unwrap();
    let add = |_| is_fine(add(&last));
    let read = |_| is_fine(length(&list).map(drop));
    let checkpoint = |_| if checkpoints { is_fine(heap.checkpoint()) } else { std::thread::yield_now() };
    let others = |_| {
        is_fine(heap.collect());
        is_fine(heap.root::<u64>("other").map(drop));
        is_fine(heap.check().map(drop));
        is_fine(heap.sync());
        checkpoint(0);
    };
    let close = |round| {
        if round == 2 {
            is_fine(heap.clone().close());
        } else {
            std::thread::yield_now();
        }
    };
    let look = |_| drop((heap.stats(), heap.roots()));
    run(10, &[&change, &add, &add, &read, &others, &close, &close], &[&look, &checkpoint, &checkpoint])
}
