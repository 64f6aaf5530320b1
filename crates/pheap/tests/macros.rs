//! `#[derive(Persist)]` and `#[txn]` at run time.

use std::mem::{MaybeUninit, offset_of};

use pheap::__private::{Desc, Field, Kind, Prim};
use pheap::{Durability, Heap, Options, P, Persist, Root, Txn, txn};

// Types with gaps of each kind: between fields, behind the last one, inside of a field, behind a tag.

#[derive(Persist, Default, Clone, Copy, Debug, PartialEq)]
#[repr(C)]
struct Gaps {
    a: u8,
    b: u32,
    c: u16,
}

#[derive(Persist, Default, Clone, Copy, Debug, PartialEq)]
#[repr(C, align(32))]
struct Nested {
    head: u8,
    gaps: [Gaps; 2],
    tail: u8,
}

#[derive(Persist, Default, Clone, Copy, Debug, PartialEq)]
#[repr(C)]
struct Dense {
    x: u64,
    y: u32,
    z: [u16; 2],
}

#[derive(Persist, Clone, Copy)]
#[repr(C)]
struct Tuple(u8, u64);

#[derive(Persist, Clone, Copy, Default, Debug, PartialEq)]
#[repr(transparent)]
struct Wrapped(u64, [u8; 0]);

#[derive(Persist, Clone, Copy)]
#[repr(C)]
struct Unit;

#[derive(Persist, Clone, Copy)]
#[repr(C)]
struct Pair<T, U, const N: usize> {
    first: T,
    second: [U; N],
}

#[derive(Persist, Clone, Copy, Debug, PartialEq)]
#[persist(id = "test.shape")]
#[repr(u16)]
#[allow(dead_code)]
enum Shape<'r, T> {
    Empty,
    Circle { radius: f64, filled: bool } = 7,
    Value(T),
    Link(Option<P<'r, T>>, u8, Gaps) = 300,
    r#Last,
}

#[derive(Persist, Clone, Copy)]
#[repr(i8)]
#[allow(dead_code)]
enum Signed {
    Low = -2,
    Next,
    High = !0 - 10,
    Byte = b'x' as i8,
}

/// A bound on the type itself, which has to hold at the other brand too.
#[derive(Persist, Clone, Copy, Default)]
#[repr(C)]
struct Bounded<'r, T: Copy>
where
    Option<T>: Clone,
{
    value: T,
    link: Option<P<'r, Self>>,
}

#[derive(Persist, Default)]
#[repr(C)]
struct Node<'r> {
    val: u64,
    next: Option<P<'r, Node<'r>>>,
    grid: [[u16; 2]; 3],
    nested: Nested,
    wrapped: Wrapped,
    items: Option<P<'r, [Gaps]>>,
}

fn fields<T: Persist>() -> &'static [Field] {
    match T::desc().kind {
        Kind::Struct { fields } => fields,
        _ => panic!("{} is not a struct", T::desc().name.as_str()),
    }
}

fn names_and_offsets(fields: &[Field]) -> Vec<(&str, usize)> {
    fields.iter().map(|field| (field.name, field.offset)).collect()
}

fn is<T: Persist>(desc: &Desc, name: &str) {
    assert_eq!((desc.name.as_str(), desc.size, desc.align), (name, size_of::<T>(), align_of::<T>()));
}

#[test]
fn structs_are_described() {
    is::<Gaps>(Gaps::desc(), "Gaps");
    is::<Nested>(Nested::desc(), "Nested");
    is::<Unit>(Unit::desc(), "Unit");
    assert_eq!(names_and_offsets(fields::<Gaps>()), [("a", 0), ("b", 4), ("c", 8)]);
    let nested = [
        ("head", offset_of!(Nested, head)),
        ("gaps", offset_of!(Nested, gaps)),
        ("tail", offset_of!(Nested, tail)),
    ];
    assert_eq!(names_and_offsets(fields::<Nested>()), nested);
    assert_eq!(names_and_offsets(fields::<Tuple>()), [("0", 0), ("1", 8)]);
    assert!(fields::<Unit>().is_empty());
    is::<u32>((fields::<Gaps>()[1].ty)(), "u32");
    is::<[Gaps; 2]>((fields::<Nested>()[1].ty)(), "[;]");
}

