//! Checks the consistency conditions of the specification, 3.3.2.1 to 3.3.2.12, and some more.
//!
//! They hold between any two transactions, so they must also hold after a crash at any moment, and recovery.

use pheap::{P, PBTreeMap, Result, View};

use crate::company::Company;
use crate::requests::Size;
use crate::tables::{Customer, DISTRICTS, District, History, Order, Warehouse};

/// Results of the check.
#[derive(Default)]
pub struct Findings {
    /// Number of orders in all districts.
    pub orders: u64,
    /// Conditions that do not hold.
    pub violations: Vec<String>,
}

impl Findings {
    pub fn expect(&mut self, holds: bool, condition: &str, place: &str) {
        if !holds {
            self.violations.push(format!("condition {condition} does not hold in {place}"));
        }
    }
}

pub fn check(company: &Company) -> Result<Findings> {
    let mut findings = Findings::default();
    let mut sums = Sums::new(company.size);
    // Payments and order lines may refer to customers and stocks of other warehouses, so these sums come
    // first.
    for warehouse in &company.warehouses {
        warehouse.read(|view, warehouse| sums.add(view, warehouse))?;
    }
    for (number, warehouse) in (1..).zip(&company.warehouses) {
        warehouse.read(|view, warehouse| check_warehouse(view, warehouse, number, &sums, &mut findings))?;
    }
    let report = company.heap.check()?;
    findings.expect(report.is_clean(), "of a sound heap", &format!("the file: {report:#?}"));
    Ok(findings)
}

/// Sums over all warehouses.
struct Sums {
    size: Size,
    /// Sum that each customer of all warehouses has paid.
    paid: Vec<u64>,
    /// Units and order lines that were taken from the stock of each warehouse since the load.
    sold: Vec<(u64, u64)>,
}

impl Sums {
    fn new(size: Size) -> Sums {
        let customers = size.warehouses as usize * DISTRICTS * size.customers as usize;
        Sums { size, paid: vec![0; customers], sold: vec![(0, 0); size.warehouses as usize] }
    }

    fn customer(&self, warehouse: u32, district: u8, customer: u32) -> usize {
        let district = (warehouse as usize - 1) * DISTRICTS + usize::from(district) - 1;
        district * self.size.customers as usize + customer as usize - 1
    }

    fn add<'r>(&mut self, view: &View<'r>, warehouse: P<'r, Warehouse<'r>>) {
        for district in &view[view[warehouse].districts] {
            for payment in district.history.values(view) {
                let History { customer_warehouse, customer_district, customer, amount, .. } = *payment;
                let customer = self.customer(customer_warehouse, customer_district, customer);
                self.paid[customer] += u64::from(amount);
            }
            // The orders of the load did not change stocks.
            for (_, order) in district.orders.range(view, self.size.customers + 1..) {
                for line in &view[order.lines] {
                    let (quantity, lines) = &mut self.sold[line.supplier as usize - 1];
                    *quantity += u64::from(line.quantity);
                    *lines += 1;
                }
            }
        }
    }
}

fn check_warehouse<'r>(
    view: &View<'r>,
    warehouse: P<'r, Warehouse<'r>>,
    number: u32,
    sums: &Sums,
    findings: &mut Findings,
) {
    let place = format!("warehouse {number}");
    let warehouse = &view[warehouse];
    let districts = &view[warehouse.districts];
    let by_districts: u64 = districts.iter().map(|district| district.paid).sum();
    findings.expect(warehouse.paid == by_districts, "1", &place);
    let by_history: u64 = districts.iter().map(|district| sum(view, &district.history)).sum();
    findings.expect(warehouse.paid == by_history, "8", &place);

    let levels = || view[warehouse.stock].iter().map(|stock| stock.level);
    let sold = (
        levels().map(|level| u64::from(level.sold)).sum(),
        levels().map(|level| u64::from(level.orders)).sum(),
    );
    findings.expect(sold == sums.sold[number as usize - 1], "of stocks and order lines", &place);

    for (district, d) in (1..).zip(districts) {
        let first = sums.customer(number, district, 1);
        let paid = &sums.paid[first..first + sums.size.customers as usize];
        check_district(view, d, sums.size, paid, &format!("district {district} of {place}"), findings);
    }
}

fn sum<'r>(view: &View<'r>, history: &PBTreeMap<'r, u32, History>) -> u64 {
    history.values(view).map(|payment| u64::from(payment.amount)).sum()
}

/// Checks a district. `paid` has the sum that each of its customers has paid.
fn check_district<'r>(
    view: &View<'r>,
    district: &District<'r>,
    size: Size,
    paid: &[u64],
    place: &str,
    findings: &mut Findings,
) {
    let customers = &view[district.customers];
    let new_orders: Vec<u32> = district.new_orders.iter(view).map(|new| new.order).collect();
    let is_new = |number| new_orders.binary_search(&number).is_ok();
    let (oldest, newest) = (new_orders.first(), new_orders.last());
    let last = district.orders.last_key_value(view).map_or(0, |(&number, _)| number);
    findings.expect(last == district.next_order - 1 && newest.is_none_or(|&new| new == last), "2", place);
    let range = oldest.zip(newest).map_or(0, |(oldest, newest)| newest + 1 - oldest) as usize;
    findings.expect(range == new_orders.len(), "3", place);
    findings.expect(district.paid == sum(view, &district.history), "9", place);

    let mut counts = (0, 0); // lines that orders count, and lines that exist
    let mut delivered = vec![0; customers.len()];
    let mut last_orders = vec![0; customers.len()];
    for (&number, order) in district.orders.iter(view) {
        findings.orders += 1;
        let place = &format!("order {number} of {place}");
        let lines = &view[order.lines];
        counts.0 += usize::from(order.line_count);
        counts.1 += lines.len();
        findings.expect(order.carrier.is_none() == is_new(number), "5", place);
        findings.expect(usize::from(order.line_count) == lines.len(), "6", place);
        findings.expect(lines.iter().all(|line| is_same(order, line.delivered.is_some())), "7", place);
        let customer = order.customer as usize - 1;
        let amounts = lines.iter().filter(|line| line.delivered.is_some()).map(|line| i64::from(line.amount));
        delivered[customer] += amounts.sum::<i64>();
        last_orders[customer] = number;
    }
    findings.expect(counts.0 == counts.1, "4", place);

    let deliveries: usize = customers.iter().map(|customer| customer.account.deliveries as usize).sum();
    // The specification has 2,100 here, which is true only before the first delivery.
    let loaded = size.first_new_order() as usize - 1;
    findings.expect(district.orders.len() - new_orders.len() == loaded + deliveries, "11", place);

    for (i, customer) in customers.iter().enumerate() {
        let place = &format!("customer {} of {place}", i + 1);
        let Customer { account, last_order, last, .. } = customer;
        findings.expect(account.balance == delivered[i] - paid[i] as i64, "10", place);
        findings.expect(account.balance + account.paid as i64 == delivered[i], "12", place);
        findings.expect(*last_order == last_orders[i], "of newest orders", place);
        let numbers = district.by_last_name.get(view, last.as_str());
        let is_found = numbers.is_some_and(|&numbers| view[numbers].contains(&(i as u32 + 1)));
        findings.expect(is_found, "of the index by last name", place);
    }
}

fn is_same(order: &Order, is_delivered: bool) -> bool {
    order.carrier.is_some() == is_delivered
}
