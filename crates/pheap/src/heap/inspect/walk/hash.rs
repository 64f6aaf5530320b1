//! Hash maps: a trie of directories, and chains of buckets.

use super::{Budget, Step, entry, nothing};
use crate::heap::check::own::hash::{Child, LEVEL, TAG};
use crate::heap::check::rule::{Pointer, array, field, pointer};
use crate::heap::inspect::part::{Part, in_slot, strange};
use crate::layout::TypeLayout;

/// No more directories lie below one another: each takes bits of a hash.
const MOST_DIRECTORIES: usize = 64 / LEVEL as usize + 1;

#[derive(Clone)]
pub(super) struct HashWalk<'v> {
    child: Child,
    bucket: Bucket<'v>,
    /// Directories on the way.
    frames: Vec<Frame<'v>>,
    /// The bucket, and its next slot.
    here: Option<(Part<'v>, u64)>,
    budget: Budget,
}

/// How buckets are laid out.
#[derive(Clone, Copy)]
struct Bucket<'v> {
    tags: u64,
    next: Pointer,
    slots: u64,
    slot: &'v TypeLayout,
    count: u64,
}

/// What leads to buckets, side by side.
#[derive(Clone, Copy)]
struct Frame<'v> {
    first: Part<'v>,
    count: u64,
    next: u64,
    /// The bucket that the last one led to: its neighbours may, too.
    last: u64,
    is_leaf: bool,
}

impl<'v> HashWalk<'v> {
    pub(super) fn new(root: Part<'v>, ty: u32) -> Result<HashWalk<'v>, String> {
        let walk = || {
            let (top, ty) = field(root.layout(ty)?, &["top"])?;
            let child = Child::of(ty, root.ground.types())?;
            let bucket = Bucket::of(root.layout(child.bucket.1.to)?)?;
            let frame = Frame { first: root.at(top), count: 1, next: 0, last: 0, is_leaf: false };
            Some(HashWalk { child, bucket, frames: vec![frame], here: None, budget: Budget::of(root) })
        };
        walk().ok_or_else(strange)
    }

    pub(super) fn step(&mut self) -> Step<'v> {
        loop {
            if let Some((bucket, next)) = &mut self.here {
                let Bucket { tags, slots, slot, count, .. } = self.bucket;
                while *next < count {
                    let i = *next;
                    *next += 1;
                    if bucket.number(tags + 2 * i, 2) & TAG != 0 {
                        return entry(bucket.at(slots + i * slot.size).is(in_slot(slot))).map(Some);
                    }
                }
                let behind = bucket.follow(self.bucket.next)?;
                self.enter(behind)?;
                continue;
            }
            let depth = self.frames.len();
            let Some(frame) = self.frames.last_mut() else { return Ok(None) };
            if frame.next == frame.count {
                self.frames.pop();
                continue;
            }
            let child = &self.child;
            let at = frame.first.at(frame.next * if frame.is_leaf { 8 } else { child.size });
            frame.next += 1;
            let tag = if frame.is_leaf { child.bucket.0 } else { at.tag(0, child.tag) };
            if tag == child.bucket.0 {
                let pointer =
                    Pointer { at: if frame.is_leaf { 0 } else { child.bucket.1.at }, ..child.bucket.1 };
                let addr = at.word(pointer.at);
                if std::mem::replace(&mut frame.last, addr) != addr {
                    let bucket = at.follow(pointer)?;
                    self.enter(bucket)?;
                }
            } else if tag == child.leaf.0 {
                let (first, count) = at.follow_slice(child.leaf.1)?.ok_or_else(nothing)?;
                if at.elem_of(child.leaf.1)?.size != 8 {
                    return Err(strange());
                }
                self.frames.push(Frame { first, count, next: 0, last: 0, is_leaf: true });
            } else if tag == child.directory.0 {
                if depth > MOST_DIRECTORIES {
                    return Err("divides by more bits than a hash has".to_owned());
                }
                self.budget.spend()?;
                let directory = at.follow(child.directory.1)?.ok_or_else(nothing)?;
                let (first, count) = child.children;
                let first = directory.at(first);
                self.frames.push(Frame { first, count, next: 0, last: 0, is_leaf: false });
            } else if tag != child.nothing {
                return Err(format!("has a part with the tag {tag}, which there is not"));
            }
        }
    }

    fn enter(&mut self, bucket: Option<Part<'v>>) -> Result<(), String> {
        self.here = bucket.map(|bucket| (bucket, 0));
        self.budget.spend()
    }
}

impl<'v> Bucket<'v> {
    fn of(ty: &'v TypeLayout) -> Option<Bucket<'v>> {
        let (slots, slot, count) = array(ty, &["slots"])?;
        let (tags, tag, tag_count) = array(ty, &["head", "tags", "tags"])?;
        let next = pointer(ty, &["head", "next"])?;
        (tag_count == count && tag.size == 2).then_some(Bucket { tags, next, slots, slot, count })
    }
}
