//! Cells of `#[txn]`, `field!`, and the hidden macros that `#[txn]` expands to.

use crate::cells::{Cell, Outcome, outcomes, tried};

/// In scope of each module.
const PRELUDE: &str = r#"
pub use pheap::{Heap, Options, P, Persist, Txn, field, txn};
pub use pheap::__private::{Part, element, object, place, place_ahead};
pub use std::panic::{AssertUnwindSafe, catch_unwind};
use std::cell::RefCell;

#[derive(Persist, Default, Clone, Copy, Debug)] #[repr(C)] pub struct Inner { pub b: [u64; 4], pub n: u64 }
#[derive(Persist, Default, Clone, Copy, Debug)] #[repr(C)] pub struct Tuple(pub Pair, pub u64);
#[derive(Persist, Default, Clone, Copy, Debug)] #[repr(C)] pub struct Pair(pub u64, pub u64);
#[derive(Persist, Default, Clone, Copy, Debug)] #[repr(C)]
pub struct Object { pub a: [Inner; 4], pub x: u64, pub t: Tuple, pub r#await: Pair, pub r#match: u64, pub c: Count, pub large: [[u64; 20]; 2] }

#[derive(Persist, Default, Clone, Copy, Debug)] #[repr(C)] pub struct Count(pub u64);
impl std::ops::AddAssign<u64> for Count { fn add_assign(&mut self, by: u64) { log("add", ()); self.0 += by; } }
#[derive(Persist)] #[repr(C)] pub struct All<'r> { pub p: P<'r, Object>, pub q: P<'r, Object>, pub s: P<'r, [Inner]> }

impl Object { pub fn method(&mut self) -> &mut u64 { &mut self.x } }

/// `.await` of an object gives a value that is in no heap.
impl std::future::IntoFuture for Object {
    type Output = &'static mut Inner;
    type IntoFuture = std::future::Ready<&'static mut Inner>;
    fn into_future(self) -> Self::IntoFuture { std::future::ready(Box::leak(Box::default())) }
}

thread_local! {
    static LOG: RefCell<String> = RefCell::default();
    static IN_PLACE: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}
pub fn in_place() -> bool { IN_PLACE.get() }
pub fn log<T>(text: impl std::fmt::Debug, value: T) -> T {
    LOG.with_borrow_mut(|log| *log += &format!("{text:?} "));
    value
}
pub fn all<T>(value: T) -> Option<T> { log("all", Some(value)) }
pub fn none<T>(_: T) -> Option<T> { log("none", None) }
pub fn at_first(round: u64) -> bool { log(("round", round), round == 0) }
pub unsafe fn danger<T>(value: T) -> T { value }
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    loop { if let std::task::Poll::Ready(value) = future.as_mut().poll(&mut cx) { return value } }
}
#[macro_export] macro_rules! same { ($($value:tt)*) => { $($value)* } }
#[macro_export] macro_rules! as_expr { ($value:expr) => { $value } }
pub use crate::{as_expr, same};

pub static mut STATIC_TX: Option<&mut Txn<'static>> = None;

pub type Body = for<'r> fn(&mut Txn<'r>, P<'r, Object>, P<'r, Object>, P<'r, [Inner]>) -> Option<u64>;
/// What a function does in a transaction that keeps copies, and in one that stores in place.
pub fn seen(body: Body) -> String {
    [false, true].map(|pin_undo| {
        IN_PLACE.set(pin_undo);
        let heap = Options::new().pin_undo(pin_undo).in_memory().unwrap();
        let all = heap.root_or::<All>("all", |tx| {
            let (p, q) = (tx.alloc(Object::default())?, tx.alloc(Object::default())?);
            Ok(All { p, q, s: tx.alloc_slice(4, |_| Inner::default())? })
        });
        all.unwrap().txn(|tx, all| {
            let All { p, q, s } = tx[all];
            let result = catch_unwind(AssertUnwindSafe(|| body(tx, p, q, s)));
            let result = result.map_err(|panic| match panic.downcast::<String>() {
                Ok(text) => *text,
                Err(panic) => panic.downcast_ref::<&str>().copied().unwrap_or_default().to_owned(),
            });
            let objects = format!("{:?} {:?} {:?}", tx[p], tx[q], &tx[s]).replace("0, ", "");
            Ok(format!("{result:?} {}{}", LOG.take(), objects.replace("Inner ", "").replace("{ b: [0], n: 0 }", "")))
        }).unwrap()
    }).join(" | ")
}
"#;

