use std::collections::BTreeSet;
use std::marker::PhantomData;

use proptest::prelude::*;

use super::*;
use crate::layout::desc::Desc;
use crate::layout::desc::Prim;
use crate::layout::encode::tests::any_layout;
use crate::layout::graph::{Graph, VariantLayout};
use crate::{P, Persist, Pointee};

impl<'a> Words<'a> {
    fn of(words: &'a [u64]) -> Words<'a> {
        Words { start: words.as_ptr(), len: words.len(), readable: PhantomData }
    }
}

impl PointerMap {
    /// Returns the words that are visited of an object with this content, or of several such objects.
    fn visited(&self, content: &[u64], slots: usize, window: Range<usize>) -> Vec<usize> {
        let (objects, bytes) = (content.repeat(slots), content.len() * 8);
        let mut found = Vec::new();
        let visit = |at: *mut u64| found.push((at.addr() - objects.as_ptr().addr()) / 8);
        match slots {
            1 => self.visit(Words::of(&objects), window, visit),
            _ => self.visit_slots(Words::of(&objects), bytes, window, visit),
        }
        found
    }
}

// --- Tests with types that derive `Persist`.

/// Returns the words that the map visits of an object with this content.
fn words(desc: &'static Desc, content: &[u64]) -> Vec<usize> {
    PointerMap::from_layout(&Graph::from_root(desc).unwrap().types[0]).visited(
        content,
        1,
        0..content.len() * 8,
    )
}

#[derive(Persist)]
#[persist(crate = "crate")]
#[repr(C)]
struct Node<'r> {
    key: u32,
    left: Option<P<'r, Node<'r>>>,
    small: [u8; 3],
    right: P<'r, Node<'r>>,
    name: P<'r, str>,
}

#[derive(Persist)]
#[persist(crate = "crate")]
#[repr(u8)]
#[allow(dead_code)] // the variants are described, not used
enum Value<'r> {
    Nothing,
    Number(u64),
    Text(P<'r, str>),
    Pair { a: u8, both: [Option<P<'r, Node<'r>>>; 2] },
}

