//! Changes that annotations cover: the objects stay as they are.

use pheap::{
    Durability, Error, Heap, Options, P, PBTreeMap, PHashMap, PString, PVec, Persist, Result, Root, Spare,
    field,
};
use pheap_testkit::*;

/// The types of the first version.
mod v1 {
    use super::*;

    #[derive(Persist, Default)]
    #[repr(C)]
    pub(crate) struct Queue<'r> {
        pub(crate) by_id: PHashMap<'r, u64, P<'r, Job<'r>>>,
        pub(crate) by_name: PBTreeMap<'r, P<'r, str>, Place>,
        pub(crate) inline: PVec<'r, Place>,
        pub(crate) last: Option<P<'r, Job<'r>>>,
    }

    #[derive(Persist, Default)]
    #[repr(C)]
    pub(crate) struct Job<'r> {
        pub(crate) id: u64,
        pub(crate) text: PString<'r>,
        pub(crate) state: State,
        pub(crate) spare: Spare<24>,
    }

    #[derive(Persist, Default, Clone, Copy, PartialEq, Debug)]
    #[repr(u64)]
    pub(crate) enum State {
        #[default]
        New,
        Done {
            at: u64,
        },
    }

    #[derive(Persist, Default, Clone, Copy, PartialEq, Debug)]
    #[repr(C)]
    pub(crate) struct Place {
        pub(crate) row: u32,
        pub(crate) column: u32,
    }
}

/// The second version: names have changed, and there is more of it.
mod v2 {
    use super::*;

    #[derive(Persist, Default)]
    #[repr(C)]
    pub(crate) struct Queue<'r> {
        pub(crate) by_id: PHashMap<'r, u64, P<'r, Task<'r>>>,
        #[persist(was = "by_name")]
        pub(crate) places: PBTreeMap<'r, P<'r, str>, Cell>,
        pub(crate) inline: PVec<'r, Cell>,
        pub(crate) last: Option<P<'r, Task<'r>>>,
    }

    #[derive(Persist, Default)]
    #[repr(C)]
    #[persist(was = "Job")]
    pub(crate) struct Task<'r> {
        #[persist(was = "id", was = "key")]
        pub(crate) number: u64,
        pub(crate) text: PString<'r>,
        pub(crate) state: State<'r>,
        #[persist(since = 2)]
        pub(crate) parent: Option<P<'r, Task<'r>>>,
        #[persist(since = 2)]
        pub(crate) attempts: u32,
        pub(crate) spare: Spare<12>,
    }

    #[derive(Persist, Default, Clone, Copy)]
    #[repr(u64)]
    #[allow(dead_code)] // some of it is read only
    pub(crate) enum State<'r> {
        #[default]
        New,
        #[persist(was = "Done")]
        Finished {
            #[persist(was = "at")]
            when: u64,
        },
        #[persist(since = 2)]
        Failed(P<'r, str>),
    }

    #[derive(Persist, Default, Clone, Copy, PartialEq, Debug)]
    #[repr(C)]
    #[persist(was = "Place")]
    pub(crate) struct Cell {
        #[persist(was = "row")]
        pub(crate) y: u32,
        #[persist(was = "column")]
        pub(crate) x: u32,
    }
}

type First = Root<v1::Queue<'static>>;
type Second = Root<v2::Queue<'static>>;

fn make(heap: &Heap, n: u32) -> Result<First> {
    let queue: First = heap.root("queue")?;
    queue.txn(|tx, queue| {
        for i in 0..n {
            let text = PString::from_str(tx, &format!("job {i}"))?;
            let state = if i % 3 == 0 { v1::State::New } else { v1::State::Done { at: i.into() } };
            let job = tx.alloc(v1::Job { id: i.into(), text, state, spare: Spare::NEW })?;
            field!(queue.by_id).insert(tx, u64::from(i), job)?;
            let place = v1::Place { row: i, column: 2 * i };
            field!(queue.by_name).insert(tx, &*format!("job {i}"), place)?;
            field!(queue.inline).push(tx, place)?;
            tx[queue].last = Some(job);
        }
        Ok(())
    })?;
    Ok(queue)
}

