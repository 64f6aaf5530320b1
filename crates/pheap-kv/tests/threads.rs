//! Many threads in one store, while its shards are split.

use pheap_kv::{Batch, Durability, Error, Options, Store};
use pheap_testkit::{Rng, tempdir};
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

fn store(dir: &tempfile::TempDir) -> Store {
    let options =
        Options::new().heap(|heap| heap.arena_size(1 << 20)).reserve(1 << 32).durability(Durability::Process);
    options.open(dir.path().join("threads.kv")).expect("a store")
}

const ACCOUNTS: u64 = 20_000;
const EACH: u64 = 100;

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("8 bytes"))
}

/// The key of an account. Those of consecutive numbers lie far apart, so most are in different shards.
fn account(n: u64) -> [u8; 8] {
    n.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()
}

/// Moves money from one account to another by a batch. No other thread may change these accounts meanwhile.
fn transfer(store: &Store, from: u64, to: u64) {
    let (mut batch, get) =
        (Batch::new(), |n| number(&store.get(account(n)).expect("a read").expect("an account")));
    let (has, gets) = (get(from), get(to));
    let sum = has.min(7);
    batch.put(store, account(from), (has - sum).to_le_bytes()).expect("room");
    batch.put(store, account(to), (gets + sum).to_le_bytes()).expect("room");
    store.write(&batch).expect("a batch");
}

#[test]
fn snapshots_show_no_half_of_a_batch() {
    let dir = tempdir();
    let store = store(&dir);
    for n in 0..ACCOUNTS {
        store.put(account(n), EACH.to_le_bytes()).expect("a put");
    }
    assert!(store.stats().expect("counters").shards > 1, "so many entries are to be in several shards");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers = (0..2u64).map(|thread| {
            let store = &store;
            scope.spawn(move || {
                let mut rng = Rng::from_seed(thread);
                // Accounts that only this thread uses.
                let mut own = || rng.scaled(ACCOUNTS / 2) * 2 + thread;
                for _ in 0..3000 {
                    let (from, to) = (own(), own());
                    if from != to {
                        transfer(store, from, to);
                    }
                }
            })
        });
        let writers: Vec<_> = writers.collect();
        let reader = scope.spawn(|| {
            let mut looks = 0;
            while !done.load(Relaxed) || looks == 0 {
                let snapshot = store.snapshot().expect("a snapshot");
                let sum = |entries: &mut dyn Iterator<Item = pheap_kv::Result<pheap_kv::Entry>>| {
                    entries.fold((0, 0), |(n, sum), entry| (n + 1, sum + number(&entry.expect("an entry").1)))
                };
                assert_eq!(sum(&mut snapshot.iter()), (ACCOUNTS, ACCOUNTS * EACH));
                assert_eq!(sum(&mut snapshot.iter().rev()), (ACCOUNTS, ACCOUNTS * EACH));
                looks += 1;
            }
        });
        writers.into_iter().for_each(|writer| writer.join().expect("a writer"));
        done.store(true, Relaxed);
        reader.join().expect("a reader");
    });
    store.purge().expect("a purge");
}

#[test]
fn what_is_written_is_seen_while_shards_are_split() {
    let dir = tempdir();
    let store = store(&dir);
    let written = [AtomicU64::new(0), AtomicU64::new(0)];
    const N: u64 = 20_000;
    std::thread::scope(|scope| {
        for thread in 0..2u64 {
            let (store, written) = (&store, &written);
            scope.spawn(move || {
                let key = |n: u64| account(n * 2 + thread);
                let other = |n: u64| account(n * 2 + 1 - thread);
                let mut rng = Rng::from_seed(thread);
                for n in 0..N {
                    store.put(key(n), n.to_le_bytes()).expect("a put");
                    written[thread as usize].store(n + 1, Relaxed);
                    // What the other thread has written is there.
                    let there = written[1 - thread as usize].load(Relaxed);
                    if there > 0 {
                        let n = rng.scaled(there);
                        assert_eq!(store.get_with(other(n), number).expect("a read"), Some(n));
                    }
                }
            });
        }
    });
    assert!(store.stats().expect("counters").shards > 1);
    assert_eq!(store.iter().count() as u64, 2 * N);
    let mut keys: Vec<_> = (0..2 * N).map(account).collect();
    keys.sort_unstable();
    assert!(store.iter().map(|entry| entry.expect("an entry").0).eq(keys.iter().map(|key| key.to_vec())));
    let path = dir.path().join("threads.kv");
    store.close().expect("an end");
    drop(store_again(&path, 2 * N));
}

