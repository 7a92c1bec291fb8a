//! The search for the fastest plan: proving stages first, alone and together; then estimating stages in
//! front of the fastest proved plan, which answers what they leave open; then stages are added to and taken
//! from the best so far.

use std::collections::HashSet;

use mercer_data::Matrix;
use mercer_machine::{Budget, Calibration, Output, PlanSections, Trial};
use mercer_query::{Plan, QueryOptions};

use super::clock::{Runner, duel, long_batch, race, rounded};
use super::foretell::Foreteller;
use super::last::CONTENDERS;
use super::parts::{Judged, Parts};
use super::rate::limit;
use super::shelf::{Patience, Shelf};
use super::{Aim, Contract, Tuner};
use crate::risk::{self, Target};
use crate::{CompileError, Task};

/// Seconds that one pass of exact answers over the timed rows may take.
const LONGEST_PASS: f64 = 0.2;
const LEAST_TIMED: usize = 256;
/// Laps that tell how a longer batch changes the time of a query.
const ROUNDS: usize = 5;
/// Laps of a new best plan beside one that stays.
const YARDSTICK_ROUNDS: usize = 3;
/// A plan that takes this many times as long as the best is dropped early.
pub(super) const DOMINATED: f64 = 1.3;
/// A plan must take less than this share of the best's time to replace it.
const CLEARLY: f64 = 0.98;
/// Shares of unsettled queries tracker than this count as equal.
const SAME_SHARE: f64 = 0.005;
/// So many stages of each kind are tried with those of other kinds.
const FASTEST: usize = 3;

/// A plan with what is known of it.
#[derive(Debug)]
pub(super) struct Candidate {
    pub stages: Vec<usize>,
    pub plan: Plan,
    pub options: QueryOptions,
    pub budget: Option<Budget>,
    /// Its time in times of exact.
    pub relative: f64,
    /// Share of queries that the budget leaves unsettled.
    pub unsettled: f64,
}

impl Candidate {
    pub(super) fn runner<'a>(&'a self, rows: &'a Matrix) -> Runner<'a> {
        Runner { plan: &self.plan, options: &self.options, rows }
    }

    fn beats(&self, other: &Self) -> bool {
        if (self.unsettled - other.unsettled).abs() > SAME_SHARE {
            return self.unsettled < other.unsettled;
        }
        self.relative < CLEARLY * other.relative
    }
}

/// What was tried, and the best of it.
#[derive(Debug)]
pub(super) struct Search<'a> {
    pub(super) tuner: &'a Tuner<'a>,
    pub(super) parts: &'a Parts,
    pub(super) patience: &'a Patience<'a>,
    /// The machine's digest.
    digest: String,
    /// Where plans may estimate.
    foreteller: Option<Foreteller<'a>>,
    pub shelf: Shelf,
    /// Rows on which exact answers are timed.
    pub few: Matrix,
    /// Rows on which plans are timed; more of them once plans are fast.
    pub timed: Matrix,
    /// Microseconds of an exact answer.
    pub(super) exact_us: f64,
    pub tried: Vec<Trial>,
    /// Mean cost of the fastest proved plan.
    proved_cost: f64,
    seen: HashSet<Vec<usize>>,
    /// Plans and their times in times of exact; of those dropped early, a rough one.
    pub(super) known: Vec<(Vec<usize>, f64)>,
    /// The fastest.
    pub best: Candidate,
    /// Exact answers, by which others are measured.
    exact: Candidate,
    /// The fastest whose answers are all proved, where the fastest is not.
    pub proved: Option<Candidate>,
    pub is_cut_short: bool,
}

