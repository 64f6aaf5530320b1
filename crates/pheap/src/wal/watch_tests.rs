//! Tests: watchers of a root whose transactions wait for the disk, or do not.
#![allow(clippy::unit_arg)] // transactions of one assignment return its unit value

use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Waker};

use super::deferred_tests::{Setup, add, get, is_unknown, until_it_waits, while_the_disk_stands_still};
use crate::{PSnapMap, Root};

/// The watcher panics, so no thread ever gets the `Commit` to wait for it.
#[test]
fn who_watches_is_told_when_it_was_seen_to_that_a_commit_becomes_durable() {
    let setup = Setup::every_commit();
    let Setup { a, b, .. } = &setup;
    let (wal, waker) = (setup.wal(), Waker::noop());
    let calls: [&dyn Fn(); 4] = [
        &|| drop(add(a)),
        &|| drop(crate::txn_deferred((b, a), |((tb, b), (ta, a))| Ok((tb[b], ta[a]) = (1, 1)))),
        &|| drop(pin!(a.txn_async(|tx, n| Ok(tx[n] += 1))).poll(&mut Context::from_waker(waker))),
        &|| {
            drop(
                pin!(crate::txn_async((a,), |((tx, n),)| Ok(tx[n] += 1)))
                    .poll(&mut Context::from_waker(waker)),
            )
        },
    ];
    let (wanted, seen) = (Arc::new(AtomicU64::new(0)), wal.clone());
    let shown = wanted.clone();
    let _watch = a.watch(move || {
        shown.store(seen.wanted.load(Ordering::Relaxed), Ordering::Relaxed);
        resume_unwind(Box::new("expected"));
    });
    while_the_disk_stands_still(&wal, || {
        for (i, call) in calls.iter().enumerate() {
            catch_unwind(AssertUnwindSafe(call)).unwrap_err();
            assert_eq!(wanted.load(Ordering::Relaxed), wal.end_position(), "{i}");
        }
    });
    // A read that is not deferred now waits for the disk only.
    assert_eq!(get(a).unwrap(), 3);
}

/// The watcher registers while the commit is not durable, so it sees the older state, and is then told of the
/// newer one.
#[test]
fn who_watches_before_a_commit_is_durable_is_told() {
    let setup = &Setup::every_commit();
    let map: Root<PSnapMap<u64, u64>> = setup.heap.root("map").unwrap();
    let len = || map.durable_snapshot().unwrap().read(|map| map.len()).unwrap();
    let told = Arc::new(AtomicU64::new(0));
    for both in [false, true] {
        told.store(0, Ordering::Relaxed);
        let before = len();
        let mut watch = None;
        let work = |note: &dyn Fn(&'static str)| {
            note("begins");
            let key = u64::from(both);
            let done = if both {
                crate::txn((&map, &setup.a), |((tx, map), _)| map.insert(tx, &key, &1))
            } else {
                map.txn(|tx, map| map.insert(tx, &key, &1))
            };
            done.unwrap();
            note("told");
        };
        let watches = || {
            let told = told.clone();
            watch = Some(map.watch(move || {
                told.fetch_add(1, Ordering::Relaxed);
            }));
            assert_eq!(len(), before);
        };
        until_it_waits(setup, &["begins"], work, watches);
        assert_eq!((told.load(Ordering::Relaxed), len()), (1, before + 1));
        drop(watch);
    }
}

#[test]
fn who_watches_is_told_of_a_broken_disk() {
    let setup = &Setup::every_commit();
    let told = Arc::new(AtomicU64::new(0));
    let (count, root) = (told.clone(), setup.a.clone());
    let _watch = setup.a.watch(move || {
        assert!(get(&root).is_err());
        count.fetch_add(1, Ordering::Relaxed);
    });
    let work = |note: &dyn Fn(&'static str)| {
        note("begins");
        let done = setup.a.txn(|tx, n| Ok(tx[n] = 1));
        assert!(is_unknown(&done), "{done:?}");
        note("told");
    };
    let fails = || setup.wal().poison("syncing the log", &io::Error::from_raw_os_error(libc::EIO));
    until_it_waits(setup, &["begins"], work, fails);
    assert_eq!(told.load(Ordering::Relaxed), 1);
}
