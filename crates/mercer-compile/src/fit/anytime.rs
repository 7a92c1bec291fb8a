//! Basis points for the stage `anytime`: chosen by one of several orders, then measured. How queries use them is in
//! `mercer_query`, in the stage of the same name.

mod clusters;
mod limit;
mod moved;
mod orders;
mod pool;
mod settings;
mod tree;

use mercer_data::{Matrix, MatrixBuilder};
use mercer_kernel::factor::{Factor, Given, KernelColumns, Target};
use mercer_machine::{Array, Machine, Output, Score, Section};
use mercer_query::entries;
use mercer_spec::{Checked, Spec};

use limit::Costs;
use orders::Ordering;
use pool::Pool;
use settings::{AnytimeSettings, Order};

use mercer_query::verify::sequence::{ScoreNorms, SequenceConstants};

use super::{Fitter, has_only_expansions};
use crate::kernel_gradient::inverted;
use crate::{CompileError, Task};

pub(super) static FITTER: Fitter =
    Fitter { stage: &entries::ANYTIME, estimates: false, stops: false, propose, fit };

/// A machine whose rest is this share of it is explained.
const EXPLAINED: f64 = 1e-14;

fn unfit(reason: impl Into<String>) -> CompileError {
    CompileError::Unfit { stage: "anytime", reason: reason.into() }
}

/// Kernel values among supports that are worth their time: more are not looked at.
const MOST_WORK: f64 = 2e10;
/// Machines of more columns are hardly ever of low rank.
const FEW_COLUMNS: usize = 100;

fn propose(task: &Task<'_>) -> Vec<Spec> {
    let machine = task.exact.machine();
    let (kernel, live) = (machine.kernel(), task.exact.packed().live_columns());
    let rows = machine.supports().rows() as f64;
    let fits = has_only_expansions(task)
        && kernel.is_positive_semidefinite()
        && kernel.form().finish().is_some()
        && live <= FEW_COLUMNS
        && rows * rows * live.max(16) as f64 <= MOST_WORK;
    if !fits {
        return Vec::new();
    }
    let order = |word: &str| Spec::new("anytime").set("order", Spec::new(word));
    vec![Spec::new("anytime"), order("min_wz"), order("moved")]
}

fn fit(arguments: &Checked<'_>, task: &Task<'_>) -> Result<Section, CompileError> {
    let machine = task.exact.machine();
    let has_signs = task.sample.is_some_and(|sample| sample.rows() > 0)
        && !matches!(machine.output(), Output::Value);
    let settings = AnytimeSettings::new(arguments, has_signs);
    check(task, &settings, has_signs)?;
    let kernel = machine.kernel().clone();
    let supports = machine.supports().as_ref().clone();
    let mut columns = KernelColumns::new(kernel, supports, machine.centre(), 0);
    let lengths = ScoreNorms::new(machine, &mut columns, &task.watch)
        .map_err(CompileError::measuring("anytime"))?;
    let mut arrays = SequenceArrays::new(machine.scores().len());
    let mut centres = Vec::new();
    match task.sample {
        Some(sample) if settings.depth > 0 => {
            let sample = &fitted(sample, machine.columns());
            let mut measured = Measured { columns: &mut columns, lengths: &lengths };
            tree::grow(task, &settings, sample, &mut measured, &mut arrays)?;
        }
        Some(sample) if settings.clusters > 1 => {
            let sample = &fitted(sample, machine.columns());
            for (centre, rows) in clusters::parts(sample, settings.clusters, settings.seed) {
                let mine = sample.select(rows);
                let mut measured = Measured { columns: &mut columns, lengths: &lengths };
                arrays.add(&sequence(task, &settings, Some(&mine), &mut measured)?);
                centres.extend(centre);
            }
        }
        sample => {
            let mut measured = Measured { columns: &mut columns, lengths: &lengths };
            arrays.add(&sequence(task, &settings, sample, &mut measured)?);
        }
    }
    Ok(arrays.section(arguments.text(), settings.chunk, centres))
}

