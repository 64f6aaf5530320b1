// The fields of variants are checked like those of structs.
use pheap::Persist;

#[derive(Persist)]
#[repr(u8)]
enum Entry {
    Empty,
    Name { text: String },
}

fn main() {}
