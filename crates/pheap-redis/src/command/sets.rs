//! Sets: their elements.

use super::args::{Scan, maybe_number};
use super::pick::{self, PickCount, pick};
use super::table::{ADD_FAST, KEY, READ, READ_FAST, TWO_KEYS, WRITE_FAST};
use super::values;
use super::{Args, Command, Cx, Done, Fail, answer};
use crate::data::Set;
use crate::resp::Reply;
use crate::text::random::random;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("sadd", -3, ADD_FAST, KEY, sadd).access("RW insert"),
    Command::new("scard", 2, READ_FAST, KEY, values::answer_len::<Set>).access("RO"),
    Command::new("sismember", 3, READ_FAST, KEY, sismember).access("RO"),
    Command::new("smembers", 2, READ, KEY, smembers),
    Command::new("smismember", -3, READ_FAST, KEY, smismember),
    Command::new("smove", 4, WRITE_FAST, TWO_KEYS, smove).accesses("RW access delete", "RW insert"),
    Command::new("spop", -2, WRITE_FAST, KEY, spop).access("RW access delete"),
    Command::new("srandmember", -2, READ, KEY, srandmember),
    Command::new("srem", -3, WRITE_FAST, KEY, srem).access("RW delete"),
    Command::new("sscan", -3, READ, KEY, sscan),
];

/// Adds elements to the set of a key, which is created if necessary. Returns how many are new.
fn add(cx: &mut Cx<'_>, key: &[u8], elements: &Args<'_>) -> Result<usize, Fail> {
    let new = cx.change_or_create::<Set, _>(key, |tx, set| {
        let mut new = 0;
        for element in elements {
            new += usize::from(set.insert(tx, element)?);
        }
        Ok(new)
    })?;
    cx.touched_often(b's', "sadd", key, new as u64);
    Ok(new)
}

fn sadd(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    add(cx, args[1], &args[2..]).map(|new| out.count(new))
}

/// Removes elements from the set of a key, and the key with its last element. Returns how many were removed.
fn remove(cx: &mut Cx<'_>, key: &[u8], elements: &Args<'_>) -> Result<usize, Fail> {
    let count = cx.remove_elements::<Set>(key, "srem", |tx, set, _| {
        Ok(elements.iter().filter(|element| set.remove(tx, *element)).count())
    });
    Ok(count?.unwrap_or(0))
}

fn srem(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    remove(cx, args[1], &args[2..]).map(|count| out.count(count))
}

fn smove(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (source, target, element) = (args[1], args[2], args[3]);
    let is_there =
        cx.read_value::<Set, _>(source, |view, set| Ok(set.map(|set| set.contains(view, element))))?;
    let Some(is_there) = is_there else {
        return answer::int(out, 0);
    };
    cx.read_value::<Set, _>(target, |_, _| Ok(()))?;
    out.int(i64::from(is_there));
    if source != target && is_there {
        remove(cx, source, &[element])?;
        add(cx, target, &[element])?;
    }
    Ok(())
}

fn sismember(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let is_there =
        cx.read_value::<Set, _>(args[1], |view, set| Ok(set.is_some_and(|set| set.contains(view, args[2]))));
    is_there.map(|is_there| out.int(i64::from(is_there)))
}

fn smismember(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    cx.read_value::<Set, _>(args[1], |view, set| {
        out.array(args.len() - 2);
        for element in &args[2..] {
            out.int(i64::from(set.is_some_and(|set| set.contains(view, element))));
        }
        Ok(())
    })
}

fn smembers(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    cx.read_value::<Set, _>(args[1], |view, set| {
        out.set(set.map_or(0, |set| view[set].len()));
        set.into_iter().flat_map(|set| set.iter(view)).for_each(|element| out.bulk(element));
        Ok(())
    })
}

fn sscan(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    Scan::of_value::<Set>(cx, args, out, |view, set, asked, is_compact, out| {
        let write = |element: &[u8], out: &mut Reply| {
            out.bulk(element);
            1
        };
        asked.answer(is_compact, |from| set.scan(view, from), |element| element, out, write);
    })
}

fn srandmember(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    Fail::SYNTAX.when(args.len() > 3)?;
    let wanted = args.get(2).map(|count| PickCount::parse(count, false)).transpose()?;
    cx.read_value::<Set, _>(args[1], |view, set| {
        let len = set.map_or(0, |set| view[set].len());
        let one = || set.and_then(|set| set.choose(view, random));
        let all = || set.into_iter().flat_map(|set| set.iter(view));
        pick::answer((wanted, false), len, one, all, |element| element, out, |_, _| {})
    })
}

fn spop(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let count = maybe_number(&args[2..], || Fail::SYNTAX)?;
    let mut taken = Vec::new();
    cx.remove_elements::<Set>(args[1], "spop", |tx, set, len| {
        let wanted = PickCount::Distinct(count.unwrap_or(1));
        let (one, all) = (|| set.choose(tx, random), || set.iter(tx));
        let each = |element: &[u8]| {
            taken.push(element.to_vec());
            true
        };
        pick(wanted, len, one, all, |element| element, each);
        if taken.len() < len {
            taken.iter().for_each(|element| _ = set.remove(tx, element));
        }
        Ok(taken.len())
    })?;
    if count.is_none() {
        return answer::maybe_bulk(out, taken.first().map(Vec::as_slice));
    }
    out.set(taken.len());
    taken.iter().for_each(|element| out.bulk(element));
    Ok(())
}
