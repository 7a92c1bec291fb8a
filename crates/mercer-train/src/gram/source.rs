//! The examples, prepared for kernel values: centred, without constant columns, and in f32 where the kernel allows it.
//! Values are computed in `columns` and cached in `cache`.

use mercer_data::{LiveColumns, Matrix, Row};
use mercer_kernel::{Form, KernelRef, Profile};
use rayon::prelude::*;

use crate::TrainError;

/// A non-zero of a sparse product costs as much as this many columns of a dense one, both in f32
/// (`cargo run --release -p mercer-simd --example speed`).
const SPARSE_COST: f64 = 2.0;
/// Up to this cost of a product, in columns, a kernel value is computed as fast as it is read from a far cache.
const CHEAP: f64 = 64.0;
/// Larger kernel values are computed in f64: f32 could overflow.
pub(crate) const F32_LIMIT: f64 = 1e30;

/// The data from which kernel values are computed.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    pub(crate) kernel: &'a KernelRef,
    pub(crate) examples: &'a Matrix,
    /// Subtracted before f64 distances are computed.
    pub(crate) centre: Option<Vec<f64>>,
    /// `K(x, x)` of every example.
    pub(crate) diagonal: Vec<f64>,
    /// Whether kernel values fit in f32.
    pub(crate) fits_f32: bool,
    /// Conversion of rows to f32; `None` for kernels that need f64.
    pub(crate) f32_rows: Option<F32Rows>,
}

/// Conversion of rows to f32, without columns that have no effect. If the kernel depends on differences only, the mean
/// is subtracted: from all columns of dense rows; for sparse rows only from columns that are far from zero in every
/// row, so that zeros stay zeros.
#[derive(Debug)]
pub(crate) struct F32Rows {
    /// Whether rows are multiplied as lists of non-zeros.
    pub(super) is_sparse: bool,
    live: LiveColumns,
    /// What is subtracted from each kept column.
    centre: Vec<f64>,
    /// A row of zeros, centred.
    empty: Vec<f32>,
    /// Columns that a product costs.
    cost: f64,
    pub(super) profile: Profile,
}

impl<'a> Source<'a> {
    pub(crate) fn new(kernel: &'a KernelRef, examples: &'a Matrix) -> Self {
        let is_shift = matches!(kernel.form(), Form::Shift(_));
        let columns = Moments::of(examples);
        let centre = if is_shift { columns.far_means() } else { None };
        let rows: Vec<usize> = (0..examples.rows()).collect();
        let diagonal: Vec<f64> = rows
            .par_iter()
            .map(|row| kernel.value(examples.row(*row), examples.row(*row)))
            .collect();
        let f32_rows = F32Rows::new(kernel, examples, &columns, centre.as_deref());
        let fits_f32 = diagonal.iter().all(|value| value.abs() < F32_LIMIT);
        Self { kernel, examples, centre, diagonal, fits_f32, f32_rows }
    }

    /// Whether f32 kernel values cost little.
    pub(super) fn has_cheap_values(&self) -> bool {
        self.f32_rows.as_ref().is_some_and(|rows| rows.cost <= CHEAP)
    }

    /// Refuses rows whose kernel value with themselves is not finite.
    pub(crate) fn check_diagonal(&self) -> Result<(), TrainError> {
        match self.diagonal.iter().position(|value| !value.is_finite()) {
            Some(row) => {
                Err(TrainError::KernelNotFinite { row: row + 1, value: self.diagonal[row] })
            }
            None => Ok(()),
        }
    }

    pub(super) fn row(&self, row: u32) -> Row<'a> {
        self.examples.row(row as usize)
    }
}

impl F32Rows {
    /// For rows with values in these columns, so many in each on average; `centre` is subtracted. `None` for kernels
    /// that need f64.
    ///
    /// Sparse and dense rows have the same bits, also if they are not all at hand.
    pub(crate) fn centred(
        kernel: &KernelRef,
        live: LiveColumns,
        per_row: f64,
        centre: Option<&[f64]>,
    ) -> Option<Self> {
        let profile = f32_profile(kernel)?;
        let is_sparse = SPARSE_COST * per_row < live.len() as f64;
        let shift = |column: &u32| centre.map_or(0.0, |centre| centre[*column as usize]);
        let centre: Vec<f64> = live.columns().iter().map(shift).collect();
        let empty = centre.iter().map(|shift| -*shift as f32).collect();
        let cost = (SPARSE_COST * per_row).min(live.len() as f64);
        Some(Self { is_sparse, live, centre, empty, cost, profile })
    }

    fn new(
        kernel: &KernelRef,
        examples: &Matrix,
        columns: &Moments,
        far: Option<&[f64]>,
    ) -> Option<Self> {
        let profile = f32_profile(kernel)?;
        let is_shift = matches!(kernel.form(), Form::Shift(_));
        // Columns of zeros are not live.
        let live = columns.live.clone().retain(|slot| !is_shift || !columns.is_constant(slot));
        let per_row = examples.nonzeros() as f64 / examples.rows().max(1) as f64;
        let is_sparse = SPARSE_COST * per_row < live.len() as f64;
        let shift = |column: &u32| match (is_shift, is_sparse) {
            (false, _) => 0.0,
            (true, false) => columns.means[columns.live.slot_or_dead(*column) as usize],
            (true, true) => far.map_or(0.0, |far| far[*column as usize]),
        };
        let centre: Vec<f64> = live.columns().iter().map(shift).collect();
        let empty = centre.iter().map(|shift| -*shift as f32).collect();
        let cost = (SPARSE_COST * per_row).min(live.len() as f64);
        Some(Self { is_sparse, live, centre, empty, cost, profile })
    }