#[test]
fn generic_types_are_described() {
    let desc = <Pair<u8, Gaps, 3> as Persist>::desc();
    is::<Pair<u8, Gaps, 3>>(desc, "Pair");
    let args: Vec<_> = desc.args.iter().map(|arg| arg().name.as_str()).collect();
    assert_eq!(args, ["u8", "Gaps"]);
    assert_eq!(names_and_offsets(fields::<Pair<u8, Gaps, 3>>()), [("first", 0), ("second", 4)]);
    assert_eq!(names_and_offsets(fields::<Pair<u64, u8, 3>>()), [("first", 0), ("second", 8)]);
    match (fields::<Pair<u8, Gaps, 3>>()[1].ty)().kind {
        Kind::Array { len, elem } => assert_eq!((len, elem().name.as_str()), (3, "Gaps")),
        _ => panic!("not an array"),
    }
}

#[test]
fn recursive_types_are_described() {
    let next = &fields::<Node<'static>>()[1];
    match (next.ty)().kind {
        Kind::Ptr { nullable, to } => assert_eq!((nullable, to().name.as_str()), (true, "Node")),
        _ => panic!("not a pointer"),
    }
    is::<Bounded<u8>>(<Bounded<'static, u8> as Persist>::desc(), "Bounded");
}

#[test]
fn enums_are_described() {
    type Shapes = Shape<'static, u32>;
    let desc = Shapes::desc();
    is::<Shapes>(desc, "test.shape");
    let Kind::Enum { tag, variants } = &desc.kind else { panic!("not an enum") };
    assert_eq!(*tag, Prim::U16);
    let tags: Vec<_> = variants.iter().map(|variant| (variant.name, variant.tag)).collect();
    assert_eq!(tags, [("Empty", 0), ("Circle", 7), ("Value", 8), ("Link", 300), ("Last", 301)]);
    assert!(variants[0].fields.is_empty());

    // Where the values really are.
    let offset = |shape: &Shapes, part: *const u8| part.addr() - std::ptr::from_ref(shape).addr();
    let circle = Shapes::Circle { radius: 1.0, filled: true };
    let Shape::Circle { radius, filled } = &circle else { unreachable!() };
    let real = [
        ("radius", offset(&circle, std::ptr::from_ref(radius).cast())),
        ("filled", offset(&circle, std::ptr::from_ref(filled).cast())),
    ];
    assert_eq!(names_and_offsets(variants[1].fields), real);
    let link = Shapes::Link(None, 1, Gaps::default());
    let Shape::Link(pointer, byte, gaps) = &link else { unreachable!() };
    let real = [
        ("0", offset(&link, std::ptr::from_ref(pointer).cast())),
        ("1", offset(&link, std::ptr::from_ref(byte).cast())),
        ("2", offset(&link, std::ptr::from_ref(gaps).cast())),
    ];
    assert_eq!(names_and_offsets(variants[3].fields), real);
    // SAFETY: the tag of an enum with a primitive repr is its first field.
    assert_eq!(i128::from(unsafe { *std::ptr::from_ref(&link).cast::<u16>() }), variants[3].tag);

    let Kind::Enum { tag: Prim::I8, variants } = &Signed::desc().kind else { panic!("not an `i8` enum") };
    let tags: Vec<_> = variants.iter().map(|variant| variant.tag).collect();
    assert_eq!(
        tags,
        [Signed::Low, Signed::Next, Signed::High, Signed::Byte].map(|signed| signed as i8 as i128)
    );
}

/// The offsets of the bytes that `zero_padding` zeroes in a value whose padding was not zero.
fn zeroed<T: Persist + Copy>(value: T) -> Vec<usize> {
    let size = size_of::<T>();
    let image = |fill: u8| -> Vec<u8> {
        let mut place = MaybeUninit::<T>::uninit();
        let bytes = place.as_mut_ptr().cast::<u8>();
        // The bytes of the value, without those of its padding, which a copy of a `T` might not keep.
        let data = data_bytes::<T>(std::ptr::from_ref(&value).cast());
        // SAFETY: all bytes of `place` are written; those of the fields and the tag are those of a valid `T`.
        unsafe {
            bytes.write_bytes(fill, size);
            for at in data {
                *bytes.add(at) = *std::ptr::from_ref(&value).cast::<u8>().add(at);
            }
            T::zero_padding(place.as_mut_ptr());
            (0..size).map(|at| *bytes.add(at)).collect()
        }
    };
    let (one, two) = (image(0xa5), image(0x5a));
    // What is neither data nor zeroed keeps the filling.
    assert_eq!(one, two, "{}: some padding was not zeroed", T::desc().name.as_str());
    let data = data_bytes::<T>(std::ptr::from_ref(&value).cast());
    let padding: Vec<_> = (0..size).filter(|at| !data.contains(at)).collect();
    padding.iter().for_each(|&at| assert_eq!(one[at], 0));
    for &at in &data {
        // SAFETY: a byte of a field.
        assert_eq!(one[at], unsafe { *std::ptr::from_ref(&value).cast::<u8>().add(at) }, "byte {at} is data");
    }
    assert!(T::PADDED || padding.is_empty(), "{} has padding", T::desc().name.as_str());
    padding
}

/// The offsets of the bytes of the value at `value` that are not padding, as its description says.
fn data_bytes<T: Persist>(value: *const u8) -> Vec<usize> {
    fn visit(desc: &Desc, value: *const u8, at: usize, found: &mut Vec<usize>) {
        match &desc.kind {
            Kind::Prim(_) | Kind::Ptr { .. } => found.extend(at..at + desc.size),
            Kind::Array { elem, len } => {
                (0..*len).for_each(|i| visit(elem(), value, at + i * elem().size, found))
            }
            Kind::Struct { fields } => {
                fields.iter().for_each(|field| visit((field.ty)(), value, at + field.offset, found))
            }
            Kind::Enum { tag: Prim::U16, variants } => {
                found.extend(at..at + 2);
                // SAFETY: the tag is at offset 0, and initialized.
                let tag = i128::from(unsafe { value.add(at).cast::<u16>().read_unaligned() });
                let variant = variants.iter().find(|variant| variant.tag == tag).unwrap();
                variant.fields.iter().for_each(|field| visit((field.ty)(), value, at + field.offset, found));
            }
            _ => panic!("not in these tests"),
        }
    }
    let mut found = Vec::new();
    visit(T::desc(), value, 0, &mut found);
    found
}

#[test]
fn exactly_the_padding_is_zeroed() {
    assert_eq!(zeroed(Gaps { a: 255, b: u32::MAX, c: 0xffff }), [1, 2, 3, 10, 11]);
    let gaps = Gaps { a: 1, b: 2, c: 3 };
    assert_eq!(zeroed(Nested { head: 9, gaps: [gaps; 2], tail: 9 }).len(), size_of::<Nested>() - 2 - 2 * 7);
    assert_eq!(zeroed(Tuple(1, 2)), [1, 2, 3, 4, 5, 6, 7]);
    assert!(zeroed(Dense { x: 1, y: 2, z: [3, 4] }).is_empty());
    assert!(zeroed(Wrapped(5, [])).is_empty());
    assert_eq!(zeroed(Pair { first: 1u8, second: [gaps] }), [1, 2, 3, 5, 6, 7, 14, 15]);

    type Shapes = Shape<'static, u32>;
    let size = size_of::<Shapes>();
    assert_eq!(zeroed(Shapes::Empty), (2..size).collect::<Vec<_>>());
    assert_eq!(zeroed(Shapes::Circle { radius: 1.5, filled: true }).len(), size - 2 - 9);
    assert_eq!(zeroed(Shapes::Value(7)).len(), size - 2 - 4);
    assert_eq!(zeroed(Shapes::Link(None, 1, gaps)).len(), size - 2 - 8 - 1 - 7);
}

#[test]
fn padded_is_exact() {
    let padded = [Gaps::PADDED, Nested::PADDED, Tuple::PADDED, <Shape<'_, u32>>::PADDED];
    assert_eq!(padded, [true; 4]);
    let dense = [Dense::PADDED, Wrapped::PADDED, Unit::PADDED, Signed::PADDED];
    assert_eq!(dense, [false; 4]);
    let generic = [<Pair<u64, u64, 3>>::PADDED, <Pair<u64, u8, 3>>::PADDED, <Pair<u64, Gaps, 2>>::PADDED];
    assert_eq!(generic, [false, true, true]);
}

// `#[txn]`

/// Runs a test with the writes of transactions kept apart until they commit, and with writes in place behind the undo log: the
/// code that `#[txn]` emits does not do the same in both.
fn on_both_paths(test: impl Fn(&Heap)) {
    for pin_undo in [false, true] {
        test(&Options::new().pin_undo(pin_undo).in_memory().unwrap());
    }
}

#[txn]
fn fields_and_elements<'r>(tx: &mut Txn<'r>, p: P<'r, Node<'r>>) -> pheap::Result<()> {
    let node = tx.alloc(Node { val: 40, ..Node::default() })?;
    tx[p].next = Some(node);
    tx[tx[p].next.unwrap()].val += 2;
    tx[p].grid[2][1] = 5;
    tx[p].grid[2][1] <<= 1;
    tx[p].nested.gaps[1].b |= 6;
    tx[p].wrapped.0 ^= 3;
    (tx[p]).val = 7;

    let items = tx.alloc_slice(3, |_| Gaps::default())?;
    tx[p].items = Some(items);
    tx[items][1].c = 8;
    tx[items][2] = Gaps { a: 1, b: 2, c: 3 };
    tx[items][..2][0].a = 4; // not a place of one element: left to the slice
    tx[items.at(0)].b -= 0;
    Ok(())
}

#[test]
fn a_function_joins_a_transaction() {
    on_both_paths(|heap| {
        let root: Root<Node> = heap.root("node").unwrap();
        root.txn(fields_and_elements).unwrap();
        root.read(|view, p| {
            let node = &view[p];
            assert_eq!((node.val, node.grid, node.wrapped.0), (7, [[0, 0], [0, 0], [0, 10]], 3));
            assert_eq!(node.nested.gaps[1], Gaps { a: 0, b: 6, c: 0 });
            assert_eq!(view[node.next.unwrap()].val, 42);
            let items = [Gaps { a: 4, b: 0, c: 0 }, Gaps { a: 0, b: 0, c: 8 }, Gaps { a: 1, b: 2, c: 3 }];
            assert_eq!(view[node.items.unwrap()], items);
        })
        .unwrap();
    });
}

#[derive(Debug)]
enum ShopError {
    Heap,
    TooMany(u64),
}

impl From<pheap::Error> for ShopError {
    fn from(_: pheap::Error) -> Self {
        ShopError::Heap
    }
}

trait Counter {
    fn add(&self, counter: &Root<Node<'static>>, by: u64) -> Result<u64, ShopError>;
}

struct Shop {
    calls: std::cell::Cell<u64>,
}

impl Counter for Shop {
    #[txn]
    fn add(&self, counter: &Root<Node<'static>>, by: u64) -> Result<u64, ShopError> {
        self.calls.set(self.calls.get() + 1);
        if by == 0 {
            return Ok(tx[counter].val);
        }
        tx[counter].val += by;
        tx[counter].grid[0][0] += 1;
        if tx[counter].val > 10 {
            Err(ShopError::TooMany(tx[counter].val))?;
        }
        Ok(tx[counter].val)
    }
}

#[test]
fn a_function_opens_a_transaction() {
    on_both_paths(|heap| {
        let root: Root<Node> = heap.root("counter").unwrap();
        let shop = Shop { calls: 0.into() };
        assert_eq!(shop.add(&root, 4).unwrap(), 4);
        assert!(matches!(shop.add(&root, 7), Err(ShopError::TooMany(11))), "rolled back");
        assert_eq!(shop.add(&root, 0).unwrap(), 4, "returned early");
        assert_eq!(shop.add(&root, 6).unwrap(), 10);
        assert_eq!(shop.calls.get(), 4);
        root.read(|view, p| assert_eq!((view[p].val, view[p].grid[0][0]), (10, 2))).unwrap();
    });
}

#[txn]
fn noisy<'r>(tx: &mut Txn<'r>, p: P<'r, Node<'r>>, order: &mut Vec<u8>) {
    let mut note = |n: u8| order.push(n);
    tx[(note(2), p).1].grid[(note(3), 1).1][(note(4), 0).1] = (note(1), 5).1;
    tx[(note(6), p).1].val += (note(5), 5).1;
}

#[test]
fn the_right_side_is_evaluated_first() {
    on_both_paths(|heap| {
        let root: Root<Node> = heap.root("node").unwrap();
        let mut order = Vec::new();
        root.txn(|tx, p| {
            noisy(tx, p, &mut order);
            Ok(())
        })
        .unwrap();
        assert_eq!(order, [1, 2, 3, 4, 5, 6]);
    });
}

#[txn]
fn grouped<'r>(tx: &mut Txn<'r>, p: P<'r, Node<'r>>, q: P<'r, Node<'r>>, i: usize) {
    let old = &tx[p]; // used for the last time on the right side of the first assignment
    tx[q].val = old.val + 1;
    tx[q].grid[i][0] = 1;
    tx[p].val = tx[q].val * 10;
    tx[p].grid[2][1] += tx[q].grid[0][0];
}

