//! Lists: elements within them (`LINSERT`, `LPOS`, `LREM`, `LTRIM`).

use super::args::{count, index_range, int, one_of, value};
use super::table::{ADD, KEY, READ, WRITE};
use super::values::get;
use super::{Args, Command, Cx, Done, Fail, answer, ok};
use crate::data::{Change, List, P, Str, Txn, View};
use crate::resp::Reply;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("linsert", 5, ADD, KEY, linsert).access("RW insert"),
    Command::new("lpos", -3, READ, KEY, lpos),
    Command::new("lrem", 4, WRITE, KEY, lrem).access("RW delete"),
    Command::new("ltrim", 4, WRITE, KEY, ltrim).access("RW delete"),
];

/// Inserts an element before `index`, and moves the elements on its shorter side.
fn insert<'r>(tx: &mut Txn<'r>, list: P<'r, List<'r>>, index: usize, element: Str<'r>) -> pheap::Result<()> {
    let len = tx[list].len();
    if index < len / 2 {
        list.push_front(tx, element)?;
        (0..index).for_each(|at| swap(tx, list, at, at + 1));
    } else {
        list.push_back(tx, element)?;
        (index..len).rev().for_each(|at| swap(tx, list, at, at + 1));
    }
    Ok(())
}

fn swap<'r>(tx: &mut Txn<'r>, list: P<'r, List<'r>>, a: usize, b: usize) {
    if let (Some(&one), Some(&other)) = (list.get(tx, a), list.get(tx, b)) {
        put(tx, list, a, other);
        put(tx, list, b, one);
    }
}

fn put<'r>(tx: &mut Txn<'r>, list: P<'r, List<'r>>, index: usize, element: Str<'r>) {
    if let Some(place) = list.get_mut(tx, index) {
        *place = element;
    }
}

/// Removes `before` elements from the front of a list, and `after` elements from its back.
fn shorten<'r>(tx: &mut Txn<'r>, list: P<'r, List<'r>>, before: usize, after: usize) {
    for _ in 0..before {
        list.pop_front(tx);
    }
    for _ in 0..after {
        list.pop_back(tx);
    }
}

/// Removes the elements at the indexes in `places`, which are in ascending order. Moves the elements between
/// the removed ones, and those on the shorter side of them.
fn remove<'r>(tx: &mut Txn<'r>, list: P<'r, List<'r>>, places: &[usize]) {
    let (Some(&first), Some(&last)) = (places.first(), places.last()) else { return };
    let len = tx[list].len();
    let copy = |tx: &mut Txn<'r>, from: usize, to: usize| {
        if let Some(&element) = list.get(tx, from) {
            put(tx, list, to, element);
        }
    };
    if last + 1 < len - first {
        let (mut gone, mut to) = (places.iter().rev().peekable(), last);
        for from in (0..=last).rev() {
            if gone.next_if_eq(&&from).is_none() {
                copy(tx, from, to);
                to -= 1;
            }
        }
        shorten(tx, list, places.len(), 0);
    } else {
        let (mut gone, mut to) = (places.iter().peekable(), first);
        for from in first..len {
            if gone.next_if_eq(&&from).is_none() {
                copy(tx, from, to);
                to += 1;
            }
        }
        shorten(tx, list, 0, places.len());
    }
}

fn is_at<'r>(view: &View<'r>, list: P<'r, List<'r>>, place: usize, element: &[u8]) -> bool {
    list.get(view, place).is_some_and(|&it| view[it] == *element)
}

fn linsert(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let offset = one_of(args[2], &[("before", 0), ("after", 1)])?;
    let len = cx.change_value::<List, _>(args[1], |tx, list| {
        let Some(list) = list else { return Ok(0) };
        let Some(index) = (0..tx[list].len()).find(|&place| is_at(tx, list, place, args[3])) else {
            return Ok(-1);
        };
        let element = tx.alloc_slice_copy(args[4])?;
        insert(tx, list, index + offset, element)?;
        Ok(tx[list].len() as i64)
    })?;
    if len > 0 {
        cx.touched(b'l', "linsert", args[1]);
    }
    answer::int(out, len)
}

fn lrem(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let count = int(args[2])?;
    let most = if count == 0 { usize::MAX } else { count.unsigned_abs() as usize };
    let removed = cx.remove_elements::<List>(args[1], "lrem", |tx, list, len| {
        let is_it = |place: &usize| is_at(tx, list, *place, args[3]);
        let mut places: Vec<usize> = if count < 0 {
            (0..len).rev().filter(is_it).take(most).collect()
        } else {
            (0..len).filter(is_it).take(most).collect()
        };
        if count < 0 {
            places.reverse();
        }
        if places.len() < len {
            remove(tx, list, &places);
        }
        Ok(places.len())
    });
    removed.map(|removed| out.count(removed.unwrap_or(0)))
}

fn ltrim(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (key, start, end, now) = (args[1], int(args[2])?, int(args[3])?, cx.now);
    let trimmed = cx.write(key, |tx, db| {
        let Some(list) = get::<List>(tx, &tx[db], key, now)? else { return Ok::<_, Fail>(None) };
        let len = tx[list].len();
        let kept = index_range(start, end, len);
        if kept.is_empty() {
            db.remove(tx, key);
            return Ok(Some((len, true)));
        }
        let (before, after) = (kept.start, len - kept.end);
        shorten(tx, list, before, after);
        Ok(Some((before + after, false)))
    })?;
    if let Some((removed, is_gone)) = trimmed {
        cx.touched(b'l', "ltrim", key);
        cx.effects.dirty += removed as u64;
        cx.effects.dirty -= 1; // `touched` has counted one change
        if is_gone {
            cx.notify(b'g', "del", key);
        }
    }
    ok(out)
}

fn lpos(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (mut rank, mut wanted, mut most) = (1, None, 0);
    let mut rest = args[3..].iter();
    while let Some(option) = rest.next() {
        let number = value(&mut rest)?;
        match option.to_ascii_lowercase().as_slice() {
            b"rank" => {
                rank = int(number)?;
                Fail::err_when(
                    rank == 0,
                    "RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from the end of the list",
                )?;
            }
            b"count" => wanted = Some(count(number, "COUNT can't be negative")?),
            b"maxlen" => most = count(number, "MAXLEN can't be negative")?,
            _ => return Err(Fail::SYNTAX),
        }
    }
    let enough = match wanted {
        None => 1,
        Some(0) => usize::MAX,
        Some(count) => count,
    };
    let (begun, mut found, mut skip) = (out.defer_len(), 0, rank.unsigned_abs() - 1);
    cx.read_value::<List, _>(args[1], |view, list| {
        let Some(list) = list else { return Ok(()) };
        let len = view[list].len();
        for step in 0..if most == 0 { len } else { len.min(most) } {
            let place = if rank < 0 { len - 1 - step } else { step };
            if !is_at(view, list, place, args[2]) {
                continue;
            }
            if skip > 0 {
                skip -= 1;
                continue;
            }
            out.count(place);
            found += 1;
            if found == enough {
                break;
            }
        }
        Ok(())
    })?;
    match (wanted, found) {
        (Some(_), _) => out.end_array(begun, found),
        (None, 0) => out.null(),
        (None, _) => {}
    }
    Ok(())
}
