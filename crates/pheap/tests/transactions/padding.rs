//! Padding has no value in Rust. In the file it is zero, so that no bytes of the program's memory leak into
//! it.

use std::fs;

use pheap::{P, Persist, Result, Root, Txn, field, txn};
use pheap_testkit::*;

/// 40 bytes: 16 are the value, and 7 + 4 + 7 + 6 are padding.
#[derive(Persist, Clone, Copy)]
#[repr(C)]
struct Gaps {
    a: u8,
    b: u64,
    c: u32,
    d: Inner,
    e: u16,
}

#[derive(Persist, Clone, Copy)]
#[repr(C, align(8))]
struct Inner {
    x: u8,
}

/// 4 bytes: two of them share a word.
#[derive(Persist, Clone, Copy)]
#[repr(C, align(4))]
struct Tiny {
    x: u8,
}

/// Where it begins, its first field does, too.
#[derive(Persist, Clone, Copy)]
#[repr(C)]
struct Outer {
    first: Inner,
    last: Inner,
}

#[derive(Persist, Clone, Copy)]
#[repr(u8)]
#[allow(dead_code)] // the payloads are looked at as bytes
enum Choice {
    None,
    Small(u8),
    Wide { a: u8, b: u64 },
    Deep(Gaps),
}

#[derive(Persist)]
#[repr(C)]
struct Data<'r> {
    mark: u64,
    gaps: P<'r, Gaps>,
    many: P<'r, [Gaps]>,
    choice: P<'r, Choice>,
    choices: P<'r, [Choice]>,
    own: Gaps,
    own_choice: Choice,
    tiny: P<'r, [Tiny]>,
    outer: P<'r, Outer>,
}

/// Returns a value whose padding is not zero, if the compiler leaves it so.
fn dirty<T: Copy>(value: T) -> T {
    let mut place = std::mem::MaybeUninit::<T>::uninit();
    // SAFETY: all bytes of the place are set, then a whole value is written to it. A typed write may change
    // padding or not.
    unsafe {
        std::ptr::from_mut(&mut place).cast::<u8>().write_bytes(POISON, size_of::<T>());
        let fields = place.as_mut_ptr();
        fields.write(value);
        std::hint::black_box(&mut place);
        place.assume_init()
    }
}

const POISON: u8 = 0xa5;

/// Writes the fields one by one, so that the padding of the place keeps its bytes.
fn gaps(n: u8) -> Gaps {
    let mut place = std::mem::MaybeUninit::<Gaps>::uninit();
    // SAFETY: all fields are written.
    unsafe {
        let to = place.as_mut_ptr();
        std::ptr::from_mut(&mut place).cast::<u8>().write_bytes(POISON, size_of::<Gaps>());
        (&raw mut (*to).a).write(n);
        (&raw mut (*to).b).write(u64::from(n));
        (&raw mut (*to).c).write(u32::from(n));
        (&raw mut (*to).d.x).write(n);
        (&raw mut (*to).e).write(u16::from(n));
        std::hint::black_box(&mut place);
        place.assume_init()
    }
}

/// The poison never is a part of a value here, so wherever it is in the file it was padding.
fn is_clean(path: &std::path::Path, what: &str) {
    let bytes = fs::read(path).unwrap();
    // Checksums and the like hold any byte; three in a row are no accident.
    let found = find(&bytes, &[POISON; 3]);
    assert!(found.is_empty(), "{what}: padding at {found:#x?}");
}

fn each_path(what: &str, change: impl for<'r> Fn(&mut Txn<'r>, P<'r, Data<'r>>)) {
    let dir = tempdir();
    for pin in [false, true] {
        let path = dir.path().join(pin.to_string());
        let heap = small().pin_undo(pin).open(&path).unwrap();
        let root: Root<Data> = heap
            .root_or("data", |tx| {
                Ok(Data {
                    mark: 1,
                    gaps: tx.alloc(gaps(1))?,
                    many: tx.alloc_slice(20, |i| gaps(i as u8))?,
                    choice: tx.alloc(dirty(Choice::Deep(gaps(2))))?,
                    choices: tx.alloc_slice(20, |_| dirty(Choice::Wide { a: 1, b: 2 }))?,
                    own: gaps(3),
                    own_choice: dirty(Choice::Small(4)),
                    tiny: tx.alloc_slice(20, |_| Tiny { x: 5 })?,
                    outer: tx.alloc(Outer { first: Inner { x: 6 }, last: Inner { x: 7 } })?,
                })
            })
            .unwrap();
        root.txn(|tx, d| {
            change(tx, d);
            tx[d].mark += 1;
            Ok(())
        })
        .unwrap();
        drop(root);
        heap.close().unwrap();
        is_clean(&path, &format!("{what}, pinned: {pin}"));
        // The root has its value.
        let heap = small().open(&path).unwrap();
        let root: Root<Data> = heap.existing_root("data").unwrap();
        assert_eq!(root.read(|view, d| view[d].mark).unwrap(), 2);
    }
}

#[test]
fn of_new_objects() {
    each_path("new objects", |_, _| {});
}

#[test]
fn of_objects_that_were_replaced() {
    each_path("whole objects", |tx, d| {
        let (one, many, choice, choices) = (tx[d].gaps, tx[d].many, tx[d].choice, tx[d].choices);
        tx[one] = gaps(7);
        let element = many.at(tx, 3);
        tx[element] = gaps(8);
        tx[choice] = dirty(Choice::Small(5));
        let element = choices.at(tx, 2);
        tx[element] = dirty(Choice::None);
    });
}