#[test]
fn a_group_is_its_assignments_in_order() {
    on_both_paths(|heap| {
        let root: Root<Node> = heap.root("node").unwrap();
        root.txn(|tx, p| {
            let q = tx.alloc(Node::default())?;
            tx[p].val = 3;
            grouped(tx, p, q, 0);
            assert_eq!((tx[q].val, tx[q].grid[0][0], tx[p].val, tx[p].grid[2][1]), (4, 1, 40, 1));
            Ok(())
        })
        .unwrap();
    });
}

#[test]
fn an_index_out_of_bounds_panics_where_it_stands() {
    on_both_paths(|heap| {
        let root: Root<Node> = heap.root("node").unwrap();
        let mut stored_before = 0;
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            root.txn(|tx, p| {
                let q = tx.alloc(Node::default())?;
                let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| grouped(tx, p, q, 3)));
                stored_before = tx[q].val;
                std::panic::resume_unwind(result.unwrap_err());
                #[allow(unreachable_code)]
                Ok(())
            })
        }));
        assert!(panicked.is_err());
        assert_eq!(stored_before, 1, "the assignment in front of it was done");
        root.read(|view, p| assert_eq!(view[p].val, 0, "rolled back")).unwrap();
    });
}

#[txn]
fn shadowed<'r>(tx: &mut Txn<'r>, p: P<'r, Node<'r>>) -> u64 {
    {
        let tx = &mut [0, 1];
        tx[1] = 2;
        tx[0] += 3;
    }
    [[0u8; 2]].iter_mut().for_each(|tx| tx[1] = 1);
    for tx in &mut [[0u8; 2]; 2] {
        tx[1] = 1;
    }
    if let Some(tx) = &mut Some([0u8; 2]) {
        tx[1] = 1;
    }
    match &mut Some([0u8; 2]) {
        Some(tx) => tx[1] = 1,
        None => tx[p].val = 1,
    }
    fn nested(tx: &mut [u8]) {
        tx[0] = 1;
    }
    nested(&mut [0]);
    let mut set = |val| tx[p].val = val;
    set(1);
    set(2);
    tx[p].val
}

