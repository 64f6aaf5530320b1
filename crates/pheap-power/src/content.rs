//! Content of the heap. Except for the money and the witnesses, the content of a root follows from its number
//! or key and the number of its last transaction. So the checks notice a part of a transaction.

use pheap::{P, Persist, Result, Txn, View};
use pheap_testkit::rng::mix;

/// Places for items in a shard. Transaction `n` puts item `n` into place `n % ITEMS`.
pub const ITEMS: u64 = 128;
/// Words of a block of the large slice. The slice has [`BLOCKS`] blocks.
const BLOCK: u64 = 512;
const BLOCKS: u64 = 16;
/// Cells of a shard: so many that a transaction that changes all of them should not stay short.
const CELLS: u64 = 1100;
/// Largest number of shards.
pub const MOST_ROOTS: usize = 16;
/// Money in each shard at first.
pub const MONEY: u64 = 1_000_000;

/// The root object of a permanent root.
#[derive(Persist)]
#[repr(C)]
pub struct Shard<'r> {
    pub root: u64,
    /// Number of the last transaction.
    pub n: u64,
    check: u64,
    /// Money of the shard. Transfers move it between shards, and its sum over all shards stays the same.
    pub money: u64,
    /// For each root, its last transaction that a transaction of this shard knows of: it was read before that
    /// began, or the two were one transaction of several roots.
    pub witness: [u64; MOST_ROOTS],
    items: P<'r, [Item<'r>]>,
    bulk: P<'r, [u64]>,
    cells: P<'r, [P<'r, Cell<'r>>]>,
}

#[derive(Persist, Clone, Copy, Default)]
#[repr(u8)]
enum Item<'r> {
    #[default]
    Nothing,
    Record(P<'r, Record>),
    Words(P<'r, [u64]>),
    Text(P<'r, str>),
    Chain(Option<P<'r, Cell<'r>>>),
}

#[derive(Persist, Clone, Copy, PartialEq)]
#[repr(C)]
struct Record {
    number: u64,
    words: [u64; 6],
}

#[derive(Persist)]
#[repr(C)]
struct Cell<'r> {
    value: u64,
    next: Option<P<'r, Cell<'r>>>,
}

/// The expected content of an item.
enum Draft {
    Nothing,
    Record(Record),
    Words(Vec<u64>),
    Text(String),
    Chain(Vec<u64>),
}

/// Returns the pseudo-random word number `i` of transaction `n` of `root`, which is the number or the key of
/// a root.
pub fn word(root: u64, n: u64, i: u64) -> u64 {
    mix(mix(mix(root.wrapping_add(0x5eed)) ^ n).wrapping_add(i))
}

/// Returns the last transaction up to `n` whose number has this remainder; 0 if there was none.
fn last(n: u64, rest: u64, modulus: u64) -> u64 {
    let back = (n + modulus - rest) % modulus;
    n.saturating_sub(back)
}

fn draft(root: u64, n: u64) -> Draft {
    if n == 0 {
        return Draft::Nothing;
    }
    let (kind, size) = (word(root, n, 100), word(root, n, 101));
    let words = |len: u64| (0..len).map(|i| word(root, n, i)).collect();
    match kind % 8 {
        0..=3 => Draft::Record(Record { number: n, words: std::array::from_fn(|i| word(root, n, i as u64)) }),
        // A few have 40 000 bytes, so they are large objects.
        4 if size % 64 == 0 => Draft::Words(words(5000)),
        4 => Draft::Words(words(size % 120)),
        5 => {
            Draft::Text((0..size % 200).map(|i| ['a', 'ß', '水'][(word(root, n, i) % 3) as usize]).collect())
        }
        _ => Draft::Chain(words(size % 10)),
    }
}

/// Creates a shard that has had no transaction.
pub fn new_shard<'r>(tx: &mut Txn<'r>, root: u64) -> Result<Shard<'r>> {
    let mut cells = Vec::new();
    for _ in 0..CELLS {
        cells.push(tx.alloc(Cell { value: word(root, 0, 0), next: None })?);
    }
    Ok(Shard {
        root,
        n: 0,
        check: word(root, 0, 1),
        money: MONEY,
        witness: [0; MOST_ROOTS],
        items: tx.alloc_slice(ITEMS as usize, |_| Item::Nothing)?,
        bulk: tx.alloc_slice((BLOCK * BLOCKS) as usize, |i| word(root, 0, i as u64))?,
        cells: tx.alloc_slice(cells.len(), |i| cells[i])?,
    })
}

/// Makes the changes of the next transaction of a shard. Returns the number of the transaction.
pub fn step<'r>(tx: &mut Txn<'r>, shard: P<'r, Shard<'r>>) -> Result<u64> {
    let (root, n) = (tx[shard].root, tx[shard].n + 1);
    set_number(tx, shard, n, word(root, n, 1));
    put_item(tx, shard, root, n)?;
    let bulk = tx[shard].bulk;
    match n % 16 {
        3 => fill(tx.slice_mut(bulk, ..), root, n, 0),
        5 | 13 => {
            let start = n / 8 % BLOCKS * BLOCK;
            fill(tx.slice_mut(bulk, start as usize..(start + BLOCK) as usize), root, n, start);
        }
        _ => {}
    }
    if n % 32 == 9 {
        let cells = tx[shard].cells;
        for i in 0..CELLS {
            let cell = tx[cells.at(tx, i as usize)];
            tx[cell].value = word(root, n, i);
        }
    }
    Ok(n)
}