impl<'a> Search<'a> {
    pub(super) fn new(
        tuner: &'a Tuner<'a>,
        parts: &'a Parts,
        patience: &'a Patience<'a>,
        digest: String,
    ) -> Result<Self, CompileError> {
        let plan = Plan::exact(tuner.machine);
        let options = QueryOptions { tolerance: tuner.tolerance, ..QueryOptions::default() };
        let rows = &parts.measured.rows;
        let first = rows.select(0..rows.rows().min(LEAST_TIMED));
        let seconds = |rows: &Matrix| {
            let runner = Runner { plan: &plan, options: &options, rows };
            race(&[runner], tuner.aim, 3, f64::INFINITY).map(|(laps, _)| laps[0].best)
        };
        let fitting = (LONGEST_PASS / seconds(&first)?.max(1e-12)) as usize;
        let few = rows.select(0..rows.rows().min(fitting.max(LEAST_TIMED)));
        let exact_us = 1e6 * seconds(&few)?;
        let (best, exact) = (exact(tuner, &few)?, exact(tuner, &few)?);
        let (tried, seen) = (Vec::new(), HashSet::new());
        // Only labels are estimated: a value has none to be right about.
        let is_value = matches!(tuner.machine.output(), Output::Value);
        let foreteller = match &tuner.contract {
            Contract::Calibrated(target) if parts.may_estimate && !is_value => {
                let tested = parts.verified.rows.rows();
                let is_shared = target.can_share(tested, CONTENDERS);
                let target = if is_shared { target.first_of(CONTENDERS) } else { *target };
                Some(Foreteller::new(tuner.machine, &parts.measured, target, tested))
            }
            _ => None,
        };
        Ok(Self {
            tuner,
            parts,
            patience,
            digest,
            foreteller,
            shelf: Shelf::default(),
            timed: few.clone(),
            few,
            exact_us,
            tried,
            proved_cost: 0.0,
            seen,
            known: Vec::new(),
            best,
            exact,
            proved: None,
            is_cut_short: false,
        })
    }

    /// Looks for the fastest plan until nothing helps or the time is over.
    pub(super) fn run(&mut self, task: &Task<'_>) -> Result<(), CompileError> {
        self.try_all(task, false)?;
        self.lengthen()?;
        if self.foreteller.is_some() {
            let answers = self.best.plan.decide_with(&self.timed, &self.best.options)?;
            self.proved_cost = answers.mean_cost();
            self.try_all(task, true)?;
            self.lengthen()?;
        }
        self.play_off()?;
        self.insure()?;
        self.is_cut_short |= self.shelf.is_cut_short;
        Ok(())
    }

    /// Goes over to a longer batch, if the best plan is fast enough for one; times so far are turned into times on
    /// that by what the best plan takes on either.
    fn lengthen(&mut self) -> Result<(), CompileError> {
        if self.tuner.aim == Aim::Latency {
            return Ok(());
        }
        let old = self.best.runner(&self.timed);
        let Some(rows) = long_batch(old, &self.parts.measured.rows)? else { return Ok(()) };
        let (laps, _) =
            race(&[old, self.best.runner(&rows)], self.tuner.aim, ROUNDS, f64::INFINITY)?;
        let factor = laps[1].best / laps[0].best;
        self.best.relative *= factor;
        let times = self.known.iter_mut().map(|(_, relative)| relative);
        for relative in times.chain(self.proved.as_mut().map(|proved| &mut proved.relative)) {
            *relative *= factor;
        }
        self.timed = rows;
        Ok(())
    }

    /// Fits every stage of one kind and measures it at once, in front of the fastest proved plan; then looks
    /// for better plans of all stages so far.
    fn try_all(&mut self, task: &Task<'_>, estimates: bool) -> Result<(), CompileError> {
        let proved = if estimates { self.best.stages.clone() } else { Vec::new() };
        let proposals = Shelf::proposals(task, estimates);
        let count = proposals.len();
        for (number, (fitter, spec)) in proposals.into_iter().enumerate() {
            self.patience.step("fitting stages", number, count)?;
            if let Some(stage) = self.shelf.fit(fitter, spec, task, self.patience)? {
                self.evaluate([&[stage], &proved[..]].concat())?;
            }
        }
        if count > 0 {
            self.chain(estimates)?;
            if estimates {
                self.pairs(&proved)?;
            }
            while self.improve()? {}
        }
        Ok(())
    }

