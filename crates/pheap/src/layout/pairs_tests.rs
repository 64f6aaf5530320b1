//! Tests with generated types: pairs that differ in one place, and pairs that do not.
//!
//! A [`World`] is a program's types as a plain value, laid out here by separate code. A world is turned into
//! descriptions like those of the derive: each type once, or several times. The tests compare, hash, encode
//! and decode the descriptions.

use std::cell::RefCell;
use std::mem::replace;
use std::sync::Mutex;

use proptest::prelude::*;

use super::desc::{Desc, DescFn, Field, History, Kind, Name, Prim, Variant};
use super::{Graph, TypeLayout, check_layout, decode, difference, encode, fingerprints};

/// A sized type.
#[derive(Debug, Clone)]
enum Ty {
    Prim(Prim),
    Array(Box<Ty>, usize),
    Slot(Box<Ty>),
    Ptr(bool, Box<Target>),
    /// A struct or enum of the world, by number.
    Named(usize),
}

#[derive(Debug, Clone)]
enum Target {
    Ty(Ty),
    Slice(Ty),
    Str,
}

type Parts = Vec<(String, Ty)>;

#[derive(Debug, Clone)]
struct Def {
    id: String,
    args: Vec<Ty>,
    /// The number in `align(..)`, or 1.
    align: usize,
    /// Type of the tag of an enum.
    tag: Option<Prim>,
    /// Name, tag and fields of each variant. A struct has one variant, without a name.
    variants: Vec<(String, i128, Parts)>,
}

/// The types of a program. Each type holds only earlier types by value.
#[derive(Debug, Clone)]
pub(crate) struct World {
    defs: Vec<Def>,
    root: Ty,
}

pub(crate) struct Rng(u64);

impl Rng {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// The types that the tag of an enum can have.
const TAGS: &[Prim] = Prim::ALL.split_at(10).0;
const IDS: [&str; 6] = ["Node", "Pair", "shop.order", "größe", "P", "Slot"];
const FIELDS: [&str; 6] = ["0", "1", "next", "type", "año", "n"];

impl World {
    fn any(random: &mut Rng) -> World {
        let count = 1 + random.below(5);
        let mut world = World { defs: Vec::new(), root: Ty::Prim(Prim::Unit) };
        for i in 0..count {
            let is_struct = random.one_in(2);
            // Arguments hold only earlier types, so names are finite.
            let args = (0..random.below(4) / 2).map(|_| world.ty(random, i, i, 2)).collect();
            let variants = if is_struct { 1 } else { 1 + random.below(3) };
            let mut variant = |tag: usize| {
                let parts =
                    (0..random.below(4)).map(|at| (FIELDS[at].to_owned(), world.ty(random, i, count, 3)));
                (if is_struct { "" } else { ["A", "B", "C"][tag] }.to_owned(), tag as i128, parts.collect())
            };
            let variants = (0..variants).map(&mut variant).collect();
            let tag = (!is_struct).then(|| TAGS[random.below(TAGS.len())]);
            let align = if random.one_in(3) { 1 << random.below(7) } else { 1 };
            let id = IDS[random.below(IDS.len())].to_owned();
            world.defs.push(Def { id, args, align, tag, variants });
        }
        world.root = if random.one_in(4) { world.ty(random, count, count, 3) } else { Ty::Named(count - 1) };
        world
    }