/// Expressions for a place at which `$` compiles, which has its type. `n` counts rounds of a loop.
const EXPRESSIONS: &[&str] = &[
    "$",
    "($)",
    "{ $ }",
    "{ log('b', ()); $ }",
    "{ let v = $; v }",
    "{ #[allow(unused)] let v = $; v }",
    "#[cfg(any())] $",
    "return Some(n)",
    "{ if at_first(n) { return Some(n) } $ }",
    "break",
    "{ if at_first(n) { break } $ }",
    "break 'all",
    "{ if at_first(n) { break 'all } $ }",
    "continue",
    "{ if at_first(n) { continue } $ }",
    "{ if at_first(n) { continue 'all } $ }",
    "break 'missing",
    "std::future::ready($).await",
    "{ if at_first(n) { std::future::pending::<()>; std::future::ready(()).await } $ }",
    "async { $ }",
    "all($)?",
    "none($)?",
    "panic!(\"here\")",
    "{ if at_first(n) { panic!(\"here\") } $ }",
    "unreachable!()",
    "todo!()",
    "loop { return Some(n) }",
    "same!($)",
    "same!({ log('m', ()); $ })",
    "as_expr!($)",
    "[$; 2][1]",
    "vec![$][0]",
    "danger($)",
    "unsafe { danger($) }",
    "($, 1).0",
    "(|| $)()",
    "(move || $)()",
    "(|v| v)($)",
    "match $ { v => v }",
    "match n { 0 => $, _ => $ }",
    "if at_first(n) { $ } else { $ }",
    "if let Some(v) = all($) { v } else { $ }",
    "loop { break $ }",
    "'l: { break 'l $ }",
    "{ let Some(v) = all($) else { return None }; v }",
    "{ fn f<T>(v: T) -> T { v } f($) }",
    "{ const N: u64 = { let tx = [3]; tx[0] }; log(N, ()); $ }",
    "{ let tx = [3u64]; log(tx[0], ()); $ }",
    "{ let part = 3u64; let first = part; let object = first; log(object, ()); $ }",
    "log('k', $)",
    "*&$",
    "-1",
    "1",
    "1_usize",
    "1u8",
    "1u64",
    "1.5",
    "0x1",
    "\"1\"",
    "b\"1\"",
    "c\"1\"",
    "'1'",
    "b'1'",
    "true",
    "()",
    "(1, 1)",
    "[1, 1]",
    "0..1",
    "..",
    "..1",
    "1..",
    "0..=1",
    "..=1",
    "_",
    "!",
    "|| 1",
    "let 1 = 1",
];

/// What can stand behind `.`, or seem to.
const FIELDS: &[&str] = &[
    "x",
    "a",
    "r#await",
    "r#await.0",
    "await",
    "await.n",
    "a.await",
    "x.await",
    "r#match",
    "match",
    "t.0.1",
    "t.1",
    "t. 0 . 1",
    "t.0",
    "0",
    "t.0x1",
    "t.1u8",
    "t.1.5",
    "t.\"1\"",
    "method()",
    "method().x",
    "x()",
    "a[0].n",
    "a[8].n",
    "a[n as usize].n",
    "a[return None].n",
    "a[return Some(log('r', 3))].n",
    "a[log('i', 1)].n",
    "a[std::future::ready(1).await].n",
    "a[panic!()].n",
    "a[all(1)?].n",
    "a[1][2]",
    "a.len()",
    "[0]",
    "(x)",
    "{ x }",
    "{ return None }",
    "same!(x)",
    "same!(await).n",
    "#[allow(unused)] x",
    "self",
    "crate",
    "super",
    "use",
    "x as u64",
    "x?",
    "x..",
    "'x",
    "_",
    "",
    "no_such_field",
];

