//! Generates a program of many small functions that change records, for each of the compared sides.
//!
//! The functions of all sides do the same, and the programs print the same number.

use std::fmt::Write as _;

/// A variant of the program.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Side {
    /// On a persistent heap, each function with `#[txn]`.
    Annotated,
    /// The same without the attribute.
    Plain,
    /// With `&mut` and `Box`, without pheap.
    Volatile,
}

/// Returns the program, with this number of functions over this number of record types.
pub(super) fn program(side: Side, functions: usize, records: usize) -> String {
    let mut out = String::new();
    let volatile = side == Side::Volatile;
    out.push_str(if volatile { VOLATILE_HEAD } else { HEAD });
    if side == Side::Annotated {
        out.push_str("use pheap::txn;\n");
    }
    for record in 0..records {
        out.push_str(&if volatile { volatile_record(record) } else { persistent_record(record) });
        let (first, end) = (record * functions / records, (record + 1) * functions / records);
        for i in first..end {
            out.push_str(&function(side, i, record, i == first));
        }
        out.push_str(&run_all(volatile, record, first..end));
    }
    out.push_str(&main(volatile, records));
    out
}

const HEAD: &str = "\
use pheap::{Heap, P, Persist, Result, Root, Txn};

#[derive(Clone, Copy, Default, Persist)]
#[repr(C)]
pub struct Place { x: u64, y: u64 }

#[derive(Persist)]
#[repr(C)]
pub struct Node<'r> { value: u64, next: Option<P<'r, Node<'r>>> }

";

const VOLATILE_HEAD: &str = "\
#[derive(Clone, Copy, Default)]
pub struct Place { x: u64, y: u64 }

pub struct Node { value: u64, next: Option<Box<Node>> }

";

fn persistent_record(record: usize) -> String {
    format!(
        "
#[derive(Persist)]
#[repr(C)]
pub struct Record{record}<'r> {{
    a{record}: u64, b{record}: u64, count: u64, open: bool, ratio: f64, place: Place, items: [u64; 8],
    first: Option<P<'r, Node<'r>>>, values: P<'r, [u64]>,
}}

impl<'r> Record{record}<'r> {{
    fn new(tx: &mut Txn<'r>) -> Result<P<'r, Self>> {{
        let values = tx.alloc_slice(10, |i| i as u64)?;
        tx.alloc(Record{record} {{
            a{record}: 1, b{record}: 2, count: 0, open: false, ratio: 0.5, place: Place::default(), items: [0; 8],
            first: None, values,
        }})
    }}
}}
"
    )
}

fn volatile_record(record: usize) -> String {
    format!(
        "
pub struct Record{record} {{
    a{record}: u64, b{record}: u64, count: u64, open: bool, ratio: f64, place: Place, items: [u64; 8],
    first: Option<Box<Node>>, values: Box<[u64]>,
}}

impl Record{record} {{
    fn new() -> Box<Self> {{
        let values = (0..10).collect();
        Box::new(Record{record} {{
            a{record}: 1, b{record}: 2, count: 0, open: false, ratio: 0.5, place: Place::default(), items: [0; 8],
            first: None, values,
        }})
    }}
}}
"
    )
}

/// Bodies of functions, on a heap and with `&mut`. `A` and `B` are fields, `I` is a number that differs from
/// function to function, and `CALL` calls the previous function, or is `x` in the first one of a record.
const BODIES: [(&str, &str); 8] = [
    (
        "tx[s].A = tx[s].A.wrapping_add(x);
    tx[s].B ^= tx[s].A;
    Ok(tx[s].B)",
        "s.A = s.A.wrapping_add(x);
    s.B ^= s.A;
    s.B",
    ),
    (
        "let (a, b) = (tx[s].A, tx[s].B);
    tx[s].A = b;
    tx[s].B = a.rotate_left(I % 64);
    tx[s].place.x = x;
    tx[s].place.y = a;
    Ok(a ^ b)",
        "let (a, b) = (s.A, s.B);
    s.A = b;
    s.B = a.rotate_left(I % 64);
    s.place.x = x;
    s.place.y = a;
    a ^ b",
    ),
    (
        "let mut sum = 0u64;
    for i in 0..8 {
        tx[s].items[i] = tx[s].items[i].wrapping_add(x ^ i as u64);
        sum = sum.wrapping_add(tx[s].items[i]);
    }
    tx[s].A = sum;
    Ok(sum)",
        "let mut sum = 0u64;
    for i in 0..8 {
        s.items[i] = s.items[i].wrapping_add(x ^ i as u64);
        sum = sum.wrapping_add(s.items[i]);
    }
    s.A = sum;
    sum",
    ),
    (
        "if tx[s].A % 3 == x % 3 {
        tx[s].count += I;
        tx[s].open = !tx[s].open;
    } else {
        tx[s].B = tx[s].B.wrapping_mul(I);
    }
    Ok(u64::from(tx[s].open) ^ tx[s].B)",
        "if s.A % 3 == x % 3 {
        s.count += I;
        s.open = !s.open;
    } else {
        s.B = s.B.wrapping_mul(I);
    }
    u64::from(s.open) ^ s.B",
    ),
    (
        "let mut sum = 0;
    let mut next = tx[s].first;
    while let Some(node) = next {
        tx[node].value = tx[node].value.wrapping_add(x);
        sum ^= tx[node].value;
        next = tx[node].next;
    }
    tx[s].B = sum;
    Ok(sum)",
        "let mut sum = 0;
    let mut next = s.first.as_deref_mut();
    while let Some(node) = next {
        node.value = node.value.wrapping_add(x);
        sum ^= node.value;
        next = node.next.as_deref_mut();
    }
    s.B = sum;
    sum",
    ),
    (
        "let values = tx[s].values;
    for i in 1..tx[values].len() {
        tx[values][i] = tx[values][i].wrapping_add(tx[values][i - 1] ^ x);
    }
    Ok(tx[values][(x % 10) as usize])",
        "for i in 1..s.values.len() {
        s.values[i] = s.values[i].wrapping_add(s.values[i - 1] ^ x);
    }
    s.values[(x % 10) as usize]",
    ),
    (
        "let node = tx.alloc(Node { value: x, next: tx[s].first })?;
    tx[s].first = Some(node);
    tx[s].count += 1;
    Ok(tx[s].count)",
        "let node = Box::new(Node { value: x, next: s.first.take() });
    s.first = Some(node);
    s.count += 1;
    s.count",
    ),
    (
        "let y = CALL;
    tx[s].ratio = tx[s].ratio * 0.5 + (y % I) as f64;
    tx[s].place.x = tx[s].place.x.max(y);
    tx[s].items[(x % 8) as usize] = y;
    Ok(y ^ tx[s].ratio.to_bits())",
        "let y = CALL;
    s.ratio = s.ratio * 0.5 + (y % I) as f64;
    s.place.x = s.place.x.max(y);
    s.items[(x % 8) as usize] = y;
    y ^ s.ratio.to_bits()",
    ),
];

