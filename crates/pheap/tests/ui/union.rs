// A union does not know what is in it.
use pheap::Persist;

#[derive(Persist)]
#[repr(C)]
union Word {
    int: u64,
    float: f64,
}

fn main() {}
