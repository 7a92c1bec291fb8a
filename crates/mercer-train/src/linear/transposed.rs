//! Examples by columns, for solvers that update one weight after the other.
//! Rows for dual coordinate descent are packed in [`crate::packed`].

use crate::TrainError;
use crate::packed::{RowsToPack, check_range};
use crate::row_source::pieces;

/// Values of the examples, column by column; the constant is the last column.
#[derive(Debug)]
pub(super) struct Transposed {
    starts: Vec<usize>,
    rows: Vec<u32>,
    values: ColumnValues,
    /// Value and number of the rows of the last column.
    constant: (f64, usize),
    norms: Vec<Norms>,
}

/// How large a column is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Norms {
    /// The sum of the sizes of its values.
    pub(super) sizes: f64,
    /// The sum of their squares.
    pub(super) squares: f64,
}

#[derive(Debug)]
enum ColumnValues {
    /// All are this one.
    Same(f64),
    Own(Vec<f64>),
}

/// Where columns begin, from a first pass over the rows.
struct ColumnCounts {
    starts: Vec<usize>,
    /// The one value of all entries, if there is only one.
    same: Option<f64>,
}

/// Sums side by side: one chain of additions would wait for itself.
const LANES: usize = 4;

impl Transposed {
    /// The columns of these rows and a constant one (empty if it is 0); where they take more than `most` bytes,
    /// only how many.
    pub(super) fn new(
        packing: RowsToPack<'_>,
        bias: f64,
        most: usize,
    ) -> Result<Result<Self, usize>, TrainError> {
        let RowsToPack { source, rows, columns, places, .. } = packing;
        let ColumnCounts { starts, same } = count_columns(packing)?;
        let constant = (bias, if bias == 0.0 { 0 } else { rows.len() });
        let entries = starts[columns.kept()];
        let bytes = bytes(entries, columns.kept(), same.is_some());
        if bytes > most {
            return Ok(Err(bytes));
        }
        let (mut entry_rows, mut next) = (vec![0u32; entries], starts.clone());
        let mut values =
            same.map_or_else(|| ColumnValues::Own(vec![0.0; entries]), ColumnValues::Same);
        pieces(source, rows, |piece| {
            for (position, row) in (piece.position as u32..).zip(piece.rows) {
                piece.row(*row).nonzeros().for_each(|(column, value)| {
                    let place = &mut next[places.of(column) as usize];
                    entry_rows[*place] = position;
                    if let ColumnValues::Own(values) = &mut values {
                        values[*place] = value;
                    }
                    *place += 1;
                });
            }
            Ok(())
        })?;
        let mut made = Self { starts, rows: entry_rows, values, constant, norms: Vec::new() };
        let norms = |column| {
            let [sizes, squares] = made.sum(column, |_, x| [x.abs(), x * x]);
            Norms { sizes, squares }
        };
        made.norms = (0..made.columns()).map(norms).collect();
        Ok(Ok(made))
    }

    /// Columns, the constant included.
    pub(super) fn columns(&self) -> usize {
        self.starts.len()
    }

    /// Values that are not zero, the constant's not counted.
    pub(super) fn entries(&self) -> usize {
        self.rows.len()
    }

    /// The sum of what `of` makes of the rows and values of a column.
    #[inline]
    pub(super) fn sum<const K: usize>(
        &self,
        column: usize,
        of: impl Fn(usize, f64) -> [f64; K],
    ) -> [f64; K] {
        if column + 1 == self.columns() {
            let (x, rows) = self.constant;
            let whole = (0..rows / LANES).map(|four| {
                let row = four * LANES;
                [row, row + 1, row + 2, row + 3].map(|row| (row, x))
            });
            let rest = (rows - rows % LANES..rows).map(|row| (row, x));
            return in_lanes(whole, rest, of);
        }
        let range = self.starts[column]..self.starts[column + 1];
        let (whole, rest) = self.rows[range.clone()].as_chunks::<LANES>();
        match &self.values {
            ColumnValues::Same(x) => {
                let whole = whole.iter().map(|rows| rows.map(|row| (row as usize, *x)));
                in_lanes(whole, rest.iter().map(|row| (*row as usize, *x)), of)
            }
            ColumnValues::Own(values) => {
                let (values, last) = values[range].as_chunks::<LANES>();
                let four = |([p, q, r, s], [t, u, v, w]): (&[u32; LANES], &[f64; LANES])| {
                    [(p, t), (q, u), (r, v), (s, w)].map(|(row, x)| (*row as usize, *x))
                };
                let rest = rest.iter().zip(last).map(|(row, x)| (*row as usize, *x));
                in_lanes(whole.iter().zip(values).map(four), rest, of)
            }
        }
    }