fn function(side: Side, i: usize, record: usize, first: bool) -> String {
    let (heap, volatile) = BODIES[i % BODIES.len()];
    let call = |on_heap: &str| if first { "x".to_owned() } else { format!("change{}({on_heap}, x)", i - 1) };
    let (body, call) = match side {
        Side::Volatile => (volatile, call("s")),
        _ if first => (heap, call("")),
        _ => (heap, format!("{}?", call("tx, s"))),
    };
    let body = body
        .replace(".A", &format!(".a{record}"))
        .replace(".B", &format!(".b{record}"))
        .replace("I)", &format!("{})", i + 2))
        .replace("+= I", &format!("+= {}", i + 2))
        .replace("I %", &format!("{} %", i + 2))
        .replace("CALL", &call);
    let attribute = if side == Side::Annotated { "#[txn]\n" } else { "" };
    match side {
        Side::Volatile => {
            format!("\npub fn change{i}(s: &mut Record{record}, x: u64) -> u64 {{\n    {body}\n}}\n")
        }
        _ => format!(
            "\n{attribute}pub fn change{i}<'r>(tx: &mut Txn<'r>, s: P<'r, Record{record}<'r>>, x: u64) -> Result<u64> {{\n    {body}\n}}\n"
        ),
    }
}

/// Returns a function that calls all functions of a record.
fn run_all(volatile: bool, record: usize, functions: std::ops::Range<usize>) -> String {
    let mut out = if volatile {
        format!("\nfn run{record}(mut x: u64) -> u64 {{\n    let s = &mut *Record{record}::new();\n")
    } else {
        format!(
            "\nfn run{record}(tx: &mut Txn<'_>, mut x: u64) -> Result<u64> {{\n    let s = Record{record}::new(tx)?;\n"
        )
    };
    for i in functions {
        let call = if volatile { format!("change{i}(s, x)") } else { format!("change{i}(tx, s, x)?") };
        let _ = writeln!(out, "    x = x.wrapping_mul(31).wrapping_add({call});");
    }
    out.push_str(if volatile { "    x\n}\n" } else { "    Ok(x)\n}\n" });
    out
}

fn main(volatile: bool, records: usize) -> String {
    let mut calls = String::new();
    for record in 0..records {
        let call = if volatile { format!("run{record}(x)") } else { format!("run{record}(tx, x)?") };
        let _ = writeln!(calls, "        x = {call};");
    }
    if volatile {
        format!("\nfn main() {{\n    let mut x = 1;\n    {{\n{calls}    }}\n    println!(\"{{x}}\");\n}}\n")
    } else {
        format!(
            "
fn main() -> Result<()> {{
    let root: Root<u64> = Heap::in_memory()?.root(\"number\")?;
    let x = root.txn(|tx, _| {{
        let mut x = 1;
{calls}        Ok(x)
    }})?;
    println!(\"{{x}}\");
    Ok(())
}}
"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sides_differ_in_the_attribute_only() {
        let [annotated, plain, volatile] =
            [Side::Annotated, Side::Plain, Side::Volatile].map(|side| program(side, 40, 2));
        assert_eq!(annotated.matches("#[txn]").count(), 40);
        assert_eq!(annotated.replace("#[txn]\n", "").replace("use pheap::txn;\n", ""), plain);
        assert_eq!(volatile.matches("pub fn change").count(), 40);
        assert!(!volatile.contains("pheap") && !volatile.contains("tx"));
        assert!([&annotated, &volatile].iter().all(|text| !text.contains("CALL") && !text.contains(".A")));
    }
}
