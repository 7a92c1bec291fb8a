//! Vectors for the stage `compressed`: a small machine beside the whole one, and how far it is from it. Compression
//! for its own sake is in `compress/`, which finds the vectors.

use mercer_data::Matrix;
use mercer_kernel::factor::{Factor, Given, KernelColumns};
use mercer_machine::{Array, Machine, PlanSections, Score, Section, file};
use mercer_query::entries;
use mercer_query::verify::Near;
use mercer_query::verify::sequence::{ScoreNorms, SequenceConstants};
use mercer_spec::{Checked, Spec};

use super::anytime::{Sequence, SequenceArrays};
use super::{Fitter, has_only_expansions};
use crate::compress::CompressionProblem;
use crate::compress::greedy::{Greedy, GreedyRun};
use crate::compress::moved::{self, Moved, MovedRun};
use crate::kernel_gradient::inverted;
use crate::{CompileError, FittingData, Task, Watch};

pub(super) static FITTER: Fitter =
    Fitter { stage: &entries::COMPRESSED, estimates: false, stops: false, propose, fit };

const STAGE: &str = "compressed";
/// Share of its own square that a vector must add: the factor is used online.
const PIVOT: f64 = 1e-8;
/// Sparse rows of no more columns are multiplied as dense ones.
const FEW_COLUMNS: usize = 512;
/// More vectors are no small machine.
const MOST: usize = 4096;

fn unfit(reason: impl Into<String>) -> CompileError {
    CompileError::Unfit { stage: STAGE, reason: reason.into() }
}

/// What the stage's text says.
#[derive(Debug, Clone, Copy)]
struct CompressedSettings {
    /// None: a tenth of the supports.
    size: Option<usize>,
    method: Method,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    Auto,
    Greedy,
    Moved,
}

impl CompressedSettings {
    fn new(arguments: &Checked<'_>) -> Self {
        let method = match arguments.word("method") {
            "greedy" => Method::Greedy,
            "moved" => Method::Moved,
            _ => Method::Auto,
        };
        Self { size: arguments.integer_or_word("k"), method }
    }
}

/// Kernel values among supports that are worth their time: more are not looked at.
const MOST_WORK: f64 = 2e10;

fn propose(task: &Task<'_>) -> Vec<Spec> {
    let machine = task.exact.machine();
    let (rows, live) = (machine.supports().rows(), task.exact.packed().live_columns());
    let work = (rows * rows) as f64 * live.max(16) as f64;
    if !has_only_expansions(task) || check(machine).is_err() || rows < 40 || work > MOST_WORK {
        return Vec::new();
    }
    let size = |share: usize| Spec::new(STAGE).set("k", (rows / share).min(MOST) as f64);
    [40, 20, 10, 5].into_iter().filter(|share| rows / share >= 4).map(size).collect()
}

fn fit(arguments: &Checked<'_>, task: &Task<'_>) -> Result<Section, CompileError> {
    let settings = CompressedSettings::new(arguments);
    if let Some(size) = settings.size.filter(|size| *size > MOST) {
        return Err(unfit(format!("k is {size}; it must be between 1 and {MOST}")));
    }
    let machine = task.exact.machine();
    check(machine)?;
    let rows = choose(machine, settings, task)?;
    section(arguments.text(), machine, &rows, &task.watch)
}

fn check(machine: &Machine) -> Result<(), CompileError> {
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
    Ok(())
}

fn choose(
    machine: &Machine,
    settings: CompressedSettings,
    task: &Task<'_>,
) -> Result<Matrix, CompileError> {
    let fitting_data = FittingData { training: task.training, ..FittingData::default() };
    let refuse = |error: CompileError| match error {
        CompileError::Uncompressible { reason, .. } => unfit(reason),
        CompileError::Query(error) => unfit(error.to_string()),
        other => other,
    };
    let problem = CompressionProblem::new(machine, fitting_data, task.watch).map_err(refuse)?;
    let size = settings.size.unwrap_or_else(|| (problem.len() / 10).clamp(8, 512));
    let size = size.min(problem.max_rank());
    let refusal = moved::refusal(machine);
    let moves = match settings.method {
        Method::Greedy => false,
        Method::Moved => true,
        // Moved vectors are dense: where rows are wide and sparse they cost more than they save.
        Method::Auto => {
            let is_narrow = machine.columns() <= FEW_COLUMNS;
            refusal.is_none() && (is_narrow || !problem.supports.is_sparse())
        }
    };
    if moves {
        if let Some(reason) = refusal {
            return Err(unfit(reason));
        }
        return MovedRun::new(&problem, Moved::default()).rows(size).map_err(refuse);
    }
    let greedy = Greedy { pivot: PIVOT, ..Greedy::default() };
    let rows = GreedyRun::new(&problem, greedy).rows(size).map_err(refuse)?;
    Ok(problem.supports.select(rows))
}

/// A plan of this stage and the exact one, with these vectors.
pub(crate) fn sections(
    machine: &Machine,
    rows: &Matrix,
    watch: &Watch<'_>,
) -> Result<PlanSections, CompileError> {
    check(machine)?;
    let spec = Spec::new(STAGE).set("k", rows.rows() as f64);
    let section = section(&spec, machine, rows, watch)?;
    Ok(PlanSections {
        spec: Spec::new("cascade").with(spec).with("exact").to_string(),
        machine: file::digest(machine),
        sections: vec![section],
        calibration: None,
        tuning: None,
    })
}

/// What the stage keeps of vectors: those of a sequence of `anytime`, and what single vectors and a few
/// together say.
fn section(
    spec: &Spec,
    machine: &Machine,
    rows: &Matrix,
    watch: &Watch<'_>,
) -> Result<Section, CompileError> {
    if rows.rows() > MOST {
        return Err(unfit(format!("{} vectors are more than {MOST}", rows.rows())));
    }
    let columns = |rows: &Matrix| {
        KernelColumns::new(machine.kernel().clone(), rows.clone(), machine.centre(), 0)
    };
    let mut supports = columns(machine.supports());
    let refuse = CompileError::measuring(STAGE);
    let lengths = ScoreNorms::new(machine, &mut supports, watch).map_err(&refuse)?;
    let mut factor = Factor::new(columns(rows), PIVOT);
    let mut ended = None;
    factor.grow(&mut Given::new(0..rows.rows()), rows.rows(), &mut |factor| {
        let goes_on = watch.step("factoring vectors", factor.rank(), rows.rows());
        ended = goes_on.err().map(CompileError::from);
        ended.is_none()
    });
    if let Some(error) = ended {
        return Err(error);
    }
    let basis = rows.select(factor.pivots().iter().filter_map(|pivot| pivot.row));
    if basis.rows() == 0 {
        return Err(unfit("no vector passes the pivot test"));
    }
    let triangle: Vec<&[f64]> =
        factor.pivots().iter().map(|pivot| pivot.coordinates.as_slice()).collect();
    let triangle = inverted(&triangle);
    let constants =
        SequenceConstants::new(machine, &basis, &triangle, None, &mut supports, &lengths);
    let constants = constants.map_err(&refuse)?;
    let near = Near::new(&constants, &lengths, None);
    let basis = basis.select(0..constants.steps());
    let scores = machine.scores().len();
    let mut arrays = SequenceArrays::new(scores);
    arrays.add(&Sequence { basis, constants });
    let section = arrays.section(spec, 16, Vec::new());
    Ok(section
        .with("coefficients", Array::F64(near.coefficients))
        .with("difference_norms", Array::F64(near.strays))
        .with("difference_products", Array::F64(near.slants)))
}
