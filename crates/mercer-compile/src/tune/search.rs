//! The state of a search, which one phase passes to the next, and the comparison of a new plan with the best so far.
//!
//! Which plans are compared is decided in `screen.rs` and `refine.rs`; how they are timed is in `timing.rs`.

use std::collections::HashSet;

use mercer_data::Matrix;
use mercer_machine::{Budget, Output, PlanSections, Trial};
use mercer_query::{Answers, Plan, QueryOptions};

use super::budget::set_budget;
use super::fitted_stages::FittedStageCache;
use super::limit::TimeLimit;
use super::propose::{Proposals, StageKind};
use super::sample::TuneSample;
use super::threshold_predictor::ThresholdPredictor;
use super::timing::{Runner, Timer, rounded};
use super::validate::DeltaShares;
use super::{Contract, TunePolicy, Tuner};
use crate::CompileError;

/// The parts of a search that do not change.
#[derive(Debug)]
pub(super) struct Context<'a> {
    pub tuner: &'a Tuner<'a>,
    pub policy: &'a TunePolicy,
    pub sample: &'a TuneSample,
    pub limit: &'a TimeLimit<'a>,
    pub timer: Timer<'a>,
    /// The machine's digest.
    pub digest: String,
    /// Rows of the sample that are supports of the machine.
    pub repeated: usize,
}

impl<'a> Context<'a> {
    /// Exact answers as a candidate, timed on these rows.
    pub(super) fn exact(&self, timed: &Matrix) -> Result<PlanCandidate, CompileError> {
        let mut exact = self.candidate(Vec::new(), Plan::exact(self.tuner.machine));
        set_budget(self, &mut exact, timed)?;
        Ok(exact)
    }

    /// A plan before anything is measured.
    fn candidate(&self, stages: Vec<usize>, plan: Plan) -> PlanCandidate {
        let options = QueryOptions { tolerance: self.tuner.tolerance, ..QueryOptions::default() };
        PlanCandidate { stages, plan, options, budget: None, relative_time: 1.0, unsettled: 0.0 }
    }

    /// Predicts thresholds; none if plans may not estimate. Labels may be estimated, values of a regression never.
    fn predictor(&self) -> Option<ThresholdPredictor<'a>> {
        let is_value = matches!(self.tuner.machine.output(), Output::Value);
        let Contract::Calibrated(target) = &self.tuner.contract else { return None };
        if !self.sample.may_estimate || is_value {
            return None;
        }
        let tested = self.sample.test.rows.rows();
        let shares = DeltaShares::new(target, &self.policy.validate);
        let alternatives = self.policy.validate.alternatives;
        let is_shared = shares.is_worthwhile(tested);
        let target = if is_shared { shares.of_best(alternatives) } else { *target };
        let (machine, rows) = (self.tuner.machine, &self.sample.measure);
        Some(ThresholdPredictor::new(machine, rows, target, tested, &self.policy.prediction))
    }
}

/// A plan with its measurements.
#[derive(Debug)]
pub(super) struct PlanCandidate {
    /// Its stages, as positions in the cache.
    pub stages: Vec<usize>,
    pub plan: Plan,
    pub options: QueryOptions,
    pub budget: Option<Budget>,
    /// Its time relative to exact.
    pub relative_time: f64,
    /// Share of queries that the budget leaves unsettled.
    pub unsettled: f64,
}

impl PlanCandidate {
    /// The options with the budget. Plans are timed without it: refusing is fast.
    pub(super) fn limited(&self) -> QueryOptions {
        let budget = self.budget.map(|budget| budget.multiply_adds);
        QueryOptions { budget, ..self.options }
    }

    pub(super) fn runner<'a>(&'a self, rows: &'a Matrix) -> Runner<'a> {
        Runner { plan: &self.plan, options: &self.options, rows }
    }
}

/// A plan that was timed; if it was dropped early, its time is from few runs.
#[derive(Debug)]
pub(super) struct TimedPlan {
    pub stages: Vec<usize>,
    /// Its time relative to exact.
    pub relative_time: f64,
}

/// All plans that were tried, and the best of them.
#[derive(Debug)]
pub(super) struct Search<'a> {
    pub context: Context<'a>,
    /// Stages that are still to be fitted.
    pub proposals: Proposals,
    pub cache: FittedStageCache,
    /// None if plans may not estimate.
    predictor: Option<ThresholdPredictor<'a>>,
    /// Rows on which exact answers are timed.
    pub exact_rows: Matrix,
    /// Rows on which plans are timed; more of them once plans are fast.
    pub timed_rows: Matrix,
    /// Microseconds of an exact answer.
    pub exact_us: f64,
    /// All plans that were timed, for the report.
    pub tried: Vec<Trial>,
    pub timed: Vec<TimedPlan>,
    /// Plans that were tried, timed or not.
    seen: HashSet<Vec<usize>>,
    /// The fastest plan.
    pub best: PlanCandidate,
    /// The fastest plan without estimating stages; none if `best` is that plan.
    pub best_certified: Option<PlanCandidate>,
    /// Mean cost of the fastest certified plan.
    pub certified_cost: f64,
    /// The exact plan, beside which certified plans are timed.
    baseline: PlanCandidate,
    /// Whether the time limit ended the search.
    pub is_cut_short: bool,
}

