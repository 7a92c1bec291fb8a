//! Additive kernels as one curve per column, read from tables (after \[YW12\] and \[MBM08\]). For machines trained
//! with kernels; machines that were trained as tables are answered in `tables.rs`.

mod c;

use mercer_kernel::{Curve, Form, Profile};
use mercer_machine::{Machine, Score, Section};
use mercer_spec::{Checked, Spec};

use crate::block::Block;
use crate::c::StageInC;
use crate::certify::curves;
use crate::entry::StageEntry;
use crate::stage::{Session, Stage, StageSession, StageWithScratch};
use crate::tracker::DecisionTracker;
use crate::verify::{RestsOn, table};
use crate::{Exact, LoadError};

/// The entry of the registry.
pub static ENTRY: StageEntry = StageEntry {
    name: "table",
    summary: "additive kernels folded into one curve per column: one table read for each value, with a proved range",
    parameters: &[],
    build: load,
    rests_on: RestsOn::Constants { work: table::work, verify: table::verify },
};

/// The curves of all scores; see [`crate::certify::curves`] for what is proved.
#[derive(Debug)]
struct Table {
    /// Position of each column of the machine among those with a curve.
    places: Vec<u32>,
    columns: Vec<Column>,
    /// For each cell: all values, then all slopes, then all radii, one of each for every score.
    cells: Vec<f64>,
    offsets: Vec<f64>,
}

/// Where a value lies.
#[derive(Debug)]
struct Column {
    /// Left ends of the cells, the first one zero; the last cell has no right end.
    nodes: Vec<f64>,
    /// Cells before this column's.
    first: usize,
    /// Nodes in lower buckets, for each bucket, and in all.
    before: Vec<u32>,
    /// One over the node whose bucket is the last.
    scale: f64,
}

/// Working memory of one thread.
#[derive(Debug, Default)]
struct TableScratch {
    /// Sums of lines, then of radii, one for each score.
    sums: Vec<f64>,
    undecided: Vec<u32>,
}

/// Columns without a curve.
const NONE: u32 = u32::MAX;

/// Whether the kernel is a sum of curves of which enough is known.
fn fits(machine: &Machine) -> bool {
    let is_expansion = |score: &Score| matches!(score, Score::Expansion { .. });
    let Form::Additive(term, finish) = machine.kernel().form() else { return false };
    finish.profile() == Profile::Identity
        && term.curve() != Curve::Unknown
        && term.vanishes_at_zero()
        && machine.scores().iter().all(is_expansion)
}

/// Arrays: `columns` that have a curve, `counts` (cells of each), `nodes` (their left ends), and `cells`: for
/// each cell the values, slopes and radii of all scores.
fn load(section: &Section, _: &Checked<'_>, exact: &Exact) -> Result<Box<dyn Stage>, LoadError> {
    let refuse = |reason: &str| LoadError::unfit("table", reason);
    let machine = exact.machine();
    if !fits(machine) {
        return Err(refuse("the kernel is not a sum of curves"));
    }
    let missing = || refuse("its arrays are missing");
    let columns = section.u32s("columns").ok_or_else(missing)?;
    let counts = section.u32s("counts").ok_or_else(missing)?;
    let nodes = section.f64s("nodes").ok_or_else(missing)?;
    let cells = section.f64s("cells").ok_or_else(missing)?;
    let total = counts.iter().try_fold(0usize, |sum, count| sum.checked_add(*count as usize));
    let scores = machine.scores().len();
    let agrees = counts.len() == columns.len()
        && total == Some(nodes.len())
        && nodes.len().checked_mul(3 * scores) == Some(cells.len())
        && counts.iter().all(|count| *count > 0)
        && columns.is_sorted_by(|a, b| a < b)
        && columns.last().is_none_or(|last| (*last as usize) < machine.columns());
    if !agrees {
        return Err(refuse("its arrays do not fit the machine"));
    }
    let radii = cells.chunks_exact(3 * scores).flat_map(|cell| &cell[2 * scores..]);
    if cells.iter().any(|value| !value.is_finite()) || radii.clone().any(|radius| *radius < 0.0) {
        return Err(refuse("its cells hold numbers that make no sense"));
    }
    let mut places = vec![NONE; machine.columns()];
    let mut found = Vec::new();
    let mut first = 0;
    for (column, count) in columns.iter().zip(counts) {
        let own = &nodes[first..first + *count as usize];
        if own[0] != 0.0 || !own.is_sorted_by(|a, b| a < b) || !own[own.len() - 1].is_finite() {
            return Err(refuse("its nodes do not rise from zero"));
        }
        places[*column as usize] = found.len() as u32;
        found.push(Column::new(own, first));
        first += own.len();
    }
    let offsets = machine.scores().iter().map(Score::offset).collect();
    Ok(Box::new(Table { places, columns: found, cells: cells.to_vec(), offsets }))
}

