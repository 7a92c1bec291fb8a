//! Rows on an evenly spaced grid, packed as bytes: products of codes are exact integers.
//!
//! Pixels, counts and ratings are such rows; other rows may be rounded to the grid.

use std::ops::Range;

use mercer_data::{Matrix, Row, limits};
use mercer_simd::{BytePanels, ByteQueries, Isa};

/// Rows of products per tile, whatever the instruction set: whole panels of 32, 48, 64, 80 or 96 rows, and whole chunks of
/// coefficients.
const TILE_ROWS: usize = 960;
/// Queries whose products with a tile are held at once: a quarter of a megabyte.
const TILE_QUERIES: usize = 64;
/// Unit roundoff of f64.
const UNIT: f64 = f64::EPSILON / 2.0;
/// Residuals above this share of a step mean that a value is off the grid.
const OFF_GRID: f64 = 1e-3;
/// The same for rows that are only rounded to it: half a step and a little for the rounding of that.
const OUTSIDE: f64 = 0.500001;

/// Evenly spaced values `base + step q` with codes q from 0 to 255: pixels, counts, ratings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Grid {
    step: f64,
    base: f64,
}

/// Rows on a grid, as bytes: products of codes are exact, and the residuals are bounded.
///
/// A row is `z = base + step b + ρ` with codes `b`; columns where all rows have code 0 are dead.
#[derive(Debug)]
pub struct Coded {
    grid: Grid,
    panels: BytePanels,
    /// Column to position among the live ones, or their number for the dead ones.
    slots: Vec<u32>,
    dead: Vec<u32>,
    live: usize,
    squares: Vec<i32>,
    sums: Vec<f64>,
    residual: f64,
    is_rounded: bool,
}

/// A block of queries on the grid; reuse it to avoid allocations.
#[derive(Debug)]
pub struct CodedQueries {
    block: ByteQueries,
    /// Codes of the live columns, and a place for those of the dead ones.
    row: Vec<u8>,
    dense: Vec<f64>,
    entries: Vec<u8>,
}

/// What is known of one query `x = base + step a + r` beside its codes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CodedQuery {
    /// `Σ a²` over the live columns, exact.
    pub squares: i32,
    /// `Σ a` over the live columns, exact.
    pub sum: i32,
    /// At least `|r|` over the live columns.
    pub residual: f64,
    /// `Σ (x - z')²` over all other columns, where `z'` is the base, or 0 beyond the rows' width.
    pub beyond: f64,
    /// `Σ x` over the dead columns within the rows' width.
    pub dead_sum: f64,
    /// `Σ |x|` over the same.
    pub dead_size: f64,
}

/// Products of codes of some queries with some rows.
#[derive(Debug)]
pub struct CodedTile<'a> {
    /// Which queries of the block.
    pub queries: Range<usize>,
    /// Which rows.
    pub rows: Range<usize>,
    products: &'a [i32],
    stride: usize,
}

impl CodedTile<'_> {
    /// Products of one query of the block with the tile's rows.
    pub fn of(&self, query: usize) -> &[i32] {
        let start = (query - self.queries.start) * self.stride;
        &self.products[start..start + self.rows.len()]
    }
}

impl Grid {
    /// A grid of sane size, far from overflow and underflow.
    pub fn new(step: f64, base: f64) -> Option<Self> {
        let sane = (1e-12..=1e15).contains(&step) && base.abs() <= 1e15;
        sane.then_some(Self { step, base })
    }

    /// Distance between neighbours.
    pub fn step(&self) -> f64 {
        self.step
    }

    /// The value of code 0.
    pub fn base(&self) -> f64 {
        self.base
    }

    /// Upper bound on the norm of true residuals from the largest computed one, each of which is off by at
    /// most `3 u (|base| + 255 step)` and two roundings of its own.
    fn norm(&self, worst: f64, count: usize) -> f64 {
        let most = self.base.abs() + 255.0 * self.step;
        (count as f64).sqrt() * (worst * (1.0 + 1e-9) + 3.1 * UNIT * most)
    }

