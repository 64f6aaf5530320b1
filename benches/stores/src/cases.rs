//! The cases, their number of runs and their order: systems take turns, and each run has a separate
//! directory.

use crate::Result;
use crate::beside;
use crate::plan::{Bench, Plan};
use crate::report::{Row, Targets};
use crate::run::{self, PER_INSERT, Run, Until};
use crate::systems::{System, Values, median_of_syncs, value_of};
use crate::trace::Tracer;
use pheap_suite::disk;
use std::time::Instant;

/// If a sync is faster than this, in seconds, `fdatasync` has not waited for a disk.
const LEAST_SYNC: f64 = 50e-6;

pub(crate) fn measure(plan: &Plan) -> Result<()> {
    let sync = median_of_syncs(plan.folder()?.path())?;
    if sync < LEAST_SYNC {
        let (dir, micros) = (plan.dir.display(), sync * 1e6);
        eprintln!(
            "error: a write and fdatasync take {micros:.1} µs in {dir}: that is no real disk (see --dir)"
        );
    }
    let mut bench = Measuring {
        plan,
        disk_too_fast: sync < LEAST_SYNC,
        tracer: Tracer::new(plan.traced),
        targets: Targets::default(),
    };
    for &which in &plan.benches {
        match which {
            Bench::Update8Sync | Bench::Update8Nosync => {
                for &threads in &plan.threads {
                    bench.updates(which, threads)?;
                }
            }
            Bench::InsertSync => bench.inserts(true, false, false)?,
            // `get` looks up the entries inserted here.
            Bench::InsertNosync => bench.inserts(false, true, plan.benches.contains(&Bench::Get))?,
            Bench::Get if plan.benches.contains(&Bench::InsertNosync) => {}
            Bench::Get => bench.inserts(false, false, true)?,
            Bench::OpenGet => bench.openings()?,
            Bench::Read8 => beside::measure(plan)?.iter().for_each(|row| println!("{}", row.json())),
        }
    }
    if plan.traced > 0 {
        bench.targets.print();
    }
    Ok(())
}

struct Measuring<'a> {
    plan: &'a Plan,
    disk_too_fast: bool,
    tracer: Tracer,
    targets: Targets,
}

impl Measuring<'_> {
    fn updates(&mut self, bench: Bench, threads: usize) -> Result<()> {
        let sync = bench == Bench::Update8Sync;
        let each = if sync { self.plan.values_synced } else { self.plan.values_unsynced };
        let values = Values { threads, each };
        let systems = if sync { self.plan.systems.clone() } else { self.plan.stores() };
        let mut rows: Vec<Row> =
            systems.iter().map(|&system| Row::new(system, bench, sync, threads)).collect();
        for _ in 0..self.plan.repeats {
            for row in &mut rows {
                row.runs.push(named(row.system, bench, update_run(self.plan, row.system, sync, values))?);
            }
        }
        for row in &mut rows {
            row.set("working_set", values.threads as u64 * values.each * 8);
        }
        self.print(rows, sync)
    }

    fn inserts(&mut self, sync: bool, report: bool, get: bool) -> Result<()> {
        let bench = if sync { Bench::InsertSync } else { Bench::InsertNosync };
        let systems = self.plan.stores();
        let row = |bench, sync, per_transaction: usize| {
            move |&system: &System| {
                let mut row = Row::new(system, bench, sync, 1);
                row.per_transaction(per_transaction as u64);
                row.set_text("structure", system.structure());
                row
            }
        };
        let mut inserts: Vec<Row> = systems.iter().map(row(bench, sync, PER_INSERT)).collect();
        let mut gets: Vec<Row> = systems.iter().map(row(Bench::Get, sync, GETS)).collect();
        let mut single_gets: Vec<Row> = systems.iter().map(row(Bench::Get, sync, 1)).collect();
        for _ in 0..self.plan.repeats {
            for (i, &system) in systems.iter().enumerate() {
                let runs = named(system, bench, insert_run(self.plan, system, sync, get))?;
                inserts[i].runs.push(runs.insert);
                if let Some([get, single_get]) = runs.gets {
                    gets[i].runs.push(get);
                    single_gets[i].runs.push(single_get);
                }
            }
        }
        if report || sync {
            self.print(inserts, sync)?;
        }
        if get {
            self.print(gets, false)?;
            self.print(single_gets, false)?;
        }
        Ok(())
    }

    fn openings(&mut self) -> Result<()> {
        let mut rows: Vec<Row> =
            self.plan.stores().iter().map(|&system| Row::new(system, Bench::OpenGet, true, 1)).collect();
        for _ in 0..self.plan.repeats {
            for row in &mut rows {
                row.runs.push(named(row.system, row.bench, open_run(self.plan, row.system))?);
            }
        }
        self.print(rows, false)
    }

    /// Counts the syncs if the case has any, and prints the rows.
    fn print(&mut self, mut rows: Vec<Row>, sync: bool) -> Result<()> {
        for row in &mut rows {
            if sync && self.plan.traced > 0 {
                let mut count = |threads| {
                    let dir = self.plan.folder()?;
                    let counted = self.tracer.syncs_per_commit(row.system, row.bench, threads, dir.path());
                    named(row.system, row.bench, counted)
                };
                let syncs = count(row.threads)?;
                let alone = if row.threads == 1 { syncs } else { count(1)? };
                row.syncs(syncs, alone);
            }
            if self.disk_too_fast {
                row.set_text("disk", "too fast");
            }
        }
        let floor = rows.iter().find(|row| row.system == System::Floor).cloned();
        for row in rows {
            let mut row = row;
            if let Some(floor) = &floor {
                row.compare_with(floor);
            }
            row.print()?;
            self.targets.add(row);
        }
        Ok(())
    }
}

