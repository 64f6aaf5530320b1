//! Code of the program that pheap calls may call pheap in turn: the call works, or returns `Error::Nested`.
//! Nothing waits for ever.
//!
//! Each method of [`Heap`] and [`Root`] is called in each callback, on a new heap: all in memory, and with a
//! log all in a thorough run, else a third of them.
#![allow(clippy::unit_arg)] // `Ok(tx[p] = 1)` is a transaction in one line

use std::any::Any;
use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::io::{self, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex, OnceLock, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};
use std::{iter, thread};

use pheap::{
    Backup, Commit, Durability, Error, Heap, Migrate, P, PBTreeMap, PSnapMap, PVec, Persist, Result, Root,
    SyncPolicy,
};
use pheap_testkit::{is_thorough, sleeps, small, sources, tempdir, this_thread};
use tracing::span;

/// A call that takes longer counts as one that waits for ever.
const PATIENCE: Duration = Duration::from_secs(120);

/// A heap with some roots.
struct Here {
    heap: Heap,
    same: Root<u64>,
    other: Root<u64>,
    snaps: Root<PSnapMap<'static, u64, u64>>,
    /// The file, unless the heap is in memory.
    file: Option<PathBuf>,
    folder: tempfile::TempDir,
    /// Names of files that were made.
    files: AtomicU64,
}

impl Here {
    fn new(durability: Option<Durability>) -> Result<Here> {
        Here::copy(); // made outside of other heaps
        let folder = tempdir();
        let file = durability.map(|_| folder.path().join("heap"));
        let heap = match (&file, durability) {
            (Some(file), Some(durability)) => {
                small().durability(durability).sync_policy(SyncPolicy::OnDemand).open(file)?
            }
            _ => small().in_memory()?,
        };
        heap.root::<v1::Old>("old")?.txn(|tx, old| Ok(tx[old].value = 7))?;
        heap.root::<v1::Old>("older")?;
        let snaps: Root<PSnapMap<u64, u64>> = heap.root("snaps")?;
        snaps.txn(|tx, map| map.insert(tx, &1, &1).map(drop))?;
        let (same, other) = (heap.root("same")?, heap.root("other")?);
        heap.set_sync_policy(SyncPolicy::EveryCommit)?;
        Ok(Here { heap, same, other, snaps, file, folder, files: AtomicU64::new(0) })
    }

    fn new_file(&self) -> PathBuf {
        self.folder.path().join(self.files.fetch_add(1, SeqCst).to_string())
    }

    /// A backup of an empty heap.
    fn copy() -> &'static [u8] {
        static COPY: OnceLock<Vec<u8>> = OnceLock::new();
        COPY.get_or_init(|| {
            let mut copy = Vec::new();
            small().in_memory().and_then(|heap| heap.backup_to(&mut copy)).expect("a backup");
            copy
        })
    }
}

mod v1 {
    use super::*;

    #[derive(Persist, Default)]
    #[repr(C)]
    #[persist(id = "Old")]
    pub(super) struct Old {
        pub(super) value: u64,
    }
}

/// `Old` with a new field.
#[derive(Persist)]
#[repr(C)]
#[persist(id = "Old")]
struct New {
    #[persist(since = 2, default = called())]
    more: u64,
    value: u64,
}

/// What `Migrate` makes of `Old`.
#[derive(Persist)]
#[repr(C)]
struct Migrated {
    more: u64,
    value: u64,
}

impl Migrate<v1::Old> for Migrated {
    fn migrate(old: v1::Old) -> Migrated {
        Migrated { more: called(), value: old.value }
    }
}

#[derive(Persist)]
#[repr(C)]
struct Calls(u64);

impl Default for Calls {
    fn default() -> Calls {
        Calls(called())
    }
}

/// Calls when it is compared.
#[derive(Persist, Clone, Copy, PartialEq, Eq)]
#[persist(key)]
#[repr(transparent)]
struct Key(u64);