impl<'a> Search<'a> {
    /// Begins with the exact plan as the best; times it.
    pub(super) fn new(mut context: Context<'a>) -> Result<Self, CompileError> {
        let policy = &context.policy.timing;
        let plan = context.candidate(Vec::new(), Plan::exact(context.tuner.machine));
        let seconds = |rows: &Matrix| {
            context.timer.time(plan.runner(rows), policy.baseline_rounds).map(|times| times.best)
        };
        let rows = &context.sample.measure.rows;
        let few_rows = rows.select(0..rows.rows().min(policy.least_timed));
        let fitting = (policy.longest_pass / seconds(&few_rows)?.max(1e-12)) as usize;
        let exact_rows = rows.select(0..rows.rows().min(fitting.max(policy.least_timed)));
        let exact_us = 1e6 * seconds(&exact_rows)?;
        let pass = 1e-6 * exact_us * exact_rows.rows() as f64;
        context.limit.reserve(context.policy.limits.finish_runs * pass);
        context.timer = context.timer.until(context.limit.over());
        let (best, baseline) = (context.exact(&exact_rows)?, context.exact(&exact_rows)?);
        Ok(Self {
            predictor: context.predictor(),
            context,
            proposals: Proposals::default(),
            cache: FittedStageCache::default(),
            timed_rows: exact_rows.clone(),
            exact_rows,
            exact_us,
            tried: Vec::new(),
            timed: Vec::new(),
            seen: HashSet::new(),
            best,
            best_certified: None,
            certified_cost: 0.0,
            baseline,
            is_cut_short: false,
        })
    }

    /// The kinds of stages that the contract allows, in the order in which they are tried: estimating stages are tried
    /// in front of the fastest certified plan.
    pub(super) fn kinds(&self) -> Vec<StageKind> {
        match (self.context.tuner.may_compile(), &self.predictor) {
            (false, _) => Vec::new(),
            (true, None) => vec![StageKind::Certifying],
            (true, Some(_)) => vec![StageKind::Certifying, StageKind::Estimating],
        }
    }

    /// Measures a plan, unless it was measured before. Returns whether it is the new best plan.
    pub(super) fn evaluate(&mut self, stages: Vec<usize>) -> Result<bool, CompileError> {
        if self.seen.contains(&stages) {
            return Ok(false);
        }
        self.context.limit.step("measuring plans", self.tried.len(), self.tried.len() + 1)?;
        if self.context.limit.is_over() {
            self.is_cut_short = true;
            return Ok(false);
        }
        self.seen.insert(stages.clone());
        let plan = match self.load(&stages) {
            Ok(plan) => plan,
            Err(CompileError::Interrupted) => return Err(CompileError::Interrupted),
            Err(error) => {
                let spec = self.cache.spec(&stages);
                self.cache.refuse(&spec, &error.to_string());
                return Ok(false);
            }
        };
        let mut candidate = self.context.candidate(stages, plan);
        set_budget(&self.context, &mut candidate, &self.timed_rows)?;
        let answers = candidate.plan.decide_with(&self.timed_rows, &candidate.limited())?;
        if let Some(useful) = self.without_idle_stages(&candidate, &answers) {
            return if useful.is_empty() { Ok(false) } else { self.evaluate(useful) };
        }
        self.measure(candidate, &answers)
    }

    /// The plan without its useless stages (those that settle no query), if it has any. But the first measurement of a
    /// stage is made even if it is useless.
    fn without_idle_stages(
        &self,
        candidate: &PlanCandidate,
        answers: &Answers,
    ) -> Option<Vec<usize>> {
        let stages = &candidate.stages;
        let settled = &answers.settled_by_stage[..stages.len()];
        let is_measured = self.cache.stages[stages[0]].relative_time.is_finite();
        if stages.len() < 2 || !is_measured || !settled.contains(&0) {
            return None;
        }
        let useful = stages.iter().zip(settled).filter(|(_, count)| **count > 0);
        Some(useful.map(|(stage, _)| *stage).collect())
    }

    /// Times a plan and the best plan in turns, and records the result. Returns whether it is the new best plan.
    fn measure(
        &mut self,
        mut candidate: PlanCandidate,
        answers: &Answers,
    ) -> Result<bool, CompileError> {
        let policy = &self.context.policy.screen;
        let runners = [&self.best, &candidate].map(|plan| plan.runner(&self.timed_rows));
        // With a budget a slower plan may settle more.
        let has_budget = self.context.tuner.budget_us.is_some();
        let give_up = if has_budget { f64::INFINITY } else { policy.dominated };
        let challenge = self.context.timer.challenge(runners, policy, give_up)?;
        candidate.relative_time = self.best.relative_time * challenge.ratio;
        let is_best = self.beats(&candidate, &self.best);
        if is_best {
            candidate.relative_time = self.time_beside_baseline(&candidate)?;
        }
        self.record(&candidate, answers, challenge.is_dropped);
        self.keep(candidate, is_best);
        Ok(is_best)
    }

