//! Money that moves between roots: there is always as much of it.

use std::sync::Mutex;

use pheap::{Held, P, Persist, Root};

use super::for_each_kind;
use pheap_testkit::Rng;

const ACCOUNTS: usize = 5;
const THREADS: u64 = 4;
const EACH: u64 = 120;
const MONEY: i64 = 1000;

#[derive(Persist)]
#[repr(C)]
struct Statement<'r> {
    balance: i64,
    number: u64,
    before: Option<P<'r, Statement<'r>>>,
}

#[derive(Persist, Default)]
#[repr(C)]
struct Account<'r> {
    balance: i64,
    newest: Option<P<'r, Statement<'r>>>,
}

type Accounts = Vec<Root<Account<'static>>>;
/// A statement: the number of the account, the held object, and its content.
type Kept = (usize, Held<Statement<'static>>, (i64, u64));

fn accounts(heap: &pheap::Heap) -> Accounts {
    let open = |i| {
        heap.root_or::<Account>(&format!("account {i}"), |_| Ok(Account { balance: MONEY, newest: None }))
            .unwrap()
    };
    (0..ACCOUNTS).map(open).collect()
}

/// Moves money, and writes a statement for the account that gives it. An account keeps its newest two
/// statements.
fn transfer(accounts: &Accounts, random: &mut Rng, number: u64) -> Kept {
    let from = random.below(ACCOUNTS);
    let to = (from + 1 + random.below(ACCOUNTS - 1)) % ACCOUNTS;
    let amount = random.below(100) as i64;
    let (held, said) = pheap::txn((&accounts[from], &accounts[to]), |((ta, a), (tb, b))| {
        ta[a].balance -= amount;
        tb[b].balance += amount;
        let balance = ta[a].balance;
        let before = ta[a].newest;
        if let Some(before) = before {
            ta[before].before = None;
        }
        let new = ta.alloc(Statement { balance, number, before })?;
        ta[a].newest = Some(new);
        Ok((ta.hold(new), (balance, number)))
    })
    .unwrap();
    (from, held, said)
}

fn total(accounts: &Accounts) -> i64 {
    let sum = |mut shards: pheap::Shards<'_, _>| {
        Ok((0..shards.len())
            .map(|i| shards.with(i, |tx, account: P<'_, Account<'_>>| tx[account].balance))
            .sum())
    };
    pheap::txn(accounts, sum).unwrap()
}

#[test]
fn money_moves_and_statements_stay_what_they_are() {
    for_each_kind(
        |heap, random| {
            let accounts = accounts(heap);
            // Made by one thread, and looked at and let go of by any.
            let kept: Mutex<Vec<Kept>> = Mutex::default();
            let look = |random: &mut Rng| {
                let some = {
                    let mut kept = kept.lock().unwrap();
                    match kept.len() {
                        0 => return,
                        n => kept.swap_remove(random.below(n)),
                    }
                };
                let (account, held, said) = some;
                let copy = held.clone();
                drop(held);
                let found = accounts[account].read(|view, _| {
                    let statement = view.get(&copy).expect("it was committed, and is held");
                    (view[statement].balance, view[statement].number)
                });
                assert_eq!(found.unwrap(), said);
            };
            std::thread::scope(|scope| {
                for thread in 0..THREADS {
                    let (accounts, kept, look) = (&accounts, &kept, &look);
                    let mut random = Rng::from_seed(random.next_u64() | 1);
                    scope.spawn(move || {
                        for n in 0..EACH {
                            let new = transfer(accounts, &mut random, thread * EACH + n);
                            kept.lock().unwrap().push(new);
                            match n % 8 {
                                0 => assert_eq!(total(accounts), ACCOUNTS as i64 * MONEY),
                                4 => heap.collect().unwrap(),
                                _ => look(&mut random),
                            }
                        }
                    });
                }
                let seed = random.next_u64() | 1;
                let (look, accounts) = (&look, &accounts);
                scope.spawn(move || {
                    let mut random = Rng::from_seed(seed);
                    for n in 0..EACH {
                        look(&mut random);
                        if n % 10 == 0 {
                            heap.checkpoint().unwrap();
                            super::is_sound(heap);
                        }
                        assert!(heap.stats().live_bytes > 0);
                        accounts[n as usize % ACCOUNTS].collect().unwrap();
                    }
                });
            });
            heap.collect().unwrap();
            let held = kept.lock().unwrap().len() as u64;
            assert!(
                heap.stats().live_objects <= ACCOUNTS as u64 * 3 + held,
                "{:?}, {held} held",
                heap.stats()
            );
        },
        |heap| assert_eq!(total(&accounts(heap)), ACCOUNTS as i64 * MONEY),
    );
}