fn all() -> [Options; 4] {
    let [short, long] = both();
    [short.clone().durability(Durability::Wal), long.clone().durability(Durability::Wal), short, long]
}

/// What the second version finds of what the first has made.
fn holds(queue: &Second, n: u32, failed: bool) -> Result<()> {
    queue.read(|view, queue| {
        let it = &view[queue];
        assert_eq!(it.by_id.len(), n as usize);
        assert_eq!(it.last, it.by_id.get(view, &u64::from(n - 1)).copied());
        for i in 0..n {
            let task = &view[*it.by_id.get(view, &u64::from(i)).unwrap()];
            assert_eq!((task.number, task.text.as_str(view)), (i.into(), &*format!("job {i}")));
            match task.state {
                v2::State::Failed(why) => assert!(failed && view[why] == format!("why {i}")),
                v2::State::New => assert!(!failed && i % 3 == 0),
                v2::State::Finished { when } => assert!(i % 3 != 0 && when == u64::from(i)),
            }
            assert_eq!(task.attempts, 0);
            assert_eq!(task.parent, if failed { it.last } else { None });
            let cell = v2::Cell { y: i, x: 2 * i };
            assert_eq!(it.places.get(view, &*format!("job {i}")), Some(&cell));
            assert_eq!(it.inline.get(view, i as usize), Some(&cell));
        }
    })
}

/// Writes what the first version could not have written.
fn fail(queue: &Second, n: u32) -> Result<()> {
    queue.txn(|tx, queue| {
        for i in (0..n).filter(|i| i % 3 == 0) {
            let task = *tx[queue].by_id.get(tx, &u64::from(i)).unwrap();
            let why = tx.alloc_str(&format!("why {i}"))?;
            tx[task].state = v2::State::Failed(why);
        }
        for i in 0..n {
            let task = *tx[queue].by_id.get(tx, &u64::from(i)).unwrap();
            tx[task].parent = tx[queue].last;
        }
        Ok(())
    })
}

#[test]
fn what_annotations_cover_is_taken_as_it_is() -> Result<()> {
    let dir = tempdir();
    for (i, options) in all().into_iter().enumerate() {
        let path = dir.path().join(i.to_string());
        let heap = options.open(&path)?;
        let old = make(&heap, 300)?;
        heap.collect()?;
        let objects = heap.stats().live_objects;
        let queue: Second = heap.root("queue")?;
        holds(&queue, 300, false)?;
        assert!(matches!(old.read(|_, _| ()), Err(Error::Migrated { .. })));
        assert!(matches!(heap.root::<v1::Queue>("queue"), Err(Error::TypeMismatch { .. })));
        let report = heap.check()?;
        assert!(report.is_clean(), "{report}");
        assert_eq!(heap.stats().live_objects, objects);
        // The collector finds what only the new types lead to, in objects that are old.
        fail(&queue, 300)?;
        for _ in 0..3 {
            heap.collect()?;
            let report = heap.check()?;
            assert!(report.is_clean(), "{report}");
        }
        assert_eq!(heap.stats().live_objects, objects + 100);
        // New objects may go where old ones were.
        queue.txn(|tx, queue| {
            field!(queue.by_id).clear(tx);
            tx[queue].last = None;
            Ok(())
        })?;
        heap.collect()?;
        queue.txn(|tx, queue| {
            let task = tx.alloc(v2::Task::default())?;
            Ok(tx[queue].last = Some(task))
        })?;
        heap.close()?;
        let heap = options.open(&path)?;
        heap.existing_root::<v2::Queue>("queue")?.read(|view, queue| {
            assert!(view[queue].last.is_some_and(|task| view[task].number == 0));
        })?;
        heap.collect()?;
        assert!(heap.check()?.is_clean());
        heap.close()?;
    }
    Ok(())
}

