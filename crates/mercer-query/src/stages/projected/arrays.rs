//! The arrays of the stage as a file holds them, checked, and what is made of them. The arrays are computed in
//! `mercer_compile`; how queries use them is in `projected.rs`.

use mercer_kernel::Profile;
use mercer_kernel::bound::{larger, largest};
use mercer_machine::{Score, Section};
use mercer_simd::Panels32;
use mercer_spec::Checked;

use super::{Derivatives, TILE, TileFactors};
use crate::Exact;
use crate::certify::tail::Tail;

/// Sizes of the arrays.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProjectedShape {
    pub columns: usize,
    pub supports: usize,
    pub head: usize,
    pub ahead: usize,
    pub corrections: usize,
}

/// `vectors` (look_ahead x live columns), `supports` (supports x dimensions) and `corrections` (directions x
/// live columns) in f32; `values` (those of the look-ahead, then the rest), `weights`, `basis`
/// (directions x supports) and `errors` (tail, defect, drift, skew, leak, rest of a support, excess,
/// weighted rows) in f64.
pub(super) struct ProjectedArrays<'a> {
    pub vectors: &'a [f32],
    pub supports: &'a [f32],
    pub corrections: &'a [f32],
    values: &'a [f64],
    weights: &'a [f64],
    basis: &'a [f64],
    errors: &'a [f64],
}

impl ProjectedShape {
    /// A stored stage names all its sizes.
    pub(super) fn new(
        arguments: &Checked<'_>,
        columns: usize,
        supports: usize,
    ) -> Result<Self, &'static str> {
        let number = |name: &str, most: usize| {
            let given = arguments.integer_or_word(name).filter(|count| *count <= most);
            given.ok_or("its dimensions, look_ahead or directions do not fit the machine")
        };
        let ahead = number("look_ahead", columns)?;
        let head = number("dimensions", ahead)?;
        let corrections = number("directions", supports)?;
        Ok(Self { columns, supports, head, ahead, corrections })
    }
}

impl<'a> ProjectedArrays<'a> {
    pub(super) fn new(section: &'a Section, shape: &ProjectedShape) -> Result<Self, &'static str> {
        let arrays = Self {
            vectors: section.f32s("vectors").ok_or("its vectors are missing")?,
            supports: section.f32s("supports").ok_or("its supports are missing")?,
            corrections: section.f32s("corrections").ok_or("its corrections are missing")?,
            values: section.f64s("values").ok_or("its values are missing")?,
            weights: section.f64s("weights").ok_or("its weights are missing")?,
            basis: section.f64s("basis").ok_or("its basis is missing")?,
            errors: section.f64s("errors").ok_or("its errors are missing")?,
        };
        let ProjectedShape { columns, supports, head, ahead, corrections } = *shape;
        let fits = ahead.checked_mul(columns) == Some(arrays.vectors.len())
            && supports.checked_mul(head) == Some(arrays.supports.len())
            && corrections.checked_mul(columns) == Some(arrays.corrections.len())
            && arrays.values.len() == ahead - head + 1
            && arrays.weights.len() == supports
            && corrections.checked_mul(supports) == Some(arrays.basis.len())
            && arrays.errors.len() == 8;
        if !fits {
            return Err("its arrays do not fit the machine");
        }
        let in_f32 = arrays.vectors.iter().chain(arrays.supports).chain(arrays.corrections);
        let in_f64 = arrays.values.iter().chain(arrays.weights).chain(arrays.basis);
        let mut all = in_f32.map(|x| f64::from(*x)).chain(in_f64.copied());
        if all.any(|x| !x.is_finite()) {
            return Err("its arrays hold values that are not finite");
        }
        let positive = |x: &f64| *x >= 1e-6 && *x <= 1.0;
        let at_least_zero = |x: &f64| *x >= 0.0 && x.is_finite();
        if !arrays.weights.iter().all(positive)
            || !arrays.values.iter().all(at_least_zero)
            || !arrays.errors.iter().all(at_least_zero)
            || arrays.errors[1] > 0.01
            || arrays.errors[3] > 0.01
        {
            return Err("its weights, values or errors are out of range");
        }
        Ok(arrays)
    }

    /// The constants of the bound; what can be computed from the arrays is.
    pub(super) fn bound(
        &self,
        shape: &ProjectedShape,
        profile: Profile,
        exact: &Exact,
    ) -> Result<Tail, &'static str> {
        let up = 1.0 + (shape.supports * shape.head + 16) as f64 * f64::EPSILON;
        let norm = |row: &[f32]| row.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>();
        let (mut weighted_head, mut weight, mut reach) = (0.0, 0.0, 0.0f64);
        for (row, w) in self.supports.chunks_exact(shape.head).zip(self.weights) {
            let square = norm(row);
            weighted_head += w * w * square;
            weight += w * w;
            reach = larger(reach, square);
        }
        let longest = largest(exact.packed().squared_norms().iter().copied());
        let errors = self.errors;
        let (values, rest) = self.values.split_at(shape.ahead - shape.head);
        let absolute_norm = absolute_norm(self.vectors, shape.columns) * up;
        if !absolute_norm.is_finite() {
            return Err("its vectors are too large");
        }
        Ok(Tail {
            profile,
            values: values.to_vec(),
            rest: rest[0],
            head: shape.head,
            terms: Panels32::dot_error_terms(shape.columns) as f64,
            head_terms: Panels32::dot_error_terms(shape.head) as f64,
            absolute_norm,
            weighted_head: weighted_head.sqrt() * up,
            weighted_rows: errors[7],
            weight: weight.sqrt() * up,
            tail: errors[0],
            defect: errors[1],
            drift: errors[2],
            skew: errors[3],
            leak: errors[4],
            reach_rest: errors[5],
            excess: errors[6],
            reach: reach.sqrt() * up,
            longest: longest.sqrt() * (1.0 + 1e-9),
            corrections: norm(self.corrections).sqrt() * up,
            tiles: shape.supports.div_ceil(TILE) as f64,
            columns: exact.machine().columns(),
        })
    }