    /// The same from all of them, which is less where they differ.
    fn norm_of(&self, pairs: impl Iterator<Item = (f64, u8)>, count: usize) -> f64 {
        let error = |(x, code): (f64, u8)| x - (self.base + self.step * f64::from(code));
        let sum: f64 = pairs.map(error).map(|r| r * r).sum();
        sum.sqrt() * (1.0 + 1e-9) + self.norm(0.0, count)
    }
}

impl Coded {
    /// Memory of the packed rows.
    pub fn bytes(&self) -> usize {
        self.panels.bytes()
    }

    /// Codes and packs rows; `None` if one is off the grid, or there are too many columns. Where rows `is_rounded`
    /// they need not lie on it, only between its ends, and neither need queries.
    pub fn new(isa: Isa, grid: Grid, is_rounded: bool, rows: &Matrix) -> Option<Self> {
        let width = rows.columns();
        limits::check_table("", width, rows.nonzeros()).ok()?;
        let mut used = vec![false; width];
        let (mut squares, mut sums) = (Vec::new(), Vec::new());
        let mut residual = 0.0f64;
        let (mut dense, mut codes) = (vec![0.0; width], vec![0u8; width]);
        let mut fill = |row: usize, codes: &mut [u8]| {
            dense.fill(0.0);
            rows.row(row).nonzeros().for_each(|(column, x)| dense[column as usize] = x);
            let worst = mercer_simd::codes(isa, &dense, grid.step, grid.base, codes);
            let pairs = || dense.iter().copied().zip(codes.iter().copied());
            let bound = grid.norm(worst, width);
            residual = residual.max(if is_rounded { grid.norm_of(pairs(), width) } else { bound });
            worst <= off_grid(is_rounded) * grid.step
        };
        for row in 0..rows.rows() {
            if !fill(row, &mut codes) {
                return None;
            }
            used.iter_mut().zip(&codes).for_each(|(used, code)| *used |= *code != 0);
        }
        let is_used = (0u32..).zip(&used).filter(|(_, used)| **used);
        let mut columns: Vec<u32> = is_used.map(|(column, _)| column).collect();
        let live = columns.len();
        if live > BytePanels::MOST_COLUMNS {
            return None;
        }
        if live <= MOST_GROUPED {
            let mut patterns = Patterns::new(live);
            for row in (0..rows.rows()).step_by(rows.rows().div_ceil(SAMPLED_ROWS).max(1)) {
                fill(row, &mut codes);
                patterns.add_row(columns.iter().map(|column| codes[*column as usize] != 0));
            }
            columns = patterns.grouped().into_iter().map(|at| columns[at]).collect();
        }
        let mut slots = vec![live as u32; width];
        (0..).zip(&columns).for_each(|(slot, column)| slots[*column as usize] = slot);
        let dead = (0u32..).zip(&used).filter(|(_, used)| !**used).map(|(at, _)| at).collect();
        let panels = BytePanels::pack(isa, rows.rows(), live, |row, out| {
            fill(row, &mut codes);
            let kept = columns.iter().map(|column| codes[*column as usize]);
            out.iter_mut().zip(kept).for_each(|(place, code)| *place = code);
            let (sum, square) = mercer_simd::byte_sums(isa, out);
            squares.push(square);
            sums.push(f64::from(sum));
        });
        Some(Self { grid, panels, slots, dead, live, squares, sums, residual, is_rounded })
    }

    /// The grid.
    pub fn grid(&self) -> Grid {
        self.grid
    }

    /// Columns in which some row has a code other than 0.
    pub fn live_columns(&self) -> usize {
        self.live
    }

    /// `Σ b²` of each row, exact.
    pub fn squares(&self) -> &[i32] {
        &self.squares
    }

