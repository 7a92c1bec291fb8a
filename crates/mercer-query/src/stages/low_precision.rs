//! All supports at once, in arithmetic that is cheaper than f64: integers where rows lie on a grid,
//! f32 elsewhere.

mod c;
mod expansion;

use mercer_kernel::Profile;
use mercer_kernel::block::{Coded, CodedQueries, CodedQuery, Grid, PackedF32, QueriesF32};
use mercer_machine::{Score, Section};
use mercer_spec::{Checked, Kind, Parameter, Spec};

use crate::block::Block;
use crate::c::StageInC;
use crate::certify::integer_codes::CodedBound;
use crate::certify::single_precision::F32Query;
use crate::entry::StageEntry;
use crate::stage::{Session, Stage, StageSession, StageWithScratch};
use crate::tracker::DecisionTracker;
use crate::verify::RestsOn;
use crate::{Exact, LoadError};

use expansion::{Expansion, ExpansionSums};

/// The entry of the registry.
pub static ENTRY: StageEntry = StageEntry {
    name: "low_precision",
    summary: "all supports in integers or single precision, with a proved range; kernels of a product or a distance",
    parameters: &[Parameter {
        name: "integers",
        kind: Kind::Word(&["on_grid", "quantised"]),
        default: Some("on_grid"),
        help: "when products are computed in integers: on_grid where values lie on a grid, quantised always, values rounded to bytes",
    }],
    build: load,
    rests_on: RestsOn::Machine,
};

/// The whole expansion. Queries on the grid are multiplied in integers, the others in f32.
#[derive(Debug)]
struct LowPrecision {
    spec: Spec,
    expansion: Expansion,
    /// For queries off the grid; packed when the first of them comes, or at once where there is no grid.
    packed: PackedF32,
    squares: Vec<f32>,
    grid: Option<OnGrid>,
    /// Whether the grid is one that rows are rounded to.
    is_rounded: bool,
    cost: u64,
}

/// The supports as integers.
#[derive(Debug)]
struct OnGrid {
    coded: Coded,
    bound: CodedBound,
}

/// Working memory of one thread.
struct LowPrecisionScratch {
    queries: QueriesF32,
    products: Vec<f32>,
    coded: Option<CodedQueries>,
    coded_products: Vec<i32>,
    /// Of one query on the grid and a tile of supports.
    gaussians: Vec<f32>,
    sums: ExpansionSums,
    runs: Vec<(u32, F32Query)>,
    codes: Vec<CodedQuery>,
    /// Queries that the integers could not take.
    left: Vec<u32>,
}

fn load(
    section: &Section,
    arguments: &Checked<'_>,
    exact: &Exact,
) -> Result<Box<dyn Stage>, LoadError> {
    let refuse = |reason: &str| LoadError::unfit("low_precision", reason);
    let is_rounded = arguments.word("integers") == "quantised";
    if section.arrays.iter().any(|(name, _)| name != "grid") {
        return Err(refuse("it has no array but 'grid'"));
    }
    let (machine, packed) = (exact.machine(), exact.packed());
    let is_expansion = |score: &Score| matches!(score, Score::Expansion { .. });
    if !machine.scores().iter().all(is_expansion) {
        return Err(refuse("a linear score or a table is one product already"));
    }
    let packed_f32 = PackedF32::aligned(packed, machine.supports())
        .ok_or_else(|| refuse("the supports need more than 4 GiB"))?;
    let expansion =
        Expansion::new(exact, packed_f32.error_terms()).map_err(|text| refuse(&text))?;
    let grid = match section.array("grid") {
        None => None,
        Some(_) => {
            let on_grid = on_grid(section, is_rounded, exact);
            Some(on_grid.ok_or_else(|| refuse("its grid does not fit"))?)
        }
    };
    if grid.is_none() {
        packed_f32.pack();
    }
    let squares = packed.squared_norms().iter().map(|square| *square as f32).collect();
    let cost = packed.rows() as u64 * machine.columns() as u64;
    let spec = arguments.text().clone();
    Ok(Box::new(LowPrecision {
        spec,
        expansion,
        packed: packed_f32,
        squares,
        grid,
        is_rounded,
        cost,
    }))
}

fn on_grid(section: &Section, is_rounded: bool, exact: &Exact) -> Option<OnGrid> {
    let [step, base] = *section.f64s("grid")? else { return None };
    let grid = Grid::new(step, base)?;
    let coded = Coded::new(exact.isa(), grid, is_rounded, exact.machine().supports())?;
    let bound = CodedBound::new(&coded);
    Some(OnGrid { coded, bound })
}

