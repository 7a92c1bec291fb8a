//! What training gives: the machine and its report, and how both are built from the [`Fit`] of a backend.
//! The machine itself is put together in [`crate::assemble`]; what a backend reports is in [`crate::backend`].

use mercer_machine::Machine;

use crate::assemble;
use crate::backend::{Fit, FittedScores};
use crate::control::Control;
use crate::problem::Problem;
use crate::validate;
use crate::{
    Duals, LinearReport, LowRankReport, PrimalReport, Qp, Stop, SystemReport, TrainError,
    Validation,
};

/// What training gives.
#[derive(Debug, Clone)]
pub struct Trained {
    /// The machine; the best so far if the report says that it did not converge.
    pub machine: Machine,
    /// How it went.
    pub report: Report,
    /// The score of each subproblem as a sum over examples: the machine before equal support vectors were
    /// merged.
    pub expansions: Vec<Expansion>,
    /// Coefficients to start another training from, where they were requested.
    pub duals: Option<Duals>,
    /// Leave-one-out validation, where it costs no more training: each example is scored by the machine of
    /// all others.
    pub leave_one_out: Option<Validation>,
}

/// The score of one subproblem: coefficients of examples, and b.
#[derive(Debug, Clone, PartialEq)]
pub struct Expansion {
    /// Examples with a coefficient, by position.
    pub examples: Vec<u32>,
    /// Their coefficients β.
    pub coefficients: Vec<f64>,
    /// b.
    pub offset: f64,
}

/// How a training went. Each backend says where objective, gap and violation come from; for SMO they are recomputed
/// from kernel values in f64.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Wall-clock time; time before a resumed checkpoint included.
    pub seconds: f64,
    /// Pair steps or coordinate updates.
    pub iterations: u64,
    /// Whether every subproblem reached the tolerance, by the recomputed violation.
    pub converged: bool,
    /// Why it ended early, if it did.
    pub stop: Option<Stop>,
    /// Dual objective as LIBSVM prints it, summed over the subproblems.
    pub objective: f64,
    /// Duality gap, summed over the subproblems.
    pub gap: f64,
    /// Maximal violation of the optimality conditions, the largest of the subproblems.
    pub violation: f64,
    /// Distinct support vectors of the machine.
    pub supports: usize,
    /// Coefficients at bound (bounded support vectors), summed over the subproblems.
    pub bounded: usize,
    /// Kernel values computed for the solver's rows; those of the final test are not counted.
    pub kernel_values: u64,
    /// Largest number of bytes of packed rows and cached kernel rows at one time.
    pub peak_memory_bytes: usize,
    /// Bins and factors, for linear and additive solvers.
    pub linear: Option<Box<LinearReport>>,
    /// Rank and the trace that is left, for `direct`.
    pub system: Option<SystemReport>,
    /// The factor and its approximation error, for `low_rank`.
    pub low_rank: Option<Box<LowRankReport>>,
    /// Other coefficients of the dual solution, for `primal`.
    pub primal: Option<Box<PrimalReport>>,
    /// Which solver was chosen and why, for `auto`.
    pub chosen: Option<String>,
    /// Each binary subproblem.
    pub subproblems: Vec<SubproblemReport>,
}

/// How one binary subproblem was solved.
#[derive(Debug, Clone, PartialEq)]
pub struct SubproblemReport {
    /// Its name: `3 against 8`, `8 against the rest`, `all examples`.
    pub name: String,
    /// Whether it reached the tolerance.
    pub converged: bool,
    /// Pair steps or coordinate updates; 0 if a checkpoint had already finished it.
    pub iterations: u64,
    /// Dual objective as LIBSVM prints it.
    pub objective: f64,
    /// Duality gap.
    pub gap: f64,
    /// Maximal violation; for low-rank solvers the duality gap as a share of the objective.
    pub violation: f64,
    /// Non-zero coefficients.
    pub supports: usize,
    /// Coefficients at bound.
    pub bounded: usize,
}

impl SubproblemReport {
    /// A subproblem of which nothing is known.
    pub(crate) fn unsolved(name: String) -> Self {
        Self {
            name,
            converged: false,
            iterations: 0,
            objective: 0.0,
            gap: f64::INFINITY,
            violation: f64::INFINITY,
            supports: 0,
            bounded: 0,
        }
    }

    /// The same with the support vectors of a point of its quadratic program.
    pub(crate) fn with_point(self, qp: &Qp, beta: &[f64]) -> Self {
        let is_bounded = |v: &usize| {
            let value = beta[*v];
            value != 0.0 && (value <= qp.lower[*v] || value >= qp.upper[*v])
        };
        Self {
            supports: qp.fold(beta).iter().filter(|value| **value != 0.0).count(),
            bounded: (0..beta.len()).filter(is_bounded).count(),
            ..self
        }
    }
}

/// Builds the machine and the report of a training that ended.
///
/// # Errors
/// If the scores make no valid machine.
pub(crate) fn build_trained(
    problem: &Problem<'_>,
    fit: Fit,
    control: &Control<'_>,
) -> Result<Trained, TrainError> {
    let has_supports = matches!(fit.scores, FittedScores::Expansions { .. });
    let (machine, expansions) = assemble::machine(problem, fit.scores, fit.file.as_ref())?;
    let leave_one_out = fit.leave_one_out.map(|scores| {
        let mut validation = validate::leave_one_out(problem, scores);
        validation.seconds = control.elapsed().as_secs_f64();
        validation
    });
    let subproblems = fit.subproblems;
    let supports = if has_supports {
        machine.supports().rows()
    } else {
        // The machine keeps weights, not examples.
        subproblems.iter().map(|subproblem| subproblem.supports).sum()
    };
    let report = Report {
        seconds: control.elapsed().as_secs_f64(),
        iterations: control.iterations,
        converged: subproblems.iter().all(|subproblem| subproblem.converged),
        stop: fit.stop,
        objective: subproblems.iter().map(|subproblem| subproblem.objective).sum(),
        gap: subproblems.iter().map(|subproblem| subproblem.gap).sum(),
        violation: subproblems.iter().map(|subproblem| subproblem.violation).fold(0.0, f64::max),
        supports,
        bounded: subproblems.iter().map(|subproblem| subproblem.bounded).sum(),
        kernel_values: fit.kernel_values,
        peak_memory_bytes: fit.peak_memory_bytes,
        linear: fit.details.linear,
        system: fit.details.system,
        low_rank: fit.details.low_rank,
        primal: fit.details.primal,
        chosen: None,
        subproblems,
    };
    Ok(Trained { machine, report, expansions, duals: fit.duals, leave_one_out })
}