/// Statements with names, closures and ranges that `#[txn]` might misread; and the order of evaluation.
const STATEMENTS: &[&str] = &[
    "let r = 1..3; tx[p].a[r][0].n = 5;",
    "let r = ..=2; tx[s][r.clone()][2].n = 5; tx[s][r][3].n = 5;",
    "let _ = catch_unwind(AssertUnwindSafe(|| { let r = 1..7; tx[p].a[r][0].n = 5; }));",
    "tx[p].a[1..3][n as usize].n = 5;",
    "let r = 1..3; tx[p].x = 1; tx[q].a[r][0].n = 5;",
    "let r = ..=2; tx[p].large[1][0] = 1; tx[s][r][1].n = 5;",
    "let f = |it: &mut dyn Iterator<Item = u64>, tx: &mut [u64]| { tx[0] = 1; it.next() }; log(f(&mut (0..1), &mut [0]), ());",
    "fn g(f: impl Fn(&mut [u64])) { f(&mut [0]) } g(#[allow(unused)] |tx: &mut [u64]| { tx[0] = 1; });",
    "fn g(f: impl Fn(&mut [u64])) { f(&mut [0]) } g(#[allow(unused)] move |tx: &mut [u64]| { tx[0] = 1; });",
    "let f = 'b: { break 'b |tx: &mut [u64]| tx[0] = 1 }; f(&mut [0]);",
    "let f = loop { break |tx: &mut [u64]| tx[0] = 1 }; f(&mut [0]);",
    "let f: fn(&mut [u64]) = if n == 0 { |tx| tx[0] = 1 } else { |tx| tx[0] = 2 }; f(&mut [0]);",
    "let f: fn(&mut [u64]) = match n { 0 => |tx| tx[0] = 1, _ => |tx| tx[0] = 2 }; f(&mut [0]);",
    "let f = |n: u64| move |tx: &mut [u64]| tx[0] = n; f(n)(&mut [0]);",
    "let f = |tx: &mut [u64]| -> u64 { tx[0] = 1; tx[0] }; log(f(&mut [0]), ());",
    "let f = async |tx: &mut [u64]| { tx[0] = 1; tx[0] }; log(f(&mut [0]).await, ());",
    "const F: fn(&mut [u64]) = |tx| tx[0] = 1; F(&mut [0]);",
    "static F: fn(&mut [u64]) = |tx: &mut [u64]| { tx[0] = 1; }; F(&mut [0]);",
    "struct S; impl S { fn f(tx: &mut [u64]) { tx[0] = 1; } } S::f(&mut [0]);",
    "fn f<const N: usize>(tx: &mut [u64; N]) where [(); N]: Sized { tx[0] = 1; } f(&mut [0]);",
    "match (&[1u64], 0usize) { (tx, p) if tx[p] + 1 == 2 => log(tx[p], ()), _ => () }",
    "match [[1u64]] { [mut tx] => { tx[0] = 3; log(tx[0], ()) } }",
    "match Some([1u64]) { None => (), Some(tx) if tx[0] == 0 => (), | Some(mut tx) => tx[0] = 3 } tx[p].x = 3;",
    "let [tx, ..] = &mut [[0u64; 2]; 2]; tx[1] = 3;",
    "let Some(tx) = Some(&mut [0u64]) else { return None }; tx[0] = 1;",
    "if let Some(tx) = Some(&mut [0u64]) && { tx[0] = 1; true } { tx[0] = 2 } tx[p].x = 3;",
    "while let Some(tx) = Some(&mut [0u64]) { tx[0] = 1; break }",
    "for tx in &mut [[0u64]] { tx[0] = 1 } tx[p].x = 3;",
    "{ let tx = &mut [0u64]; tx[0] = 1; } tx[p].x = 3;",
    "let z = tx[p].x as u8 | 3; let f = |tx: &mut [u64]| tx[0] = 1; f(&mut [0]); log(z, ());",
    "tx.nested((p, q), |tx, (p, q)| { for _ in 0..2 { tx[p].x += 1; tx[q].x = tx[p].x; } Ok(()) }).unwrap();",
    "tx[log('k', p)].a[log('i', 1)].b[log('j', 2)] += log('v', 7);",
    "tx[p].c += log('v', 3);",
    "tx[log('k', p)].c += { log('v', 3) }; tx[q].x = 4;",
    "tx[p].x = 1; tx[q].c += log('v', 3);",
    "let mut i = 1; tx[p].a[i].b[0] = { i = 2; 5 }; tx[q].a[i].b[0] = 6; tx[p].a[i].b[1] = 6;",
    "let mut i = 1; tx[p].a[0].b[0] = 6; tx[q].a[i].b[0] = { i = 2; 5 };",
    "let mut k = p; tx[k].x = { k = q; 5 }; tx[k].x = 6;",
    "tx[p].a[8].b[{ if n == 0 { return Some(77) } 0 }] = 1;",
    "let _ = catch_unwind(AssertUnwindSafe(|| { tx[p].large[1][0] = 1; tx[q].a[9].n = 2; tx[p].x = 3; }));",
    "let i = 9; let _ = catch_unwind(AssertUnwindSafe(|| { tx[p].large[1][0] = 1; tx[q].large[i][0] = 2; }));",
    "let i = 9; tx[s][3].n = 1; tx[s][i].n = 2;",
    "let (i, j) = (0, 3); let (x, y) = (tx[s][i], tx[s][j]); tx[s][i] = y; tx[s][j] = x;",
    "(tx[p].x, tx[q].x) = (log('a', 3), 4); [tx[p].x, tx[q].x] = [log('b', 5), 6];",
    "let mut set = |v| tx[p].x = v; set(4); set(5);",
    "{ tx[p].x += 1; 3 } | 4; tx[q].x = 4;",
];

