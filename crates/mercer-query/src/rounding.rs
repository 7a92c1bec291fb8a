//! The rounding bound of the exact evaluation, computed without the second sum Σ|β||K|.
//!
//! The computed score is `fl(Σ β_i K̂_i) - b`, where partial sum `l` chains every eighth term and a tree of
//! three levels joins the eight. A term passes at most `n = ceil(m / 8) + 3` roundings, the difference
//! adds one, so
//!
//! `|f̂ - f| <= γ_(n+1) (Σ|β_i||K̂_i| + |b|) + Σ|β_i| |K̂_i - K_i|`,
//!
//! and what underflows: each product `β K̂` and each sum at most `2^-1075`, `2^-1022` in all.
//!
//! For semidefinite kernels `|K_i| <= sqrt(K_ii) sqrt(K(x, x))`, so the first sum is a constant of the
//! machine times a number of the query; other kernels use their own bound at the longest support.

use mercer_data::Row;
use mercer_kernel::Kernel;
use mercer_kernel::block::Packed;
use mercer_kernel::bound::{self, HIDDEN, LEAST, larger, largest, smaller};
use mercer_machine::{Machine, Score};

use crate::tables;

/// Constants of all scores of one machine.
#[derive(Debug)]
pub(crate) struct Rounding {
    pub(crate) scores: Vec<Constants>,
    pub(crate) rows: RowSizes,
}

/// How long some packed rows are, for bounds on their kernel values with any query.
#[derive(Debug, Clone)]
pub(crate) struct RowSizes {
    /// Largest and smallest `b(z, z)` of a row.
    pub(crate) longest: f64,
    pub(crate) shortest: f64,
    /// Whether all rows but those of zeros are ordinary ([`mercer_kernel::Finish::is_ordinary`]).
    pub(crate) is_ordinary: bool,
    columns: usize,
    pub(crate) is_shifted: bool,
    is_semidefinite: bool,
    /// The relative error of all kernel values with queries of ordinary length and no more columns.
    pub(crate) ordinary_error: Option<f64>,
    /// What holds for all ordinary queries of no more columns whose squared norms lie in the same bin.
    pub(crate) by_norm: Vec<QuerySize>,
}

/// Squared norms of ordinary queries.
const ORDINARY: std::ops::Range<f64> = 1e-20..1e20;

/// Squared norms lie in the same bin if they agree in exponent and in the first two bits behind the point.
const BIN_BITS: u32 = 50;

/// The bin of an ordinary squared norm.
fn norm_bin(squared_norm: f64) -> Option<usize> {
    let first = ORDINARY.start.to_bits() >> BIN_BITS;
    ORDINARY
        .contains(&squared_norm)
        .then(|| ((squared_norm.to_bits() >> BIN_BITS) - first) as usize)
}

#[derive(Debug)]
pub(crate) struct Constants {
    /// `Σ|β_i|`, rounded up.
    pub(crate) weight: f64,
    /// `Σ|β_i| sqrt(K_ii)`, rounded up.
    pub(crate) self_weight: f64,
    /// Roundings that a term can meet.
    steps: f64,
    /// `γ_steps`; of linear scores, whose length is rounded as well, `γ_(steps + 1)`.
    pub(crate) gamma: f64,
    pub(crate) offset: f64,
}

/// What the bound needs of a query.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QuerySize {
    /// Bound on one kernel value over `sqrt(K_ii)` (semidefinite) or over 1.
    pub(crate) factor: f64,
    /// Bound on the error of one kernel value.
    pub(crate) kernel_error: f64,
    /// The same, relative to the bound on the value, where the kernel has one.
    pub(crate) relative_error: Option<f64>,
}

impl QuerySize {
    /// What holds for queries of either size.
    fn or(&self, other: &Self) -> Self {
        let relative = self.relative_error.zip(other.relative_error);
        Self {
            factor: larger(self.factor, other.factor),
            kernel_error: larger(self.kernel_error, other.kernel_error),
            relative_error: relative.map(|(a, b)| larger(a, b)),
        }
    }
}

