//! All supports in few principal dimensions: approximate kernel values, level by level. An estimate, never a proof;
//! proved projections are in `projected.rs`.

mod bytes;
mod kernel_sums;

use std::ops::Range;

use mercer_kernel::Form;
use mercer_machine::{Answer, Output, Score, Section};
use mercer_simd::{DenseQueries32, Isa, Panels32, fold8};
use mercer_spec::{Checked, Kind, Parameter, Spec};

use super::coordinates::{Basis, KERNEL_COST};
use crate::block::Block;
use crate::entry::StageEntry;
use crate::stage::{Session, Stage, StageSession, StageWithScratch};
use crate::tracker::DecisionTracker;
use crate::verify::RestsOn;
use crate::{Estimate, Exact, LoadError};
use bytes::{ByteScratch, ByteSupports};
use kernel_sums::{KernelScratch, KernelSums, QueryProducts};

/// The entry of the registry.
pub static ENTRY: StageEntry = StageEntry {
    name: "pca",
    summary: "all supports in few dimensions, more from level to level; calibrated, not proved",
    parameters: &[
        Parameter {
            name: "dimensions",
            kind: Kind::Increasing { low: 1, high: 256 },
            default: None,
            help: "dimensions of each level, as in pca(48, 64, 96)",
        },
        Parameter {
            name: "arithmetic",
            kind: Kind::Word(&["f32", "int8"]),
            default: Some("f32"),
            help: "what products are computed in",
        },
    ],
    build: load,
    rests_on: RestsOn::Calibration,
};

/// Supports per tile. Panels hold 48, 64 or 96 of them, by instruction set and arithmetic; tiles are equal everywhere,
/// so that sums have the same order.
const TILE_SUPPORTS: usize = 192;

/// The machine with dot products cut to the leading dimensions; norms stay whole. Each level adds
/// dimensions to the products of the one before.
#[derive(Debug)]
struct Pca {
    isa: Isa,
    spec: Spec,
    basis: Basis,
    levels: Vec<PcaLevel>,
    kernel_sums: KernelSums,
    offsets: Vec<f64>,
    /// Number of supports, padded to whole lanes.
    stride: usize,
    supports: usize,
}

#[derive(Debug)]
struct PcaLevel {
    directions: Range<usize>,
    supports: PcaSupports,
}

/// The supports in the directions of a level.
#[derive(Debug)]
enum PcaSupports {
    F32(Panels32),
    Bytes(ByteSupports),
}

/// Queries of a level, ready to be multiplied.
enum PcaQueries {
    F32(DenseQueries32),
    Bytes(ByteScratch),
}

impl PcaSupports {
    fn panels(&self) -> usize {
        match self {
            Self::F32(panels) => panels.panels(),
            Self::Bytes(supports) => supports.panels(),
        }
    }

    /// Only the last panel may be smaller than the others, so the first says how many make a tile.
    fn panels_per_tile(&self) -> usize {
        if self.panels() < 2 { 1 } else { TILE_SUPPORTS / self.lanes(0..1).len() }
    }

    fn lanes(&self, panels: Range<usize>) -> Range<usize> {
        match self {
            Self::F32(supports) => supports.lanes(panels),
            Self::Bytes(supports) => supports.lanes(panels),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::F32(panels) => panels.bytes(),
            Self::Bytes(supports) => supports.bytes(),
        }
    }

    fn queries(&self, directions: usize) -> PcaQueries {
        match self {
            Self::F32(_) => PcaQueries::F32(DenseQueries32::new(directions)),
            Self::Bytes(supports) => PcaQueries::Bytes(supports.work()),
        }
    }

    /// Takes the coordinates of queries, one after the other.
    fn load(&self, queries: &mut PcaQueries, coordinates: &[f32], directions: usize) {
        match (self, queries) {
            (Self::Bytes(supports), PcaQueries::Bytes(work)) => supports.load(work, coordinates),
            (_, PcaQueries::F32(dense)) => {
                dense.clear();
                dense.push_rows(coordinates, coordinates.len() / directions, directions);
            }
            (Self::F32(_), PcaQueries::Bytes(_)) => unreachable!("made by these supports"),
        }
    }