impl LowPrecision {
    /// Runs the queries that lie on the grid; the others go to `left`.
    fn run_integers(
        &self,
        on_grid: &OnGrid,
        block: &Block<'_>,
        tracker: &mut DecisionTracker<'_>,
        scratch: &mut LowPrecisionScratch,
    ) {
        let OnGrid { coded, bound } = on_grid;
        let LowPrecisionScratch {
            coded: queries,
            coded_products,
            gaussians,
            sums,
            runs,
            codes,
            left,
            ..
        } = scratch;
        let queries = queries.as_mut().expect("made for a stage with a grid");
        queries.clear();
        codes.clear();
        for query in block.open() {
            let code = coded.code(self.expansion.isa, block.row(*query), queries);
            let squared_norm = block.squared_norm(*query);
            let in_f32 = self.expansion.bound.query(squared_norm);
            let code_with_bounds = code.and_then(|code| {
                let query_bounds = bound.query(&self.expansion.bound, squared_norm, &code)?;
                // A query that lies too far from its codes is better rounded than coded, unless that is required.
                let is_better = self.is_rounded
                    || in_f32.is_none_or(|in_f32| query_bounds.error <= in_f32.error);
                is_better.then_some((code, query_bounds))
            });
            let Some((code, query_bounds)) = code_with_bounds else {
                left.push(*query);
                continue;
            };
            if tracker.charge(*query, self.cost) {
                queries.keep();
                runs.push((*query, query_bounds));
                codes.push(code);
            }
        }
        if runs.is_empty() {
            return;
        }
        self.expansion.clear(sums, runs.len());
        let gaussian = match self.expansion.bound.profile {
            Profile::Gaussian { gamma } => Some(gamma),
            _ => None,
        };
        coded.visit(queries, coded_products, |tile| {
            for position in tile.queries.clone() {
                let (code, rows) = (&codes[position], tile.rows.clone());
                let products = tile.of(position);
                if let Some(gamma) = gaussian {
                    let norms = &coded.squares()[rows.clone()];
                    let [scale, shift] = bound.exponent(gamma, code);
                    gaussians.resize(products.len(), 0.0);
                    mercer_simd::gaussian_steps32(
                        self.expansion.isa,
                        products,
                        code.squares,
                        norms,
                        scale,
                        shift,
                        gaussians,
                    );
                    self.expansion.add_gaussians(position, rows.start, gaussians, sums);
                } else {
                    let [constant, pairs, single] = bound.product(code);
                    let terms = products.iter().zip(&coded.sums()[rows.clone()]);
                    let whole = |(pair, sum): (&i32, &f64)| {
                        pairs * f64::from(*pair) + (single * sum + constant)
                    };
                    sums.values.clear();
                    sums.values.extend(terms.map(whole));
                    self.expansion.add_products(position, rows.start, &runs[position].1, sums);
                }
            }
        });
    }

    /// Runs queries in f32.
    fn run_f32(
        &self,
        block: &Block<'_>,
        tracker: &mut DecisionTracker<'_>,
        scratch: &mut LowPrecisionScratch,
    ) {
        let LowPrecisionScratch { queries, products, sums, runs, left, .. } = scratch;
        for query in left.iter() {
            // A query of a scale that f32 cannot hold is left to the next stage.
            let Some(query_bounds) = self.expansion.bound.query(block.squared_norm(*query)) else {
                continue;
            };
            if tracker.charge(*query, self.cost) {
                runs.push((*query, query_bounds));
            }
        }
        if runs.is_empty() {
            return;
        }
        self.expansion.clear(sums, runs.len());
        self.packed.load(runs.iter().map(|(query, _)| block.row(*query)), queries);
        let isa = self.expansion.isa;
        self.packed.visit(isa, queries, products, |mut tile| {
            for position in tile.queries.clone() {
                let (query, query_bounds) = &runs[position];
                let (first, rows) = (tile.rows.start, tile.rows.clone());
                let products = tile.of(position);
                if let Profile::Gaussian { gamma } = self.expansion.bound.profile {
                    let squared_norm = block.squared_norm(*query) as f32;
                    mercer_simd::gaussian32(
                        isa,
                        products,
                        squared_norm,
                        &self.squares[rows],
                        gamma as f32,
                    );
                    self.expansion.add_gaussians(position, first, products, sums);
                } else {
                    sums.values.resize(products.len(), 0.0);
                    mercer_simd::widen(isa, products, &mut sums.values);
                    self.expansion.add_products(position, first, query_bounds, sums);
                }
            }
        });
    }
}

impl Stage for LowPrecision {
    fn spec(&self) -> Spec {
        self.spec.clone()
    }

    fn c_code(&self) -> Option<&dyn StageInC> {
        Some(self)
    }

    fn bytes(&self) -> usize {
        let grid = self.grid.as_ref().map_or(0, |grid| grid.coded.bytes());
        self.packed.bytes() + size_of_val(self.squares.as_slice()) + grid
    }

    fn session(&self) -> Box<dyn StageSession + '_> {
        Session::start(self)
    }
}

impl StageWithScratch for LowPrecision {
    type Scratch = LowPrecisionScratch;

    fn scratch(&self) -> Self::Scratch {
        LowPrecisionScratch {
            queries: self.packed.queries(),
            products: Vec::new(),
            coded: self.grid.as_ref().map(|grid| grid.coded.queries()),
            coded_products: Vec::new(),
            gaussians: Vec::new(),
            sums: ExpansionSums::default(),
            runs: Vec::new(),
            codes: Vec::new(),
            left: Vec::new(),
        }
    }

    fn run(
        &self,
        block: &mut Block<'_>,
        tracker: &mut DecisionTracker<'_>,
        scratch: &mut Self::Scratch,
    ) {
        scratch.left.clear();
        if let Some(grid) = &self.grid {
            scratch.runs.clear();
            self.run_integers(grid, block, tracker, scratch);
            self.expansion.report(&scratch.runs, &scratch.sums, tracker);
        } else {
            scratch.left.extend_from_slice(block.open());
        }
        scratch.runs.clear();
        self.run_f32(block, tracker, scratch);
        self.expansion.report(&scratch.runs, &scratch.sums, tracker);
        block.compact(tracker);
    }
}