    /// Returns a type that may hold some of the first `own` types of the world by value, and may point to
    /// any of the first `all`.
    fn ty(&self, random: &mut Rng, own: usize, all: usize, depth: usize) -> Ty {
        let inner = |random: &mut Rng| Box::new(self.ty(random, own, all, depth - 1));
        match random.below(8) {
            0 if depth > 0 => Ty::Array(inner(random), random.below(4)),
            1 if depth > 0 && random.one_in(3) => Ty::Slot(inner(random)),
            2..=4 => {
                let to = match random.below(4) {
                    0 if depth > 0 => Target::Slice(*inner(random)),
                    1 if depth > 0 => Target::Ty(*inner(random)),
                    2 if random.one_in(3) => Target::Str,
                    _ if all == 0 => Target::Slice(Ty::Prim(Prim::U8)),
                    _ => Target::Ty(Ty::Named(random.below(all))),
                };
                Ty::Ptr(random.one_in(2), Box::new(to))
            }
            5 | 6 if own > 0 => Ty::Named(random.below(own)),
            _ => Ty::Prim(Prim::ALL[random.below(Prim::ALL.len())]),
        }
    }

    /// Returns the size and alignment of a type.
    fn layout(&self, ty: &Ty) -> (usize, usize) {
        match ty {
            Ty::Prim(prim) => match prim.name() {
                "()" => (0, 1),
                "bool" => (1, 1),
                "char" => (4, 4),
                number => {
                    let bytes = number[1..].parse::<usize>().unwrap() / 8;
                    (bytes, bytes)
                }
            },
            Ty::Array(elem, len) => {
                let (size, align) = self.layout(elem);
                (size * len, align)
            }
            Ty::Slot(of) => self.layout(of),
            Ty::Ptr(..) => (8, 8),
            Ty::Named(i) => {
                let variants = self.defs[*i].variants.iter();
                let (sizes, aligns): (Vec<_>, Vec<_>) =
                    variants.map(|(_, _, parts)| self.lay_out(&self.defs[*i], parts).1).unzip();
                let align = *aligns.iter().max().unwrap();
                (sizes.into_iter().max().unwrap().next_multiple_of(align), align)
            }
        }
    }

    /// Returns the offsets of the parts of a struct or variant, and its size and alignment.
    fn lay_out(&self, def: &Def, parts: &Parts) -> (Vec<usize>, (usize, usize)) {
        let (mut end, mut align) = def.tag.map_or((0, 1), |tag| self.layout(&Ty::Prim(tag)));
        align = align.max(def.align);
        let mut offsets = Vec::new();
        for (_, ty) in parts {
            let (own_size, own_align) = self.layout(ty);
            while end % own_align != 0 {
                end += 1;
            }
            offsets.push(end);
            end += own_size;
            align = align.max(own_align);
        }
        (offsets, (end, align))
    }

    /// Returns the types of the world that are reachable from the root.
    fn reached(&self) -> Vec<usize> {
        let (mut found, mut todo) = (vec![false; self.defs.len()], vec![self.root.clone()]);
        while let Some(ty) = todo.pop() {
            match ty {
                Ty::Prim(_) => {}
                Ty::Array(of, _) | Ty::Slot(of) => todo.push(*of),
                Ty::Ptr(_, to) => match *to {
                    Target::Ty(ty) | Target::Slice(ty) => todo.push(ty),
                    Target::Str => {}
                },
                Ty::Named(i) if !replace(&mut found[i], true) => {
                    todo.extend(
                        self.defs[i].variants.iter().flat_map(|(_, _, parts)| parts).map(|p| p.1.clone()),
                    );
                }
                Ty::Named(_) => {}
            }
        }
        (0..self.defs.len()).filter(|&i| found[i]).collect()
    }

    /// Calls `visit` with each mention of a type in everything reachable from the root.
    fn visit(&mut self, visit: &mut impl FnMut(&mut Ty)) {
        fn all(ty: &mut Ty, visit: &mut impl FnMut(&mut Ty)) {
            match ty {
                Ty::Array(of, _) | Ty::Slot(of) => all(of, visit),
                Ty::Ptr(_, to) => match &mut **to {
                    Target::Ty(ty) | Target::Slice(ty) => all(ty, visit),
                    Target::Str => {}
                },
                Ty::Prim(_) | Ty::Named(_) => {}
            }
            visit(ty);
        }
        all(&mut self.root, visit);
        for i in self.reached() {
            let Def { args, variants, .. } = &mut self.defs[i];
            args.iter_mut().for_each(|ty| all(ty, visit));
            variants.iter_mut().flat_map(|(_, _, parts)| parts).for_each(|(_, ty)| all(ty, visit));
        }
    }

