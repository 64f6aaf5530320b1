//! Checks that a type is as the derive has read it. An attribute macro after `#[derive(Persist)]` may have
//! changed the type since; then the compiler reports an error, because constants evaluate the checks.

use std::marker::PhantomData;

use crate::layout::desc::Prim;

/// The exact type of a field: no coercion and no subtyping converts one `AsDerived` into another.
pub struct AsDerived<T>(PhantomData<fn(T) -> T>);

impl<T> AsDerived<T> {
    /// Compiles only if the argument stands for the same type.
    pub fn is(self, _: AsDerived<T>) {}
}

/// Returns the actual type of a field.
pub fn found<T>(_: &mut T) -> AsDerived<T> {
    AsDerived(PhantomData)
}

/// The place of a field in a struct or enum.
#[derive(Clone, Copy)]
pub struct Slot {
    /// Offset in bytes from the start of the struct or enum.
    pub offset: usize,
    size: usize,
    align: usize,
}

impl Slot {
    /// Returns the slot of a field of type `T` at this offset.
    pub const fn of<T>(offset: usize) -> Slot {
        Slot { offset, size: size_of::<T>(), align: align_of::<T>() }
    }

    const fn end(self) -> usize {
        self.offset + self.size
    }
}

/// Panics with the message that an attribute has changed the type.
#[cold]
#[track_caller]
pub const fn unlike() -> ! {
    panic!(
        "this type is not laid out as `#[derive(Persist)]` has seen it: an attribute below the derive has changed it since; put the derive below that attribute"
    )
}

/// Returns the slots of the fields of a `repr(C)` struct (`head` is 0), or of a variant after its tag, which
/// ends at offset `head`. The offsets of `fields` are ignored.
pub const fn c_slots<const N: usize>(head: usize, mut fields: [Slot; N]) -> [Slot; N] {
    let (mut end, mut i) = (head, 0);
    while i < N {
        fields[i].offset = end.next_multiple_of(fields[i].align);
        end = fields[i].end();
        i += 1;
    }
    fields
}

/// Asserts that the fields (of each variant) lie as in `repr(C)`, and that nothing else takes room. `tag` is
/// the length of the tag, and also its alignment; 0 for a struct.
#[track_caller]
pub const fn assert_c<T>(declared_align: usize, tag: usize, variants: &[&[Slot]]) {
    let mut align = if declared_align > tag { declared_align } else { tag };
    align = if align > 1 { align } else { 1 };
    let mut longest = tag;
    let mut v = 0;
    while v < variants.len() {
        let (mut end, mut i) = (tag, 0);
        while i < variants[v].len() {
            let field = variants[v][i];
            if field.offset != end.next_multiple_of(field.align) {
                unlike();
            }
            end = field.end();
            align = if field.align > align { field.align } else { align };
            i += 1;
        }
        longest = if end > longest { end } else { longest };
        v += 1;
    }
    if align_of::<T>() != align || size_of::<T>() != longest.next_multiple_of(align) {
        unlike();
    }
}

/// Asserts that the fields lie as in a `repr(transparent)` struct: their sizes add up to that of the struct,
/// and the largest of their alignments is that of the struct.
#[track_caller]
pub const fn assert_transparent<T>(fields: &[Slot]) {
    let (mut size, mut align, mut i) = (0, 1, 0);
    while i < fields.len() {
        let field = fields[i];
        if !field.offset.is_multiple_of(field.align) || field.end() > size_of::<T>() {
            unlike();
        }
        size += field.size;
        align = if field.align > align { field.align } else { align };
        i += 1;
    }
    if size_of::<T>() != size || align_of::<T>() != align {
        unlike();
    }
}

/// Asserts that the enum `T` has a tag of `tag` bytes. (For an enum without an integer `repr`, this accepts 8
/// only, however long the tag is: see [`assert_whole_tag`](super::assert_whole_tag).)
#[track_caller]
pub const fn assert_tag<T>(tag: usize) {
    if size_of::<std::mem::Discriminant<T>>() != tag || size_of::<T>() < tag {
        unlike();
    }
}

/// Asserts that the indices, by which the derive has counted the fields, are 0, 1, 2 and so on.
pub const fn assert_counted(indices: &[usize]) {
    let mut i = 0;
    while i < indices.len() {
        assert!(indices[i] == i);
        i += 1;
    }
}

/// An integer type that the tag of an enum may have.
pub trait Tag {
    /// The primitive that describes the tag.
    const PRIM: Prim;
}

macro_rules! tags {
    ($($ty:ident $prim:ident),*) => { $(impl Tag for $ty { const PRIM: Prim = Prim::$prim; })* };
}

tags!(u8 U8, u16 U16, u32 U32, u64 U64, u128 U128, i8 I8, i16 I16, i32 I32, i64 I64, i128 I128);

/// The fields of a struct or variant, and the padding before each field and after the last, as pairs of start
/// and end.
pub type Inside<const N: usize, const M: usize> = ([Slot; N], [(usize, usize); M]);

/// Returns the padding before each field, and after the last, as pairs of start and end; `M` is `N + 1`.
pub const fn gaps<const N: usize, const M: usize>(
    head: usize,
    fields: [Slot; N],
    size: usize,
) -> [(usize, usize); M] {
    assert!(M == N + 1);
    let mut gaps = [(0, 0); M];
    let (mut end, mut i) = (head, 0);
    while i < N {
        gaps[i] = (end, fields[i].offset);
        end = fields[i].end();
        i += 1;
    }
    gaps[N] = (end, size);
    gaps
}
