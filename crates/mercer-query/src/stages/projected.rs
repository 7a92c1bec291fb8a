//! Supports and queries projected onto few directions, the rest bounded by a spectral tail. What is proved, and why,
//! is in `certify/tail.rs`; the directions are chosen in `mercer_compile`.

use mercer_kernel::block::{PackedF32, QueriesF32};
use mercer_kernel::bound::{LEAST, largest};
use mercer_kernel::{Form, Profile};
use mercer_machine::{Score, Section};
use mercer_simd::{DenseQueries32, Isa, Panels32, fold8};
use mercer_spec::{Checked, Kind, Parameter, Spec, Value};

use crate::block::Block;
use crate::certify::single_precision::power_norm;
use crate::certify::tail::{Tail, TailQuery, TailSums, TailWeights};
use crate::entry::StageEntry;
use crate::stage::{Session, Stage, StageSession, StageWithScratch};
use crate::tracker::DecisionTracker;
use crate::verify::{RestsOn, projected};
use crate::{Exact, LoadError};

mod arrays;

use arrays::{ProjectedArrays, ProjectedShape};

/// The entry of the registry.
pub static ENTRY: StageEntry = StageEntry {
    name: "projected",
    summary: "rbf and dot-product kernels along their main directions, the rest bounded by a spectral tail after a first-order correction",
    parameters: &[
        Parameter {
            name: "dimensions",
            kind: Kind::IntegerOr { low: 1, high: MOST, word: "auto" },
            default: Some("auto"),
            help: "directions that supports are projected onto; auto tries several on a sample",
        },
        Parameter {
            name: "look_ahead",
            kind: Kind::IntegerOr { low: 0, high: MOST, word: "auto" },
            default: Some("auto"),
            help: "directions along which the rest is measured",
        },
        Parameter {
            name: "directions",
            kind: Kind::IntegerOr { low: 0, high: MOST, word: "auto" },
            default: Some("auto"),
            help: "directions of the first-order correction",
        },
    ],
    build: load,
    rests_on: RestsOn::Constants { work: projected::work, verify: projected::verify },
};

/// Larger numbers of directions are no sensible request.
const MOST: i64 = 1_000_000_000;

/// Panels per tile: 2 x 96 supports, whose factors stay in the first caches while all queries pass.
const TILE_PANELS: usize = 2;
const TILE: usize = TILE_PANELS * Panels32::WIDTH;
/// Queries at once: their sums, one for each score and direction, stay in cache.
const SUMS: usize = 1 << 16;
/// `Σ β κ`, `Σ |β| κ` come before the directions; `|c/w|²` and the two extremes after them.
const BEFORE: usize = 2;
const AFTER: usize = 3;

/// The expansion along a few directions; see [`crate::certify::tail`] for what is proved.
#[derive(Debug)]
struct Projected {
    isa: Isa,
    shape: ProjectedShape,
    bound: Tail,
    weights: Vec<TailWeights>,
    /// The directions over the columns, then the corrections.
    directions: PackedF32,
    /// The supports along the head.
    supports: Panels32,
    squares: Vec<f32>,
    /// Tile by tile, the scores with coefficients there.
    tiles: Vec<Vec<TileFactors>>,
    cost: u64,
}

/// Factors of one score for the supports of a tile, each row one for each support.
#[derive(Debug)]
struct TileFactors {
    score: usize,
    /// `β`, `|β|`, then those of `a_k`.
    rows: Vec<Vec<f64>>,
    squares: Vec<f64>,
    peaks: Vec<f64>,
    /// The largest factor of the first order.
    steepest: f64,
}

/// Working memory of one thread.
struct ProjectedScratch {
    queries: QueriesF32,
    coordinates: Vec<f32>,
    products: Vec<f32>,
    head: DenseQueries32,
    values: Vec<f64>,
    slopes: Vec<f64>,
    curves: Vec<f64>,
    sums: Vec<f64>,
    runs: Vec<u32>,
    bounded: Vec<BoundedQuery>,
}

/// An open query whose bounds are finite.
struct BoundedQuery {
    query: u32,
    /// Its row among the coordinates.
    position: u32,
    bounds: TailQuery,
}

/// Kernel values of a query with the supports of a tile, and the factors of their first and second derivatives. For
/// Gaussians all three are the values.
#[derive(Clone, Copy)]
struct TileValues<'a> {
    values: &'a [f64],
    slopes: &'a [f64],
    curves: &'a [f64],
}

/// What the kernel is as a function of the product.
fn profile(exact: &Exact) -> Profile {
    match exact.machine().kernel().form() {
        Form::Dot(finish) | Form::Shift(finish) => finish.profile(),
        _ => Profile::Other,
    }
}

