//! Children that are made where this thread is inside of the heap, and other threads have whatever they have.

use std::sync::Barrier;
use std::time::Duration;

use pheap::{Backup, Error, Heap, Held, Persist, Result, Root};

use crate::{Data, alone, forked, is_forked, made};
use pheap_testkit::forks::*;

/// Forks. In the parent, waits for the child, which must end well, and returns `None`.
///
/// In the child, returns `Some`: the child goes on from here, and must end itself.
fn in_both() -> Option<()> {
    let child = split();
    if child == 0 {
        return Some(());
    }
    ended(child).expect("the child");
    None
}

fn unwinds(f: impl FnOnce()) -> bool {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).is_err()
}

/// Runs `body` while other threads hold things that a child could wait for: the root "other", the right to
/// create roots, and the queue of "data" (`body` may hold that root).
fn while_others_are_busy(heap: &Heap, root: &Root<Data<'static>>, body: impl FnOnce()) {
    let other: Root<u64> = heap.root("other").unwrap();
    let (ready, done) = (Barrier::new(4), Barrier::new(3));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            other.txn(|_, _| {
                ready.wait();
                done.wait();
                Ok(())
            })
        });
        scope.spawn(|| {
            let given_up = heap.root_or::<u64>("never", |_| {
                ready.wait();
                done.wait();
                Err(Error::abort("never"))
            });
            assert!(given_up.is_err());
        });
        scope.spawn(|| {
            ready.wait();
            for _ in 0..3 {
                std::thread::sleep(Duration::from_millis(3)); // so that it waits, as a rule
                root.txn(|tx, d| Ok(tx[d].count += 100)).unwrap();
            }
        });
        ready.wait();
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
        done.wait();
        result.unwrap();
    });
}

/// Makes most of the calls that there are. Each is refused, or says something, and none waits.
fn tries_everything(heap: &Heap, root: &Root<Data<'static>>) -> bool {
    let (_, _, _) = (heap.stats(), heap.info(), heap.types());
    let (_, _) = (heap.roots(), format!("{heap:?} {root:?} {}", root.name()));
    is_forked(root.txn(|_, _| Ok(())))
        && is_forked(root.read(|_, _| ()))
        && is_forked(root.collect())
        && is_forked(pheap::txn((root,), |_| Ok(())))
        && is_forked(root.txn_deferred(|_, _| Ok(())))
        && is_forked(pheap::txn_deferred((root,), |_| Ok(())))
        && is_forked(root.read_deferred(|_, _| ()))
        && is_forked(heap.root::<u64>("new"))
        && is_forked(heap.root_or::<u64>("new", |_| Ok(1)))
        && is_forked(heap.existing_root::<Data>("data"))
        && is_forked(heap.rename_root("data", "x"))
        && is_forked(heap.remove_root("data"))
        && is_forked(heap.migrate::<Data, u64>("data", |_, _| Ok(1)))
        && is_forked(heap.check())
        && is_forked(heap.inspect("data", |_| ()))
        && is_forked(heap.backup(std::env::temp_dir().join("never made")))
        && is_forked(heap.collect())
        && is_forked(heap.wait_ready())
        && is_forked(heap.sync())
        && is_forked(heap.checkpoint())
        && is_forked(heap.clone().close())
}

#[test]
fn everything_is_refused_and_nothing_waits() -> Result<()> {
    alone("within::everything_is_refused_and_nothing_waits", |path| {
        let (heap, root) = made(path)?;
        let held: Held<Data> = root.txn(|tx, d| Ok(tx.hold(d)))?;
        let mut handles = Some((heap.clone(), root.clone(), held.clone()));
        while_others_are_busy(&heap, &root, || {
            assert!(forked(|| tries_everything(&heap, &root)));
            assert!(forked(|| {
                drop((held.clone(), handles.take()));
                tries_everything(&heap, &root)
            }));
        });
        assert!(heap.check()?.is_clean());
        drop((root, held, handles));
        heap.close()
    })
}