/// Bounds on `sqrt(K(z, z))` of rows with these squared norms, semidefinite kernels only.
pub(crate) fn roots(kernel: &dyn Kernel, squared_norms: &[f64]) -> Vec<f64> {
    let root = |squared_norm: &f64| bound::value(kernel, *squared_norm, *squared_norm).sqrt();
    squared_norms.iter().map(root).collect()
}

impl RowSizes {
    /// Rows with these squared norms.
    pub(crate) fn new(
        kernel: &dyn Kernel,
        squared_norms: impl Iterator<Item = f64> + Clone,
        columns: usize,
        is_shifted: bool,
    ) -> Self {
        let sums = squared_norms.map(|squared_norm| larger(squared_norm, HIDDEN));
        let finish = kernel.form();
        let is_ordinary =
            |squared_norm: f64| finish.finish().is_some_and(|f| f.is_ordinary(squared_norm));
        let mut sizes = Self {
            longest: largest(sums.clone()),
            shortest: sums.clone().fold(f64::INFINITY, smaller),
            is_ordinary: sums.filter(|squared_norm| *squared_norm > HIDDEN).all(is_ordinary),
            columns,
            is_shifted,
            is_semidefinite: kernel.is_positive_semidefinite(),
            ordinary_error: None,
            by_norm: Vec::new(),
        };
        // The largest query decides whether anything may overflow, the smallest whether anything may underflow.
        let ends = [ORDINARY.start, ORDINARY.end];
        let [small, large] = ends.map(|end| sizes.exactly(kernel, end, columns).relative_error);
        sizes.ordinary_error = small.and(large);
        let (first, last) = (ORDINARY.start.to_bits(), ORDINARY.end.to_bits());
        let ends = (first >> BIN_BITS..=(last >> BIN_BITS) + 1)
            .map(|end| sizes.exactly(kernel, f64::from_bits(end << BIN_BITS), columns));
        let ends: Vec<QuerySize> = ends.collect();
        // Bounds grow with the squared norm, but for those that fall as long as something underflows: in a bin
        // none exceeds the larger of its two ends.
        sizes.by_norm = ends.windows(2).map(|ends| ends[0].or(&ends[1])).collect();
        sizes
    }

    /// Whether all rows but those of zeros, and a query with this squared norm, are ordinary: stages whose constants
    /// were measured on kernel values claim nothing of others.
    pub(crate) fn is_ordinary(&self, kernel: &dyn Kernel, squared_norm: f64) -> bool {
        let form = kernel.form();
        self.is_ordinary && form.finish().is_some_and(|finish| finish.is_ordinary(squared_norm))
    }

    /// What holds for a query with squared norm `squared_norm` of `width` columns: looked up where it is an ordinary one,
    /// and then that of a squared norm up to a quarter larger.
    #[inline]
    pub(crate) fn of_query(
        &self,
        kernel: &dyn Kernel,
        squared_norm: f64,
        width: usize,
    ) -> QuerySize {
        match norm_bin(squared_norm) {
            Some(bin) if width <= self.columns => self.by_norm[bin],
            _ => self.exactly(kernel, squared_norm, width),
        }
    }

    /// `squared_norm` is the query's squared norm `b(x, x)`, `width` the number of its columns.
    pub(crate) fn exactly(
        &self,
        kernel: &dyn Kernel,
        squared_norm: f64,
        width: usize,
    ) -> QuerySize {
        let squared_norm = larger(squared_norm, HIDDEN);
        let columns = std::cmp::max(self.columns, width);
        let value = bound::value(kernel, squared_norm, squared_norm);
        let factor = if self.is_semidefinite {
            value.sqrt() * (1.0 + 1e-15)
        } else {
            bound::value(kernel, squared_norm, self.longest)
        };
        if let Some(relative) = self.ordinary_error
            && width <= self.columns
            && ORDINARY.contains(&squared_norm)
        {
            // The relative error is the better one: this one is not used.
            let kernel_error = f64::INFINITY;
            return QuerySize { factor, kernel_error, relative_error: Some(relative) };
        }
        let error =
            |other: f64| bound::error(kernel, columns, squared_norm, other, self.is_shifted);
        // Errors grow with the row's length, except where short ones underflow.
        let shortest = smaller(self.shortest, self.longest);
        let kernel_error = larger(error(self.longest), error(shortest));
        // An infinite error means that something may overflow: then no relative bound holds either.
        let relative_error = if self.is_semidefinite && kernel_error.is_finite() {
            let ends = [smaller(squared_norm, shortest), larger(squared_norm, self.longest)];
            bound::relative_error(kernel, columns, ends, self.is_shifted)
        } else {
            None
        };
        QuerySize { factor, kernel_error, relative_error }
    }
}

