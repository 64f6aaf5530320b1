//! `#[derive(Persist)]`, and the macros that it expands to, which a program can call itself.

use crate::cells::{Cell, Outcome, outcomes, tried};

const PRELUDE: &str = r#"
pub(crate) use std::num::NonZero;
pub(crate) use pheap::__private::*;
pub(crate) use pheap::collections::{HashKey, KeyHasher, OrdKey};
pub(crate) use pheap::{Heap, P, PBTreeMap, Persist, Plain, Root, SharedStr, Stored, Txn, View};

pub(crate) const FIELD: u64 = 7;
pub(crate) struct UNIT;
pub(crate) type Number = u64;

macro_rules! same { ($($of:tt)*) => { $($of)* }; }
macro_rules! leave { ($($with:tt)*) => { return $($with)* }; }
pub(crate) use {leave, same};

#[derive(Persist)]
#[persist(id = "T")]
#[repr(C)]
pub(crate) struct Old { pub(crate) a: u64 }

#[derive(Persist)]
#[persist(id = "Texts")]
#[repr(C)]
pub(crate) struct Texts<'r> { pub(crate) text: SharedStr<'r> }

pub(crate) fn is_clean(heap: &Heap) -> bool {
    heap.check().unwrap().is_clean()
}

/// A root of type `Old` becomes a `$new`.
macro_rules! evolved {
    ($new:ty, |$value:ident| $show:expr) => {{
        let heap = Heap::in_memory().unwrap();
        heap.root_or::<Old>("x", |_| Ok(Old { a: 7 })).unwrap();
        heap.evolve::<$new>("x").run().unwrap();
        let root = heap.existing_root::<$new>("x").unwrap();
        let shown = root.read(|view, root| { let $value = &view[root]; format!("{:?}", $show) });
        format!("{} {}", shown.unwrap(), is_clean(&heap))
    }};
}

/// Whether a program that has a `$new` where another one had a `SharedStr` can open its heap.
macro_rules! opened {
    ($new:ty) => {{
        let heap = Heap::in_memory().unwrap();
        heap.root_or::<Texts>("x", |tx| Ok(Texts { text: SharedStr::new(tx, "text")? })).unwrap();
        format!("{}", heap.existing_root::<$new>("x").is_ok())
    }};
}

/// A value is stored, and read again.
macro_rules! stored {
    ($ty:ty, |$p:ident| $make:expr, |$view:ident| $pattern:pat => $show:expr) => {{
        let heap = Heap::in_memory().unwrap();
        let root = heap.root_or::<$ty>("x", |tx| { let $p = tx.alloc(9u64)?; Ok($make) }).unwrap();
        let shown = root.read(|$view, root| match &$view[root] {
            $pattern => format!("{:?}", $show),
            _ => "other".into(),
        });
        format!("{} {}", shown.unwrap(), is_clean(&heap))
    }};
}
pub(crate) use {evolved, opened, stored};
"#;

/// Runs a part of the matrix. What does not compile is refused; all else does what the plain code does.
#[track_caller]
fn check(name: &str, cells: &[Cell], at_least_run: usize) {
    let tried = tried(cells);
    let mut run = 0;
    for (cell, (code, plain)) in tried.iter().zip(outcomes(&format!("persist_{name}"), PRELUDE, &tried)) {
        if matches!(code, Outcome::Ran(_)) {
            assert_eq!(code, plain, "{}: {}", cell.name, cell.code);
            run += 1;
        }
    }
    println!("{name}: {} cells, of which {run} compile", tried.len());
    assert!(run >= at_least_run * tried.len() / cells.len() / 2, "{name}: only {run} cells compile");
}

