// A conversion is part of the type.
use std::net::Ipv4Addr;

//= use pheap::{Persist, StoreAs, Stored};
use pheap::{Persist, StoreAs};

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
    //=
    #[persist(with = Octets)]
    //= address: Stored<Ipv4Addr, Octets>,
    address: Ipv4Addr,
}

fn main() {}
