//! The content of the heap: a graph.

use pheap::{P, PVec, Persist, Result, Txn, View, field, txn};

/// The root.
#[derive(Persist, Default)]
#[repr(C)]
pub struct Graph<'r> {
    /// By their numbers.
    pub nodes: PVec<'r, P<'r, Node<'r>>>,
    /// How many edges there are. Changed with them, so a program that was killed knows where to go on.
    pub edges: u64,
}

/// An object of its own, so that the vector in it can be changed in place.
#[derive(Persist, Default)]
#[repr(C)]
pub struct Node<'r> {
    /// The nodes that its edges lead to. Numbers, for that is what the algorithms want.
    pub out: PVec<'r, u32>,
    /// As it was when ranks were computed.
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

    /// What edges lead from a node to, for each node.
    pub fn out<'v>(&self, view: &'v View<'r>) -> impl Fn(usize) -> &'v [u32] + use<'v, 'r> {
        let nodes = self.nodes.as_slice(view, ..);
        move |node| view[nodes[node]].out.as_slice(view, ..)
    }
}
