//! Checks the database that clients share, after a restart: see [`shared`](super::shared).

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

use super::shared::{ACCOUNTS, EXPIRING, Flight, Ledger, MONEY, QUEUES, Sharer, accounts, now, sum};
use super::wire::{Reply, Wire, words};

/// Checks the shared database. Steps that were in flight may be there or not; notes which of them are.
pub(crate) fn check(wire: &mut Wire, ledger: &mut Ledger, sharers: &mut [Sharer]) -> io::Result<()> {
    let flights: Vec<_> = sharers.iter_mut().map(|sharer| std::mem::take(&mut sharer.flight)).collect();
    let money = wire.ask(&words(&format!("MGET{}", accounts())))?;
    assert_eq!(sum(money.list()), MONEY * ACCOUNTS as i64, "the sum of all accounts");

    let counter = wire.ask(&words("GET counter"))?.int();
    let in_flight: i64 = flights.iter().map(|flight| flight.counts).sum();
    assert!(
        counter >= ledger.seen.max(ledger.heard),
        "{counter}, clients have seen {}, heard {}",
        ledger.seen,
        ledger.heard
    );
    let counted = ledger.counted..=ledger.counted + in_flight;
    assert!(counted.contains(&counter), "{counter} was counted, {counted:?} were asked for");
    ledger.counted = counter;

    check_queues(wire, ledger, &flights)?;
    check_stream(wire, ledger, &flights)?;
    for (sharer, flight) in sharers.iter_mut().zip(&flights) {
        for key in (0..EXPIRING).map(|i| format!("expiring:{}:{i}", sharer.number)) {
            let before = now();
            let value = wire.ask(&words(&format!("GET {key}")))?;
            let expected = sharer.expiring.get(&key).cloned().flatten();
            let was_done = flight.expiring.as_ref().filter(|(of, _)| *of == key).map(|(_, is)| is);
            match sharer.is_right(&key, &value, &expected, before) {
                Ok(()) if was_done.is_none() => {}
                Ok(()) if *was_done.unwrap() == expected => {}
                was_not_done => {
                    let new = was_done.cloned().flatten();
                    let is_done = was_done.is_some() && sharer.is_right(&key, &value, &new, before).is_ok();
                    if !is_done {
                        was_not_done.unwrap();
                    } else if value != Reply::Nil || was_not_done.is_err() {
                        sharer.expiring.insert(key, new);
                    } else {
                        // The key is absent, which both states allow. Deletes it, so that one state is sure.
                        wire.ask(&words(&format!("DEL {key}")))?;
                        sharer.expiring.insert(key, None);
                    }
                }
            }
        }
    }
    Ok(())
}

fn check_queues(wire: &mut Wire, ledger: &mut Ledger, flights: &[Flight]) -> io::Result<()> {
    let mut left = BTreeSet::new();
    for queue in 0..QUEUES {
        for element in wire.ask(&words(&format!("LRANGE queue:{queue} 0 -1")))?.strings() {
            assert!(!ledger.popped.contains(&element), "{element} was popped and is there");
            assert!(left.insert(element.clone()), "{element} is there twice");
        }
    }
    let may_be_popped = ledger.hung_up + flights.iter().map(|flight| flight.pops).sum::<usize>();
    for flight in flights {
        // If one element of a push in flight was there, all of them were pushed.
        let is_known = |element: &String| left.contains(element) || ledger.popped.contains(element);
        if flight.push.iter().any(is_known) {
            ledger.pushed.extend(flight.push.iter().cloned());
        }
    }
    for element in left.iter().chain(&ledger.popped) {
        assert!(ledger.pushed.contains(element), "nobody has pushed {element}");
    }
    let missing: Vec<_> =
        ledger.pushed.iter().filter(|e| !left.contains(*e) && !ledger.popped.contains(*e)).cloned().collect();
    assert!(
        missing.len() <= may_be_popped,
        "{missing:?} are gone, and only {may_be_popped} clients may have popped without knowing"
    );
    ledger.hung_up = 0;
    ledger.popped.extend(missing);
    Ok(())
}

fn check_stream(wire: &mut Wire, ledger: &mut Ledger, flights: &[Flight]) -> io::Result<()> {
    let entries = wire.ask(&words("XRANGE stream - +"))?;
    let mut found = BTreeMap::new();
    for entry in entries.list() {
        found.insert(entry.list()[0].text().to_owned(), entry.list()[1].strings()[1].clone());
    }
    for (id, value) in &ledger.added {
        assert_eq!(found.get(id), Some(value), "entry {id} was acknowledged");
    }
    for (id, value) in found {
        if let Entry::Vacant(unknown) = ledger.added.entry(id) {
            let id = unknown.key();
            assert!(flights.iter().any(|f| f.add.as_ref() == Some(&value)), "nobody has added {id}: {value}");
            unknown.insert(value);
        }
    }
    let pending = wire.ask(&words("XPENDING stream group - + 1000000"))?;
    let mut pending: BTreeMap<_, _> = pending
        .list()
        .iter()
        .map(|entry| (entry.list()[0].text().to_owned(), entry.list()[1].text().to_owned()))
        .collect();
    for flight in flights {
        let still = flight.done.iter().filter(|id| pending.contains_key(*id)).count();
        assert!(still == 0 || still == flight.done.len(), "half of {:?} was acknowledged", flight.done);
    }
    for (id, consumer) in &ledger.delivered {
        let flight = &flights[consumer.parse::<usize>().expect("a number")];
        match pending.remove(id) {
            Some(found) => {
                assert_eq!(found, *consumer, "{id} was delivered to {consumer}");
                assert!(!ledger.done.contains(id), "{id} was acknowledged, and is pending");
            }
            None if flight.done.contains(id) => _ = ledger.done.insert(id.clone()),
            None => assert!(ledger.done.contains(id), "{id} was delivered to {consumer}, and is not pending"),
        }
    }
    for (id, consumer) in pending {
        let flight = &flights[consumer.parse::<usize>().expect("a number")];
        assert!(flight.reads, "{id} is pending, and {consumer} has not asked for it");
        ledger.delivered.insert(id, consumer);
    }
    Ok(())
}