    /// The best of each kind of stage, one after the other, is a start that no single stage leads to.
    fn chain(&mut self, estimates: bool) -> Result<(), CompileError> {
        let mut chosen: Vec<usize> = Vec::new();
        for (number, stage) in self.shelf.stages.iter().enumerate() {
            if !stage.alone.is_finite() || stage.estimates != estimates {
                continue;
            }
            let name = stage.spec.name();
            let same = chosen.iter().position(|at| self.shelf.stages[*at].spec.name() == name);
            match same {
                Some(at) if stage.alone < self.shelf.stages[chosen[at]].alone => {
                    chosen[at] = number;
                }
                Some(_) => {}
                None => chosen.push(number),
            }
        }
        let kinds = chosen.len();
        if estimates {
            let proved = self.proved.as_ref().unwrap_or(&self.best);
            let of_proof = |stage: &&usize| !self.shelf.stages[**stage].estimates;
            chosen.extend(proved.stages.iter().filter(of_proof));
        }
        if kinds > 1 {
            let stages = self.ordered(chosen);
            self.evaluate(stages)?;
        }
        Ok(())
    }

    /// Two estimating stages of different kinds in front of the proved ones: the best pair need not hold the best of
    /// either. Each is among the fastest of its kind, or stands behind one of the fastest of all: what is slow as
    /// the first stage may be the best for what another leaves open.
    fn pairs(&mut self, proved: &[usize]) -> Result<(), CompileError> {
        let mut known: Vec<usize> = (0..self.shelf.stages.len()).collect();
        known.retain(|at| {
            let stage = &self.shelf.stages[*at];
            stage.estimates && stage.alone.is_finite()
        });
        known.sort_by(|a, b| self.shelf.stages[*a].alone.total_cmp(&self.shelf.stages[*b].alone));
        let name = |at: usize| self.shelf.stages[at].spec.name();
        let mut pairs = Vec::new();
        for (number, a) in known.iter().enumerate() {
            let rank = |place: usize| {
                let faster = &known[..place];
                faster.iter().filter(|at| name(**at) == name(known[place])).count()
            };
            let is_fast = rank(number) < FASTEST;
            let others = (number + 1..known.len()).filter(|other| name(known[*other]) != name(*a));
            let others =
                others.filter(|other| number < FASTEST || is_fast && rank(*other) < FASTEST);
            pairs.extend(others.map(|other| [*a, known[other]]));
        }
        for pair in pairs {
            let stages = self.ordered([&pair, proved].concat());
            self.evaluate(stages)?;
        }
        Ok(())
    }

