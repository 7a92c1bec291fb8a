//! Panels of f64 of rows that stay at hand: packed as a whole when they are first needed, or piece by piece for each block
//! of queries by callers who compute few values and have little memory. What is done with panels is in `packed`.

use std::sync::{Arc, OnceLock};

use mercer_data::Matrix;
use mercer_simd::Panels64;

use super::packed::pack;
use crate::live::PackedColumns;

/// Panels of some rows.
#[derive(Debug)]
pub(super) struct PanelStore {
    whole: OnceLock<Panels64>,
    /// What is packed; nothing where the panels were given.
    rows: Option<Arc<Matrix>>,
    /// Whether pieces are packed until the whole is.
    in_pieces: bool,
}

impl PanelStore {
    /// Panels that are packed already.
    pub(super) fn packed(panels: Panels64) -> Self {
        Self { whole: OnceLock::from(panels), rows: None, in_pieces: false }
    }

    /// Panels of rows that are packed when they are needed.
    pub(super) fn of(rows: &Arc<Matrix>) -> Self {
        Self { whole: OnceLock::new(), rows: Some(Arc::clone(rows)), in_pieces: false }
    }

    /// From now on values are computed from pieces, until [`PanelStore::whole`] is called.
    pub(super) fn set_in_pieces(&mut self) {
        self.in_pieces = true;
    }

    /// The panels of all rows.
    pub(super) fn whole(&self, live: &PackedColumns) -> &Panels64 {
        self.whole.get_or_init(|| {
            let rows = self.rows.as_ref().expect("panels without rows were given");
            pack(rows, 0..rows.rows(), live)
        })
    }

    /// The rows, as long as they are packed in pieces.
    pub(super) fn in_pieces(&self) -> Option<&Matrix> {
        let rows = self.rows.as_deref().filter(|_| self.in_pieces);
        rows.filter(|_| self.whole.get().is_none())
    }

    /// Shows the panels to `visit`: all of them, or one piece of `size` rows after the other. `visit` learns which row is the first.
    pub(super) fn each(
        &self,
        live: &PackedColumns,
        size: usize,
        mut visit: impl FnMut(usize, &Panels64),
    ) {
        match self.in_pieces() {
            Some(rows) => {
                for first in (0..rows.rows()).step_by(size) {
                    let piece = first..(first + size).min(rows.rows());
                    visit(first, &pack(rows, piece, live));
                }
            }
            None => visit(0, self.whole(live)),
        }
    }

    /// Copies a row out; `out` has one element for each live column.
    pub(super) fn copy_row(&self, row: usize, live: &PackedColumns, out: &mut [f64]) {
        match self.in_pieces() {
            Some(rows) => pack(rows, row..row + 1, live).copy_row(0, out),
            None => self.whole(live).copy_row(row, out),
        }
    }

    /// Memory of what is packed so far.
    pub(super) fn bytes(&self) -> usize {
        self.whole.get().map_or(0, Panels64::bytes)
    }
}