/// Whether the machine can be projected, and the order has the rows it needs.
fn check(task: &Task<'_>, settings: &AnytimeSettings, has_signs: bool) -> Result<(), CompileError> {
    let machine = task.exact.machine();
    let kernel = machine.kernel();
    if !kernel.is_positive_semidefinite() || kernel.form().finish().is_none() {
        return Err(unfit(format!("{} is not known to be positive semidefinite", kernel.spec())));
    }
    if !machine.scores().iter().all(|score| matches!(score, Score::Expansion { .. })) {
        return Err(unfit("a linear score or a table is one product already"));
    }
    if machine.supports().rows() == 0 {
        return Err(unfit("it has no supports"));
    }
    if settings.depth > 0 && (settings.clusters > 1 || settings.order.is_moved()) {
        return Err(unfit(
            "a tree goes with neither clusters nor moved points; leave depth or them out",
        ));
    }
    if (settings.order.needs_sample() || settings.clusters > 1 || settings.depth > 0) && !has_signs
    {
        let what = match () {
            () if settings.depth > 0 => "a tree needs",
            () if settings.clusters > 1 => "clusters need",
            () => "this order needs",
        };
        return Err(unfit(format!(
            "{what} a sample of queries (--sample) whose scores have a sign"
        )));
    }
    if settings.order == Order::MinWzN && task.training.is_none() {
        return Err(unfit("min_wz_n needs the rows it was trained on (--training)"));
    }
    Ok(())
}

/// Rows cut to the machine's columns.
fn fitted(rows: &Matrix, columns: usize) -> Matrix {
    let mut builder = MatrixBuilder::new();
    for row in rows.iter() {
        let inside = row.nonzeros().take_while(|(column, _)| (*column as usize) < columns);
        inside.for_each(|(column, value)| builder.push(column, value));
        builder.end_row();
    }
    builder.finish(columns).compact()
}

/// Basis points and what is known after each.
pub(super) struct Sequence {
    pub basis: Matrix,
    pub constants: SequenceConstants,
}

/// What the constants of all sequences are measured with.
pub(super) struct Measured<'a> {
    columns: &'a mut KernelColumns,
    lengths: &'a ScoreNorms,
}

impl Measured<'_> {
    /// The constants of a basis with the triangle of its factor.
    fn constants(
        &mut self,
        machine: &Machine,
        basis: &Matrix,
        factor: &Factor<KernelColumns>,
    ) -> Result<SequenceConstants, CompileError> {
        if basis.rows() == 0 {
            return Err(unfit("no basis point passes the pivot test"));
        }
        let rows: Vec<&[f64]> =
            factor.pivots().iter().map(|pivot| pivot.coordinates.as_slice()).collect();
        let Self { columns, lengths } = self;
        let constants =
            SequenceConstants::new(machine, basis, &inverted(&rows), None, columns, lengths);
        constants.map_err(CompileError::measuring("anytime"))
    }
}

/// The rows that basis points are chosen from.
fn pool(task: &Task<'_>, settings: &AnytimeSettings, sample: Option<&Matrix>) -> Pool {
    let order = settings.order;
    let takes_training =
        !order.is_moved() && (matches!(order, Order::MinWzN | Order::Sgma) || order.needs_sample());
    let training = task.training.filter(|_| takes_training);
    Pool::new(task.exact, training, sample, settings)
}

/// Most basis points of a sequence.
fn most_steps(costs: Costs, settings: &AnytimeSettings) -> usize {
    if settings.stops_at_break_even {
        settings.steps.min(costs.break_even())
    } else {
        settings.steps
    }
}

fn sequence(
    task: &Task<'_>,
    settings: &AnytimeSettings,
    sample: Option<&Matrix>,
    measured: &mut Measured<'_>,
) -> Result<Sequence, CompileError> {
    let machine = task.exact.machine();
    let pool = pool(task, settings, sample);
    let mut factor = pool.factor(task.exact, settings.floor);
    let costs = Costs::new(task.exact);
    let limit = most_steps(costs, settings);
    let goal = moved::MovedGoal { order: settings.order, limit };
    let basis = if settings.order.is_moved() {
        moved::points(machine, &pool, &mut factor, goal, &task.watch)?
    } else {
        choose(&pool, &mut factor, settings, limit, task)?
    };
    let mut constants = measured.constants(machine, &basis, &factor)?;
    if settings.stops_at_break_even && !pool.witnesses.is_empty() {
        constants.truncate(limit::cheapest(costs, &pool, &factor, &constants));
    }
    let basis = basis.select(0..constants.steps());
    Ok(Sequence { basis, constants })
}

