//! A customer orders 5 to 15 items. Some may come from other warehouses.

use pheap::{Commit, Error, P, Result, Root, Txn, field, txn};

use crate::company::Company;
use crate::random::is_original;
use crate::requests::{Answer, Line, NewOrder as Request};
use crate::rows::now;
use crate::tables::{NewOrder, ONE, Order, OrderLine, Warehouse};

pub(super) fn run(company: &Company, order: &Request) -> Result<(Answer, Commit)> {
    let goods = look_up(company, &order.lines)?;
    let lines = || order.lines.iter().zip(&goods);
    let suppliers = suppliers(order);
    if let [_] = suppliers[..] {
        return company.warehouse(order.warehouse).txn_deferred(|tx, warehouse| {
            let mut sold = Vec::with_capacity(goods.len());
            for (line, goods) in lines() {
                sold.push(sell(tx, warehouse, order, line, goods.as_ref())?);
            }
            place(tx, warehouse, order, &sold)
        });
    }
    let roots: Vec<Root<Warehouse>> =
        suppliers.iter().map(|&number| company.warehouse(number).clone()).collect();
    pheap::txn_deferred(&roots[..], |mut roots| {
        let mut sold = Vec::with_capacity(goods.len());
        for (line, goods) in lines() {
            let index = suppliers.iter().position(|&number| number == line.supplier).expect("all are there");
            sold.push(roots.with(index, |tx, warehouse| sell(tx, warehouse, order, line, goods.as_ref()))?);
        }
        roots.with(0, |tx, warehouse| place(tx, warehouse, order, &sold))
    })
}

/// Returns the warehouses that take part, each once. The first one is that of the order.
fn suppliers(order: &Request) -> Vec<u32> {
    let mut suppliers = vec![order.warehouse];
    for line in &order.lines {
        if !suppliers.contains(&line.supplier) {
            suppliers.push(line.supplier);
        }
    }
    suppliers
}

/// The properties of an item that an order needs.
struct Goods {
    price: u32,
    is_original: bool,
}

/// Looks up the items, with `None` for those that do not exist. Items never change, so they can be read
/// before the transaction.
fn look_up(company: &Company, lines: &[Line]) -> Result<Vec<Option<Goods>>> {
    company.items.read(|view, items| {
        let items = &view[view[items]];
        let look = |line: &Line| {
            let item = items.get(line.item as usize - 1)?;
            Some(Goods { price: item.price, is_original: is_original(&item.data) })
        };
        lines.iter().map(look).collect()
    })
}

/// An order line, and whether its item is branded.
struct Sold {
    line: OrderLine,
    is_branded: bool,
}

/// Takes the quantity of a line from the stock of its supplier. If the item does not exist, the transaction
/// fails, and the changes for other lines are rolled back.
#[txn]
fn sell<'r>(
    tx: &mut Txn<'r>,
    supplier: P<'r, Warehouse<'r>>,
    order: &Request,
    line: &Line,
    goods: Option<&Goods>,
) -> Result<Sold> {
    let goods = goods.ok_or_else(|| Error::abort("there is no such item"))?;
    let stock = tx[supplier].stock.at(tx, line.item as usize - 1);
    let mut level = tx[stock].level;
    level.quantity -= i32::from(line.quantity);
    if level.quantity < 10 {
        level.quantity += 91; // the stock is refilled at once
    }
    level.sold += u32::from(line.quantity);
    level.orders += 1;
    level.remote_orders += u32::from(line.supplier != order.warehouse);
    tx[stock].level = level;
    let line = OrderLine {
        delivered: None,
        item: line.item,
        supplier: line.supplier,
        amount: u32::from(line.quantity) * goods.price,
        quantity: line.quantity,
        info: tx[stock].info[usize::from(order.district) - 1],
    };
    Ok(Sold { line, is_branded: goods.is_original && is_original(&tx[stock].data) })
}

/// Enters the order. Returns the answer.
#[txn]
fn place<'r>(
    tx: &mut Txn<'r>,
    warehouse: P<'r, Warehouse<'r>>,
    order: &Request,
    sold: &[Sold],
) -> Result<Answer> {
    let district = tx[warehouse].districts.at(tx, usize::from(order.district) - 1);
    let number = tx[district].next_order;
    tx[district].next_order = number + 1;
    let customer = tx[district].customers.at(tx, order.customer as usize - 1);
    tx[customer].last_order = number;

    let row = Order {
        entered: now(),
        lines: tx.alloc_slice(sold.len(), |i| sold[i].line)?,
        customer: order.customer,
        line_count: sold.len() as u8,
        all_local: sold.iter().all(|sold| sold.line.supplier == order.warehouse),
        carrier: None,
    };
    field!(district.orders).insert(tx, number, row)?;
    field!(district.new_orders).push_back(tx, NewOrder { order: number })?;

    let sum: u64 = sold.iter().map(|sold| u64::from(sold.line.amount)).sum();
    let taxed = sum * u64::from(ONE + tx[warehouse].tax + tx[district].tax) / u64::from(ONE);
    Ok(Answer::Ordered {
        order: number,
        total: taxed * u64::from(ONE - tx[customer].discount) / u64::from(ONE),
        branded: sold.iter().filter(|sold| sold.is_branded).count(),
    })
}
