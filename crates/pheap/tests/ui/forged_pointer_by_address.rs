// ... nor is there a constructor that takes one.
use pheap::{P, Persist};

#[derive(Persist, Default)]
#[repr(C)]
struct Node<'r> {
    val: u64,
    next: Option<P<'r, Node<'r>>>,
}

fn forge<'r>(at: std::ptr::NonNull<u8>) -> P<'r, Node<'r>> {
    // SAFETY: there is no such function to call.
    unsafe { P::from_addr(at) }
}

fn main() {}