impl Ord for Key {
    fn cmp(&self, other: &Key) -> Ordering {
        called();
        self.0.cmp(&other.0)
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The code that runs in a callback.
type Act = Arc<dyn Fn() + Send + Sync>;

thread_local! {
    /// For code of the program's that has no closure.
    static ACT: RefCell<Option<Act>> = const { RefCell::new(None) };
}

fn set(act: &Act) {
    ACT.set(Some(act.clone()));
}

fn called() -> u64 {
    let act = ACT.with_borrow(Option::clone);
    act.iter().for_each(|act| act());
    1
}

/// Polls a future once.
fn poll<T>(future: impl Future<Output = Result<T>>) -> Result<()> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result.map(drop),
        Poll::Pending => Ok(()),
    }
}

type Method = (&'static str, fn(&Here) -> Result<()>);

/// The methods of [`Heap`] and [`Root`], and other calls that begin something.
const METHODS: &[Method] = &[
    ("Heap::open", |here| match here.file.as_ref().map(Heap::open) {
        Some(Err(Error::AlreadyOpen { .. })) | None => Ok(()),
        Some(other) => other.map(drop),
    }),
    ("Heap::in_memory", |_| small().in_memory().map(drop)),
    ("Heap::durability", |here| Ok(assert!(here.heap.durability() != Durability::Auto))),
    ("Heap::path", |here| Ok(assert_eq!(here.heap.path(), here.file.as_deref()))),
    ("Heap::base", |here| Ok(assert!(here.heap.base() > 0))),
    ("Heap::will_read", |here| Ok(here.heap.will_read(&[]))),
    ("Heap::stats", |here| Ok(drop(here.heap.stats()))),
    ("Heap::close", |here| here.heap.close()),
    ("Heap::evolve", |here| here.heap.evolve::<New>("older").run().map(drop)),
    ("Heap::root", |here| here.heap.root::<u64>("a new one").map(drop)),
    ("Heap::root", |here| here.heap.root::<u64>("same").map(drop)),
    ("Heap::root_or", |here| here.heap.root_or::<P<u64>>("a new one", |tx| tx.alloc(1)).map(drop)),
    ("Heap::existing_root", |here| here.heap.existing_root::<u64>("same").map(drop)),
    ("Heap::migrate", |here| {
        let migrated = here.heap.migrate::<v1::Old, u64>("older", |tx, old| Ok(tx[old].value));
        migrated.map(|migrated| assert!(migrated))
    }),
    ("Heap::wait_ready", |here| here.heap.wait_ready()),
    ("Heap::collect", |here| here.heap.collect()),
    ("Heap::roots", |here| Ok(drop(here.heap.roots()))),
    ("Heap::rename_root", |here| here.heap.rename_root("other", "renamed")),
    ("Heap::remove_root", |here| here.heap.remove_root("other")),
    ("Heap::remove_root", |here| here.heap.remove_root("snaps")),
    ("Heap::sync", |here| here.heap.sync()),
    ("Heap::set_sync_policy", |here| here.heap.set_sync_policy(SyncPolicy::OnDemand)),
    ("Heap::checkpoint", |here| here.heap.checkpoint()),
    ("Heap::fold_log", |here| here.heap.fold_log()),
    ("Heap::types", |here| Ok(drop(here.heap.types()))),
    ("Heap::info", |here| Ok(drop(here.heap.info()))),
    ("Heap::inspect", |here| here.heap.inspect("same", |object| assert!(object.offset() > 0))),
    ("Heap::objects", |here| here.heap.objects(|objects| assert!(objects.bound() > 0))),
    ("Heap::backup", |here| here.heap.backup(here.new_file())),
    ("Heap::backup_to", |here| here.heap.backup_to(io::sink())),
    ("Heap::restore", |here| Heap::restore(Here::copy(), here.new_file())),
    ("Heap::holders", |here| Ok(drop(here.heap.holders()))),
    ("Heap::check", |here| here.heap.check().map(drop)),
    ("Root::name", |here| Ok(drop(here.same.name()))),
    ("Root::txn", |here| here.same.txn(|tx, n| Ok(tx[n] += 1))),
    ("Root::txn", |here| here.other.txn(|tx, n| Ok(tx[n] += 1))),
    ("Root::try_txn", |here| here.same.try_txn(|tx, n| Ok(tx[n] += 1))),
    ("Root::read", |here| here.same.read(|view, n| assert!(view[n] < 9))),
    ("Root::read", |here| here.other.read(|view, n| assert!(view[n] < 9))),
    ("Root::try_read", |here| here.same.try_read(|view, n| Ok(assert!(view[n] < 9)))),
    ("Root::collect", |here| here.same.collect()),
    ("Root::watch", |here| Ok(drop(here.same.watch(|| ())))),
    ("Root::live", |here| Ok(assert!(here.same.live().bytes < 1 << 20))),
    ("Root::txn_deferred", |here| here.same.txn_deferred(|tx, n| Ok(tx[n] += 1))?.1.wait()),
    ("Root::try_txn_deferred", |here| here.same.try_txn_deferred(|tx, n| Ok(tx[n] += 1))?.1.wait()),
    ("Root::read_deferred", |here| here.same.read_deferred(|view, n| assert!(view[n] < 9))?.1.wait()),
    ("Root::txn_async", |here| poll(here.same.txn_async(|tx, n| Ok(tx[n] += 1)))),
    ("Root::try_txn_async", |here| poll(here.same.try_txn_async(|tx, n| Ok(tx[n] += 1)))),
    ("Root::read_async", |here| poll(here.same.read_async(|view, n| assert!(view[n] < 9)))),
    ("Root::durable_snapshot", |here| here.snaps.durable_snapshot()?.read(|map| assert_eq!(map.len(), 1))),
    ("txn", |here| {
        let both = (&here.same, &here.other);
        pheap::txn(both, |((tx, n), _)| Ok(tx[n] += 1))
    }),
    ("txn_deferred", |here| pheap::txn_deferred((&here.same,), |((tx, n),)| Ok(tx[n] += 1))?.1.wait()),
    ("txn_async", |here| poll(pheap::txn_async((&here.same,), |((tx, n),)| Ok(tx[n] += 1)))),
    ("Backup::write_file", |here| Backup::of(&here.heap).write_file(here.new_file())),
    ("drop", |here| Ok(drop((here.heap.clone(), here.same.clone())))),
];

/// Where it is called.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Where {
    Anywhere,
    /// With a write-ahead log only.
    WithLog,
    /// While the heap is being closed.
    InClose,
}
use Where::{Anywhere, InClose, WithLog};

