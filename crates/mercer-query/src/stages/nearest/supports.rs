//! Exact kernel values of a query with a few supports, in any order. For all supports at once there is
//! `mercer_kernel::block`.

use mercer_data::Matrix;
use mercer_kernel::Finish;
use mercer_simd::{Isa, fold8, weighted_sums};

use super::super::coordinates::LiveColumns;

/// Kernel values computed at once.
pub(super) const FEW: usize = 8;

/// Supports, or the vectors of a reduced set, in live columns, row after row.
#[derive(Debug)]
pub(super) struct SupportRows {
    rows: Vec<f64>,
    /// Squared norm of each.
    pub norms: Vec<f64>,
    width: usize,
    isa: Isa,
}

/// A query in live columns.
#[derive(Debug, Clone, Copy)]
pub(super) struct DenseQuery<'a> {
    pub row: &'a [f64],
    pub squared_norm: f64,
}

impl SupportRows {
    /// Vectors with their squared norms, which are computed where none are known.
    pub(super) fn new(
        isa: Isa,
        vectors: &Matrix,
        norms: Option<&[f64]>,
        live: &LiveColumns,
    ) -> Self {
        let width = live.len();
        let mut rows = vec![0.0; vectors.rows() * width];
        for (row, place) in vectors.iter().zip(rows.chunks_exact_mut(width)) {
            live.write(row, place);
        }
        let square = |row: &[f64]| row.iter().map(|x| x * x).sum();
        let norms =
            norms.map_or_else(|| rows.chunks_exact(width).map(square).collect(), <[f64]>::to_vec);
        Self { rows, norms, width, isa }
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.norms.len()
    }

    /// Memory held.
    pub(super) fn bytes(&self) -> usize {
        8 * (self.rows.len() + self.norms.len())
    }

    /// Kernel values of a query with up to [`FEW`] supports.
    pub(super) fn kernels(
        &self,
        finish: &dyn Finish,
        query: DenseQuery<'_>,
        chosen: &[u32],
    ) -> [f64; FEW] {
        let (isa, DenseQuery { row, squared_norm }) = (self.isa, query);
        let mut rows = [row; FEW];
        let (mut sums, mut vv) = ([[0.0; 8]; FEW], [0.0; FEW]);
        for ((place, norm), support) in rows.iter_mut().zip(&mut vv).zip(chosen) {
            let support = *support as usize;
            *place = &self.rows[support * self.width..(support + 1) * self.width];
            *norm = self.norms[support];
        }
        let count = chosen.len();
        weighted_sums(isa, row, 0, &rows[..count], &mut sums[..count]);
        let mut values = [0.0; FEW];
        values.iter_mut().zip(&sums).for_each(|(value, sums)| *value = fold8(sums));
        finish.finish(isa, &mut values[..count], squared_norm, &vv[..count]);
        values
    }
}