    fn dots(
        &self,
        isa: Isa,
        queries: &mut PcaQueries,
        range: Range<usize>,
        out: &mut [f32],
        width: usize,
    ) {
        match (self, queries) {
            (Self::F32(panels), PcaQueries::F32(dense)) => {
                panels.dots_dense(isa, dense, range, out, width);
            }
            (Self::Bytes(supports), PcaQueries::Bytes(work)) => {
                supports.dots(work, range, out, width);
            }
            _ => unreachable!("made by these supports"),
        }
    }
}

/// Working memory of one thread.
struct PcaScratch {
    /// One for each level.
    queries: Vec<PcaQueries>,
    coordinates: Vec<f32>,
    products: Vec<f32>,
    /// Products so far of each loaded query, where there is more than one level.
    sums: Vec<f32>,
    work: KernelScratch,
    partials: Vec<[f64; 8]>,
    scores: Vec<f64>,
    loaded: Vec<u32>,
}

/// Arrays: `basis` (directions in live columns), `levels` (dimensions at each level, increasing).
fn load(
    section: &Section,
    arguments: &Checked<'_>,
    exact: &Exact,
) -> Result<Box<dyn Stage>, LoadError> {
    let refuse = |reason: &str| LoadError::unfit("pca", reason);
    let spec = arguments.text().clone();
    let machine = exact.machine();
    if matches!(machine.output(), Output::Value) {
        return Err(refuse("values of a regression are not estimated"));
    }
    if !machine.scores().iter().all(|score| matches!(score, Score::Expansion { .. })) {
        return Err(refuse("a linear score is one product already"));
    }
    if !matches!(machine.kernel().form(), Form::Dot(_) | Form::Shift(_)) {
        let kernel = machine.kernel().spec();
        return Err(refuse(&format!("{kernel} is not a function of a dot product")));
    }
    let basis = Basis::load(section, exact).map_err(refuse)?;
    let levels = section.u32s("levels").ok_or_else(|| refuse("its levels are missing"))?;
    let is_increasing = levels.windows(2).all(|pair| pair[0] < pair[1]);
    let ends = (levels.first(), levels.last());
    if !is_increasing || !matches!(ends, (Some(1..), Some(last)) if *last as usize == basis.rows())
    {
        return Err(refuse("its levels do not fit its basis"));
    }
    let has_bytes = arguments.word("arithmetic") == "int8";
    let isa = exact.isa();
    let rotated = basis.rotate(isa, exact.machine().supports());
    let supports = machine.supports().rows();
    let mut begin = 0;
    let levels = levels.iter().map(|end| {
        let directions = begin..*end as usize;
        begin = directions.end;
        let fill = |row: usize, out: &mut [f32]| {
            let row = &rotated[row * basis.rows()..(row + 1) * basis.rows()];
            out.copy_from_slice(&row[directions.clone()]);
        };
        let supports = if has_bytes {
            PcaSupports::Bytes(ByteSupports::new(isa, supports, directions.len(), fill))
        } else {
            PcaSupports::F32(Panels32::pack(supports, directions.len(), fill))
        };
        PcaLevel { directions, supports }
    });
    let levels = levels.collect();
    let kernel_sums = KernelSums::new(exact);
    let offsets = machine.scores().iter().map(Score::offset).collect();
    let stride = supports.next_multiple_of(mercer_simd::LANES32);
    Ok(Box::new(Pca { isa, spec, basis, levels, kernel_sums, offsets, stride, supports }))
}

impl Pca {
    /// Adds the products in the new directions of all loaded queries, and sums up the scores.
    fn advance(&self, number: usize, block: &Block<'_>, scratch: &mut PcaScratch) {
        let PcaLevel { supports, .. } = &self.levels[number];
        let PcaScratch { queries, products, sums, work, partials, loaded, .. } = scratch;
        let (exact, scores) = (block.exact(), self.offsets.len());
        partials.clear();
        partials.resize(loaded.len() * scores, [0.0; 8]);
        let panels = supports.panels_per_tile();
        for first in (0..supports.panels()).step_by(panels) {
            let range = first..(first + panels).min(supports.panels());
            let lanes = supports.lanes(range.clone());
            let width = lanes.len();
            products.resize(loaded.len() * width, 0.0);
            supports.dots(self.isa, &mut queries[number], range, products, width);
            let rows = lanes.start..lanes.end.min(self.supports);
            for (position, query) in loaded.iter().enumerate() {
                let new = &mut products[position * width..][..rows.len()];
                if self.levels.len() > 1 {
                    let sums = &mut sums[position * self.stride..][rows.clone()];
                    // At the first level there are none yet; after the last they are not needed.
                    if number > 0 {
                        new.iter_mut().zip(&*sums).for_each(|(new, sum)| *new += sum);
                    }
                    if number + 1 < self.levels.len() {
                        sums.copy_from_slice(new);
                    }
                }
                let partials = &mut partials[position * scores..(position + 1) * scores];
                let squared_norm = block.squared_norm(*query);
                let products = QueryProducts { rows: rows.clone(), products: new, squared_norm };
                self.kernel_sums.add(exact, products, work, partials);
            }
        }
    }

