//! Gauss-Legendre rules on [0, 1] whose nodes and weights are known to be right to a few units, and a bound on what a rule
//! with too few nodes leaves out. The integrals themselves are `mercer_simd::product_integrals`.

use std::sync::OnceLock;

use mercer_simd::{QuadratureRule, exp1, ln1};

/// Numbers of nodes; a rule of n nodes is exact for polynomials of degree `2n - 1`.
pub(crate) const SIZES: [usize; 12] = [8, 16, 32, 48, 64, 96, 128, 192, 256, 320, 384, 512];

/// Each node t, each `1 - t` and each weight is within so many rounding units of the true one, relative to itself. The
/// rules are finitely many and made of IEEE operations alone: a test compares every one with 256-bit arithmetic.
pub(crate) const RULE_UNITS: f64 = 4.0;

/// A rule.
#[derive(Debug)]
pub(crate) struct GaussLegendre {
    nodes: Vec<f64>,
    complements: Vec<f64>,
    weights: Vec<f64>,
}

impl GaussLegendre {
    /// The rule at a position of [`SIZES`].
    pub(crate) fn at(position: usize) -> &'static Self {
        static RULES: [OnceLock<GaussLegendre>; SIZES.len()] =
            [const { OnceLock::new() }; SIZES.len()];
        RULES[position].get_or_init(|| Self::new(SIZES[position]))
    }

    /// The rule of `count` nodes.
    fn new(count: usize) -> Self {
        let half: Vec<(Dd, Dd)> = (0..count / 2).map(|number| node(count, number)).collect();
        let (mut nodes, mut complements, mut weights) = (Vec::new(), Vec::new(), Vec::new());
        for (y, weight) in &half {
            nodes.push(y.times(0.5).hi);
            complements.push(Dd::from(1.0).minus(y.times(0.5)).hi);
            weights.push(weight.hi);
        }
        let (mirrored_nodes, mirrored_weights) = (complements.clone(), weights.clone());
        complements.extend(nodes.clone());
        nodes.extend(mirrored_nodes);
        weights.extend(mirrored_weights);
        Self { nodes, complements, weights }
    }

    pub(crate) fn rule(&self) -> QuadratureRule<'_> {
        let Self { nodes, complements, weights } = self;
        QuadratureRule { nodes, complements, weights }
    }
}

/// `1 - x` of the node x of P_n that comes `number`-th from 1, and the weight on [0, 1], `1 / ((1 - x²) P_n'(x)²)`.
fn node(count: usize, number: usize) -> (Dd, Dd) {
    let n = count as f64;
    let mut x = Dd::from(cosine(std::f64::consts::PI * (number as f64 + 0.75) / (n + 0.5)));
    // Each step of Newton's method gives twice as many digits: the start has four, the fifth step changes nothing.
    for _ in 0..5 {
        let (value, slope) = legendre(count, x);
        x = x.minus(value.over(slope));
    }
    let (_, slope) = legendre(count, x);
    let y = Dd::from(1.0).minus(x);
    let square = y.product(x.plus(Dd::from(1.0)));
    (y, Dd::from(1.0).over(square.product(slope).product(slope)))
}

/// P_n and its derivative: `k P_k = (2k - 1) x P_(k-1) - (k - 1) P_(k-2)`, `(x² - 1) P_n' = n (x P_n - P_(n-1))`.
fn legendre(count: usize, x: Dd) -> (Dd, Dd) {
    let (mut last, mut value) = (Dd::from(1.0), x);
    for k in 2..=count {
        let k = k as f64;
        let next =
            x.product(value).times(2.0 * k - 1.0).minus(last.times(k - 1.0)).over(Dd::from(k));
        (last, value) = (value, next);
    }
    let square = x.product(x).minus(Dd::from(1.0));
    (value, x.product(value).minus(last).times(count as f64).over(square))
}