/// Scale, shift and degree of a power.
fn power(profile: Profile) -> (f64, f64, u32) {
    match profile {
        Profile::Power { scale, shift, degree }
        | Profile::NormalizedPower { scale, shift, degree } => (scale, shift, degree),
        _ => (1.0, 0.0, 1),
    }
}

/// Factors of the derivatives: `κ' = slope K` or `slope t^(p-1)`, and `sup κ'' / 2` likewise with `curve`.
#[derive(Debug, Clone, Copy)]
struct Derivatives {
    slope: f64,
    curve: f64,
}

fn derivatives(profile: Profile) -> Derivatives {
    if let Profile::Gaussian { gamma } = profile {
        return Derivatives { slope: 2.0 * gamma, curve: 2.0 * gamma * gamma };
    }
    let (scale, _, degree) = power(profile);
    let p = f64::from(degree);
    Derivatives { slope: p * scale, curve: 0.5 * p * (p - 1.0) * scale * scale }
}

fn load(
    section: &Section,
    arguments: &Checked<'_>,
    exact: &Exact,
) -> Result<Box<dyn Stage>, LoadError> {
    let refuse = |reason: &str| LoadError::unfit("projected", reason);
    let (machine, packed, profile) = (exact.machine(), exact.packed(), profile(exact));
    if !machine.scores().iter().all(|score| matches!(score, Score::Expansion { .. })) {
        return Err(refuse("a linear score or a table is one product already"));
    }
    if matches!(profile, Profile::Other | Profile::Sigmoid { .. }) {
        let kernel = machine.kernel().spec();
        return Err(refuse(&format!("{kernel} is not a function of a product with known slopes")));
    }
    let shape =
        ProjectedShape::new(arguments, packed.live_columns(), packed.rows()).map_err(refuse)?;
    let arrays = ProjectedArrays::new(section, &shape).map_err(refuse)?;
    let norms = support_norms(profile, exact)
        .ok_or_else(|| refuse("a support is too short or too long to be normalised"))?;
    let bound = arrays.bound(&shape, profile, exact).map_err(refuse)?;
    let tiles = shape.supports.div_ceil(TILE);
    let factors = arrays.factors(&shape, exact, &norms, derivatives(profile), tiles);
    let weights = weights(exact, &norms, &factors, bound.columns);
    let directions = PackedF32::of_rows(packed, shape.ahead + shape.corrections, |row, out| {
        let (from, row) = if row < shape.ahead {
            (arrays.vectors, row)
        } else {
            (arrays.corrections, row - shape.ahead)
        };
        out.copy_from_slice(&from[row * shape.columns..(row + 1) * shape.columns]);
    });
    let directions = directions.ok_or_else(|| refuse("its directions need more than 4 GiB"))?;
    let supports = Panels32::pack(shape.supports, shape.head, |row, out| {
        out.copy_from_slice(&arrays.supports[row * shape.head..(row + 1) * shape.head]);
    });
    let squares = packed.squared_norms().iter().map(|square| *square as f32).collect();
    let rows: usize = factors.iter().flatten().map(|f| f.rows.len() + 3).sum::<usize>() * TILE;
    let along_columns = machine.columns() * (shape.ahead + shape.corrections);
    let cost = (shape.supports * shape.head + along_columns + rows) as u64;
    let isa = exact.isa();
    Ok(Box::new(Projected {
        isa,
        shape,
        bound,
        weights,
        directions,
        supports,
        squares,
        tiles: factors,
        cost,
    }))
}

/// What the coefficient of each support is multiplied by: the inverse norm for normalised kernels, else 1.
fn support_norms(profile: Profile, exact: &Exact) -> Option<Vec<f64>> {
    let supports = exact.machine().supports();
    let Profile::NormalizedPower { scale, shift, degree } = profile else {
        return Some(vec![1.0; supports.rows()]);
    };
    let inverse = |(row, squared_norm): (usize, &f64)| {
        if shift == 0.0 && supports.row(row).nonzeros().next().is_none() {
            return Some(0.0);
        }
        power_norm(scale, shift, degree, *squared_norm).map(|norm| 1.0 / norm)
    };
    exact.packed().squared_norms().iter().enumerate().map(inverse).collect()
}

fn weights(
    exact: &Exact,
    norms: &[f64],
    tiles: &[Vec<TileFactors>],
    columns: usize,
) -> Vec<TailWeights> {
    let up = 1.0 + (norms.len() + columns + 16) as f64 * f64::EPSILON;
    let of = |(number, score): (usize, &Score)| {
        let Score::Expansion { supports, coefficients, offset } = score else {
            unreachable!("linear scores were refused")
        };
        let named = supports.iter().zip(coefficients);
        let used: f64 = named.map(|(at, beta)| (beta * norms[*at as usize]).abs()).sum();
        let original: f64 = coefficients.iter().map(|beta| beta.abs()).sum();
        let mine = || tiles.iter().flatten().filter(|factors| factors.score == number);
        let slopes: f64 = mine().flat_map(|factors| &factors.squares).sum();
        let peak = largest(mine().flat_map(|factors| &factors.peaks).map(|peak| peak.abs()));
        let steepest = largest(mine().map(|factors| factors.steepest));
        let slopes = slopes.sqrt() * up;
        TailWeights {
            used: used * up + coefficients.len() as f64 * LEAST,
            original: original * up,
            slopes,
            peak: peak * up,
            steepest,
            offset: *offset,
        }
    };
    exact.machine().scores().iter().enumerate().map(of).collect()
}