#[txn]
#[rustfmt::skip]
fn with_attributes<'r>(tx: &mut Txn<'r>, p: P<'r, Node<'r>>) {
    #[cfg(any())]
    tx[p].val = no_such_variable;
    tx[p].val += 1;
    #[cfg(any())]
    tx[p].no_such_field += 1;
    #[cfg(not(any()))]
    tx[p].grid[1][1] += 2;
    #[allow(clippy::identity_op)]
    tx[p].val <<= 1 + 0;
}

#[test]
fn attributes_of_statements_are_kept() {
    on_both_paths(|heap| {
        let root: Root<Node> = heap.root("node").unwrap();
        root.txn(|tx, p| {
            with_attributes(tx, p);
            assert_eq!((tx[p].val, tx[p].grid[1][1]), (2, 2));
            Ok(())
        })
        .unwrap();
    });
}

#[txn]
fn shared<'a, 'b>(one: &mut Txn<'a>, a: P<'a, Node<'a>>, two: &mut Txn<'b>, b: P<'b, Node<'b>>) {
    one[a].val = 1;
    one[a].grid[0][0] = 2;
    two[b].val = one[a].val + 1;
    two[b].grid[0][0] = 3;
}

#[test]
fn names_that_mean_something_else_are_left_alone() {
    on_both_paths(|heap| {
        let root: Root<Node> = heap.root("node").unwrap();
        assert_eq!(root.txn(|tx, p| Ok(shadowed(tx, p))).unwrap(), 2);
    });
}

