//! The five transactions. Each may return before it is durable. Its [`Commit`] shows when it is.

mod delivery;
mod new_order;
mod order_status;
mod payment;
mod stock_level;

use pheap::{Commit, Error, P, Result, View};

use crate::company::Company;
use crate::requests::{Answer, Request, Who};
use crate::tables::District;

pub fn run(company: &Company, request: &Request) -> Result<(Answer, Option<Commit>)> {
    let done = match request {
        Request::NewOrder(order) => new_order::run(company, order),
        Request::Payment(payment) => payment::run(company, payment),
        Request::OrderStatus { warehouse, district, who } => {
            order_status::run(company.warehouse(*warehouse), *district, who)
        }
        Request::Delivery { warehouse, carrier } => delivery::run(company.warehouse(*warehouse), *carrier),
        Request::StockLevel { warehouse, district, threshold } => {
            stock_level::run(company.warehouse(*warehouse), *district, *threshold)
        }
    };
    match done {
        Ok((answer, commit)) => Ok((answer, Some(commit))),
        Err(Error::Aborted(_)) => Ok((Answer::RolledBack, None)),
        Err(error) => Err(error),
    }
}

/// Returns the number of a customer. If several customers have the last name, it is the middle one by first
/// name.
fn find<'r>(view: &View<'r>, district: P<'r, District<'r>>, who: &Who) -> Result<u32> {
    match who {
        Who::Number(number) => Ok(*number),
        Who::LastName(name) => {
            let numbers = view[district].by_last_name.get(view, name.as_str());
            let numbers = &view[*numbers.ok_or_else(|| Error::abort("nobody has this name"))?];
            Ok(numbers[numbers.len().div_ceil(2) - 1])
        }
    }
}
