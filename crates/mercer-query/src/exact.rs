//! The exact stage: the specified f64 evaluation of a machine, and the rounding bound of its scores. Every other stage
//! is measured against it.

use mercer_data::Row;
use mercer_kernel::block::{BLOCK, Packed, Queries};
use mercer_kernel::bound::largest;
use mercer_machine::{Answer, Machine, Output, Scheme, Score, pairs_with};
use mercer_simd::Isa;

use crate::coefficients::Coefficients;
use crate::linear_scores::{LinearScores, linear_score};
use crate::rounding::{QuerySize, Rounding, row_length};
use crate::tables::{Binned, Tables};
use crate::{Certainty, Cost, Decision, Interval, QueryError};

/// The specified f64 evaluation of a machine: same model, same row, same bits, whatever the batch, the
/// thread and the instruction set. Kernel values of distinct supports are computed once for all scores.
#[derive(Debug)]
pub struct Exact {
    machine: Machine,
    packed: Packed,
    coefficients: Coefficients,
    rounding: Rounding,
    isa: Isa,
    has_expansions: bool,
    has_weights: bool,
    tables: Option<Tables>,
    linear: Option<LinearScores>,
}

/// What the rounding bounds of the scores need of a query.
struct RowSize {
    /// For sums of kernel values.
    of_kernel: Option<QuerySize>,
    /// The length of the row, for linear scores.
    length: f64,
}

/// Working memory of one thread; kept, it spares allocations.
#[derive(Debug)]
pub struct ExactScratch {
    queries: Queries,
    values: Vec<f64>,
    partials: Vec<[f64; 8]>,
    binned: Binned,
    scores: Vec<f64>,
}

impl Exact {
    /// Packs a machine for the instruction set in use.
    pub fn new(machine: &Machine) -> Self {
        Self::with_isa(machine, Isa::current())
    }

    /// Packs a machine for a given instruction set. Its largest part, the panels of the supports, is packed when the first
    /// score is computed, or by [`Exact::pack`].
    pub fn with_isa(machine: &Machine, isa: Isa) -> Self {
        let kernel = machine.kernel().clone();
        let packed = Packed::shared(kernel, machine.supports(), machine.centre());
        let rounding = Rounding::new(machine, &packed);
        let coefficients = Coefficients::new(machine);
        let expansion = |score: &Score| matches!(score, Score::Expansion { .. });
        let has_expansions = machine.scores().iter().any(expansion);
        let has_weights =
            machine.scores().iter().any(|score| matches!(score, Score::Linear { .. }));
        let (tables, linear) = (Tables::new(machine, isa), LinearScores::new(machine));
        let machine = machine.clone();
        Self {
            machine,
            packed,
            coefficients,
            rounding,
            isa,
            has_expansions,
            has_weights,
            tables,
            linear,
        }
    }

    /// The machine.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Packs the supports now, so that the first query does not wait for it.
    pub fn pack(&self) {
        if self.tables.is_none() && self.linear.is_none() {
            self.packed.pack();
        }
    }

    /// From now on scores are computed from pieces that are not kept, until [`Exact::pack`] is called.
    pub(crate) fn set_in_pieces(&mut self) {
        self.packed.set_in_pieces();
    }

    /// The packed supports.
    pub fn packed(&self) -> &Packed {
        &self.packed
    }

    /// The constants of its rounding bounds.
    pub(crate) fn rounding(&self) -> &Rounding {
        &self.rounding
    }

    /// Its coefficients in chunks.
    pub(crate) fn coefficients(&self) -> &Coefficients {
        &self.coefficients
    }

    /// The instruction set in use.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Rounding bound of each score for a query whose squared norm is `squared_norm`, summed in any order.
    pub(crate) fn rounding_bounds(&self, row: Row<'_>, squared_norm: f64, out: &mut [f64]) {
        // Every bound grows with the norm; a loose sum is off by less than this.
        let squared_norm = squared_norm * (1.0 + 1e-9);
        let of_kernel = || self.rounding.of_query(&self.packed, squared_norm, self.width(row));
        let size = self.row_size(row, of_kernel);
        for (number, place) in out.iter_mut().enumerate() {
            *place = self.rounding_bound(number, &size);
        }
    }

    /// What the scores of this machine need of a row, and no more.
    fn row_size(&self, row: Row<'_>, of_kernel: impl FnOnce() -> QuerySize) -> RowSize {
        RowSize {
            of_kernel: self.has_expansions.then(of_kernel),
            length: if self.has_weights { row_length(row) } else { 0.0 },
        }
    }

    /// Columns that a sum over the row and a support meets: those of the machine, or more if the row is
    /// non-zero beyond them. The same for dense and sparse rows.
    pub(crate) fn width(&self, row: Row<'_>) -> usize {
        let columns = self.machine.columns();
        match row {
            Row::Dense(values) if values.len() > columns => {
                let beyond = values[columns..].iter().rposition(|value| *value != 0.0);
                beyond.map_or(columns, |last| columns + last + 1)
            }
            Row::Dense(_) => columns,
            Row::Sparse { .. } => std::cmp::max(row.width(), columns),
        }
    }

    /// Working memory for one thread.
    pub fn scratch(&self) -> ExactScratch {
        ExactScratch {
            queries: self.packed.queries(),
            values: Vec::new(),
            partials: Vec::new(),
            binned: Binned::default(),
            scores: Vec::new(),
        }
    }

    /// Queries that fit one block: fewer when many scores would push the partial sums out of cache.
    pub fn block(&self) -> usize {
        let bytes_per_query = 64 * std::cmp::max(self.machine.scores().len(), 1);
        ((1usize << 20) / bytes_per_query).clamp(8, BLOCK)
    }

