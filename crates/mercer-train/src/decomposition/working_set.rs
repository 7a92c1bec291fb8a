//! Which rows form the next working set: free rows and violators, drawn at random.
//! How they are solved is in `changes`.

use crate::Qp;

/// A violator within this share of the tolerance is left alone.
const SLACK: f64 = 0.5;
/// Of a full working set, this share may be free rows where there are violators to fill the rest.
const FREE_SHARE: f64 = 0.75;

/// Rows by what the next round may do with them.
#[derive(Debug, Default)]
struct RowChoices {
    free: Vec<u32>,
    violators: Vec<u32>,
    /// The worst violators of both directions and all groups.
    worst: Vec<u32>,
}

/// Rows of the next working set, in increasing order: all free rows if they fit, and violators drawn at random.
///
/// The worst violators are always in it, so every round makes progress. The draw depends on the seed, the round and
/// the number of a row alone.
pub(super) fn working_set(
    qp: &Qp,
    beta: &[f64],
    k_beta: &[f64],
    tolerance: f64,
    size: usize,
    draw: Draw,
) -> Vec<u32> {
    let RowChoices { mut free, mut violators, worst } = candidates(qp, beta, k_beta, tolerance);
    let mut set = worst;
    let left = size.saturating_sub(set.len());
    let most_free = left.saturating_sub(violators.len()).max((FREE_SHARE * left as f64) as usize);
    draw.keep(&mut free, most_free);
    let left = left.saturating_sub(free.len());
    draw.keep(&mut violators, left);
    set.extend(free);
    set.extend(violators);
    set.sort_unstable();
    set.dedup();
    set
}

/// Rows that are free or violate the optimality conditions by more than a part of the tolerance.
fn candidates(qp: &Qp, beta: &[f64], k_beta: &[f64], tolerance: f64) -> RowChoices {
    let groups = qp.group_count();
    let (mut up, mut low) = (vec![f64::INFINITY; groups], vec![f64::NEG_INFINITY; groups]);
    let (mut up_row, mut low_row) = (vec![None; groups], vec![None; groups]);
    for v in 0..qp.len() {
        let (group, grad) = (usize::from(qp.groups[v]), k_beta[v % qp.rows] + qp.linear[v]);
        if beta[v] < qp.upper[v] && grad < up[group] {
            (up[group], up_row[group]) = (grad, Some((v % qp.rows) as u32));
        }
        if beta[v] > qp.lower[v] && grad > low[group] {
            (low[group], low_row[group]) = (grad, Some((v % qp.rows) as u32));
        }
    }
    let mut found = RowChoices::default();
    for group in 0..groups {
        if low[group] > up[group] {
            found.worst.extend(up_row[group].into_iter().chain(low_row[group]));
        }
    }
    let sides = qp.len() / qp.rows.max(1);
    for row in 0..qp.rows {
        let (mut is_free, mut violates) = (false, false);
        for v in (0..sides).map(|side| side * qp.rows + row) {
            let group = usize::from(qp.groups[v]);
            let (may_grow, may_fall) = (beta[v] < qp.upper[v], beta[v] > qp.lower[v]);
            let grad = k_beta[row] + qp.linear[v];
            let middle = f64::midpoint(up[group], low[group]);
            let slack = SLACK * tolerance;
            is_free |= may_grow && may_fall;
            violates |= low[group] > up[group]
                && ((may_grow && grad < middle - slack) || (may_fall && grad > middle + slack));
        }
        if is_free {
            found.free.push(row as u32);
        } else if violates {
            found.violators.push(row as u32);
        }
    }
    found
}

/// A draw without replacement that depends on seed, round and row alone.
#[derive(Debug, Clone, Copy)]
pub(super) struct Draw {
    pub(super) seed: u64,
    pub(super) round: u64,
}

impl Draw {
    /// Keeps so many of the rows, in increasing order.
    pub(super) fn keep(self, rows: &mut Vec<u32>, count: usize) {
        if rows.len() <= count {
            return;
        }
        if count == 0 {
            rows.clear();
            return;
        }
        rows.select_nth_unstable_by_key(count - 1, |row| (self.key(*row), *row));
        rows.truncate(count);
        rows.sort_unstable();
    }

    /// SplitMix64 of seed, round and row.
    fn key(self, row: u32) -> u64 {
        let mut state = self.seed;
        for part in [self.round, u64::from(row)] {
            state = state.wrapping_add(part).wrapping_add(0x9e37_79b9_7f4a_7c15);
            state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            state ^= state >> 31;
        }
        state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn qp() -> Qp {
        Qp {
            rows: 6,
            lower: vec![0.0, 0.0, 0.0, -1.0, -1.0, -1.0],
            upper: vec![1.0, 1.0, 1.0, 0.0, 0.0, 0.0],
            linear: vec![-1.0, -1.0, -1.0, 1.0, 1.0, 1.0],
            start: vec![0.0; 6],
            groups: vec![0; 6],
        }
    }

    #[test]
    fn free_rows_and_the_worst_violators_are_in_the_set() {
        let qp = qp();
        let beta = [0.5, 1.0, 0.0, -0.5, -1.0, 0.0];
        // F is -1 + f for the first three: row 1 is at bound and content, row 2 at zero and content.
        let k_beta = [1.0, 0.5, 3.0, -1.0, -0.5, -3.0];
        let draw = Draw { seed: 1, round: 1 };
        assert_eq!(working_set(&qp, &beta, &k_beta, 1e-3, 6, draw), [0, 3]);
        let k_beta = [1.0, 0.5, 0.25, -1.0, -0.5, -3.0];
        let set = working_set(&qp, &beta, &k_beta, 1e-3, 6, draw);
        assert!(set.contains(&2), "{set:?}");
        assert_eq!(working_set(&qp, &beta, &k_beta, 1e-3, 2, draw).len(), 2);
    }

    #[test]
    fn a_draw_depends_on_seed_and_round_alone() {
        let rows: Vec<u32> = (0..1000).collect();
        let drawn = |seed: u64, round: u64| {
            let mut kept = rows.clone();
            Draw { seed, round }.keep(&mut kept, 100);
            kept
        };
        assert_eq!(drawn(1, 1), drawn(1, 1));
        assert_ne!(drawn(1, 1), drawn(2, 1));
        assert_ne!(drawn(1, 1), drawn(1, 2));
        assert!(drawn(1, 1).is_sorted());
        let mut backwards: Vec<u32> = rows.iter().rev().copied().collect();
        Draw { seed: 1, round: 1 }.keep(&mut backwards, 100);
        assert_eq!(backwards, drawn(1, 1), "the order of the candidates does not matter");
    }
}
