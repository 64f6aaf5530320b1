//! The content of the heap: a graph.

use pheap::{P, PVec, Persist, Result, Txn, View, field, txn};

/// The root.
#[derive(Persist, Default)]
#[repr(C)]
pub struct Graph<'r> {
    /// The nodes, by number.
    pub nodes: PVec<'r, P<'r, Node<'r>>>,
    /// Number of edges. It changes together with the edges, so after a kill the program knows where to
    /// continue.
    pub edges: u64,
}

/// A node. It is a separate object, so that its vector can be changed in place.
#[derive(Persist, Default)]
#[repr(C)]
pub struct Node<'r> {
    /// Numbers of the nodes that the edges lead to. They are not pointers, because the algorithms need
    /// numbers.
    pub out: PVec<'r, u32>,
    /// Rank that was stored last, or 0.
    pub rank: f64,
}

impl<'r> Graph<'r> {
    /// Adds edges, and the nodes that they need.
    #[txn]
    pub fn add_edges(graph: P<'r, Self>, tx: &mut Txn<'r>, edges: &[(u32, u32)]) -> Result<()> {
        for &(from, to) in edges {
            let most = from.max(to) as usize;
            while tx[graph].nodes.len() <= most {
                let node = tx.alloc(Node::default())?;
                field!(graph.nodes).push(tx, node)?;
            }
            let from = *tx[graph].nodes.get(tx, from as usize).expect("it was made above");
            field!(from.out).push(tx, to)?;
        }
        tx[graph].edges += edges.len() as u64;
        Ok(())
    }

    /// Stores the rank of each node.
    #[txn]
    pub fn set_ranks(graph: P<'r, Self>, tx: &mut Txn<'r>, ranks: &[f64]) -> Result<()> {
        let nodes = tx[graph].nodes.as_slice(tx, ..).to_vec();
        for (node, &rank) in nodes.into_iter().zip(ranks) {
            tx[node].rank = rank;
        }
        Ok(())
    }

    /// Returns a function that returns the targets of a node's edges.
    pub fn out<'v>(&self, view: &'v View<'r>) -> impl Fn(usize) -> &'v [u32] + use<'v, 'r> {
        let nodes = self.nodes.as_slice(view, ..);
        move |node| view[nodes[node]].out.as_slice(view, ..)
    }
}
