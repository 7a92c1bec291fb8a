//! Coordinates of queries in a basis of few directions; stages with the same basis share them. Bounds for projected
//! queries are in `certify/projection.rs`.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use mercer_data::{Matrix, Row};
use mercer_machine::{MachineError, Section};
use mercer_simd::{ColumnIndex, Isa, LANES32, NO_ROW, Strip, Weight, compact};

use crate::block::Block;
use crate::c::{CFile, StageSite};
use crate::tracker::DecisionTracker;
use crate::{Estimate, Exact};

/// Directions computed at once: those that fit a cache line of f32 values.
pub(crate) const CHUNK: usize = LANES32;

/// Coordinates of the open queries of a block, as far as stages have computed them.
#[derive(Debug, Default)]
pub(crate) struct Coordinates {
    /// Only the first `used` are of this block; the others are kept for their memory.
    chunks: Vec<ComputedChunk>,
    used: usize,
    /// Non-zero entries of the dense queries that a stage has projected.
    weights: Vec<Weight>,
    /// Where those of each query begin and end.
    places: Vec<Option<[usize; 2]>>,
    row: Vec<f64>,
}

#[derive(Debug, Default)]
struct ComputedChunk {
    id: u64,
    /// How many of its directions were charged.
    charged: usize,
    /// One for each query of the block; those answered by then are stale.
    values: Vec<[f32; CHUNK]>,
}

impl Coordinates {
    /// Forgets everything: a new block begins.
    pub(crate) fn clear(&mut self) {
        self.used = 0;
        self.weights.clear();
        self.places.clear();
    }

    fn find(&self, id: u64) -> Option<usize> {
        self.chunks[..self.used].iter().position(|chunk| chunk.id == id)
    }

    /// A chunk of the directions of a basis, to be filled.
    fn add(&mut self, id: u64, queries: usize) -> usize {
        if self.used == self.chunks.len() {
            self.chunks.push(ComputedChunk::default());
        }
        let chunk = &mut self.chunks[self.used];
        self.used += 1;
        chunk.id = id;
        chunk.values.resize(queries, [0.0; CHUNK]);
        self.used - 1
    }

    /// Coordinates of a query in one chunk.
    fn project(
        &mut self,
        isa: Isa,
        basis: &Basis,
        strip: &Strip,
        query: usize,
        row: Row<'_>,
    ) -> [f32; CHUNK] {
        let mut out = [0.0; CHUNK];
        if let (Row::Sparse { columns, values }, false) = (row, basis.live.is_shifted) {
            strip.sum_sparse(isa, &basis.places, columns, values, &mut out);
            return out;
        }
        if self.places.len() <= query {
            self.places.resize(query + 1, None);
        }
        let [start, end] = *self.places[query].get_or_insert_with(|| {
            let start = self.weights.len();
            basis.entries(isa, row, &mut self.row, &mut self.weights);
            [start, self.weights.len()]
        });
        strip.sum(isa, &self.weights[start..end], &mut out);
        out
    }
}

/// Queries in the live columns of a machine, centred as it is.
#[derive(Debug)]
pub(super) struct LiveColumns {
    /// Column to live column, or [`NO_ROW`].
    slots: Vec<u32>,
    /// What a row of zeros becomes.
    zero: Vec<f64>,
    is_shifted: bool,
}

impl LiveColumns {
    pub(super) fn new(exact: &Exact) -> Self {
        let (machine, live) = (exact.machine(), exact.packed().live());
        let mut slots = vec![NO_ROW; machine.columns()];
        for (slot, column) in (0u32..).zip(live) {
            slots[*column as usize] = slot;
        }
        let centre = machine.centre().unwrap_or(&[]);
        let shift = |column: &u32| -centre.get(*column as usize).copied().unwrap_or(0.0);
        let zero: Vec<f64> = live.iter().map(shift).collect();
        let is_shifted = zero.iter().any(|shift| *shift != 0.0);
        Self { slots, zero, is_shifted }
    }

    /// Number of live columns.
    pub(super) fn len(&self) -> usize {
        self.zero.len()
    }

    /// The entries of a row in live columns, as positions among them; for machines that are not centred.
    pub(super) fn nonzeros<'a>(&'a self, row: Row<'a>) -> impl Iterator<Item = (usize, f64)> + 'a {
        let slot = |column: u32| self.slots.get(column as usize).copied().unwrap_or(NO_ROW);
        row.nonzeros()
            .map(move |(column, value)| (slot(column), value))
            .filter(|(slot, _)| *slot != NO_ROW)
            .map(|(slot, value)| (slot as usize, value))
    }

    /// A row in the live columns.
    pub(super) fn write(&self, row: Row<'_>, out: &mut [f64]) {
        out.copy_from_slice(&self.zero);
        for (column, value) in row.nonzeros() {
            let slot = self.slots.get(column as usize).copied().unwrap_or(NO_ROW);
            if let Some(place) = out.get_mut(slot as usize) {
                *place += value;
            }
        }
    }
}

