//! Hash maps: a trie of directories, and buckets.

use std::cell::Cell;

use super::{SlotOps, strange, whole};
use crate::heap::check::plan::{Op, Parts};
use crate::heap::check::rule::{
    Hash, Pointer, Vector, array, field, named, number, pointer, variant_pointer,
};
use crate::heap::check::trace::{Reached, Tracer};
use crate::layout::desc::Prim;
use crate::layout::{Shape, TypeLayout};

/// Bits of the hash that a directory divides by, and bits of a tag that are 0 in a free slot.
pub(in crate::heap) const LEVEL: u32 = 8;
pub(in crate::heap) const TAG: u64 = 0x0fff;
/// Bits of a hash.
const HASH: u32 = 64;
/// So many entries at most are kept without a root.
const FEW: u64 = 8;

/// How the parts of a map are laid out.
struct Layouts<'m> {
    child: Child,
    bucket: Bucket<'m>,
    /// Entries that were found.
    entries: Cell<u64>,
}

/// What leads to buckets. Offsets are in bytes from its start.
#[derive(Clone, Copy)]
pub(in crate::heap) struct Child {
    pub(in crate::heap) size: u64,
    pub(in crate::heap) tag: Prim,
    pub(in crate::heap) nothing: i128,
    pub(in crate::heap) bucket: (i128, Pointer),
    pub(in crate::heap) leaf: (i128, Pointer),
    pub(in crate::heap) bits: u64,
    pub(in crate::heap) directory: (i128, Pointer),
    /// Where the children of a directory begin, and how many there are.
    pub(in crate::heap) children: (u64, u64),
}

#[derive(Clone, Copy)]
struct Bucket<'m> {
    tags: u64,
    depth: u64,
    next: Pointer,
    slots: u64,
    stride: u64,
    count: u64,
    ops: SlotOps<'m>,
}

impl Child {
    pub(in crate::heap) fn of(ty: &TypeLayout, types: &[TypeLayout]) -> Option<Child> {
        let Shape::Enum { tag, variants } = &ty.shape else { return None };
        let directory = variant_pointer(variants, "Directory", "0")?;
        let (first, elem, count) = array(types.get(directory.1.to as usize)?, &["children"])?;
        let leaf = variants.iter().find(|variant| variant.name == "Leaf")?;
        (elem == ty && count == 1 << LEVEL).then_some(Child {
            size: ty.size,
            tag: *tag,
            nothing: variants.iter().find(|variant| variant.name == "Nothing")?.tag,
            bucket: variant_pointer(variants, "Bucket", "0")?,
            leaf: variant_pointer(variants, "Leaf", "buckets")?,
            bits: named(&leaf.fields, "bits").filter(|bits| bits.ty.size == 1)?.offset,
            directory,
            children: (first, count),
        })
    }
}

impl<'m, L: Fn(u64) -> Option<bool>> Tracer<'m, L> {
    pub(super) fn hash(&mut self, hash: Hash, object: &Reached, base: u64) -> Result<(), String> {
        let len = self.word(object, base + hash.len);
        let Some(root) = self.take(self.word(object, base + hash.root.at), hash.root.to)? else {
            self.vector(Vector::entries(hash.len, hash.few), object, base)?;
            return if len <= FEW { Ok(()) } else { Err(format!("has {len} entries where {FEW} can be")) };
        };
        if self.word(object, base + hash.few.at) != 0 {
            return Err("has its entries in two places".to_owned());
        }
        let (top, ty) = field(self.layout(hash.root.to), &["top"]).ok_or_else(strange)?;
        let child = Child::of(ty, &self.map.types).ok_or_else(strange)?;
        let bucket = self.bucket_type(child.bucket.1.to).ok_or_else(strange)?;
        let parts = Layouts { child, bucket, entries: Cell::new(0) };
        self.child(&parts, &root, (top, 1), 0, 0)?;
        whole(parts.entries.get(), len)
    }

