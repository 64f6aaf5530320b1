// A program cannot make a pointer out of an address ...
use pheap::{P, Persist};

#[derive(Persist, Default)]
#[repr(C)]
struct Node<'r> {
    val: u64,
    next: Option<P<'r, Node<'r>>>,
}

fn forge<'r>(at: std::ptr::NonNull<u8>) -> P<'r, Node<'r>> {
    P { addr: at, marker: std::marker::PhantomData }
}

fn main() {}