#[test]
fn what_is_in_the_store_is_counted_while_shards_are_split() {
    let (store, written) = (Store::in_memory().expect("a store"), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..ACCOUNTS {
                store.put(account(n), "").expect("a put");
                written.store(n + 1, Release);
            }
        });
        let mut last = 0;
        while last < ACCOUNTS {
            last = written.load(Acquire);
            let entries = store.stats().expect("counters").entries;
            assert!(entries >= last && entries <= ACCOUNTS, "{entries} of {last}");
        }
    });
    assert!(store.stats().expect("counters").shards > 1);
}

fn store_again(path: &std::path::Path, entries: u64) -> Store {
    let store = Options::new().durability(Durability::Process).open(path).expect("a store");
    let stats = store.stats().expect("counters");
    assert!(stats.shards > 1 && stats.entries == entries, "{stats:?}");
    assert_eq!(store.iter().rev().count() as u64, entries);
    store
}

/// Writers get handles all the time, and use each for some writes, or until its key space is removed. A key
/// space has an owner, whose number is the value of all entries.
#[test]
fn an_entry_of_a_removed_key_space_is_in_no_other_one() {
    const NAMES: [&str; 2] = ["a", "b"];
    let dir = tempdir();
    let store = store(&dir);
    let (done, tokens) = (AtomicBool::new(false), AtomicU64::new(0));
    let write = |thread: u64| {
        let mut rng = Rng::from_seed(thread);
        while !done.load(Relaxed) {
            let token = tokens.fetch_add(1, Relaxed);
            let space = store.space(NAMES[rng.scaled(2) as usize])?;
            space.compare_and_swap("owner", None, Some(&token.to_le_bytes()))?;
            let Some(owner) = space.get("owner")? else { continue };
            let mut written = Vec::new();
            let result = (0..rng.scaled(60)).try_for_each(|_| {
                let keys = [(); 3].map(|()| [account(thread), account(rng.scaled(2000))].concat());
                match rng.scaled(3) {
                    0 => space.put(&keys[0], &owner)?,
                    1 => space.put_deferred(&keys[0], &owner).map(drop)?,
                    _ => {
                        let mut batch = Batch::new();
                        keys.iter().try_for_each(|key| batch.put(&space, key, &owner))?;
                        store.write(&batch)?;
                        written.extend_from_slice(&keys[1..]);
                    }
                }
                written.push(keys[0].clone());
                Ok(())
            });
            let there = written.iter().filter(|key| space.contains_key(key).expect("a read")).count();
            // If it is written to now, it was not removed before.
            match result.and_then(|()| space.put("owner", &owner)) {
                Ok(()) => assert_eq!(there, written.len()),
                Err(Error::SpaceRemoved) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    };
    let read = || {
        let mut handles = Vec::new();
        while !done.load(Relaxed) {
            handles.extend(NAMES.map(|name| store.space(name).expect("a space")));
            handles.drain(..handles.len().saturating_sub(6));
            let snapshot = store.snapshot().expect("a snapshot");
            let look = || {
                assert!(handles.iter().all(|space| space.iter().all(|entry| entry.is_ok())));
                let all = handles.iter().map(|space| {
                    let reader = snapshot.space(space).expect("a space");
                    reader.iter().map(|entry| entry.expect("an entry")).collect::<Vec<_>>()
                });
                all.collect::<Vec<_>>()
            };
            let first = look();
            for entries in &first {
                assert!(entries.windows(2).all(|pair| pair[0].1 == pair[1].1), "two owners");
            }
            assert!(look() == first, "a snapshot has changed");
        }
    };
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|thread| {
                let write = &write;
                scope.spawn(move || {
                    loop {
                        match write(thread) {
                            Ok(()) => break,
                            Err(Error::SpaceRemoved) => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                })
            })
            .collect();
        let reader = scope.spawn(read);
        let remover = scope.spawn(|| {
            for n in 0..200 {
                store.remove_space(NAMES[n % 2]).expect("a removal");
                std::thread::sleep(std::time::Duration::from_millis(n as u64 % 5));
                if n % 20 == 0 {
                    store.purge().expect("a purge");
                }
            }
        });
        let result = remover.join();
        done.store(true, Relaxed);
        result.expect("removals");
        reader.join().expect("a reader");
        writers.into_iter().for_each(|writer| writer.join().expect("a writer"));
    });
    store.purge().expect("a purge");
    let names = store.spaces().expect("names");
    let visible = |name: &String| store.space(name).expect("a space").iter().count();
    let entries = names.iter().map(visible).sum::<usize>() + names.len();
    assert_eq!(store.stats().expect("counters").entries, entries as u64);
}

/// While threads read and write other key spaces.
#[test]
fn nothing_is_lost_while_shards_are_given_up_and_used_again() {
    const ENTRIES: u32 = 3000;
    let dir = tempdir();
    let store = store(&dir);
    let fill = |space: &pheap_kv::KeySpace| {
        // Scattered: the shards are divided in the middle.
        for n in 0..ENTRIES {
            space.put(n.wrapping_mul(0x9e37_79b1).to_be_bytes(), "").expect("a put");
        }
    };
    let is_whole = |reader: &pheap_kv::Reader| {
        let keys = |entries: pheap_kv::Range| entries.map(|entry| entry.expect("an entry").0);
        let forwards: Vec<_> = keys(reader.iter()).collect();
        assert_eq!(forwards.len(), ENTRIES as usize);
        assert!(forwards.is_sorted_by(|one, two| one < two));
        let backwards = reader.iter().rev().map(|entry| entry.expect("an entry").0);
        assert!(backwards.eq(forwards.into_iter().rev()));
    };
    let before = store.space("before").expect("a space");
    fill(&before);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let others = [
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    is_whole(&before);
                    let snapshot = store.snapshot().expect("a snapshot");
                    is_whole(&snapshot.space(&before).expect("a space"));
                }
            }),
            scope.spawn(|| {
                let key = |n: u32| n.wrapping_mul(0x9e37_79b1).to_be_bytes();
                for n in (0..ENTRIES).cycle().take_while(|_| !done.load(Relaxed)) {
                    before.put(key(n), n.to_be_bytes()).expect("a put");
                    assert_eq!(before.get(key(n)).expect("a read"), Some(n.to_be_bytes().to_vec()));
                    store.put(key(n), "").expect("a put");
                    assert!(store.delete(key(n)).expect("a delete"));
                }
            }),
        ];
        let rounds = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for round in 0..25 {
                let space = store.space(&round.to_string()).expect("a space");
                fill(&space);
                if let Some(last) = (round as u32).checked_sub(1) {
                    assert!(store.remove_space(&last.to_string()).expect("a removal"));
                }
                is_whole(&space);
                if round % 5 == 0 {
                    store.purge().expect("a purge");
                }
            }
        }));
        done.store(true, Relaxed);
        others.into_iter().for_each(|thread| thread.join().expect("a thread"));
        rounds.expect("the rounds");
    });
    let last = store.space("24").expect("a space");
    store.purge().expect("a purge");
    is_whole(&last);
    assert_eq!(store.stats().expect("counters").entries, 2 * u64::from(ENTRIES) + 2);
    drop((before, last));
    drop(store);
    let heap = pheap::Options::new().verify(true).open(dir.path().join("threads.kv")).expect("a heap");
    assert!(heap.check().expect("a check").is_clean());
}

