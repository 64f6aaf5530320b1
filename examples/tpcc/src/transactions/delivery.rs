//! Delivers the oldest new order of each district of a warehouse. The customer then owes the price.

use std::num::{NonZeroU8, NonZeroU64};

use pheap::{Commit, P, Result, Root, Txn, field, txn};

use crate::requests::Answer;
use crate::rows::now;
use crate::tables::{DISTRICTS, District, Warehouse};

pub(super) fn run(warehouse: &Root<Warehouse>, carrier: u8) -> Result<(Answer, Commit)> {
    let (carrier, now) = (NonZeroU8::new(carrier), NonZeroU64::new(now()));
    warehouse.txn_deferred(|tx, warehouse| {
        let districts = tx[warehouse].districts;
        let mut orders = [None; DISTRICTS];
        for (i, order) in orders.iter_mut().enumerate() {
            *order = deliver(tx, districts.at(tx, i), carrier, now);
        }
        Ok(Answer::Delivered { orders })
    })
}

/// Delivers the oldest new order of a district. Returns its number, if there is one.
#[txn]
fn deliver<'r>(
    tx: &mut Txn<'r>,
    district: P<'r, District<'r>>,
    carrier: Option<NonZeroU8>,
    now: Option<NonZeroU64>,
) -> Option<u32> {
    let number = field!(district.new_orders).pop_front(tx)?.order;
    let order = field!(district.orders).get_mut(tx, number)?;
    order.carrier = carrier;
    let (customer, lines) = (order.customer, order.lines);
    let mut sum = 0;
    for line in tx.slice_mut(lines, ..) {
        line.delivered = now;
        sum += i64::from(line.amount);
    }
    let customer = tx[district].customers.at(tx, customer as usize - 1);
    let mut account = tx[customer].account;
    account.balance += sum;
    account.deliveries += 1;
    tx[customer].account = account;
    Some(number)
}