#[test]
fn a_file_is_taken_in_another_session_and_moved() -> Result<()> {
    let dir = tempdir();
    let path = dir.path().join("x");
    for options in all() {
        let heap = options.open(&path)?;
        make(&heap, 50)?;
        heap.close()?;
        // A read-only heap has the root under both types, and its file does not change.
        let before = std::fs::read(&path).unwrap();
        let heap = small().read_only(true).open(&path)?;
        holds(&heap.existing_root("queue")?, 50, false)?;
        heap.existing_root::<v1::Queue>("queue").map(drop)?;
        drop(heap);
        assert!(std::fs::read(&path).unwrap() == before);
        let heap = options.base(1 << 44).open(&path)?;
        let queue: Second = heap.root("queue")?;
        fail(&queue, 50)?;
        drop(queue);
        heap.close()?;
        let heap = small().base(1 << 45).open(&path)?;
        holds(&heap.existing_root("queue")?, 50, true)?;
        assert!(heap.check()?.is_clean());
        heap.close()?;
        std::fs::remove_file(&path).unwrap();
    }
    Ok(())
}

#[test]
fn not_within_a_transaction_nor_while_pointers_are_held() -> Result<()> {
    let heap = small().in_memory()?;
    let old = make(&heap, 3)?;
    let held = old.txn(|tx, queue| Ok(tx.hold(tx[queue].last.unwrap())))?;
    let second = || heap.existing_root::<v2::Queue>("queue");
    assert!(matches!(second(), Err(Error::HeldPointers { .. })));
    old.txn(|tx, _| Ok(assert!(tx.get(&held).is_ok() && matches!(second(), Err(Error::Nested)))))?;
    drop(held);
    old.read(|_, _| assert!(matches!(second(), Err(Error::Nested))))?;
    holds(&second()?, 3, false)?;
    Ok(())
}

/// While another thread collects.
#[test]
fn beside_a_collection() -> Result<()> {
    for options in [small(), small().pin_undo(true), small().collect_least(1).collect_growth(0)] {
        let heap = options.in_memory()?;
        make(&heap, 2000)?;
        std::thread::scope(|scope| -> Result<()> {
            let collector = scope.spawn(|| (0..20).try_for_each(|_| heap.collect()));
            let queue: Second = heap.root("queue")?;
            fail(&queue, 2000)?;
            collector.join().unwrap()?;
            holds(&queue, 2000, true)
        })?;
        heap.collect()?;
        let report = heap.check()?;
        assert!(report.is_clean(), "{report}");
    }
    Ok(())
}

/// Names that something had are those of others by now.
#[test]
fn names_that_others_have_by_now() -> Result<()> {
    mod old {
        use super::*;

        #[derive(Persist, Default)]
        #[repr(C)]
        pub(super) struct T {
            pub(super) b: u32,
            pub(super) a: u32,
            pub(super) state: State,
        }

        #[derive(Persist, Default, Clone, Copy)]
        #[repr(u64)]
        #[allow(dead_code)]
        pub(super) enum State {
            #[default]
            A,
            B(u64),
        }
    }
    mod new {
        use super::*;

        #[derive(Persist, Default)]
        #[repr(C)]
        pub(super) struct T {
            #[persist(was = "b", was = "a")]
            pub(super) c: u32,
            pub(super) b: u32,
            pub(super) state: State,
        }

        #[derive(Persist, Default, Clone, Copy, PartialEq, Debug)]
        #[repr(u64)]
        #[allow(dead_code)]
        pub(super) enum State {
            #[persist(since = 2)]
            C = 2,
            #[persist(was = "B")]
            A(u64) = 1,
            #[default]
            #[persist(was = "A")]
            B = 0,
        }
    }
    /// One of the two was another field, which is no more.
    #[derive(Persist, Default)]
    #[repr(C)]
    #[persist(removed = "b")]
    struct T {
        #[persist(was = "a")]
        c: u32,
        state: old::State,
    }
    let heap = small().in_memory()?;
    for name in ["one", "other"] {
        heap.root::<old::T>(name)?.txn(|tx, top| {
            tx[top] = old::T { a: 1, b: 2, state: old::State::B(3) };
            Ok(())
        })?;
    }
    let root = heap.evolve::<new::T>("one").run().and_then(|_| heap.root::<new::T>("one"))?;
    let seen = root.read(|view, top| (view[top].b, view[top].c, view[top].state))?;
    assert_eq!(seen, (2, 1, new::State::A(3)));
    assert!(heap.evolve::<T>("other").run()?);
    assert_eq!(heap.root::<T>("other")?.read(|view, top| view[top].c)?, 1);
    Ok(())
}
