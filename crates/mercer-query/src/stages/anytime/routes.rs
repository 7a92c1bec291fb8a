//! Which sequence of basis points a query goes to: the nearest centre of flat clusters, or a side of a split in a tree. What
//! is proved does not depend on it.

use mercer_kernel::block::Packed;

use super::{Anytime, AnytimeScratch};
use crate::block::Block;
use crate::tracker::DecisionTracker;

/// A hyperplane in the kernel values with the basis points so far: above it a query goes to the second child.
#[derive(Debug)]
pub(super) struct Split {
    pub(super) weights: Vec<f64>,
    pub(super) threshold: f64,
    pub(super) children: [u32; 2],
}

/// Sends a query to the nearest centre: the largest `c·x - |c|²/2`.
#[derive(Debug)]
pub(super) struct Router {
    pub(super) centres: Packed,
    pub(super) halves: Vec<f64>,
}

impl Anytime {
    /// Which sequence each open query belongs to.
    pub(super) fn route(&self, block: &Block<'_>, scratch: &mut AnytimeScratch) {
        scratch.routes.clear();
        scratch.routes.resize(block.len(), 0);
        let (Some(router), Some(queries)) = (&self.router, &mut scratch.router) else { return };
        let rows = block.open().iter().map(|query| block.row(*query));
        router.centres.load_without_norms(self.isa, rows.clone(), queries);
        let mut best = vec![f64::NEG_INFINITY; block.open().len()];
        router.centres.visit(self.isa, queries, rows, &mut scratch.tile, |tile| {
            for position in tile.queries.clone() {
                for (centre, product) in tile.rows.clone().zip(tile.of(position)) {
                    let nearness = product - router.halves[centre];
                    if nearness > best[position] {
                        best[position] = nearness;
                        scratch.routes[block.open()[position] as usize] = centre as u32;
                    }
                }
            }
        });
    }

    /// Sends the open queries of a sequence to its children.
    pub(super) fn send_to_children(
        &self,
        split: &Split,
        tracker: &mut DecisionTracker<'_>,
        scratch: &mut AnytimeScratch,
    ) {
        for query in &scratch.loaded {
            if !tracker.charge(*query, split.weights.len() as u64) {
                continue;
            }
            let values = &scratch.values[*query as usize * self.longest..][..split.weights.len()];
            let side: f64 = split.weights.iter().zip(values).map(|(w, k)| w * k).sum();
            let child = split.children[usize::from(side > split.threshold)];
            scratch.routes[*query as usize] = child;
        }
    }
}