    /// `Σ b` of each row, exact.
    pub fn sums(&self) -> &[f64] {
        &self.sums
    }

    /// At least `|ρ|` of every row, dead columns included.
    pub fn residual(&self) -> f64 {
        self.residual
    }

    /// An empty block for these rows.
    pub fn queries(&self) -> CodedQueries {
        let (dense, entries) = (Vec::new(), Vec::new());
        CodedQueries { block: self.panels.queries(), row: vec![0; self.live + 1], dense, entries }
    }

    /// Codes a query; `None` if it is off the grid. It joins the block by [`CodedQueries::keep`].
    pub fn code(&self, isa: Isa, row: Row<'_>, queries: &mut CodedQueries) -> Option<CodedQuery> {
        let CodedQueries { row: codes, dense, entries, .. } = queries;
        codes.fill(0);
        let width = self.slots.len();
        let mut has_dead = true;
        let residual = match row {
            Row::Sparse { columns, values } if self.grid.base == 0.0 => {
                let last = columns.last().map_or(0, |last| *last as usize);
                let inside = if last < width {
                    columns.len()
                } else {
                    columns.partition_point(|column| (*column as usize) < width)
                };
                let residual = self.code_values(isa, &values[..inside], entries)?;
                let mut farthest = 0;
                for (column, code) in columns.iter().zip(entries.iter()) {
                    let slot = self.slots[*column as usize];
                    farthest = farthest.max(slot);
                    codes[slot as usize] = *code;
                }
                has_dead = farthest as usize == self.live || last >= width;
                residual
            }
            Row::Dense(values) if values.len() >= width => {
                self.code_dense(isa, &values[..width], entries, codes)?
            }
            _ => {
                // A zero is a value like any other here.
                dense.clear();
                dense.resize(width, 0.0);
                let inside = row.nonzeros().take_while(|(column, _)| (*column as usize) < width);
                inside.for_each(|(column, x)| dense[column as usize] = x);
                self.code_dense(isa, dense, entries, codes)?
            }
        };
        let (sum, squares) = mercer_simd::byte_sums(isa, &codes[..self.live]);
        let mut query =
            CodedQuery { squares, sum, residual, beyond: 0.0, dead_sum: 0.0, dead_size: 0.0 };
        if has_dead {
            self.add_dead(row, &mut query);
        }
        Some(query)
    }

    fn code_dense(
        &self,
        isa: Isa,
        values: &[f64],
        entries: &mut Vec<u8>,
        codes: &mut [u8],
    ) -> Option<f64> {
        let residual = self.code_values(isa, values, entries)?;
        for (slot, code) in self.slots.iter().zip(entries.iter()) {
            codes[*slot as usize] = *code;
        }
        Some(residual)
    }

    /// Codes of values and at least the norm of their residuals.
    fn code_values(&self, isa: Isa, values: &[f64], codes: &mut Vec<u8>) -> Option<f64> {
        codes.resize(values.len(), 0);
        let Grid { step, base } = self.grid;
        let worst = mercer_simd::codes(isa, values, step, base, codes);
        let residual = if self.is_rounded {
            self.grid.norm_of(values.iter().copied().zip(codes.iter().copied()), self.slots.len())
        } else {
            self.grid.norm(worst, self.live)
        };
        (worst <= off_grid(self.is_rounded) * step).then_some(residual)
    }

