//! Turns panics into failures.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

thread_local! {
    /// Message of the last panic of this thread within [`catching`], until it is taken.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
    static CATCHING: RefCell<usize> = const { RefCell::new(0) };
}

/// Runs `f`, and turns a panic into an error. The message of a panic within it is not printed.
pub fn catching<R>(f: impl FnOnce() -> Result<R, String>) -> Result<R, String> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if CATCHING.with_borrow(|depth| *depth == 0) {
                return before(info);
            }
            let text = info.to_string();
            PANIC.set(Some(text));
        }));
    });
    CATCHING.with_borrow_mut(|depth| *depth += 1);
    let result = catch_unwind(AssertUnwindSafe(f));
    CATCHING.with_borrow_mut(|depth| *depth -= 1);
    result.unwrap_or_else(|_| Err(PANIC.take().unwrap_or("a panic".to_owned())))
}

/// Runs a function without a result, and turns a panic into an error.
pub fn no_panic(f: impl FnOnce()) -> Result<(), String> {
    catching(|| {
        f();
        Ok(())
    })
}
