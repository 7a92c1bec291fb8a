//! Fits the stage `table`: one piecewise linear curve per column, with bounds on its error. How it becomes a proved
//! range is in `certify/curves.rs` of `mercer_query`.

use mercer_kernel::bound::{UNIT, gamma};
use mercer_kernel::{Curve, Form, Profile, Term};
use mercer_machine::{Array, Machine, Score, Section};
use mercer_query::entries;
use mercer_spec::{Checked, Spec};
use rayon::prelude::*;

use super::{Fitter, has_only_expansions};
use crate::{CompileError, Task};

pub(super) static FITTER: Fitter =
    Fitter { stage: &entries::TABLE, estimates: false, stops: false, propose, fit };

/// Tables beyond this size are out of every cache.
const MOST_BYTES: usize = 64 << 20;
/// Cells of a curve: more prove nothing that fewer do not.
const CELLS: (usize, usize) = (16, 256);
/// With at most this many values in a column, straight lines between them are stored as they are.
const MOST_KINKS: usize = 4096;
/// Nodes beyond the largest value of a support, as multiples of it.
const BEYOND: [f64; 5] = [1.25, 1.5, 2.0, 3.0, 4.0];
/// Values and sums of coefficients for which nothing overflows, and nothing that matters underflows.
const SANE: std::ops::RangeInclusive<f64> = 1e-100..=1e100;
/// What may underflow at a node.
const UNDERFLOW: f64 = 1e-290;
/// Columns between two looks at the watch.
const AT_ONCE: usize = 32;

fn propose(task: &Task<'_>) -> Vec<Spec> {
    let is_fit = has_only_expansions(task) && term(task.exact.machine()).is_ok();
    if is_fit { vec![Spec::new("table")] } else { Vec::new() }
}

fn fit(_: &Checked<'_>, task: &Task<'_>) -> Result<Section, CompileError> {
    let machine = task.exact.machine();
    let term = term(machine)?;
    if !has_only_expansions(task) {
        return Err(unfit("the machine has no supports to fold"));
    }
    let columns = gather(machine);
    let most = MOST_BYTES / 24 / machine.scores().len() / columns.len().max(1);
    if most < CELLS.0 {
        let reason = format!("tables of {} columns would be too large", columns.len());
        return Err(unfit(reason));
    }
    let weights = Weights::new(machine);
    let maker = Maker { term, most, weights: &weights, columns: columns.len() };
    let mut curves = Vec::new();
    for (chunk, some) in columns.chunks(AT_ONCE).enumerate() {
        task.watch.step("folding columns", chunk * AT_ONCE, columns.len())?;
        let made: Result<Vec<Drawn>, CompileError> =
            some.par_iter().map(|(_, values)| maker.curve(values)).collect();
        curves.extend(made?);
    }
    let counts = curves.iter().map(|curve| curve.nodes.len() as u32).collect();
    let nodes = curves.iter().flat_map(|curve| &curve.nodes).copied().collect();
    let cells = curves.iter().flat_map(|curve| &curve.cells).copied().collect();
    Ok(Section::new("table")
        .with("columns", Array::U32(columns.iter().map(|(column, _)| *column).collect()))
        .with("counts", Array::U32(counts))
        .with("nodes", Array::F64(nodes))
        .with("cells", Array::F64(cells)))
}

fn unfit(reason: impl Into<String>) -> CompileError {
    CompileError::Unfit { stage: "table", reason: reason.into() }
}

/// The scalar kernel, if the machine is a sum of its curves.
fn term(machine: &Machine) -> Result<&dyn Term, CompileError> {
    match machine.kernel().form() {
        Form::Additive(term, finish)
            if finish.profile() == Profile::Identity
                && term.curve() != Curve::Unknown
                && term.vanishes_at_zero() =>
        {
            Ok(term)
        }
        _ => Err(unfit(format!("{} is not a sum of curves", machine.kernel().spec()))),
    }
}

