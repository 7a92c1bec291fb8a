//! Scalings of rows: fitted once on the examples, stored with the model, applied to every query.

mod columns;
mod max_abs;
mod min_max;
mod quantile;
mod standard;
mod unit_norm;

use mercer_spec::{Registry, Spec, SpecError};

pub use columns::ColumnStats;

use crate::{DataError, Matrix, MatrixBuilder, Row, limits};

/// Every scaling; one line each.
pub static SCALINGS: Registry<Recipe> = Registry {
    noun: "scaling",
    entries: &[
        &standard::ENTRY,
        &min_max::ENTRY,
        &max_abs::ENTRY,
        &unit_norm::ENTRY,
        &quantile::ENTRY,
    ],
};

/// If a scaling changes zeros, sparse rows become dense up to this size, and up to [`GROWTH`] times their size. Rows
/// with very few values become dense up to [`SMALL_DENSE_BYTES`], and [`MAX_GROWTH`] times their size.
const DENSE_BYTES: u128 = 64 << 20;
const SMALL_DENSE_BYTES: u128 = 4 << 20;
const GROWTH: u128 = 4;
const MAX_GROWTH: u128 = 1024;

/// A scaling before it is fitted.
pub struct Recipe {
    spec: Spec,
    fit: Box<dyn Fn(&Matrix) -> Result<Map, DataError> + Send + Sync>,
}

impl std::fmt::Debug for Recipe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Recipe").field(&self.spec.to_string()).finish()
    }
}

impl Recipe {
    fn new(
        spec: Spec,
        fit: impl Fn(&Matrix) -> Result<Map, DataError> + Send + Sync + 'static,
    ) -> Self {
        Self { spec, fit: Box::new(fit) }
    }

    /// Fits the scaling to examples.
    ///
    /// # Errors
    /// If sparse rows would become dense and too large.
    pub fn fit(&self, examples: &Matrix) -> Result<Scaling, DataError> {
        let scaling = Scaling { spec: self.spec.clone(), map: (self.fit)(examples)? };
        if let Some((_, indices, _)) = examples.as_sparse() {
            let dense = 8 * examples.rows() as u128 * examples.columns() as u128;
            let sparse = 12 * indices.len() as u128;
            let few = SMALL_DENSE_BYTES.max(MAX_GROWTH * sparse);
            let limit = DENSE_BYTES.min(few).max(GROWTH * sparse);
            if dense > limit && !scaling.keeps_zeros() {
                let (scaling, gib) = (self.spec.to_string(), dense as f64 / f64::from(1 << 30));
                return Err(DataError::MovesZeros { scaling, gib });
            }
        }
        Ok(scaling)
    }
}

/// An affine map; columns without a finite factor (constant ones) become 0.
fn affine(mut centres: Vec<f64>, mut factors: Vec<f64>) -> Map {
    for (centre, factor) in centres.iter_mut().zip(&mut factors) {
        if !(factor.is_finite() && centre.is_finite()) {
            (*centre, *factor) = (0.0, 0.0);
        }
    }
    Map::Affine { centres, factors }
}

/// Parses and checks the text of a scaling: `standard`, `min_max(low=-1)`.
pub fn parse(text: &str) -> Result<Recipe, SpecError> {
    SCALINGS.parse(text)
}

/// A fitted scaling.
#[derive(Debug, Clone, PartialEq)]
pub struct Scaling {
    spec: Spec,
    map: Map,
}

/// How a row is mapped. Columns beyond the fitted ones were zero in all examples and are left out.
#[derive(Debug, Clone, PartialEq)]
pub enum Map {
    /// `(x - centre) factor` in each column; a constant column has factor 0.
    Affine {
        /// Subtracted first.
        centres: Vec<f64>,
        /// Multiplied then.
        factors: Vec<f64>,
    },
    /// Each row is divided by its norm; a row of zeros stays.
    UnitNorm(Norm),
    /// Each value becomes its position, 0 to 1, between the quantiles of its column.
    Quantiles {
        /// Those of column 0, then of column 1, ...; they do not decrease within a column.
        knots: Vec<f64>,
        /// How many there are in each column.
        count: usize,
    },
}

/// The norm of a row is the product of both numbers.
#[derive(Debug, Clone, Copy)]
struct RowNorm {
    unit: f64,
    in_units: f64,
}

/// A norm of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Norm {
    /// Sum of absolute values.
    L1,
    /// Euclidean length.
    L2,
    /// Largest absolute value.
    Max,
}

impl Norm {
    const WORDS: [(&'static str, Self); 3] =
        [("l2", Self::L2), ("l1", Self::L1), ("max", Self::Max)];

    /// Its name in specification texts.
    pub fn name(self) -> &'static str {
        Self::WORDS.iter().find(|(_, norm)| *norm == self).map_or("l2", |(word, _)| word)
    }

    /// The norm of a row, in units of its largest value so that squares do not overflow.
    fn of(self, row: Row<'_>) -> RowNorm {
        let unit = row.nonzeros().fold(0.0f64, |most, (_, value)| most.max(value.abs()));
        let shares = row.nonzeros().map(|(_, value)| (value / unit).abs());
        let norm = match self {
            Self::L1 => shares.sum(),
            Self::L2 => shares.map(|share| share * share).sum::<f64>().sqrt(),
            Self::Max => 1.0,
        };
        RowNorm { unit, in_units: norm }
    }
}

impl Scaling {
    /// Text of an affine scaling from a file of another program.
    pub const AFFINE: &str = "affine";

