//! Tests with a small company in memory: transactions preserve the conditions, and the check finds
//! violations.

use indicatif::ProgressBar;
use pheap::{Heap, P, Txn, field};

use crate::check::check;
use crate::company::Company;
use crate::load::load;
use crate::requests::{Answer, Line, NewOrder, Request, Size, Terminal, Who};
use crate::tables::{District, Warehouse};
use crate::transactions;

const SIZE: Size = Size { warehouses: 2, items: 50, customers: 20 };

fn company() -> Company {
    let heap = Heap::in_memory().unwrap();
    load(&heap, SIZE, 1, &ProgressBar::hidden()).unwrap();
    Company::of(heap).unwrap()
}

#[test]
fn conditions_hold_after_many_transactions() {
    let company = company();
    assert_eq!(company.size, SIZE);
    let (mut rolled_back, mut remote_orders, mut remote_payments, mut delivered) = (0, 0, 0, 0);
    let mut terminals = [0, 1].map(|index| Terminal::new(SIZE, index, 2, 7));
    for i in 0..5000 {
        let (_, request) = terminals[i % 2].next();
        match &request {
            Request::NewOrder(order) => {
                remote_orders += usize::from(order.lines.iter().any(|line| line.supplier != order.warehouse));
            }
            Request::Payment(payment) => {
                remote_payments += usize::from(payment.warehouse != payment.customer_warehouse);
            }
            _ => {}
        }
        match transactions::run(&company, &request).unwrap().0 {
            Answer::RolledBack => rolled_back += 1,
            Answer::Delivered { orders } => delivered += orders.iter().flatten().count(),
            _ => {}
        }
    }
    assert!(rolled_back > 0 && remote_orders > 50 && remote_payments > 100 && delivered > 500);
    let findings = check(&company).unwrap();
    assert_eq!(findings.violations, Vec::<String>::new());
    assert!(findings.orders > 2 * 10 * 20 + 1000);
}

#[test]
fn an_order_with_a_mistake_changes_nothing() {
    let company = company();
    let level = || {
        let seen = company.warehouse(1).read(|view, warehouse| {
            let stock = view[warehouse].stock.at(view, 6);
            view[stock].level.quantity
        });
        seen.unwrap()
    };
    let before = level();
    let line = |item| Line { item, supplier: 1, quantity: 3 };
    let order = |lines| Request::NewOrder(NewOrder { warehouse: 1, district: 1, customer: 1, lines });
    let (answer, _) = transactions::run(&company, &order(vec![line(7), line(51)])).unwrap();
    assert_eq!((answer, level()), (Answer::RolledBack, before));
    let (answer, _) = transactions::run(&company, &order(vec![line(7)])).unwrap();
    assert!(matches!(answer, Answer::Ordered { order: 21, .. }) && level() != before);
}

/// Changes a value in the first warehouse or its first district, so that it contradicts another value.
type Damage = for<'r> fn(&mut Txn<'r>, P<'r, Warehouse<'r>>, P<'r, District<'r>>);

#[test]
fn each_condition_is_checked() {
    let damages: [(&[&str], Damage); 13] = [
        (&["1", "8"], |tx, warehouse, _| tx[warehouse].paid += 1),
        (&["1", "9"], |tx, _, district| tx[district].paid += 1),
        (&["2"], |tx, _, district| tx[district].next_order += 1),
        (&["2", "5", "11"], |tx, _, district| {
            field!(district.new_orders).pop_back(tx).unwrap();
        }),
        (&["3", "5"], |tx, _, district| {
            let new = field!(district.new_orders).get_mut(tx, 0).unwrap();
            new.order -= 1;
        }),
        (&["4", "6"], |tx, _, district| field!(district.orders).get_mut(tx, 1).unwrap().line_count += 1),
        (&["7", "10", "12"], |tx, _, district| {
            let lines = field!(district.orders).get_mut(tx, 1).unwrap().lines;
            tx[lines][0].delivered = None;
            tx[lines][1].amount += 1;
        }),
        (&["8", "9", "10"], |tx, _, district| {
            field!(district.history).get_mut(tx, 0).unwrap().amount += 1;
        }),
        (&["10", "12"], |tx, _, district| {
            let customer = tx[district].customers.at(tx, 0);
            tx[customer].account.balance += 1;
        }),
        (&["11"], |tx, _, district| {
            let customer = tx[district].customers.at(tx, 0);
            tx[customer].account.deliveries += 1;
        }),
        (&["of stocks and order lines"], |tx, warehouse, _| {
            let stock = tx[warehouse].stock.at(tx, 0);
            tx[stock].level.orders += 1;
        }),
        (&["of newest orders"], |tx, _, district| {
            let customer = tx[district].customers.at(tx, 0);
            tx[customer].last_order += 1;
        }),
        (&["of the index by last name"], |tx, _, district| {
            field!(district.by_last_name).remove(tx, "BARBARBAR").unwrap();
        }),
    ];
    for (conditions, damage) in damages {
        let company = company();
        let first = company.warehouse(1);
        first
            .txn(|tx, warehouse| {
                let district = tx[warehouse].districts.at(tx, 0);
                damage(tx, warehouse, district);
                Ok(())
            })
            .unwrap();
        let violations = check(&company).unwrap().violations;
        for condition in conditions {
            let found =
                violations.iter().any(|violation| violation.starts_with(&format!("condition {condition} ")));
            assert!(found, "condition {condition}: {violations:?}");
        }
        let is_expected = |violation: &String| {
            conditions.iter().any(|condition| violation.starts_with(&format!("condition {condition} ")))
        };
        assert!(violations.iter().all(is_expected), "only {conditions:?}: {violations:?}");
    }
}

#[test]
fn a_last_name_stands_for_the_customer_in_the_middle() {
    let company = company();
    let who = Who::LastName(crate::random::last_name(7));
    let request = Request::OrderStatus { warehouse: 1, district: 1, who };
    let (answer, _) = transactions::run(&company, &request).unwrap();
    assert!(matches!(answer, Answer::Status { customer: 8, .. }), "{answer:?}");
}

#[cfg(feature = "sqlite")]
#[test]
fn sqlite_answers_the_same() {
    use crate::drive::System as _;
    let company = company();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tpcc.sqlite");
    crate::sqlite::load(&path, SIZE, 1, &ProgressBar::hidden()).unwrap();
    let database = crate::sqlite::Database::open(&path, "OFF").unwrap();
    assert_eq!(database.size(), SIZE);
    let mut session = database.session().unwrap();
    let mut terminal = Terminal::new(SIZE, 0, 1, 7);
    for i in 0..3000 {
        let (kind, request) = terminal.next();
        let (ours, _) = transactions::run(&company, &request).unwrap();
        assert_eq!(session(&request).unwrap().0, ours, "request {i}, {kind:?}");
    }
    drop(session);
    assert_eq!(crate::sqlite::check(&path).unwrap().violations, Vec::<String>::new());
}