#[test]
fn a_function_joins_two_transactions() {
    on_both_paths(|heap| {
        let (one, two): (Root<Node>, Root<Node>) = (heap.root("one").unwrap(), heap.root("two").unwrap());
        pheap::txn((&one, &two), |((ta, a), (tb, b))| {
            shared(ta, a, tb, b);
            Ok(())
        })
        .unwrap();
        one.read(|view, p| assert_eq!((view[p].val, view[p].grid[0][0]), (1, 2))).unwrap();
        two.read(|view, p| assert_eq!((view[p].val, view[p].grid[0][0]), (2, 3))).unwrap();
    });
}

#[derive(Persist, Default)]
#[repr(C)]
struct Wide {
    first: u64,
    grid: [[u64; 20]; 3],
    last: u64,
}

#[txn]
fn together<'r>(tx: &mut Txn<'r>, p: P<'r, Wide>) {
    tx[p].first += 1;
    tx[p].grid[1][3] += 1;
    tx[p].last += 1;
}

#[txn]
fn one_by_one<'r>(tx: &mut Txn<'r>, p: P<'r, Wide>) {
    tx[p].first += 1;
    {}
    tx[p].grid[1][3] += 1;
    {}
    tx[p].last += 1;
}

fn whole_object<'r>(tx: &mut Txn<'r>, p: P<'r, Wide>) {
    tx[p].first += 1;
    tx[p].grid[1][3] += 1;
    tx[p].last += 1;
}

