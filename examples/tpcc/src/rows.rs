//! Makes the rows of the load.

use std::num::{NonZeroU8, NonZeroU64};
use std::time::SystemTime;

use crate::random::{Random, last_name};
use crate::requests::Size;
use crate::tables::{
    Account, Address, Credit, Customer, DISTRICTS, History, Item, Level, OrderLine, Stock, Text,
};

/// Amount that each customer has paid before the first transaction, in cents.
pub const FIRST_PAYMENT: u32 = 1000;

/// Returns the present time, in microseconds since 1970.
pub fn now() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(1, |since| since.as_micros() as u64)
}

/// A district, with its customers, payments and orders.
pub struct LoadedDistrict {
    pub name: Text<10>,
    pub tax: u32,
    pub address: Address,
    pub customers: Vec<Customer>,
    pub history: Vec<History>,
    pub orders: Vec<LoadedOrder>,
}

pub struct LoadedOrder {
    pub entered: u64,
    pub customer: u32,
    pub carrier: Option<NonZeroU8>,
    pub lines: Vec<OrderLine>,
}

/// Returns the amount that so many customers have paid before the first transaction, in cents.
pub fn paid(customers: u32) -> u64 {
    u64::from(FIRST_PAYMENT) * u64::from(customers)
}

pub fn district(random: &mut Random, size: Size, warehouse: u32, number: u8, now: u64) -> LoadedDistrict {
    // Each customer has one order.
    let buyers = random.permutation(size.customers);
    let mut customers: Vec<Customer> =
        (1..=size.customers).map(|number| customer(random, number, size, now)).collect();
    for (order, &buyer) in (1..).zip(&buyers) {
        customers[buyer as usize - 1].last_order = order;
    }
    let history =
        (1..=size.customers).map(|customer| history(random, warehouse, number, customer, now)).collect();
    let orders =
        (1..).zip(buyers).map(|(number, buyer)| order(random, size, warehouse, number, buyer, now)).collect();
    LoadedDistrict {
        name: name(random),
        tax: tax(random),
        address: address(random),
        customers,
        history,
        orders,
    }
}

pub fn item(random: &mut Random) -> Item {
    Item {
        image: random.within(1, 10_000),
        price: random.within(100, 10_000),
        name: random.text(14),
        data: random.data(),
    }
}

pub fn stock(random: &mut Random) -> Stock {
    Stock {
        level: Level { quantity: random.within(10, 100) as i32, sold: 0, orders: 0, remote_orders: 0 },
        info: std::array::from_fn(|_| random.letters()),
        data: random.data(),
    }
}

/// Returns a name for a warehouse or district.
pub fn name(random: &mut Random) -> Text<10> {
    random.text(6)
}

/// Returns a tax rate for a warehouse or district.
pub fn tax(random: &mut Random) -> u32 {
    random.within(0, 2000)
}

pub fn address(random: &mut Random) -> Address {
    let mut zip = *b"000011111";
    zip[..4].copy_from_slice(&random.digits::<4>());
    Address {
        street_1: random.text(10),
        street_2: random.text(10),
        city: random.text(10),
        state: random.letters(),
        zip,
    }
}

/// Returns the customer with this number.
fn customer(random: &mut Random, number: u32, size: Size, since: u64) -> Customer {
    Customer {
        account: Account {
            balance: -i64::from(FIRST_PAYMENT),
            paid: FIRST_PAYMENT.into(),
            payments: 1,
            deliveries: 0,
        },
        last_order: 0,
        discount: random.within(0, 5000),
        credit_limit: 5_000_000,
        since,
        credit: if random.percent(10) { Credit::Bad } else { Credit::Good },
        first: random.text(8),
        middle: *b"OE",
        last: if number <= 1000 { last_name(number - 1) } else { random.loaded_last_name(size.customers) },
        address: address(random),
        phone: random.digits(),
        data: random.text(300),
    }
}

/// Returns the first payment of this customer of the district.
fn history(random: &mut Random, warehouse: u32, district: u8, customer: u32, date: u64) -> History {
    History {
        date,
        amount: FIRST_PAYMENT,
        customer_warehouse: warehouse,
        customer,
        customer_district: district,
        district,
        data: random.text(12),
    }
}

/// Returns the order with this number, of this customer.
fn order(
    random: &mut Random,
    size: Size,
    warehouse: u32,
    number: u32,
    customer: u32,
    entered: u64,
) -> LoadedOrder {
    let delivered = number < size.first_new_order();
    let carrier = if delivered { NonZeroU8::new(random.within(1, 10) as u8) } else { None };
    let lines = (0..random.within(5, 15)).map(|_| OrderLine {
        delivered: if delivered { NonZeroU64::new(entered) } else { None },
        item: random.within(1, size.items),
        supplier: warehouse,
        amount: if delivered { 0 } else { random.within(1, 999_999) },
        quantity: 5,
        info: random.letters(),
    });
    LoadedOrder { entered, customer, carrier, lines: lines.collect() }
}

/// Returns the approximate number of a warehouse's rows: stock, customers, payments and orders.
pub fn rows_of_a_warehouse(size: Size) -> u64 {
    u64::from(size.items) + DISTRICTS as u64 * u64::from(size.customers) * 3
}
