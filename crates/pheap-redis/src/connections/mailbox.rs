//! What other threads leave for one: messages, and that something became durable.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;

use mio::{Registry, Token, Waker};
use parking_lot::Mutex;

use crate::clients::tracking::Notice;
use crate::clients::waiting::Wakeup;
use crate::connections::stream::Stream;

/// What a client is sent that it has not asked for.
#[derive(Debug, Clone)]
pub enum Parcel {
    /// By the protocol that it uses.
    Bytes(Vec<u8>),
    /// About copies of keys.
    Notice(Notice),
}

/// What a thread is told.
#[derive(Debug)]
pub enum Message {
    /// A client has connected.
    Connected(Stream),
    /// A client is sent something.
    Send(u64, Parcel),
    /// A client does not wait for keys any more.
    Unblock {
        /// The client.
        client: u64,
        /// It is told that it was unblocked, and not as if its time had come.
        with_error: bool,
    },
    /// A client is disconnected.
    Kill(u64),
    /// Keys were written to that clients wait for. One of this thread is next.
    Wake(Wakeup),
}

/// Where messages for a thread are left.
#[derive(Debug)]
pub struct Mailbox {
    messages: Mutex<Vec<Message>>,
    waker: Waker,
    /// The thread will look before it sleeps.
    is_woken: AtomicBool,
}

impl Mailbox {
    /// The mailbox of the thread that polls `registry`.
    ///
    /// # Errors
    /// If the system cannot make it.
    pub fn new(registry: &Registry, token: Token) -> io::Result<Mailbox> {
        Ok(Mailbox {
            messages: Mutex::default(),
            waker: Waker::new(registry, token)?,
            is_woken: AtomicBool::new(false),
        })
    }

    /// Leaves a message.
    pub fn post(&self, message: Message) {
        self.messages.lock().push(message);
        self.wake_up();
    }

    /// Lets the thread look.
    pub fn wake_up(&self) {
        if !self.is_woken.swap(true, Ordering::AcqRel) {
            // It fails only if the thread is gone.
            let _ = self.waker.wake();
        }
    }

    /// What was left. From now on, whoever leaves something wakes the thread again.
    pub(crate) fn take(&self) -> Vec<Message> {
        // What was done before it was woken is seen from here on.
        self.is_woken.swap(false, Ordering::AcqRel);
        std::mem::take(&mut self.messages.lock())
    }
}

impl Wake for Mailbox {
    fn wake(self: Arc<Self>) {
        self.wake_up();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.wake_up();
    }
}
