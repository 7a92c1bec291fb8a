//! Last looks at the best plan: at those that are about as fast, and at queries that are too rare to be timed.

use mercer_machine::Trial;

use super::clock::{PLACES, Runner, in_places, race, rounded};
use super::search::{Candidate, DOMINATED, Search};
use crate::CompileError;

/// Plans within this share of the best's time, and so many of them, run once more.
const ABOUT_AS_FAST: f64 = 1.2;
const RIVALS: usize = 10;
/// Estimating plans that share the last test with the best, at most, and how slow they may seem before it: thresholds are
/// foretold badly.
pub(super) const CONTENDERS: usize = 4;
const MAY_BE_FASTER: f64 = 2.0;
/// Laps of a plan beside itself with one stage more.
const LAST_ROUNDS: usize = 21;
/// Fewer queries than this of the measured part say little about how many a plan leaves to the exact stage.
const RARE: u64 = 10;
/// A stage that is to stand in for the exact one takes less than this share of its time.
const CHEAPER: f64 = 0.7;
/// And may cost the plan so much.
const AS_FAST: f64 = 1.02;

impl Search<'_> {
    /// Plans of the best one's kind that were about as fast run against it once more, all in turns: times of a few laps,
    /// each against another plan, say little about a few per cent. Nor do they in one place of memory, so each is
    /// loaded several times, and the mean over its places counts.
    pub(super) fn play_off(&mut self) -> Result<(), CompileError> {
        if self.tuner.budget_us.is_some() {
            return Ok(());
        }
        let mut runs = vec![self.best.stages.clone()];
        runs.extend(self.within(ABOUT_AS_FAST, &self.best).into_iter().take(RIVALS).cloned());
        if runs.len() == 1 {
            return Ok(());
        }
        let (options, rows) = (self.best.options, self.timed.clone());
        let seconds =
            in_places(&vec![(&options, &rows); runs.len()], self.tuner.aim, |run, place| {
                self.patience.step("measuring the fastest again", place, PLACES)?;
                self.load(&runs[run])
            })?;
        let relative = self.best.relative;
        for (stages, known) in &mut self.known {
            // Whoever contends in the last test is chosen by these times.
            if let Some(run) = runs.iter().position(|run| run == stages) {
                *known = relative * seconds[run] / seconds[0];
            }
        }
        let fastest = (0..runs.len()).min_by(|a, b| seconds[*a].total_cmp(&seconds[*b]));
        if let Some(winner) = fastest.filter(|at| *at > 0) {
            self.best.relative *= seconds[winner] / seconds[0];
            self.best.stages = runs.swap_remove(winner);
            let stages = self.best.stages.clone();
            self.best.plan = self.load(&stages)?;
        }
        Ok(())
    }

    /// The plans of the best one's kind that took less than so many times its time, the fastest first.
    fn within(&self, times: f64, best: &Candidate) -> Vec<&Vec<usize>> {
        let estimates = self.shelf.estimates(&best.stages);
        let limit = times * best.relative;
        let is_rival = |(stages, relative): &&(Vec<usize>, f64)| {
            let is_of_its_kind = self.shelf.estimates(stages) == estimates;
            *relative < limit && is_of_its_kind && *stages != best.stages
        };
        let mut known: Vec<_> = self.known.iter().filter(is_rival).collect();
        known.sort_by(|a, b| a.1.total_cmp(&b.1));
        known.into_iter().map(|(stages, _)| stages).collect()
    }

    /// Estimating plans for the last test beside the best, the fastest first. How narrow a plan's threshold will be is
    /// foretold badly, but alike for all plans that end with the same estimating stage: so each has another one.
    pub(super) fn contenders(&self, best: &Candidate) -> Vec<Vec<usize>> {
        let last = |stages: &[usize]| {
            let mut estimating = stages.iter().filter(|at| self.shelf.stages[**at].estimates);
            estimating.next_back().copied()
        };
        let mut ends = vec![last(&best.stages)];
        let mut chosen = Vec::new();
        for stages in self.within(MAY_BE_FASTER, best) {
            let end = last(stages);
            if chosen.len() < CONTENDERS && !ends.contains(&end) {
                ends.push(end);
                chosen.push(stages.clone());
            }
        }
        chosen
    }

    /// A plan may leave so few queries to the exact stage that the measured part hardly has one, and yet each of
    /// them costs as much as a hundred others. A proving stage that is faster then stands before the exact one,
    /// if nothing is lost by it.
    pub(super) fn insure(&mut self) -> Result<(), CompileError> {
        let rows = &self.parts.measured.rows;
        if self.tuner.budget_us.is_some() || self.best.stages.is_empty() {
            return Ok(());
        }
        let answers = self.best.plan.decide_with(rows, &self.best.options)?;
        let open = answers.settled_by_stage.last().copied().unwrap_or(0);
        let Some(stage) = self.insurance().filter(|_| open < RARE) else { return Ok(()) };
        let stages = [&self.best.stages[..], &[stage]].concat();
        let plan = self.load(&stages)?;
        let best = &self.best;
        let insured = Runner { plan: &plan, ..best.runner(&self.timed) };
        let runners = [best.runner(&self.timed), insured];
        let (laps, _) = race(&runners, self.tuner.aim, LAST_ROUNDS, DOMINATED)?;
        let ratio = laps[1].best / laps[0].best;
        let answers = plan.decide_with(&self.timed, &best.options)?;
        let by_exact = answers.settled_by_stage.last().copied().unwrap_or(0) as f64;
        let relative = best.relative * ratio;
        let name = self.shelf.spec(&stages).to_string();
        self.tried.retain(|trial| trial.plan != name);
        self.tried.push(Trial {
            plan: name,
            us: rounded(relative * self.exact_us),
            mean_cost: rounded(answers.mean_cost()),
            settled: rounded(1.0 - by_exact / self.timed.rows().max(1) as f64),
            dropped: false,
        });
        if ratio <= AS_FAST {
            let (options, unsettled) = (best.options, best.unsettled);
            self.best = Candidate { stages, plan, options, budget: None, relative, unsettled };
        }
        Ok(())
    }

    /// The fastest proving stage of a kind that the best plan has not.
    fn insurance(&self) -> Option<usize> {
        let stages = &self.shelf.stages;
        let names: Vec<&str> = self.best.stages.iter().map(|at| stages[*at].spec.name()).collect();
        let fits = |at: &usize| {
            let stage = &stages[*at];
            !stage.estimates && stage.alone < CHEAPER && !names.contains(&stage.spec.name())
        };
        let fitting = (0..stages.len()).filter(fits);
        fitting.min_by(|a, b| stages[*a].alone.total_cmp(&stages[*b].alone))
    }
}