impl Projected {
    /// Sums kept for each query and score.
    fn width(&self) -> usize {
        BEFORE + self.shape.corrections + AFTER
    }

    /// Values, slopes and curves of one query for the supports of a tile, from their products.
    fn finish(
        &self,
        products: &mut [f32],
        first: usize,
        squared_norm: f64,
        query_bounds: &TailQuery,
        out: (&mut Vec<f64>, &mut Vec<f64>, &mut Vec<f64>),
    ) {
        let (values, slopes, curves) = out;
        values.resize(products.len(), 0.0);
        if let Profile::Gaussian { gamma } = self.bound.profile {
            let squares = &self.squares[first..first + products.len()];
            mercer_simd::gaussian32(self.isa, products, squared_norm as f32, squares, gamma as f32);
            mercer_simd::widen(self.isa, products, values);
            return;
        }
        let (scale, shift, degree) = power(self.bound.profile);
        mercer_simd::widen(self.isa, products, values);
        slopes.clone_from(values);
        mercer_simd::polynomial(self.isa, slopes, scale, shift, degree - 1);
        curves.clear();
        if degree < 2 {
            curves.resize(values.len(), 0.0);
        } else {
            let size = |s: &f64| s.mul_add(scale, shift).abs() + query_bounds.reach;
            curves.extend(values.iter().map(size));
            mercer_simd::polynomial(self.isa, curves, 1.0, 0.0, degree - 2);
        }
        mercer_simd::polynomial(self.isa, values, scale, shift, degree);
    }

    /// Adds what one query has in a tile to its sums.
    fn add(&self, tile: usize, of_query: TileValues<'_>, sums: &mut [f64]) {
        let TileValues { values, slopes, curves } = of_query;
        let width = self.width();
        for factors in &self.tiles[tile] {
            let sums = &mut sums[factors.score * width..(factors.score + 1) * width];
            for (four, rows) in factors.rows.chunks(4).enumerate() {
                let mut partials = [[0.0; 8]; 4];
                let partials = &mut partials[..rows.len()];
                let row = |at: usize| rows[at.min(rows.len() - 1)].as_slice();
                let coefficients = [row(0), row(1), row(2), row(3)];
                // The score and its size run over values, the directions over slopes.
                if four == 0 && !std::ptr::eq(values, slopes) {
                    let (scores, along) = partials.split_at_mut(BEFORE);
                    let (first, rest) = coefficients.split_at(BEFORE);
                    mercer_simd::weighted_sums(self.isa, values, 0, first, scores);
                    mercer_simd::weighted_sums(self.isa, slopes, 0, &rest[..along.len()], along);
                } else {
                    let coefficients = &coefficients[..rows.len()];
                    mercer_simd::weighted_sums(self.isa, slopes, 0, coefficients, partials);
                }
                for (sum, partial) in sums[4 * four..].iter_mut().zip(partials) {
                    *sum += fold8(partial);
                }
            }
            let (squares, peaks) = (&factors.squares, &factors.peaks);
            let moments = mercer_simd::moments(self.isa, slopes, squares, curves, peaks);
            let last = &mut sums[width - AFTER..];
            last[0] += moments.squares;
            last[1] = if moments.most > last[1] { moments.most } else { last[1] };
            last[2] = if moments.least < last[2] { moments.least } else { last[2] };
        }
    }