    /// Columns without codes. Within the rows' width their values lie on the grid as well, or the query
    /// was refused.
    fn add_dead(&self, row: Row<'_>, query: &mut CodedQuery) {
        let (width, base) = (self.slots.len(), self.grid.base);
        let mut dead = |x: f64| {
            query.beyond += (x - base) * (x - base);
            query.dead_sum += x;
            query.dead_size += x.abs();
        };
        match row {
            Row::Dense(values) => {
                for column in &self.dead {
                    dead(values.get(*column as usize).copied().unwrap_or(0.0));
                }
            }
            Row::Sparse { columns, values } if base == 0.0 => {
                for (column, x) in columns.iter().zip(values) {
                    if self
                        .slots
                        .get(*column as usize)
                        .is_some_and(|slot| *slot == self.live as u32)
                    {
                        dead(*x);
                    }
                }
            }
            Row::Sparse { columns, values } => {
                for column in &self.dead {
                    dead(columns.binary_search(column).map_or(0.0, |at| values[at]));
                }
            }
        }
        let outside = |column: u32| column as usize >= width;
        query.beyond += match row {
            Row::Dense(values) if values.len() <= width => 0.0,
            Row::Sparse { columns, .. } if columns.last().is_none_or(|last| !outside(*last)) => 0.0,
            _ => {
                let far = row.nonzeros().filter(|(column, _)| outside(*column));
                far.map(|(_, x)| x * x).sum::<f64>()
            }
        };
    }

    /// Computes all products of the block, tile after tile in row order.
    pub fn visit(
        &self,
        queries: &CodedQueries,
        scratch: &mut Vec<i32>,
        mut visit: impl FnMut(CodedTile<'_>),
    ) {
        let panels = &self.panels;
        debug_assert!(TILE_ROWS.is_multiple_of(panels.panel_rows()), "whole panels");
        let (per_tile, count) = (TILE_ROWS / panels.panel_rows(), queries.block.len());
        for first in (0..panels.panels()).step_by(per_tile) {
            let range = first..(first + per_tile).min(panels.panels());
            let lanes = panels.lanes(range.clone());
            let (stride, rows) = (lanes.len(), lanes.start..lanes.end.min(panels.rows()));
            scratch.resize(count.min(TILE_QUERIES) * stride, 0);
            for start in (0..count).step_by(TILE_QUERIES) {
                let query_range = start..count.min(start + TILE_QUERIES);
                panels.dots(&queries.block, query_range.clone(), range.clone(), scratch, stride);
                visit(CodedTile {
                    queries: query_range,
                    rows: rows.clone(),
                    products: scratch,
                    stride,
                });
            }
        }
    }
}

impl CodedQueries {
    /// Removes all queries and keeps the memory.
    pub fn clear(&mut self) {
        self.block.clear();
    }

    /// Appends the query that was coded last.
    pub fn keep(&mut self) {
        let live = self.row.len() - 1;
        self.block.push(&self.row[..live]);
    }
}

/// Up to so many columns are grouped.
const MOST_GROUPED: usize = 2048;
/// Rows that are sampled to find which columns are non-zero together.
const SAMPLED_ROWS: usize = 1024;
/// Columns that are multiplied together, at most.
const GROUP: usize = 4;

/// In which rows columns have a code other than 0, a bit for each.
struct Patterns {
    bits: Vec<Vec<u64>>,
    rows: usize,
}

impl Patterns {
    fn new(columns: usize) -> Self {
        Self { bits: vec![Vec::new(); columns], rows: 0 }
    }

    fn add_row(&mut self, row: impl Iterator<Item = bool>) {
        for (bits, is_set) in self.bits.iter_mut().zip(row) {
            if self.rows.is_multiple_of(64) {
                bits.push(0);
            }
            *bits.last_mut().expect("just made") |= u64::from(is_set) << (self.rows % 64);
        }
        self.rows += 1;
    }