    /// Changes one thing that is reachable from the root. Returns what was changed.
    fn change(&mut self, random: &mut Rng) -> &'static str {
        loop {
            let reached = self.reached();
            let changed = if reached.is_empty() || random.one_in(2) {
                self.change_type(random)
            } else {
                let i = reached[random.below(reached.len())];
                let align = self.layout(&Ty::Named(i)).1;
                change_def(&mut self.defs[i], align, random)
            };
            if let Some(what) = changed {
                return what;
            }
        }
    }

    /// Changes one mention of a type. Returns what was changed; `None` if nothing was.
    fn change_type(&mut self, random: &mut Rng) -> Option<&'static str> {
        let mut count = 0;
        self.visit(&mut |_| count += 1);
        let chosen = random.below(count);
        let (mut at, mut changed) = (0, None);
        self.visit(&mut |ty| {
            if at == chosen {
                changed = change_ty(ty, random);
            }
            at += 1;
        });
        changed
    }
}

fn change_ty(ty: &mut Ty, random: &mut Rng) -> Option<&'static str> {
    if random.one_in(4) {
        let inner = Box::new(ty.clone());
        *ty = match random.below(3) {
            0 => Ty::Array(inner, 1),
            1 => Ty::Slot(inner),
            _ => Ty::Ptr(random.one_in(2), Box::new(Target::Ty(*inner))),
        };
        return Some("a type around it");
    }
    match ty {
        Ty::Prim(prim) => {
            let other = Prim::ALL[random.below(Prim::ALL.len())];
            return (replace(prim, other) != other).then_some("another number");
        }
        Ty::Array(_, len) => *len += 1,
        Ty::Slot(of) => *ty = (**of).clone(),
        Ty::Ptr(nullable, _) if random.one_in(2) => *nullable = !*nullable,
        Ty::Ptr(_, to) => {
            **to = match &**to {
                Target::Ty(ty) => Target::Slice(ty.clone()),
                Target::Slice(ty) => Target::Ty(ty.clone()),
                Target::Str => Target::Slice(Ty::Prim(Prim::U8)),
            };
        }
        Ty::Named(_) => return None,
    }
    Some("another type of its kind")
}

fn change_def(def: &mut Def, align: usize, random: &mut Rng) -> Option<&'static str> {
    let at = random.below(def.variants.len());
    let is_enum = def.tag.is_some();
    let next = def.variants.iter().map(|v| v.1).max()? + 1;
    let (name, tag, parts) = &mut def.variants[at];
    let field = random.below(parts.len().max(1));
    match random.below(11) {
        0 => def.id.push('x'),
        1 | 2 => def.align = 2 * align,
        3 => def.args.push(Ty::Prim(Prim::U8)),
        4 => parts.get_mut(field)?.0 = "renamed".to_owned(),
        5 if field + 1 < parts.len() => parts.swap(field, field + 1),
        6 => parts.push(("more".to_owned(), Ty::Prim([Prim::Unit, Prim::U8, Prim::F64][random.below(3)]))),
        7 if is_enum => {
            let other = Some(TAGS[random.below(TAGS.len())]);
            return (replace(&mut def.tag, other) != other).then_some("the type of the tag");
        }
        8 if is_enum => *tag = next,
        9 if is_enum => name.push('x'),
        10 if is_enum => def.variants.push(("More".to_owned(), next, Vec::new())),
        _ => return None,
    }
    Some("a struct or enum")
}

/// Number of description functions. A description is found by a function pointer, so each needs a different
/// function.
const POOL: usize = 4096;

