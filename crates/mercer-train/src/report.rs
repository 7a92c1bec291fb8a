use mercer_machine::Machine;

use crate::{Duals, LinearReport, LowRankReport, Stop, SystemReport, Validation};

/// What training gives.
#[derive(Debug, Clone)]
pub struct Trained {
    /// The machine; the best so far if the report says that it did not converge.
    pub machine: Machine,
    /// How it went.
    pub report: Report,
    /// What each question gave, example by example: the machine before equal supports were merged.
    pub expansions: Vec<Expansion>,
    /// Coefficients to start another training from, where they were asked for.
    pub duals: Option<Duals>,
    /// What each example is answered by the machine of all others, where the algebra gives it for nothing:
    /// every example is a fold of its own.
    pub left_out: Option<Validation>,
}

/// The score of one question: coefficients of examples, and b.
#[derive(Debug, Clone, PartialEq)]
pub struct Expansion {
    /// Examples with a coefficient, by position.
    pub examples: Vec<u32>,
    /// Their coefficients β.
    pub coefficients: Vec<f64>,
    /// b.
    pub offset: f64,
}

/// How a training went. Objective, gap and violation are recomputed from kernel values in doubles.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Wall-clock time; time before a resumed checkpoint included.
    pub seconds: f64,
    /// Pair steps.
    pub iterations: u64,
    /// Whether every part reached the tolerance, by the honest test.
    pub converged: bool,
    /// Why it ended early, if it did.
    pub stop: Option<Stop>,
    /// Dual objective as LIBSVM prints it, summed over the parts.
    pub objective: f64,
    /// Duality gap, summed over the parts.
    pub gap: f64,
    /// Maximal violation, the worst of the parts.
    pub violation: f64,
    /// Distinct support vectors of the machine.
    pub supports: usize,
    /// Coefficients at their limit, summed over the parts.
    pub bounded: usize,
    /// Kernel values computed for the solver's rows; those of the final test are not counted.
    pub kernel_values: u64,
    /// The most bytes of packed rows and kept kernel rows held at once.
    pub peak_memory_bytes: usize,
    /// Levels and factors, where the solver uses some.
    pub table: Option<Box<LinearReport>>,
    /// Rank and what it leaves, where the solver is `direct`.
    pub system: Option<SystemReport>,
    /// The factor and what it cost, where the solver uses one.
    pub low_rank: Option<Box<LowRankReport>>,
    /// Which solver was chosen and why, where that was left open.
    pub chosen: Option<String>,
    /// Each binary question.
    pub parts: Vec<SubproblemReport>,
}

/// How one binary question went.
#[derive(Debug, Clone, PartialEq)]
pub struct SubproblemReport {
    /// What it is about: `3 against 8`, `8 against the rest`, `all examples`.
    pub name: String,
    /// Whether it reached the tolerance.
    pub converged: bool,
    /// Pair steps; none are known of a question that a checkpoint had finished.
    pub iterations: u64,
    /// Dual objective as LIBSVM prints it.
    pub objective: f64,
    /// Duality gap.
    pub gap: f64,
    /// Maximal violation; for low-rank solvers the duality gap as a share of the objective.
    pub violation: f64,
    /// Non-zero coefficients.
    pub supports: usize,
    /// Coefficients at their limit.
    pub bounded: usize,
}
