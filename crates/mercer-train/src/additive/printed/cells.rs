//! Rows as \[YW12\] keeps them: a column and a value of four bytes each, and what its two algorithms look up for them.
//! The loop over the rows is in `descent`.

use mercer_data::Matrix;
use mercer_kernel::Term;

use super::PrintedPmsvm;
use super::descent::{PrintedDescent, PrintedPart, PrintedSolution, descend, value};
use crate::additive::maps::{SHIFT, inverse_of, node_points};

/// Rows of four-byte columns and values.
pub(super) struct SparseRows {
    starts: Vec<usize>,
    pub(super) columns: Vec<u32>,
    pub(super) values: Vec<f32>,
    pub(super) width: usize,
}

impl SparseRows {
    /// These rows of a matrix.
    pub(super) fn new(matrix: &Matrix, rows: &[u32]) -> Self {
        let (mut starts, mut columns, mut values) = (vec![0], Vec::new(), Vec::new());
        for row in rows {
            for (column, value) in matrix.row(*row as usize).nonzeros() {
                columns.push(column);
                values.push(value as f32);
            }
            starts.push(columns.len());
        }
        Self { starts, columns, values, width: matrix.columns() }
    }

    /// Places of the non-zeros of a row.
    pub(super) fn places(&self, row: u32) -> std::ops::Range<usize> {
        self.starts[row as usize]..self.starts[row as usize + 1]
    }

    fn bytes(&self) -> usize {
        8 * (self.starts.len() + self.columns.len())
    }
}

/// `ln(x + 0.05)` in f32.
pub(super) fn logarithm(value: f32) -> f32 {
    (value + SHIFT as f32).ln()
}

/// What an algorithm looks up for a non-zero: `ln(x + 0.05)`, and the N numbers `X⁻¹ κ(nodes, x)`.
pub(super) trait Cells<const N: usize>: Sync {
    fn log(&self, place: usize, value: f32) -> f32;
    fn update(&self, place: usize, value: f32) -> [f32; N];
    fn bytes(&self) -> usize;
}

/// Algorithm 2: the logarithm and two kernel values of each non-zero are kept, 12 bytes, and multiplied by `X⁻¹` in each
/// update. `κ(c_0, x)` is taken as c_0, as section 5 says.
struct KeptCells {
    logs: Vec<f32>,
    kernels: Vec<[f32; 2]>,
    first: f32,
    inverse: [[f32; 3]; 3],
}

impl Cells<3> for KeptCells {
    #[inline(always)]
    fn log(&self, place: usize, _value: f32) -> f32 {
        self.logs[place]
    }

    #[inline(always)]
    fn update(&self, place: usize, _value: f32) -> [f32; 3] {
        let [second, third] = self.kernels[place];
        self.inverse.map(|row| row[0] * self.first + row[1] * second + row[2] * third)
    }

    fn bytes(&self) -> usize {
        12 * self.logs.len()
    }
}

/// Algorithm 3: two tables of b entries, read at `⌊b x⌋`.
struct TableCells<const N: usize> {
    bins: f32,
    logs: Vec<f32>,
    updates: Vec<[f32; N]>,
}

impl<const N: usize> Cells<N> for TableCells<N> {
    #[inline(always)]
    fn log(&self, _place: usize, value: f32) -> f32 {
        self.logs[(self.bins * value) as usize]
    }

    #[inline(always)]
    fn update(&self, _place: usize, value: f32) -> [f32; N] {
        self.updates[(self.bins * value) as usize]
    }

    fn bytes(&self) -> usize {
        4 * (N + 1) * self.logs.len()
    }
}

/// Rows in the layout of one algorithm.
pub(super) trait PrintedRows: Sync {
    fn solve(&self, part: &PrintedPart, descent: &PrintedDescent<'_>) -> PrintedSolution;

    /// `g` of a row.
    fn score(&self, row: u32, coefficients: &[f32]) -> f32;

    fn nonzeros(&self) -> usize;

    /// Bytes of the rows and of what is looked up: 20 for each non-zero by algorithm 2, 8 and the tables by algorithm 3.
    fn bytes(&self) -> usize;
}

/// Rows, and what is looked up for them.
struct RowsWithCells<const N: usize, C> {
    rows: SparseRows,
    cells: C,
}

impl<const N: usize, C: Cells<N>> PrintedRows for RowsWithCells<N, C> {
    fn solve(&self, part: &PrintedPart, descent: &PrintedDescent<'_>) -> PrintedSolution {
        descend(&self.rows, &self.cells, part, descent)
    }

    fn score(&self, row: u32, coefficients: &[f32]) -> f32 {
        value(&self.rows, &self.cells, row, coefficients)
    }

    fn nonzeros(&self) -> usize {
        self.rows.values.len()
    }

    fn bytes(&self) -> usize {
        self.rows.bytes() + self.cells.bytes()
    }
}

/// Computes what the algorithm of this solver looks up.
pub(super) fn layout(
    solver: &PrintedPmsvm,
    rows: SparseRows,
    term: &dyn Term,
) -> Box<dyn PrintedRows> {
    let Some(bins) = solver.bins else {
        let cells = kept(solver, &rows, term);
        return Box::new(RowsWithCells::<3, _> { rows, cells });
    };
    match solver.degree {
        1 => with_tables::<2>(solver, bins, rows, term),
        2 => with_tables::<3>(solver, bins, rows, term),
        3 => with_tables::<4>(solver, bins, rows, term),
        4 => with_tables::<5>(solver, bins, rows, term),
        5 => with_tables::<6>(solver, bins, rows, term),
        6 => with_tables::<7>(solver, bins, rows, term),
        _ => with_tables::<8>(solver, bins, rows, term),
    }
}

fn kept(solver: &PrintedPmsvm, rows: &SparseRows, term: &dyn Term) -> KeptCells {
    let nodes = node_points(solver.degree, solver.nodes);
    let inverse = inverse_of(&nodes);
    let kernel = |node: usize, value: f32| term.term(nodes[node], f64::from(value)) as f32;
    KeptCells {
        logs: rows.values.iter().map(|value| logarithm(*value)).collect(),
        kernels: rows.values.iter().map(|value| [kernel(1, *value), kernel(2, *value)]).collect(),
        first: nodes[0] as f32,
        inverse: [0, 1, 2].map(|row| [0, 1, 2].map(|column| inverse[3 * row + column] as f32)),
    }
}

fn with_tables<const N: usize>(
    solver: &PrintedPmsvm,
    bins: usize,
    rows: SparseRows,
    term: &dyn Term,
) -> Box<dyn PrintedRows> {
    let nodes = node_points(solver.degree, solver.nodes);
    let inverse = inverse_of(&nodes);
    let update = |entry: usize| -> [f32; N] {
        let value = entry as f64 / bins as f64;
        let kernels: [f64; N] = std::array::from_fn(|node| term.term(nodes[node], value));
        let row = |k: usize| &inverse[k * N..(k + 1) * N];
        std::array::from_fn(|k| row(k).iter().zip(kernels).map(|(a, b)| a * b).sum::<f64>() as f32)
    };
    let cells = TableCells {
        bins: bins as f32,
        logs: (0..=bins).map(|entry| logarithm(entry as f32 / bins as f32)).collect(),
        updates: (0..=bins).map(update).collect(),
    };
    Box::new(RowsWithCells::<N, _> { rows, cells })
}