    pub(super) fn columns(&self) -> usize {
        self.centre.len()
    }

    /// Non-zero entries of the row, for sparse products; returns its squared norm, rounded once.
    pub(super) fn list(&self, row: Row<'_>, slots: &mut Vec<u32>, values: &mut Vec<f32>) -> f32 {
        slots.clear();
        values.clear();
        for (column, value) in row.nonzeros() {
            if let Some(slot) = self.live.slot(column) {
                slots.push(slot);
                values.push((value - self.centre[slot as usize]) as f32);
            }
        }
        squared_norm(values)
    }

    /// Writes the row and returns its squared norm, rounded once.
    pub(super) fn write(&self, row: Row<'_>, out: &mut [f32]) -> f32 {
        let centred = |value: f64, centre: &f64, empty: &f32| {
            if value == 0.0 { *empty } else { (value - centre) as f32 }
        };
        let constants = self.centre.iter().zip(&self.empty);
        match row {
            Row::Dense(values) if values.len() == self.live.len() => {
                for ((out, value), (centre, empty)) in out.iter_mut().zip(values).zip(constants) {
                    *out = centred(*value, centre, empty);
                }
            }
            Row::Dense(values) => {
                let places = out.iter_mut().zip(self.live.columns());
                for ((out, column), (centre, empty)) in places.zip(constants) {
                    *out = centred(values[*column as usize], centre, empty);
                }
            }
            Row::Sparse { .. } => {
                out.copy_from_slice(&self.empty);
                row.nonzeros().for_each(|(column, value)| {
                    if let Some(slot) = self.live.slot(column) {
                        out[slot as usize] = (value - self.centre[slot as usize]) as f32;
                    }
                });
            }
        }
        squared_norm(out)
    }
}

/// The profile of a kernel whose values may be computed in f32.
fn f32_profile(kernel: &KernelRef) -> Option<Profile> {
    let profile = kernel.form().finish()?.profile();
    let has_f32_form =
        matches!(profile, Profile::Identity | Profile::Power { .. } | Profile::Gaussian { .. });
    let is_product = matches!(kernel.form(), Form::Dot(_) | Form::Shift(_));
    (has_f32_form && is_product).then_some(profile)
}

fn squared_norm(values: &[f32]) -> f32 {
    values.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>() as f32
}

/// Statistics of each column that is not zero in all rows.
#[derive(Debug)]
struct Moments {
    rows: usize,
    live: LiveColumns,
    means: Vec<f64>,
    lows: Vec<f64>,
    highs: Vec<f64>,
    counts: Vec<usize>,
}

impl Moments {
    fn of(examples: &Matrix) -> Self {
        let (rows, live) = (examples.rows(), LiveColumns::of(examples));
        let width = live.len();
        let mut moments = Self {
            rows,
            live,
            counts: vec![0; width],
            means: vec![0.0; width],
            lows: vec![f64::INFINITY; width],
            highs: vec![f64::NEG_INFINITY; width],
        };
        for row in examples.iter() {
            row.nonzeros().for_each(|(column, value)| {
                let slot = moments.live.slot_or_dead(column) as usize;
                moments.counts[slot] += 1;
                moments.means[slot] += value / rows as f64;
                moments.lows[slot] = moments.lows[slot].min(value);
                moments.highs[slot] = moments.highs[slot].max(value);
            });
        }
        for slot in 0..width {
            if moments.counts[slot] < rows {
                moments.lows[slot] = moments.lows[slot].min(0.0);
                moments.highs[slot] = moments.highs[slot].max(0.0);
            }
        }
        moments
    }

    fn is_constant(&self, slot: usize) -> bool {
        self.lows[slot] >= self.highs[slot]
    }

    /// The mean of a column that is far from zero in every row, zero of all others; machines choose their centre by
    /// the same rule.
    fn far_mean(&self, slot: usize) -> f64 {
        let mean = self.means[slot];
        let radius = (self.highs[slot] - mean).max(mean - self.lows[slot]);
        let is_far =
            self.counts[slot] == self.rows && mean.is_finite() && mean.abs() > 2.0 * radius;
        if is_far { mean } else { 0.0 }
    }

    /// The far means of all columns, `None` if there are none. Rows with very many columns for their values are not
    /// centred, and neither are the machines trained on them.
    fn far_means(&self) -> Option<Vec<f64>> {
        let far: Vec<f64> = (0..self.live.len()).map(|slot| self.far_mean(slot)).collect();
        let is_centred = far.iter().any(|mean| *mean != 0.0)
            && mercer_machine::can_be_centred(self.live.all(), self.counts.iter().sum());
        is_centred.then(|| {
            let mut centre = vec![0.0; self.live.all()];
            for (column, mean) in self.live.columns().iter().zip(far) {
                centre[*column as usize] = mean;
            }
            centre
        })
    }
}
