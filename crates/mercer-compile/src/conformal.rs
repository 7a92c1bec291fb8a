//! Calibration of prediction sets on a labelled sample that nothing else has looked at. What the sets are is in
//! `mercer_machine::Conformal`, how they are answered in `mercer_query`.

use mercer_data::Matrix;
use mercer_machine::{Answer, Conformal, Machine, MachineError, nonconformity};
use mercer_query::{Plan, QueryError};
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
    if targets.len() != rows.rows() {
        return Err(CompileError::NoTargets);
    }
    // Coverage and size first: they are wrong before anything is computed.
    Conformal::fit(vec![0.0; rows.rows()], coverage).map_err(refused)?;
    let plan = Plan::exact(machine);
    let unscored = |error: QueryError| CompileError::NoConformal { reason: error.to_string() };
    let scores = plan.scores(rows).map_err(unscored)?;
    let each = scores.chunks_exact(machine.scores().len()).zip(targets).zip(1..);
    let of = |((scores, target), row): ((&[f64], &Option<Answer>), usize)| {
        let target = target.ok_or(CompileError::UnknownTarget { row })?;
        let found = nonconformity(machine.output(), scores, target);
        found.ok_or(CompileError::NoConformal {
            reason: "novelty has no targets to cover".to_owned(),
        })
    };
    let mut nonconformities = each.map(of).collect::<Result<Vec<f64>, CompileError>>()?;
    let conformal = Conformal::fit(nonconformities.clone(), coverage).map_err(refused)?;
    nonconformities.sort_by(f64::total_cmp);
    let sets = plan.predict_sets(rows, &conformal, None).map_err(unscored)?;
    let mean_size = sets.iter().map(|set| set.set.size()).sum::<f64>() / rows.rows() as f64;
    Ok(ConformalFit { conformal, nonconformities, mean_size })
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

fn refused(error: MachineError) -> CompileError {
    CompileError::NoConformal { reason: error.to_string() }
}