/// The arguments of a body.
const ARGUMENTS: &str = "tx: &mut Txn<'r>, p: P<'r, Object>, q: P<'r, Object>, s: P<'r, [Inner]>";

/// A module that runs statements in a loop of a function; in an `async` block if they may wait.
fn module(attribute: &str, statements: &str) -> String {
    let body = format!(
        "let mut rounds = 0u64; 'all: while rounds < 2 {{ let n = rounds; rounds += 1; {statements} }} Some(rounds)"
    );
    let body = if statements.contains(".await") { format!("block_on(async {{ {body} }})") } else { body };
    format!(
        "{attribute} pub fn body<'r>({ARGUMENTS}) -> Option<u64> {{ {body} }} \
         pub fn run() -> String {{ seen(body) }}"
    )
}

/// The plain code, or code that no cell behaves like: `.await` of an object leads out of the heap.
fn plain_field(field: &str, plain: &str) -> String {
    let waits = field.split('.').any(|step| ["await", "same!(await)"].contains(&step));
    if waits { "log('?', ());".to_owned() } else { plain.to_owned() }
}

fn cell(code: String, plain: String) -> Cell {
    Cell { name: code.clone(), code: module("", &code), plain: module("", &plain) }
}

/// Runs the cells. Asserts that each is refused, or does what plain code does; and that it is not refused if
/// the plain code compiles, unless `may_be_refused` says so. `expected` has the numbers of refused cells and
/// of cells that run, among all.
fn assert_same(name: &str, cells: &[Cell], expected: (usize, usize), may_be_refused: impl Fn(&str) -> bool) {
    let (mut refused, mut failures, tried) = (0, Vec::new(), tried(cells));
    for (cell, (code, plain)) in tried.iter().zip(outcomes(name, PRELUDE, &tried)) {
        let is_good = match (&code, &plain) {
            (Outcome::Ran(code), Outcome::Ran(plain)) => code == plain,
            (Outcome::Ran(_), Outcome::Refused(_)) => false,
            (Outcome::Refused(_), Outcome::Ran(_)) => may_be_refused(&cell.name),
            (Outcome::Refused(_), Outcome::Refused(_)) => true,
        };
        refused += usize::from(matches!(code, Outcome::Refused(_)));
        if !is_good {
            failures.push(format!("{}\n  with the macro: {code:?}\n  plain: {plain:?}", cell.name));
        }
    }
    println!("{name}: {} cells, {refused} of them refused", tried.len());
    assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), tried.len(), failures.join("\n"));
    if tried.len() == cells.len() {
        assert_eq!((refused, cells.len() - refused), expected);
    }
}

/// Each statement with each expression in the place of `@`, of which `$` stands for a value.
fn filled(statements: &[(&str, &str)], expressions: &[&str]) -> Vec<String> {
    let fill = |&(statement, value): &(&str, &str)| {
        let fill = move |expression: &&str| statement.replace('@', &expression.replace('$', value));
        expressions.iter().map(fill).collect::<Vec<_>>()
    };
    statements.iter().flat_map(fill).collect()
}