/// A callback: has `act` called in it once, at least.
type Callback = (&'static str, Where, fn(&Here, Act) -> Result<()>);

const CALLBACKS: &[Callback] = &[
    ("Root::txn", Anywhere, |here, act| here.same.txn(|_, _| Ok(act()))),
    ("Root::txn that has written", Anywhere, |here, act| {
        here.same.txn(|tx, n| {
            tx[n] += 1;
            Ok(act())
        })
    }),
    ("Root::txn of another root", Anywhere, |here, act| here.other.txn(|_, _| Ok(act()))),
    ("Root::txn_deferred", Anywhere, |here, act| here.same.txn_deferred(|_, _| Ok(act())).map(drop)),
    ("Root::txn_async", Anywhere, |here, act| poll(here.same.txn_async(|_, _| Ok(act())))),
    ("txn", Anywhere, |here, act| pheap::txn((&here.other, &here.same), |_| Ok(act()))),
    ("Txn::nested", Anywhere, |here, act| here.same.txn(|tx, n| tx.nested(n, |_, _| Ok(act())))),
    ("Txn::alloc_slice", Anywhere, |here, act| here.same.txn(|tx, _| tx.alloc_slice(1, |_| act()).map(drop))),
    ("Root::read", Anywhere, |here, act| here.same.read(|_, _| act())),
    ("Root::read of another root", Anywhere, |here, act| here.other.read(|_, _| act())),
    ("Root::read_deferred", Anywhere, |here, act| here.same.read_deferred(|_, _| act()).map(drop)),
    ("Snapshot::read", Anywhere, |here, act| here.snaps.durable_snapshot()?.read(|_| act())),
    ("Heap::root_or", Anywhere, |here, act| {
        let new = here.heap.root_or::<P<u64>>("new", |tx| {
            act();
            tx.alloc(1)
        });
        new.map(drop)
    }),
    ("Default of a root", Anywhere, |here, act| {
        set(&act);
        here.heap.root::<Calls>("new").map(drop)
    }),
    ("Heap::migrate", Anywhere, |here, act| {
        let migrated = here.heap.migrate::<v1::Old, u64>("old", |tx, old| {
            act();
            Ok(tx[old].value)
        });
        migrated.map(|migrated| assert!(migrated))
    }),
    ("Evolution::on_progress", Anywhere, |here, act| {
        here.heap.evolve::<New>("old").on_progress(|_| act()).run().map(|done| assert!(done))
    }),
    ("default = ..", Anywhere, |here, act| {
        set(&act);
        here.heap.evolve::<New>("old").run().map(|done| assert!(done))
    }),
    ("Migrate::migrate", Anywhere, |here, act| {
        set(&act);
        here.heap.evolve::<Migrated>("old").with::<v1::Old, Migrated>().run().map(|done| assert!(done))
    }),
    ("Backup::progress", Anywhere, |here, act| {
        Backup::of(&here.heap).progress(|_, _| act()).write_to(io::sink())
    }),
    ("Backup::write_file", Anywhere, |here, act| {
        Backup::of(&here.heap).progress(|_, _| act()).write_file(here.new_file())
    }),
    ("the end of Backup::progress", Anywhere, |here, act| {
        let progress = |done, total| {
            if done == total {
                act()
            }
        };
        Backup::of(&here.heap).progress(progress).write_to(io::sink())
    }),
    ("Heap::backup_to", Anywhere, |here, act| here.heap.backup_to(Calling(1, &*act, io::sink()))),
    ("Heap::backup_to in the middle", Anywhere, |here, act| {
        here.heap.backup_to(Calling(3, &*act, io::sink()))
    }),
    ("Heap::restore", Anywhere, |here, act| Heap::restore(Calling(3, &*act, Here::copy()), here.new_file())),
    ("Heap::inspect", Anywhere, |here, act| here.heap.inspect("same", |_| act())),
    ("Heap::objects", Anywhere, |here, act| here.heap.objects(|_| act())),
    ("Objects::survey", Anywhere, |here, act| {
        here.heap.objects(|objects| drop(objects.survey(|_| (), |_| act())))
    }),
    ("Root::watch", Anywhere, |here, act| {
        let _watch = here.same.watch(move || act());
        here.same.txn(|tx, n| Ok(tx[n] += 1))
    }),
    ("Root::watch of two", Anywhere, |here, act| {
        let _watch = here.same.watch(move || act());
        pheap::txn((&here.same, &here.other), |((tx, n), _)| Ok(tx[n] += 1))
    }),
    ("Root::watch of a deferred one", Anywhere, |here, act| {
        let _watch = here.same.watch(move || act());
        here.same.txn_deferred(|tx, n| Ok(tx[n] += 1)).map(drop)
    }),
    ("Root::watch in another heap's transaction", Anywhere, |here, act| {
        let _watch = here.same.watch(move || act());
        let outer: Root<u64> = small().in_memory()?.root("outer")?;
        pheap::with_several_heaps(|| outer.txn(|_, _| here.same.txn(|tx, n| Ok(tx[n] += 1))))
    }),
    ("Ord", Anywhere, |here, act| {
        set(&act);
        let map: Root<PBTreeMap<Key, u64>> = here.heap.root("map")?;
        map.txn(|tx, map| [1, 2].into_iter().try_for_each(|n| map.insert(tx, &Key(n), n).map(drop)))
    }),
    ("Iterator", Anywhere, |here, act| {
        let list: Root<PVec<u64>> = here.heap.root("list")?;
        list.txn(|tx, list| list.extend(tx, iter::once(1).inspect(|_| act())))
    }),
    ("Waker::wake", WithLog, |here, act| {
        struct Woken(Act, mpsc::Sender<()>);
        impl Wake for Woken {
            fn wake(self: Arc<Self>) {
                (self.0)();
                self.1.send(()).unwrap();
            }
        }
        let (tell, told) = mpsc::channel();
        let _commit = wait_for(here, Arc::new(Woken(act, tell)).into())?; // dropped, it takes its waker back
        Ok(told.recv().unwrap())
    }),
    ("the drop of a waker", WithLog, |here, act| {
        struct Dropped(Act, mpsc::Sender<()>);
        impl Wake for Dropped {
            fn wake(self: Arc<Self>) {}
        }
        impl Drop for Dropped {
            fn drop(&mut self) {
                (self.0)();
                self.1.send(()).unwrap();
            }
        }
        let (tell, told) = mpsc::channel();
        drop(wait_for(here, Arc::new(Dropped(act, tell)).into())?);
        // By this thread, or by the one that has just called it.
        Ok(told.recv().unwrap())
    }),
    ("an event while a root is removed", Anywhere, |here, act| {
        let busy = here.heap.root::<u64>("busy")?;
        while_busy(busy, act, || here.heap.remove_root("busy"))
    }),
    ("an event while the heap is closed", InClose, |here, act| {
        while_busy(here.heap.root::<u64>("busy")?, act, || here.heap.close())
    }),
];

/// Calls at the `n`th of its calls.
struct Calling<'a, T>(u32, &'a dyn Fn(), T);

