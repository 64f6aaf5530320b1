//! Sorted sets: a map from members to scores, and the members in the order of their scores.

use pheap::{P, PHashMap, Persist, Txn, View, field};

use super::order::{Item, Items, Order};
use super::value::Str;

/// A sorted set.
#[derive(Persist)]
#[repr(C)]
pub struct Sorted<'r> {
    scores: PHashMap<'r, Str<'r>, f64>,
    order: Order<'r>,
}

/// Methods that read a sorted set.
impl<'r> Sorted<'r> {
    /// Makes an empty sorted set.
    ///
    /// # Errors
    /// If the heap cannot allocate memory.
    pub fn new(tx: &Txn<'r>) -> pheap::Result<Sorted<'r>> {
        Ok(Sorted { scores: PHashMap::new(), order: Order::new(tx)? })
    }

    /// Returns the number of members.
    pub fn len(&self) -> usize {
        self.scores.len()
    }

    /// Returns whether the set has no members.
    pub fn is_empty(&self) -> bool {
        self.scores.is_empty()
    }

    /// Returns the score of a member.
    pub fn score(&self, view: &View<'r>, member: &[u8]) -> Option<f64> {
        self.scores.get(view, member).copied()
    }

    /// Returns the number of members in front of a member with this score.
    pub fn rank(&self, view: &View<'r>, score: f64, member: &[u8]) -> usize {
        self.order.rank(view, score, member)
    }

    /// Returns the number of members for which `is_before` is true. `is_before` must be true of the first
    /// members up to some rank, and false of all others.
    pub fn count_before(&self, view: &View<'r>, is_before: impl Fn(&Item<'r>) -> bool) -> usize {
        self.order.count_before(view, is_before)
    }

    /// Returns at most `count` members from `rank` on, which counts from 0. If `is_reverse`, the iterator
    /// goes backwards from that rank. Returns none if no member has that rank.
    pub fn iter<'v>(&self, view: &'v View<'r>, rank: usize, count: usize, is_reverse: bool) -> Items<'v, 'r> {
        self.order.iter(view, rank, count, is_reverse)
    }

    /// Returns all members and their scores, in no particular order.
    pub fn scores(&self) -> &PHashMap<'r, Str<'r>, f64> {
        &self.scores
    }
}

/// Methods that change a sorted set.
pub trait Rank<'r>: Copy {
    /// Gives a member a score, and adds the member if it is absent. Returns the old score. A score of -0
    /// becomes 0. The score must not be NaN.
    ///
    /// # Errors
    /// If the heap cannot allocate memory. Then the transaction must not commit.
    fn set_score(self, tx: &mut Txn<'r>, member: &[u8], score: f64) -> pheap::Result<Option<f64>>;

    /// Removes a member. Returns the score that it had.
    fn remove(self, tx: &mut Txn<'r>, member: &[u8]) -> Option<f64>;
}

impl<'r> Rank<'r> for P<'r, Sorted<'r>> {
    fn set_score(self, tx: &mut Txn<'r>, member: &[u8], score: f64) -> pheap::Result<Option<f64>> {
        let (order, score) = (field!(self.order), score + 0.0);
        let old = field!(self.scores).insert(tx, member, score)?;
        let item = match old {
            // An equal score does not move the member.
            Some(old) if old == score => return Ok(Some(old)),
            Some(old) => Order::remove(order, tx, old, member),
            None => None,
        };
        let member = match item {
            Some(item) => item.member,
            None => tx.alloc_slice_copy(member)?,
        };
        Order::insert(order, tx, Item { score, member })?;
        Ok(old)
    }

    fn remove(self, tx: &mut Txn<'r>, member: &[u8]) -> Option<f64> {
        let score = field!(self.scores).remove(tx, member)?;
        Order::remove(field!(self.order), tx, score, member);
        Some(score)
    }
}