/// The cosine of an angle below 2, to about 1e-15: a start for Newton's method that has the same bits everywhere.
fn cosine(angle: f64) -> f64 {
    let square = angle * angle;
    (1..=14).rev().fold(1.0, |sum, k| {
        let k = f64::from(k);
        1.0 - square * sum / ((2.0 * k - 1.0) * (2.0 * k))
    })
}

/// A sum of two f64 values, the second below a rounding unit of the first: about 106 bits.
#[derive(Debug, Clone, Copy)]
struct Dd {
    hi: f64,
    lo: f64,
}

impl Dd {
    fn from(hi: f64) -> Self {
        Self { hi, lo: 0.0 }
    }

    fn sum(a: f64, b: f64) -> Self {
        let hi = a + b;
        let part = hi - a;
        Self { hi, lo: (a - (hi - part)) + (b - part) }
    }

    fn plus(self, other: Self) -> Self {
        let (high, low) = (Self::sum(self.hi, other.hi), Self::sum(self.lo, other.lo));
        let first = Self::sum(high.hi, high.lo + low.hi);
        Self::sum(first.hi, first.lo + low.lo)
    }

    fn minus(self, other: Self) -> Self {
        self.plus(Self { hi: -other.hi, lo: -other.lo })
    }

    fn product(self, other: Self) -> Self {
        let hi = self.hi * other.hi;
        let error = self.hi.mul_add(other.hi, -hi);
        Self::sum(hi, error + (self.hi * other.lo + self.lo * other.hi))
    }

    fn times(self, factor: f64) -> Self {
        self.product(Self::from(factor))
    }

    fn over(self, other: Self) -> Self {
        let first = self.hi / other.hi;
        let rest = self.minus(other.times(first));
        let second = rest.hi / other.hi;
        let rest = rest.minus(other.times(second));
        Self::sum(first, second).plus(Self::from(rest.hi / other.hi))
    }
}

/// One ellipse of [`ln_truncation`]: `ln(4ρ/(ρ-1))`, `ln ρ` and `(A - 1)/2`.
type Ellipse = [f64; 3];

fn ellipses() -> &'static [Ellipse] {
    static ALL: OnceLock<Vec<Ellipse>> = OnceLock::new();
    ALL.get_or_init(|| {
        let ellipse = |excess: f64| {
            let rho = 1.0 + excess;
            let axis = 0.5 * (rho + 1.0 / rho);
            [ln1(4.0 * rho / (rho - 1.0)), ln1(rho), (axis - 1.0) / 2.0]
        };
        // Products, not a power: the same bits everywhere.
        let excesses = std::iter::successors(Some(0.02), |last| Some(1.35 * last));
        excesses.take(36).map(ellipse).collect()
    })
}

/// The logarithm of what a rule of `nodes` nodes may leave out, in units of `Π max(a_k, b_k)`.
///
/// The integrand `g(t) = |a_j - b_j| Π_(k≠j) (t a_k + (1-t) b_k)` is a polynomial. A rule of n nodes is exact to degree `2n - 1`
/// and its weights sum to 1, so it is wrong by at most twice the distance of g from such polynomials, and that is at most
/// `2 M ρ^-(2n-1) / (ρ - 1)`, where M bounds |g| on the ellipse with foci 0 and 1 and sum of half-axes `ρ/2`
/// (Bernstein). There a factor is at most `(a_k + b_k)/2 + A |a_k - b_k|/2` with `A = (ρ + 1/ρ)/2`, which is `max(a_k, b_k)` times
/// at most `1 + (1 - r_k)(A - 1)/2`, r_k being the smaller over the larger value; and `|a_j - b_j|` is at most the factor that is
/// left out. With `c = Σ_k (1 - r_k)`: `M <= Π max(a_k, b_k) exp(c (A - 1)/2)`.
pub(crate) fn ln_truncation(nodes: usize, spread: f64) -> f64 {
    let order = 2.0 * nodes as f64;
    let of = |[front, ln_rho, slope]: &Ellipse| front - order * ln_rho + spread * slope;
    let mut least = f64::INFINITY;
    for ellipse in ellipses() {
        let found = of(ellipse);
        // Terms of up to 1e6 are summed: their rounding is far below 1e-6.
        least = if found < least { found } else { least };
    }
    least + 1e-6
}