impl Rounding {
    pub(crate) fn new(machine: &Machine, packed: &Packed) -> Self {
        let kernel = machine.kernel().as_ref();
        let is_semidefinite = kernel.is_positive_semidefinite();
        let up = |sum: f64, terms: usize| sum * (1.0 + (terms as f64 + 8.0) * f64::EPSILON);
        // Products with small coefficients may underflow.
        let lost = |terms: usize| terms as f64 * LEAST;
        let roots =
            if is_semidefinite { roots(kernel, packed.squared_norms()) } else { Vec::new() };
        let constants = |score: &Score| match score {
            Score::Expansion { supports, coefficients, offset } => {
                let weight = coefficients.iter().map(|beta| beta.abs()).sum();
                let sized = |(support, beta): (&u32, &f64)| beta.abs() * roots[*support as usize];
                let named = supports.iter().zip(coefficients);
                let self_weight = if is_semidefinite { named.map(sized).sum() } else { 0.0 };
                let steps = (packed.rows().div_ceil(8) + 4) as f64;
                Constants {
                    weight: up(weight, coefficients.len()),
                    self_weight: up(self_weight, coefficients.len()) + lost(coefficients.len()),
                    steps,
                    gamma: bound::gamma(steps),
                    offset: offset.abs(),
                }
            }
            Score::Linear { weights, offset } => Constants {
                weight: up(bound::length(weights.iter().copied()), weights.len()),
                self_weight: 0.0,
                steps: (weights.len() + 1) as f64,
                gamma: bound::gamma((weights.len() + 2) as f64),
                offset: offset.abs(),
            },
            // Each entry meets the chain over its rank, its sum over columns, and the joining of the sums.
            Score::Additive { weights, offset } => {
                let grid = machine.bins().expect("tables come with a grid");
                let steps = (grid.rank() + machine.columns().div_ceil(4) + 4) as f64;
                Constants {
                    weight: tables::largest_sum(grid, weights),
                    self_weight: 0.0,
                    steps,
                    gamma: bound::gamma(steps),
                    offset: offset.abs(),
                }
            }
        };
        let sums = packed.squared_norms().iter().copied();
        let rows = RowSizes::new(kernel, sums, machine.columns(), packed.is_shifted());
        Self { scores: machine.scores().iter().map(constants).collect(), rows }
    }

    /// `squared_norm` is the query's squared norm `b(x, x)`, `width` the number of its columns.
    pub(crate) fn of_query(&self, packed: &Packed, squared_norm: f64, width: usize) -> QuerySize {
        self.rows.of_query(packed.kernel().as_ref(), squared_norm, width)
    }

    /// As [`Rounding::of_query`], as tight as can be.
    pub(crate) fn exactly(&self, packed: &Packed, squared_norm: f64, width: usize) -> QuerySize {
        self.rows.exactly(packed.kernel().as_ref(), squared_norm, width)
    }

    /// Rounding bound of one expansion score.
    pub(crate) fn expansion(&self, score: usize, query: &QuerySize) -> f64 {
        let constants = &self.scores[score];
        if constants.weight == 0.0 {
            return bound::gamma(1.0) * constants.offset;
        }
        let weight =
            if self.rows.is_semidefinite { constants.self_weight } else { constants.weight };
        let magnitude = weight * query.factor;
        let from_kernel = match query.relative_error {
            Some(relative) => relative * magnitude,
            None => constants.weight * query.kernel_error,
        };
        let sum = magnitude + from_kernel + constants.offset;
        let error = constants.gamma * sum + from_kernel;
        if error.is_nan() { f64::INFINITY } else { error * (1.0 + 1e-15) + f64::MIN_POSITIVE }
    }