    /// A scaling from the parts that a file holds.
    ///
    /// # Errors
    /// If the text is unknown or the numbers contradict each other.
    pub fn from_parts(text: &str, map: Map) -> Result<Self, DataError> {
        let bad = |reason: &str| DataError::BadScaling { reason: reason.to_owned() };
        let spec = match (text, &map) {
            (Self::AFFINE, Map::Affine { .. }) => Spec::new(Self::AFFINE),
            _ => parse(text).map_err(|error| bad(&error.to_string()))?.spec,
        };
        let numbers = match &map {
            Map::Affine { centres, factors } => {
                if centres.len() != factors.len() {
                    return Err(bad("as many centres as factors are needed"));
                }
                centres.iter().chain(factors)
            }
            Map::UnitNorm(_) => [].iter().chain(&[]),
            Map::Quantiles { knots, count } => {
                if *count < 2 || !knots.len().is_multiple_of(*count) {
                    return Err(bad("the quantiles do not fill their columns"));
                }
                if knots
                    .chunks(*count)
                    .any(|column| column.windows(2).any(|pair| pair[0] > pair[1]))
                {
                    return Err(bad("the quantiles of a column decrease"));
                }
                knots.iter().chain(&[])
            }
        };
        if numbers.into_iter().any(|number| !number.is_finite()) {
            return Err(bad("a number is not finite"));
        }
        Ok(Self { spec, map })
    }

    /// Its text: `min_max(low=0, high=1)`.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// How a row is mapped.
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// Number of columns it was fitted to; `None` if it has no numbers per column.
    pub fn columns(&self) -> Option<usize> {
        match &self.map {
            Map::Affine { factors, .. } => Some(factors.len()),
            Map::UnitNorm(_) => None,
            Map::Quantiles { knots, count } => Some(knots.len() / count),
        }
    }

    /// Whether zeros stay zeros, so that sparse rows stay sparse.
    pub fn keeps_zeros(&self) -> bool {
        match &self.map {
            Map::Affine { centres, factors } => {
                centres.iter().zip(factors).all(|(centre, factor)| centre * factor == 0.0)
            }
            Map::UnitNorm(_) => true,
            Map::Quantiles { knots, count } => knots.chunks(*count).all(|column| column[0] >= 0.0),
        }
    }

    /// Scales rows. The result for a row does not depend on other rows.
    ///
    /// # Errors
    /// If a value overflows.
    pub fn apply(&self, rows: &Matrix) -> Result<Matrix, DataError> {
        let width = self.columns().unwrap_or(rows.columns());
        if rows.is_sparse() && self.keeps_zeros() {
            let mut builder = MatrixBuilder::new();
            for (number, row) in (1..).zip(rows.iter()) {
                let norm = self.norm(row);
                for (column, value) in
                    row.nonzeros().filter(|(column, _)| (*column as usize) < width)
                {
                    let value = self.value(column as usize, value, norm);
                    if !value.is_finite() {
                        let column = column as usize + 1;
                        return Err(DataError::NotFiniteAt { row: number, column, value });
                    }
                    builder.push(column, value);
                }
                builder.end_row();
            }
            return Ok(builder.finish(width));
        }
        let mut values = limits::filled("scaled rows", rows.rows().saturating_mul(width), 0.0)?;
        for (row, out) in rows.iter().zip(values.chunks_exact_mut(width.max(1))) {
            let norm = self.norm(row);
            row.write_dense(out);
            for (column, value) in out.iter_mut().enumerate() {
                *value = self.value(column, *value, norm);
            }
        }
        Matrix::dense(width, values)
    }

    fn norm(&self, row: Row<'_>) -> RowNorm {
        match &self.map {
            Map::UnitNorm(norm) => norm.of(row),
            _ => RowNorm { unit: 1.0, in_units: 1.0 },
        }
    }

    /// One value of column `column`, in a row of that norm.
    fn value(&self, column: usize, value: f64, norm: RowNorm) -> f64 {
        match &self.map {
            Map::Affine { centres, factors } => {
                let factor = factors[column];
                if factor == 0.0 { 0.0 } else { (value - centres[column]) * factor }
            }
            Map::UnitNorm(_) => {
                if norm.unit == 0.0 {
                    0.0
                } else {
                    value / norm.unit / norm.in_units
                }
            }
            Map::Quantiles { knots, count } => {
                quantile::place(&knots[column * count..(column + 1) * count], value)
            }
        }
    }
}

#[cfg(test)]
mod tests;
