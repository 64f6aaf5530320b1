//! Decodes hash maps: a trie of directories, and chains of buckets.

use super::part::{ObjectPart, SlotRun, strange};
use super::{DecodedNode, SlotOrder, nothing};
use crate::heap::check::rule::{Hash, PointerRule, field, named, number, pointer, variant_pointer};
use crate::layout::desc::Prim;
use crate::layout::{Shape, TypeLayout};

/// Bits of a hash.
const HASH: u32 = 64;

#[derive(Clone)]
pub(super) struct HashWalk<'v> {
    child: ChildLayout<'v>,
    bucket: BucketLayout<'v>,
    /// The directories that lead to the place that the walk has reached, outermost first.
    frames: Vec<TrieFrame<'v>>,
    /// The bucket that was visited last. Its chain may have another bucket.
    last: Option<ObjectPart<'v>>,
}

/// The layout of a reference in a directory: to a bucket, to a directory of buckets that grows, or to a
/// further directory. Offsets are in bytes from the start of the reference.
#[derive(Clone, Copy)]
struct ChildLayout<'v> {
    tag: Prim,
    nothing: i128,
    bucket: (i128, PointerRule),
    leaf: (i128, PointerRule),
    bits: u64,
    directory: (i128, PointerRule),
    /// The references in a directory.
    children: SlotRun<'v>,
    /// Number of bits of the hash by which a directory divides.
    level: u32,
}

/// The layout of a bucket. Offsets are in bytes from the start of the bucket.
#[derive(Clone, Copy)]
struct BucketLayout<'v> {
    order: SlotOrder,
    depth: u64,
    next: PointerRule,
    slots: SlotRun<'v>,
}

/// An array of references to buckets or directories that is being visited.
#[derive(Clone, Copy)]
struct TrieFrame<'v> {
    part: ObjectPart<'v>,
    slots: SlotRun<'v>,
    next: u64,
    /// Numbers of bits of the hash that lead to this array, and to each of its elements.
    above: u32,
    known: u32,
    /// Whether this is a directory that grows, of pointers to buckets.
    is_leaf: bool,
}