    /// What the scores of one query say.
    fn estimate(&self, partials: &[[f64; 8]], scores: &mut Vec<f64>, exact: &Exact) -> Estimate {
        scores.clear();
        let sums = partials.iter().zip(&self.offsets);
        scores.extend(sums.map(|(partial, offset)| fold8(partial) - offset));
        if let [score] = scores.as_slice() {
            return Estimate::Score(*score);
        }
        let verdict = exact.machine().verdict(scores);
        let is_finite = scores.iter().all(|score| score.is_finite());
        match verdict.answer {
            Answer::Class(class) if is_finite => Estimate::Class { class, margin: verdict.score },
            _ => Estimate::Class { class: 0, margin: f64::NAN },
        }
    }

    /// Moves the sums of open queries together; returns whether one is left.
    fn compact(&self, tracker: &DecisionTracker<'_>, scratch: &mut PcaScratch) -> bool {
        let PcaScratch { sums, loaded, .. } = scratch;
        let mut kept = 0;
        for position in 0..loaded.len() {
            if tracker.is_open(loaded[position]) {
                if kept < position {
                    let from = position * self.stride;
                    if !sums.is_empty() {
                        sums.copy_within(from..from + self.stride, kept * self.stride);
                    }
                    loaded[kept] = loaded[position];
                }
                kept += 1;
            }
        }
        loaded.truncate(kept);
        kept > 0
    }
}

impl Stage for Pca {
    fn spec(&self) -> Spec {
        self.spec.clone()
    }

    fn levels(&self) -> usize {
        self.levels.len()
    }

    fn shares_coordinates(&self) -> bool {
        true
    }

    fn bytes(&self) -> usize {
        let supports = self.levels.iter().map(|level| level.supports.bytes());
        self.basis.bytes() + supports.sum::<usize>()
    }

    fn session(&self) -> Box<dyn StageSession + '_> {
        Session::start(self)
    }
}

impl StageWithScratch for Pca {
    type Scratch = PcaScratch;

    fn scratch(&self) -> Self::Scratch {
        let queries = |level: &PcaLevel| level.supports.queries(level.directions.len());
        PcaScratch {
            queries: self.levels.iter().map(queries).collect(),
            coordinates: Vec::new(),
            products: Vec::new(),
            sums: Vec::new(),
            work: KernelScratch::default(),
            partials: Vec::new(),
            scores: Vec::new(),
            loaded: Vec::new(),
        }
    }

    fn run(
        &self,
        block: &mut Block<'_>,
        tracker: &mut DecisionTracker<'_>,
        scratch: &mut Self::Scratch,
    ) {
        scratch.loaded.clear();
        scratch.loaded.extend_from_slice(block.open());
        let count = if self.levels.len() > 1 { scratch.loaded.len() * self.stride } else { 0 };
        scratch.sums.resize(count, 0.0);
        for (number, level) in self.levels.iter().enumerate() {
            let products = self.supports as u64 * (level.directions.len() as u64 + KERNEL_COST);
            let directions = level.directions.clone();
            if !self.basis.charge_and_project(self.isa, directions, products, block, tracker)
                || !self.compact(tracker, scratch)
            {
                return;
            }
            let PcaScratch { queries, coordinates, loaded, .. } = scratch;
            coordinates.clear();
            for query in loaded.iter() {
                let computed = block.coordinates();
                self.basis.read(computed, *query, level.directions.clone(), coordinates);
            }
            level.supports.load(&mut queries[number], coordinates, level.directions.len());
            self.advance(number, block, scratch);
            let scores = self.offsets.len();
            let PcaScratch { partials, loaded, scores: values, .. } = scratch;
            for (query, partials) in loaded.iter().zip(partials.chunks_exact(scores)) {
                let estimate = self.estimate(partials, values, block.exact());
                tracker.estimate(*query, number, estimate);
            }
            block.compact(tracker);
            if !self.compact(tracker, scratch) {
                return;
            }
        }
    }
}
