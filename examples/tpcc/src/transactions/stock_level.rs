//! Counts the items of the newest orders whose stock is low.

use pheap::{Commit, Result, Root};

use crate::requests::Answer;
use crate::tables::Warehouse;

/// Number of the district's newest orders that are read.
const ORDERS: u32 = 20;

pub(super) fn run(warehouse: &Root<Warehouse>, district: u8, threshold: i32) -> Result<(Answer, Commit)> {
    warehouse.read_deferred(|view, warehouse| {
        let stock = &view[view[warehouse].stock];
        let district = &view[view[warehouse].districts.at(view, usize::from(district) - 1)];
        let newest = district.next_order.saturating_sub(ORDERS)..district.next_order;
        let mut short: Vec<u32> = district
            .orders
            .range(view, newest)
            .flat_map(|(_, order)| &view[order.lines])
            .map(|line| line.item)
            .filter(|&item| stock[item as usize - 1].level.quantity < threshold)
            .collect();
        short.sort_unstable();
        short.dedup();
        Answer::Short { items: short.len() }
    })
}