/// Each of them makes it if it is not there, writes to it, and removes it again.
#[test]
fn threads_that_make_and_remove_one_key_space_agree() {
    let store = Store::in_memory().expect("a store");
    std::thread::scope(|scope| {
        for thread in 0..3u32 {
            let store = &store;
            scope.spawn(move || {
                for n in 0..2000u32 {
                    let space = store.space("one").expect("a space");
                    let key = [thread.to_le_bytes(), n.to_le_bytes()].concat();
                    match space.put(&key, "") {
                        Ok(()) | Err(Error::SpaceRemoved) => {}
                        Err(error) => panic!("{error}"),
                    }
                    // Another thread may have removed it, and even made the next one.
                    store.remove_space("one").expect("a removal");
                    assert!(matches!(space.put(&key, ""), Err(Error::SpaceRemoved)));
                }
            });
        }
    });
    assert_eq!(store.stats().expect("counters").entries, 0);
    assert_eq!(store.spaces().expect("names"), [""; 0]);
}

#[test]
fn one_of_many_wins_a_swap() {
    let store = Store::in_memory().expect("a store");
    let wins = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for n in 0..500u64 {
                    let (old, new) = (n.to_le_bytes(), (n + 1).to_le_bytes());
                    let expected = (n > 0).then_some(&old[..]);
                    let won = store.compare_and_swap("n", expected, Some(&new)).expect("a swap");
                    wins.fetch_add(u64::from(won), Relaxed);
                }
            });
        }
    });
    let reached = store.get_with("n", number).expect("a read").expect("a number");
    assert_eq!(reached, wins.load(Relaxed));
    assert!(reached > 0);
}

