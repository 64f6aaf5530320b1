//! Kills a run again and again, and checks the heap each time.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::Result;
use crate::check::Findings;
use crate::random::Random;

/// In each round, starts this program again as a victim, kills it, and checks. `check` gets whether it must
/// open the heap read-only. If so, the next victim recovers the heap after the kill.
pub fn kill(rounds: u32, seed: u64, check: impl Fn(bool) -> Result<Findings>) -> Result<()> {
    let mut random = Random::new(seed, u64::MAX);
    let mut before = sound(&check(false)?)?;
    for round in 1..=rounds {
        let mut victim = Command::new(std::env::current_exe()?)
            .args(std::env::args_os().skip(1))
            .arg("--victim")
            .stdout(Stdio::piped())
            .spawn()?;
        let lines = BufReader::new(victim.stdout.take().expect("it is piped")).lines();
        let mut reports = lines.map_while(|line| line.ok()?.parse::<u64>().ok());
        // Some kills come early, perhaps while the victim opens or recovers the heap.
        let patience = if random.percent(25) {
            20
        } else {
            reports.next();
            500
        };
        let last = std::thread::spawn(move || reports.last().unwrap_or(0));
        std::thread::sleep(Duration::from_millis(random.within(0, patience).into()));
        if let Some(status) = victim.try_wait()? {
            return Err(format!("the run has ended by itself: {status}").into());
        }
        victim.kill()?; // SIGKILL
        victim.wait()?;
        let reported = last.join().expect("it only reads");

        let orders = sound(&check(random.percent(50))?)?;
        println!("killed {round} times: {} new orders, {reported} were reported", orders - before);
        if orders < before + reported {
            return Err("orders are lost that were reported as durable".into());
        }
        before = orders;
    }
    println!("all conditions held each time");
    Ok(())
}

/// Returns the number of orders, or an error if a condition does not hold.
fn sound(findings: &Findings) -> Result<u64> {
    if findings.violations.is_empty() {
        Ok(findings.orders)
    } else {
        Err(findings.violations.join("\n").into())
    }
}

/// Prints the number of durable orders, for ever. Each line is one write, so a kill cannot tear it.
pub fn report(ordered: &AtomicU64) -> ! {
    loop {
        println!("{}", ordered.load(Ordering::Relaxed));
        std::thread::sleep(Duration::from_millis(1));
    }
}
