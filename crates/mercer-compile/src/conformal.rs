//! Calibration of prediction sets on a labelled sample that nothing else has looked at. What the sets are is in
//! `mercer_machine::Conformal`, how they are answered in `mercer_query`.

use mercer_data::Matrix;
use mercer_machine::{Answer, Conformal, Machine, MachineError, nonconformity};
use mercer_query::{Plan, QueryError, SetOptions};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::CompileError;

/// The share of a sample that calibrates prediction sets, where the rest tunes a plan.
const SHARE: f64 = 1.0 / 3.0;

/// A calibration and the nonconformities that it comes from, increasing.
#[derive(Debug, Clone, PartialEq)]
pub struct ConformalFit {
    /// The calibration.
    pub conformal: Conformal,
    /// Nonconformities of the sample, increasing.
    pub nonconformities: Vec<f64>,
    /// Mean size of the sets of the sample itself.
    pub mean_size: f64,
}

/// Calibrates prediction sets of a machine on rows with their targets; `None` is a class that the machine does not know.
///
/// # Errors
/// If the coverage is not between 0 and 1, the sample is too small for it, a target is missing or unknown, the machine is one of
/// novelty, or a score overflows.
pub fn conformalize(
    machine: &Machine,
    rows: &Matrix,
    targets: &[Option<Answer>],
    coverage: f64,
) -> Result<ConformalFit, CompileError> {
    // Coverage and size first: they are wrong before anything is computed.
    Conformal::needed_in(rows.rows() as u64, coverage).map_err(refused)?;
    let plan = Plan::exact(machine);
    let mut nonconformities = nonconformities(&plan, rows, targets)?;
    let conformal = Conformal::fit(nonconformities.clone(), coverage).map_err(refused)?;
    nonconformities.sort_by(f64::total_cmp);
    let sets = plan.predict_sets(rows, &conformal, &SetOptions::default()).map_err(unscored)?;
    let mean_size = sets.iter().map(|set| set.set.size()).sum::<f64>() / rows.rows() as f64;
    Ok(ConformalFit { conformal, nonconformities, mean_size })
}

/// What a test of stored prediction sets found, on rows of whoever received the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConformalRetest {
    /// Rows of the sample.
    pub rows: u64,
    /// Rows whose target the stored quantile covers.
    pub covered: u64,
    /// Rows that it must cover: then it is at least the quantile that this sample would give itself.
    pub needed: u64,
}

impl ConformalRetest {
    /// Whether these rows promise the coverage: the sets hold those that the rows themselves would calibrate.
    pub fn holds(&self) -> bool {
        self.covered >= self.needed
    }
}

/// Tests stored prediction sets on rows with targets that whoever made the file did not know. Of a calibration that was fitted
/// to its own sample about every second test says no, because its quantile is as often below that of another sample as
/// above it; what such a test proves is the promise itself, for whoever has these rows.
///
/// # Errors
/// As [`conformalize`].
pub fn retest_conformal(
    machine: &Machine,
    rows: &Matrix,
    targets: &[Option<Answer>],
    conformal: &Conformal,
) -> Result<ConformalRetest, CompileError> {
    let count = rows.rows() as u64;
    let needed = Conformal::needed_in(count, conformal.coverage()).map_err(refused)?;
    let found = nonconformities(&Plan::exact(machine), rows, targets)?;
    let covered = found.iter().filter(|found| **found <= conformal.quantile()).count() as u64;
    Ok(ConformalRetest { rows: count, covered, needed })
}

/// Nonconformities of all rows, in order.
fn nonconformities(
    plan: &Plan,
    rows: &Matrix,
    targets: &[Option<Answer>],
) -> Result<Vec<f64>, CompileError> {
    if targets.len() != rows.rows() {
        return Err(CompileError::NoTargets);
    }
    let machine = plan.exact_stage().machine();
    let scores = plan.scores(rows).map_err(unscored)?;
    let each = scores.chunks_exact(machine.scores().len()).zip(targets).zip(1..);
    let of = |((scores, target), row): ((&[f64], &Option<Answer>), usize)| {
        let target = target.ok_or(CompileError::UnknownTarget { row })?;
        let found = nonconformity(machine.output(), scores, target);
        found.ok_or(CompileError::NoConformal {
            reason: "novelty has no targets to cover".to_owned(),
        })
    };
    each.map(of).collect()
}

/// Cuts a sample at random: positions of the rows that calibrate prediction sets, and of those that are left for other uses. A
/// third calibrates, or as many as the coverage needs.
///
/// # Errors
/// If the coverage is not between 0 and 1, or the sample has not even the rows that it needs.
pub fn conformal_split(
    rows: usize,
    coverage: f64,
    seed: u64,
) -> Result<(Vec<usize>, Vec<usize>), CompileError> {
    let needed = Conformal::least_rows(coverage).map_err(refused)?;
    let count = ((rows as f64 * SHARE) as usize).max(usize::try_from(needed).unwrap_or(usize::MAX));
    if count > rows {
        let small = Conformal::fit(vec![0.0; rows], coverage);
        return Err(refused(small.expect_err("the sample has fewer rows than needed")));
    }
    let mut order: Vec<usize> = (0..rows).collect();
    order.shuffle(&mut Xoshiro256PlusPlus::seed_from_u64(seed));
    let others = order.split_off(count);
    Ok((order, others))
}

fn unscored(error: QueryError) -> CompileError {
    CompileError::NoConformal { reason: error.to_string() }
}

fn refused(error: MachineError) -> CompileError {
    CompileError::NoConformal { reason: error.to_string() }
}
