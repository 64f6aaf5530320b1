//! How far it is: on a terminal, of what takes longer than a second.

use std::io::{self, IsTerminal};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// What is shorter needs no bar.
const PATIENCE: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(120);

/// What is being done. It is cleared away when this is dropped.
pub struct Progress {
    bar: ProgressBar,
    waiter: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    /// Something of which nobody knows how long it takes.
    pub fn spinner(what: &'static str) -> Progress {
        Progress::new(ProgressBar::new_spinner(), what, "{spinner} {msg}, {elapsed}")
    }

    /// Something that consists of so many bytes.
    pub fn of_bytes(total: u64, what: &'static str) -> Progress {
        let bar = ProgressBar::new(total);
        Progress::new(bar, what, "{msg} {wide_bar} {bytes}/{total_bytes}, {bytes_per_sec}, {eta} left")
    }

    /// Something that consists of so many objects at most.
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