/// Directions, row after row, packed in chunks.
#[derive(Debug)]
pub(super) struct Basis {
    chunks: Vec<DirectionChunk>,
    rows: usize,
    live: LiveColumns,
    places: ColumnIndex,
    /// What one direction costs.
    columns: u64,
}

#[derive(Debug)]
struct DirectionChunk {
    id: u64,
    rows: usize,
    /// `CHUNK` directions for each live column.
    strip: Strip,
}

/// What one kernel value costs beside its products, in multiply-adds.
pub(super) const KERNEL_COST: u64 = 6;

impl Basis {
    pub(super) fn bytes(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.strip.bytes()).sum()
    }

    /// The array `basis` of a section: directions in the live columns of the machine, row after row.
    pub(super) fn directions<'a>(
        section: &'a Section,
        exact: &Exact,
    ) -> Result<&'a [f32], &'static str> {
        let Some(mercer_machine::Array::F32(values)) = section.array("basis") else {
            return Err("its basis is missing");
        };
        let live = exact.packed().live_columns();
        if live == 0 || values.is_empty() || !values.len().is_multiple_of(live) {
            return Err("its basis does not fit the machine");
        }
        if values.iter().any(|value| !value.is_finite()) {
            return Err("its basis holds values that are not finite");
        }
        Ok(values)
    }

    /// All directions of a section.
    pub(super) fn load(section: &Section, exact: &Exact) -> Result<Self, &'static str> {
        Ok(Self::new(Self::directions(section, exact)?, exact))
    }

    /// Directions in the live columns of the machine, row after row.
    pub(super) fn new(values: &[f32], exact: &Exact) -> Self {
        let live = exact.packed().live_columns();
        let places = ColumnIndex::new(exact.machine().columns(), exact.packed().live());
        let chunks = values.chunks(CHUNK * live).map(|values| {
            let mut hash = DefaultHasher::new();
            values.iter().for_each(|value| value.to_bits().hash(&mut hash));
            let strip = Strip::new(&places, |column, lanes| {
                for (place, direction) in lanes.iter_mut().zip(values.chunks_exact(live)) {
                    *place = direction[column];
                }
            });
            DirectionChunk { id: hash.finish(), rows: values.len() / live, strip }
        });
        let (chunks, rows) = (chunks.collect(), values.len() / live);
        let columns = exact.machine().columns() as u64;
        Self { chunks, rows, live: LiveColumns::new(exact), places, columns }
    }

    /// Number of directions.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Chunks that hold some directions.
    fn chunks(directions: Range<usize>) -> Range<usize> {
        directions.start / CHUNK..directions.end.div_ceil(CHUNK)
    }

    /// Multiply-adds per query of the first `directions` that were not charged yet. Those that share their
    /// registers are computed with them, and charged to the stage that uses them.
    fn cost(&self, block: &mut Block<'_>, directions: Range<usize>) -> u64 {
        let coordinates = block.coordinates();
        let chunks = self.chunks[Self::chunks(directions.clone())].iter();
        let missing = chunks.zip(directions.start / CHUNK..).map(|(chunk, number)| {
            let computed = coordinates.find(chunk.id);
            let charged = computed.map_or(0, |at| coordinates.chunks[at].charged);
            chunk.rows.min(directions.end - number * CHUNK).saturating_sub(charged) as u64
        });
        missing.sum::<u64>() * self.columns
    }

    /// As [`Basis::cost`] and then charged, for a query alone: `charged` holds the directions of each chunk that stages before
    /// have charged.
    pub(super) fn charge_once(
        &self,
        directions: Range<usize>,
        charged: &mut HashMap<u64, usize>,
    ) -> u64 {
        let chunks = self.chunks[Self::chunks(directions.clone())].iter();
        let wanted =
            |chunk: &DirectionChunk, number: usize| chunk.rows.min(directions.end - number * CHUNK);
        let numbered = || chunks.clone().zip(directions.start / CHUNK..);
        let missing = numbered().map(|(chunk, number)| {
            let before = charged.get(&chunk.id).copied().unwrap_or(0);
            wanted(chunk, number).saturating_sub(before) as u64
        });
        let cost = missing.sum::<u64>() * self.columns;
        for (chunk, number) in numbered() {
            let most = charged.entry(chunk.id).or_insert(0);
            *most = wanted(chunk, number).max(*most);
        }
        cost
    }

    /// Writes the directions in C, `CHUNK` numbers for each live column, and `PROJECT_N(q, strip, out)`, which computes the
    /// coordinates of one chunk.
    pub(super) fn write(
        &self,
        site: &StageSite<'_>,
        file: &mut CFile<'_>,
    ) -> Result<(), MachineError> {
        file.piece(include_str!("../c/text/project.c"))?;
        let strips = self.chunks.iter().flat_map(|chunk| chunk.strip.rows().iter().copied());
        file.f32s(&site.name("strips"), strips)?;
        let name = site.name("PROJECT");
        if self.live.is_shifted {
            return file.text(&format!(
                "#define {name}(q, strip, out) project_centred(q, strip, out)\n\n"
            ));
        }
        let places = site.name("places");
        file.integers("unsigned", &places, self.places.of_columns())?;
        file.text(&format!(
            "#define {name}(q, strip, out) project_row(q, {places}, strip, out)\n\n"
        ))
    }

    /// Charges the open queries for some directions and for `other_cost`, and computes the directions for those that
    /// stay open; returns whether any does.
    pub(super) fn charge_and_project(
        &self,
        isa: Isa,
        directions: Range<usize>,
        other_cost: u64,
        block: &mut Block<'_>,
        tracker: &mut DecisionTracker<'_>,
    ) -> bool {
        let cost = self.cost(block, directions.clone()) + other_cost;
        let mut has_answered = false;
        for query in block.open() {
            has_answered |= !tracker.charge(*query, cost);
        }
        if has_answered {
            block.compact(tracker);
        }
        if block.open().is_empty() {
            return false;
        }
        self.project(isa, block, directions);
        true
    }

    /// Computes the directions that are not computed yet, for all open queries.
    fn project(&self, isa: Isa, block: &mut Block<'_>, directions: Range<usize>) {
        let queries = block.len();
        let rows = block.rows();
        let (open, coordinates) = block.open_with_coordinates();
        let chunks = self.chunks[Self::chunks(directions.clone())].iter();
        for (chunk, number) in chunks.zip(directions.start / CHUNK..) {
            let charged = chunk.rows.min(directions.end - number * CHUNK);
            if let Some(at) = coordinates.find(chunk.id) {
                let charged_before = &mut coordinates.chunks[at].charged;
                *charged_before = charged.max(*charged_before);
                continue;
            }
            let at = coordinates.add(chunk.id, queries);
            coordinates.chunks[at].charged = charged;
            for query in open {
                let place = *query as usize;
                let values = coordinates.project(isa, self, &chunk.strip, place, rows.row(*query));
                coordinates.chunks[at].values[place] = values;
            }
        }
    }

    /// The entries of a row that is dense or shifted, rounded to f32; dense and sparse rows give the same.
    fn entries(&self, isa: Isa, row: Row<'_>, buffer: &mut Vec<f64>, out: &mut Vec<Weight>) {
        match row {
            _ if self.live.is_shifted => {
                buffer.resize(self.live.len(), 0.0);
                self.live.write(row, buffer);
                out.extend((0u32..).zip(&*buffer).map(|(row, x)| Weight { row, value: *x as f32 }));
            }
            Row::Dense(values) => compact(isa, values, self.places.of_columns(), out),
            Row::Sparse { columns, values } => {
                let entries = columns.iter().zip(values);
                let weights = entries.map_while(|(column, x)| {
                    let row = *self.places.of_columns().get(*column as usize)?;
                    Some(Weight { row, value: *x as f32 })
                });
                out.extend(weights);
            }
        }
    }

    /// Some coordinates of a query that were computed before, appended to `out`.
    pub(super) fn read(
        &self,
        coordinates: &Coordinates,
        query: u32,
        directions: Range<usize>,
        out: &mut Vec<f32>,
    ) {
        let mut at = directions.start;
        while at < directions.end {
            let chunk = &self.chunks[at / CHUNK];
            let end = directions.end.min((at / CHUNK + 1) * CHUNK);
            let computed = coordinates.find(chunk.id).expect("projected before it is read");
            let values = &coordinates.chunks[computed].values;
            out.extend_from_slice(&values[query as usize][at % CHUNK..][..end - at]);
            at = end;
        }
    }

    /// Coordinates of supports or other vectors, `rows()` for each.
    pub(super) fn rotate(&self, isa: Isa, vectors: &Matrix) -> Vec<f32> {
        let mut out = vec![0.0; vectors.rows() * self.rows];
        let (mut weights, mut buffer, mut values) = (Vec::new(), Vec::new(), [0.0; CHUNK]);
        for (row, out) in vectors.iter().zip(out.chunks_exact_mut(self.rows)) {
            weights.clear();
            self.entries(isa, row, &mut buffer, &mut weights);
            for (chunk, out) in self.chunks.iter().zip(out.chunks_mut(CHUNK)) {
                chunk.strip.sum(isa, &weights, &mut values);
                out.copy_from_slice(&values[..out.len()]);
            }
        }
        out
    }
}

/// What outputs say: the score if there is one, else the largest and its lead over the second. If one is
/// not finite, neither is what comes out.
pub(super) fn estimate_of(outputs: &[f64]) -> Estimate {
    if let [score] = outputs {
        return Estimate::Score(*score);
    }
    let (mut class, mut best, mut second) = (0, f64::NEG_INFINITY, f64::NEG_INFINITY);
    let mut sum = 0.0;
    for (number, value) in outputs.iter().enumerate() {
        sum += value;
        if *value > best {
            (class, second, best) = (number, best, *value);
        } else {
            second = second.max(*value);
        }
    }
    let margin = if f64::is_finite(sum) { best - second } else { f64::NAN };
    Estimate::Class { class, margin }
}

/// How many outputs a student of a machine has: one, or one for each class.
pub(super) fn outputs(exact: &Exact) -> usize {
    let machine = exact.machine();
    if machine.scores().len() == 1 { 1 } else { machine.classes().len() }
}
