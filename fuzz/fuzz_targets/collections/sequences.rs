//! Steps on vectors, queues and texts.

use pheap::{P, PString, PVec, PVecDeque, Result, Txn};
use pheap_fuzz::range;

use crate::content::Model;
use crate::ops::{BoxStep, DequeStep, TextStep, VecStep};

/// Returns a place in a sequence of `len` elements, if it has any.
fn place(at: u8, len: usize) -> Option<usize> {
    usize::from(at).checked_rem(len)
}

/// Returns `len % 700` numbers, from `first` on.
fn numbers(len: u16, first: u32) -> impl Iterator<Item = u32> {
    (0..u32::from(len % 700)).map(move |i| first.wrapping_add(i))
}

pub fn vec<'r>(
    tx: &mut Txn<'r>,
    vec: P<'r, PVec<'r, u32>>,
    other: P<'r, PVec<'r, u32>>,
    model: &mut Vec<u32>,
    step: &VecStep,
) -> Result<()> {
    let len = model.len();
    match *step {
        VecStep::Push(value) => {
            vec.push(tx, value)?;
            model.push(value);
        }
        VecStep::Pop => assert_eq!(vec.pop(tx), model.pop()),
        VecStep::Set(at, value) => {
            if let Some(at) = place(at, len) {
                assert_eq!(vec.set(tx, at, value), std::mem::replace(&mut model[at], value));
            }
        }
        VecStep::Insert(at, value) => {
            let at = usize::from(at) % (len + 1);
            vec.insert(tx, at, value)?;
            model.insert(at, value);
        }
        VecStep::Remove(at) => {
            if let Some(at) = place(at, len) {
                assert_eq!(vec.remove(tx, at), model.remove(at));
            }
        }
        VecStep::SwapRemove(at) => {
            if let Some(at) = place(at, len) {
                assert_eq!(vec.swap_remove(tx, at), model.swap_remove(at));
            }
        }
        VecStep::Swap(a, b) => {
            if let (Some(a), Some(b)) = (place(a, len), place(b, len)) {
                vec.swap(tx, a, b);
                model.swap(a, b);
            }
        }
        VecStep::Truncate(to) => {
            vec.truncate(tx, to.into());
            model.truncate(to.into());
        }
        VecStep::Clear => {
            vec.clear(tx);
            model.clear();
        }
        VecStep::Reserve(more) => vec.reserve(tx, (more % 700).into())?,
        VecStep::Shrink => vec.shrink_to_fit(tx)?,
        VecStep::Extend(more, first) => {
            vec.extend(tx, numbers(more, first))?;
            model.extend(numbers(more, first));
        }
        VecStep::Resize(len, value) => {
            vec.resize(tx, (len % 700).into(), value)?;
            model.resize((len % 700).into(), value);
        }
        VecStep::Drain(from, to) => {
            let range = range(from, to, len);
            assert!(vec.drain(tx, range.clone()).eq(model.drain(range)));
        }
        VecStep::RetainMultiples(of) => {
            let of = u32::from(of) + 1;
            vec.retain(tx, |n| n % of != 0);
            model.retain(|n| n % of != 0);
        }
        VecStep::Dedup => {
            vec.dedup(tx);
            model.dedup();
        }
        VecStep::Reverse => {
            vec.reverse(tx);
            model.reverse();
        }
        VecStep::Sort => {
            vec.sort(tx);
            model.sort_unstable();
            for n in model.iter().step_by(17) {
                assert!(tx[vec].binary_search(tx, n).is_ok_and(|at| model[at] == *n));
            }
        }
        VecStep::SortBackwards => {
            vec.sort_by(tx, |a, b| b.cmp(a));
            model.sort_by(|a, b| b.cmp(a));
        }
        VecStep::AddTo(from, to, by) => {
            let range = range(from, to, len);
            let add = |n: &mut u32| *n = n.wrapping_add(by);
            vec.as_mut_slice(tx, range.clone()).iter_mut().for_each(add);
            model[range].iter_mut().for_each(add);
        }
        VecStep::Append(more, first) => {
            other.extend(tx, numbers(more.into(), first))?;
            vec.append(tx, other)?;
            model.extend(numbers(more.into(), first));
        }
    }
    Ok(())
}

