//! The nine tables, as structs.
//!
//! Each warehouse is a separate root, with its own lock and its own log, so transactions of different
//! warehouses run concurrently. Tables without new rows are arrays, where the number of a row gives its
//! index. Orders and history are B-trees. Money is in cents. Rates are fractions of [`ONE`]. Times are in
//! microseconds since 1970.

use std::num::{NonZeroU8, NonZeroU64};

use pheap::{P, PBTreeMap, PVecDeque, Persist};

/// Districts of a warehouse.
pub const DISTRICTS: usize = 10;

/// The rate of 100 %, for taxes and discounts.
pub const ONE: u32 = 10_000;

/// The items that all warehouses sell, by number less 1. They never change, and are a separate root.
pub type Items<'r> = P<'r, [Item]>;

#[derive(Persist, Clone, Copy)]
#[repr(C)]
pub struct Item {
    pub image: u32,
    pub price: u32,
    pub name: Text<24>,
    pub data: Text<50>,
}

/// A root: a warehouse, with all its rows.
#[derive(Persist)]
#[repr(C)]
pub struct Warehouse<'r> {
    /// Sum of all payments to the warehouse, in cents.
    pub paid: u64,
    pub tax: u32,
    pub name: Text<10>,
    pub address: Address,
    /// The districts, by number less 1.
    pub districts: P<'r, [District<'r>]>,
    /// The stock, by the item's number less 1.
    pub stock: P<'r, [Stock]>,
}

#[derive(Persist)]
#[repr(C)]
pub struct District<'r> {
    pub paid: u64,
    pub tax: u32,
    /// Number of the next order.
    pub next_order: u32,
    pub name: Text<10>,
    pub address: Address,
    /// The customers, by number less 1.
    pub customers: P<'r, [Customer]>,
    /// Index of customers: the numbers of the customers with a last name, in the order of first names.
    pub by_last_name: PBTreeMap<'r, P<'r, str>, P<'r, [u32]>>,
    pub orders: PBTreeMap<'r, u32, Order<'r>>,
    /// Orders to be delivered, oldest first.
    pub new_orders: PVecDeque<'r, NewOrder>,
    /// The payments, in the order in which they were made.
    pub history: PBTreeMap<'r, u32, History>,
}

#[derive(Persist, Clone, Copy)]
#[repr(C)]
pub struct Customer {
    pub account: Account,
    /// Number of the customer's newest order. It replaces an index of orders by customer.
    pub last_order: u32,
    pub discount: u32,
    pub credit_limit: u64,
    pub since: u64,
    pub credit: Credit,
    pub first: Text<16>,
    pub middle: [u8; 2],
    pub last: Text<16>,
    pub address: Address,
    pub phone: [u8; 16],
    pub data: Text<500>,
}

/// The part of a customer that payments and deliveries change. (Some payments change `data`, too.)
#[derive(Persist, Clone, Copy)]
#[repr(C)]
pub struct Account {
    pub balance: i64,
    pub paid: u64,
    pub payments: u32,
    pub deliveries: u32,
}

#[derive(Persist, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Credit {
    Good,
    Bad,
}

/// A payment.
#[derive(Persist, Clone, Copy)]
#[repr(C)]
pub struct History {
    pub date: u64,
    pub amount: u32,
    pub customer_warehouse: u32,
    pub customer: u32,
    pub customer_district: u8,
    pub district: u8,
    pub data: Text<24>,
}

#[derive(Persist, Clone, Copy)]
#[repr(C)]
pub struct NewOrder {
    pub order: u32,
}

#[derive(Persist)]
#[repr(C)]
pub struct Order<'r> {
    pub entered: u64,
    pub lines: P<'r, [OrderLine]>,
    pub customer: u32,
    pub line_count: u8,
    pub all_local: bool,
    /// The carrier, if the order is delivered.
    pub carrier: Option<NonZeroU8>,
}

#[derive(Persist, Clone, Copy)]
#[repr(C)]
pub struct OrderLine {
    pub delivered: Option<NonZeroU64>,
    pub item: u32,
    /// Number of the warehouse that supplies the item.
    pub supplier: u32,
    pub amount: u32,
    pub quantity: u8,
    pub info: [u8; 24],
}

#[derive(Persist, Clone, Copy)]
#[repr(C)]
pub struct Stock {
    pub level: Level,
    /// Text for order lines, for each district.
    pub info: [[u8; 24]; DISTRICTS],
    pub data: Text<50>,
}

/// The part of a stock that orders change.
#[derive(Persist, Clone, Copy)]
#[repr(C)]
pub struct Level {
    pub quantity: i32,
    pub sold: u32,
    pub orders: u32,
    pub remote_orders: u32,
}

#[derive(Persist, Clone, Copy)]
#[repr(C)]
pub struct Address {
    pub street_1: Text<20>,
    pub street_2: Text<20>,
    pub city: Text<20>,
    pub state: [u8; 2],
    pub zip: [u8; 9],
}

/// At most `N` bytes of ASCII, stored in the row itself.
#[derive(Persist, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(C)]
pub struct Text<const N: usize> {
    bytes: [u8; N],
    len: u16,
}

impl<const N: usize> Text<N> {
    /// Makes a text, which is cut off after `N` bytes.
    pub fn new(text: &[u8]) -> Self {
        let mut bytes = [0; N];
        let len = text.len().min(N);
        bytes[..len].copy_from_slice(&text[..len]);
        Text { bytes, len: len as u16 }
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    pub fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).expect("it is ASCII")
    }
}
