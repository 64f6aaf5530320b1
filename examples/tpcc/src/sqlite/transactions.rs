//! The five transactions, in SQL.

use rusqlite::{Connection, OptionalExtension as _, Result, Transaction, TransactionBehavior, params};

use crate::random::is_original;
use crate::requests::{Answer, NewOrder, Payment, Request, Who};
use crate::rows::now;
use crate::tables::{DISTRICTS, ONE, Text};

pub(super) fn run(connection: &mut Connection, request: &Request) -> Result<Answer> {
    // Transactions that write lock the database when they begin. Otherwise a transaction that has read could
    // not write any more after another one has written.
    let behavior = match request {
        Request::OrderStatus { .. } | Request::StockLevel { .. } => TransactionBehavior::Deferred,
        _ => TransactionBehavior::Immediate,
    };
    let txn = connection.transaction_with_behavior(behavior)?;
    let answer = match request {
        Request::NewOrder(order) => new_order(&txn, order)?,
        Request::Payment(payment) => pay(&txn, payment)?,
        Request::OrderStatus { warehouse, district, who } => order_status(&txn, *warehouse, *district, who)?,
        Request::Delivery { warehouse, carrier } => delivery(&txn, *warehouse, *carrier)?,
        Request::StockLevel { warehouse, district, threshold } => {
            stock_level(&txn, *warehouse, *district, *threshold)?
        }
    };
    if answer == Answer::RolledBack {
        txn.rollback()?
    } else {
        txn.commit()?
    }
    Ok(answer)
}