/// Fences and bytes of log of one transaction on the long path.
fn cost(root: &Root<Wide>, heap: &Heap, run: for<'r> fn(&mut Txn<'r>, P<'r, Wide>)) -> (u64, u64) {
    let before = heap.stats();
    root.txn(|tx, p| {
        run(tx, p);
        Ok(())
    })
    .unwrap();
    let after = heap.stats();
    (after.fences - before.fences, after.log_bytes - before.log_bytes)
}

#[test]
fn only_the_fields_are_logged_and_a_group_shares_a_fence() {
    let dir = tempfile::tempdir().unwrap();
    let options =
        Options::new().durability(Durability::Pmem).pin_undo(true).arena_size(1 << 16).reserve(1 << 24);
    let heap = options.open(dir.path().join("wide.pheap")).unwrap();
    let root: Root<Wide> = heap.root("wide").unwrap();
    let (fences, bytes) = cost(&root, &heap, together);
    let (fences_apart, bytes_apart) = cost(&root, &heap, one_by_one);
    let (_, bytes_whole) = cost(&root, &heap, whole_object);
    assert_eq!(fences + 2, fences_apart, "one fence for three entries");
    assert!(bytes < bytes_apart && bytes_apart < bytes_whole, "{bytes} {bytes_apart} {bytes_whole}");
    root.read(|view, p| assert_eq!((view[p].first, view[p].grid[1][3], view[p].last), (3, 3, 3))).unwrap();
}