    /// Goes to the first plan beside the best that is better; whether there is one.
    fn improve(&mut self) -> Result<bool, CompileError> {
        for stages in self.neighbours() {
            if self.evaluate(stages)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The best plan with a stage less, with another of the same kind in the place of one, or with one more.
    fn neighbours(&self) -> Vec<Vec<usize>> {
        let start = &self.best.stages;
        let stages = &self.shelf.stages;
        let mut others: Vec<usize> = (0..stages.len()).collect();
        others.retain(|at| stages[*at].alone.is_finite() && !start.contains(at));
        others.sort_by(|a, b| stages[*a].alone.total_cmp(&stages[*b].alone));
        let without = |stage: usize| start.iter().copied().filter(move |other| *other != stage);
        let mut plans: Vec<Vec<usize>> = start.iter().map(|at| without(*at).collect()).collect();
        plans.retain(|plan| !plan.is_empty());
        for old in start {
            let name = stages[*old].spec.name();
            let alike = others.iter().filter(|new| stages[**new].spec.name() == name);
            plans.extend(alike.map(|new| self.ordered(without(*old).chain([*new]).collect())));
        }
        plans.extend(others.iter().map(|new| self.ordered([&start[..], &[*new]].concat())));
        plans
    }

    /// Cheap stages first.
    fn ordered(&self, mut stages: Vec<usize>) -> Vec<usize> {
        stages.sort_by(|a, b| self.shelf.stages[*a].cost.total_cmp(&self.shelf.stages[*b].cost));
        stages
    }

    /// Measures a plan that was not measured before; whether it is the new best.
    fn evaluate(&mut self, stages: Vec<usize>) -> Result<bool, CompileError> {
        if self.seen.contains(&stages) {
            return Ok(false);
        }
        self.patience.step("measuring plans", self.tried.len(), self.tried.len() + 1)?;
        if self.patience.is_over() {
            self.is_cut_short = true;
            return Ok(false);
        }
        self.seen.insert(stages.clone());
        let plan = match self.load(&stages) {
            Ok(plan) => plan,
            Err(CompileError::Ended) => return Err(CompileError::Ended),
            Err(error) => {
                let spec = self.shelf.spec(&stages);
                self.shelf.refuse(&spec, &error.to_string());
                return Ok(false);
            }
        };
        let options = QueryOptions { tolerance: self.tuner.tolerance, ..QueryOptions::default() };
        let mut candidate =
            Candidate { stages, plan, options, budget: None, relative: 1.0, unsettled: 0.0 };
        limit(self.tuner, &mut candidate, &self.timed)?;
        self.measure(candidate)
    }

    /// Takes the time of a plan beside the best, and notes both.
    fn measure(&mut self, mut candidate: Candidate) -> Result<bool, CompileError> {
        let answers = candidate.plan.decide_with(&self.timed, &candidate.options)?;
        let by_stages = &answers.settled_by_stage[..candidate.stages.len()];
        let is_known = self.shelf.stages[candidate.stages[0]].alone.is_finite();
        if candidate.stages.len() > 1 && is_known && by_stages.contains(&0) {
            // A stage that settles nothing only costs.
            let counts = candidate.stages.iter().zip(by_stages);
            let busy = counts.filter(|(_, count)| **count > 0).map(|(stage, _)| *stage);
            let busy: Vec<usize> = busy.collect();
            return if busy.is_empty() { Ok(false) } else { self.evaluate(busy) };
        }
        let rows = self.timed.rows().max(1) as f64;
        candidate.unsettled = answers.unsettled as f64 / rows;
        let by_exact = answers.settled_by_stage.last().copied().unwrap_or(0) as f64 / rows;
        let settled = (1.0 - by_exact - candidate.unsettled).max(0.0);
        let runners = [&self.best, &candidate].map(|of| of.runner(&self.timed));
        // With a budget a slower plan may settle more.
        let give_up = if self.tuner.budget_us.is_some() { f64::INFINITY } else { DOMINATED };
        let (laps, dropped) = duel(runners, self.tuner.aim, give_up)?;
        candidate.relative = self.best.relative * laps[1].best / laps[0].best;
        let is_best = candidate.beats(&self.best);
        if is_best {
            candidate.relative = self.against_yardstick(&candidate)?;
        }
        let mean_cost = answers.mean_cost();
        let first = &mut self.shelf.stages[candidate.stages[0]];
        if first.alone.is_infinite() {
            // What it leaves open costs as much as the plan behind it.
            let open = 1.0 - answers.settled_by_stage[0] as f64 / rows;
            let behind = match candidate.stages.len() {
                1 => candidate.plan.exact_stage().cost().multiply_adds as f64,
                _ => self.proved_cost,
            };
            first.cost = (mean_cost - open * behind).max(0.0);
            first.alone = candidate.relative;
        }
        self.tried.push(Trial {
            plan: self.shelf.spec(&candidate.stages).to_string(),
            us: rounded(candidate.relative * self.exact_us),
            mean_cost: rounded(mean_cost),
            settled: rounded(settled).min(1.0),
            dropped,
        });
        self.known.push((candidate.stages.clone(), candidate.relative));
        let is_proved = !self.shelf.estimates(&candidate.stages);
        if is_best {
            let old = std::mem::replace(&mut self.best, candidate);
            let old_is_proved = !self.shelf.estimates(&old.stages);
            if is_proved {
                self.proved = None;
            } else if old_is_proved {
                self.proved = Some(old);
            }
            return Ok(true);
        }
        let best_is_proved = !self.shelf.estimates(&self.best.stages);
        let is_better = self.proved.as_ref().is_none_or(|proved| candidate.beats(proved));
        if is_proved && !best_is_proved && is_better {
            self.proved = Some(candidate);
        }
        Ok(false)
    }

    /// The time of a plan in times of exact, taken anew beside a plan that stays: winners are lucky ones, and times
    /// reckoned from winner to winner would add up their luck.
    fn against_yardstick(&self, candidate: &Candidate) -> Result<f64, CompileError> {
        let is_proved = |candidate: &&Candidate| !self.shelf.estimates(&candidate.stages);
        let proved = self.proved.as_ref().or(Some(&self.best)).filter(is_proved);
        let (yardstick, rows) = match proved.filter(|_| !is_proved(&candidate)) {
            Some(proved) => (proved, &self.timed),
            None => (&self.exact, &self.few),
        };
        let runners = [yardstick.runner(rows), candidate.runner(&self.timed)];
        let (laps, _) = race(&runners, self.tuner.aim, YARDSTICK_ROUNDS, f64::INFINITY)?;
        Ok(yardstick.relative * laps[1].best / laps[0].best)
    }

    /// Exact answers as a candidate.
    pub(super) fn exact_again(&self) -> Result<Candidate, CompileError> {
        exact(self.tuner, &self.few)
    }

    /// The sections of a plan, without calibration.
    pub(super) fn sections(&self, stages: &[usize]) -> PlanSections {
        PlanSections {
            spec: self.shelf.spec(stages).to_string(),
            machine: self.digest.clone(),
            sections: stages.iter().map(|at| self.shelf.stages[*at].section.clone()).collect(),
            calibration: None,
            tuning: None,
        }
    }

    /// The plan of these stages; if it estimates, with a threshold that serves to compare, not to promise.
    pub(super) fn load(&mut self, stages: &[usize]) -> Result<Plan, CompileError> {
        let plan = Plan::load(self.tuner.machine, &self.sections(stages))?;
        if !self.shelf.estimates(stages) {
            return Ok(plan);
        }
        for stage in stages {
            let alone = self.sections(&[*stage]);
            let Some(foreteller) = self.foreteller.as_mut().filter(|teller| !teller.knows(*stage))
            else {
                continue;
            };
            foreteller.hear(*stage, &Plan::load(self.tuner.machine, &alone)?)?;
        }
        let Some(foreteller) = &self.foreteller else { return Ok(plan) };
        let exact = plan.exact_stage().cost().multiply_adds;
        Ok(plan.calibrated(foreteller.calibration(stages, exact))?)
    }

    /// Scales from the rows that measure, the threshold from these rows.
    pub(super) fn calibrate(
        &self,
        plan: &Plan,
        rows: &Matrix,
        scores: &[f64],
        target: &Target,
    ) -> Result<Calibration, CompileError> {
        let Judged { rows: seen, scores: known } = &self.parts.measured;
        let scales = risk::fitted_scales(plan, seen, known)?;
        risk::test(plan, rows, (scores, None), scales, target)
    }
}

fn exact(tuner: &Tuner<'_>, timed: &Matrix) -> Result<Candidate, CompileError> {
    let options = QueryOptions { tolerance: tuner.tolerance, ..QueryOptions::default() };
    let (stages, plan) = (Vec::new(), Plan::exact(tuner.machine));
    let mut exact =
        Candidate { stages, plan, options, budget: None, relative: 1.0, unsettled: 0.0 };
    limit(tuner, &mut exact, timed)?;
    let answers = exact.plan.decide_with(timed, &exact.options)?;
    exact.unsettled = answers.unsettled as f64 / timed.rows().max(1) as f64;
    Ok(exact)
}