/// What can stand where a value is expected. `V` stands for one.
const EXPRESSIONS: &[&str] = &[
    "V",
    "{ V }",
    "(V)",
    "return",
    "return V",
    "return return V",
    "{ return; }",
    "{ return V; }",
    "break",
    "break V",
    "break 'a V",
    "continue",
    "loop { break V }",
    "loop { return V }",
    "'a: { break 'a V }",
    "std::future::ready(V).await",
    "async { V }.await",
    "async { V }",
    "yield V",
    "None?",
    "Some(V)?",
    "Ok::<_, ()>(V)?",
    "Err(())?",
    "panic!(\"no value\")",
    "todo!()",
    "same!(V)",
    "leave!()",
    "leave!(V)",
    "#[allow(unused)] V",
    "#[allow(unused)] { V }",
    "#[cfg(any())] V",
    "#[cfg(all())] V",
    "const { V }",
    "unsafe { V }",
    "(|| V)()",
    "(|| return V)()",
    "(|| -> () { return })()",
    "|| V",
    "if true { return V } else { V }",
    "match () { () => return V }",
    "match Some(V) { Some(v) => v, None => return V }",
    "{ fn inner() {} inner(); V }",
    "{ let place = 1; let _ = place; V }",
    "place",
    "value",
    "*place",
    "tag",
    "this",
    "self",
    "Self",
    "V as _",
    "&V",
    "{}",
    "_",
    "..",
    "\"pheap::SharedStr\"",
    "FIELD",
    "UNIT",
];

/// Types of fields, each with a value.
const TYPES: &[(&str, &str)] = &[
    ("u64", "5"),
    ("()", "()"),
    ("NonZero<u64>", "NonZero::<u64>::MAX"),
    ("Option<NonZero<u64>>", "NonZero::<u64>::new(5)"),
    ("Option<P<'r, u64>>", "Option::<P<'r, u64>>::None"),
];

#[test]
fn defaults() {
    let mut cells = Vec::new();
    for (ty, value) in TYPES {
        let r = if ty.contains("'r") { "<'r>" } else { "" };
        for expression in EXPRESSIONS {
            let expression = expression.replace('V', value);
            let plain = format!(
                "pub fn run() -> String {{ fn b{r}() -> {ty} {{ {expression} }} \
                 format!(\"{{:?}} true\", b()) }}"
            );
            let head = "#[persist(id = \"T\")] #[repr(C)] pub struct T";
            let derived = format!(
                "#[derive(Persist)] {head}{r} {{ \
                 a: u64, #[persist(since = 2, default = {expression})] b: {ty} }}"
            );
            let (brand, generics) = if r.is_empty() { ("", "") } else { ("'r '__at", "<'r>") };
            let direct = format!(
                "#[repr(C)] pub struct T{r} {{ a: u64, b: {ty} }} \
                 persist_struct! {{ [{generics}] T [{brand}] [] where [], \
                 id new \"T\" was [] removed [] repr C 1 3 {{ \
                 0 a: u64 as \"a\" was [] since 1 default [] f0 \
                 1 b: {ty} as \"b\" was [] since 2 default [{expression}] f1 }} }}"
            );
            // The derive calls the macro, so one type is enough for the macro alone.
            let direct = (*ty == "u64").then_some(("direct", direct));
            for (how, code) in direct.into_iter().chain([("derived", derived)]) {
                cells.push(Cell {
                    name: format!("{how} default = {expression} of a {ty}"),
                    code: format!("{code} pub fn run() -> String {{ evolved!(T, |t| t.b) }}"),
                    plain: plain.clone(),
                });
            }
        }
    }
    check("defaults", &cells, 100);
}

#[test]
fn discriminants() {
    let mut cells = Vec::new();
    let run = "pub fn run() -> String { let Kind::Enum { variants, .. } = &E::desc().kind else { panic!() }; \
               format!(\"{} {}\", variants[0].tag, stored!(E, |_p| E::A, |view| E::A => 'A')) }";
    for expression in EXPRESSIONS {
        let expression = expression.replace('V', "3");
        let plain = format!(
            "#[repr(u8)] #[allow(dead_code)] enum E {{ A = {expression}, B }} \
             pub fn run() -> String {{ format!(\"{{}} 'A' true\", E::A as u8) }}"
        );
        let attributes =
            "#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)] #[repr(u8)] #[allow(dead_code)]";
        let derived = format!(
            "#[derive(Persist)] #[persist(key)] {attributes} pub enum E {{ A = {expression}, B }} {run}"
        );
        let direct = format!(
            "{attributes} pub enum E {{ A = 3, B }} persist_enum! {{ [] E [] [] where [], \
             id new \"E\" was [] removed [] repr u8 1 {{ \
             A as \"A\" was [] since 1 removed [] = ({expression}) + 0, 1 {{}} \
             B as \"B\" was [] since 1 removed [] = ({expression}) + 1, 1 {{}} }} }} {run}"
        );
        cells.push(Cell { name: format!("derived A = {expression}"), code: derived, plain });
        let plain = "pub fn run() -> String { \"3 'A' true\".into() }".to_owned();
        cells.push(Cell { name: format!("direct A = {expression}"), code: direct, plain });
    }
    check("discriminants", &cells, 10);
}