pub fn boxes<'r>(
    tx: &mut Txn<'r>,
    vec: P<'r, PVec<'r, P<'r, u64>>>,
    model: &mut Vec<u64>,
    step: &BoxStep,
) -> Result<()> {
    let len = model.len();
    match *step {
        BoxStep::Push(value) => {
            let new = tx.alloc(value)?;
            vec.push(tx, new)?;
            model.push(value);
        }
        BoxStep::Pop => assert_eq!(vec.pop(tx).map(|p| tx[p]), model.pop()),
        BoxStep::Insert(at, value) => {
            let at = usize::from(at) % (len + 1);
            let new = tx.alloc(value)?;
            vec.insert(tx, at, new)?;
            model.insert(at, value);
        }
        BoxStep::Remove(at) => {
            if let Some(at) = place(at, len) {
                let removed = vec.remove(tx, at);
                assert_eq!(tx[removed], model.remove(at));
            }
        }
        BoxStep::Write(at, value) => {
            if let Some(at) = place(at, len) {
                let p = *vec.get(tx, at).expect("it has one there");
                tx[p] = value;
                model[at] = value;
            }
        }
        BoxStep::Truncate(to) => {
            vec.truncate(tx, to.into());
            model.truncate(to.into());
        }
        BoxStep::Reverse => {
            vec.reverse(tx);
            model.reverse();
        }
    }
    Ok(())
}

pub fn deque<'r>(
    tx: &mut Txn<'r>,
    deque: P<'r, PVecDeque<'r, u16>>,
    model: &mut Model,
    step: &DequeStep,
) -> Result<()> {
    let model = &mut model.deque;
    match *step {
        DequeStep::PushBack(value) => {
            deque.push_back(tx, value)?;
            model.push_back(value);
        }
        DequeStep::PushFront(value) => {
            deque.push_front(tx, value)?;
            model.push_front(value);
        }
        DequeStep::PopFront => assert_eq!(deque.pop_front(tx), model.pop_front()),
        DequeStep::PopBack => assert_eq!(deque.pop_back(tx), model.pop_back()),
        DequeStep::Set(at, value) => {
            if let Some(at) = place(at, model.len()) {
                *deque.get_mut(tx, at).expect("it has one there") = value;
                model[at] = value;
            }
        }
        DequeStep::Extend(more, first) => {
            let new = (0..u16::from(more)).map(|i| first.wrapping_add(i));
            deque.extend(tx, new.clone())?;
            model.extend(new);
        }
        DequeStep::Reserve(more) => deque.reserve(tx, more.into())?,
        DequeStep::Shrink => deque.shrink_to_fit(tx)?,
        DequeStep::Clear => {
            deque.clear(tx);
            model.clear();
        }
    }
    Ok(())
}

/// Returns the boundary of a character at or before a place.
fn boundary(text: &str, at: u8) -> usize {
    text.floor_char_boundary(usize::from(at) % (text.len() + 1))
}

pub fn text<'r>(
    tx: &mut Txn<'r>,
    text: P<'r, PString<'r>>,
    model: &mut String,
    step: &TextStep,
) -> Result<()> {
    match step {
        TextStep::Push(c) => {
            text.push(tx, *c)?;
            model.push(*c);
        }
        TextStep::PushStr(more) => {
            text.push_str(tx, more)?;
            model.push_str(more);
        }
        TextStep::Pop => assert_eq!(text.pop(tx), model.pop()),
        TextStep::Insert(at, c) => {
            let at = boundary(model, *at);
            text.insert(tx, at, *c)?;
            model.insert(at, *c);
        }
        TextStep::InsertStr(at, more) => {
            let at = boundary(model, *at);
            text.insert_str(tx, at, more)?;
            model.insert_str(at, more);
        }
        TextStep::Remove(at) => {
            let at = boundary(model, *at);
            if at < model.len() {
                assert_eq!(text.remove(tx, at), model.remove(at));
            }
        }
        TextStep::Replace(from, to, with) => {
            let [a, b] = [from, to].map(|at| boundary(model, *at));
            let range = a.min(b)..a.max(b);
            text.replace_range(tx, range.clone(), with)?;
            model.replace_range(range, with);
        }
        TextStep::Truncate(to) => {
            let to = boundary(model, *to);
            text.truncate(tx, to);
            model.truncate(to);
        }
        TextStep::Set(new) => {
            text.set(tx, new)?;
            model.clone_from(new);
        }
        TextStep::RetainAscii => {
            text.retain(tx, |c| c.is_ascii());
            model.retain(|c| c.is_ascii());
        }
        TextStep::Reserve(more) => text.reserve(tx, (*more).into())?,
        TextStep::Shrink => text.shrink_to_fit(tx)?,
        TextStep::Clear => {
            text.clear(tx);
            model.clear();
        }
    }
    Ok(())
}