    /// Whether a plan settles more queries than another, or as many and is clearly faster.
    fn beats(&self, candidate: &PlanCandidate, other: &PlanCandidate) -> bool {
        if candidate.unsettled != other.unsettled {
            return candidate.unsettled < other.unsettled;
        }
        candidate.relative_time < self.context.policy.screen.clearly_faster * other.relative_time
    }

    /// The time of a plan relative to exact, measured again in turns with a fixed plan, the baseline. A plan that becomes
    /// the best is often one whose times came out too low by chance; if its time were computed from that of the best plan
    /// before it, such errors would add up.
    fn time_beside_baseline(&self, candidate: &PlanCandidate) -> Result<f64, CompileError> {
        let is_certified = |candidate: &&PlanCandidate| !self.cache.estimates(&candidate.stages);
        let certified = self.best_certified.as_ref().or(Some(&self.best)).filter(is_certified);
        let (baseline, rows) = match certified.filter(|_| !is_certified(&candidate)) {
            Some(certified) => (certified, &self.timed_rows),
            None => (&self.baseline, &self.exact_rows),
        };
        let runners = [baseline.runner(rows), candidate.runner(&self.timed_rows)];
        let rounds = self.context.policy.screen.baseline_rounds;
        let times = self.context.timer.compare(&runners, rounds)?;
        Ok(baseline.relative_time * times[1].best / times[0].best)
    }

    /// Adds a plan to the report, and fills in time and cost of its first stage if they are new.
    fn record(&mut self, candidate: &PlanCandidate, answers: &Answers, dropped: bool) {
        let rows = self.timed_rows.rows().max(1) as f64;
        let by_exact = answers.settled_by_stage.last().copied().unwrap_or(0) as f64 / rows;
        let settled = (1.0 - by_exact - candidate.unsettled).max(0.0);
        let mean_cost = answers.mean_cost();
        let first = &mut self.cache.stages[candidate.stages[0]];
        if first.relative_time.is_infinite() {
            // Each query that it leaves open costs as much as the stages after it; the rest of the cost is its own.
            let open = 1.0 - answers.settled_by_stage[0] as f64 / rows;
            let cost_after = match candidate.stages.len() {
                1 => candidate.plan.exact_stage().cost().multiply_adds as f64,
                _ => self.certified_cost,
            };
            first.cost = (mean_cost - open * cost_after).max(0.0);
            first.relative_time = candidate.relative_time;
        }
        self.tried.push(Trial {
            plan: self.cache.spec(&candidate.stages).to_string(),
            us: rounded(candidate.relative_time * self.exact_us),
            mean_cost: rounded(mean_cost),
            settled: rounded(settled).min(1.0),
            dropped,
            compared: false,
        });
        let (stages, relative_time) = (candidate.stages.clone(), candidate.relative_time);
        self.timed.push(TimedPlan { stages, relative_time });
    }

    /// Keeps a plan if it is the best, or the best of the certified ones.
    fn keep(&mut self, candidate: PlanCandidate, is_best: bool) {
        let is_certified = !self.cache.estimates(&candidate.stages);
        let best_is_certified = !self.cache.estimates(&self.best.stages);
        if is_best {
            let previous = std::mem::replace(&mut self.best, candidate);
            if is_certified {
                self.best_certified = None;
            } else if best_is_certified {
                self.best_certified = Some(previous);
            }
            return;
        }
        let is_better =
            self.best_certified.as_ref().is_none_or(|certified| self.beats(&candidate, certified));
        if is_certified && !best_is_certified && is_better {
            self.best_certified = Some(candidate);
        }
    }

    /// The sections of a plan, without calibration.
    pub(super) fn sections(&self, stages: &[usize]) -> PlanSections {
        PlanSections {
            spec: self.cache.spec(stages).to_string(),
            machine: self.context.digest.clone(),
            sections: stages.iter().map(|at| self.cache.stages[*at].section.clone()).collect(),
            calibration: None,
            tuning: None,
        }
    }

    /// The plan of these stages; if it estimates, with a predicted threshold, which is good for comparing
    /// plans and for nothing else.
    pub(super) fn load(&mut self, stages: &[usize]) -> Result<Plan, CompileError> {
        let machine = self.context.tuner.machine;
        let plan = Plan::fitted(machine, &self.sections(stages))?;
        if !self.cache.estimates(stages) {
            return Ok(plan);
        }
        for stage in stages {
            let alone = self.sections(&[*stage]);
            let missing = self.predictor.as_mut().filter(|predictor| !predictor.has(*stage));
            if let Some(predictor) = missing {
                predictor.add(*stage, &Plan::fitted(machine, &alone)?)?;
            }
        }
        let Some(predictor) = &self.predictor else { return Ok(plan) };
        let exact = plan.exact_stage().cost().multiply_adds;
        Ok(plan.calibrated(predictor.calibration(stages, exact))?)
    }
}
