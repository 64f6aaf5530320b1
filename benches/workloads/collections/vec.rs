//! `vec_push_u64` and similar: compares `PVec` with `Vec`.

use super::{Op, each, in_pieces, shuffled, variant, variants};
use crate::measure::Checksum;
use crate::scratch::Scratch;
use crate::{Case, Result, Sample, Setup};
use pheap::{PVec, Root};
use std::rc::Rc;

/// Returns the cases of one operation.
pub fn vec_u64(setup: &Setup, op: Op, n: u64) -> Result<Vec<Case>> {
    let bench = match op {
        Op::Insert => "vec_push_u64",
        Op::Grow => "vec_grow_u64",
        Op::Get => "vec_get_u64",
        Op::Remove => "vec_pop_u64",
        Op::Iterate => "vec_iterate_u64",
    };
    let order = Rc::new(shuffled(n));
    let mut cases = vec![volatile(bench, op, n, order.clone())];
    for (durability, together) in variants(setup, op) {
        let (setup, order) = (setup.clone(), order.clone());
        let kept = match op {
            Op::Get | Op::Iterate => {
                let heap = setup.heap(durability)?;
                let root = filled(&heap, n)?;
                Some((heap, root))
            }
            _ => None,
        };
        cases.push(Case::new("pheap", bench, variant(durability, together), n, move || match (op, &kept) {
            (Op::Insert, _) => push(&setup.heap(durability)?, n, together),
            (Op::Grow, _) => grow(&setup.heap(durability)?, n),
            (Op::Get, Some((heap, root))) => get(heap, root, &order, together),
            (Op::Iterate, Some((heap, root))) => iterate(heap, root),
            _ => pop(&setup.heap(durability)?, n, together),
        }));
    }
    Ok(cases)
}

fn volatile(bench: &'static str, op: Op, n: u64, order: Rc<Vec<u32>>) -> Case {
    let filled: Vec<u64> = (0..n).collect();
    let count = Checksum::Int(n.into());
    Case::new("volatile", bench, "std", n, move || {
        Ok(match op {
            Op::Insert => {
                let (sample, vec) = Sample::time(|| {
                    let mut vec = Vec::new();
                    (0..n).for_each(|i| std::hint::black_box(&mut vec).push(i));
                    vec
                });
                sample.with(Checksum::Int(vec.len() as i128))
            }
            Op::Grow => {
                let mut vec = Vec::new();
                each(n, |i| {
                    std::hint::black_box(&mut vec).push(i);
                    Ok(())
                })?
                .with(count)
            }
            Op::Get => {
                let (sample, sum) = Sample::time(|| {
                    order.iter().map(|&i| i128::from(filled[std::hint::black_box(i) as usize])).sum::<i128>()
                });
                sample.with(Checksum::Int(sum))
            }
            Op::Remove => {
                let mut vec = filled.clone();
                let (sample, popped) = Sample::time(|| {
                    let mut popped = 0;
                    while let Some(value) = std::hint::black_box(&mut vec).pop() {
                        popped += i128::from(value);
                    }
                    popped
                });
                sample.with(Checksum::Int(popped))
            }
            Op::Iterate => {
                let (sample, sum) = Sample::time(|| std::hint::black_box(&filled).iter().sum::<u64>());
                sample.with(Checksum::Int(sum.into()))
            }
        })
    })
}

fn filled(heap: &Scratch, n: u64) -> pheap::Result<Root<PVec<'static, u64>>> {
    let root: Root<PVec<u64>> = heap.heap.root("vec")?;
    root.txn(|tx, vec| vec.extend(tx, 0..n))?;
    Ok(root)
}

fn push(heap: &Scratch, n: u64, together: u64) -> Result<Sample> {
    let root: Root<PVec<u64>> = heap.heap.root("vec")?;
    let (sample, ()) = heap.time(|| {
        in_pieces(n, together, |from, to| root.txn(|tx, vec| (from..to).try_for_each(|i| vec.push(tx, i))))
    })?;
    Ok(sample.with(Checksum::Int(root.read(|view, vec| vec.len(view))? as i128)))
}

fn grow(heap: &Scratch, n: u64) -> Result<Sample> {
    let root: Root<PVec<u64>> = heap.heap.root("vec")?;
    let sample = each(n, |i| root.txn(|tx, vec| vec.push(tx, i)))?;
    Ok(sample.with(Checksum::Int(n.into())))
}

fn get(heap: &Scratch, root: &Root<PVec<'static, u64>>, order: &[u32], together: u64) -> Result<Sample> {
    let mut sum = 0;
    let (sample, ()) = heap.time(|| {
        in_pieces(order.len() as u64, together, |from, to| {
            sum += root.read(|view, vec| {
                let vec = &view[vec];
                let some = &order[from as usize..to as usize];
                some.iter().map(|&i| vec.get(view, i as usize).copied().map_or(0, i128::from)).sum::<i128>()
            })?;
            Ok(())
        })
    })?;
    Ok(sample.with(Checksum::Int(sum)))
}

fn pop(heap: &Scratch, n: u64, together: u64) -> Result<Sample> {
    let root = filled(heap, n)?;
    let mut sum = 0;
    let (sample, ()) = heap.time(|| {
        in_pieces(n, together, |from, to| {
            root.txn(|tx, vec| {
                (from..to).for_each(|_| sum += i128::from(vec.pop(tx).unwrap_or(0)));
                Ok(())
            })
        })
    })?;
    Ok(sample.with(Checksum::Int(sum)))
}

fn iterate(heap: &Scratch, root: &Root<PVec<'static, u64>>) -> Result<Sample> {
    let (sample, sum) = heap.time(|| root.read(|view, vec| vec.iter(view).sum::<u64>()))?;
    Ok(sample.with(Checksum::Int(sum.into())))
}
