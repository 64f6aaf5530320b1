//! Types of other crates.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use pheap::{Heap, PBTreeMap, Persist, Plain, Result, Root, StoreAs, Stored, field};

/// Stored as 16 bytes, those of version 4 as IPv6 maps them.
enum Mapped {}

impl StoreAs<IpAddr> for Mapped {
    type Form = [u8; 16];

    fn store(value: IpAddr) -> [u8; 16] {
        match value {
            IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
            IpAddr::V6(address) => address.octets(),
        }
    }

    fn load(form: &[u8; 16]) -> IpAddr {
        Ipv6Addr::from(*form).to_canonical()
    }
}

#[derive(Persist)]
#[repr(C)]
struct Peer<'r> {
    address: Stored<IpAddr, Mapped>,
    hits: PBTreeMap<'r, Stored<IpAddr, Mapped>, u64>,
}

#[test]
fn a_foreign_type_is_stored_as_its_adapter_says() -> Result<()> {
    fn is_plain<T: Plain>() {}
    is_plain::<Stored<IpAddr, Mapped>>();
    let (here, there) = (IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST));
    let heap = Heap::in_memory()?;
    let peer: Root<Peer> =
        heap.root_or("peer", |_| Ok(Peer { address: here.into(), hits: PBTreeMap::new() }))?;
    peer.txn(|tx, peer| {
        assert_eq!(tx[peer].address.get(), here);
        tx[peer].address.set(there);
        *field!(peer.hits).entry(tx, &here.into()).or_insert(0)? += 1;
        field!(peer.hits).insert(tx, Stored::new(there), 2)?;
        Ok(())
    })?;
    peer.read(|view, peer| {
        let peer = &view[peer];
        assert_eq!(peer.address.get(), there);
        assert_eq!(peer.address, there.into());
        assert_eq!(peer.hits.get(view, Stored::new(here)), Some(&1));
        assert!(peer.hits.keys(view).map(Stored::get).eq([there, here]));
    })
}

#[cfg(feature = "uuid")]
#[test]
fn uuids_are_stored_as_they_are() -> Result<()> {
    use uuid::Uuid;
    let (one, other) = (Uuid::from_u128(1), Uuid::from_u128(2 << 100));
    let heap = Heap::in_memory()?;
    let map: Root<PBTreeMap<Uuid, Uuid>> = heap.root("map")?;
    map.txn(|tx, map| {
        map.insert(tx, other, one)?;
        map.insert(tx, &one, other)?;
        assert_eq!(map.get(tx, one), Some(&other));
        assert!(tx[map].keys(tx).eq([&one, &other]));
        Ok(())
    })
}

#[cfg(feature = "ordered-float")]
#[test]
fn floats_are_keys_in_their_order() -> Result<()> {
    use ordered_float::OrderedFloat;
    use pheap::PHashMap;
    #[derive(Persist, Default)]
    #[repr(C)]
    struct Maps<'r> {
        ordered: PBTreeMap<'r, OrderedFloat<f64>, u64>,
        hashed: PHashMap<'r, OrderedFloat<f32>, u64>,
    }
    let mut all = [f64::NAN, 1.5, -0.0, f64::INFINITY, -2.5, f64::NEG_INFINITY, 1e-300, -1e-300, 3.0];
    let heap = Heap::in_memory()?;
    let maps: Root<Maps> = heap.root("maps")?;
    maps.txn(|tx, maps| {
        for (i, &x) in all.iter().enumerate() {
            field!(maps.ordered).insert(tx, OrderedFloat(x), i as u64)?;
            field!(maps.hashed).insert(tx, OrderedFloat(x as f32), i as u64)?;
        }
        assert_eq!(field!(maps.ordered).insert(tx, OrderedFloat(0.0), 9)?, Some(2));
        assert_eq!(field!(maps.ordered).insert(tx, OrderedFloat(-f64::NAN), 10)?, Some(0));
        assert_eq!(field!(maps.hashed).get(tx, OrderedFloat(-f32::NAN)), Some(&0));
        Ok(())
    })?;
    all.sort_by_key(|&x| OrderedFloat(x));
    maps.read(|view, maps| {
        assert!(view[maps].ordered.keys(view).copied().eq(all.map(OrderedFloat)));
    })
}