impl<T> Calling<'_, T> {
    fn call(&mut self) {
        self.0 = self.0.wrapping_sub(1);
        if self.0 == 0 {
            (self.1)();
        }
    }
}

impl<W: Write> Write for Calling<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.call();
        self.2.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.2.flush()
    }
}

impl<R: Read> Read for Calling<'_, R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.call();
        self.2.read(bytes)
    }
}

/// Has a waker called, and dropped, by the thread of the heap that syncs, unless what this returns is dropped
/// before.
fn wait_for(here: &Here, waker: Waker) -> Result<Commit> {
    // So that the commit is not durable yet when it is polled.
    here.heap.set_sync_policy(SyncPolicy::OnDemand)?;
    let ((), mut commit) = here.same.txn_deferred(|tx, n| Ok(tx[n] += 1))?;
    assert!(pin!(&mut commit).poll(&mut Context::from_waker(&waker)).is_pending());
    Ok(commit)
}

/// Runs `f`, which waits for a transaction on `busy`. That ends when `f` has said so by an event, in which
/// `act` is called.
fn while_busy(busy: Root<u64>, act: Act, f: impl FnOnce() -> Result<()>) -> Result<()> {
    struct Events(Act, Mutex<mpsc::Sender<()>>);
    impl tracing::Subscriber for Events {
        fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
            true
        }
        fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
            span::Id::from_u64(1)
        }
        fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
        fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
        fn event(&self, event: &tracing::Event<'_>) {
            if *event.metadata().level() == tracing::Level::WARN {
                (self.0)();
                let _ = self.1.lock().unwrap().send(());
            }
        }
        fn enter(&self, _: &span::Id) {}
        fn exit(&self, _: &span::Id) {}
    }
    let ((begins, begun), (tell, told)) = (mpsc::channel(), mpsc::channel());
    thread::scope(|scope| {
        scope.spawn(move || {
            busy.txn(|_, _| {
                begins.send(()).unwrap();
                Ok(told.recv().unwrap())
            })
        });
        begun.recv().unwrap();
        tracing::subscriber::with_default(Events(act, Mutex::new(tell)), f)
    })
}

