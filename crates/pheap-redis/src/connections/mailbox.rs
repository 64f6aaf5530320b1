//! The mailbox of a thread. Threads put messages into it, or only wake its owner, for example because a
//! commit is durable.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;

use mio::{Registry, Token, Waker};
use parking_lot::Mutex;

use crate::clients::tracking::Notice;
use crate::clients::waiting::Wakeup;
use crate::connections::stream::Stream;

/// A message for a client that is not the reply to a request of that client.
#[derive(Debug, Clone)]
pub enum Parcel {
    /// Encoded bytes.
    Bytes(Vec<u8>),
    /// A message about copies of keys. It is encoded for the client's protocol when it is delivered.
    Notice(Notice),
}

/// A message to a thread.
#[derive(Debug)]
pub enum Message {
    /// A client has connected, and this thread shall serve it.
    Connected(Stream),
    /// Sends a parcel to the client with this id.
    Send(u64, Parcel),
    /// Ends a client's wait for keys.
    Unblock {
        /// The client's id.
        client: u64,
        /// Whether the reply is an error, and not that of a timeout.
        with_error: bool,
    },
    /// Disconnects the client with this id.
    Kill(u64),
    /// Keys were written to, or a client must look at its keys again. The receiving thread begins to serve
    /// the waiting clients, or has the next one, or has the writer, which may go on.
    Wake(Wakeup),
}

/// The mailbox of a thread.
#[derive(Debug)]
pub struct Mailbox {
    messages: Mutex<Vec<Message>>,
    waker: Waker,
    /// Whether the thread was woken and has not read the mailbox since.
    is_woken: AtomicBool,
}

impl Mailbox {
    /// Makes the mailbox of the thread that polls `registry`.
    ///
    /// # Errors
    /// If the system cannot create the waker.
    pub fn new(registry: &Registry, token: Token) -> io::Result<Mailbox> {
        Ok(Mailbox {
            messages: Mutex::default(),
            waker: Waker::new(registry, token)?,
            is_woken: AtomicBool::new(false),
        })
    }

    /// Adds a message and wakes the thread.
    pub fn post(&self, message: Message) {
        self.messages.lock().push(message);
        self.wake_up();
    }

    /// Wakes the thread, unless it was woken and has not read the mailbox since.
    pub fn wake_up(&self) {
        if !self.is_woken.swap(true, Ordering::AcqRel) {
            // A failure is ignored, because the caller could not handle it.
            let _ = self.waker.wake();
        }
    }

    /// Takes all messages. A message that comes later wakes the thread.
    pub(crate) fn take(&self) -> Vec<Message> {
        // The swap makes the writes visible that came before the wake-up.
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