/// With `#[txn]`, these are stores to single fields.
#[pheap::txn]
fn set_number<'r>(tx: &mut Txn<'r>, shard: P<'r, Shard<'r>>, n: u64, check: u64) {
    tx[shard].n = n;
    tx[shard].check = check;
}

fn fill(words: &mut [u64], root: u64, n: u64, first: u64) {
    for (i, place) in (first..).zip(words) {
        *place = word(root, n, i);
    }
}

fn put_item<'r>(tx: &mut Txn<'r>, shard: P<'r, Shard<'r>>, root: u64, n: u64) -> Result<()> {
    let place = tx[shard].items.at(tx, (n % ITEMS) as usize);
    let item = match draft(root, n) {
        Draft::Nothing => Item::Nothing,
        Draft::Record(record) => match tx[place] {
            // About half of the old records are changed in place.
            Item::Record(old) if record.words[0] % 2 == 0 => {
                tx[old] = record;
                return Ok(());
            }
            _ => Item::Record(tx.alloc(record)?),
        },
        Draft::Words(words) => Item::Words(tx.alloc_slice_copy(&words)?),
        Draft::Text(text) => Item::Text(tx.alloc_str(&text)?),
        Draft::Chain(values) => {
            let mut chain = None;
            for &value in values.iter().rev() {
                chain = Some(tx.alloc(Cell { value, next: chain })?);
            }
            Item::Chain(chain)
        }
    };
    tx[place] = item;
    Ok(())
}

/// Compares a shard, except for its money and its witnesses, with the content that its number implies. The
/// error describes the first difference.
pub fn verify_shard<'r>(view: &View<'r>, shard: P<'r, Shard<'r>>, root: u64) -> Result<(), String> {
    let &Shard { n, check, .. } = &view[shard];
    let wrong = |what: String| Err(format!("shard {root} at transaction {n}: {what}"));
    if view[shard].root != root || check != word(root, n, 1) {
        return wrong("root or check".to_owned());
    }
    for place in 0..ITEMS {
        let number = last(n, place, ITEMS);
        if !is_item(view, view[view[shard].items.at(view, place as usize)], &draft(root, number)) {
            return wrong(format!("item {place} is not that of transaction {number}"));
        }
    }
    let whole = last(n, 3, 16);
    for block in 0..BLOCKS {
        let number = last(n, 8 * block + 5, 8 * BLOCKS).max(whole);
        for i in block * BLOCK..(block + 1) * BLOCK {
            if view[view[shard].bulk][i as usize] != word(root, number, i) {
                return wrong(format!("word {i} of the bulk is not that of transaction {number}"));
            }
        }
    }
    let number = last(n, 9, 32);
    for i in 0..CELLS {
        let cell = view[view[shard].cells.at(view, i as usize)];
        let expected = word(root, number, if number == 0 { 0 } else { i });
        if view[cell].value != expected {
            return wrong(format!("cell {i} is not that of transaction {number}"));
        }
    }
    Ok(())
}

fn is_item<'r>(view: &View<'r>, item: Item<'r>, draft: &Draft) -> bool {
    match (item, draft) {
        (Item::Nothing, Draft::Nothing) => true,
        (Item::Record(p), Draft::Record(record)) => view[p] == *record,
        (Item::Words(p), Draft::Words(words)) => view[p] == **words,
        (Item::Text(p), Draft::Text(text)) => view[p] == **text,
        (Item::Chain(mut next), Draft::Chain(values)) => {
            for &value in values {
                match next {
                    Some(cell) if view[cell].value == value => next = view[cell].next,
                    _ => return false,
                }
            }
            next.is_none()
        }
        _ => false,
    }
}

/// The root object of a temporary root.
#[derive(Persist)]
#[repr(C)]
pub struct Temp<'r> {
    key: u64,
    n: u64,
    words: P<'r, [u64]>,
}

/// Creates a temporary root. An eighth of them have 20 000 words or more, so the file may have to grow.
pub fn new_temp<'r>(tx: &mut Txn<'r>, key: u64) -> Result<Temp<'r>> {
    let size = mix(key);
    let len = if size.is_multiple_of(8) { 20_000 + size % 60_000 } else { size % 2000 };
    let words = tx.alloc_slice(len as usize, |i| word(key, 0, i as u64))?;
    Ok(Temp { key, n: 0, words })
}

/// Changes all words of a temporary root: three times in place, then in a new slice.
pub fn step_temp<'r>(tx: &mut Txn<'r>, temp: P<'r, Temp<'r>>) -> Result<()> {
    let (key, n, words) = (tx[temp].key, tx[temp].n + 1, tx[temp].words);
    tx[temp].n = n;
    if n % 4 == 0 {
        let len = words.len(tx);
        tx[temp].words = tx.alloc_slice(len, |i| word(key, n, i as u64))?;
    } else {
        fill(tx.slice_mut(words, ..), key, n, 0);
    }
    Ok(())
}

/// Compares a temporary root with the content that its key and its number imply. Returns an error if they
/// differ.
pub fn verify_temp<'r>(view: &View<'r>, temp: P<'r, Temp<'r>>, key: u64) -> Result<(), String> {
    let &Temp { key: found, n, words } = &view[temp];
    let good = |(i, &value): (usize, &u64)| value == word(key, n, i as u64);
    if found == key && view[words].iter().enumerate().all(good) {
        Ok(())
    } else {
        Err(format!("a root that comes and goes (key {key:#x}) is wrong at transaction {n}"))
    }
}