/// Calls a method in a callback. Returns the result of the method.
fn run(durability: Option<Durability>, callback: &Callback, method: &Method) -> Result<Result<()>> {
    let here = Arc::new(Here::new(durability)?);
    let (result, is_called) = (Arc::new(Mutex::new(None)), Arc::new(AtomicBool::new(false)));
    let act: Act = {
        let (here, result, call) = (here.clone(), result.clone(), method.1);
        Arc::new(move || {
            if !is_called.swap(true, SeqCst) {
                let returned = call(&here);
                *result.lock().unwrap() = Some(returned);
            }
        })
    };
    let called = callback.2(&here, act);
    ACT.set(None);
    let result = result.lock().unwrap().take().expect("the method was called");
    let is_closed = callback.1 == InClose || method.0 == "Heap::close" && result.is_ok();
    match called {
        Err(Error::Closed) if is_closed => {}
        called => called?,
    }
    // Whatever was done, the heap works, unless it was closed; and its file can be opened again.
    match here.heap.check() {
        Err(Error::Closed) => assert!(is_closed, "the heap is closed"),
        report => assert!(report?.is_clean()),
    }
    match here.same.txn(|tx, n| Ok(tx[n] += 1)) {
        Err(Error::Closed) => {}
        other => other?,
    }
    if let Some(file) = &here.file {
        let _ = here.heap.close();
        let heap = small().open(file)?;
        assert!(heap.check()?.is_clean());
        heap.root::<u64>("same")?.txn(|tx, n| Ok(tx[n] += 1))?;
    }
    Ok(result)
}

