//! Coordinates of queries in a basis of few directions; stages with the same basis share them.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use mercer_kernel::block::{SingleQueries, Singles};
use mercer_machine::Section;
use mercer_simd::{Isa, LANES32};

use crate::stage::Block;
use crate::{Exact, Guess};

/// Directions computed at once: those that fit a cache line of singles.
pub(super) const CHUNK: usize = LANES32;

/// Coordinates of the open queries of a block, as far as stages have computed them.
#[derive(Debug, Default)]
pub(crate) struct Coordinates {
    /// Only the first `used` are of this block; the others are kept for their memory.
    chunks: Vec<Known>,
    used: usize,
}

#[derive(Debug, Default)]
struct Known {
    id: u64,
    /// `CHUNK` for each query of the block; those closed by then are stale.
    values: Vec<f32>,
}

impl Coordinates {
    /// Forgets everything: a new block begins.
    pub(crate) fn clear(&mut self) {
        self.used = 0;
    }

    fn find(&self, id: u64) -> Option<&Known> {
        self.chunks[..self.used].iter().find(|known| known.id == id)
    }

    fn add(&mut self, id: u64, queries: usize) -> &mut [f32] {
        if self.used == self.chunks.len() {
            self.chunks.push(Known::default());
        }
        let known = &mut self.chunks[self.used];
        self.used += 1;
        known.id = id;
        known.values.resize(queries * CHUNK, 0.0);
        &mut known.values
    }
}

/// Directions, row after row, packed in chunks.
#[derive(Debug)]
pub(super) struct Basis {
    chunks: Vec<Chunk>,
    rows: usize,
    /// What one direction costs.
    columns: u64,
}

#[derive(Debug)]
struct Chunk {
    id: u64,
    rows: usize,
    directions: Singles,
}

/// Working memory of one thread.
#[derive(Debug)]
pub(super) struct Projection {
    queries: SingleQueries,
    products: Vec<f32>,
}

impl Basis {
    pub(super) fn bytes(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.directions.bytes()).sum()
    }

    /// The array `basis` of a section: directions in the live columns of the machine.
    pub(super) fn load(section: &Section, exact: &Exact) -> Result<Self, &'static str> {
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
        let chunks = values.chunks(CHUNK * live).map(|values| {
            let mut hash = DefaultHasher::new();
            values.iter().for_each(|value| value.to_bits().hash(&mut hash));
            let rows = values.len() / live;
            let directions = Singles::of_rows(exact.packed(), rows, |row, out| {
                out.copy_from_slice(&values[row * live..(row + 1) * live]);
            })
            .ok_or("its basis needs more than 4 GiB")?;
            Ok(Chunk { id: hash.finish(), rows, directions })
        });
        let chunks = chunks.collect::<Result<Vec<_>, &'static str>>()?;
        let columns = exact.machine().columns() as u64;
        Ok(Self { chunks, rows: values.len() / live, columns })
    }

    /// Number of directions.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    pub(super) fn scratch(&self) -> Projection {
        Projection { queries: self.chunks[0].directions.queries(), products: Vec::new() }
    }

    /// Chunks that hold some directions.
    pub(super) fn chunks(directions: Range<usize>) -> Range<usize> {
        directions.start / CHUNK..directions.end.div_ceil(CHUNK)
    }

    /// Multiply-adds per query of the chunks that are not known yet.
    pub(super) fn cost(&self, block: &mut Block<'_>, chunks: Range<usize>) -> u64 {
        let known = block.coordinates();
        let missing = self.chunks[chunks].iter().filter(|chunk| known.find(chunk.id).is_none());
        missing.map(|chunk| chunk.rows as u64).sum::<u64>() * self.columns
    }

    /// Computes the chunks that are not known yet, for all open queries.
    pub(super) fn project(
        &self,
        isa: Isa,
        block: &mut Block<'_>,
        chunks: Range<usize>,
        scratch: &mut Projection,
    ) {
        let mut is_loaded = false;
        for chunk in &self.chunks[chunks] {
            if block.coordinates().find(chunk.id).is_some() {
                continue;
            }
            let Projection { queries, products } = scratch;
            if !is_loaded {
                let rows = block.open().iter().map(|query| block.row(*query));
                chunk.directions.load(rows, queries);
                is_loaded = true;
            }
            let all = block.len();
            let (open, coordinates) = block.open_with_coordinates();
            let values = coordinates.add(chunk.id, all);
            chunk.directions.visit(isa, queries, products, |mut tile| {
                for position in tile.queries.clone() {
                    let start = open[position] as usize * CHUNK;
                    values[start..start + chunk.rows].copy_from_slice(tile.of(position));
                }
            });
        }
    }

    /// Some coordinates of a query that were computed before, appended to `out`.
    pub(super) fn read(
        &self,
        known: &Coordinates,
        query: u32,
        directions: Range<usize>,
        out: &mut Vec<f32>,
    ) {
        let mut at = directions.start;
        while at < directions.end {
            let chunk = &self.chunks[at / CHUNK];
            let end = directions.end.min((at / CHUNK + 1) * CHUNK);
            let values = &known.find(chunk.id).expect("projected before it is read").values;
            let start = query as usize * CHUNK + at % CHUNK;
            out.extend_from_slice(&values[start..start + (end - at)]);
            at = end;
        }
    }

    /// Coordinates of rows of the machine, `rows()` for each.
    pub(super) fn rotate(&self, isa: Isa, exact: &Exact) -> Vec<f32> {
        let supports = exact.machine().supports();
        let mut out = vec![0.0; supports.rows() * self.rows];
        let Projection { mut queries, mut products } = self.scratch();
        for first in (0..supports.rows()).step_by(256) {
            let rows = first..(first + 256).min(supports.rows());
            let rows = rows.map(|row| supports.row(row));
            self.chunks[0].directions.load(rows, &mut queries);
            for (number, chunk) in self.chunks.iter().enumerate() {
                chunk.directions.visit(isa, &queries, &mut products, |mut tile| {
                    for position in tile.queries.clone() {
                        let start = (first + position) * self.rows + number * CHUNK;
                        out[start..start + chunk.rows].copy_from_slice(tile.of(position));
                    }
                });
            }
        }
        out
    }
}

/// What outputs say: the score if there is one, else the largest and its lead over the second. If one is
/// not finite, neither is what comes out.
pub(super) fn guess(outputs: &[f64]) -> Guess {
    if let [score] = outputs {
        return Guess::Score(*score);
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
    Guess::Class { class, margin }
}

/// How many outputs a student of a machine has: one, or one for each class.
pub(super) fn outputs(exact: &Exact) -> usize {
    let machine = exact.machine();
    if machine.scores().len() == 1 { 1 } else { machine.classes().len() }
}
