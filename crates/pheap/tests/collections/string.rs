//! `PString` compared with `String`.

use pheap::{P, PString, Persist, Result, Txn, View, field};
use proptest::prelude::*;

use crate::twins::{self, Twins};

/// A string between words that nothing changes.
#[derive(Persist, Default)]
#[repr(C)]
pub(crate) struct Note<'r> {
    before: u64,
    text: PString<'r>,
    after: u64,
}

#[derive(Debug, Clone)]
enum Op {
    Push(char),
    PushStr(String),
    Pop,
    Insert(usize, char),
    InsertStr(usize, String),
    Remove(usize),
    Replace(usize, usize, String),
    Truncate(usize),
    Set(String),
    Retain(char),
    Clear,
    Reserve(usize),
    Shrink,
}

/// The boundary of a character, from any number.
fn boundary(text: &str, n: usize) -> usize {
    (0..=n.min(text.len())).rev().find(|&i| text.is_char_boundary(i)).expect("0 is one")
}

struct Strings;

impl Twins for Strings {
    type Root = Note<'static>;
    type Std = String;
    type Op = Op;

    fn ops() -> BoxedStrategy<Op> {
        let text = || "[a-c√𝄞]{0,20}";
        let at = || 0..60usize;
        prop_oneof![
            4 => any::<char>().prop_map(Op::Push),
            4 => text().prop_map(Op::PushStr),
            2 => Just(Op::Pop),
            1 => (at(), any::<char>()).prop_map(|(i, c)| Op::Insert(i, c)),
            1 => (at(), text()).prop_map(|(i, t)| Op::InsertStr(i, t)),
            1 => at().prop_map(Op::Remove),
            2 => (at(), at(), text()).prop_map(|(a, b, t)| Op::Replace(a, b, t)),
            1 => at().prop_map(Op::Truncate),
            1 => text().prop_map(Op::Set),
            1 => prop::sample::select(vec!['a', 'b', '√']).prop_map(Op::Retain),
            1 => Just(Op::Clear),
            1 => at().prop_map(Op::Reserve),
            1 => Just(Op::Shrink),
        ]
        .boxed()
    }

    fn apply<'r>(op: &Op, tx: &mut Txn<'r>, note: P<'r, Note<'r>>, twin: &mut String) -> Result<()> {
        let text = field!(note.text);
        match op {
            Op::Push(c) => {
                text.push(tx, *c)?;
                twin.push(*c);
            }
            Op::PushStr(t) => {
                text.push_str(tx, t)?;
                twin.push_str(t);
            }
            Op::Pop => assert_eq!(text.pop(tx), twin.pop()),
            Op::Insert(i, c) => {
                let i = boundary(twin, *i);
                text.insert(tx, i, *c)?;
                twin.insert(i, *c);
            }
            Op::InsertStr(i, t) => {
                let i = boundary(twin, *i);
                text.insert_str(tx, i, t)?;
                twin.insert_str(i, t);
            }
            Op::Remove(i) => {
                let i = boundary(twin, *i);
                if i < twin.len() {
                    assert_eq!(text.remove(tx, i), twin.remove(i));
                }
            }
            Op::Replace(a, b, t) => {
                let (a, b) = (boundary(twin, *a), boundary(twin, *b));
                if a <= b {
                    text.replace_range(tx, a..b, t)?;
                    twin.replace_range(a..b, t);
                }
            }
            Op::Truncate(n) => {
                let n = boundary(twin, *n);
                text.truncate(tx, n);
                twin.truncate(n);
            }
            Op::Set(t) => {
                text.set(tx, t)?;
                twin.clone_from(t);
            }
            Op::Retain(without) => {
                text.retain(tx, |c| c != *without);
                twin.retain(|c| c != *without);
            }
            Op::Clear => {
                text.clear(tx);
                twin.clear();
            }
            Op::Reserve(n) => {
                text.reserve(tx, *n)?;
                assert!(tx[text].capacity(tx) >= twin.len() + n);
            }
            Op::Shrink => {
                text.shrink_to_fit(tx)?;
                assert_eq!(tx[text].capacity(tx), twin.len());
            }
        }
        Ok(())
    }

    fn compare<'r>(view: &View<'r>, note: P<'r, Note<'r>>, twin: &String) {
        let Note { before, ref text, after } = view[note];
        assert_eq!((before, after, text.len(), text.is_empty()), (0, 0, twin.len(), twin.is_empty()));
        assert_eq!(text.as_str(view), twin);
        assert_eq!(field!(note.text).as_str(view), twin);
    }
}

#[test]
fn a_string_is_like_that_of_std() {
    twins::run::<Strings>();
}
