//! The examples, prepared for kernel values: centred, without constant columns, and in f32 where the kernel allows it.
//! Values are computed in `columns` and cached in `cache`.

use mercer_data::{LiveColumns, Matrix, Row};
use mercer_kernel::{Form, KernelRef, Profile};
use rayon::prelude::*;

/// A non-zero of a sparse product costs as much as this many columns of a dense one, both in f32
/// (`cargo run --release -p mercer-simd --example speed`).
const SPARSE_COST: f64 = 2.0;
/// Larger kernel values are computed in f64: f32 could overflow.
const F32_LIMIT: f64 = 1e30;

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

    pub(super) fn row(&self, row: u32) -> Row<'a> {
        self.examples.row(row as usize)
    }
}

impl F32Rows {
    fn new(
        kernel: &KernelRef,
        examples: &Matrix,
        columns: &Moments,
        far: Option<&[f64]>,
    ) -> Option<Self> {
        let profile = kernel.form().finish()?.profile();
        let has_f32_form =
            matches!(profile, Profile::Identity | Profile::Power { .. } | Profile::Gaussian { .. });
        if !has_f32_form || !matches!(kernel.form(), Form::Dot(_) | Form::Shift(_)) {
            return None;
        }
        let is_shift = matches!(kernel.form(), Form::Shift(_));
        let live = LiveColumns::select(examples.columns(), |column| {
            if is_shift { !columns.is_constant(column) } else { columns.counts[column] > 0 }
        });
        let per_row = examples.nonzeros() as f64 / examples.rows().max(1) as f64;
        let is_sparse = SPARSE_COST * per_row < live.len() as f64;
        let shift = |column: &u32| match (is_shift, is_sparse) {
            (false, _) => 0.0,
            (true, false) => columns.means[*column as usize],
            (true, true) => far.map_or(0.0, |far| far[*column as usize]),
        };
        let centre: Vec<f64> = live.columns().iter().map(shift).collect();
        let empty = centre.iter().map(|shift| -*shift as f32).collect();
        Some(Self { is_sparse, live, centre, empty, profile })
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
        out.copy_from_slice(&self.empty);
        for (column, value) in row.nonzeros() {
            if let Some(slot) = self.live.slot(column) {
                out[slot as usize] = (value - self.centre[slot as usize]) as f32;
            }
        }
        squared_norm(out)
    }
}

fn squared_norm(values: &[f32]) -> f32 {
    values.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>() as f32
}

/// Statistics of each column.
#[derive(Debug)]
struct Moments {
    rows: usize,
    counts: Vec<usize>,
    means: Vec<f64>,
    lows: Vec<f64>,
    highs: Vec<f64>,
}

impl Moments {
    fn of(examples: &Matrix) -> Self {
        let (rows, width) = (examples.rows(), examples.columns());
        let mut moments = Self {
            rows,
            counts: vec![0; width],
            means: vec![0.0; width],
            lows: vec![f64::INFINITY; width],
            highs: vec![f64::NEG_INFINITY; width],
        };
        for row in examples.iter() {
            for (column, value) in row.nonzeros() {
                let column = column as usize;
                moments.counts[column] += 1;
                moments.means[column] += value / rows as f64;
                moments.lows[column] = moments.lows[column].min(value);
                moments.highs[column] = moments.highs[column].max(value);
            }
        }
        for column in 0..width {
            if moments.counts[column] < rows {
                moments.lows[column] = moments.lows[column].min(0.0);
                moments.highs[column] = moments.highs[column].max(0.0);
            }
        }
        moments
    }

    fn is_constant(&self, column: usize) -> bool {
        self.lows[column] >= self.highs[column]
    }

    /// The means of columns that are far from zero, zero elsewhere; machines choose their centre by the same rule.
    fn far_means(&self) -> Option<Vec<f64>> {
        let far = |column: usize| {
            let mean = self.means[column];
            let radius = (self.highs[column] - mean).max(mean - self.lows[column]);
            self.counts[column] == self.rows && mean.is_finite() && mean.abs() > 2.0 * radius
        };
        let any = (0..self.means.len()).any(far);
        let centre = |column| if far(column) { self.means[column] } else { 0.0 };
        any.then(|| (0..self.means.len()).map(centre).collect())
    }
}
