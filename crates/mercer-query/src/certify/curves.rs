//! Sums of curves, one for each column, read from tables.
//!
//! An additive kernel makes `f + b = Σ_j F_j(x_j)` with `F_j(t) = Σ_i β_i κ(z_ij, t) = G_j(t) - H_j(t)`, where G
//! gathers the positive coefficients and H the negative ones. `κ(s, ·)` is zero at zero, concave and never falls
//! ([`mercer_kernel::Curve`]), hence so are G and H: nothing else of the kernel is used.
//!
//! **One cell.** Let `t_k < t_(k+1)` be two nodes, `h` their distance, `m` the slope of the chord of G between
//! them, `a` that of the chord to the left and `b` to the right. By concavity G lies on or above its own
//! chord and on or below the two others, prolonged. Above the chord these are `(a - m) x` and
//! `(m - b)(h - x)`; the lower of the two is at most
//!
//! `gap = h d e / (d + e)`, `d = a - m >= 0`, `e = m - b >= 0`,
//!
//! which grows with d and with e, so that upper bounds of both may stand for them. In the first cell d is
//! infinite and `gap = h e`; in the last one `b >= 0` because G never falls. With the same for H,
//! `F(t)` lies within `[-gap_H, gap_G]` of the chord of F. Where κ is a straight line between the nodes
//! (`Curve::Kinked` with a node at every value of a support) both gaps are zero, and F is constant beyond
//! the last node.
//!
//! **Rounding of nodes.** All terms of G are positive, so its computed value at a node has the relative error
//! `ρ = γ_(2n + r + 8)`, n terms with the relative error `r u` each, whose coefficients were summed before;
//! `δ_k = 1.01 ρ Ĝ_k + 1e-290` also covers what underflows. A slope is then wrong by at most
//! `(δ_k + δ_(k+1)) / h + 4 u |m̂|`, times 1.01, and `2^-1073` where it lies below the normal range, which is added to d and e. Two straight lines are farthest
//! apart at the ends of the cell: the computed line `V + M (t - t_k)` is wrong there by at most
//!
//! `D = Σ δ + 8 u (|V| + |M| h + Σ Ĝ + Σ Ĥ) + 2^-1073 (h + 1)`, sums over both ends; the last term is what M and a step of it
//! lose to underflow, which matters where cells are as wide as 1e30.
//!
//! **Rounding of answers.** Reading the line at t costs at most `4 u (|V| + |M| h)`, and adding C columns at
//! most `γ_(C+4)` times the sum of all `|V| + |M| h`: both belong to the cell. So each cell has a radius
//!
//! `1.01 ((gap_G + gap_H) / 2 + D + (4 u + γ_(C+4)) (|V| + |M| h))`,
//!
//! V being the chord at the node plus `(gap_G - gap_H) / 2`, and the score lies within the sum of the radii of
//! the sum of the lines, less b. The two last operations and the sum of the radii are covered below.

use mercer_kernel::bound::{UNIT, gamma};

use super::Proved;

/// A sum of lines and a sum of radii over at most `columns` cells become the range of a score.
pub(crate) fn range(sum: f64, radius: f64, offset: f64, columns: usize) -> Option<Proved> {
    let score = sum - offset;
    let noise = 4.0 * UNIT * (sum.abs() + offset.abs());
    let half = (radius * (1.0 + gamma(columns as f64 + 4.0)) + noise) * (1.0 + 4.0 * UNIT);
    Proved::between((score - half).next_down(), (score + half).next_up())
}

#[cfg(test)]
mod tests {
    use mercer_testkit::Wide;

    use super::super::inject;
    use super::*;

    #[test]
    fn nothing_is_proved_from_numbers_that_are_not_finite() {
        let of = |[sum, radius, offset]: [f64; 3]| range(sum, radius, offset, 7);
        inject::nothing_is_proved(["sum", "radius", "offset"], [1.0, 1e-3, 0.5], of);
        inject::subnormals_keep_the_truth([1.0, 1e-3, 0.5], of, |&[sum, radius, offset]| {
            inject::around(sum - offset, radius)
        });
        inject::every_term_counts([1.0, 1e-3, 0.5], of, |&[sum, radius, offset]| {
            inject::around(sum - offset, radius)
        });
        // Radii of cells of which nothing is said.
        assert_eq!(range(1.0, 2.0 * f64::MAX, 0.5, 7), None);
    }

    #[test]
    fn differences_that_are_rounded_stay_in_their_range() {
        // Just above 1, where a number below has smaller units than the score.
        for n in 1..=200 {
            let (sum, offset) = (1.0 + f64::from(n) * 2.0 * UNIT, f64::from(n) * 0.31 * UNIT);
            for m in 0..=200 {
                let radius = f64::from(n) * 2.0 * UNIT + f64::from(m) * 0.02 * UNIT;
                let found = range(sum, radius, offset, 1).unwrap().interval();
                let [low, high] =
                    inject::around(Wide::from(sum) - Wide::from(offset), Wide::from(radius));
                let is_within = Wide::from(found.low) <= low && high <= Wide::from(found.high);
                assert!(is_within, "{sum:e} - {offset:e} within {radius:e}: {found:?}");
            }
        }
    }
}