/// The rule to take for a product of `columns` factors, and what it may leave out of `Π max(a_k, b_k) = exp(ln_size)`: nothing
/// where its degree suffices.
pub(crate) fn choose(columns: usize, spread: f64, ln_size: f64) -> (usize, f64) {
    let last = SIZES.len() - 1;
    for (position, nodes) in SIZES.iter().enumerate() {
        if columns <= 2 * nodes {
            return (position, 0.0);
        }
        let left = ln_size + ln_truncation(*nodes, spread);
        if left <= LN_NEGLIGIBLE || position == last {
            return (position, exp1(left) * (1.0 + 1e-6));
        }
    }
    (last, f64::INFINITY)
}

/// The logarithm of what may be left out of a product of kernel factors, each at most 1: far below the rounding of the rest.
pub(crate) const LN_NEGLIGIBLE: f64 = -46.0;

#[cfg(test)]
mod tests {
    use mercer_testkit::{Precise, Real};

    use super::*;

    type Number = Precise<256>;

    /// P_n and its derivative with respect to t at `1 - 2t`.
    fn precise(count: usize, t: &Number) -> [Number; 2] {
        let x = Number::from(1.0) - Number::from(2.0) * t.clone();
        let (mut last, mut value) = (Number::from(1.0), x.clone());
        for k in 2..=count {
            let k = k as f64;
            let next = Number::from(2.0 * k - 1.0) * x.clone() * value.clone()
                - Number::from(k - 1.0) * last;
            (last, value) = (value, next / Number::from(k));
        }
        let square = Number::from(4.0) * t.clone() * (Number::from(1.0) - t.clone());
        let slope = Number::from(count as f64) * (last - x * value.clone()) / square;
        [value, Number::from(-2.0) * slope]
    }

    /// One step of Newton's method leaves an error of about 1e-30 of a root that was right to 1e-16.
    #[test]
    fn every_node_and_weight_is_right_to_four_units() {
        let unit = RULE_UNITS * f64::EPSILON / 2.0;
        let is_near = |found: f64, truth: &Number| {
            (Number::from(found) / truth.clone() - Number::from(1.0)).abs() < Number::from(unit)
        };
        for (position, count) in SIZES.iter().enumerate() {
            let rule = GaussLegendre::at(position);
            let mut last = 0.0;
            for at in 0..count / 2 {
                let [value, slope] = precise(*count, &Number::from(rule.nodes[at]));
                let root = Number::from(rule.nodes[at]) - value / slope;
                let rest = Number::from(1.0) - root.clone();
                // `1 / ((1 - x²) P'(x)²)` with `dP/dt = -2 P'`.
                let [_, slope] = precise(*count, &root);
                let weight =
                    Number::from(1.0) / (root.clone() * rest.clone() * slope.clone() * slope);
                assert!(is_near(rule.nodes[at], &root), "{count} {at}");
                assert!(is_near(rule.complements[at], &rest), "{count} {at}");
                assert!(is_near(rule.weights[at], &weight), "{count} {at}");
                // Increasing, below one half and mirrored: they are all the roots there are.
                let other = count / 2 + at;
                assert!(rule.nodes[at] > last && rule.nodes[at] < 0.5);
                assert_eq!(rule.nodes[other], rule.complements[at]);
                assert_eq!(rule.complements[other], rule.nodes[at]);
                assert_eq!(rule.weights[other], rule.weights[at]);
                last = rule.nodes[at];
            }
        }
    }