    /// Shows rows and values of a column.
    #[inline]
    pub(super) fn each(&self, column: usize, mut see: impl FnMut(usize, f64)) {
        if column + 1 == self.columns() {
            let (x, rows) = self.constant;
            return (0..rows).for_each(|row| see(row, x));
        }
        let range = self.starts[column]..self.starts[column + 1];
        let rows = self.rows[range.clone()].iter();
        match &self.values {
            ColumnValues::Same(x) => rows.for_each(|row| see(*row as usize, *x)),
            ColumnValues::Own(values) => {
                rows.zip(&values[range]).for_each(|(row, x)| see(*row as usize, *x));
            }
        }
    }

    /// How large a column is.
    pub(super) fn norms(&self, column: usize) -> Norms {
        self.norms[column]
    }

    /// Memory in use.
    pub(super) fn bytes(&self) -> usize {
        bytes(self.rows.len(), self.columns() - 1, matches!(self.values, ColumnValues::Same(_)))
    }
}

/// Sums over entries, four at a time side by side.
#[inline]
fn in_lanes<const K: usize>(
    whole: impl Iterator<Item = [(usize, f64); LANES]>,
    rest: impl Iterator<Item = (usize, f64)>,
    of: impl Fn(usize, f64) -> [f64; K],
) -> [f64; K] {
    let [mut a, mut b, mut c, mut d] = [[0.0; K]; LANES];
    for [p, q, r, s] in whole {
        add(&mut a, of(p.0, p.1));
        add(&mut b, of(q.0, q.1));
        add(&mut c, of(r.0, r.1));
        add(&mut d, of(s.0, s.1));
    }
    for (row, x) in rest {
        add(&mut a, of(row, x));
    }
    std::array::from_fn(|k| (a[k] + b[k]) + (c[k] + d[k]))
}

#[inline]
fn add<const K: usize>(sum: &mut [f64; K], more: [f64; K]) {
    for k in 0..K {
        sum[k] += more[k];
    }
}

/// Where each column begins, the end of the last after them, and whether all values are the same.
fn count_columns(packing: RowsToPack<'_>) -> Result<ColumnCounts, TrainError> {
    let RowsToPack { source, rows, columns, places, .. } = packing;
    let count = columns.kept();
    let mut starts = vec![0usize; count + 1];
    let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
    pieces(source, rows, |piece| {
        for row in piece.rows {
            piece.row(*row).nonzeros().for_each(|(column, value)| {
                starts[places.of(column) as usize] += 1;
                least = if value < least { value } else { least };
                most = if value > most { value } else { most };
            });
        }
        Ok(())
    })?;
    check_range(if least <= most { most.abs().max(least.abs()) } else { 0.0 })?;
    let mut next = 0;
    for start in &mut starts {
        next += std::mem::replace(start, next);
    }
    Ok(ColumnCounts { starts, same: (least == most).then_some(least) })
}

/// Memory of so many entries and columns.
fn bytes(entries: usize, columns: usize, are_same: bool) -> usize {
    let value = if are_same { 0 } else { size_of::<f64>() };
    entries * (size_of::<u32>() + value) + (columns + 1) * (size_of::<usize>() + size_of::<Norms>())
}
