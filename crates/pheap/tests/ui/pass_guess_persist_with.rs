// What the message about `guess_persist_with.rs` says to write.
use std::net::Ipv4Addr;

use pheap::{Persist, StoreAs, Stored};

enum Octets {}

impl StoreAs<Ipv4Addr> for Octets {
    type Form = [u8; 4];

    fn store(value: Ipv4Addr) -> [u8; 4] {
        value.octets()
    }

    fn load(form: &[u8; 4]) -> Ipv4Addr {
        (*form).into()
    }
}

#[derive(Persist)]
#[repr(C)]
struct Peer {
    address: Stored<Ipv4Addr, Octets>,
}

fn main() {}