impl<'v> ChildLayout<'v> {
    fn from_map(ty: &TypeLayout, map: ObjectPart<'v>) -> Option<ChildLayout<'v>> {
        let Shape::Enum { tag, variants } = &ty.shape else { return None };
        let directory = variant_pointer(variants, "Directory", "0")?;
        let children = SlotRun::from_field(map.layout(directory.1.to)?, &["children"])?;
        let leaf = variants.iter().find(|variant| variant.name == "Leaf")?;
        let level = children.count.checked_ilog2()?;
        (children.ty == ty && children.count.is_power_of_two()).then_some(ChildLayout {
            tag: *tag,
            nothing: variants.iter().find(|variant| variant.name == "Nothing")?.tag,
            bucket: variant_pointer(variants, "Bucket", "0")?,
            leaf: variant_pointer(variants, "Leaf", "buckets")?,
            bits: named(&leaf.fields, "bits").filter(|bits| bits.ty.size == 1)?.offset,
            directory,
            children,
            level,
        })
    }
}

impl<'v> BucketLayout<'v> {
    fn from_layout(ty: &'v TypeLayout, bits: u16) -> Option<BucketLayout<'v>> {
        let (slots, tags) =
            (SlotRun::from_field(ty, &["slots"])?, SlotRun::from_field(ty, &["head", "tags", "tags"])?);
        (tags.count == slots.count && tags.ty.size == 2).then_some(BucketLayout {
            order: SlotOrder::Tags { at: tags.first, bits },
            depth: number(ty, &["head", "tags", "depth"], Prim::U16)?,
            next: pointer(ty, &["head", "next"])?,
            slots,
        })
    }
}

impl<'v> HashWalk<'v> {
    pub(super) fn new(hash: &Hash, root: ObjectPart<'v>) -> Option<HashWalk<'v>> {
        let (top, ty) = field(root.layout(hash.root.to)?, &["top"])?;
        let child = ChildLayout::from_map(ty, root)?;
        let bucket = BucketLayout::from_layout(root.layout(child.bucket.1.to)?, hash.tag)?;
        let slots = SlotRun { first: top, count: 1, ..child.children };
        let frame = TrieFrame { part: root, slots, next: 0, above: 0, known: 0, is_leaf: false };
        Some(HashWalk { child, bucket, frames: vec![frame], last: None })
    }

    /// Returns the node of a directory or of the map's root object, which has no entries.
    pub(super) fn node(&self, part: ObjectPart<'v>) -> DecodedNode<'v> {
        DecodedNode::array(part, SlotRun { count: 0, ..self.bucket.slots })
    }

    pub(super) fn next(&mut self) -> Result<Option<DecodedNode<'v>>, String> {
        if let Some(last) = self.last.take()
            && let Some(bucket) = last.follow(self.bucket.next)?
        {
            return Ok(Some(self.decode_bucket(bucket)));
        }
        while let Some(frame) = self.frames.last_mut() {
            let TrieFrame { part, slots, next: i, above, known, is_leaf } = *frame;
            if i == slots.count {
                self.frames.pop();
                continue;
            }
            frame.next += 1;
            let child = &self.child;
            let place = |i| part.offset_by(slots.offset(i));
            let tag_at = |i| if is_leaf { child.bucket.0 } else { place(i).integer(0, child.tag) };
            let (at, tag) = (place(i), tag_at(i));
            if tag == child.bucket.0 {
                let pointer =
                    PointerRule { at: if is_leaf { 0 } else { child.bucket.1.at }, ..child.bucket.1 };
                let Some(bucket) = at.follow(pointer)? else {
                    if is_leaf {
                        continue;
                    }
                    return Err(nothing());
                };
                let depth = u16::from_ne_bytes(bucket.array(self.bucket.depth)).into();
                if !(above..=known).contains(&depth) {
                    return Err(format!(
                        "has a bucket for {depth} bits of the hash, among those for {above} to {known}"
                    ));
                }
                // The pointers to a bucket are adjacent: there is one for each value of the bits of the hash
                // that this array divides by and the bucket does not.
                let end = i + (1 << (known - depth));
                let addr = at.read_word(pointer.at);
                let same = |j| tag_at(j) == tag && place(j).read_word(pointer.at) == addr;
                if !i.is_multiple_of(end - i) || end > slots.count || !(i..end).all(same) {
                    return Err("has a bucket that not all of its hashes lead to".to_owned());
                }
                frame.next = end;
                return Ok(Some(self.decode_bucket(bucket)));
            } else if tag == child.leaf.0 {
                let bits = u32::from(at.array::<1>(child.bits)[0]);
                let (Some(part), slots) = at.follow_slice(child.leaf.1)? else { return Err(nothing()) };
                if slots.ty.size != 8 {
                    return Err(strange());
                }
                let (count, divided) = (slots.count, known + bits);
                if !(1..=child.level).contains(&bits) || count != 1 << bits || divided > HASH {
                    return Err(format!("has a directory of {count} buckets for {bits} bits of the hash"));
                }
                self.frames.push(TrieFrame {
                    part,
                    slots,
                    next: 0,
                    above: known,
                    known: divided,
                    is_leaf: true,
                });
                return Ok(Some(self.node(part)));
            } else if tag == child.directory.0 {
                let divided = known + child.level;
                if divided > HASH {
                    return Err("divides by more bits than a hash has".to_owned());
                }
                let (part, slots) = (at.follow(child.directory.1)?.ok_or_else(nothing)?, child.children);
                self.frames.push(TrieFrame {
                    part,
                    slots,
                    next: 0,
                    above: known,
                    known: divided,
                    is_leaf: false,
                });
                return Ok(Some(self.node(part)));
            } else if tag != child.nothing {
                return Err(format!("has a part with the unknown tag {tag}"));
            }
        }
        Ok(None)
    }

    fn decode_bucket(&mut self, bucket: ObjectPart<'v>) -> DecodedNode<'v> {
        self.last = Some(bucket);
        DecodedNode { order: self.bucket.order, ..DecodedNode::array(bucket, self.bucket.slots) }
    }
}
