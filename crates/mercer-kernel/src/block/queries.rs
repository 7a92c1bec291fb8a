//! A block of queries in the layout that suits it: dense, sparse, or lists of entries.
//! The packed rows they are multiplied with are in `packed`.

use mercer_data::Row;
use mercer_simd::{DenseQueries64, Isa, SparseQueries64};

use super::packed::Packed;
use crate::Form;
use crate::live::{CentredRow, PackedColumns, SparseEntries};

/// A block of queries prepared for one [`Packed`]; reuse it to avoid allocations.
#[derive(Debug)]
pub struct Queries {
    pub(super) layout: Layout,
    pub(super) dense: DenseQueries64,
    pub(super) sparse: SparseQueries64,
    /// Non-zero live entries of all queries, for additive and inverted evaluation.
    pub(super) starts: Vec<usize>,
    pub(super) slots: Vec<u32>,
    pub(super) values: Vec<f64>,
    /// Entries outside the packed width, for terms that count them.
    pub(super) outside: Vec<Vec<f64>>,
    pub(super) squared_norms: Vec<f64>,
    columns: Vec<u32>,
    column_values: Vec<f64>,
    row: Vec<f64>,
    shifted: CentredRow,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    Dense,
    Sparse,
    Entries,
}

/// Whether squared norms are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Norms {
    Chain,
    None,
}

/// Walking non-zeros costs about this many times more per entry than the dense product
/// (`cargo run --release -p mercer-simd --example speed`).
const SPARSE_COST: f64 = 2.2;

/// With so few columns the dense product is faster than counting non-zeros.
const FEW_COLUMNS: usize = 16;

impl Queries {
    pub(super) fn new(live: usize) -> Self {
        Self {
            layout: Layout::Dense,
            dense: DenseQueries64::new(live),
            sparse: SparseQueries64::new(live),
            starts: vec![0],
            slots: Vec::new(),
            values: Vec::new(),
            outside: Vec::new(),
            squared_norms: Vec::new(),
            columns: Vec::new(),
            column_values: Vec::new(),
            row: vec![0.0; live],
            shifted: CentredRow::default(),
        }
    }

    /// Number of queries held.
    pub fn len(&self) -> usize {
        self.squared_norms.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.squared_norms.is_empty()
    }

    /// The base sums `b(x, x)` of the queries.
    pub fn squared_norms(&self) -> &[f64] {
        &self.squared_norms
    }

    /// Replaces the queries by these rows.
    pub(super) fn fill<'a>(
        &mut self,
        packed: &Packed,
        isa: Isa,
        rows: impl Iterator<Item = Row<'a>> + Clone,
        norms: Norms,
    ) {
        self.squared_norms.clear();
        self.layout =
            if packed.needs_entries() { Layout::Entries } else { choose(&packed.live, &rows) };
        match self.layout {
            Layout::Dense => self.fill_dense(packed, isa, rows, norms),
            Layout::Sparse => self.fill_sparse(packed, isa, rows, norms),
            Layout::Entries => self.fill_entries(packed, isa, rows),
        }
    }

    fn fill_dense<'a>(
        &mut self,
        packed: &Packed,
        isa: Isa,
        rows: impl Iterator<Item = Row<'a>> + Clone,
        norms: Norms,
    ) {
        let live = &packed.live;
        self.dense.clear();
        // Squared norms run over all columns; those of queries with dead non-zeros are replaced below.
        let mut incomplete: Vec<(usize, f64)> = Vec::new();
        for (query, row) in rows.enumerate() {
            let complete = match row {
                Row::Dense(values) if live.covers(values) => {
                    self.dense.push(values);
                    continue;
                }
                Row::Dense(values) if live.is_unshifted() => live.gather(values, &mut self.row),
                _ => {
                    self.row.fill(0.0);
                    let SparseEntries { columns, values } = self.shifted.apply(row, live.shifts());
                    let mut complete = true;
                    for (column, value) in columns.iter().zip(values) {
                        match live.slot(*column) {
                            Some(slot) => self.row[slot as usize] = *value,
                            None => complete = false,
                        }
                    }
                    complete
                }
            };
            self.dense.push(&self.row);
            if !complete && norms == Norms::Chain {
                let values = self.shifted.apply(row, live.shifts()).values;
                incomplete.push((query, mercer_simd::dot(isa, values, values)));
            }
        }
        self.squared_norms.resize(self.dense.len(), 0.0);
        if norms == Norms::Chain {
            self.dense.squared_norms(isa, &mut self.squared_norms);
        }
        for (query, sum) in incomplete {
            self.squared_norms[query] = sum;
        }
    }

    fn fill_sparse<'a>(
        &mut self,
        packed: &Packed,
        isa: Isa,
        rows: impl Iterator<Item = Row<'a>>,
        norms: Norms,
    ) {
        self.sparse.clear();
        for row in rows {
            let entries = self.shifted.apply(row, packed.live.shifts());
            let values = entries.values;
            self.squared_norms.push(match norms {
                Norms::Chain => mercer_simd::dot(isa, values, values),
                Norms::None => 0.0,
            });
            let (slots, kept) = (&mut self.columns, &mut self.column_values);
            packed.live.keep_live(entries, |value| value, slots, kept);
            self.sparse.push(&self.columns, &self.column_values);
        }
    }

    fn fill_entries<'a>(&mut self, packed: &Packed, isa: Isa, rows: impl Iterator<Item = Row<'a>>) {
        self.starts.clear();
        self.starts.push(0);
        self.slots.clear();
        self.values.clear();
        self.outside.clear();
        let form = packed.kernel().form();
        for row in rows {
            let SparseEntries { columns, values } = self.shifted.apply(row, packed.live.shifts());
            self.squared_norms.push(match form {
                Form::Additive(..) => form.base(row, row),
                _ => mercer_simd::dot(isa, values, values),
            });
            let mut outside = Vec::new();
            for (column, value) in columns.iter().zip(values) {
                match packed.live.slot(*column) {
                    Some(slot) => {
                        self.slots.push(slot);
                        self.values.push(*value);
                    }
                    None => outside.push(*value),
                }
            }
            self.starts.push(self.slots.len());
            self.outside.push(outside);
        }
    }

    /// Live columns and values of the non-zero entries of one query.
    pub(super) fn entries(&self, query: usize) -> SparseEntries<'_> {
        let range = self.starts[query]..self.starts[query + 1];
        SparseEntries { columns: &self.slots[range.clone()], values: &self.values[range] }
    }
}

pub(super) fn choose<'a>(
    live: &PackedColumns,
    rows: &(impl Iterator<Item = Row<'a>> + Clone),
) -> Layout {
    if live.len() <= FEW_COLUMNS {
        return Layout::Dense;
    }
    let (mut nonzeros, mut count) = (0usize, 0usize);
    for row in rows.clone() {
        count += 1;
        nonzeros += live.shifts().len()
            + match row {
                Row::Dense(values) => values.iter().map(|v| usize::from(*v != 0.0)).sum(),
                Row::Sparse { columns, .. } => columns.len(),
            };
    }
    let is_sparse = SPARSE_COST * (nonzeros as f64) < (count * live.len()) as f64;
    if is_sparse { Layout::Sparse } else { Layout::Dense }
}
