//! A sorted set: scores of members, and members in the order of their scores.

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

/// Reading.
impl<'r> Sorted<'r> {
    /// One without members.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub fn new(tx: &Txn<'r>) -> pheap::Result<Sorted<'r>> {
        Ok(Sorted { scores: PHashMap::new(), order: Order::new(tx)? })
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        self.scores.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.scores.is_empty()
    }

    /// The score of a member.
    pub fn score(&self, view: &View<'r>, member: &[u8]) -> Option<f64> {
        self.scores.get(view, member).copied()
    }

    /// How many members are before one of this score.
    pub fn rank(&self, view: &View<'r>, score: f64, member: &[u8]) -> usize {
        self.order.rank(view, score, member)
    }

    /// How many members are before what `is_before` says, which must be true of all up to some place, and false of all others.
    pub fn count_before(&self, view: &View<'r>, is_before: impl Fn(&Item<'r>) -> bool) -> usize {
        self.order.count_before(view, is_before)
    }

    /// So many members (at most) from a rank on, which counts from 0; backwards from it, if `is_reverse`.
    pub fn iter<'v>(&self, view: &'v View<'r>, rank: usize, count: usize, is_reverse: bool) -> Items<'v, 'r> {
        self.order.iter(view, rank, count, is_reverse)
    }

    /// All members in no particular order, and their scores.
    pub fn scores(&self) -> &PHashMap<'r, Str<'r>, f64> {
        &self.scores
    }
}

/// Writing.
pub trait Rank<'r>: Copy {
    /// Gives a member a score, and adds it if it is not there. The score that it had. A score of -0 becomes 0.
    ///
    /// # Errors
    /// If there is no memory for it; then the transaction must not commit.
    fn set_score(self, tx: &mut Txn<'r>, member: &[u8], score: f64) -> pheap::Result<Option<f64>>;

    /// Removes a member. The score that it had.
    fn remove(self, tx: &mut Txn<'r>, member: &[u8]) -> Option<f64>;
}

impl<'r> Rank<'r> for P<'r, Sorted<'r>> {
    fn set_score(self, tx: &mut Txn<'r>, member: &[u8], score: f64) -> pheap::Result<Option<f64>> {
        let (order, score) = (field!(self.order), score + 0.0);
        let old = field!(self.scores).insert(tx, member, score)?;
        let item = match old {
            // What is as great stays where it is.
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
