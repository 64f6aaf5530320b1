//! Fills a heap. One transaction loads a warehouse, so the heap has all of it or nothing. If an interrupted
//! load is run again, it adds the missing warehouses.

use std::collections::BTreeMap;

use indicatif::ProgressBar;
use pheap::{Heap, P, PBTreeMap, PVecDeque, Result, Root, Txn, field};

use crate::company::warehouse_name;
use crate::random::Random;
use crate::requests::Size;
use crate::rows::{self, LoadedDistrict};
use crate::tables::{Customer, DISTRICTS, District, Items, NewOrder, Order, Warehouse};

pub fn load(heap: &Heap, size: Size, seed: u64, progress: &ProgressBar) -> Result<()> {
    let _: Root<Items> = heap.root_or("items", |tx| {
        let random = &mut Random::new(seed, 0);
        tx.alloc_slice(size.items as usize, |_| rows::item(random))
    })?;
    progress.inc(size.items.into());
    for number in 1..=size.warehouses {
        let random = Random::new(seed, number.into());
        let mut load = Load { random, size, number, now: rows::now(), progress };
        let _: Root<Warehouse> = heap.root_or(&warehouse_name(number), |tx| load.warehouse(tx))?;
    }
    Ok(())
}

/// A warehouse that is being loaded.
struct Load<'a> {
    random: Random,
    size: Size,
    number: u32,
    now: u64,
    progress: &'a ProgressBar,
}

impl Load<'_> {
    fn warehouse<'r>(&mut self, tx: &mut Txn<'r>) -> Result<Warehouse<'r>> {
        let stock = tx.alloc_slice(self.size.items as usize, |_| rows::stock(&mut self.random))?;
        self.progress.inc(self.size.items.into());
        let mut rows: Vec<LoadedDistrict> = Vec::new();
        let mut districts: Vec<District> = Vec::new();
        for number in 1..=DISTRICTS as u8 {
            let loaded = rows::district(&mut self.random, self.size, self.number, number, self.now);
            districts.push(self.district(tx, &loaded)?);
            rows.push(loaded);
            self.progress.inc(u64::from(self.size.customers) * 3);
        }
        let mut districts = districts.into_iter();
        let districts = tx.alloc_slice(DISTRICTS, |_| districts.next().expect("there are as many"))?;
        // Collections are filled in place, in the heap.
        for (i, loaded) in rows.iter().enumerate() {
            fill(tx, districts.at(tx, i), loaded, self.size)?;
        }
        Ok(Warehouse {
            paid: rows::paid(self.size.customers) * DISTRICTS as u64,
            tax: rows::tax(&mut self.random),
            name: rows::name(&mut self.random),
            address: rows::address(&mut self.random),
            districts,
            stock,
        })
    }

    fn district<'r>(&self, tx: &Txn<'r>, loaded: &LoadedDistrict) -> Result<District<'r>> {
        Ok(District {
            paid: rows::paid(self.size.customers),
            tax: loaded.tax,
            next_order: self.size.customers + 1,
            name: loaded.name,
            address: loaded.address,
            customers: tx.alloc_slice_copy(&loaded.customers)?,
            by_last_name: PBTreeMap::new(),
            orders: PBTreeMap::new(),
            new_orders: PVecDeque::new(),
            history: PBTreeMap::new(),
        })
    }
}

fn fill<'r>(
    tx: &mut Txn<'r>,
    district: P<'r, District<'r>>,
    loaded: &LoadedDistrict,
    size: Size,
) -> Result<()> {
    for (last_name, numbers) in by_last_name(&loaded.customers) {
        let numbers = tx.alloc_slice_copy(&numbers)?;
        field!(district.by_last_name).insert(tx, last_name, numbers)?;
    }
    for (number, payment) in (0..).zip(&loaded.history) {
        field!(district.history).insert(tx, number, *payment)?;
    }
    for (number, order) in (1..).zip(&loaded.orders) {
        let lines = tx.alloc_slice_copy(&order.lines)?;
        let (customer, line_count, carrier) = (order.customer, order.lines.len() as u8, order.carrier);
        let order = Order { entered: order.entered, lines, customer, line_count, all_local: true, carrier };
        field!(district.orders).insert(tx, number, order)?;
    }
    let new_orders = size.first_new_order()..=size.customers;
    field!(district.new_orders).extend(tx, new_orders.map(|order| NewOrder { order }))
}

/// Returns the numbers of the customers with each last name, in the order of their first names.
fn by_last_name(customers: &[Customer]) -> BTreeMap<&str, Vec<u32>> {
    let mut numbers: Vec<u32> = (1..=customers.len() as u32).collect();
    numbers.sort_by_key(|&number| customers[number as usize - 1].first);
    let mut names: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for number in numbers {
        names.entry(customers[number as usize - 1].last.as_str()).or_default().push(number);
    }
    names
}
