//! `tune`: from a contract to the fastest plan that keeps it.
//!
//! The sample is cut at random into three disjoint parts. Stages are *fitted* to the first, plans are *measured* on the
//! second, which also gives the scales of estimates, and the third is the *test*, which only the phases validate and
//! choose use. The search has five phases, a file each; screen and refine run first for certifying stages, then
//! for estimating ones in front of the fastest certified plan, as the contract allows:
//!
//! 1. *propose*: the registry lists the stages that are worth fitting to this machine;
//! 2. *screen*: every stage is fitted and timed, then combinations of the fastest;
//! 3. *refine*: local search from the best plan, then re-timing;
//! 4. *validate*: candidates that estimate get their acceptance threshold on the test rows (see [`crate::risk`]);
//! 5. *choose*: the fastest validated candidate is kept; exact, unless it is clearly slower.
//!
//! Candidates are tested together, with `delta` shared among them; those that fail are dropped, and nothing is tried
//! again on the same rows. The constants of the search are in [`TunePolicy`], all times come from a [`Clock`]. Measured
//! times are noisy, so two runs may keep different plans; all else follows from the seed. ADR 0036 has the reasons.

mod budget;
mod choose;
mod clock;
mod contract;
mod fitted_stages;
mod limit;
mod policy;
mod propose;
mod refine;
mod report;
mod sample;
mod screen;
mod search;
mod threshold_predictor;
mod timing;
mod validate;

use std::time::Duration;

use mercer_data::Matrix;
use mercer_machine::{Answer, Machine, Output, PlanSections, Tuning, file};
use mercer_query::{Certainty, Plan};

pub use clock::{Clock, SimulatedClock, SimulatedCosts, Stopwatch, TimedQueries, WallClock};
pub use contract::{Aim, CONTRACTS, Contract};
pub use policy::{
    ChoosePolicy, LimitPolicy, PredictionPolicy, RefinePolicy, SamplePolicy, ScreenPolicy,
    TimingPolicy, TunePolicy, ValidatePolicy,
};

use crate::{CompileError, FittingData, Repeats, Task, Watch};
use limit::TimeLimit;
use sample::{TuneSample, drawn};
use search::Context;
use timing::Timer;

/// Searches for the fastest plan that keeps a contract.
///
/// ```
/// use mercer_compile::tune::{Contract, Tuner};
/// use mercer_data::{Matrix, synthetic};
/// use mercer_machine::{Answer, Machine, Output, Score};
/// let kernel = mercer_kernel::parse("rbf(gamma=1)")?;
/// let supports = synthetic::ripley(200, 1).examples;
/// let weights: Vec<f64> = (0..200).map(|n| if n % 2 == 0 { 1.0 } else { -0.7 }).collect();
/// let scores = vec![Score::expansion(&weights, 0.1)];
/// let machine = Machine::new(kernel, supports, scores, Output::Novelty)?;
/// let sample = synthetic::ripley(300, 2).examples;
/// let tuner = Tuner::new(&machine, &sample).contract(Contract::Certified);
/// # let clock = mercer_compile::tune::SimulatedClock::default();
/// # let tuner = tuner.clock(&clock);
/// let tuned = tuner.run()?;
/// assert_eq!(tuned.tuning().verification.disagreements, 0);
/// let plan = mercer_query::Plan::fitted(&machine, &tuned.sections)?;
/// println!("{}: {}", plan.spec(), tuned.tuning().reason);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Tuner<'a> {
    machine: &'a Machine,
    sample: &'a Matrix,
    training: Option<&'a Matrix>,
    contract: Contract,
    aim: Aim,
    budget_us: Option<f64>,
    unsettled: f64,
    tolerance: Option<f64>,
    time_limit: Duration,
    seed: u64,
    is_sample_trusted: bool,
    sample_labels: Option<&'a [Option<Answer>]>,
    watch: Watch<'a>,
    clock: &'a dyn Clock,
}

/// The plan that was kept, with the record of how it was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Tuned {
    /// The plan; its `tuning` is there.
    pub sections: PlanSections,
    /// Its answers to the test queries, in no particular order.
    pub points: Vec<Point>,
}

/// One query of the test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Distance of the exact score (or margin) from a change of label.
    pub margin: f64,
    /// Multiply-adds.
    pub cost: u64,
    /// Position of the stage that answered it.
    pub stage: usize,
    /// How sure the answer was.
    pub certainty: Certainty,
}

impl Tuned {
    /// How it was found.
    ///
    /// # Panics
    /// Never: the tuner writes it.
    pub fn tuning(&self) -> &Tuning {
        self.sections.tuning.as_deref().expect("the tuner writes it")
    }
}

const POLICY: TunePolicy = TunePolicy::DEFAULT;

impl<'a> Tuner<'a> {
    /// For this machine and a sample of queries like those to come, none of them a training row.
    pub fn new(machine: &'a Machine, sample: &'a Matrix) -> Self {
        Self {
            machine,
            sample,
            training: None,
            contract: Contract::Certified,
            aim: Aim::default(),
            budget_us: None,
            unsettled: POLICY.limits.unsettled,
            tolerance: None,
            time_limit: POLICY.limits.default_time,
            seed: 1,
            is_sample_trusted: false,
            sample_labels: None,
            watch: Watch::NOBODY,
            clock: &WallClock,
        }
    }

