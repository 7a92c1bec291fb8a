//! Which variables form the next working set. How they are solved is in `inner.rs`.

use super::State;
use crate::Qp;

/// With a larger share of variables that may move all are taken: whole kernel rows are copied faster than parts of them.
const MOST_MOVING: f64 = 0.75;

/// What one pass over the active variables found.
#[derive(Debug)]
pub(super) struct Scan {
    /// Smallest F of a variable that may grow, for each group.
    pub(super) up: [f64; 2],
    /// Largest F of a variable that may fall, for each group.
    pub(super) low: [f64; 2],
    pub(super) supports: usize,
    /// Objective of the active variables.
    pub(super) objective: f64,
}

/// One pass over all active variables.
pub(super) fn scan(qp: &Qp, state: &State) -> Scan {
    let mut scan =
        Scan { up: [f64::INFINITY; 2], low: [f64::NEG_INFINITY; 2], supports: 0, objective: 0.0 };
    for (v, at) in state.variables(qp.rows) {
        let (beta, group) = (state.beta[v], usize::from(qp.groups[v]));
        let grad = state.k_beta[at] + qp.linear[v];
        if beta < qp.upper[v] {
            scan.up[group] = scan.up[group].min(grad);
        }
        if beta > qp.lower[v] {
            scan.low[group] = scan.low[group].max(grad);
        }
        scan.objective += 0.5 * beta * (grad + qp.linear[v]);
    }
    scan.supports = state.beta.iter().filter(|beta| **beta != 0.0).count();
    scan
}

impl Scan {
    /// Maximal violation of the active variables: what LIBSVM compares with its ε.
    pub(super) fn violation(&self) -> f64 {
        (self.low[0] - self.up[0]).max(self.low[1] - self.up[1]).max(0.0)
    }

    /// Duality gap of the active variables; the multiplier of each group is the midpoint of `up` and `low`.
    pub(super) fn gap(&self, qp: &Qp, state: &State) -> f64 {
        let midpoint = |group: usize| {
            let (up, low) = (self.up[group], self.low[group]);
            match (up.is_finite(), low.is_finite()) {
                (true, true) => f64::midpoint(up, low),
                (true, false) => up,
                (false, true) => low,
                (false, false) => 0.0,
            }
        };
        let multipliers = [midpoint(0), midpoint(1)];
        let variables = state.variables(qp.rows);
        variables.fold(0.0, |gap, (v, at)| {
            let slope = state.k_beta[at] + qp.linear[v] - multipliers[usize::from(qp.groups[v])];
            let best = if slope > 0.0 { qp.lower[v] } else { qp.upper[v] };
            gap + slope * (state.beta[v] - best)
        })
    }
}

/// End of each group in a working set that is sorted by groups.
pub(super) fn group_ends(qp: &Qp, set: &[u32]) -> [usize; 2] {
    let first = set.iter().filter(|v| qp.groups[**v as usize] == 0).count();
    [first, set.len()]
}

/// All variables, sorted by groups.
pub(super) fn all_variables(qp: &Qp) -> Vec<u32> {
    let mut set: Vec<u32> = (0..qp.len() as u32).collect();
    set.sort_by_key(|v| qp.groups[*v as usize]);
    set
}

fn is_free(qp: &Qp, state: &State, v: usize) -> bool {
    state.beta[v] > qp.lower[v] && state.beta[v] < qp.upper[v]
}

/// The multiplier of each group: the mean F of the variables between their bounds.
fn multipliers(qp: &Qp, state: &State, scan: &Scan) -> [f64; 2] {
    let (mut sums, mut counts) = ([0.0; 2], [0.0; 2]);
    for (v, at) in state.variables(qp.rows).filter(|(v, _)| is_free(qp, state, *v)) {
        let group = usize::from(qp.groups[v]);
        sums[group] += state.k_beta[at] + qp.linear[v];
        counts[group] += 1.0;
    }
    [0, 1].map(|group| match counts[group] {
        0.0 => f64::midpoint(scan.up[group], scan.low[group]),
        count => sums[group] / count,
    })
}

