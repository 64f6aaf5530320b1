//! The consistency conditions. Each is a query for the rows that violate it.

use std::path::Path;

use super::connect;
use crate::Result;
use crate::check::Findings;

const CONDITIONS: [(&str, &str); 13] = [
    (
        "1",
        "SELECT w_id FROM warehouse WHERE w_ytd <> (SELECT sum(d_ytd) FROM district WHERE d_w_id = w_id)",
    ),
    (
        "2",
        "SELECT d_w_id, d_id FROM district
         WHERE d_next_o_id - 1 <> (SELECT max(o_id) FROM orders WHERE o_w_id = d_w_id AND o_d_id = d_id)
            OR d_next_o_id - 1 <> (SELECT max(no_o_id) FROM new_order WHERE no_w_id = d_w_id AND no_d_id = d_id)",
    ),
    (
        "3",
        "SELECT no_w_id, no_d_id FROM new_order GROUP BY no_w_id, no_d_id
         HAVING max(no_o_id) - min(no_o_id) + 1 <> count(*)",
    ),
    (
        "4",
        "SELECT d_w_id, d_id FROM district
         WHERE (SELECT sum(o_ol_cnt) FROM orders WHERE o_w_id = d_w_id AND o_d_id = d_id)
            <> (SELECT count(*) FROM order_line WHERE ol_w_id = d_w_id AND ol_d_id = d_id)",
    ),
    (
        "5",
        "SELECT o_w_id, o_d_id, o_id FROM orders
         LEFT JOIN new_order ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id
         WHERE (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL)",
    ),
    (
        "6",
        "SELECT o_w_id, o_d_id, o_id FROM orders WHERE o_ol_cnt <>
         (SELECT count(*) FROM order_line WHERE ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id)",
    ),
    (
        "7",
        "SELECT o_w_id, o_d_id, o_id FROM orders
         JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
         WHERE (o_carrier_id IS NULL) <> (ol_delivery_d IS NULL)",
    ),
    (
        "8",
        "SELECT w_id FROM warehouse WHERE w_ytd <> (SELECT sum(h_amount) FROM history WHERE h_w_id = w_id)",
    ),
    (
        "9",
        "SELECT d_w_id, d_id FROM district JOIN
         (SELECT h_w_id, h_d_id, sum(h_amount) AS paid FROM history GROUP BY h_w_id, h_d_id)
         ON h_w_id = d_w_id AND h_d_id = d_id WHERE d_ytd <> paid",
    ),
    (
        "10",
        "SELECT c_w_id, c_d_id, c_id FROM customer JOIN paid USING (c_w_id, c_d_id, c_id)
         LEFT JOIN delivered USING (c_w_id, c_d_id, c_id) WHERE c_balance <> ifnull(due, 0) - paid",
    ),
    (
        "11",
        "SELECT d_w_id, d_id FROM district
         WHERE (SELECT count(*) FROM orders WHERE o_w_id = d_w_id AND o_d_id = d_id)
             - (SELECT count(*) FROM new_order WHERE no_w_id = d_w_id AND no_d_id = d_id)
            <> (SELECT sum(c_delivery_cnt) + count(*) * 7 / 10 FROM customer WHERE c_w_id = d_w_id AND c_d_id = d_id)",
    ),
    (
        "12",
        "SELECT c_w_id, c_d_id, c_id FROM customer LEFT JOIN delivered USING (c_w_id, c_d_id, c_id)
         WHERE c_balance + c_ytd_payment <> ifnull(due, 0)",
    ),
    (
        "of stocks and order lines",
        "SELECT w_id FROM warehouse WHERE
         (SELECT sum(s_order_cnt) FROM stock WHERE s_w_id = w_id) <>
         (SELECT count(*) FROM order_line WHERE ol_supply_w_id = w_id AND ol_o_id > (SELECT max(c_id) FROM customer))",
    ),
];

/// Sums that each customer has paid, and that each owes for deliveries.
const SUMS: &str = "
    CREATE TEMP TABLE paid AS
        SELECT h_c_w_id AS c_w_id, h_c_d_id AS c_d_id, h_c_id AS c_id, sum(h_amount) AS paid
        FROM history GROUP BY 1, 2, 3;
    CREATE TEMP TABLE delivered AS
        SELECT o_w_id AS c_w_id, o_d_id AS c_d_id, o_c_id AS c_id, sum(ol_amount) AS due
        FROM orders JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
        WHERE ol_delivery_d IS NOT NULL GROUP BY 1, 2, 3;
    CREATE INDEX by_payer ON paid (c_w_id, c_d_id, c_id);
    CREATE INDEX by_debtor ON delivered (c_w_id, c_d_id, c_id);";

pub fn check(path: &Path) -> Result<Findings> {
    let connection = connect(path, "FULL")?;
    connection.execute_batch(SUMS)?;
    let orders: u32 = connection.query_row("SELECT count(*) FROM orders", [], |row| row.get(0))?;
    let mut findings = Findings { orders: orders.into(), ..Findings::default() };
    for (condition, violated) in CONDITIONS {
        let count = format!("SELECT count(*) FROM ({violated})");
        let rows: u32 = connection.query_row(&count, [], |row| row.get(0))?;
        findings.expect(rows == 0, condition, &format!("{rows} rows"));
    }
    Ok(findings)
}
