//! Phase 2, screen: fits every proposed stage, times it in front of the fastest certified plan, and times combinations
//! of the fastest stages.
//!
//! Local search from the best plan is in `refine.rs`; how a plan is compared with the best is in `search.rs`.

use super::propose::StageKind;
use super::search::Search;
use crate::{CompileError, Task};

/// Screens the stages of one kind.
pub(super) fn screen<'a>(
    mut search: Search<'a>,
    task: &Task<'_>,
    kind: StageKind,
) -> Result<Search<'a>, CompileError> {
    let certified = match kind {
        StageKind::Certifying => Vec::new(),
        StageKind::Estimating => search.best.stages.clone(),
    };
    if kind == StageKind::Estimating {
        let answers = search.best.plan.decide_with(&search.timed_rows, &search.best.options)?;
        search.certified_cost = answers.mean_cost();
    }
    let proposals = search.proposals.take(kind);
    let count = proposals.len();
    for (number, proposal) in proposals.into_iter().enumerate() {
        search.context.limit.step("fitting stages", number, count)?;
        if let Some(stage) = search.cache.fit(proposal, task, search.context.limit)? {
            search.evaluate([&[stage], &certified[..]].concat())?;
        }
    }
    if count > 0 {
        search.try_best_of_each_name(kind)?;
        if kind == StageKind::Estimating {
            search.try_pairs(&certified)?;
        }
    }
    Ok(search)
}

impl Search<'_> {
    /// The fastest stage of each name, one after the other: a plan that no single stage leads to.
    fn try_best_of_each_name(&mut self, kind: StageKind) -> Result<(), CompileError> {
        let estimates = kind == StageKind::Estimating;
        let stages = &self.cache.stages;
        let mut chosen: Vec<usize> = Vec::new();
        for (number, stage) in stages.iter().enumerate() {
            if !stage.relative_time.is_finite() || stage.estimates != estimates {
                continue;
            }
            let same = chosen.iter().position(|at| self.cache.name(*at) == stage.spec.name());
            match same {
                Some(at) if stage.relative_time < stages[chosen[at]].relative_time => {
                    chosen[at] = number;
                }
                Some(_) => {}
                None => chosen.push(number),
            }
        }
        let names = chosen.len();
        if estimates {
            let certified = self.best_certified.as_ref().unwrap_or(&self.best);
            chosen.extend(certified.stages.iter().filter(|stage| !stages[**stage].estimates));
        }
        if names > 1 {
            let plan = self.cache.ordered(chosen);
            self.evaluate(plan)?;
        }
        Ok(())
    }

    /// Two estimating stages of different names in front of the certified ones: the best pair need not hold the best of
    /// either. Each is among the fastest of its name, or comes after one of the fastest of all: a stage that is slow
    /// as the first may be the best for the queries that another leaves open.
    fn try_pairs(&mut self, certified: &[usize]) -> Result<(), CompileError> {
        let most = self.context.policy.screen.combined;
        let stages = &self.cache.stages;
        let mut measured: Vec<usize> = (0..stages.len()).collect();
        measured.retain(|at| stages[*at].estimates && stages[*at].relative_time.is_finite());
        measured.sort_by(|a, b| stages[*a].relative_time.total_cmp(&stages[*b].relative_time));
        let name = |at: usize| self.cache.name(at);
        let mut pairs = Vec::new();
        for (number, first) in measured.iter().enumerate() {
            let rank = |place: usize| {
                let faster = &measured[..place];
                faster.iter().filter(|at| name(**at) == name(measured[place])).count()
            };
            let is_fast = rank(number) < most;
            let others = number + 1..measured.len();
            let others = others.filter(|other| name(measured[*other]) != name(*first));
            let others = others.filter(|other| number < most || is_fast && rank(*other) < most);
            pairs.extend(others.map(|other| [*first, measured[other]]));
        }
        for pair in pairs {
            let plan = self.cache.ordered([&pair, certified].concat());
            self.evaluate(plan)?;
        }
        Ok(())
    }
}