    #[test]
    fn what_a_rule_leaves_out_is_within_its_bound() {
        for (columns, a, b) in [(40, 1.0, 0.2), (80, 1.0, 0.0), (120, 0.3, 1.0), (400, 1.0, 0.9)] {
            let spread = f64::from(columns) * (1.0 - f64::min(a, b) / f64::max(a, b));
            // ∫ (t a + (1-t) b)^(m-1) dt = (a^m - b^m) / (m (a - b)).
            let m = f64::from(columns);
            let truth = (f64::powf(a, m) - f64::powf(b, m)) / m;
            for position in 0..4 {
                let rule = GaussLegendre::at(position);
                let factor = |at: usize| rule.nodes[at] * a + rule.complements[at] * b;
                let found: f64 = (0..SIZES[position])
                    .map(|at| rule.weights[at] * factor(at).powf(m - 1.0) * (a - b))
                    .sum();
                let bound = ln_truncation(SIZES[position], spread).exp() + 1e-13;
                assert!(
                    (found - truth).abs() <= bound,
                    "{columns} {position}: {found} {truth} {bound}"
                );
            }
        }
    }

    /// The bound by its formula, `min_ρ 4ρ/(ρ-1) ρ^(-2n) exp(c (A - 1)/2)`, with the functions of the standard library.
    #[test]
    fn what_a_rule_leaves_out_is_the_least_over_all_ellipses() {
        for (nodes, spread) in
            [(8_usize, 0.0), (8, 3.0), (32, 20.0), (64, 200.0), (512, 1000.0), (48, 1e5)]
        {
            let of = |excess: f64| {
                let rho = 1.0 + excess;
                let axis = f64::midpoint(rho, 1.0 / rho);
                (4.0 * rho / (rho - 1.0)).ln() - 2.0 * nodes as f64 * rho.ln()
                    + spread * (axis - 1.0) / 2.0
            };
            let least = (0..36).map(|k| of(0.02 * 1.35_f64.powi(k))).fold(f64::INFINITY, f64::min);
            let found = ln_truncation(nodes, spread);
            assert!(found >= least && found <= least + 2e-6, "{nodes} {spread}: {found} {least}");
        }
    }

    #[test]
    fn a_rule_is_chosen_by_what_it_leaves_out_of_the_product() {
        for (columns, spread, ln_size) in
            [(100, 30.0, 0.0), (400, 100.0, -5.0), (3000, 2500.0, 0.0)]
        {
            let (position, left) = choose(columns, spread, ln_size);
            let bound = (ln_size + ln_truncation(SIZES[position], spread)).exp();
            assert!(left >= bound && left <= bound * (1.0 + 1e-5), "{columns}: {left} {bound}");
            assert!(position == SIZES.len() - 1 || left <= LN_NEGLIGIBLE.exp() * (1.0 + 1e-5));
        }
        // A rule of n nodes is exact for the product without the column itself, of degree 2n - 1.
        for (columns, position) in [(1, 0), (16, 0), (17, 1), (1024, SIZES.len() - 1)] {
            let wide = choose(columns, f64::MAX, 0.0);
            assert_eq!(wide, (position, 0.0), "{columns} columns");
        }
    }

    #[test]
    fn numbers_that_are_none_leave_everything_out() {
        for poison in [f64::NAN, f64::INFINITY] {
            assert_eq!(ln_truncation(8, poison), f64::INFINITY);
            for (spread, ln_size) in [(poison, 0.0), (1.0, poison), (poison, poison)] {
                let (_, left) = choose(2000, spread, ln_size);
                assert!(left.is_nan() || left == f64::INFINITY, "{spread} {ln_size}: {left}");
            }
        }
        for tiny in [0.0, f64::from_bits(1), 1e-310] {
            let (position, left) = choose(2000, tiny, 0.0);
            let bound = ln_truncation(SIZES[position], tiny).exp();
            assert!(left >= bound && ln_truncation(8, tiny) >= ln_truncation(8, 0.0), "{tiny}");
        }
        // A product that vanishes leaves nothing out.
        assert_eq!(choose(2000, 1.0, f64::NEG_INFINITY), (0, 0.0));
    }
}