    /// Rounding bound of one table, whatever the query: products of two f32 values neither round nor underflow in f64. The
    /// bin of a value is by definition the one that the f64 operations find.
    pub(crate) fn table(&self, score: usize) -> f64 {
        let constants = &self.scores[score];
        let error = constants.gamma * (constants.weight + constants.offset) * (1.0 + 1e-15);
        larger(error + f64::MIN_POSITIVE, 0.0)
    }

    /// Rounding bound of one linear score; `length` is at least |x|. Each of the fused multiply-adds may underflow.
    pub(crate) fn linear(&self, score: usize, length: f64) -> f64 {
        let constants = &self.scores[score];
        let sum = constants.weight * length + constants.offset;
        let error = constants.gamma * sum * (1.0 + 1e-15);
        larger(error + constants.steps * f64::MIN_POSITIVE, 0.0)
    }
}

/// At least the length of a row.
pub(crate) fn row_length(row: Row<'_>) -> f64 {
    // Zeros change nothing: dense and sparse rows give the same bits.
    let (Row::Dense(values) | Row::Sparse { values, .. }) = row;
    let square: f64 = values.iter().map(|x| x * x).sum();
    let length = if (1e-200..=1e200).contains(&square) {
        square.sqrt()
    } else {
        // Squares that leave the range of numbers are taken of multiples.
        let values: Vec<f64> = row.nonzeros().map(|(_, x)| x).collect();
        bound::length(values.into_iter())
    };
    length * (1.0 + 1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bounds that are looked up are never below those of the query itself.
    #[test]
    fn a_bin_holds_for_every_squared_norm_in_it() {
        let kernels = [
            "linear",
            "rbf(gamma=0.5)",
            "rbf(gamma=1e-9)",
            "rbf(gamma=1e9)",
            "polynomial(degree=9, gamma=3, coef0=-0.5)",
            "polynomial(degree=2, gamma=1e-6, coef0=1)",
            "sigmoid(gamma=0.1, coef0=-2)",
            "normalized(polynomial(degree=3, gamma=1, coef0=1))",
        ];
        let rows = [vec![1.0, 3.0], vec![1e-30, 1e30], vec![0.0], vec![1e-300, 2.0], vec![1e150]];
        // A bound that is no number bounds nothing.
        let holds = |found: f64, tight: f64| found >= tight || tight.is_nan();
        for (text, sums) in kernels.iter().flat_map(|text| rows.iter().map(move |row| (text, row)))
        {
            let kernel = mercer_kernel::parse(text).expect("a kernel of the registry");
            let sizes = RowSizes::new(kernel.as_ref(), sums.iter().copied(), 7, sums.len() > 1);
            let mut squared_norm = 0.9e-20;
            while squared_norm < 1.1e20 {
                let found = sizes.of_query(kernel.as_ref(), squared_norm, 7);
                let tight = sizes.exactly(kernel.as_ref(), squared_norm, 7);
                assert!(
                    holds(found.factor, tight.factor),
                    "{text}, {sums:?}, {squared_norm}: factor"
                );
                match (found.relative_error, tight.relative_error) {
                    (Some(found), Some(tight)) => {
                        assert!(found >= tight, "{text}, {sums:?}, {squared_norm}: relative error");
                    }
                    (Some(_), None) => {
                        panic!("{text}, {sums:?}, {squared_norm}: no relative error holds")
                    }
                    (None, _) => {
                        let is_true = holds(found.kernel_error, tight.kernel_error);
                        assert!(is_true, "{text}, {sums:?}, {squared_norm}: error");
                    }
                }
                squared_norm *= 1.037;
            }
        }
    }
}