/// How many variables at a bound the multiplier of their group says to leave, by more than this.
pub(super) fn leaving(qp: &Qp, state: &State, by: f64) -> usize {
    let multipliers = multipliers(qp, state, &scan(qp, state));
    let leaves = |(v, at): &(usize, usize)| {
        let slope = state.k_beta[*at] + qp.linear[*v] - multipliers[usize::from(qp.groups[*v])];
        (state.beta[*v] <= qp.lower[*v] && state.beta[*v] < qp.upper[*v] && slope < -by)
            || (state.beta[*v] >= qp.upper[*v] && state.beta[*v] > qp.lower[*v] && slope > by)
    };
    state.variables(qp.rows).filter(leaves).count()
}

/// The variables that are likely to move from a point near the solution, sorted by groups: those between their bounds, and those at a
/// bound that the multiplier of their group says to leave. The pair that violates most is among them.
pub(super) fn moving_variables(qp: &Qp, state: &State, scan: &Scan) -> Vec<u32> {
    let multipliers = multipliers(qp, state, scan);
    let moves = |(v, at): &(usize, usize)| {
        let slope = state.k_beta[*at] + qp.linear[*v] - multipliers[usize::from(qp.groups[*v])];
        (state.beta[*v] < qp.upper[*v] && slope < 0.0)
            || (state.beta[*v] > qp.lower[*v] && slope > 0.0)
            || is_free(qp, state, *v)
    };
    let mut set: Vec<u32> = state.variables(qp.rows).filter(moves).map(|(v, _)| v as u32).collect();
    if set.len() as f64 > MOST_MOVING * qp.len() as f64 {
        return all_variables(qp);
    }
    set.sort_by_key(|v| qp.groups[*v as usize]);
    set
}

/// The next working set. Half of it are the worst violators, as many that should grow as should fall; the rest comes
/// from the previous set, free variables first. Sorted by groups; within a group the newest come first.
pub(super) fn working_set(qp: &Qp, state: &State, scan: &Scan, size: usize) -> Vec<u32> {
    let groups = qp.group_count();
    let fresh = if state.previous.is_empty() { size } else { (size / 2).max(2) };
    let share = (fresh / (2 * groups)).max(1);
    let mut taken = vec![false; qp.len()];
    let mut set: Vec<u32> = Vec::with_capacity(size);
    // Members of the previous set come last, but the worst violators are always taken.
    let mut is_old = vec![false; qp.len()];
    state.previous.iter().for_each(|v| is_old[*v as usize] = true);
    for group in 0..groups {
        let mut grow: Vec<(f64, u32)> = Vec::new();
        let mut fall: Vec<(f64, u32)> = Vec::new();
        for (v, at) in state.variables(qp.rows) {
            if usize::from(qp.groups[v]) != group {
                continue;
            }
            let grad = state.k_beta[at] + qp.linear[v];
            if state.beta[v] < qp.upper[v] && grad < scan.low[group] {
                grow.push((grad, v as u32));
            }
            if state.beta[v] > qp.lower[v] && grad > scan.up[group] {
                fall.push((-grad, v as u32));
            }
        }
        for candidates in [&mut grow, &mut fall] {
            if let Some(worst) = candidates.iter().copied().min_by(order) {
                take(&mut set, &mut taken, worst.1);
            }
            candidates.retain(|(_, v)| !is_old[*v as usize]);
            let count = share.min(candidates.len());
            if count < candidates.len() && count > 0 {
                candidates.select_nth_unstable_by(count - 1, order);
            }
            candidates.truncate(count);
            candidates.sort_unstable_by(order);
            candidates.iter().for_each(|(_, v)| take(&mut set, &mut taken, *v));
        }
    }
    set.truncate(size);
    let is_free = |v: &u32| {
        let v = *v as usize;
        state.beta[v] > qp.lower[v] && state.beta[v] < qp.upper[v]
    };
    let active = |v: &&u32| state.active.binary_search(&(**v % qp.rows as u32)).is_ok();
    let previous: Vec<u32> = state.previous.iter().filter(active).copied().collect();
    for free_ones in [true, false] {
        for v in previous.iter().filter(|v| is_free(v) == free_ones) {
            if set.len() < size {
                take(&mut set, &mut taken, *v);
            }
        }
    }
    set.sort_by_key(|v| qp.groups[*v as usize]);
    set
}

fn take(set: &mut Vec<u32>, taken: &mut [bool], v: u32) {
    if !std::mem::replace(&mut taken[v as usize], true) {
        set.push(v);
    }
}

/// By value, then by index: a total order, so that the choice does not depend on the platform.
fn order(a: &(f64, u32), b: &(f64, u32)) -> std::cmp::Ordering {
    a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))
}