#[test]
fn updates_are_not_lost() {
    let store = Store::in_memory().expect("a store");
    let add = |old: Option<&[u8]>| Some((old.map_or(0, number) + 1).to_le_bytes());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..500 {
                    store.update("n", add).expect("an update");
                }
            });
        }
    });
    assert_eq!(store.get_with("n", number).expect("a read"), Some(2000));
}

#[test]
fn a_snapshot_shows_the_same_for_ever() {
    let store = Store::in_memory().expect("a store");
    store.put("n", 0u64.to_le_bytes()).expect("a put");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 1u64.. {
                store.put("n", n.to_le_bytes()).expect("a put");
                if done.load(Relaxed) {
                    break;
                }
            }
        });
        for _ in 0..20_000 {
            let snapshot = store.snapshot().expect("a snapshot");
            let get = || snapshot.get_with("n", number).expect("a read");
            // At once, and later, when a write that was under way may be done.
            let first = get();
            assert!((0..5).all(|_| get() == first));
        }
        done.store(true, Relaxed);
    });
}

/// Each makes shards for its own keys; others may have made some before.
#[test]
fn large_batches_of_several_threads_are_whole() {
    const THREADS: u64 = 3;
    let dir = tempdir();
    let store = store(&dir);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let store = &store;
            scope.spawn(move || {
                let mut batch = Batch::new();
                for n in 0..ACCOUNTS {
                    batch.put(store, account(n * THREADS + thread), thread.to_le_bytes()).expect("room");
                }
                store.write(&batch).expect("a batch");
            });
        }
        let mut found = 0;
        while found < THREADS * ACCOUNTS {
            let snapshot = store.snapshot().expect("a snapshot");
            let mut of_thread = [0; THREADS as usize];
            snapshot.iter().for_each(|entry| of_thread[number(&entry.expect("an entry").1) as usize] += 1);
            assert!(of_thread.iter().all(|&n| n == 0 || n == ACCOUNTS), "{of_thread:?}");
            found = of_thread.iter().sum();
        }
    });
    for n in 0..THREADS * ACCOUNTS {
        let value = store.get(account(n)).expect("a read").expect("an entry");
        assert_eq!(number(&value), n % THREADS);
    }
    let mut keys = store.iter().map(|entry| entry.expect("an entry").0);
    let mut last = keys.next().expect("entries");
    assert!(keys.all(|key| std::mem::replace(&mut last, key.clone()) < key));
}

