//! Sparse rows stored by column (an inverted index), for sums over the columns of a sparse query.
//! For very sparse rows only; `packed` chooses the layout.

use mercer_data::Matrix;
use mercer_simd::Isa;

use crate::Term;
use crate::live::{CentredRow, PackedColumns, SparseEntries};

/// Rows per tile: the sums of a tile stay in the nearest cache.
const TILE_ROWS: usize = 1920;

/// Sparse rows by column: for each live column the rows that are non-zero there.
#[derive(Debug)]
pub(super) struct Inverted {
    tiles: Vec<TileColumns>,
    rows: usize,
}

#[derive(Debug)]
struct TileColumns {
    starts: Vec<usize>,
    rows: Vec<u32>,
    values: Vec<f64>,
}

impl Inverted {
    pub(super) fn new(rows: &Matrix, live: &PackedColumns) -> Self {
        let mut tiles = Vec::new();
        let mut scratch = CentredRow::default();
        for first in (0..rows.rows()).step_by(TILE_ROWS) {
            let count = TILE_ROWS.min(rows.rows() - first);
            let mut starts = vec![0usize; live.len() + 1];
            let mut entries: Vec<(u32, u32, f64)> = Vec::new();
            for row in 0..count {
                let SparseEntries { columns, values } =
                    scratch.apply(rows.row(first + row), live.shifts());
                for (column, value) in columns.iter().zip(values) {
                    let slot = live.slot(*column).expect("columns of packed rows are live");
                    starts[slot as usize + 1] += 1;
                    entries.push((slot, row as u32, *value));
                }
            }
            for slot in 0..live.len() {
                starts[slot + 1] += starts[slot];
            }
            entries.sort_by_key(|(slot, row, _)| (*slot, *row));
            let values = entries.iter().map(|(_, _, value)| *value).collect();
            let rows = entries.into_iter().map(|(_, row, _)| row).collect();
            tiles.push(TileColumns { starts, rows, values });
        }
        Self { tiles, rows: rows.rows() }
    }

    pub(super) fn tiles(&self) -> usize {
        self.tiles.len()
    }

    pub(super) fn rows_of(&self, tile: usize) -> std::ops::Range<usize> {
        let first = tile * TILE_ROWS;
        first..(first + TILE_ROWS).min(self.rows)
    }

    /// Copies a row out, zeros included.
    pub(super) fn copy_row(&self, row: usize, out: &mut [f64]) {
        let (columns, inside) = (&self.tiles[row / TILE_ROWS], (row % TILE_ROWS) as u32);
        for (place, range) in out.iter_mut().zip(columns.starts.windows(2)) {
            let found = columns.rows[range[0]..range[1]].binary_search(&inside);
            *place = found.map_or(0.0, |at| columns.values[range[0] + at]);
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let per_tile = |tile: &TileColumns| 8 * tile.starts.len() + 12 * tile.rows.len();
        self.tiles.iter().map(per_tile).sum()
    }

    /// Base sums of one query against the rows of a tile: one chain in column order for each row.
    pub(super) fn sums(
        &self,
        isa: Isa,
        tile: usize,
        term: Option<&dyn Term>,
        query: SparseEntries<'_>,
        out: &mut [f64],
    ) {
        out.fill(0.0);
        let columns = &self.tiles[tile];
        for (slot, x) in query.columns.iter().zip(query.values) {
            let entries = columns.starts[*slot as usize]..columns.starts[*slot as usize + 1];
            let (rows, values) = (&columns.rows[entries.clone()], &columns.values[entries]);
            match term {
                None => mercer_simd::scatter_column(isa, *x, rows, values, out),
                Some(term) => {
                    for (row, value) in rows.iter().zip(values) {
                        out[*row as usize] += term.term(*x, *value);
                    }
                }
            }
        }
    }
}
