//! Shows the progress of work that takes longer than a second, on a terminal.

use std::io::{self, IsTerminal};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Time after which a bar appears.
const PATIENCE: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(120);

/// A bar that shows the progress of some work. Dropping a `Progress` removes the bar.
pub struct Progress {
    bar: ProgressBar,
    waiter: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    /// Shows work of unknown length.
    pub fn spinner(what: &'static str) -> Progress {
        Progress::new(ProgressBar::new_spinner(), what, "{spinner} {msg}, {elapsed}")
    }

    /// Shows work on `total` bytes.
    pub fn of_bytes(total: u64, what: &'static str) -> Progress {
        let bar = ProgressBar::new(total);
        Progress::new(bar, what, "{msg} {wide_bar} {bytes}/{total_bytes}, {bytes_per_sec}, {eta} left")
    }

    /// Shows work on at most `total` objects.
    pub fn of_objects(total: u64, what: &'static str) -> Progress {
        Progress::new(ProgressBar::new(total), what, "{msg} {wide_bar} {human_pos} objects, {elapsed}")
    }

    fn new(bar: ProgressBar, what: &'static str, template: &str) -> Progress {
        bar.set_draw_target(ProgressDrawTarget::hidden());
        if !io::stderr().is_terminal() {
            return Progress { bar, waiter: None };
        }
        bar.set_style(ProgressStyle::with_template(template).expect("the template is right"));
        bar.set_message(what);
        let (done, is_done) = mpsc::channel();
        let shown = bar.clone();
        let waiter = thread::spawn(move || {
            if is_done.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                shown.set_draw_target(ProgressDrawTarget::stderr());
                shown.enable_steady_tick(TICK);
            }
        });
        Progress { bar, waiter: Some((done, waiter)) }
    }

    pub fn set(&self, done: u64) {
        self.bar.set_position(done);
    }

    pub fn set_total(&self, total: u64) {
        self.bar.set_length(total);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((done, waiter)) = self.waiter.take() {
            drop(done);
            let _ = waiter.join();
            self.bar.finish_and_clear();
        }
    }
}