/// What can stand where a literal is expected.
const LITERALS: &[&str] = &[
    "\"pheap::SharedStr\"",
    "\"pheap::\"",
    "r\"pheap::SharedStr\"",
    "concat!(\"pheap::\", \"SharedStr\")",
    "same!(\"pheap::SharedStr\")",
    "SHARED",
    "\"pheap::SharedStr<u64>\"",
    "\"Other\"",
    "\"text\"",
    "\"a b\"",
    "\"a: u64 @0 }\"",
    "\"\"",
    "b\"text\"",
    "'c'",
    "true",
    "0",
    "1",
    "2",
    "9",
    "-1",
    "2u8",
    "4294967296",
    "0.0",
];

#[test]
fn literals() {
    let mut cells = Vec::new();
    let mut cell = |name: String, code: String| {
        let code = format!(
            "const SHARED: &str = \"pheap::SharedStr\"; {code} \
             #[derive(Persist)] #[persist(id = \"Texts\")] #[repr(C)] \
             pub struct New<'r> {{ text: Text<'r> }} \
             pub fn run() -> String {{ opened!(New) }}"
        );
        cells.push(Cell { name, code, plain: "pub fn run() -> String { \"false\".into() }".into() });
    };
    for literal in LITERALS {
        let on_type = ["id = LIT", "was = LIT", "removed = LIT", "was = \"SharedStr\", was = LIT"];
        let on_field = ["was = LIT", "since = LIT", "since = 2, was = LIT"];
        let attributes = on_type.iter().map(|of| (*of, "was = \"x\""));
        let attributes = attributes.chain(on_field.iter().map(|of| ("id = \"Text\"", *of)));
        for (of_type, of_field) in attributes {
            let code = format!(
                "#[derive(Persist)] #[persist({of_type})] #[repr(transparent)] pub struct Text<'r> {{ \
                 #[persist({of_field})] text: P<'r, str> }}"
            );
            cell(format!("{of_type}, {of_field}: {literal}"), code.replace("LIT", literal));
        }
        let right = ["\"Text\"", "", "", "1", "2", "0", "\"text\"", "", "1"];
        for wrong in 0..right.len() {
            let mut of = right;
            of[wrong] = literal;
            let [text, was, removed, align, gaps, index, label, was_part, since] = of;
            let direct = format!(
                "#[repr(transparent)] pub struct Text<'r> {{ text: P<'r, str> }} \
                 persist_struct! {{ [<'r>] Text ['r '__at] [] where [], \
                 id new {text} was [{was}] removed [{removed}] repr transparent {align} {gaps} {{ \
                 {index} text: P<'r, str> as {label} was [{was_part}] since {since} default [] f0 }} }}"
            );
            cell(format!("direct, literal {wrong}: {literal}"), direct);
        }
    }
    check("literals", &cells, 50);
}

/// What can stand where anything is expected.
const TOKENS: &[&str] = &[
    "",
    "return",
    "Self",
    "true",
    "_",
    "{ return }",
    ".await",
    "#[cfg(any())]",
    "same!(a)",
    "leave!()",
    "\"pheap::SharedStr\"",
    "9",
    "-1",
    "1.1",
    "usize",
    "Number",
    "UNIT",
    "FIELD",
    "K",
    "b",
    "r#a",
    "this",
    "'static '__at",
    "'r 'static",
    "> Persist for u64 {} impl <",
    "where u64: Sized",
    "{ } fn other()",
    "own",
    "transparent",
    "P<'static, u64>",
    "P<'_, u64>",
    "same!(u64)",
    "String",
    "same!(u64) as \"a\" was [] since 1 default [] f0 1 b",
];

/// Returns the template with each of its `«..»` replaced by each token in turn, while the others keep their
/// text.
fn each_replaced(template: &str) -> Vec<(String, String)> {
    let parts: Vec<&str> = template.split(['«', '»']).collect();
    let each = (1..parts.len()).step_by(2).flat_map(|place| TOKENS.iter().map(move |token| (place, token)));
    each.map(|(place, token)| {
        let mut parts = parts.clone();
        let was = std::mem::replace(&mut parts[place], token);
        (format!("`{token}` for `{was}`, place {}", place / 2), parts.concat())
    })
    .collect()
}