fn new_order(txn: &Transaction, order: &NewOrder) -> Result<Answer> {
    let NewOrder { warehouse: w, district: d, customer: c, lines } = order;
    let w_tax: u32 =
        txn.prepare_cached("SELECT w_tax FROM warehouse WHERE w_id = ?")?.query_row([w], |row| row.get(0))?;
    let (number, d_tax): (u32, u32) = txn
        .prepare_cached(
            "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = ? AND d_id = ?
             RETURNING d_next_o_id - 1, d_tax",
        )?
        .query_row(params![w, d], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let discount: u32 = txn
        .prepare_cached(
            "UPDATE customer SET c_last_order = ? WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?
             RETURNING c_discount",
        )?
        .query_row(params![number, w, d, c], |row| row.get(0))?;
    let all_local = lines.iter().all(|line| line.supplier == *w);
    txn.prepare_cached("INSERT INTO orders VALUES (?, ?, ?, ?, ?, NULL, ?, ?)")?.execute(params![
        w,
        d,
        number,
        c,
        now() as i64,
        lines.len() as u32,
        all_local
    ])?;
    txn.prepare_cached("INSERT INTO new_order VALUES (?, ?, ?)")?.execute(params![w, d, number])?;

    let mut item = txn.prepare_cached("SELECT i_price, i_data FROM item WHERE i_id = ?")?;
    let mut take = txn.prepare_cached(
        "UPDATE stock SET
             s_quantity = s_quantity - ?3 + iif(s_quantity - ?3 < 10, 91, 0),
             s_ytd = s_ytd + ?3, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + ?4
         WHERE s_w_id = ?1 AND s_i_id = ?2 RETURNING substr(s_dist, ?5, 24), s_data",
    )?;
    let mut insert = txn.prepare_cached("INSERT INTO order_line VALUES (?, ?, ?, ?, ?, ?, NULL, ?, ?, ?)")?;
    let (mut sum, mut branded) = (0, 0);
    for (i, line) in (1u32..).zip(lines) {
        let found =
            item.query_row([line.item], |row| Ok((row.get(0)?, is_original(&data(row, 1)?)))).optional()?;
        let Some((price, is_original_item)): Option<(u32, bool)> = found else {
            return Ok(Answer::RolledBack);
        };
        let is_remote = line.supplier != *w;
        let at = (u32::from(*d) - 1) * 24 + 1;
        let (info, is_original_stock): (String, bool) = take
            .query_row(params![line.supplier, line.item, line.quantity, is_remote, at], |row| {
                Ok((row.get(0)?, is_original_item && is_original(&data(row, 1)?)))
            })?;
        branded += usize::from(is_original_stock);
        let amount = u32::from(line.quantity) * price;
        sum += u64::from(amount);
        insert.execute(params![w, d, number, i, line.item, line.supplier, line.quantity, amount, info])?;
    }
    let taxed = sum * u64::from(ONE + w_tax + d_tax) / u64::from(ONE);
    Ok(Answer::Ordered { order: number, total: taxed * u64::from(ONE - discount) / u64::from(ONE), branded })
}

fn data(row: &rusqlite::Row, column: usize) -> Result<Text<50>> {
    Ok(Text::new(row.get_ref(column)?.as_blob()?))
}

/// Returns the number of a customer. If several customers have the last name, it is the middle one by first
/// name.
fn find(txn: &Transaction, warehouse: u32, district: u8, who: &Who) -> Result<u32> {
    let name = match who {
        Who::Number(number) => return Ok(*number),
        Who::LastName(name) => name,
    };
    let mut select = txn.prepare_cached(
        "SELECT c_id FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_last = ? ORDER BY c_first, c_id",
    )?;
    let numbers = select.query_map(params![warehouse, district, name.as_str()], |row| row.get(0))?;
    let numbers = numbers.collect::<Result<Vec<u32>>>()?;
    Ok(numbers[numbers.len().div_ceil(2) - 1])
}

fn pay(txn: &Transaction, payment: &Payment) -> Result<Answer> {
    let Payment { warehouse: w, district: d, customer_warehouse: c_w, customer_district: c_d, who, amount } =
        payment;
    let customer = find(txn, *c_w, *c_d, who)?;
    let (balance, credit): (i64, String) = txn
        .prepare_cached(
            "UPDATE customer SET c_balance = c_balance - ?1, c_ytd_payment = c_ytd_payment + ?1,
             c_payment_cnt = c_payment_cnt + 1 WHERE c_w_id = ?2 AND c_d_id = ?3 AND c_id = ?4
             RETURNING c_balance, c_credit",
        )?
        .query_row(params![amount, c_w, c_d, customer], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if credit == "BC" {
        let note = format!("{customer} {c_d} {c_w} {d} {w} {amount} ");
        txn.prepare_cached(
            "UPDATE customer SET c_data = CAST(substr(CAST(? AS BLOB) || c_data, 1, 500) AS BLOB)
             WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
        )?
        .execute(params![note, c_w, c_d, customer])?;
    }
    let w_name: String = txn
        .prepare_cached("UPDATE warehouse SET w_ytd = w_ytd + ? WHERE w_id = ? RETURNING w_name")?
        .query_row(params![amount, w], |row| row.get(0))?;
    let d_name: String = txn
        .prepare_cached(
            "UPDATE district SET d_ytd = d_ytd + ? WHERE d_w_id = ? AND d_id = ? RETURNING d_name",
        )?
        .query_row(params![amount, w, d], |row| row.get(0))?;
    let names = format!("{w_name}    {d_name}");
    txn.prepare_cached("INSERT INTO history VALUES (?, ?, ?, ?, ?, ?, ?, ?)")?.execute(params![
        customer,
        c_d,
        c_w,
        d,
        w,
        now() as i64,
        amount,
        names
    ])?;
    Ok(Answer::Paid { customer, balance })
}

fn order_status(txn: &Transaction, w: u32, d: u8, who: &Who) -> Result<Answer> {
    let customer = find(txn, w, d, who)?;
    let (balance, order): (i64, u32) = txn
        .prepare_cached(
            "SELECT c_balance, c_last_order FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
        )?
        .query_row(params![w, d, customer], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let carrier = txn
        .prepare_cached("SELECT o_carrier_id FROM orders WHERE o_w_id = ? AND o_d_id = ? AND o_id = ?")?
        .query_row(params![w, d, order], |row| row.get(0))?;
    let mut lines = txn.prepare_cached(
        "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount FROM order_line
         WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?",
    )?;
    let lines = lines
        .query_map(params![w, d, order], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
    Ok(Answer::Status { customer, balance, order, carrier, lines: lines.collect::<Result<_>>()? })
}

fn delivery(txn: &Transaction, w: u32, carrier: u8) -> Result<Answer> {
    let mut pop = txn.prepare_cached(
        "DELETE FROM new_order WHERE no_w_id = ?1 AND no_d_id = ?2 AND no_o_id =
             (SELECT min(no_o_id) FROM new_order WHERE no_w_id = ?1 AND no_d_id = ?2)
         RETURNING no_o_id",
    )?;
    let mut order = txn.prepare_cached(
        "UPDATE orders SET o_carrier_id = ? WHERE o_w_id = ? AND o_d_id = ? AND o_id = ? RETURNING o_c_id",
    )?;
    let mut lines = txn.prepare_cached(
        "UPDATE order_line SET ol_delivery_d = ? WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?
         RETURNING ol_amount",
    )?;
    let mut customer = txn.prepare_cached(
        "UPDATE customer SET c_balance = c_balance + ?, c_delivery_cnt = c_delivery_cnt + 1
         WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
    )?;
    let now = now() as i64;
    let mut orders = [None; DISTRICTS];
    for (d, delivered) in (1u8..).zip(&mut orders) {
        *delivered = pop.query_row(params![w, d], |row| row.get(0)).optional()?;
        let Some(number) = *delivered else { continue };
        let buyer: u32 = order.query_row(params![carrier, w, d, number], |row| row.get(0))?;
        let amounts = lines.query_map(params![now, w, d, number], |row| row.get::<_, i64>(0))?;
        let sum: i64 = amounts.sum::<Result<i64>>()?;
        customer.execute(params![sum, w, d, buyer])?;
    }
    Ok(Answer::Delivered { orders })
}

fn stock_level(txn: &Transaction, w: u32, d: u8, threshold: i32) -> Result<Answer> {
    let next: u32 = txn
        .prepare_cached("SELECT d_next_o_id FROM district WHERE d_w_id = ? AND d_id = ?")?
        .query_row(params![w, d], |row| row.get(0))?;
    let items: u32 = txn
        .prepare_cached(
            "SELECT count(DISTINCT s_i_id) FROM order_line JOIN stock ON s_w_id = ol_w_id AND s_i_id = ol_i_id
             WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id >= ? AND ol_o_id < ? AND s_quantity < ?",
        )?
        .query_row(params![w, d, next.saturating_sub(20), next, threshold], |row| row.get(0))?;
    Ok(Answer::Short { items: items as usize })
}