    /// The columns, those that are set together side by side: groups that are zero throughout are skipped, and so
    /// there are more of them. A group starts with the column that is set most often and takes those that add least
    /// to the rows it is set in, beside what they would add elsewhere.
    fn grouped(&self) -> Vec<usize> {
        let ones = |bits: &[u64]| bits.iter().map(|word| word.count_ones()).sum::<u32>();
        let counts: Vec<u32> = self.bits.iter().map(|bits| ones(bits)).collect();
        let mut left: Vec<usize> = (0..counts.len()).collect();
        // The last of equals, so that ties are settled.
        left.sort_by_key(|column| (counts[*column], usize::MAX - column));
        let mut order = Vec::with_capacity(left.len());
        let mut union: Vec<u64> = Vec::new();
        while let Some(first) = left.pop() {
            union.clone_from(&self.bits[first]);
            order.push(first);
            for _ in 1..GROUP {
                let loss = |column: &usize| {
                    let added = self.bits[*column].iter().zip(&union).map(|(own, all)| own & !all);
                    let added: u32 = added.map(u64::count_ones).sum();
                    2 * i64::from(added) - i64::from(counts[*column])
                };
                let best = (0..left.len()).min_by_key(|at| (loss(&left[*at]), left[*at]));
                let Some(best) = best else { break };
                let column = left.remove(best);
                union.iter_mut().zip(&self.bits[column]).for_each(|(all, own)| *all |= own);
                order.push(column);
            }
        }
        order
    }
}

/// The largest residual of a value on a grid, as a share of its step.
pub fn off_grid(is_rounded: bool) -> f64 {
    if is_rounded { OUTSIDE } else { OFF_GRID }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_residuals_bound_the_rows() {
        let values = vec![0.0, 0.5, 127.5, 0.0, 1.0, 0.0, 3.0, 0.0];
        let isa = Isa::current();
        let rows = Matrix::dense(4, values).unwrap();
        let coded = Coded::new(Isa::current(), Grid::new(0.5, 0.0).unwrap(), false, &rows).unwrap();
        assert_eq!((coded.live_columns(), coded.squares()), (3, &[1 + 255 * 255, 4 + 36][..]));
        let mut queries = coded.queries();
        let query = coded.code(isa, Row::Dense(&[2.5, 0.5, 1.0 + 1e-7, 7.5, 2.0]), &mut queries);
        let query = query.unwrap();
        assert_eq!((query.squares, query.sum), (25 + 1 + 4, 8));
        assert!(query.residual >= 1e-7 && query.residual < 2e-7);
        assert!((query.beyond - (7.5 * 7.5 + 4.0)).abs() < 1e-12);
        queries.keep();
        let mut seen = Vec::new();
        coded.visit(&queries, &mut Vec::new(), |tile| seen.extend_from_slice(tile.of(0)));
        assert_eq!(seen, [1 + 2 * 255, 5 * 2 + 2 * 6]);
    }

    #[test]
    fn columns_that_are_set_together_are_grouped() {
        let mut patterns = Patterns::new(8);
        for row in 0..130 {
            // Even columns in even rows, odd ones in odd rows.
            patterns.add_row((0..8).map(|column| column % 2 == row % 2));
        }
        let order = patterns.grouped();
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..8).collect::<Vec<_>>());
        for group in order.chunks(4) {
            assert!(group.iter().all(|column| column % 2 == group[0] % 2), "{order:?}");
        }
    }

    #[test]
    fn queries_off_the_grid_are_refused() {
        let isa = Isa::current();
        let rows = Matrix::dense(2, vec![-1.0, 1.0, 0.0, 0.5]).unwrap();
        let coded =
            Coded::new(Isa::current(), Grid::new(0.5, -1.0).unwrap(), false, &rows).unwrap();
        let mut queries = coded.queries();
        for off in [[0.3, 0.0], [-1.5, 0.0], [1e3, 0.0], [f64::MAX, 0.0]] {
            assert_eq!(coded.code(isa, Row::Dense(&off), &mut queries), None);
        }
        // A sparse zero has code 2 here.
        let sparse = Row::Sparse { columns: &[1], values: &[0.5] };
        let dense = coded.code(isa, Row::Dense(&[0.0, 0.5]), &mut queries);
        assert_eq!(coded.code(isa, sparse, &mut queries), dense);
        assert_eq!(dense.unwrap().squares, 4 + 9);
    }
}