thread_local! {
    static DESCS: RefCell<Vec<Option<&'static Desc>>> = const { RefCell::new(Vec::new()) };
}

fn nth<const N: usize>() -> &'static Desc {
    DESCS.with_borrow(|descs| descs[N].expect("the description is made"))
}

macro_rules! functions {
    (4 $n:expr) => { functions!(3 $n; 0 1 2 3 4 5 6 7) };
    (3 $n:expr; $($i:literal)*) => { [$(functions!(2 $n * 8 + $i; 0 1 2 3 4 5 6 7)),*] };
    (2 $n:expr; $($i:literal)*) => { [$(functions!(1 $n * 8 + $i; 0 1 2 3 4 5 6 7)),*] };
    (1 $n:expr; $($i:literal)*) => { [$(functions!(0 $n * 8 + $i; 0 1 2 3 4 5 6 7)),*] };
    (0 $n:expr; $($i:literal)*) => { [$(nth::<{ $n * 8 + $i }> as DescFn),*] };
}
static FUNCTIONS: [[[[DescFn; 8]; 8]; 8]; 8] = functions!(4 0);

/// Makes descriptions of the types of a world, like those in a program.
struct Program<'w> {
    world: &'w World,
    /// Descriptions of the world's types, perhaps several of each.
    named: Vec<Vec<DescFn>>,
    copies: usize,
    random: Rng,
}

/// Keeps pointers to leaked values: without a pointer, sanitizers report a leak.
static KEPT: Mutex<Vec<usize>> = Mutex::new(Vec::new());

fn keep<T: ?Sized>(leaked: &'static T) -> &'static T {
    // SURVIVES unreached: only tests call this function.
    KEPT.lock().unwrap().push(std::ptr::from_ref(leaked).cast::<()>().expose_provenance());
    leaked
}

fn kept(name: &str) -> &'static str {
    keep(name.to_owned().leak())
}

impl Program<'_> {
    fn new_place() -> (usize, DescFn) {
        let n = DESCS.with_borrow_mut(|descs| {
            descs.push(None);
            descs.len() - 1
        });
        assert!(n < POOL, "more descriptions than functions");
        (n, FUNCTIONS[n / 512][n / 64 % 8][n / 8 % 8][n % 8])
    }

    fn set(n: usize, name: Name, args: &'static [DescFn], (size, align): (usize, usize), kind: Kind) {
        let desc = keep(Box::leak(Box::new(Desc { name, history: History::NONE, args, size, align, kind })));
        DESCS.with_borrow_mut(|descs| descs[n] = Some(desc));
    }

    /// Makes the description of a type without type arguments.
    fn plain(name: &'static str, layout: (usize, usize), kind: Kind) -> DescFn {
        let (n, function) = Self::new_place();
        Self::set(n, Name::own(name), &[], layout, kind);
        function
    }

    fn ty(&mut self, ty: &Ty) -> DescFn {
        let (name, kind) = match ty {
            Ty::Prim(prim) => (prim.name(), Kind::Prim(*prim)),
            Ty::Array(elem, len) => ("[;]", Kind::Array { elem: self.ty(elem), len: *len }),
            Ty::Slot(of) => ("pheap::Slot", Kind::Slot { of: self.ty(of) }),
            Ty::Ptr(nullable, to) => ("P", Kind::Ptr { nullable: *nullable, to: self.target(to) }),
            Ty::Named(i) => return self.named(*i),
        };
        Self::plain(name, self.world.layout(ty), kind)
    }

    fn target(&mut self, target: &Target) -> DescFn {
        match target {
            Target::Ty(ty) => self.ty(ty),
            Target::Slice(of) => {
                let elem = self.ty(of);
                Self::plain("[]", (0, self.world.layout(of).1), Kind::Slice { elem })
            }
            Target::Str => Self::plain("str", (0, 1), Kind::Str),
        }
    }

    fn named(&mut self, i: usize) -> DescFn {
        let copy = self.random.below(self.copies);
        if let Some(function) = self.named[i].get(copy) {
            return *function;
        }
        let (n, function) = Self::new_place();
        self.named[i].push(function);
        let def = &self.world.defs[i];
        let args: Vec<_> = def.args.iter().map(|arg| self.ty(arg)).collect();
        let mut variants = Vec::new();
        for (name, tag, parts) in &def.variants {
            let offsets = self.world.lay_out(def, parts).0;
            let field = |((name, ty), offset): (&(String, Ty), usize)| Field {
                name: kept(name),
                offset,
                ty: self.ty(ty),
                history: History::NONE,
            };
            let fields: Vec<_> = parts.iter().zip(offsets).map(field).collect();
            variants.push(Variant {
                name: kept(name),
                tag: *tag,
                fields: keep(fields.leak()),
                history: History::NONE,
            });
        }
        let kind = match def.tag {
            Some(tag) => Kind::Enum { tag, variants: keep(variants.leak()) },
            None => Kind::Struct { fields: variants[0].fields },
        };
        let layout = self.world.layout(&Ty::Named(i));
        Self::set(n, Name::new(kept(&def.id)), keep(args.leak()), layout, kind);
        function
    }
}

