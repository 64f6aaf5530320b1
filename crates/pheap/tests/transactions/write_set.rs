//! Transactions around the sizes at which the write set grows, and at which it is left for the undo log.

use pheap::{Durability, Error, Options, P, Persist, Root};

#[derive(Persist, Clone, Copy)]
#[repr(C)]
struct Big {
    words: [u64; 20], // crosses lines
}

/// Numbers, and objects of 160 bytes.
#[derive(Persist)]
#[repr(C)]
struct Many<'r> {
    numbers: Option<P<'r, [u64]>>,
    bigs: Option<P<'r, [Big]>>,
}

/// Writes scattered words and objects, and reads all words that it has written, in copies or in their places.
#[test]
fn the_write_set_grows_and_then_spills() {
    const LEN: usize = 1 << 18;
    for (durability, counts) in [
        (Durability::Process, &[50, 200, 900, 4095, 4096, 4097, 6000][..]),
        (Durability::Pmem, &[300, 8191, 8192, 8193, 12_000]),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let heap = Options::new().durability(durability).open(dir.path().join("heap")).unwrap();
        let root: Root<Many> = heap
            .root_or("many", |tx| {
                let bigs = Some(tx.alloc_slice(LEN / 20, |_| Big { words: [0; 20] })?);
                Ok(Many { numbers: Some(tx.alloc_slice(LEN, |_| 0)?), bigs })
            })
            .unwrap();
        let mut model = vec![0; LEN];
        for (&count, commits, large) in counts
            .iter()
            .flat_map(|n| [(n, true, false), (n, false, false), (n, true, true), (n, false, true)])
        {
            let mut expected = model.clone();
            let result = root.txn(|tx, p| {
                let (numbers, bigs) = (tx[p].numbers.unwrap(), tx[p].bigs.unwrap());
                // Distinct: the factor and the modulus have no common divisor.
                let place = |i: usize| i * 77_773 % (LEN - 5000);
                for i in 0..count {
                    let at = place(i);
                    assert_eq!(tx[numbers.at(tx, at)], expected[at]);
                    expected[at] += 1 + i as u64;
                    if large {
                        let element = bigs.at(tx, i % (LEN / 20));
                        tx[element].words[i % 20] = 3;
                    }
                    let element = numbers.at(tx, at);
                    tx[element] += 1 + i as u64;
                    if i % 16 == 0 {
                        let last = tx.slice_mut(numbers, LEN - 5000..LEN - 4998);
                        (last[0], expected[LEN - 5000]) = (i as u64, i as u64);
                    }
                }
                (0..count).for_each(|i| assert_eq!(tx[numbers.at(tx, place(i))], expected[place(i)]));
                if count % 2 == 0 {
                    assert_eq!(tx[numbers], expected[..]); // spills
                }
                if commits { Ok(()) } else { Err(Error::abort("no")) }
            });
            assert_eq!(result.is_ok(), commits);
            if commits {
                model = expected;
            }
            root.read(|view, p| assert!(view[view[p].numbers.unwrap()] == model[..], "{count}")).unwrap();
        }
    }
}
