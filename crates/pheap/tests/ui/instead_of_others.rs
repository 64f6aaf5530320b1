// The conditions of the impls that are there for their messages: nobody can make one hold.
#![forbid(unsafe_code)]

struct Mine;

impl<'a> pheap::layout::instead::UseP<'a, Box<Mine>> for () {}

fn main() {}