#[test]
fn of_slices() {
    each_path("slices", |tx, d| {
        let (many, choices) = (tx[d].many, tx[d].choices);
        tx.slice_mut(many, 2..9).fill(gaps(1));
        for (i, choice) in tx[choices].iter_mut().enumerate() {
            *choice = if i % 2 == 0 { dirty(Choice::Small(1)) } else { dirty(Choice::Deep(gaps(9))) };
        }
    });
}

/// In a long transaction, the second store logs the whole block, so the undo log has the other elements
/// before they are written.
#[test]
fn of_elements_that_were_swapped() {
    each_path("swapped elements", |tx, d| {
        let (many, choices) = (tx[d].many, tx[d].choices);
        for i in 0..3 {
            let element = many.at(tx, i);
            tx[element] = gaps(7);
            let element = choices.at(tx, i);
            tx[element] = dirty(Choice::Small(5));
        }
        for i in 0..3 {
            tx.swap(many.at(tx, i), many.at(tx, 10 + i));
            tx.swap(choices.at(tx, i), choices.at(tx, 10 + i));
            let element = many.at(tx, i);
            tx[element] = gaps(6);
            let element = choices.at(tx, i);
            tx[element] = dirty(Choice::None);
        }
    });
}

#[test]
fn of_fields_that_are_structs() {
    #[txn]
    fn change<'r>(tx: &mut Txn<'r>, d: P<'r, Data<'r>>) {
        tx[d].own = gaps(6);
        tx[d].own_choice = dirty(Choice::Small(2));
    }
    each_path("fields, one by one", change);
    each_path("fields", |tx, d| {
        tx[d].own = gaps(6);
        tx[d].own_choice = dirty(Choice::Small(2));
    });
}

#[test]
fn of_new_objects_that_were_changed_at_once() {
    each_path("new, then changed", |tx, d| {
        let new = tx.alloc(gaps(1)).unwrap();
        tx[new] = gaps(2);
        tx[d].gaps = new;
        let many = tx.alloc_slice(100, |_| gaps(3)).unwrap();
        let element = many.at(tx, 5);
        tx[element] = gaps(4);
        tx[d].many = many;
    });
}

/// Sets all bytes except the first one, which is the value, to a number other than zero.
fn soil<T: Copy>(place: &mut T) {
    // SAFETY: bytes of the place, which are padding.
    unsafe { std::ptr::from_mut(place).cast::<u8>().add(1).write_bytes(POISON, size_of::<T>() - 1) };
}

/// The copy of the first element is one of a word that the wider range has a part of.
#[test]
fn of_a_copy_that_became_part_of_a_wider_one() {
    each_path("wider", |tx, d| {
        let tiny = tx[d].tiny;
        let element = tiny.at(tx, 0);
        soil(&mut tx[element]);
        tx.slice_mut(tiny, 1..4).iter_mut().for_each(soil);
    });
}

#[test]
fn of_a_value_whose_first_field_was_written_before() {
    each_path("a field, then all of it", |tx, d| {
        let outer = tx[d].outer;
        soil(&mut tx[field!(outer.first)]);
        soil(&mut tx[outer].last);
    });
}

/// Changes a value of each kind: one that exists already, one that the transaction has made, and one that
/// this function makes, which stays as garbage.
fn change_some<'r>(tx: &mut Txn<'r>, d: P<'r, Data<'r>>, own: P<'r, Gaps>, n: u8) {
    let (one, choices, tiny) = (tx[d].gaps, tx[d].choices, tx[d].tiny);
    for changed in [one, own, tx.alloc(gaps(n)).unwrap()] {
        tx[changed] = gaps(n + 1);
    }
    let element = choices.at(tx, usize::from(n));
    tx[element] = dirty(Choice::Small(n));
    let element = tiny.at(tx, usize::from(n));
    soil(&mut tx[element]);
    soil(&mut tx[field!(d.own.d)]);
}

#[test]
fn of_nested_parts() {
    for fails in [false, true] {
        each_path(&format!("a part, fails: {fails}"), |tx, d| {
            let own = tx.alloc(gaps(1)).unwrap();
            change_some(tx, d, own, 1);
            let result = tx.nested((d, own), |tx, (d, own)| {
                change_some(tx, d, own, 2);
                tx.nested((d, own), |tx, (d, own)| {
                    change_some(tx, d, own, 3);
                    Ok(())
                })?;
                if fails { Err(pheap::Error::abort("no")) } else { Ok(()) }
            });
            assert_eq!(result.is_err(), fails);
        });
    }
}

#[test]
fn of_what_was_rolled_back() -> Result<()> {
    let dir = tempdir();
    for pin in [false, true] {
        let path = dir.path().join(pin.to_string());
        let heap = small().pin_undo(pin).open(&path)?;
        let root: Root<Gaps> = heap.root_or("gaps", |_| Ok(gaps(1)))?;
        let result = root.txn(|tx, p| {
            tx[p] = gaps(2);
            Err::<(), _>(pheap::Error::abort("no"))
        });
        assert!(result.is_err());
        drop(root);
        heap.close()?;
        is_clean(&path, &format!("rolled back, pinned: {pin}"));
    }
    Ok(())
}
