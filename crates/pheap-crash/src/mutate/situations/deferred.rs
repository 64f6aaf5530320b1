//! Deferred transactions. A power failure leaves the transactions up to one of them, and at least all for
//! which a thread has waited.

use pheap::{Commit, Root};

use super::{Start, crash_everywhere, record};
use crate::layouts::Record;
use crate::medium::{Medium, Moment};
use crate::model::State;
use crate::program::Setting;
use crate::report::Said;
use crate::run::{Run, options};

/// The heap, its states at first and after each transaction, and the commits of these.
struct Heap {
    medium: Medium,
    roots: [Root<Record<'static>>; 2],
    states: Vec<State>,
    commits: Vec<Commit>,
}

impl Heap {
    /// Sets a number in the roots with these names: one of the two, or both.
    fn set(&mut self, names: &[&str]) -> Result<(), String> {
        let value = 50 + self.commits.len() as u64;
        let [a, b] = &self.roots;
        #[allow(clippy::unit_arg)] // transactions of one assignment
        let (_, commit) = match names {
            ["a"] => a.txn_deferred(|tx, p| Ok(tx[p].x = value)),
            ["b"] => b.txn_deferred(|tx, p| Ok(tx[p].x = value)),
            _ => pheap::txn_deferred((a, b), |((ta, a), (tb, b))| Ok((ta[a].x, tb[b].x) = (value, value))),
        }
        .said()?;
        let mut state = self.states.last().expect("there is the first one").clone();
        for name in names {
            state.roots.get_mut(*name).ok_or("there is no such root")?.x = value;
        }
        self.states.push(state);
        self.commits.push(commit);
        self.tell();
        Ok(())
    }

    /// Waits for the transaction with this number.
    fn wait(&mut self, number: usize) -> Result<(), String> {
        self.commits[number].wait().said()?;
        self.tell();
        Ok(())
    }

    /// Notes how many transactions are durable, which is a point.
    fn tell(&self) {
        let durable = self.commits.iter().take_while(|commit| commit.is_durable()).count();
        self.medium.acknowledge(durable, durable);
    }
}

pub(super) fn explore(start: Start) -> Result<(), String> {
    let medium = Medium::new(start.content.on_disk());
    let heap = medium.opened(&options(Setting::default(), None))?;
    let roots = [record(&heap, "a")?, record(&heap, "b")?];
    heap.sync().said()?;
    medium.take_points();
    let before = medium.durable();
    let mut all = Heap { medium, roots, states: vec![start.state], commits: Vec::new() };
    for names in [&["a"][..], &["b"], &["a", "b"], &["b"]] {
        all.set(names)?;
    }
    if all.commits[0].is_durable() {
        return Err("nobody waits, and it is durable: so this shows nothing".to_owned());
    }
    all.wait(1)?;
    all.set(&["a"])?;
    let (found, seen) = all.roots[0].read_deferred(|view, p| view[p].x).said()?;
    seen.wait().said()?;
    all.tell();
    all.set(&["b"])?;
    all.wait(5)?;
    let points = all.medium.take_points();
    let Heap { roots, states, .. } = all;
    drop((roots, heap));
    if found != 54 || points.last().is_none_or(|point| point.acknowledged().1 != 6) {
        return Err("a transaction has not taken place, or is not durable when it was waited for".to_owned());
    }
    for durable in 0..states.len() {
        let wanted = |point: &Moment| point.acknowledged().1 == durable;
        crash_everywhere(before.clone(), &points, wanted, |content| {
            let run = Run::open(Setting::default(), content, None, 3)?;
            run.check()?;
            let allowed = &states[durable..];
            let is_allowed = allowed.contains(run.state());
            let difference = allowed[0].difference(run.state());
            run.finish()?;
            if is_allowed { Ok(()) } else { Err(format!("it holds something else:\n{difference}")) }
        })
        .map_err(|error| format!("when {durable} of these transactions are durable, {error}"))?;
    }
    Ok(())
}