/// The result of [`run`], or the text of a panic.
type Outcome = Result<Result<Result<()>>, String>;

/// Calls methods in a callback, all at the same time, because some of them wait. Returns the outcome of each,
/// with its name.
///
/// # Panics
/// If one of them takes longer than [`PATIENCE`].
fn run_all(
    durability: Option<Durability>,
    callback: &'static Callback,
    methods: &[&'static Method],
) -> Vec<(String, Outcome)> {
    let (sender, outcomes) = mpsc::channel::<(usize, Outcome)>();
    for (number, &method) in methods.iter().enumerate() {
        let sender = sender.clone();
        // Not joined: perhaps it waits for ever.
        thread::spawn(move || {
            let outcome = catch_unwind(AssertUnwindSafe(|| run(durability, callback, method)));
            let text = |panic: Box<dyn Any + Send>| match panic.downcast::<String>() {
                Ok(text) => *text,
                Err(panic) => panic
                    .downcast_ref::<&str>()
                    .map_or_else(|| "a panic".to_owned(), |text| (*text).to_owned()),
            };
            let _ = sender.send((number, outcome.map_err(text)));
        });
    }
    let names = methods.iter().map(|method| format!("{} in {} ({durability:?})", method.0, callback.0));
    let (names, mut all): (Vec<_>, BTreeMap<_, _>) = (names.collect(), BTreeMap::new());
    let end = Instant::now() + PATIENCE;
    while all.len() < names.len() {
        let Ok((number, outcome)) = outcomes.recv_timeout(end.saturating_duration_since(Instant::now()))
        else {
            let waits = |(number, name)| (!all.contains_key(&number)).then_some(name);
            panic!(
                "these wait for ever: {:?}",
                names.iter().enumerate().filter_map(waits).collect::<Vec<_>>()
            );
        };
        all.insert(number, outcome);
    }
    names.into_iter().zip(all.into_values()).collect()
}

/// Calls methods in a callback. Where heaps cost little, and in thorough runs, these are all methods; else a
/// third of them, which differs from one callback to the next.
fn check_all(durability: Option<Durability>, callback: &'static Callback) {
    let step = if durability.is_none() || is_thorough() { 1 } else { 3 };
    let number = CALLBACKS.iter().position(|other| other.0 == callback.0).unwrap();
    let methods: Vec<_> = METHODS.iter().skip(number % step).step_by(step).collect();
    for (name, outcome) in run_all(durability, callback, &methods) {
        match outcome {
            Ok(Ok(Ok(()) | Err(Error::Nested))) => {}
            Ok(Ok(Err(Error::Closed))) if callback.1 == InClose => {}
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn nothing_waits_for_ever_in_a_callback_of_a_heap_in_memory() {
    CALLBACKS.iter().filter(|callback| callback.1 != WithLog).for_each(|callback| check_all(None, callback));
}

#[test]
fn nothing_waits_for_ever_in_a_callback_of_a_heap_with_a_log() {
    CALLBACKS.iter().for_each(|callback| check_all(Some(Durability::Wal), callback));
}

/// Two threads, each of which is in a transaction of one heap, use the other one.
#[test]
fn nothing_waits_for_ever_between_two_heaps() -> Result<()> {
    // To read is allowed, and waits for the other one's transaction: the program sees to the order.
    for method in METHODS.iter().filter(|method| !method.0.contains("read")) {
        for durability in if is_thorough() { &[None, Some(Durability::Wal)][..] } else { &[None] } {
            let durability = *durability;
            let heaps = [Arc::new(Here::new(durability)?), Arc::new(Here::new(durability)?)];
            let (barrier, (done, ended)) = (Arc::new(Barrier::new(2)), mpsc::channel());
            for (own, other) in [(0, 1), (1, 0)] {
                let (own, other) = (heaps[own].clone(), heaps[other].clone());
                let (barrier, done) = (barrier.clone(), done.clone());
                thread::spawn(move || {
                    let called = own.same.txn(|tx, n| {
                        tx[n] += 1;
                        barrier.wait();
                        Ok(method.1(&other))
                    });
                    done.send(called.unwrap()).unwrap();
                });
            }
            for _ in 0..2 {
                match ended.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{} waits for ever", method.0)) {
                    Ok(()) | Err(Error::SeveralHeaps) => {}
                    other => panic!("{}: {other:?}", method.0),
                }
            }
        }
    }
    Ok(())
}

/// A heap is dropped inside another one, for which a waker waits.
#[test]
fn a_heap_that_is_dropped_waits_for_no_waker_that_waits_for_this_thread() -> Result<()> {
    struct Waits(Root<u64>, mpsc::Sender<()>);
    impl Wake for Waits {
        fn wake(self: Arc<Self>) {
            self.1.send(()).unwrap();
            self.0.txn(|tx, n| Ok(tx[n] += 1)).unwrap();
            self.1.send(()).unwrap();
        }
    }
    let ((tell, told), (done, ended)) = (mpsc::channel(), mpsc::channel());
    let outer: Root<u64> = small().in_memory()?.root("outer")?;
    thread::spawn(move || {
        let here = Here::new(Some(Durability::Wal)).unwrap();
        let waker = Arc::new(Waits(outer.clone(), tell)).into();
        let inside = outer.read(|_, _| {
            let _commit = wait_for(&here, waker).unwrap();
            told.recv().unwrap();
            drop(here);
        });
        inside.unwrap();
        told.recv().unwrap();
        done.send(()).unwrap();
    });
    Ok(ended.recv_timeout(PATIENCE).expect("they wait for ever"))
}

/// The thread that calls wakers is waited for by `close`, and must not wait for that.
#[test]
fn a_waker_that_copies_the_heap_does_not_wait_for_its_end() -> Result<()> {
    struct Copies(Heap, mpsc::Sender<i32>, Mutex<mpsc::Receiver<()>>, mpsc::Sender<()>);
    impl Wake for Copies {
        fn wake(self: Arc<Self>) {
            self.1.send(this_thread()).unwrap();
            self.2.lock().unwrap().recv().unwrap();
            let _ = self.0.backup_to(io::sink());
            self.3.send(()).unwrap();
        }
    }
    let until_it_sleeps = |thread| while !sleeps(thread) {};
    let here = Arc::new(Here::new(Some(Durability::Wal))?);
    let ((tell, told), (go, goes), (done, ended)) = (mpsc::channel(), mpsc::channel(), mpsc::channel());
    let waker = Copies(here.heap.clone(), tell.clone(), Mutex::new(goes), done.clone());
    let _commit = wait_for(&here, Arc::new(waker).into())?;
    let syncer = told.recv().unwrap();
    // A copy that takes long, for whose end `close` waits.
    let ((release, released), (copies, done_too, begin)) =
        (mpsc::channel(), (here.clone(), done.clone(), tell.clone()));
    thread::spawn(move || {
        let act = || (begin.send(0).unwrap(), released.recv().unwrap()).1;
        copies.heap.backup_to(Calling(3, &act, io::sink())).unwrap();
        done_too.send(()).unwrap();
    });
    told.recv().unwrap();
    thread::spawn(move || {
        tell.send(this_thread()).unwrap();
        here.heap.close().unwrap();
        done.send(()).unwrap();
    });
    until_it_sleeps(told.recv().unwrap());
    go.send(()).unwrap();
    until_it_sleeps(syncer);
    release.send(()).unwrap();
    for _ in 0..3 {
        ended.recv_timeout(PATIENCE).expect("one of them waits for ever");
    }
    Ok(())
}

/// A backup waits for another one, while a thread waits to close the heap.
#[test]
fn a_backup_that_another_one_waits_for_does_not_wait_for_the_end_of_the_heap() -> Result<()> {
    let here = Arc::new(Here::new(Some(Durability::Wal))?);
    let (done, ended) = mpsc::channel();
    thread::spawn(move || {
        let (tell, told) = mpsc::channel();
        let act = || {
            let (closes, copies, tell) = (here.clone(), here.clone(), tell.clone());
            thread::spawn(move || {
                tell.send(this_thread()).unwrap();
                closes.heap.close().unwrap();
            });
            let closer = told.recv().unwrap();
            while !sleeps(closer) {}
            let copied = thread::spawn(move || copies.heap.backup_to(io::sink())).join().unwrap();
            assert!(matches!(copied, Err(Error::Closed)), "{copied:?}");
        };
        done.send(here.heap.backup_to(Calling(3, &act, io::sink()))).unwrap();
    });
    ended.recv_timeout(PATIENCE).expect("they wait for ever")
}

/// A method that needs what its callback holds returns `Nested`. Any other does not.
#[test]
fn what_is_nested_and_what_is_not() {
    let is_nested = |durability, callbacks: &[&str], methods: &[&str], nested: bool| {
        for callback in CALLBACKS.iter().filter(|callback| callbacks.contains(&callback.0)) {
            let methods: Vec<_> = METHODS.iter().filter(|method| methods.contains(&method.0)).collect();
            for (name, outcome) in run_all(durability, callback, &methods) {
                match outcome {
                    Ok(Ok(Err(Error::Nested))) if nested => {}
                    Ok(Ok(Ok(()))) if !nested => {}
                    other => panic!("{name}: {other:?}"),
                }
            }
        }
    };
    let (memory, log) = (None, Some(Durability::Wal));
    let still = [
        "Heap::check",
        "Heap::backup_to",
        "Heap::inspect",
        "Heap::objects",
        "Heap::rename_root",
        "Heap::close",
    ];
    let evolving =
        ["Evolution::on_progress", "Migrate::migrate", "default = ..", "Heap::migrate", "Heap::root_or"];
    is_nested(memory, &evolving, &still, true);
    is_nested(memory, &["Root::watch", "Heap::restore"], &still, false);
    is_nested(memory, &["Heap::backup_to in the middle"], &["Root::txn", "Root::collect"], true);
    is_nested(memory, &["Heap::backup_to in the middle"], &["Root::read"], false);
    let beside = [
        "Root::txn",
        "Root::collect",
        "Heap::collect",
        "Heap::check",
        "Heap::remove_root",
        "Heap::checkpoint",
    ];
    is_nested(log, &["Heap::backup_to in the middle", "Waker::wake"], &beside, false);
    is_nested(log, &["Heap::backup_to in the middle"], &["Heap::backup", "Heap::close"], true);
    is_nested(log, &["Waker::wake"], &["Heap::backup", "Heap::close"], false);
}

/// Names, after `of`, of the public methods in the blocks of pheap's sources that begin like this.
fn methods(blocks: &[&str], of: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (file, text) in sources(concat!(env!("CARGO_MANIFEST_DIR"), "/src")) {
        if file.contains("simulated") || file.starts_with("collections/hash") {
            continue; // for tests of pheap's own, and another `Root`
        }
        for block in blocks {
            for methods in text.split(block).skip(1) {
                let methods = methods.split("\n}\n").next().expect("there is an end");
                for line in methods.lines() {
                    let line = line.strip_prefix("    pub fn ").or(line.strip_prefix("    pub async fn "));
                    let name = line.and_then(|line| line.split(['(', '<']).next());
                    names.extend(name.map(|name| format!("{of}::{name}")));
                }
            }
        }
    }
    names
}

#[test]
fn all_methods_are_called() {
    let tested: BTreeSet<_> = METHODS.iter().map(|method| method.0.to_owned()).collect();
    let all = &methods(&["\nimpl Heap {\n"], "Heap")
        | &methods(&["\nimpl<T: Persist> Root<T> {\n", "Root<PSnapMap<'static, K, V>> {\n"], "Root");
    assert!(all.len() > 40, "{all:?}");
    assert_eq!(all.difference(&tested).collect::<Vec<_>>(), [""; 0]);
}
