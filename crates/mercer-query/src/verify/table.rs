//! The curves of an additive machine at the nodes of a table, for a fit of `table` and for its verification. The
//! certificate is `certify/curves.rs`, whose notation this is; nodes are chosen in `mercer_compile`.

use std::collections::BTreeMap;

use mercer_kernel::bound::{LEAST, UNIT, gamma};
use mercer_kernel::{Curve, Form, Profile, Term};
use mercer_machine::{Machine, Score, Section};
use rayon::prelude::*;

use super::{MeasureError, Watch, at_least};
use crate::Exact;

/// Values and sums of coefficients for which nothing overflows, and nothing that matters underflows.
pub const SANE: std::ops::RangeInclusive<f64> = 1e-100..=1e100;
/// What may underflow at a node.
const UNDERFLOW: f64 = 1e-290;
/// Columns between two looks at the watch.
pub const AT_ONCE: usize = 32;

fn unfit(reason: impl Into<String>) -> MeasureError {
    MeasureError::Unfit(reason.into())
}

/// The scalar kernel, if the machine is a sum of its curves.
///
/// # Errors
/// If it is not.
pub fn term(machine: &Machine) -> Result<&dyn Term, MeasureError> {
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

/// The values of a column, each with its support.
#[derive(Debug)]
pub struct ColumnValues {
    /// The column.
    pub column: u32,
    /// Sorted.
    pub values: Vec<(f64, u32)>,
}

impl ColumnValues {
    /// Each value once.
    pub fn distinct(&self) -> Vec<f64> {
        let mut distinct: Vec<f64> = self.values.iter().map(|(value, _)| *value).collect();
        distinct.dedup();
        distinct
    }
}

/// The columns that have values in the supports.
pub fn gather(machine: &Machine) -> Vec<ColumnValues> {
    let mut columns: BTreeMap<u32, Vec<(f64, u32)>> = BTreeMap::new();
    for (support, row) in (0u32..).zip(machine.supports().iter()) {
        for (column, value) in row.nonzeros() {
            columns.entry(column).or_default().push((value, support));
        }
    }
    let sorted = columns.into_iter().map(|(column, mut values)| {
        values.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        ColumnValues { column, values }
    });
    sorted.collect()
}

/// Coefficients of each support: which score, and how much.
#[derive(Debug)]
pub struct Weights {
    of: Vec<Vec<(u32, f64)>>,
    scores: usize,
}

impl Weights {
    /// Those of a machine.
    pub fn new(machine: &Machine) -> Self {
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

/// Measures the curves of columns at given nodes.
#[derive(Debug, Clone, Copy)]
pub struct CurveMeasure<'a> {
    /// The scalar kernel.
    pub term: &'a dyn Term,
    /// Coefficients of the supports.
    pub weights: &'a Weights,
    /// Columns with a curve.
    pub columns: usize,
}

/// `G` or `H` of one score at the nodes.
#[derive(Debug)]
struct Half {
    /// At each node.
    values: Vec<f64>,
    /// How far each may be off.
    errors: Vec<f64>,
}

/// The line of a cell and its radius.
#[derive(Debug, Clone, Copy)]
struct Line {
    value: f64,
    slope: f64,
    radius: f64,
}

impl CurveMeasure<'_> {
    /// For each cell the values, slopes and radii of all scores.
    ///
    /// # Errors
    /// If the numbers are too large or too small.
    pub fn cells(&self, column: &ColumnValues, nodes: &[f64]) -> Result<Vec<f64>, MeasureError> {
        // The terms of smaller numbers would lose digits to quotients that underflow.
        if let Some((value, _)) = column.values.iter().find(|(value, _)| !SANE.contains(value)) {
            return Err(unfit(format!("values of {value:e} are beyond what its tables hold")));
        }
        let distinct = column.distinct();
        // Straight lines between the nodes, if there is one at every value.
        let is_kinked = self.term.curve() == Curve::Kinked
            && nodes.len() == distinct.len() + 1
            && nodes[1..] == distinct;
        let halves = self.halves(&column.values, &distinct, nodes)?;
        let scores = self.weights.scores;
        let mut cells = vec![0.0; nodes.len() * 3 * scores];
        for (cell, numbers) in cells.chunks_exact_mut(3 * scores).enumerate() {
            for score in 0..scores {
                let [plus, minus] = &halves[score];
                let line = self.cell(cell, nodes, plus, minus, is_kinked);
                numbers[score] = line.value;
                numbers[scores + score] = line.slope;
                numbers[2 * scores + score] = line.radius;
            }
        }
        if cells.iter().any(|number| !number.is_finite()) {
            return Err(unfit("its numbers overflow"));
        }
        Ok(cells)
    }

    /// `G` and `H` of all scores at all nodes.
    fn halves(
        &self,
        values: &[(f64, u32)],
        distinct: &[f64],
        nodes: &[f64],
    ) -> Result<Vec<[Half; 2]>, MeasureError> {
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
        if total.is_nan() || total > *SANE.end() {
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

    /// What a line of a cell costs to read and to add, for each unit of its size.
    fn reading(&self) -> f64 {
        4.0 * UNIT + gamma(self.columns as f64 + 4.0)
    }

    /// The line of one cell of one score.
    fn cell(&self, cell: usize, nodes: &[f64], plus: &Half, minus: &Half, is_kinked: bool) -> Line {
        let reading = self.reading();
        let value = plus.values[cell] - minus.values[cell];
        let (size, error) =
            (plus.values[cell] + minus.values[cell], plus.errors[cell] + minus.errors[cell]);
        if cell + 1 == nodes.len() {
            // Straight lines are constant beyond the last kink; of other curves nothing is said there.
            let radius = 1.01 * (error + 8.0 * UNIT * size + reading * value.abs());
            return Line { value, slope: 0.0, radius: if is_kinked { radius } else { f64::MAX } };
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
        // A slope below the normal range is off by an absolute amount, and so is a step of it.
        let underflow = 2.0 * LEAST * (h + 1.0);
        let chord = errors + 8.0 * UNIT * (length + ends) + underflow;
        let radius = 1.01 * (f64::midpoint(above, below) + chord + reading * length);
        Line { value, slope, radius }
    }

    /// What a stored line must have as radius, given a measured one. Two lines are farthest apart at the ends of the cell, and
    /// reading the other one costs no more than this one and their distance.
    fn needed(stored: Line, found: Line, width: Option<f64>) -> f64 {
        let moved = (stored.value - found.value).abs();
        let turned = stored.slope - found.slope;
        if moved == 0.0 && turned == 0.0 {
            return found.radius;
        }
        let Some(h) = width else {
            // The last cell has no right end: only the same slope stays near.
            return if turned == 0.0 { found.radius + 1.02 * moved } else { f64::INFINITY };
        };
        let at_end = (stored.value - found.value + turned * h).abs();
        let apart =
            moved + at_end + 8.0 * UNIT * (stored.value.abs() + stored.slope.abs() * h) + LEAST;
        found.radius + 1.02 * apart
    }
}

impl Half {
    /// The slope of a chord, and how far it may be off.
    fn slope(&self, cell: usize, nodes: &[f64]) -> (f64, f64) {
        let h = nodes[cell + 1] - nodes[cell];
        let slope = (self.values[cell + 1] - self.values[cell]) / h;
        let error = (self.errors[cell] + self.errors[cell + 1]) / h + 4.0 * UNIT * slope.abs();
        (slope, 1.01 * error + 2.0 * LEAST)
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
        // What is no number stays none.
        let bend = |over: f64, errors: f64| match over + errors {
            sum if sum < 0.0 => 0.0,
            sum => 1.01 * sum,
        };
        let after = bend(slope - next, error + next_error);
        if cell == 0 {
            return 1.01 * h * after;
        }
        let (last, last_error) = self.slope(cell - 1, nodes);
        let before = bend(last - slope, error + last_error);
        if before + after == 0.0 {
            return 0.0;
        }
        1.01 * h * (before * (after / (before + after)) + LEAST)
    }
}

/// Verifies the lines and radii of all cells.
pub(crate) fn verify(
    section: &Section,
    exact: &Exact,
    watch: &Watch<'_>,
) -> Result<(), MeasureError> {
    let machine = exact.machine();
    let damaged = || unfit("its arrays do not fit each other");
    let (columns, counts) = (section.u32s("columns"), section.u32s("counts"));
    let (columns, counts) = (columns.ok_or_else(damaged)?, counts.ok_or_else(damaged)?);
    let mut nodes = section.f64s("nodes").ok_or_else(damaged)?;
    let mut cells = section.f64s("cells").ok_or_else(damaged)?;
    let (gathered, weights) = (gather(machine), Weights::new(machine));
    if !gathered.iter().map(|column| column.column).eq(columns.iter().copied()) {
        return Err(unfit("its columns are not those in which the supports have values"));
    }
    let measure = CurveMeasure { term: term(machine)?, weights: &weights, columns: columns.len() };
    let width = 3 * machine.scores().len();
    let mut stored = Vec::new();
    for (column, count) in gathered.iter().zip(counts) {
        let nodes = nodes.split_off(..*count as usize).ok_or_else(damaged)?;
        let cells = cells.split_off(..*count as usize * width).ok_or_else(damaged)?;
        stored.push((column, nodes, cells));
    }
    for (chunk, some) in stored.chunks(AT_ONCE).enumerate() {
        watch.step("measuring curves", chunk * AT_ONCE, stored.len())?;
        some.par_iter()
            .map(|(column, nodes, cells)| verify_column(&measure, column, nodes, cells))
            .collect::<Result<Vec<()>, MeasureError>>()?;
    }
    Ok(())
}

fn verify_column(
    measure: &CurveMeasure<'_>,
    column: &ColumnValues,
    nodes: &[f64],
    cells: &[f64],
) -> Result<(), MeasureError> {
    let scores = measure.weights.scores;
    let found = measure.cells(column, nodes)?;
    let pairs = cells.chunks_exact(3 * scores).zip(found.chunks_exact(3 * scores));
    for (cell, (stored, found)) in pairs.enumerate() {
        let width = nodes.get(cell + 1).map(|end| end - nodes[cell]);
        for score in 0..scores {
            let line = |numbers: &[f64]| Line {
                value: numbers[score],
                slope: numbers[scores + score],
                radius: numbers[2 * scores + score],
            };
            let (stored, needed) =
                (line(stored), CurveMeasure::needed(line(stored), line(found), width));
            if stored.radius.is_nan() || needed.is_nan() || stored.radius < needed {
                return Err(at_least("cells (radius)", cell, stored.radius, needed));
            }
        }
    }
    Ok(())
}

/// Multiply-adds of a verification; a kernel value of two numbers costs a few dozen.
pub(crate) fn work(section: &Section, exact: &Exact) -> f64 {
    let (Some(columns), Some(counts)) = (section.u32s("columns"), section.u32s("counts")) else {
        return 0.0;
    };
    let supports = exact.machine().supports();
    let of_column = |column: u32| {
        let at = columns.binary_search(&column).ok();
        at.and_then(|at| counts.get(at)).copied().unwrap_or(0)
    };
    let entries = supports.iter().flat_map(mercer_data::Row::nonzeros);
    let pairs: f64 = entries.map(|(column, _)| f64::from(of_column(column))).sum();
    pairs * (40.0 + 2.0 * exact.machine().scores().len() as f64)
}

#[cfg(test)]
mod tests {
    use mercer_data::Matrix;
    use mercer_machine::Output;

    use super::*;

    /// Slopes below the normal range lose digits, and wide cells multiply what they lose.
    #[test]
    fn slopes_that_underflow_are_part_of_the_radius() {
        let kernel = mercer_kernel::parse("hellinger").unwrap();
        let supports = Matrix::dense(1, vec![1e60, 3e60]).unwrap();
        let betas = [1.3e-320, -3.1e-321];
        let scores = vec![Score::expansion(&betas, 0.0)];
        let machine = Machine::new(kernel, supports, scores, Output::Novelty).unwrap();
        let weights = Weights::new(&machine);
        let term = term(&machine).unwrap();
        let measure = CurveMeasure { term, weights: &weights, columns: 1 };
        // So close together that curves hardly bend between them.
        let close = (0..40).map(|node| 1e60 + f64::from(node) * 1e56);
        let nodes: Vec<f64> = std::iter::once(0.0).chain(close).collect();
        let cells = measure.cells(&gather(&machine)[0], &nodes).unwrap();
        for (cell, numbers) in cells.chunks_exact(3).enumerate().take(nodes.len() - 1) {
            let &[value, slope, radius] = numbers else { unreachable!("three numbers") };
            for share in [0.0, 0.3, 0.7, 1.0] {
                let t = nodes[cell] + share * (nodes[cell + 1] - nodes[cell]);
                let truth = betas[0] * (1e60 * t).sqrt() + betas[1] * (3e60 * t).sqrt();
                let line = value + slope * (t - nodes[cell]);
                let off = (line - truth).abs();
                assert!(
                    off <= radius,
                    "cell {cell}, {t:e}: {line:e}, truth {truth:e}, radius {radius:e}"
                );
            }
        }
    }
}