impl Column {
    fn new(nodes: &[f64], first: usize) -> Self {
        // The last nodes lie far apart, beyond the values of the supports.
        let far = nodes[nodes.len() - 1 - nodes.len() / 16].max(f64::MIN_POSITIVE);
        let scale = 1.0 / far;
        let scale = if scale.is_finite() { scale } else { f64::MAX };
        let mut column = Self { nodes: nodes.to_vec(), first, before: Vec::new(), scale };
        let mut before = vec![0u32; nodes.len() + 1];
        for node in nodes {
            before[column.bucket(*node) + 1] += 1;
        }
        for at in 1..before.len() {
            before[at] += before[at - 1];
        }
        column.before = before;
        column
    }

    /// A function that never falls: nodes in lower buckets are below `value`, those in higher ones above.
    fn bucket(&self, value: f64) -> usize {
        let share = (value * self.scale).sqrt() * self.nodes.len() as f64;
        (share as usize).min(self.nodes.len() - 1)
    }

    /// The cell that holds a positive value.
    fn cell(&self, value: f64) -> usize {
        let bucket = self.bucket(value);
        let range = self.before[bucket] as usize..self.before[bucket + 1] as usize;
        let inside = self.nodes[range.clone()].partition_point(|node| *node <= value);
        range.start + inside - 1
    }
}

impl Table {
    /// Lines and radii of one row, summed over its columns.
    fn sum(&self, block: &Block<'_>, query: u32, sums: &mut Vec<f64>) {
        let scores = self.offsets.len();
        sums.clear();
        sums.resize(2 * scores, 0.0);
        let (lines, radii) = sums.split_at_mut(scores);
        for (column, value) in block.row(query).nonzeros() {
            let Some(place) = self.places.get(column as usize) else { break };
            if *place == NONE {
                continue;
            }
            let column = &self.columns[*place as usize];
            let cell = column.cell(value);
            let step = value - column.nodes[cell];
            let numbers = &self.cells[(column.first + cell) * 3 * scores..][..3 * scores];
            let (values, rest) = numbers.split_at(scores);
            let (slopes, widths) = rest.split_at(scores);
            for ((line, value), slope) in lines.iter_mut().zip(values).zip(slopes) {
                *line += slope * step + value;
            }
            radii.iter_mut().zip(widths).for_each(|(radius, width)| *radius += width);
        }
    }
}

impl Stage for Table {
    fn spec(&self) -> Spec {
        Spec::new("table")
    }

    fn c_code(&self) -> Option<&dyn StageInC> {
        Some(self)
    }

    fn bytes(&self) -> usize {
        let of = |column: &Column| 8 * column.nodes.len() + 4 * column.before.len();
        8 * self.cells.len() + self.columns.iter().map(of).sum::<usize>() + 4 * self.places.len()
    }

    fn session(&self) -> Box<dyn StageSession + '_> {
        Session::start(self)
    }
}

impl StageWithScratch for Table {
    type Scratch = TableScratch;

    fn scratch(&self) -> Self::Scratch {
        TableScratch::default()
    }

    fn run(
        &self,
        block: &mut Block<'_>,
        tracker: &mut DecisionTracker<'_>,
        scratch: &mut Self::Scratch,
    ) {
        let TableScratch { sums, undecided } = scratch;
        let scores = self.offsets.len();
        // A line and a radius for each column and score.
        let cost = 2 * (self.columns.len() * scores) as u64;
        for query in block.open() {
            if !tracker.charge(*query, cost) {
                continue;
            }
            self.sum(block, *query, sums);
            tracker.undecided_scores(*query, undecided);
            for score in undecided.iter().map(|score| *score as usize) {
                let (sum, radius, offset) =
                    (sums[score], sums[scores + score], self.offsets[score]);
                if let Some(range) = curves::range(sum, radius, offset, self.columns.len()) {
                    tracker.prove(*query, score, range, 1);
                }
            }
            tracker.settle_if_proved(*query);
        }
        block.compact(tracker);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_finds_its_cell() {
        let nodes = [0.0, 1e-9, 0.2, 0.25, 0.26, 1.0, 7.0, 1e4];
        let column = Column::new(&nodes, 0);
        for (cell, node) in nodes.iter().enumerate().skip(1) {
            assert_eq!(column.cell(*node), cell);
            assert_eq!(column.cell(node.next_down()), cell - 1);
            assert_eq!(column.cell(node * 1.000_001), cell);
        }
        assert_eq!(column.cell(f64::MIN_POSITIVE), 0);
        assert_eq!(column.cell(1e300), nodes.len() - 1);
    }
}