#[test]
fn a_write_that_a_closed_store_has_refused_is_not_there() {
    let dir = tempdir();
    for round in 0..20 {
        let path = dir.path().join(format!("{round}.kv"));
        let open = || {
            let options = Options::new().heap(|heap| heap.arena_size(1 << 20)).reserve(1 << 30);
            options.durability(Durability::Wal).open(&path).expect("a store")
        };
        let (store, started) = (open(), AtomicBool::new(false));
        let refused = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let put =
                    |n: &u64| store.put_deferred(account(*n), "").inspect(|_| started.store(true, Relaxed));
                (0..).find(|n| put(n).is_err()).expect("an error")
            });
            while !started.load(Relaxed) {
                std::thread::yield_now();
            }
            store.clone().close().expect("an end");
            writer.join().expect("a writer")
        });
        drop(store);
        let store = open();
        assert_eq!(store.iter().count() as u64, refused);
        assert!(!store.contains_key(account(refused)).expect("a read"));
    }
}

#[test]
fn iterators_skip_and_repeat_nothing_while_shards_are_cut() {
    const FIXED: u64 = 3000;
    let dir = tempdir();
    let store = store(&dir);
    let spaces = ["a", "b"].map(|name| store.space(name).expect("a space"));
    for n in 0..FIXED {
        spaces.iter().for_each(|space| space.put(account(n), "fixed").expect("a put"));
    }
    let mut fixed: Vec<Vec<u8>> = (0..FIXED).map(|n| account(n).to_vec()).collect();
    fixed.sort_unstable();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut others = (FIXED..).map(account);
            for n in 0..4u32 {
                // A batch that gets separate shards, writes among other entries, and appends.
                let mut batch = Batch::new();
                for (i, key) in others.by_ref().take(9000).enumerate() {
                    batch.put(&spaces[i % 2], key, "").expect("room");
                }
                store.write(&batch).expect("a batch");
                others.by_ref().take(2000).for_each(|key| spaces[0].put(key, "").expect("a put"));
                for i in 0..2000u32 {
                    spaces[0].put([[0xFF; 4], (2000 * n + i).to_be_bytes()].concat(), "").expect("a put");
                }
            }
            done.store(true, Release);
        });
        // The fixed entries that were found must be these, in order.
        let check = |found: Vec<pheap_kv::Entry>, expected: &[Vec<u8>]| {
            assert!(found.windows(2).all(|pair| pair[0].0 < pair[1].0));
            assert!(found.iter().filter(|(_, value)| value == b"fixed").map(|(key, _)| key).eq(expected));
        };
        let mut is_last = false;
        while !is_last {
            is_last = done.load(Acquire);
            for space in &spaces {
                check(space.iter().map(Result::unwrap).collect(), &fixed);
                let mut backwards: Vec<_> = space.iter().rev().map(Result::unwrap).collect();
                backwards.reverse();
                check(backwards, &fixed);
                let mut range = space.range(fixed[100].clone()..fixed[2500].clone());
                let (mut front, mut back) = (Vec::new(), Vec::new());
                while let Some(entry) = range.next() {
                    front.push(entry.expect("an entry"));
                    back.extend(range.next_back().map(Result::unwrap));
                }
                front.extend(back.into_iter().rev());
                check(front, &fixed[100..2500]);
                let prefix = &fixed[1000][..1];
                let begin: Vec<_> = fixed.iter().filter(|key| key.starts_with(prefix)).cloned().collect();
                check(space.prefix(prefix).map(Result::unwrap).collect(), &begin);
                let mut shown = Vec::new();
                let show = |key: &[u8], value: &[u8]| {
                    shown.push((key.to_vec(), value.to_vec()));
                    std::ops::ControlFlow::Continue(())
                };
                space.for_each::<[u8]>(.., show).expect("entries");
                check(shown, &fixed);
            }
        }
    });
    assert!(store.stats().expect("counters").shards > 4);
}