    /// What answers must be; certified by default.
    pub fn contract(mut self, contract: Contract) -> Self {
        self.contract = contract;
        self
    }

    /// What is to be fast; batches by default.
    pub fn aim(mut self, aim: Aim) -> Self {
        self.aim = aim;
        self
    }

    /// Rows the machine was trained on: stages are fitted to them too; nothing is measured or tested on them.
    pub fn training(mut self, rows: Option<&'a Matrix>) -> Self {
        self.training = rows;
        self
    }

    /// What is known to be right for each row of the sample: it helps to tell training rows among them.
    pub fn sample_labels(mut self, labels: Option<&'a [Option<Answer>]>) -> Self {
        self.sample_labels = labels;
        self
    }

    /// Most microseconds that one query may take; what needs longer stays unsettled.
    pub fn budget_us(mut self, microseconds: Option<f64>) -> Self {
        self.budget_us = microseconds;
        self
    }

    /// Share of the queries that the budget may leave unsettled, a hundredth by default; if it leaves more, the search
    /// fails and says what budget suffices.
    pub fn unsettled(mut self, share: f64) -> Self {
        self.unsettled = share;
        self
    }

    /// Half-width at which the value of a regression is settled.
    pub fn tolerance(mut self, tolerance: Option<f64>) -> Self {
        self.tolerance = tolerance;
        self
    }

    /// When the search ends with the best plan so far; two minutes by default.
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = limit;
        self
    }

    /// Decides how the sample is cut, and everything drawn.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// The sample may repeat supports: for data in which equal rows are common.
    pub fn trust_sample(mut self, is_trusted: bool) -> Self {
        self.is_sample_trusted = is_trusted;
        self
    }

    /// Called with progress; may interrupt the search.
    pub fn watch(mut self, watch: Watch<'a>) -> Self {
        self.watch = watch;
        self
    }

    /// Where times come from; the computer's own clock by default.
    pub fn clock(mut self, clock: &'a dyn Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Finds the plan.
    ///
    /// # Errors
    /// If the sample is too small or holds training rows, a row cannot be answered, a number is out of its
    /// range, or the caller interrupts it.
    pub fn run(&self) -> Result<Tuned, CompileError> {
        self.check()?;
        self.machine.check_width("fitting a plan")?;
        let (policy, repeated) = (&POLICY, self.check_sample()?);
        // The time of the first answers counts too.
        let limit = TimeLimit::new(self.watch, self.clock, self.time_limit, &policy.limits);
        self.watch.step("scoring the sample", 0, 1)?;
        let exact = Plan::exact(self.machine);
        let sample = TuneSample::new(self, &exact, policy)?;
        let may_go_on = |progress| limit.may_go_on(progress);
        let most = policy.sample.most_training;
        let training = self.training.map(|rows| drawn(rows, most, self.seed));
        let fitting_data = FittingData {
            sample: Some(&sample.fit),
            training: training.as_ref(),
            ..FittingData::default()
        };
        let task = Task::new(exact.exact_stage(), fitting_data, Watch::new(&may_go_on));
        let (clock, aim, deadline) = (self.clock, self.aim, limit.over());
        let timer = Timer { clock, policy: &policy.timing, aim, deadline };
        let digest = file::digest(self.machine);
        let (tuner, sample, limit) = (self, &sample, &limit);
        let context = Context { tuner, policy, sample, limit, timer, digest, repeated };

        let mut search = propose::propose(context, &task)?;
        for kind in search.kinds() {
            search = screen::screen(search, &task, kind)?;
            search = refine::refine(search)?;
        }
        let search = refine::finish(search)?;
        let validated = validate::validate(search)?;
        choose::choose(validated)
    }

    /// Rows of the sample that are supports; an error if a promise would rest on them.
    fn check_sample(&self) -> Result<usize, CompileError> {
        let repeats = Repeats::count(self.machine, self.sample, self.sample_labels);
        let rests_on_sample = matches!(self.contract, Contract::Calibrated(_));
        if rests_on_sample && repeats.are_training_rows() && !self.is_sample_trusted {
            let Repeats { found, rows, .. } = repeats;
            return Err(CompileError::TrainingRows { found, rows });
        }
        Ok(repeats.found)
    }

    fn check(&self) -> Result<(), CompileError> {
        if let Contract::Calibrated(target) = &self.contract {
            target.check()?;
        }
        let numbers = [("the budget", self.budget_us), ("the tolerance", self.tolerance)];
        for (name, value) in numbers {
            if let Some(value) = value.filter(|value| !(*value > 0.0 && value.is_finite())) {
                return Err(CompileError::NotPositive { name, value });
            }
        }
        if !(0.0..=1.0).contains(&self.unsettled) {
            return Err(CompileError::NotAShare {
                name: "the share of unsettled queries",
                value: self.unsettled,
            });
        }
        Ok(())
    }

    /// Whether the contract leaves anything to choose.
    fn may_compile(&self) -> bool {
        let is_value = matches!(self.machine.output(), Output::Value);
        self.contract != Contract::Exact && (!is_value || self.tolerance.is_some())
    }
}