fn direct(name: &str, template: &str, run: &str, plain: &str, at_least_run: usize) {
    let cell = |(name, code)| Cell {
        name,
        code: format!("{code} pub fn run() -> String {{ {run} }}"),
        plain: format!("pub fn run() -> String {{ {plain} }}"),
    };
    let cells: Vec<Cell> = each_replaced(template).into_iter().map(cell).collect();
    check(name, &cells, at_least_run);
}

#[test]
fn structs() {
    direct(
        "structs",
        "#[repr(C)] pub struct T<'r> { a: u64, b: Option<P<'r, u64>> } \
         persist_struct! { [«<'r>»] «T» [«'r '__at»] [«»] where [«»], \
         id «new» «\"T\"» was [«»] removed [«»] repr «C» «1» «3» { \
         «0» «a»: «u64» as «\"a\"» was [«»] since «1» default [«»] «f0» \
         «1» «b»: «Option<P<'r, u64>>» as «\"b\"» was [] since 1 default [] «f1» } }",
        "stored!(T, |p| T { a: 5, b: Some(p) }, |view| T { a, b: Some(p) } => (a, view[*p]))",
        "\"(5, 9) true\".into()",
        25,
    );
}

#[test]
fn enums() {
    direct(
        "enums",
        "#[repr(u8)] pub enum E<'r, X: Persist> { A(u64) = 3, B { b: P<'r, X> } } \
         persist_enum! { [<'r, X: Persist>] «E» [«'r '__at»] [«(type X)»] where [], \
         id new \"E\" was [] removed [] repr «u8» «1» { \
         «A» as \"A\" was [] since 1 removed [] = («3») + «0», «2» { \
         0 «0»: «u64» as \"0\" was [] since 1 default [] «f0» } \
         «B» as \"B\" was [] since 1 removed [] = (3) + «1», 2 { \
         0 «b»: «P<'r, X>» as \"b\" was [] since 1 default [] «f1» } } }",
        "stored!(E<'static, u64>, |p| E::B { b: p }, |view| E::B { b } => view[*b])",
        "\"9 true\".into()",
        15,
    );
}

#[test]
fn keys() {
    let key = "#[derive(Persist, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)] #[repr(C)] pub struct K(u64); \
               impl<'r> HashKey<'r> for K { \
               fn hash(query: &K, hasher: &mut KeyHasher) { hasher.write(&query.0.to_le_bytes()); } } \
               impl<'r> OrdKey<'r> for K {}";
    let run = "let heap = Heap::in_memory().unwrap(); \
               let map: Root<PBTreeMap<K, u64>> = heap.root(\"x\").unwrap(); \
               map.txn(|tx, map| map.insert(tx, K(1), 2).map(drop)).unwrap(); \
               format!(\"{:?}\", map.read(|view, map| view[map].get(view, K(1)).copied()).unwrap())";
    let plain = "\"Some(2)\".into()";
    direct("keys", &format!("{key} persist_key! {{ «K» }}"), run, plain, 1);
    let by_value = "unsafe impl<'r> pheap::collections::MapKey<'r> for K { type Query = Self; \
                    fn query<'v>(&'v self, _: &'v View<'r>) -> &'v Self { self } \
                    fn from_query(_: &Txn<'r>, query: &Self) -> pheap::Result<Self> { Ok(*query) } }";
    let template = format!("{key} {by_value} pheap::__key_by_value! {{ [«»] «K» }}");
    direct("keys_by_value", &template, run, plain, 1);
}

/// What stands for a type that did not compile has no description.
#[test]
fn nothing() {
    direct(
        "nothing",
        "#[repr(C)] pub struct T<'r> { a: u64, b: Option<P<'r, u64>> } \
         persist_nothing! { [«<'r>»] «T» [«'r '__at»] [«»] where [«»] }",
        "stored!(T, |p| T { a: 5, b: Some(p) }, |view| T { a, b: Some(p) } => (a, view[*p]))",
        "unreachable!()",
        0,
    );
}