    /// Multiply-adds of one query: every distinct support at full width.
    pub fn cost(&self) -> Cost {
        let per_row = self.machine.columns() as u64;
        let rows = if self.has_expansions { self.packed.rows() as u64 } else { 1 };
        Cost { multiply_adds: rows * per_row }
    }

    /// All scores of some queries, one query after the other.
    pub fn scores<'a>(
        &self,
        rows: impl ExactSizeIterator<Item = Row<'a>> + Clone,
        scratch: &mut ExactScratch,
        out: &mut [f64],
    ) {
        let count = self.machine.scores().len();
        assert_eq!(out.len(), rows.len() * count, "one place per query and score");
        let ExactScratch { queries, values, partials, binned, .. } = scratch;
        if let Some(tables) = &self.tables {
            return tables.scores(rows, binned, out);
        }
        if let Some(linear) = &self.linear {
            return linear.scores(self.isa, rows, out);
        }
        partials.clear();
        partials.resize(out.len(), [0.0; 8]);
        self.packed.load(self.isa, rows.clone(), queries);
        if self.has_expansions {
            self.packed.visit(self.isa, queries, rows.clone(), values, |tile| {
                for query in tile.queries.clone() {
                    let partials = &mut partials[query * count..(query + 1) * count];
                    self.coefficients.add(self.isa, tile.rows.start, tile.of(query), partials);
                }
            });
        }
        for (place, partial) in out.iter_mut().zip(partials.iter()) {
            *place = mercer_simd::fold8(partial);
        }
        for (number, score) in self.machine.scores().iter().enumerate() {
            match score {
                Score::Expansion { offset, .. } => {
                    for place in out.iter_mut().skip(number).step_by(count) {
                        *place -= offset;
                    }
                }
                Score::Linear { weights, offset } => {
                    for (query, row) in rows.clone().enumerate() {
                        out[query * count + number] = linear_score(self.isa, weights, row) - offset;
                    }
                }
                Score::Additive { .. } => {
                    unreachable!("tables come with a grid, and were answered")
                }
            }
        }
    }

    /// Decisions of some queries, in place of what `out` held; `first` is the position of the first row, for
    /// messages.
    ///
    /// # Errors
    /// If a score overflows.
    pub fn decide<'a>(
        &self,
        rows: impl ExactSizeIterator<Item = Row<'a>> + Clone,
        first: usize,
        scratch: &mut ExactScratch,
        out: &mut Vec<Decision>,
    ) -> Result<(), QueryError> {
        self.decide_at(0.0, rows, first, scratch, out)
    }

    /// The same where a single score is compared with `border`.
    pub(crate) fn decide_at<'a>(
        &self,
        border: f64,
        rows: impl ExactSizeIterator<Item = Row<'a>> + Clone,
        first: usize,
        scratch: &mut ExactScratch,
        out: &mut Vec<Decision>,
    ) -> Result<(), QueryError> {
        let count = self.machine.scores().len();
        let mut scores = std::mem::take(&mut scratch.scores);
        scores.clear();
        scores.resize(rows.len() * count, 0.0);
        self.scores(rows.clone(), scratch, &mut scores);
        let squared_norm = if self.has_expansions { scratch.queries.squared_norms() } else { &[] };
        out.clear();
        for (query, (row, scores)) in rows.zip(scores.chunks_exact(count)).enumerate() {
            if let Some(value) = scores.iter().find(|score| !score.is_finite()) {
                return Err(QueryError::NotFinite { row: first + query + 1, value: *value });
            }
            let squared_norm = squared_norm.get(query).copied().unwrap_or(0.0);
            let mut decision = self.decision(row, squared_norm, scores);
            if let [score] = scores {
                decision.answer = self.machine.output().answer_at(*score, border);
            }
            out.push(decision);
        }
        scratch.scores = scores;
        Ok(())
    }

    fn decision(&self, row: Row<'_>, squared_norm: f64, scores: &[f64]) -> Decision {
        let of_kernel = || self.rounding.exactly(&self.packed, squared_norm, self.width(row));
        let size = self.row_size(row, of_kernel);
        let of_score = |number: usize| self.rounding_bound(number, &size);
        let verdict = self.machine.verdict(scores);
        let rounding_bound = match (self.machine.output(), verdict.answer) {
            (Output::Classes { names, scheme }, Answer::Class(winner)) if scores.len() > 1 => {
                match scheme {
                    Scheme::OneVsOne => {
                        largest(pairs_with(names.len(), winner).map(|(number, _)| of_score(number)))
                    }
                    Scheme::OneVsRest => {
                        let others = (0..scores.len()).filter(|class| *class != winner);
                        // The margin is a rounded difference.
                        let difference = f64::EPSILON * verdict.score.abs();
                        of_score(winner) + largest(others.map(of_score)) + difference
                    }
                }
            }
            _ => of_score(0),
        };
        Decision {
            answer: verdict.answer,
            range: Interval::around(verdict.score, rounding_bound),
            certainty: Certainty::Exact,
            cost: self.cost(),
        }
    }

    fn rounding_bound(&self, number: usize, size: &RowSize) -> f64 {
        match &self.machine.scores()[number] {
            Score::Expansion { .. } => {
                let of_kernel = size.of_kernel.as_ref();
                let of_kernel = of_kernel.expect("computed for machines with expansions");
                self.rounding.expansion(number, of_kernel)
            }
            Score::Linear { .. } => self.rounding.linear(number, size.length),
            Score::Additive { .. } => self.rounding.table(number),
        }
    }
}