#[test]
fn a_child_that_fails_within_a_transaction() -> Result<()> {
    alone("within::a_child_that_fails_within_a_transaction", |path| {
        let (heap, root) = made(path)?;
        while_others_are_busy(&heap, &root, || {
            let count = root.read(|view, d| view[d].count).unwrap();
            // The child aborts and gets its error; it commits and is refused; it panics. Its changes are
            // lost, and its calls in between do not wait.
            let given_up = root.txn(|tx, d| {
                tx[d].count += 1;
                if in_both().is_some() {
                    let held = tx.hold(d);
                    drop(held.clone());
                    if !is_forked(tx.get(&held)) || !tries_everything(&heap, &root) {
                        end(false);
                    }
                    return Err(Error::abort("in the child"));
                }
                Ok(())
            });
            if given_up.is_err() {
                end(matches!(given_up, Err(Error::Aborted(_))) && tries_everything(&heap, &root));
            }
            let mut is_child = false;
            let committed = root.txn(|tx, d| {
                tx[d].count += 1;
                is_child = in_both().is_some();
                Ok(())
            });
            if is_child {
                end(is_forked(committed) && tries_everything(&heap, &root));
            }
            committed.unwrap();
            let unwound = unwinds(|| {
                let panics = root.txn(|tx, d| {
                    tx[d].count += 1;
                    is_child = in_both().is_some();
                    assert!(!is_child, "in the child");
                    Ok(())
                });
                panics.unwrap();
            });
            if unwound {
                end(is_child && tries_everything(&heap, &root));
            }
            let now = root.read(|view, d| view[d].count).unwrap();
            assert_eq!(now % 100, count % 100 + 3);
        });
        // Long transactions, which have written in place and taken memory.
        for _ in 0..2 {
            let mut is_child = false;
            let failed = root.txn(|tx, d| {
                let items = tx.alloc_slice(200_000, |i| i as u64)?;
                tx[items].fill(3);
                tx[d].items = Some(items);
                is_child = in_both().is_some();
                if is_child { Err(Error::abort("in the child")) } else { Ok(()) }
            });
            if is_child {
                end(matches!(failed, Err(Error::Aborted(_))) && tries_everything(&heap, &root));
            }
            failed?;
        }
        assert!(heap.check()?.is_clean());
        heap.close()
    })
}

#[test]
fn a_child_within_anything_else() -> Result<()> {
    #[derive(Persist, Default)]
    #[repr(C)]
    struct Other {
        a: u64,
        b: u64,
    }
    alone("within::a_child_within_anything_else", |path| {
        let (heap, root) = made(path)?;
        let (a, b): (Root<u64>, Root<u64>) = (heap.root("a")?, heap.root("b")?);
        let mut is_child = false;
        // Two roots.
        let both = pheap::txn((&a, &b), |((ta, a), (tb, b))| {
            (ta[a], tb[b]) = (1, 2);
            is_child = in_both().is_some();
            Ok(())
        });
        if is_child {
            end(is_forked(both) && tries_everything(&heap, &root));
        }
        both?;
        let panics = unwinds(|| {
            let both = pheap::txn((&a, &b), |((ta, a), _)| {
                ta[a] = 3;
                is_child = in_both().is_some();
                assert!(!is_child, "in the child");
                Ok(())
            });
            both.unwrap();
        });
        if panics {
            end(is_child && tries_everything(&heap, &root));
        }
        // Reads, one in another, with a transaction that waits for the outer one, as a rule.
        let waits = |root: &Root<u64>| {
            std::thread::sleep(Duration::from_millis(if root.name() == "a" { 3 } else { 0 }))
        };
        std::thread::scope(|scope| {
            let seen = a.read(|_, _| {
                scope.spawn(|| a.txn(|tx, n| Ok(tx[n] += 1)).unwrap());
                waits(&a);
                b.read(|_, _| is_child = in_both().is_some())
            });
            if is_child {
                end(seen.is_ok() && tries_everything(&heap, &root));
            }
            seen.unwrap().unwrap();
        });
        // A root that is being made.
        let new = heap.root_or::<u64>("new", |_| {
            is_child = in_both().is_some();
            Ok(5)
        });
        if is_child {
            end(is_forked(new) && tries_everything(&heap, &root));
        }
        new?;
        // One that is given another type; and one that is looked at.
        let migrated = heap.migrate::<u64, Other>("new", |tx, n| {
            let value = tx[n];
            is_child = in_both().is_some();
            Ok(Other { a: value, b: 0 })
        });
        if is_child {
            end(is_forked(migrated) && tries_everything(&heap, &root));
        }
        assert!(migrated?);
        let looked = heap.inspect("data", |_| is_child = in_both().is_some());
        if is_child {
            end(looked.is_ok() && tries_everything(&heap, &root));
        }
        looked?;
        // A copy that is complete, and has no name yet.
        let copy = path.with_extension("copy");
        let backup = Backup::of(&heap)
            .progress(|done, all| is_child |= done == all && !is_child && in_both().is_some());
        let copied = backup.write_file(&copy);
        if is_child {
            end(is_forked(copied) && !copy.exists() && tries_everything(&heap, &root));
        }
        copied?;
        assert!(heap.check()?.is_clean());
        drop((root, a, b));
        heap.close()
    })
}
