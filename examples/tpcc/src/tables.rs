//! The nine tables, as structs.
//!
//! What belongs to a warehouse is below a root of its own: it has a lock and a log of its own, so transactions of different warehouses run side by side. Rows that are never added to are arrays, where a row
//! is found by its number; orders and history are B-trees. Money is in cents, rates are of [`ONE`]; a moment is a number of microseconds since 1970.

use std::num::{NonZeroU8, NonZeroU64};

use pheap::{P, PBTreeMap, PVecDeque, Persist};

/// Districts of a warehouse.
pub const DISTRICTS: usize = 10;

/// The unit of rates: taxes and discounts.
pub const ONE: u32 = 10_000;

/// What all warehouses sell, by number less 1. It never changes, and is a root of its own.
pub type Items<'r> = P<'r, [Item]>;

#[derive(Persist, Clone, Copy)]
#[repr(C)]
pub struct Item {
    pub image: u32,
    pub price: u32,
    pub name: Text<24>,
    pub data: Text<50>,
}

/// A root: the warehouse, and all that belongs to it.
#[derive(Persist)]
#[repr(C)]
pub struct Warehouse<'r> {
    /// What was paid since it was opened.
    pub paid: u64,
    pub tax: u32,
    pub name: Text<10>,
    pub address: Address,
    /// By number less 1.
    pub districts: P<'r, [District<'r>]>,
    /// By the item's number less 1.
    pub stock: P<'r, [Stock]>,
}

#[derive(Persist)]
#[repr(C)]
pub struct District<'r> {
    pub paid: u64,
    pub tax: u32,
    /// The number that the next order gets.
    pub next_order: u32,
    pub name: Text<10>,
    pub address: Address,
    /// By number less 1.
    pub customers: P<'r, [Customer]>,
    /// The index of customers: who has a last name, in the order of first names.
    pub by_last_name: PBTreeMap<'r, P<'r, str>, P<'r, [u32]>>,
    pub orders: PBTreeMap<'r, u32, Order<'r>>,
    /// What is to be delivered, oldest first.
    pub new_orders: PVecDeque<'r, NewOrder>,
    /// The payments, in their order.
    pub history: PBTreeMap<'r, u32, History>,
}

#[derive(Persist, Clone, Copy)]
#[repr(C)]
pub struct Customer {
    pub account: Account,
    /// The customer's newest order: all that there is to an index of orders by customer.
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

/// What payments and deliveries change.
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
    /// Once it is delivered.
    pub carrier: Option<NonZeroU8>,
}

#[derive(Persist, Clone, Copy)]
#[repr(C)]
pub struct OrderLine {
    pub delivered: Option<NonZeroU64>,
    pub item: u32,
    /// The warehouse.
    pub supplier: u32,
    pub amount: u32,
    pub quantity: u8,
    pub info: [u8; 24],
}

#[derive(Persist, Clone, Copy)]
#[repr(C)]
pub struct Stock {
    pub level: Level,
    /// What goes into order lines of each district.
    pub info: [[u8; 24]; DISTRICTS],
    pub data: Text<50>,
}

/// What orders change.
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

/// At most `N` bytes of ASCII, in the row itself.
#[derive(Persist, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(C)]
pub struct Text<const N: usize> {
    bytes: [u8; N],
    len: u16,
}

impl<const N: usize> Text<N> {
    /// What does not fit is cut off.
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