/// Each would be a value of a type that it is not of, or an `unsafe` block of the program's own.
#[test]
fn forgeries() {
    let number = |name: &str| format!("0 0: u64 as \"0\" was [] since 1 default [] {name}");
    let (first, second) = (number("f0"), number("f1"));
    let swapped = format!(
        "#[repr(u64)] pub enum E<'r> {{ A(u64), B(P<'r, u64>) }} \
         pub mod swapped {{ pub use super::E::{{A as B, B as A}}; }} use swapped as Swapped; \
         persist_enum! {{ [<'r>] Swapped ['r '__at] [] where [], \
         id new \"E\" was [] removed [] repr u64 1 {{ \
         A as \"A\" was [] since 1 removed [] = (0) + 0, 2 {{ \
         0 0: P<'r, u64> as \"0\" was [] since 1 default [] f0 }} \
         B as \"B\" was [] since 1 removed [] = (0) + 1, 2 {{ {second} }} }} }}"
    );
    let short_tag = format!(
        "#[repr(C)] pub enum E {{ A(u64), B(u64) }} \
         persist_enum! {{ [] E [] [] where [], id new \"E\" was [] removed [] repr u64 1 {{ \
         A as \"A\" was [] since 1 removed [] = (0) + 0, 2 {{ {first} }} \
         B as \"B\" was [] since 1 removed [] = (0) + 1, 2 {{ {second} }} }} }}"
    );
    let padded_tag = "#[repr(align(8))] pub enum E { A, B } \
         persist_enum! { [] E [] [] where [], id new \"E\" was [] removed [] repr u64 1 { \
         A as \"A\" was [] since 1 removed [] = (0) + 0, 1 {} \
         B as \"B\" was [] since 1 removed [] = (0) + 1, 1 {} } }";
    // The compiler takes all values from 0 to the largest one for the tag's, so none is left for a `None`.
    let full_tag = "#[repr(align(8))] pub enum E { A, B = 255 } \
         persist_enum! { [] E [] [] where [], id new \"E\" was [] removed [] repr u64 8 { \
         A as \"A\" was [] since 1 removed [] = (0) + 0, 1 {} \
         B as \"B\" was [] since 1 removed [] = (255) + 0, 1 {} } }";
    let full_tag_of_two = full_tag.replace("255", "65535");
    let tag_of_two = "#[repr(align(2))] pub enum E { A, B = 255 } \
         persist_enum! { [] E [] [] where [], id new \"E\" was [] removed [] repr u16 2 { \
         A as \"A\" was [] since 1 removed [] = (0) + 0, 1 {} \
         B as \"B\" was [] since 1 removed [] = (255) + 0, 1 {} } }";
    let nothing = "#[derive(Clone, Copy)] pub struct E(u64); persist_nothing! { [] E [] [] where [] }";
    let another_at_each_brand = "pub trait Of { type Out; } \
         impl Of for u8 { type Out = (); } impl Of for u16 { type Out = (); } \
         #[repr(C)] pub struct S<X: Of>(u64, X::Out); type E = S<u8>; \
         persist_struct! { [<'x>] S [] [(type u8)] where [], id new \"A\" was [] removed [] repr C 1 3 { \
         0 0: u64 as \"x\" was [] since 1 default [] f0 1 1: () as \"y\" was [] since 1 default [] f1 } } \
         persist_struct! { [<'x>] S [] [(type u16)] where [], id new \"B\" was [] removed [] repr C 1 3 { \
         0 0: u64 as \"y\" was [] since 1 default [] f0 1 1: () as \"x\" was [] since 1 default [] f1 } } \
         fn take(root: &Root<S<u8>>) { root.txn(|tx, root| Ok(tx[root] = S::<u16>(1, ()))).unwrap() }";
    let own_body = "pub struct E(String); persist_nothing! { [] E [] [] where [{ \
         type At<'x> = E; const PADDED: bool = false; const POINTERS: bool = false; \
         fn desc() -> &'static Desc { <u64 as Persist>::desc() } unsafe fn zero_padding(_: *mut E) {} \
         } #[cfg(any())] fn other()] }";
    let own_address = "pub struct E(u64); impl E { fn zero(base: *mut u8) { \
         pheap::__persist_zero!(C base, 0, 2, [Slot::of::<u64>(8)], 0 u64); } }";
    let forgeries = [
        (&*swapped, "expected type, found module"),
        (&*short_tag, "memory is uninitialized at [0x4..0x8]"),
        (padded_tag, "memory is uninitialized at [0x1..0x8]"),
        (full_tag, "cannot check that the tag of this enum has 8 bytes"),
        (&*full_tag_of_two, "cannot check that the tag of this enum has 8 bytes"),
        (tag_of_two, "is not laid out as"),
        (nothing, "this type did not compile"),
        (another_at_each_brand, "mismatched types"),
        (own_body, "no rules expected"),
        (own_address, "cannot find `__persist_zero`"),
    ];
    let cell = |(code, why): &(&str, &str)| Cell {
        name: (*why).to_owned(),
        code: format!("{code} pub fn run() -> String {{ <E as Persist>::desc(); String::new() }}"),
        plain: "pub fn run() -> String { String::new() }".to_owned(),
    };
    let cells: Vec<Cell> = forgeries.iter().map(cell).collect();
    let cells: Vec<&Cell> = cells.iter().collect();
    for (cell, (code, _)) in cells.iter().zip(outcomes("persist_forgeries", PRELUDE, &cells)) {
        assert!(
            matches!(&code, Outcome::Refused(why) if why.contains(&cell.name)),
            "{}: {code:?}",
            cell.code
        );
    }
}