    /// Some queries from their rows to their ranges.
    fn run_queries(
        &self,
        block: &Block<'_>,
        tracker: &mut DecisionTracker<'_>,
        range: std::ops::Range<usize>,
        scratch: &mut ProjectedScratch,
    ) {
        let ProjectedScratch {
            queries,
            coordinates,
            products,
            head,
            values,
            slopes,
            curves,
            sums,
            ..
        } = scratch;
        let (runs, bounded) = (&scratch.runs[range], &mut scratch.bounded);
        let all = self.shape.ahead + self.shape.corrections;
        coordinates.clear();
        coordinates.resize(runs.len() * all, 0.0);
        self.directions.load(runs.iter().map(|query| block.row(*query)), queries);
        self.directions.visit(self.isa, queries, products, |mut tile| {
            let rows = tile.rows.clone();
            for query in tile.queries.clone() {
                let place = query * all + rows.start..query * all + rows.end;
                coordinates[place].copy_from_slice(tile.of(query));
            }
        });
        bounded.clear();
        head.clear();
        for (position, query) in (0u32..).zip(runs) {
            let row = &coordinates[position as usize * all..][..all];
            let bounds = self.bound.query(block.squared_norm(*query), &row[..self.shape.ahead]);
            if let Some(bounds) = bounds {
                head.push(&row[..self.shape.head]);
                bounded.push(BoundedQuery { query: *query, position, bounds });
            }
        }
        let per_query = self.weights.len() * self.width();
        sums.clear();
        sums.resize(bounded.len() * per_query, 0.0);
        for (tile, first) in (0..self.supports.panels()).step_by(TILE_PANELS).enumerate() {
            let panels = first..(first + TILE_PANELS).min(self.supports.panels());
            let lanes = self.supports.lanes(panels.clone());
            let stride = lanes.len();
            products.resize(bounded.len() * stride, 0.0);
            self.supports.dots_dense(self.isa, head, panels, products, stride);
            let count = lanes.end.min(self.shape.supports) - lanes.start;
            let rows = products.chunks_exact_mut(stride).zip(sums.chunks_exact_mut(per_query));
            for (BoundedQuery { query, bounds, .. }, (products, sums)) in bounded.iter().zip(rows) {
                let (products, squared_norm) = (&mut products[..count], block.squared_norm(*query));
                self.finish(products, lanes.start, squared_norm, bounds, (values, slopes, curves));
                let gaussian = matches!(self.bound.profile, Profile::Gaussian { .. });
                let of_query = if gaussian {
                    TileValues { values, slopes: values, curves: values }
                } else {
                    TileValues { values, slopes, curves }
                };
                self.add(tile, of_query, sums);
            }
        }
        for (bounded, sums) in bounded.iter().zip(sums.chunks_exact(per_query)) {
            let BoundedQuery { query, position, bounds } = bounded;
            let row = &coordinates[*position as usize * all..][..all];
            for (score, sums) in sums.chunks_exact(self.width()).enumerate() {
                let (along, last) = sums[BEFORE..].split_at(self.shape.corrections);
                let summed = TailSums {
                    value: sums[0],
                    size: sums[1],
                    squares: last[0],
                    most: last[1],
                    least: last[2],
                    along,
                    corrections: &row[self.shape.ahead..],
                };
                if let Some(range) = self.bound.range(bounds, &self.weights[score], &summed) {
                    tracker.prove(*query, score, range, self.shape.head);
                }
            }
            tracker.settle_if_proved(*query);
        }
    }
}

impl Stage for Projected {
    fn spec(&self) -> Spec {
        let ProjectedShape { head, ahead, corrections, .. } = self.shape;
        let number = |count: usize| Value::Number(count as f64);
        Spec::new("projected")
            .set("dimensions", number(head))
            .set("look_ahead", number(ahead))
            .set("directions", number(corrections))
    }

    fn bytes(&self) -> usize {
        let factors = self.tiles.iter().flatten().flat_map(|factors| &factors.rows);
        let factors: usize = factors.map(|row| size_of_val(row.as_slice())).sum();
        self.directions.bytes() + self.supports.bytes() + factors
    }

    fn session(&self) -> Box<dyn StageSession + '_> {
        Session::start(self)
    }
}

impl StageWithScratch for Projected {
    type Scratch = ProjectedScratch;

    fn scratch(&self) -> Self::Scratch {
        ProjectedScratch {
            queries: self.directions.queries(),
            coordinates: Vec::new(),
            products: Vec::new(),
            head: DenseQueries32::new(self.shape.head),
            values: Vec::new(),
            slopes: Vec::new(),
            curves: Vec::new(),
            sums: Vec::new(),
            runs: Vec::new(),
            bounded: Vec::new(),
        }
    }

    fn run(
        &self,
        block: &mut Block<'_>,
        tracker: &mut DecisionTracker<'_>,
        scratch: &mut Self::Scratch,
    ) {
        scratch.runs.clear();
        for query in block.open() {
            // A query of a scale that f32 cannot hold is left to the next stage.
            let squared_norm = block.squared_norm(*query);
            let fits = squared_norm == 0.0 || (1e-24..=1e30).contains(&squared_norm);
            if fits && tracker.charge(*query, self.cost) {
                scratch.runs.push(*query);
            }
        }
        let size = (SUMS / (self.weights.len() * self.width()).max(1)).clamp(8, 256);
        for first in (0..scratch.runs.len()).step_by(size) {
            let range = first..(first + size).min(scratch.runs.len());
            self.run_queries(block, tracker, range, scratch);
        }
        block.compact(tracker);
    }
}
