//! A customer pays, perhaps at another warehouse than the customer's own.

use std::io::Write;

use pheap::{Commit, P, Result, Txn, field, txn};

use super::find;
use crate::company::Company;
use crate::requests::{Answer, Payment};
use crate::rows::now;
use crate::tables::{Credit, Customer, History, Text, Warehouse};

pub(super) fn run(company: &Company, payment: &Payment) -> Result<(Answer, Commit)> {
    let here = company.warehouse(payment.warehouse);
    if payment.customer_warehouse == payment.warehouse {
        return here.txn_deferred(|tx, warehouse| {
            let (customer, balance) = pay(tx, warehouse, payment)?;
            take(tx, warehouse, payment, customer)?;
            Ok(Answer::Paid { customer, balance })
        });
    }
    // The customer's account is under another root. Both roots change, or none.
    let home = company.warehouse(payment.customer_warehouse);
    pheap::txn_deferred((here, home), |((tx, warehouse), (tx_home, home))| {
        let (customer, balance) = pay(tx_home, home, payment)?;
        take(tx, warehouse, payment, customer)?;
        Ok(Answer::Paid { customer, balance })
    })
}

/// Changes the customer. Returns the customer's number and balance.
#[txn]
fn pay<'r>(tx: &mut Txn<'r>, home: P<'r, Warehouse<'r>>, payment: &Payment) -> Result<(u32, i64)> {
    let district = tx[home].districts.at(tx, usize::from(payment.customer_district) - 1);
    let number = find(tx, district, &payment.who)?;
    let customer = tx[district].customers.at(tx, number as usize - 1);
    let mut account = tx[customer].account;
    account.balance -= i64::from(payment.amount);
    account.paid += u64::from(payment.amount);
    account.payments += 1;
    tx[customer].account = account;
    if tx[customer].credit == Credit::Bad {
        tx[customer].data = note(&tx[customer], payment, number);
    }
    Ok((number, account.balance))
}

/// Returns the notes on a customer with bad credit: this payment, and the notes before, cut off if too long.
fn note(customer: &Customer, payment: &Payment, number: u32) -> Text<500> {
    let mut text = Vec::with_capacity(600);
    let Payment { warehouse, district, customer_warehouse, customer_district, amount, .. } = payment;
    write!(text, "{number} {customer_district} {customer_warehouse} {district} {warehouse} {amount} ")
        .expect("there is memory");
    text.extend_from_slice(customer.data.as_bytes());
    Text::new(&text)
}

/// Changes the warehouse and the district that receive the payment.
#[txn]
fn take<'r>(
    tx: &mut Txn<'r>,
    warehouse: P<'r, Warehouse<'r>>,
    payment: &Payment,
    customer: u32,
) -> Result<()> {
    let district = tx[warehouse].districts.at(tx, usize::from(payment.district) - 1);
    tx[warehouse].paid += u64::from(payment.amount);
    tx[district].paid += u64::from(payment.amount);
    let names = [tx[warehouse].name.as_bytes(), b"    ", tx[district].name.as_bytes()].concat();
    let row = History {
        date: now(),
        amount: payment.amount,
        customer_warehouse: payment.customer_warehouse,
        customer,
        customer_district: payment.customer_district,
        district: payment.district,
        data: Text::new(&names),
    };
    let next = tx[district].history.len() as u32;
    field!(district.history).insert(tx, next, row)?;
    Ok(())
}