/// The values of each column that has some, each with its support.
fn gather(machine: &Machine) -> Vec<(u32, Vec<(f64, u32)>)> {
    let mut columns = vec![Vec::new(); machine.columns()];
    for (support, row) in (0u32..).zip(machine.supports().iter()) {
        for (column, value) in row.nonzeros() {
            columns[column as usize].push((value, support));
        }
    }
    let columns = (0u32..).zip(columns).filter(|(_, values)| !values.is_empty());
    let sorted = columns.map(|(column, mut values): (u32, Vec<(f64, u32)>)| {
        values.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        (column, values)
    });
    sorted.collect()
}

/// Coefficients of each support: which score, and how much.
struct Weights {
    of: Vec<Vec<(u32, f64)>>,
    scores: usize,
}

impl Weights {
    fn new(machine: &Machine) -> Self {
        let mut of = vec![Vec::new(); machine.supports().rows()];
        for (number, score) in (0u32..).zip(machine.scores()) {
            if let Score::Expansion { supports, coefficients, .. } = score {
                for (support, beta) in supports.iter().zip(coefficients) {
                    of[*support as usize].push((number, *beta));
                }
            }
        }
        Self { of, scores: machine.scores().len() }
    }
}

/// Nodes of a curve, and for each cell the values, slopes and radii of all scores.
struct Drawn {
    nodes: Vec<f64>,
    cells: Vec<f64>,
}

/// Makes the curves of columns; the mathematics stand in `certify::curves` of the query room.
struct Maker<'a> {
    term: &'a dyn Term,
    /// Cells that a column may have.
    most: usize,
    weights: &'a Weights,
    /// Columns with a curve.
    columns: usize,
}

/// `G` and `H` of one score at the ends of a cell and beyond.
struct Half {
    /// At each node.
    values: Vec<f64>,
    /// How far each may be off.
    errors: Vec<f64>,
}

