//! Low-rank training: the Gram matrix becomes `G G'` by an incomplete Cholesky factorisation, and the
//! quadratic program over `G` is solved by coordinate descent or by an interior point method (\[FS01\] and beyond).
//!
//! One factor serves all subproblems, all values of C and all folds. The machine has the pivots as supports:
//! its scores are those of the low-rank kernel, never multipliers put into the exact one. The approximation
//! error is measured and reported.

mod approximation;
mod backend;
mod choice;
mod descent;
pub(crate) mod duality_gap;
mod factor_rows;
mod folds;
mod grow;
mod guard;
pub(crate) mod interior;
pub(crate) mod interior_systems;
mod polish;
mod problem;
mod report;
mod solve;

use mercer_machine::Scheme;
use mercer_spec::{Checked, Spec};

pub use approximation::ApproximationReport;
pub(crate) use choice::choose;
pub(crate) use factor_rows::FactorRows;
pub use guard::GuardReport;
pub use interior_systems::Systems;
pub use polish::PolishReport;

use crate::solvers::{Method, Solver};

/// The largest rank that can be given, or reached for a bound on the trace.
pub(crate) const MOST_RANK: usize = 65_536;

/// How pivots are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Random up to rank 256, then by the solution.
    Auto,
    /// The largest residual first (\[FS01\]).
    Greedy,
    /// Blocks drawn with probabilities as the residuals.
    Random,
    /// Blocks drawn with probabilities as the residuals times the squared coefficients of a first solution.
    SolutionAware,
}

impl Rule {
    pub(crate) const WORDS: &'static [&'static str] =
        &["auto", "greedy", "random", "solution_aware"];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::WORDS[self as usize]
    }

    pub(crate) fn named(name: &str) -> Self {
        match name {
            "greedy" => Self::Greedy,
            "random" => Self::Random,
            "solution_aware" => Self::SolutionAware,
            _ => Self::Auto,
        }
    }
}

/// How the quadratic program over the factor is solved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Descent where it is fast, the interior point method elsewhere.
    Auto,
    /// Coordinate descent.
    Descent,
    /// The interior point method.
    Interior,
    /// The interior point method of \[FS01\] as printed.
    Printed,
}

impl How {
    pub(crate) const WORDS: &'static [&'static str] = &["auto", "descent", "interior", "printed"];

    pub(crate) fn named(name: &str) -> Self {
        match name {
            "descent" => Self::Descent,
            "interior" => Self::Interior,
            "printed" => Self::Printed,
            _ => Self::Auto,
        }
    }
}

/// What numbers the factor is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// f32 where that suffices.
    Auto,
    /// f32.
    Single,
    /// f64.
    Double,
}

impl Precision {
    pub(crate) const WORDS: &'static [&'static str] = &["auto", "single", "double"];
}

/// The options of the low-rank solver.
#[derive(Debug, Clone, PartialEq)]
pub struct LowRank {
    spec: Spec,
    /// Pivots; `None` to double them until little is lost.
    pub(crate) rank: Option<usize>,
    /// Residual trace at which the factor is good enough, if one was given.
    pub(crate) trace: Option<f64>,
    /// Share of the objective that the low rank may cost, where the rank is free.
    pub(crate) tolerance: f64,
    pub(crate) pivots: Rule,
    pub(crate) how: How,
    pub(crate) systems: Systems,
    pub(crate) precision: Precision,
    pub(crate) guard: bool,
    pub(crate) seed: u64,
}

impl LowRank {
    pub(crate) fn new(checked: &Checked<'_>) -> Self {
        let word = |name: &str| checked.spec(name).map_or("auto", |word| word.name()).to_owned();
        let rank = checked.number("rank");
        let rank = rank.is_finite().then_some(rank as usize);
        let (pivots, how) = (Rule::named(&word("pivots")), How::named(&word("method")));
        let systems = Systems::named(&word("systems"));
        let precision = match word("precision").as_str() {
            "single" => Precision::Single,
            "double" => Precision::Double,
            _ => Precision::Auto,
        };
        let guard = word("guard") != "off";
        let trace = Some(checked.number("trace")).filter(|trace| *trace > 0.0);
        let (tolerance, seed) = (checked.number("tolerance"), checked.integer("seed") as u64);
        let spec = Spec::new("low_rank");
        let spec = match rank {
            Some(rank) => spec.set("rank", rank as f64),
            None => spec.set("rank", "auto"),
        };
        let spec = spec
            .set("trace", trace.unwrap_or(0.0))
            .set("tolerance", tolerance)
            .set("pivots", pivots.name())
            .set("method", How::WORDS[how as usize])
            .set("systems", systems.name())
            .set("precision", Precision::WORDS[precision as usize])
            .set("guard", if guard { "on" } else { "off" })
            .set("seed", seed as f64);
        Self { spec, rank, trace, tolerance, pivots, how, systems, precision, guard, seed }
    }
}

impl LowRank {
    /// The largest rank that the factor of so many examples may have.
    pub(crate) fn largest_rank(&self, examples: usize) -> usize {
        let free = if self.trace.is_some() { MOST_RANK } else { grow::LARGEST_RANK };
        self.rank.unwrap_or(free).min(examples)
    }

    /// The share of this trace at which the factor is good enough; `floor` if that is more, or none was given.
    pub(crate) fn trace_share(&self, whole: f64, floor: f64) -> f64 {
        let share = self.trace.filter(|_| whole > 0.0).map_or(0.0, |trace| trace / whole);
        share.max(floor)
    }
}

impl Solver for LowRank {
    fn spec(&self) -> Spec {
        self.spec.clone()
    }

    fn method(&self) -> Method<'_> {
        Method::LowRank(self)
    }

    fn tolerance(&self) -> f64 {
        1e-3
    }

    fn scheme(&self) -> Scheme {
        Scheme::OneVsOne
    }
}

/// What the training says of the factor, of what was lost and of the guard.
#[derive(Debug, Clone, PartialEq)]
pub struct LowRankReport {
    /// Pivots: supports of the machine.
    pub rank: usize,
    /// Trace of what the factor leaves out of the Gram matrix.
    pub trace: f64,
    /// The same as a share of the whole trace.
    pub trace_share: f64,
    /// The trace at which the factor was to stop growing, if one was given.
    pub trace_bound: Option<f64>,
    /// How pivots were chosen.
    pub pivots: &'static str,
    /// `single` or `double`.
    pub precision: &'static str,
    /// `descent`, `interior`, or both where subproblems differ.
    pub method: &'static str,
    /// How linear systems were solved.
    pub systems: &'static str,
    /// Iterations of the interior point method, all subproblems together.
    pub iterations: usize,
    /// Coordinate updates of descent, of all subproblems together.
    pub coordinate_updates: u64,
    /// Whether descent gave up and the interior point method took over.
    pub switched: bool,
    /// Systems that broke down and were solved by QR instead.
    pub fallbacks: usize,
    /// The running relative gap of the interior point method, before it was recomputed; the largest of the subproblems.
    pub running_gap: f64,
    /// Bytes of the factor.
    pub factor_bytes: usize,
    /// Whether the factor was kept in a file.
    pub on_disk: bool,
    /// Seconds for the factor, intermediate solutions included.
    pub factor_seconds: f64,
    /// Seconds for the last solution.
    pub solve_seconds: f64,
    /// The approximation error of each subproblem.
    pub approximation: Vec<ApproximationReport>,
    /// The exact machine on a part of the examples, where one was trained.
    pub guard: Option<GuardReport>,
    /// How the exact machine was reached from here, where that was requested.
    pub polish: Option<PolishReport>,
}
