//! An open heap with a company in it.

use pheap::{Error, Heap, Result, Root};

use crate::requests::Size;
use crate::tables::{Items, Warehouse};

pub struct Company {
    pub heap: Heap,
    pub items: Root<Items<'static>>,
    /// The warehouses; number 1 is at index 0.
    pub warehouses: Vec<Root<Warehouse<'static>>>,
    pub size: Size,
}

impl Company {
    /// Returns the company that was loaded into this heap.
    pub fn of(heap: Heap) -> Result<Company> {
        let items: Root<Items> = heap.existing_root("items")?;
        let mut warehouses: Vec<Root<Warehouse>> = Vec::new();
        loop {
            match heap.existing_root(&warehouse_name(warehouses.len() as u32 + 1)) {
                Ok(warehouse) => warehouses.push(warehouse),
                Err(Error::NoSuchRoot(_)) if !warehouses.is_empty() => break,
                Err(error) => return Err(error),
            }
        }
        let size = Size {
            warehouses: warehouses.len() as u32,
            items: items.read(|view, items| view[items].len(view) as u32)?,
            customers: warehouses[0].read(|view, first| {
                let district = view[first].districts.at(view, 0);
                view[district].customers.len(view) as u32
            })?,
        };
        Ok(Company { heap, items, warehouses, size })
    }

    pub fn warehouse(&self, number: u32) -> &Root<Warehouse<'static>> {
        &self.warehouses[number as usize - 1]
    }
}

/// Returns the name of a warehouse's root.
pub fn warehouse_name(number: u32) -> String {
    format!("warehouse {number}")
}
