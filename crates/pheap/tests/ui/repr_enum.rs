// An enum needs a tag of fixed width.
use pheap::Persist;

#[derive(Persist)]
enum None {
    A,
}

#[derive(Persist)]
#[repr(C)]
enum OnlyC {
    A,
}

#[derive(Persist)]
#[repr(usize)]
enum Machine {
    A,
}

#[derive(Persist)]
#[repr(C, u8)]
enum Both {
    A(u64),
}

fn main() {}