/// A macro that is the type of a field, or a tag, may expand to another one at each place.
#[test]
fn expansions() {
    let mut cells = Vec::new();
    let types = [
        ("P<'r, u64>", "u64", "5"),
        ("u8", "u64", "5"),
        ("String", "u64", "5"),
        ("u64", "String", "String::new()"),
    ];
    for n in 0..20 {
        let mut cell = |name: String, code: String, plain: &str| {
            let code = code.replace("NTH", &format!("pheap_test_macros::nth!(c{} {n}", cells.len()));
            let plain = format!("pub fn run() -> String {{ {plain}.into() }}");
            cells.push(Cell { name: format!("{name}, place {n}"), code, plain });
        };
        for (lie, ty, value) in types {
            cell(
                format!("{lie} for a {ty} of a struct"),
                format!(
                    "#[derive(Persist)] #[repr(C)] \
                     pub struct T<'r> {{ a: NTH {{{lie}}} {{{ty}}}), b: Option<P<'r, u64>> }} \
                     pub fn run() -> String {{ \
                     let Kind::Struct {{ fields }} = &T::desc().kind else {{ panic!() }}; \
                     let ty = (fields[0].ty)().name.as_str(); format!(\"{{ty}} {{}}\", \
                     stored!(T, |p| T {{ a: {value}, b: Some(p) }}, |view| T {{ a, b }} => (a, view[b.unwrap()]))) }}"
                ),
                "\"u64 (5, 9) true\"",
            );
            cell(
                format!("{lie} for a {ty} of an enum"),
                format!(
                    "#[derive(Persist)] #[repr(u8)] \
                     pub enum T<'r> {{ A(NTH {{{lie}}} {{{ty}}})), B(P<'r, u64>) }} \
                     pub fn run() -> String {{ \
                     let Kind::Enum {{ variants, .. }} = &T::desc().kind else {{ panic!() }}; \
                     let ty = (variants[0].fields[0].ty)().name.as_str(); format!(\"{{ty}} {{}}\", \
                     stored!(T, |_p| T::A({value}), |view| T::A(a) => a)) }}"
                ),
                "\"u64 5 true\"",
            );
        }
        cell(
            "a tag".to_owned(),
            "#[derive(Persist)] #[repr(u8)] pub enum T { A = NTH {4} {3}), B = 9 } \
             pub fn run() -> String { let Kind::Enum { variants, .. } = &T::desc().kind else { panic!() }; \
             format!(\"{} {}\", variants[0].tag, stored!(T, |_p| T::A, |view| T::A => T::A as u8)) }"
                .to_owned(),
            "\"3 3 true\"",
        );
        // Where `NotDeref` is for less than `Persist`, a `Deref` is no conflict.
        cell(
            "a clause".to_owned(),
            "pub trait Mark {} impl Mark for u64 {} #[derive(Persist)] #[repr(C)] \
             pub struct T<X>(X) where NTH {Option<X>} {u64}): Mark; \
             impl<X: Mark> std::ops::Deref for T<X> { type Target = X; fn deref(&self) -> &X { &self.0 } } \
             pub fn run() -> String { stored!(T<u64>, |_p| T(5), |view| t => t.0) }"
                .to_owned(),
            "\"refused\"",
        );
    }
    check("expansions", &cells, 20);
}