#[test]
fn txn_does_what_plain_code_does() {
    let places = [
        ("tx[@].x = 3;", "p"),
        ("tx[@].large[1][19] += 3;", "p"),
        ("tx[p].x = @;", "7"),
        ("tx[p].x += @;", "7"),
        ("tx[p].a[@].n = 3;", "1"),
        ("tx[s][@].n = 3;", "1"),
        ("tx[p].a[@].b[log('j', 2)] = log('v', 3);", "1"),
        ("tx[p].a[log('i', 1)].b[@] = log('v', 3);", "2"),
        ("tx[s][log('i', 8)].b[@] = log('v', 3);", "2"),
        ("tx[p].a[8 + n as usize].b[@] = log('v', 3);", "2"),
        ("tx[p].x = @; tx[q].x = 4;", "7"),
        ("tx[p].x = 4; tx[q].x = @;", "7"),
        ("tx[p].large[1][n as usize] = 4; tx[q].large[1][3] = @;", "7"),
    ];
    let mut statements = filled(&places, EXPRESSIONS);
    // Without `#[txn]`, rustc 1.95 compiles an `.await` behind another index wrongly: it forgets the first
    // index.
    statements.retain(|statement| !(statement.contains(".await") && statement.contains("].b[")));
    statements.extend(filled(&[("tx[p].@ = 3;", ""), ("let v = &tx[p].@; log(v, ());", "")], FIELDS));
    statements.extend(STATEMENTS.iter().map(|&statement| statement.to_owned()));
    let cells: Vec<Cell> = statements
        .into_iter()
        .map(|code| Cell { code: module("#[txn]", &code), plain: module("", &code), name: code })
        .collect();
    assert_same("txn", &cells, (512, 629), |_| false);
}

#[test]
fn a_pointer_to_a_field_is_to_that_field() {
    let mut cells = Vec::new();
    for key in filled(&[("@", "p")], EXPRESSIONS) {
        cells.push(cell(
            format!("let f = field!(({key}).x); tx[f] += 3;"),
            format!("let k = {key}; tx[k].x += 3;"),
        ));
    }
    for object in
        ["p", "self", "r#p", "P", "mut p", "_", "await", "crate", "1", "\"p\"", "p[0]", "(p)", "{ p }"]
    {
        cells.push(cell(
            format!("let f = field!({object}.x); tx[f] += 3;"),
            format!("let k: P<Object> = {object}; tx[k].x += 3;"),
        ));
    }
    for field in FIELDS {
        cells.push(cell(
            format!("let f = field!(p.{field}); log(&tx[f], ());"),
            plain_field(field, &format!("let f = &tx[p].{field}; log(f, ());")),
        ));
    }
    // By way of a macro, whose fragments are no plain tokens.
    for kind in ["ident", "tt", "expr", "literal", "path", "ty", "pat", "block", "lifetime"] {
        for field in ["x", "r#await", "await", "c", "0", "self", "{ x }", "'x"] {
            for (path, rest) in [("$f", ""), ("$f.0", ".0"), ("t.$f", "")] {
                let plain =
                    if path.starts_with('t') { format!("t.{field}") } else { format!("{field}{rest}") };
                cells.push(cell(
                    format!(
                        "macro_rules! of {{ ($p:ident $f:{kind}) => {{ field!($p.{path}) }} }} \
                         let f = of!(p {field}); log(&tx[f], ());"
                    ),
                    plain_field(&plain, &format!("let f = &tx[p].{plain}; log(f, ());")),
                ));
            }
        }
    }
    assert_same("field", &cells, (296, 61), |_| true);
}

