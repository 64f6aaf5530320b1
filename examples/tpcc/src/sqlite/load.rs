//! Fills a database with the same rows as a heap, except for times. One transaction loads a warehouse.

use std::path::Path;

use indicatif::ProgressBar;
use rusqlite::{Transaction, params};

use super::connect;
use crate::Result;
use crate::random::Random;
use crate::requests::Size;
use crate::rows::{self, LoadedDistrict};
use crate::tables::{Address, Credit, Customer, DISTRICTS};

pub fn load(path: &Path, size: Size, seed: u64, progress: &ProgressBar) -> Result<()> {
    let mut connection = connect(path, "NORMAL")?;
    let txn = connection.transaction()?;
    txn.execute_batch(include_str!("schema.sql"))?;
    let random = &mut Random::new(seed, 0);
    let mut insert = txn.prepare("INSERT INTO item VALUES (?, ?, ?, ?, ?)")?;
    for number in 1..=size.items {
        let item = rows::item(random);
        insert.execute(params![number, item.image, item.price, item.name.as_str(), item.data.as_bytes()])?;
    }
    drop(insert);
    txn.commit()?;
    for number in 1..=size.warehouses {
        let txn = connection.transaction()?;
        warehouse(&txn, size, number, &mut Random::new(seed, number.into()), progress)?;
        txn.commit()?;
    }
    Ok(())
}

fn warehouse(
    txn: &Transaction,
    size: Size,
    number: u32,
    random: &mut Random,
    progress: &ProgressBar,
) -> Result<()> {
    let now = rows::now();
    let mut insert = txn.prepare("INSERT INTO stock VALUES (?, ?, ?, 0, 0, 0, ?, ?)")?;
    for item in 1..=size.items {
        let stock = rows::stock(random);
        let info = stock.info.concat();
        insert.execute(params![number, item, stock.level.quantity, text(&info), stock.data.as_bytes()])?;
    }
    progress.inc(size.items.into());
    for d in 1..=DISTRICTS as u8 {
        let loaded = rows::district(random, size, number, d, now);
        district(txn, size, number, d, &loaded, now)?;
        progress.inc(u64::from(size.customers) * 3);
    }
    let paid = rows::paid(size.customers) as i64 * DISTRICTS as i64;
    let (tax, name, at) = (rows::tax(random), rows::name(random), rows::address(random));
    let [a, b, c, d, e] = columns(&at);
    txn.execute(
        "INSERT INTO warehouse VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        params![number, paid, tax, name.as_str(), a, b, c, d, e],
    )?;
    Ok(())
}

fn district(txn: &Transaction, size: Size, w: u32, d: u8, loaded: &LoadedDistrict, now: u64) -> Result<()> {
    let paid = rows::paid(size.customers) as i64;
    let [at1, at2, at3, at4, at5] = columns(&loaded.address);
    txn.execute(
        "INSERT INTO district VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        params![w, d, paid, loaded.tax, size.customers + 1, loaded.name.as_str(), at1, at2, at3, at4, at5],
    )?;
    let mut insert = txn.prepare_cached(
        "INSERT INTO customer VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )?;
    for (number, customer) in (1u32..).zip(&loaded.customers) {
        let Customer { account, last_order, discount, credit_limit, since, credit, .. } = *customer;
        let credit = if credit == Credit::Good { "GC" } else { "BC" };
        let [at1, at2, at3, at4, at5] = columns(&customer.address);
        insert.execute(params![
            w,
            d,
            number,
            account.balance,
            account.paid as i64,
            account.payments,
            account.deliveries,
            last_order,
            discount,
            credit_limit as i64,
            since as i64,
            credit,
            customer.first.as_str(),
            text(&customer.middle),
            customer.last.as_str(),
            at1,
            at2,
            at3,
            at4,
            at5,
            text(&customer.phone),
            customer.data.as_bytes()
        ])?;
    }
    let mut insert = txn.prepare_cached("INSERT INTO history VALUES (?, ?, ?, ?, ?, ?, ?, ?)")?;
    for row in &loaded.history {
        insert.execute(params![row.customer, d, w, d, w, now as i64, row.amount, row.data.as_str()])?;
    }
    orders(txn, size, w, d, loaded)
}

fn orders(txn: &Transaction, size: Size, w: u32, d: u8, loaded: &LoadedDistrict) -> Result<()> {
    let mut order = txn.prepare_cached("INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?, ?, 1)")?;
    let mut line = txn.prepare_cached("INSERT INTO order_line VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")?;
    let mut new = txn.prepare_cached("INSERT INTO new_order VALUES (?, ?, ?)")?;
    for (number, row) in (1u32..).zip(&loaded.orders) {
        let carrier = row.carrier.map(|carrier| carrier.get());
        order.execute(params![
            w,
            d,
            number,
            row.customer,
            row.entered as i64,
            carrier,
            row.lines.len() as u32
        ])?;
        for (i, l) in (1u32..).zip(&row.lines) {
            let delivered = l.delivered.map(|when| when.get() as i64);
            let info = text(&l.info);
            line.execute(params![
                w, d, number, i, l.item, l.supplier, delivered, l.quantity, l.amount, info
            ])?;
        }
        if number >= size.first_new_order() {
            new.execute(params![w, d, number])?;
        }
    }
    Ok(())
}

fn columns(address: &Address) -> [&str; 5] {
    let Address { street_1, street_2, city, state, zip } = address;
    [street_1.as_str(), street_2.as_str(), city.as_str(), text(state), text(zip)]
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("it is ASCII")
}