/// What the macros write means the same in each scope.
#[test]
fn scopes() {
    let items = [
        "const __field0: u64 = 0;",
        "pub struct __field0;",
        "static __field0: u64 = 0;",
        "const value: u64 = 0; const place: *mut u8 = std::ptr::null_mut();",
        "const this: () = (); const found: () = (); const tag: u8 = 0;",
        "pub struct this; pub struct found; pub struct base; pub struct place;",
        "fn found() {} fn put() {} fn part_name() {}",
        "pub mod core {} pub mod std {}",
        "pub struct Slot; pub struct Desc; pub struct FieldOf; pub struct Some; pub struct Option;",
        "pub trait NotAField { const PADDED: bool = false; const POINTERS: bool = true; } \
         impl<X> NotAField for X {}",
        "pub trait Own { const POINTERS: bool = false; const PADDED: bool = true; \
         fn put(_: *mut u8, _: u64) {} } impl<X> Own for FieldOf<X> {}",
        "pub trait Is: Sized { fn is<X>(self, _: X) {} } impl<X> Is for X {}",
        "pub trait Cast: Sized { fn cast<X>(self) -> *mut X { std::ptr::null_mut() } } \
         impl<X> Cast for *mut X {}",
        "pub trait AsPtr: Sized { fn as_ptr(self) -> *const u64 { &7 } \
         fn as_mut_ptr(self) -> *mut u64 { panic!() } } \
         impl<X> AsPtr for std::mem::MaybeUninit<X> {}",
        "pub trait Add { fn wrapping_add<X>(&self, _: X) -> Self; } \
         impl<X> Add for X { fn wrapping_add<Y>(&self, _: Y) -> X { panic!() } }",
        "macro_rules! assert { ($($x:tt)*) => { panic!() }; } \
         macro_rules! offset_of { ($($x:tt)*) => { 0 }; }",
        "macro_rules! concat { ($($x:tt)*) => { 0 }; } macro_rules! persist_struct { ($($x:tt)*) => {}; }",
        "type bool = (); type usize = (); type i128 = ();",
        "use pheap::*;",
        "use pheap::collections::*;",
    ];
    let types = [
        (
            "#[derive(Persist)] #[persist(id = \"T\")] #[repr(C)] pub struct T<'r> { a: u64, \
          #[persist(since = 2, default = 8)] b: u64, \
          #[persist(since = 2, default = None)] c: Option<P<'r, u64>> } \
          pub fn run() -> String { evolved!(T, |t| (t.a, t.b, t.c)) }",
            "(7, 8, None) true",
        ),
        (
            "#[derive(Persist)] #[repr(C)] pub struct T<'r, X> { a: X, b: u64, c: P<'r, u64> } \
          pub fn run() -> String { \
          stored!(T<'static, u16>, |p| T { a: 5, b: 6, c: p }, |view| T { a, b, c } => (a, b, view[*c])) }",
            "(5, 6, 9) true",
        ),
        (
            "#[derive(Persist)] #[repr(u16)] pub enum T<'r> { A(u8, u64) = 3, B { b: P<'r, u64> } } \
          pub fn run() -> String { stored!(T, |p| T::B { b: p }, |view| T::B { b } => view[*b]) }",
            "9 true",
        ),
        (
            "#[derive(Persist, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)] #[persist(key)] #[repr(u8)] \
          pub enum T { A = 3, B(u64) } pub fn run() -> String { let heap = Heap::in_memory().unwrap(); \
          let map: Root<PBTreeMap<T, u64>> = heap.root(\"x\").unwrap(); \
          map.txn(|tx, map| map.insert(tx, T::B(1), 2).map(drop)).unwrap(); \
          format!(\"{:?}\", map.read(|view, map| view[map].get(view, T::B(1)).copied()).unwrap()) }",
            "Some(2)",
        ),
    ];
    let cell = |item: &&str| {
        types.map(|(ty, shown)| Cell {
            name: format!("{item} before {ty}"),
            code: format!("{item} {ty}"),
            plain: format!("pub fn run() -> String {{ {shown:?}.into() }}"),
        })
    };
    check("scopes", &items.iter().flat_map(cell).collect::<Vec<_>>(), 50);
}