    /// Factors of each tile and score with coefficients in it.
    pub(super) fn factors(
        &self,
        shape: &ProjectedShape,
        exact: &Exact,
        norms: &[f64],
        derivatives: Derivatives,
        tiles: usize,
    ) -> Vec<Vec<TileFactors>> {
        let mut all: Vec<Vec<TileFactors>> = Vec::new();
        all.resize_with(tiles, Vec::new);
        for (number, score) in exact.machine().scores().iter().enumerate() {
            let Score::Expansion { supports, coefficients, .. } = score else { continue };
            for (support, beta) in supports.iter().zip(coefficients) {
                let support = *support as usize;
                let (tile, at) = (support / TILE, support % TILE);
                if all[tile].last().is_none_or(|factors| factors.score != number) {
                    let count = TILE.min(shape.supports - tile * TILE);
                    let rows = vec![vec![0.0; count]; super::BEFORE + shape.corrections];
                    let (squares, peaks) = (vec![0.0; count], vec![0.0; count]);
                    let steepest = 0.0;
                    all[tile].push(TileFactors { score: number, rows, squares, peaks, steepest });
                }
                let factors = all[tile].last_mut().expect("pushed if it was missing");
                let (beta, w) = (beta * norms[support], self.weights[support]);
                let first = derivatives.slope * beta / w;
                factors.rows[0][at] = beta;
                factors.rows[1][at] = beta.abs();
                for (k, row) in factors.rows[super::BEFORE..].iter_mut().enumerate() {
                    row[at] = self.basis[k * shape.supports + support] * first;
                }
                factors.squares[at] = first * first;
                factors.steepest = larger(factors.steepest, first.abs());
                factors.peaks[at] = derivatives.curve * beta / (w * w);
            }
        }
        all
    }
}

/// A bound on `|| |V| ||_2`: the root of the largest row sum times the largest column sum.
fn absolute_norm(vectors: &[f32], columns: usize) -> f64 {
    let mut sums = vec![0.0; columns];
    let mut most = 0.0f64;
    for row in vectors.chunks_exact(columns.max(1)) {
        for (sum, x) in sums.iter_mut().zip(row) {
            *sum += f64::from(x.abs());
        }
        most = larger(most, row.iter().map(|x| f64::from(x.abs())).sum());
    }
    (most * largest(sums)).sqrt()
}
