//! The requests of terminals.

use std::num::NonZeroU8;

use crate::random::Random;
use crate::tables::{DISTRICTS, Text};

/// The size of a company.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size {
    pub warehouses: u32,
    pub items: u32,
    /// Customers of a district. After the load, a district has as many orders.
    pub customers: u32,
}

impl Size {
    /// Returns the number of the first order in each district that is not delivered after the load. The
    /// specification has 2,101 of 3,000.
    pub fn first_new_order(self) -> u32 {
        self.customers * 7 / 10 + 1
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    NewOrder,
    Payment,
    OrderStatus,
    Delivery,
    StockLevel,
}

impl Kind {
    pub const ALL: [Kind; 5] =
        [Kind::NewOrder, Kind::Payment, Kind::OrderStatus, Kind::Delivery, Kind::StockLevel];

    pub fn name(self) -> &'static str {
        match self {
            Kind::NewOrder => "new order",
            Kind::Payment => "payment",
            Kind::OrderStatus => "order status",
            Kind::Delivery => "delivery",
            Kind::StockLevel => "stock level",
        }
    }

    /// Returns a random kind. Each kind except new orders has the smallest share that the specification
    /// allows.
    fn random(random: &mut Random) -> Kind {
        match random.within(1, 100) {
            1..=45 => Kind::NewOrder,
            46..=88 => Kind::Payment,
            89..=92 => Kind::OrderStatus,
            93..=96 => Kind::Delivery,
            _ => Kind::StockLevel,
        }
    }
}

pub enum Request {
    NewOrder(NewOrder),
    Payment(Payment),
    OrderStatus { warehouse: u32, district: u8, who: Who },
    Delivery { warehouse: u32, carrier: u8 },
    StockLevel { warehouse: u32, district: u8, threshold: i32 },
}

pub struct NewOrder {
    pub warehouse: u32,
    pub district: u8,
    pub customer: u32,
    pub lines: Vec<Line>,
}

#[derive(Clone, Copy)]
pub struct Line {
    pub item: u32,
    pub supplier: u32,
    pub quantity: u8,
}

pub struct Payment {
    pub warehouse: u32,
    pub district: u8,
    pub customer_warehouse: u32,
    pub customer_district: u8,
    pub who: Who,
    pub amount: u32,
}

#[derive(Clone, Copy)]
pub enum Who {
    Number(u32),
    LastName(Text<16>),
}

/// Makes requests for some warehouses.
pub struct Terminal {
    size: Size,
    /// The first warehouse, and the distance to the next one.
    first: u32,
    step: u32,
    random: Random,
}

impl Terminal {
    /// Returns terminal `index` of `terminals`. It shares no warehouse with another terminal, if there are
    /// enough.
    pub fn new(size: Size, index: u32, terminals: u32, seed: u64) -> Terminal {
        let first = index % size.warehouses + 1;
        Terminal { size, first, step: terminals, random: Random::new(seed, index.into()) }
    }

    pub fn next(&mut self) -> (Kind, Request) {
        let kind = Kind::random(&mut self.random);
        let others = (self.size.warehouses - self.first) / self.step;
        let warehouse = self.first + self.step * self.random.within(0, others);
        let district = self.district();
        let request = match kind {
            Kind::NewOrder => Request::NewOrder(self.new_order(warehouse, district)),
            Kind::Payment => Request::Payment(self.payment(warehouse, district)),
            Kind::OrderStatus => Request::OrderStatus { warehouse, district, who: self.who() },
            Kind::Delivery => Request::Delivery { warehouse, carrier: self.random.within(1, 10) as u8 },
            Kind::StockLevel => {
                Request::StockLevel { warehouse, district, threshold: self.random.within(10, 20) as i32 }
            }
        };
        (kind, request)
    }

    fn new_order(&mut self, warehouse: u32, district: u8) -> NewOrder {
        let customer = self.random.customer(self.size.customers);
        let count = self.random.within(5, 15);
        let mut lines: Vec<Line> = (0..count)
            .map(|_| Line {
                item: self.random.item(self.size.items),
                supplier: if self.random.percent(1) { self.other_than(warehouse) } else { warehouse },
                quantity: self.random.within(1, 10) as u8,
            })
            .collect();
        if self.random.percent(1) {
            // A typing error. The transaction finds it at the last line, and must undo the changes for the
            // other lines.
            lines[count as usize - 1].item = self.size.items + 1;
        }
        NewOrder { warehouse, district, customer, lines }
    }

    fn payment(&mut self, warehouse: u32, district: u8) -> Payment {
        let (customer_warehouse, customer_district) = if self.random.percent(15) {
            (self.other_than(warehouse), self.district())
        } else {
            (warehouse, district)
        };
        let (who, amount) = (self.who(), self.random.within(100, 500_000));
        Payment { warehouse, district, customer_warehouse, customer_district, who, amount }
    }

    fn district(&mut self) -> u8 {
        self.random.within(1, DISTRICTS as u32) as u8
    }

    fn who(&mut self) -> Who {
        if self.random.percent(60) {
            Who::LastName(self.random.wanted_last_name(self.size.customers))
        } else {
            Who::Number(self.random.customer(self.size.customers))
        }
    }

    /// Returns another warehouse, if there is one.
    fn other_than(&mut self, warehouse: u32) -> u32 {
        if self.size.warehouses == 1 {
            return warehouse;
        }
        let other = self.random.within(1, self.size.warehouses - 1);
        if other < warehouse { other } else { other + 1 }
    }
}

/// The answer to a terminal. It leaves out values that the specification's forms only copy from a row.
#[derive(Debug, PartialEq)]
pub enum Answer {
    Ordered {
        order: u32,
        total: u64,
        branded: usize,
    },
    RolledBack,
    Paid {
        customer: u32,
        balance: i64,
    },
    Status {
        customer: u32,
        balance: i64,
        order: u32,
        carrier: Option<NonZeroU8>,
        lines: Vec<(u32, u32, u8, u32)>,
    },
    Delivered {
        orders: [Option<u32>; DISTRICTS],
    },
    Short {
        items: usize,
    },
}
