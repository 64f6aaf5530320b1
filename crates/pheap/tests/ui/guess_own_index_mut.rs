// `#[txn]` sees arrays and slices, not an `IndexMut` of one's own.
use pheap::{P, Persist, Txn, txn};

#[derive(Persist)]
#[repr(C)]
struct Grid {
    cells: [u64; 9],
}

impl std::ops::Index<usize> for Grid {
    type Output = u64;

    fn index(&self, i: usize) -> &u64 {
        &self.cells[i]
    }
}

impl std::ops::IndexMut<usize> for Grid {
    fn index_mut(&mut self, i: usize) -> &mut u64 {
        &mut self.cells[i]
    }
}

#[derive(Persist)]
#[repr(C)]
struct Whole {
    part: Grid,
}

#[txn]
fn set<'r>(tx: &mut Txn<'r>, p: P<'r, Whole>, i: usize, value: u64) {
    //= let part = &mut tx[p].part; part[i] = value;
    tx[p].part[i] = value;
}

fn main() {}