impl Maker<'_> {
    fn curve(&self, values: &[(f64, u32)]) -> Result<Drawn, CompileError> {
        let largest = values[values.len() - 1].0;
        let mut distinct: Vec<f64> = values.iter().map(|(value, _)| *value).collect();
        distinct.dedup();
        if !SANE.contains(&largest) {
            return Err(unfit(format!("values of {largest:e} are beyond what its tables hold")));
        }
        let is_kinked = self.term.curve() == Curve::Kinked
            && distinct.len() < self.most.max(CELLS.0).min(MOST_KINKS);
        let nodes: Vec<f64> = if is_kinked {
            std::iter::once(0.0).chain(distinct.iter().copied()).collect()
        } else {
            let cells = self.most.saturating_sub(BEYOND.len() + 1).clamp(CELLS.0 - 6, CELLS.1);
            let share = |k: usize| (k as f64 / cells as f64).powi(2);
            let inside = (0..=cells).map(|k| if k == cells { largest } else { largest * share(k) });
            inside.chain(BEYOND.iter().map(|times| largest * times)).collect()
        };
        if !nodes.is_sorted_by(|a, b| a < b) {
            return Err(unfit("a column's values lie too close together"));
        }
        let halves = self.halves(values, &distinct, &nodes)?;
        let scores = self.weights.scores;
        let mut cells = vec![0.0; nodes.len() * 3 * scores];
        for (cell, numbers) in cells.chunks_exact_mut(3 * scores).enumerate() {
            for score in 0..scores {
                let [plus, minus] = &halves[score];
                let (value, slope, radius) = self.cell(cell, &nodes, plus, minus, is_kinked);
                numbers[score] = value;
                numbers[scores + score] = slope;
                numbers[2 * scores + score] = radius;
            }
        }
        if cells.iter().any(|number| !number.is_finite()) {
            return Err(unfit("its numbers overflow"));
        }
        Ok(Drawn { nodes, cells })
    }

    /// `G` and `H` of all scores at all nodes.
    fn halves(
        &self,
        values: &[(f64, u32)],
        distinct: &[f64],
        nodes: &[f64],
    ) -> Result<Vec<[Half; 2]>, CompileError> {
        let width = 2 * self.weights.scores;
        let mut weights = vec![0.0; distinct.len() * width];
        let mut at = 0;
        for (value, support) in values {
            at += usize::from(distinct[at] != *value);
            for (score, beta) in &self.weights.of[*support as usize] {
                let place = 2 * *score as usize + usize::from(*beta < 0.0);
                weights[at * width + place] += beta.abs();
            }
        }
        let total: f64 = weights.iter().sum();
        if total > *SANE.end() {
            return Err(unfit("its coefficients are beyond what its tables hold"));
        }
        let mut sums = vec![0.0; nodes.len() * width];
        for (node, sums) in nodes.iter().zip(sums.chunks_exact_mut(width)).skip(1) {
            for (value, weights) in distinct.iter().zip(weights.chunks_exact(width)) {
                let kappa = self.term.term(*value, *node);
                sums.iter_mut().zip(weights).for_each(|(sum, weight)| *sum += weight * kappa);
            }
        }
        let relative = 1.01 * gamma(2.0 * values.len() as f64 + self.term.rounding() + 8.0);
        let half = |place: usize| {
            let values: Vec<f64> = sums.chunks_exact(width).map(|sums| sums[place]).collect();
            let errors = values.iter().map(|value| relative * value + UNDERFLOW).collect();
            Half { values, errors }
        };
        Ok((0..self.weights.scores).map(|score| [half(2 * score), half(2 * score + 1)]).collect())
    }

    /// Value, slope and radius of one cell of one score.
    fn cell(
        &self,
        cell: usize,
        nodes: &[f64],
        plus: &Half,
        minus: &Half,
        is_kinked: bool,
    ) -> (f64, f64, f64) {
        let reading = 4.0 * UNIT + gamma(self.columns as f64 + 4.0);
        let value = plus.values[cell] - minus.values[cell];
        let (size, error) =
            (plus.values[cell] + minus.values[cell], plus.errors[cell] + minus.errors[cell]);
        if cell + 1 == nodes.len() {
            // Straight lines are constant beyond the last kink; of other curves nothing is said there.
            let radius = 1.01 * (error + 8.0 * UNIT * size + reading * value.abs());
            return (value, 0.0, if is_kinked { radius } else { f64::MAX });
        }
        let h = nodes[cell + 1] - nodes[cell];
        let end = plus.values[cell + 1] - minus.values[cell + 1];
        let slope = (end - value) / h;
        let of = |half: &Half| if is_kinked { 0.0 } else { half.gap(cell, nodes) };
        let (above, below) = (of(plus), of(minus));
        let value = value + (above - below) / 2.0;
        let length = value.abs() + slope.abs() * h;
        let ends = size + plus.values[cell + 1] + minus.values[cell + 1];
        let errors = error + plus.errors[cell + 1] + minus.errors[cell + 1];
        let chord = errors + 8.0 * UNIT * (length + ends);
        let radius = 1.01 * (f64::midpoint(above, below) + chord + reading * length);
        (value, slope, radius)
    }
}

impl Half {
    /// The slope of a chord, and how far it may be off.
    fn slope(&self, cell: usize, nodes: &[f64]) -> (f64, f64) {
        let h = nodes[cell + 1] - nodes[cell];
        let slope = (self.values[cell + 1] - self.values[cell]) / h;
        let error = (self.errors[cell] + self.errors[cell + 1]) / h + 4.0 * UNIT * slope.abs();
        (slope, 1.01 * error)
    }

    /// How far the curve can rise above its chord.
    fn gap(&self, cell: usize, nodes: &[f64]) -> f64 {
        let h = nodes[cell + 1] - nodes[cell];
        let (slope, error) = self.slope(cell, nodes);
        let (next, next_error) = if cell + 2 < nodes.len() {
            self.slope(cell + 1, nodes)
        } else {
            // It never falls.
            (0.0, 0.0)
        };
        let bend = |over: f64, errors: f64| 1.01 * (over + errors).max(0.0);
        let after = bend(slope - next, error + next_error);
        if cell == 0 {
            return 1.01 * h * after;
        }
        let (last, last_error) = self.slope(cell - 1, nodes);
        let before = bend(last - slope, error + last_error);
        if before + after == 0.0 { 0.0 } else { 1.01 * h * (before * (after / (before + after))) }
    }
}
