//! What `#[derive(Persist)]` says of types, and that it zeros their padding.

use std::mem::{MaybeUninit, offset_of};

use pheap::__private::{Desc, Field, Kind, Prim};
use pheap::Persist;

use crate::*;

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
    // Bytes that are neither data nor zeroed keep the filling.
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