#[test]
fn hidden_macros_do_not_trust_their_tokens() {
    let mut cells = Vec::new();
    // Called with the tokens of each kind, where `@` is.
    let calls = [
        ("place!({ .x } tx (@))", "p", ".x"),
        ("place!(pair false { place_ahead!({ .x } tx (q)) } { .x } tx (@))", "p", ".x"),
        ("place!(pair true { place_ahead!({ .x } tx (q)) } { .x } tx (@))", "p", ".x"),
    ];
    for (call, value, field) in calls {
        for key in filled(&[("@", value)], EXPRESSIONS) {
            cells.push(cell(
                format!("*{} = 3;", call.replace('@', &key)),
                format!("let k = {key}; tx[k]{field} = 3;"),
            ));
        }
    }
    for index in filled(&[("@", "1")], EXPRESSIONS) {
        for (steps, path) in [("[@] .n", ".n"), (".a [8] .b [@]", ""), (".a [@] .b [2]", ".b[2]")] {
            let steps = steps.replace('@', &index);
            let key = if steps.starts_with('[') { "s" } else { "p" };
            let plain = match path {
                "" => format!(
                    "let i = log('i', 8); if i == 8 {{ let o = [0u64; 4]; log(o[i], ()); }} let _ = {index};"
                ),
                path if key == "s" => format!("let i = {index}; tx[s][i]{path} = 3;"),
                path => format!("let i = {index}; tx[p].a[i]{path} = 3;"),
            };
            if !path.is_empty() {
                cells.push(cell(format!("*place!({{ {steps} }} tx ({key})) = 3;"), plain));
            }
        }
        cells.push(cell(
            format!("'l: {{ if place_ahead!({{ .a [{index}] .n }} tx (p)) {{ break 'l; }} }}"),
            format!("'l: {{ let i = {index}; if p.key() == q.key() {{ log([0; 4][i], ()); }} }}"),
        ));
        cells.push(cell(
            format!("_ = element(object(s), {index}).pointer();"),
            format!("let i = {index}; _ = &tx[s][i];"),
        ));
        cells.push(cell(
            format!("let m = pheap::__part!([.a [{index}] .n] object(p)).pointer(); tx[m] = 3;"),
            format!("let i = {index}; tx[p].a[i].n = 3;"),
        ));
    }
    for field in FIELDS {
        let plain = plain_field(field, &format!("tx[p].{field} = 3;"));
        cells.push(cell(format!("*place!({{ .{field} }} tx (p)) = 3;"), plain.clone()));
        cells
            .push(cell(format!("let m = pheap::__part!([.{field}] object(p)).pointer(); tx[m] = 3;"), plain));
        // An index out of bounds notes nothing.
        let plain = if field.contains("[8]") { "" } else { &format!("_ = &tx[p].{field};") };
        cells.push(cell(format!("_ = place_ahead!({{ .{field} }} tx (p));"), plain_field(field, plain)));
    }
    // What is evaluated while a place is noted; it always is in a transaction that stores in place.
    for other in filled(&[("@", "true")], EXPRESSIONS) {
        cells.push(cell(
            format!("if n == 0 {{ *place!(pair false {{ {other} }} {{ .large [1] [3] }} tx (p)) = 3; }}"),
            format!("if n == 0 {{ if in_place() {{ let o = {other}; }} tx[p].large[1][3] = 3; }}"),
        ));
    }
    // Values that are no part of an object, and names of things that need `unsafe`.
    for part in [
        "p",
        "&mut tx[p]",
        "std::ptr::null_mut::<Object>()",
        "Part { object: p, place: std::ptr::null_mut::<Object>() }",
        "pheap::__private::part_field(object(p), std::ptr::null_mut::<Object>())",
        "unsafe { pheap::__private::part_field(object(p), std::ptr::null_mut::<Object>()) }",
    ] {
        cells.push(cell(
            format!("let m = pheap::__part!([.x] {part}).pointer(); tx[m] = 3;"),
            "unsafe { danger(1) }; tx[p].x = 3;".to_owned(),
        ));
    }
    for call in [
        "place!({ .x } STATIC_TX (p))",
        "place!(pair { false } { .x } tx (p))",
        "place!({ (*tx).x } tx (p))",
        "place!({ .x + 1 } tx (p))",
        "place!({ .x } tx (p) (p))",
        "place!({ .x } _ (p))",
        "place!({ .x } self (p))",
        "place!({ .x } tx p)",
    ] {
        cells.push(cell(format!("*{call} = 3;"), "unsafe { danger(1) }; tx[p].x = 3;".to_owned()));
    }
    assert_same("hidden", &cells, (434, 426), |_| true);
}
