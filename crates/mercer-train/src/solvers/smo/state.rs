//! The state of a run of `smo`: what a checkpoint holds.
//! The file is written in [`crate::checkpoint`].

use super::LowestPoint;

/// Everything that the next round depends on, and nothing else.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct State {
    /// β of all variables.
    pub(crate) beta: Vec<f64>,
    /// `Kβ` of the active rows.
    pub(crate) k_beta: Vec<f64>,
    /// Rows that are not shrunk, in increasing order.
    pub(crate) active: Vec<u32>,
    /// Variables of the last working set, the newest first.
    pub(crate) previous: Vec<u32>,
    pub(crate) rounds: u64,
    pub(crate) steps: u64,
    /// Round of the next comparison with an f64 gradient.
    pub(crate) next_check: u64,
    /// Round of the next attempt to shrink.
    pub(crate) next_shrink: u64,
    /// Rounds in a row without progress.
    pub(crate) idle: u32,
    /// Whether kernel rows are f64.
    pub(crate) is_f64: bool,
    /// The point with the least objective of those whose `Kβ` was recomputed; the start is one.
    pub(crate) lowest: LowestPoint,
}

impl State {
    /// The state at the start, given β and `Kβ` of all rows. The objective is that of β = 0.
    pub(crate) fn new(k_beta: Vec<f64>, beta: Vec<f64>, is_f64: bool) -> Self {
        Self {
            lowest: LowestPoint { beta: beta.clone(), objective: 0.0 },
            beta,
            active: (0..k_beta.len() as u32).collect(),
            k_beta,
            previous: Vec::new(),
            rounds: 0,
            steps: 0,
            next_check: super::accuracy::FIRST_CHECK,
            next_shrink: super::shrink::FIRST_SHRINK,
            idle: 0,
            is_f64,
        }
    }

    /// Whether a state from a checkpoint has the size of this quadratic program.
    pub(crate) fn fits(&self, qp: &crate::Qp) -> bool {
        let rows = qp.rows as u32;
        self.beta.len() == qp.len()
            && self.lowest.beta.len() == qp.len()
            && self.k_beta.len() == self.active.len()
            && self.active.last().is_none_or(|last| *last < rows)
            && self.active.is_sorted_by(|a, b| a < b)
            && self.previous.iter().all(|v| (*v as usize) < qp.len())
    }

    /// Active variables with their position among the active rows.
    pub(super) fn variables(&self, rows: usize) -> impl Iterator<Item = (usize, usize)> + Clone {
        let sides = (self.beta.len() / rows.max(1)).max(1);
        let active = self.active.iter().enumerate();
        (0..sides).flat_map(move |side| {
            active.clone().map(move |(at, row)| (side * rows + *row as usize, at))
        })
    }
}