/// Returns two worlds that differ in one thing, and what that is.
pub(crate) fn pair(seed: u64) -> (World, World, &'static str) {
    DESCS.with_borrow_mut(Vec::clear);
    let mut random = Rng(seed);
    let world = World::any(&mut random);
    let mut other = world.clone();
    let what = other.change(&mut random);
    (world, other, what)
}

/// Returns a description of the root, as in a program that describes each struct or enum up to `copies`
/// times.
pub(crate) fn describe_root(world: &World, copies: usize) -> &'static Desc {
    let named = vec![Vec::new(); world.defs.len()];
    let mut program = Program { world, named, copies, random: Rng(copies as u64) };
    program.ty(&world.root)()
}

fn graph(world: &World, copies: usize) -> Vec<TypeLayout> {
    Graph::from_root(describe_root(world, copies)).unwrap().types
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn types_are_the_same_if_and_only_if_nothing_differs(seed in any::<u64>()) {
        let (world, changed, what) = pair(seed);
        let (one, again, twice, other) =
            (graph(&world, 1), graph(&world, 1), graph(&world, 3), graph(&changed, 1));
        for same in [&again, &twice] {
            prop_assert_eq!(difference((&one, 0), (same, 0)), None);
            prop_assert_eq!(difference((same, 0), (&one, 0)), None);
            prop_assert_eq!(fingerprints(&one)[0], fingerprints(same)[0]);
        }
        for (stored, program) in [(&one, &other), (&other, &one), (&twice, &other), (&other, &twice)] {
            let text = difference((stored, 0), (program, 0));
            prop_assert!(text.is_some(), "not noticed: {}, in {:#?}", what, world);
            // The last line shows the difference, and its two sides are not equal.
            let text = text.unwrap();
            let last = text.lines().last().unwrap();
            if let Some((stored, program)) = last.split_once(" in the heap, ") {
                let stored = stored.rsplit_once(": ").map_or(stored, |(_, stored)| stored);
                prop_assert!(!program.starts_with(&format!("{stored} in the program")), "{}", text);
            }
        }
    }

    #[test]
    fn what_is_written_is_read(seed in any::<u64>()) {
        let (world, changed, _) = pair(seed);
        for types in [graph(&world, 2), graph(&changed, 1)] {
            for ty in &types {
                prop_assert_eq!(check_layout(ty, &|to| Some(&types[to as usize].name)), Ok(()));
                let mut bytes = Vec::new();
                encode(ty, &mut bytes);
                let mut rest = bytes.as_slice();
                prop_assert_eq!(&decode(&mut rest).unwrap(), ty);
                prop_assert!(rest.is_empty());
            }
        }
    }
}