/// Rows of the pool, in the order that the rule takes them.
fn choose(
    pool: &Pool,
    factor: &mut Factor<KernelColumns>,
    settings: &AnytimeSettings,
    limit: usize,
    task: &Task<'_>,
) -> Result<Matrix, CompileError> {
    let squares = |factor: &Factor<KernelColumns>| {
        factor.targets().iter().map(|target| target.square().max(0.0)).sum::<f64>()
    };
    // A factor may have basis points already.
    let known = factor.targets().iter().flat_map(Target::coordinates);
    let whole = squares(factor) + known.map(|w| w * w).sum::<f64>();
    let mut ended = None;
    let mut go_on = |factor: &Factor<KernelColumns>| {
        let goes_on = task.watch.step("choosing basis points", factor.rank(), limit);
        ended = goes_on.err().map(CompileError::from);
        ended.is_none() && squares(factor) > EXPLAINED * whole
    };
    if settings.order == Order::Given {
        factor.grow(&mut Given::new(pool.supports.clone()), limit, &mut go_on);
    } else {
        let mut rule = Ordering::new(pool, settings, factor);
        factor.grow(&mut rule, limit, &mut go_on);
    }
    match ended {
        Some(error) => Err(error),
        None => Ok(pool.rows.select(factor.pivots().iter().filter_map(|pivot| pivot.row))),
    }
}

/// The arrays of the section, sequence after sequence.
pub(super) struct SequenceArrays {
    scores: usize,
    counts: Vec<u32>,
    starts: Vec<u32>,
    columns: Vec<u32>,
    values: Vec<f64>,
    triangle: Vec<f64>,
    defects: Vec<f64>,
    weights: Vec<f64>,
    rests: Vec<f64>,
    hidden: Vec<f64>,
    /// Of a tree: the parent of each sequence, and the splits of those with children.
    parents: Vec<u32>,
    split_weights: Vec<f64>,
    split_thresholds: Vec<f64>,
}

impl SequenceArrays {
    pub(super) fn new(scores: usize) -> Self {
        Self {
            scores,
            counts: Vec::new(),
            starts: vec![0],
            columns: Vec::new(),
            values: Vec::new(),
            triangle: Vec::new(),
            defects: Vec::new(),
            weights: Vec::new(),
            rests: Vec::new(),
            hidden: Vec::new(),
            parents: Vec::new(),
            split_weights: Vec::new(),
            split_thresholds: Vec::new(),
        }
    }

    /// Adds a sequence that stands alone.
    pub(super) fn add(&mut self, sequence: &Sequence) {
        self.add_from(sequence, 0);
    }

    /// Adds the steps of a sequence from `first` on: those before are its ancestors'.
    fn add_from(&mut self, sequence: &Sequence, first: usize) {
        let Sequence { basis, constants } = sequence;
        self.counts.push((constants.steps() - first) as u32);
        for row in basis.iter().skip(first) {
            for (column, value) in row.nonzeros() {
                self.columns.push(column);
                self.values.push(value);
            }
            self.starts.push(self.values.len() as u32);
        }
        self.triangle.extend(&constants.triangle[first * (first + 1) / 2..]);
        self.defects.extend(&constants.defects[first..]);
        for score in 0..self.scores {
            self.weights.extend(&constants.weights[score][first..]);
            self.rests.extend(&constants.rests[score][first..]);
            self.hidden.extend(&constants.hidden[score][first..]);
        }
    }

    pub(super) fn section(self, spec: &Spec, chunk: usize, centres: Vec<f64>) -> Section {
        let section = Section::new(spec.to_string())
            .with("chunk", Array::U32(vec![chunk as u32]))
            .with("counts", Array::U32(self.counts))
            .with("basis_starts", Array::U32(self.starts))
            .with("basis_columns", Array::U32(self.columns))
            .with("basis_values", Array::F64(self.values))
            .with("triangle", Array::F64(self.triangle))
            .with("defects", Array::F64(self.defects))
            .with("weights", Array::F64(self.weights))
            .with("residual_norms", Array::F64(self.rests))
            .with("residuals_in_span", Array::F64(self.hidden));
        if !self.split_thresholds.is_empty() {
            return section
                .with("parents", Array::U32(self.parents))
                .with("split_weights", Array::F64(self.split_weights))
                .with("split_thresholds", Array::F64(self.split_thresholds));
        }
        if centres.is_empty() { section } else { section.with("centres", Array::F64(centres)) }
    }
}