macro_rules! functions {
    ($opens:ident, $joins:ident, $root:ident, $field:ident, $value:expr) => {
        #[txn]
        fn $opens($root: &Root<Node<'_>>) -> pheap::Result<u64> {
            $joins(tx, $root);
            Ok(tx[$root].$field)
        }

        #[txn]
        fn $joins<'r>(tx: &mut Txn<'r>, p: P<'r, Node<'r>>) {
            tx[p].$field = $value;
            let q = p;
            tx[q].$field *= $value;
        }
    };
}

functions!(made_by_macro, joined_by_macro, node, val, 1 + 2);

#[test]
fn functions_may_come_from_a_macro() {
    on_both_paths(|heap| {
        let root: Root<Node> = heap.root("node").unwrap();
        assert_eq!(made_by_macro(&root).unwrap(), 9);
    });
}

/// What a strict crate asks of the code that the macros write for it.
mod strict {
    #![no_implicit_prelude]
    #![forbid(unsafe_code)]
    #![deny(warnings, missing_docs, unused_qualifications, elided_lifetimes_in_paths, single_use_lifetimes)]

    use ::core::option::Option::{self, Some};
    use ::core::result::Result::Ok;
    use ::pheap::{P, Persist, Root, Txn, txn};

    pub(super) mod elsewhere {
        pub(crate) use ::pheap as renamed;
    }

    #[derive(Persist)]
    #[persist(crate = "elsewhere::renamed")]
    #[repr(C)]
    struct Private<'r, T> {
        r#type: T,
        gap: u64,
        link: Option<P<'r, Self>>,
    }

    #[derive(Persist)]
    #[repr(u8)]
    #[allow(dead_code)]
    pub(super) enum Public<T> {
        Gone,
        #[deprecated]
        Old {
            x: T,
        },
    }

    #[txn(crate = "elsewhere::renamed")]
    pub(super) fn bump(root: &Root<u64>, by: u64) -> ::pheap::Result<u64> {
        let p = tx.alloc(Private { r#type: 1u8, gap: 0, link: Option::None })?;
        set(tx, p, by);
        let Public::Gone = Public::<u8>::Gone else { return Ok(0) };
        tx[root] += by;
        tx[root] *= 2;
        Ok(tx[root])
    }

    #[txn]
    fn set<'r>(tx: &mut Txn<'r>, p: P<'r, Private<'r, u8>>, by: u64) {
        tx[p].link = Some(p);
        tx[p].gap = by;
        tx[p].r#type += 1;
    }
}

#[test]
fn strict_crates_can_use_the_macros() {
    on_both_paths(|heap| {
        let root: Root<u64> = heap.root("number").unwrap();
        assert_eq!(strict::bump(&root, 4).unwrap(), 8);
    });
}
