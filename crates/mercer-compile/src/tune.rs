//! From a contract to the fastest plan that honours it.
//!
//! The sample is cut at random into parts that never meet: stages are *fitted* to the first, plans are
//! *measured* on the second, which gives estimates their scales too, and the last is not looked at until a plan is chosen. That one is tested on
//! it, once: proved plans must give the exact labels there, and a plan that estimates gets its acceptance threshold there
//! (see [`crate::risk`]); where that costs little, up to four contenders share the test, each at its
//! part of `delta`, and the fastest is kept. If the test fails, the fastest proved plan or the exact one is
//! kept; nothing is tried again on the same rows.
//!
//! Time decides, not only multiply-adds, and time is noisy: plans run in turns, and the best of several
//! laps counts. All else follows from the seed.

mod clock;
mod contract;
mod finish;
mod foretell;
mod last;
mod parts;
mod rate;
mod search;
mod shelf;

use std::time::Duration;

use mercer_data::Matrix;
use mercer_machine::{Machine, Output, PlanSections, Tuning, file};
use mercer_query::{Certainty, Plan};

pub use contract::{Aim, CONTRACTS, Contract};
pub use rate::two_digits;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::compiler::{REPEATED, repeated};
use crate::{CompileError, FittingData, Task, Watch};
use parts::Parts;
use search::Search;
use shelf::Patience;

/// Looks for the fastest plan that honours a contract.
///
/// ```
/// use mercer_compile::tune::{Contract, Tuner};
/// use mercer_data::{Matrix, synthetic};
/// use mercer_machine::{Machine, Output, Score};
/// let kernel = mercer_kernel::parse("rbf(gamma=1)")?;
/// let supports = synthetic::ripley(200, 1).examples;
/// let weights: Vec<f64> = (0..200).map(|n| if n % 2 == 0 { 1.0 } else { -0.7 }).collect();
/// let scores = vec![Score::expansion(&weights, 0.1)];
/// let machine = Machine::new(kernel, supports, scores, Output::Novelty)?;
/// let sample = synthetic::ripley(300, 2).examples;
/// let tuned = Tuner::new(&machine, &sample).contract(Contract::Certified).run()?;
/// assert_eq!(tuned.tuning().verification.disagreements, 0);
/// let plan = mercer_query::Plan::load(&machine, &tuned.sections)?;
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
    tolerance: Option<f64>,
    time_limit: Duration,
    seed: u64,
    is_sample_trusted: bool,
    watch: Watch<'a>,
}

/// The plan that was kept, with the record of how it was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Tuned {
    /// The plan; its `tuning` is there.
    pub sections: PlanSections,
    /// What it made of the queries of the test, in no particular order.
    pub points: Vec<Point>,
}

/// One query of the test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Distance of the exact score (or margin) from a change of label.
    pub margin: f64,
    /// Multiply-adds.
    pub cost: u64,
    /// Position of the stage that closed it.
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

/// More training rows teach little for their time.
const MOST_TRAINING: usize = 20_000;

/// At most so many rows, drawn at random.
fn drawn(rows: &Matrix, seed: u64) -> Matrix {
    let mut order: Vec<usize> = (0..rows.rows()).collect();
    order.shuffle(&mut Xoshiro256PlusPlus::seed_from_u64(seed));
    order.truncate(MOST_TRAINING);
    rows.select(order)
}

/// Time in which most machines are searched.
const TIME_LIMIT: Duration = Duration::from_secs(120);

impl<'a> Tuner<'a> {
    /// For this machine and queries such as will be asked, none of them a training row.
    pub fn new(machine: &'a Machine, sample: &'a Matrix) -> Self {
        Self {
            machine,
            sample,
            training: None,
            contract: Contract::Certified,
            aim: Aim::default(),
            budget_us: None,
            tolerance: None,
            time_limit: TIME_LIMIT,
            seed: 1,
            is_sample_trusted: false,
            watch: Watch::NOBODY,
        }
    }

    /// What answers must be; certified if nothing is said.
    pub fn contract(mut self, contract: Contract) -> Self {
        self.contract = contract;
        self
    }

    /// What is to be fast; batches if nothing is said.
    pub fn aim(mut self, aim: Aim) -> Self {
        self.aim = aim;
        self
    }

    /// Rows the machine was trained on, to learn from; nothing is measured or tested on them.
    pub fn training(mut self, rows: Option<&'a Matrix>) -> Self {
        self.training = rows;
        self
    }

    /// Most microseconds that one query may take; what needs longer stays unsettled.
    pub fn budget_us(mut self, microseconds: Option<f64>) -> Self {
        self.budget_us = microseconds;
        self
    }

    /// Half-width at which the value of a regression is settled.
    pub fn tolerance(mut self, tolerance: Option<f64>) -> Self {
        self.tolerance = tolerance;
        self
    }

    /// When the search ends with the best so far; two minutes if nothing is said.
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

    /// Who is told how far it is, and may end it.
    pub fn watch(mut self, watch: Watch<'a>) -> Self {
        self.watch = watch;
        self
    }

    /// Finds the plan.
    ///
    /// # Errors
    /// If the sample is too small or holds training rows, a row cannot be answered, a number is out of its
    /// range, or whoever watches ends it.
    pub fn run(&self) -> Result<Tuned, CompileError> {
        self.check()?;
        let found = repeated(self.machine, self.sample);
        let rests_on_sample = matches!(self.contract, Contract::Calibrated(_));
        let is_too_many = found as f64 > REPEATED * self.sample.rows() as f64;
        if rests_on_sample && is_too_many && !self.is_sample_trusted {
            return Err(CompileError::TrainingRows { found, rows: self.sample.rows() });
        }
        self.watch.step("options the sample exactly", 0, 1)?;
        let exact = Plan::exact(self.machine);
        let has_training = self.training.is_some();
        let parts = Parts::new(&exact, self.sample, &self.contract, has_training, self.seed)?;
        let patience = Patience::new(self.watch, self.time_limit);
        let ask = |progress| patience.ask(progress);
        let training = self.training.map(|rows| drawn(rows, self.seed));
        let fitting_data = FittingData {
            sample: Some(&parts.fitted),
            training: training.as_ref(),
            ..FittingData::default()
        };
        let task = Task::new(exact.exact_stage(), fitting_data, Watch::new(&ask));
        let digest = file::digest(self.machine);
        let mut search = Search::new(self, &parts, &patience, digest)?;
        if self.may_compile() {
            search.run(&task)?;
        }
        self.watch.step("testing the plan", 0, 1)?;
        finish::finish(self, search, &parts, found)
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
        Ok(())
    }

    /// Whether the contract leaves anything to choose.
    fn may_compile(&self) -> bool {
        let is_value = matches!(self.machine.output(), Output::Value);
        self.contract != Contract::Exact && (!is_value || self.tolerance.is_some())
    }
}
