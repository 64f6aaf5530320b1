// A pointer leaves a migration in the new root only.
use pheap::{P, Persist};

#[derive(Persist, Default)]
#[repr(C)]
struct Old<'r> {
    next: Option<P<'r, Old<'r>>>,
}

#[derive(Persist, Default)]
#[repr(C)]
struct New<'r> {
    old: Option<P<'r, Old<'r>>>,
}

fn main() -> pheap::Result<()> {
    let heap = pheap::Heap::in_memory()?;
    let mut leaked = None;
    heap.migrate::<Old, New>("root", |_, old| {
        leaked = Some(old);
        Ok(New { old: Some(old) })
    })?;
    Ok(())
}