#[derive(Persist)]
#[persist(crate = "crate")]
#[repr(i128)]
#[allow(dead_code)]
enum Wide<'r> {
    Low(P<'r, u8>) = i128::MIN,
    Minus(u64, P<'r, u8>) = -2,
    High([u32; 2], u64, P<'r, u8>) = i128::MAX,
}

#[derive(Persist)]
#[persist(crate = "crate")]
#[repr(C)]
struct Both<'r, T: Persist> {
    values: [Value<'r>; 2],
    other: T,
    nested: [[Option<P<'r, T>>; 2]; 2],
}

#[derive(Persist)]
#[persist(crate = "crate")]
#[repr(C)]
struct Far<'r> {
    numbers: [u64; 70],
    first: P<'r, u8>,
    many: [P<'r, u8>; 100],
    last: P<'r, u8>,
}

#[test]
fn pointers_of_structs() {
    assert_eq!(words(<Node as Persist>::desc(), &[1; 5]), [1, 3, 4]);
    assert_eq!(words(<P<'static, u8> as Persist>::desc(), &[0]), [0]);
    assert_eq!(words(<[u64; 9] as Persist>::desc(), &[1; 9]), [0; 0]);
    let mut far = words(<Far as Persist>::desc(), &[1; 172]);
    far.sort_unstable();
    assert_eq!(far, (70..172).collect::<Vec<_>>());
    assert_eq!(words(<Far as Persist>::desc(), &[1; 71]), [70]); // the object ends before the other pointers
}

#[test]
fn pointers_of_enums_follow_the_tag() {
    let of = |tag: u64| words(<Value as Persist>::desc(), &[tag, 1, 1, 1]);
    assert_eq!((of(0), of(1)), (vec![], vec![]));
    assert_eq!((of(2), of(3)), (vec![1], vec![1, 2]));
    assert_eq!(of(4), []); // no variant has this tag
    assert_eq!(of(0x0302), [1]); // only the first byte is the tag
    let wide = |tag: i128| words(<Wide as Persist>::desc(), &[tag as u64, (tag >> 64) as u64, 1, 1, 1, 1]);
    assert_eq!((wide(i128::MIN), wide(-2), wide(i128::MAX)), (vec![2], vec![3], vec![4]));
    assert_eq!((wide(-2 & i128::from(u64::MAX)), wide(2)), (vec![], vec![]));
}

#[test]
fn pointers_of_nested_types() {
    let content = [3, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0]; // the values are a `Pair` and a `Text`
    let sorted = |mut words: Vec<usize>| {
        words.sort_unstable();
        words
    };
    assert_eq!(sorted(words(<Both<u128> as Persist>::desc(), &content)), [1, 2, 4, 8, 9, 10, 11]);
    let pointers = words(<Both<P<'static, u8>> as Persist>::desc(), &content[..11]);
    assert_eq!(sorted(pointers), [1, 2, 4, 6, 7, 8, 9, 10]);
}

#[test]
fn pointers_of_slices() {
    let pointers = <[P<'static, u8>] as Pointee>::desc();
    assert_eq!(words(pointers, &[3, 1, 1, 1, 1]), [1, 2, 3]);
    assert_eq!(words(pointers, &[u64::MAX, 1, 1]), [1, 2]); // a dead slot may have any length
    assert_eq!(words(pointers, &[1]), [0; 0]);
    assert_eq!(words(pointers, &[]), [0; 0]);
    let nodes = <[Node] as Pointee>::desc();
    assert_eq!(words(nodes, &[&[2][..], &[9; 12]].concat()), [2, 4, 5, 7, 9, 10]);
    assert_eq!(words(nodes, &[&[7][..], &[9; 9]].concat()), [2, 4, 5]); // one of the elements fits
    let wide = <[Wide] as Pointee>::desc(); // elements are aligned to 16, so they begin at byte 16
    let minus = [-2i64 as u64, -1i64 as u64, 1, 1, 1, 1];
    assert_eq!(words(wide, &[&[2, 0][..], &minus, &minus].concat()), [5, 11]);
    assert!(
        !PointerMap::from_layout(&Graph::from_root(<str as Pointee>::desc()).unwrap().types[0])
            .has_pointers()
    );
    assert!(
        !PointerMap::from_layout(&Graph::from_root(<[u64] as Pointee>::desc()).unwrap().types[0])
            .has_pointers()
    );
}

#[test]
fn a_window_shows_what_it_overlaps() {
    let map = PointerMap::from_layout(&Graph::from_root(<[Node] as Pointee>::desc()).unwrap().types[0]);
    let content = [&[4][..], &[9; 20]].concat();
    assert_eq!(map.visited(&content, 1, 0..8), [0; 0]);
    assert_eq!(map.visited(&content, 1, 16..17), [2]);
    assert_eq!(map.visited(&content, 1, 23..33), [2, 4]);
    assert_eq!(map.visited(&content, 1, 100..usize::MAX), [12, 14, 15, 17, 19, 20]);
    assert_eq!(map.visited(&content, 1, 20..20), [2; 0]);
    assert_eq!(map.visited(&content, 1, 500..600), [0; 0]);
}

// --- Tests that compare maps with a walk through the layout.

/// Finds the pointers of a `ty` at byte `at`, by walking its layout.
fn walk(ty: &TypeLayout, content: &[u8], at: usize, found: &mut BTreeSet<usize>) {
    let fields = |fields: &[FieldLayout], found: &mut BTreeSet<usize>| {
        for field in fields {
            walk(&field.ty, content, at + field.offset as usize, found);
        }
    };
    match &ty.shape {
        Shape::Ptr { .. } if at + 8 <= content.len() => drop(found.insert(at / 8)),
        Shape::Ptr { .. } | Shape::Prim(_) | Shape::Str => {}
        Shape::Slot(_) => unreachable!("not made here"),
        Shape::Struct(list) => fields(list, found),
        Shape::Array { elem, len } => {
            (0..*len).for_each(|i| walk(elem, content, at + (i * elem.size) as usize, found));
        }
        Shape::Slice(elem) => {
            let Some(len) = content.first_chunk() else { return };
            let start = slice_header(elem.align as usize);
            let fits = content.len().saturating_sub(start) / (elem.size as usize).max(1);
            for i in 0..fits.min(u64::from_le_bytes(*len) as usize) {
                walk(elem, content, start + i * elem.size as usize, found);
            }
        }
        Shape::Enum { tag, variants } => {
            let bytes = tag.tag_bytes().expect("an integer");
            let Some(raw) = content.get(at..at + bytes) else { return };
            let raw: Vec<u8> = raw.iter().copied().chain(std::iter::repeat(0)).take(16).collect();
            let raw = u128::from_le_bytes(raw.try_into().expect("16 bytes"));
            let known = |variant: &&VariantLayout| {
                (variant.tag as u128).to_le_bytes()[..bytes] == raw.to_le_bytes()[..bytes]
            };
            if let Some(variant) = variants.iter().find(known) {
                fields(&variant.fields, found);
            }
        }
    }
}

fn layout(size: u64, align: u64, shape: Shape) -> TypeLayout {
    TypeLayout { name: String::new(), size, align, shape }
}

/// Lays fields out by the rules of C, behind `start` bytes. Returns the end and the alignment, too.
fn laid_out(types: Vec<TypeLayout>, start: u64) -> (Vec<FieldLayout>, u64, u64) {
    let (mut end, mut align) = (start, 1);
    let mut fields = Vec::new();
    for ty in types {
        let offset = end.next_multiple_of(ty.align);
        (end, align) = (offset + ty.size, align.max(ty.align));
        fields.push(FieldLayout { name: String::new(), offset, ty });
    }
    (fields, end, align)
}

/// Sized types, as a compiler lays them out.
fn any_sized() -> impl Strategy<Value = TypeLayout> {
    let prims = [(Prim::U8, 1), (Prim::U16, 2), (Prim::I32, 4), (Prim::U64, 8), (Prim::I128, 16)];
    let leaf = prop_oneof![
        any::<bool>().prop_map(|nullable| layout(8, 8, Shape::Ptr { nullable, to: 0 })),
        prop::sample::select(prims.to_vec()).prop_map(|(prim, size)| layout(size, size, Shape::Prim(prim))),
    ];
    leaf.prop_recursive(4, 40, 5, move |inner| {
        let fields = prop::collection::vec(inner.clone(), 0..5);
        let array = (inner, prop_oneof![0..6u64, 30..90u64]).prop_map(|(elem, len)| {
            layout(elem.size * len, elem.align, Shape::Array { elem: Box::new(elem), len })
        });
        let structs = fields.clone().prop_map(|types| {
            let (fields, end, align) = laid_out(types, 0);
            layout(end.next_multiple_of(align), align, Shape::Struct(fields))
        });
        let variants = prop::collection::btree_map(-3..6i128, fields, 1..5);
        let enums = (prop::sample::select(prims.to_vec()), variants).prop_map(|((tag, bytes), variants)| {
            let (mut size, mut align) = (bytes, bytes);
            let variants = variants.into_iter().map(|(tag, types)| {
                let (fields, end, of_fields) = laid_out(types, bytes);
                (size, align) = (size.max(end), align.max(of_fields));
                VariantLayout { name: String::new(), tag, fields }
            });
            let shape = Shape::Enum { tag, variants: variants.collect() };
            layout(size.next_multiple_of(align), align, shape)
        });
        prop_oneof![array, structs, enums]
    })
    .prop_filter("small enough", |ty| ty.size < 1 << 13)
}

fn any_type() -> impl Strategy<Value = TypeLayout> {
    let slice = any_sized().prop_map(|elem| layout(0, elem.align, Shape::Slice(Box::new(elem))));
    prop_oneof![any_sized(), slice]
}

/// Any content; small numbers are frequent, because tags and lengths are small.
fn any_content() -> impl Strategy<Value = Vec<u64>> {
    let word = prop_oneof![4 => 0..8u64, 1 => (-3..0i64).prop_map(|n| n as u64), 1 => any::<u64>()];
    (prop::collection::vec(word, 1..40), 0..1100usize)
        .prop_map(|(pattern, len)| pattern.into_iter().cycle().take(len).collect())
}

proptest! {
    #[test]
    fn a_map_finds_what_a_walk_finds(
        ty in any_type(), content in any_content(), window in (0..9000usize, 0..9000usize), whole: bool
    ) {
        let map = PointerMap::from_layout(&ty);
        // A sized object has at least its size; a slice may have any length.
        let content = match ty.shape {
            Shape::Slice(_) => content,
            _ => content
                .into_iter()
                .chain(std::iter::repeat(2))
                .take((ty.size as usize).div_ceil(8))
                .collect(),
        };
        let bytes: Vec<u8> = content.iter().flat_map(|word| word.to_le_bytes()).collect();
        let window = if whole { 0..bytes.len() } else { window.0..window.1 };
        let mut expected = BTreeSet::new();
        walk(&ty, &bytes, 0, &mut expected);
        prop_assert!(map.has_pointers() || expected.is_empty());
        expected.retain(|word| !window.is_empty() && word * 8 < window.end && word * 8 + 8 > window.start);
        let slots_window = window.clone();
        let found = map.visited(&content, 1, window);
        prop_assert_eq!(found.iter().copied().collect::<BTreeSet<_>>(), expected);
        let in_slots = map.visited(&content, 3, slots_window);
        let words = content.len();
        let repeated = (0..3).flat_map(|slot| found.iter().map(move |&at| slot * words + at));
        prop_assert_eq!(in_slots, repeated.collect::<Vec<_>>());
        prop_assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), found.len(), "some are visited twice");
    }

    #[test]
    fn nonsense_never_leads_out_of_the_object(
        ty in any_layout(), content in any_content(), window in (0..9000usize, 0..9000usize)
    ) {
        for word in PointerMap::from_layout(&ty).visited(&content, 1, window.0..window.1) {
            prop_assert!(word < content.len());
        }
        PointerMap::from_layout(&ty).visited(&content, 1, 0..usize::MAX);
    }
}
