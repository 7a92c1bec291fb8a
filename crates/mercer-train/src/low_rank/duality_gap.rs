//! What a point of a quadratic program over a factor is worth.
//! What the low rank itself costs on the original problem is in `approximation`.

use crate::Qp;

/// A point of a box, kept as its distances from both walls, so that neither loses digits.
#[derive(Debug, Clone)]
pub(crate) struct Inside {
    /// `β - lower`.
    pub(crate) below: Vec<f64>,
    /// `upper - β`.
    pub(crate) above: Vec<f64>,
}

impl Inside {
    pub(crate) fn of(qp: &Qp, beta: &[f64]) -> Self {
        Self {
            below: beta.iter().zip(&qp.lower).map(|(b, l)| (b - l).max(0.0)).collect(),
            above: beta.iter().zip(&qp.upper).map(|(b, u)| (u - b).max(0.0)).collect(),
        }
    }

    /// β, from the nearer wall.
    pub(crate) fn beta(&self, qp: &Qp) -> Vec<f64> {
        let value = |v: usize| {
            if self.below[v] <= self.above[v] {
                qp.lower[v] + self.below[v]
            } else {
                qp.upper[v] - self.above[v]
            }
        };
        (0..qp.len()).map(value).collect()
    }
}

/// Objective, duality gap and the multiplier of each group.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GapEvaluation {
    pub(crate) objective: f64,
    /// `β'GG'β`.
    pub(crate) square: f64,
    pub(crate) gap: f64,
    /// What the gap is a share of: the objective, never softened by adding 1 to it.
    pub(crate) size: f64,
    pub(crate) multipliers: Vec<f64>,
}

impl GapEvaluation {
    pub(crate) fn relative(&self) -> f64 {
        if self.gap == 0.0 { 0.0 } else { self.gap / self.size }
    }
}

/// The sums that the groups must have.
pub(crate) fn wanted(qp: &Qp) -> Vec<f64> {
    let mut sums = vec![0.0; qp.group_count()];
    qp.start.iter().zip(&qp.groups).for_each(|(value, group)| sums[usize::from(*group)] += value);
    sums
}

/// The multiplier that makes the gap smallest: `Σ_{F < b} upper + Σ_{F > b} lower` meets the sum that the
/// group must have, so b is a quantile of the gradient, weighted by the widths.
pub(crate) fn multipliers(qp: &Qp, gradient: &[f64]) -> Vec<f64> {
    let sums = wanted(qp);
    let multiplier = |group: usize| {
        let mut members: Vec<usize> = (0..qp.len())
            .filter(|v| usize::from(qp.groups[*v]) == group && qp.upper[*v] > qp.lower[*v])
            .collect();
        members.sort_unstable_by(|a, b| gradient[*a].total_cmp(&gradient[*b]));
        let fixed = (0..qp.len()).filter(|v| usize::from(qp.groups[*v]) == group);
        let mut sum: f64 = fixed.map(|v| qp.lower[v]).sum();
        let slack = 1e-12 * members.iter().map(|v| qp.upper[*v] - qp.lower[*v]).sum::<f64>();
        let mut chosen = members.first().map_or(0.0, |v| gradient[*v]);
        for (at, v) in members.iter().enumerate() {
            chosen = gradient[*v];
            sum += qp.upper[*v] - qp.lower[*v];
            if sum >= sums[group] - slack {
                // Exactly met: every b up to the next grad is as good; the middle is fairest.
                if let (true, Some(next)) = (sum <= sums[group] + slack, members.get(at + 1)) {
                    chosen = f64::midpoint(chosen, gradient[*next]);
                }
                break;
            }
        }
        chosen
    };
    (0..sums.len()).map(multiplier).collect()
}

/// Judges a point given `k_beta = G G'β` of each row: everything is computed anew, with the best multipliers.
///
/// The gap is `Σ_v max_x (F_v - b)(β_v - x)`, plus what a sum that is off by rounding may hide.
pub(crate) fn evaluate_gap(qp: &Qp, point: &Inside, k_beta: &[f64]) -> GapEvaluation {
    let beta = point.beta(qp);
    let (mut objective, mut square) = (0.0, 0.0);
    for (v, beta) in beta.iter().enumerate() {
        let sum = k_beta[v % qp.rows];
        objective += beta * (0.5 * sum + qp.linear[v]);
        square += beta * sum;
    }
    let (gap, multipliers) = gap_of(qp, point, &beta, k_beta);
    GapEvaluation { objective, square, gap, size: objective.abs(), multipliers }
}

/// The gap between a point and the primal side of another w than `G'β`, given `G w` of each row, and the best
/// multipliers: `½ |w - G'β|²`, which is `half` here, plus `Σ_v max_x ((G w)_v + q_v - b)(β_v - x)`, as rigorous.
///
/// Where C is large, β is so large that the rounding of `G'β` alone would fill the other gap.
pub(crate) fn gap_beside(qp: &Qp, point: &Inside, g_w: &[f64], half: f64) -> (f64, Vec<f64>) {
    let (gap, multipliers) = gap_of(qp, point, &point.beta(qp), g_w);
    (gap + half, multipliers)
}

fn gap_of(qp: &Qp, point: &Inside, beta: &[f64], products: &[f64]) -> (f64, Vec<f64>) {
    let gradient: Vec<f64> =
        qp.linear.iter().enumerate().map(|(v, q)| products[v % qp.rows] + q).collect();
    let multipliers = multipliers(qp, &gradient);
    let mut gap = 0.0;
    let mut missing = wanted(qp);
    for (v, grad) in gradient.iter().enumerate() {
        let group = usize::from(qp.groups[v]);
        let slope = grad - multipliers[group];
        gap += if slope > 0.0 { slope * point.below[v] } else { -slope * point.above[v] };
        missing[group] -= beta[v];
    }
    let hidden: f64 = missing.iter().zip(&multipliers).map(|(m, b)| (m * b).abs()).sum();
    (gap + hidden, multipliers)
}

/// Gives each group its sum back by moving variables that are free, the freest first: those at a wall stay.
pub(crate) fn restore_sums(qp: &Qp, point: &mut Inside) {
    let beta = point.beta(qp);
    for (group, wanted) in wanted(qp).into_iter().enumerate() {
        let mut members: Vec<usize> =
            (0..qp.len()).filter(|v| usize::from(qp.groups[*v]) == group).collect();
        let mut missing = wanted - members.iter().map(|v| beta[*v]).sum::<f64>();
        let scale: f64 = members.iter().map(|v| beta[*v].abs()).sum();
        if missing.abs() <= 1e-15 * scale {
            continue;
        }
        let slack = |v: usize| point.below[v].min(point.above[v]);
        members.sort_unstable_by(|a, b| slack(*b).total_cmp(&slack(*a)));
        for v in members {
            let (below, above) = (point.below[v], point.above[v]);
            let moved = missing.clamp(-below, above);
            point.below[v] = below + moved;
            point.above[v] = above - moved;
            missing -= moved;
            if missing == 0.0 {
                break;
            }
        }
    }
}