    fn bucket_type(&self, ty: u32) -> Option<Bucket<'m>> {
        let layout = self.layout(ty);
        let (slots, slot, count) = array(layout, &["slots"])?;
        let Parts::Sized(ops) = &self.map.plans[ty as usize].as_ref()?.parts else { return None };
        // What is to be looked at in the slots is there as often as there are slots.
        let ops = ops.iter().find_map(|op| match op {
            Op::Repeat { at, ops, .. } if *at == slots => Some(ops.as_slice()),
            _ => None,
        });
        let (tags, tag, tag_count) = array(layout, &["head", "tags", "tags"])?;
        (tag_count == count && tag.size == 2).then_some(Bucket {
            tags,
            depth: number(layout, &["head", "tags", "depth"], Prim::U16)?,
            next: pointer(layout, &["head", "next"])?,
            slots,
            stride: slot.size,
            count,
            ops: SlotOps::of(ops.unwrap_or_default()),
        })
    }

    /// Looks at `count` children, beginning at byte `first` of an object, among which `above` bits of the hash have led, and `known` lead to each.
    fn child(
        &mut self,
        parts: &Layouts<'m>,
        object: &Reached,
        (first, count): (u64, u64),
        above: u32,
        known: u32,
    ) -> Result<(), String> {
        let child = &parts.child;
        let tag_at = |this: &Self, i: u64| this.tag(object, first + i * child.size, child.tag);
        let mut i = 0;
        while i < count {
            let (at, tag) = (first + i * child.size, tag_at(self, i));
            let mut width = 1;
            if tag == child.bucket.0 {
                let pointer = child.bucket.1;
                let addr = self.word(object, at + pointer.at);
                let bucket = self.take(addr, pointer.to)?.ok_or_else(nothing)?;
                width = self.run_of(&parts.bucket, &bucket, (above, known), i, count)?;
                let same = |j: u64| {
                    tag_at(self, j) == tag && self.word(object, first + j * child.size + pointer.at) == addr
                };
                if !(i..i + width).all(same) {
                    return Err("has a bucket that not all of its hashes lead to".to_owned());
                }
                self.chain(parts, bucket)?;
            } else if tag == child.leaf.0 {
                let bits = self.number(object, at + child.bits, 1) as u32;
                let leaf = self.take(self.word(object, at + child.leaf.1.at), child.leaf.1.to)?;
                self.leaf(parts, &leaf.ok_or_else(nothing)?, known, bits)?;
            } else if tag == child.directory.0 {
                if known + LEVEL > HASH {
                    return Err("divides by more bits than a hash has".to_owned());
                }
                let pointer = child.directory.1;
                let directory = self.take(self.word(object, at + pointer.at), pointer.to)?;
                let directory = directory.ok_or_else(nothing)?;
                self.child(parts, &directory, child.children, known, known + LEVEL)?;
            } else if tag != child.nothing {
                return Err(format!("has a part with the tag {tag}, which there is not"));
            }
            i += width;
        }
        Ok(())
    }

    /// Looks at a directory that grows, of pointers to buckets.
    fn leaf(&mut self, parts: &Layouts<'m>, leaf: &Reached, above: u32, bits: u32) -> Result<(), String> {
        let Parts::Slice { header, stride: 8, .. } = *self.parts(leaf) else { return Err(strange()) };
        let map = self.map;
        let count = map.len_of(&map.spans[leaf.span as usize], leaf.start).unwrap_or(0);
        if !(1..=LEVEL).contains(&bits) || count != 1 << bits || above + bits > HASH {
            return Err(format!("has a directory of {count} buckets for {bits} bits of the hash"));
        }
        let mut i = 0;
        while i < count {
            let addr = self.word(leaf, header + i * 8);
            let Some(bucket) = self.take(addr, parts.child.bucket.1.to)? else {
                i += 1;
                continue;
            };
            let width = self.run_of(&parts.bucket, &bucket, (above, above + bits), i, count)?;
            if !(i..i + width).all(|j| self.word(leaf, header + j * 8) == addr) {
                return Err("has a bucket that not all of its hashes lead to".to_owned());
            }
            self.chain(parts, bucket)?;
            i += width;
        }
        Ok(())
    }

    /// How many of `count` pointers must lead to a bucket that the one at `index` leads to, the first of them, if so many bits of the hash lead to their
    /// directory and to each.
    fn run_of(
        &self,
        layout: &Bucket<'m>,
        bucket: &Reached,
        (above, known): (u32, u32),
        index: u64,
        count: u64,
    ) -> Result<u64, String> {
        let depth = self.number(bucket, layout.depth, 2) as u32;
        if !(above..=known).contains(&depth) {
            return Err(format!(
                "has a bucket for {depth} bits of the hash, among those for {above} to {known}"
            ));
        }
        let width = 1 << (known - depth);
        if !index.is_multiple_of(width) || index + width > count {
            return Err("has a bucket that not all of its hashes lead to".to_owned());
        }
        Ok(width)
    }

    /// Looks at the entries of a bucket, and of those behind it.
    fn chain(&mut self, parts: &Layouts<'m>, first: Reached) -> Result<(), String> {
        let layout = &parts.bucket;
        let mut next = Some(first);
        while let Some(bucket) = next {
            for i in 0..layout.count {
                let occupied = self.number(&bucket, layout.tags + 2 * i, 2) & TAG != 0;
                parts.entries.update(|entries| entries + u64::from(occupied));
                let ops = if occupied { layout.ops.value } else { layout.ops.any };
                self.run(ops, &bucket, layout.slots + i * layout.stride);
            }
            next = self.take(self.word(&bucket, layout.next.at), layout.next.to)?;
        }
        Ok(())
    }
}

fn nothing() -> String {
    "has a part that leads nowhere".to_owned()
}