/// Lookups in a read transaction. The other variant has one.
const GETS: usize = 1000;

fn named<T>(system: System, bench: Bench, result: Result<T>) -> Result<T> {
    result.map_err(|error| format!("{} {}: {error}", bench.name(), system.name()).into())
}

fn no_mark() {}

fn update_run(plan: &Plan, system: System, sync: bool, values: Values) -> Result<Run> {
    let dir = plan.folder()?;
    let store = system.open(dir.path(), sync)?;
    store.preload(values)?;
    disk::settle(dir.path())?;
    let (run, last) = run::updates(&*store, values, Until::Time(plan.run), no_mark)?;
    if !sync {
        store.settle()?;
    }
    store.close()?;
    if system != System::Floor {
        let store = system.open(dir.path(), sync)?;
        run::verify_updates(&*store, values, &last)?;
        store.close()?;
    }
    Ok(run)
}

struct InsertRuns {
    insert: Run,
    /// Runs with [`GETS`] lookups in a transaction, and with one.
    gets: Option<[Run; 2]>,
}

fn insert_run(plan: &Plan, system: System, sync: bool, get: bool) -> Result<InsertRuns> {
    let dir = plan.folder()?;
    let keys = run::keys(plan.inserts);
    let store = system.open(dir.path(), sync)?;
    disk::settle(dir.path())?;
    let insert = run::inserts(&*store, &keys, no_mark)?;
    if !sync {
        store.settle()?;
    }
    store.close()?;
    let store = system.open(dir.path(), sync)?;
    run::verify_inserts(&*store, &keys)?;
    let gets =
        if get { Some([run::gets(&*store, &keys, GETS)?, run::gets(&*store, &keys, 1)?]) } else { None };
    store.close()?;
    Ok(InsertRuns { insert, gets })
}

/// Number of times that a store is opened again.
const OPENINGS: usize = 20;

/// Opens a closed store again and again, and looks up one key each time.
fn open_run(plan: &Plan, system: System) -> Result<Run> {
    let dir = plan.folder()?;
    let keys = run::keys(plan.inserts);
    let store = system.open(dir.path(), false)?;
    run::inserts(&*store, &keys, no_mark)?;
    store.settle()?;
    store.close()?;
    let mut seconds = 0.0;
    for key in keys.iter().step_by(keys.len().div_ceil(OPENINGS)) {
        let start = Instant::now();
        let store = system.open(dir.path(), true)?;
        let mut found = false;
        store
            .session(Values::NONE, 0)?
            .get(std::slice::from_ref(key), &mut |key, value| found = value == value_of(key))?;
        seconds += start.elapsed().as_secs_f64();
        if !found {
            return Err("a value that was read is wrong".into());
        }
        store.close()?;
    }
    Ok(Run { n: OPENINGS as u64, seconds })
}
