//! Reads the state of a customer's newest order.

use pheap::{Commit, Result, Root};

use super::find;
use crate::requests::{Answer, Who};
use crate::tables::{OrderLine, Warehouse};

pub(super) fn run(warehouse: &Root<Warehouse>, district: u8, who: &Who) -> Result<(Answer, Commit)> {
    let (answer, seen) = warehouse.read_deferred(|view, warehouse| {
        let district = view[warehouse].districts.at(view, usize::from(district) - 1);
        let number = find(view, district, who)?;
        let customer = &view[view[district].customers.at(view, number as usize - 1)];
        let order = view[district].orders.get(view, customer.last_order);
        let lines: &[OrderLine] = order.map_or(&[], |order| &view[order.lines]);
        Ok(Answer::Status {
            customer: number,
            balance: customer.account.balance,
            order: customer.last_order,
            carrier: order.and_then(|order| order.carrier),
            lines: lines.iter().map(|line| (line.item, line.supplier, line.quantity, line.amount)).collect(),
        })
    })?;
    Ok((answer?, seen))
}
