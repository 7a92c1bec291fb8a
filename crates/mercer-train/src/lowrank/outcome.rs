//! From solutions over a factor to a machine of its pivots, and what is said of it.

use mercer_kernel::factor::Blocked;
use mercer_machine::{Machine, Score};
use mercer_simd::Real;

use super::question::{Ask, Asked, Solved};
use super::{LowRank, LowRankReport, Rule, lost};
use crate::control::Control;
use crate::training::{conclusion_of, majority};
use crate::{Expansion, Report, SubproblemReport, TrainError};

/// What is said of the factor and of how the questions were solved; what was lost comes later.
pub(super) fn described<T: Real>(
    recipe: &LowRank,
    factor: &Blocked<T>,
    solved: &[Solved],
    (factor_seconds, solve_seconds): (f64, f64),
) -> LowRankReport {
    LowRankReport {
        rank: factor.rank(),
        trace: factor.trace(),
        trace_share: factor.trace_share(),
        pivots: match recipe.pivots {
            Rule::Auto => "random, then solution_aware",
            other => other.name(),
        },
        precision: if T::BYTES == 4 { "single" } else { "double" },
        method: method(solved),
        systems: recipe.systems.name(),
        iterations: solved.iter().map(|one| one.found.iterations).sum(),
        coordinate_updates: solved.iter().map(|one| one.found.updates).sum(),
        switched: solved.iter().any(|one| one.switched),
        fallbacks: solved.iter().map(|one| one.found.fallbacks).sum(),
        running_gap: solved.iter().map(|one| one.found.running_gap).fold(0.0, f64::max),
        factor_bytes: factor.store().rows() * factor.rank() * T::BYTES,
        on_disk: factor.store().is_on_disk(),
        factor_seconds,
        solve_seconds,
        lost: Vec::new(),
        guard: None,
        polish: None,
    }
}

/// The word for how they were found.
fn method(solved: &[Solved]) -> &'static str {
    let interior = solved.iter().filter(|one| one.found.iterations > 0).count();
    match interior {
        0 => "descent",
        all if all == solved.len() => "interior",
        _ => "descent and interior",
    }
}

/// What was lost, question by question; estimated where there is no time.
pub(super) fn asks_lost<T: Real>(
    asked: &Asked<'_>,
    factor: &Blocked<T>,
    asks: &[Ask],
    solved: &[Solved],
    control: &Control<'_>,
) -> Vec<lost::LostReport> {
    let measure = |(ask, one): (&Ask, &Solved)| {
        if control.stop().is_some() {
            return lost::sampled(asked, factor, ask, one, asked.recipe.seed);
        }
        lost::measure(asked, factor, ask, one)
    };
    asks.iter().zip(solved).map(measure).collect()
}

/// The machine, its expansions and a report for each question.
pub(super) fn assemble<T: Real>(
    asked: &Asked<'_>,
    factor: &Blocked<T>,
    asks: &[Ask],
    solved: &[Solved],
) -> Result<(Machine, Vec<Expansion>, Vec<SubproblemReport>), TrainError> {
    let pivots: Vec<u32> =
        factor.pivots().iter().map(|row| asked.examples[*row as usize]).collect();
    let (mut expansions, mut scores, mut parts) = (Vec::new(), Vec::new(), Vec::new());
    for (ask, one) in asks.iter().zip(solved) {
        let found = &one.found;
        let is_over = found.stop.is_some();
        let end = conclusion_of(asked.formulation, &found.evaluation.multipliers, is_over)?;
        let nothing = found.w.iter().all(|w| *w == 0.0);
        let offset = if nothing { majority(&ask.targets, end.offset) } else { end.offset };
        let beta = factor.coefficients(&found.w);
        let coefficients: Vec<f64> = beta.iter().map(|beta| end.scale * beta).collect();
        scores.push(Score::Expansion {
            supports: (0..pivots.len() as u32).collect(),
            coefficients: coefficients.clone(),
            offset,
        });
        expansions.push(Expansion { examples: pivots.clone(), coefficients, offset });
        parts.push(part_report(asked, ask, one, end.scale));
    }
    let supports = asked.data.examples.select(pivots.iter().map(|row| *row as usize));
    let output = asked.inputs.output.clone();
    let machine = Machine::new(asked.kernel.clone(), supports, scores, output)?;
    Ok((machine, expansions, parts))
}

fn part_report(asked: &Asked<'_>, ask: &Ask, one: &Solved, scale: f64) -> SubproblemReport {
    let (found, qp) = (&one.found, &ask.qp);
    let beta = found.point.beta(qp);
    let at_limit =
        |v: &usize| beta[*v] != 0.0 && (beta[*v] <= qp.lower[*v] || beta[*v] >= qp.upper[*v]);
    SubproblemReport {
        name: ask.name.clone(),
        converged: found.evaluation.relative() <= asked.training.tolerance_used(),
        iterations: found.updates + found.iterations as u64,
        objective: scale * scale * found.evaluation.objective,
        gap: scale * scale * found.evaluation.gap,
        violation: found.evaluation.relative(),
        supports: qp.fold(&beta).iter().filter(|value| **value != 0.0).count(),
        bounded: (0..beta.len()).filter(at_limit).count(),
    }
}

pub(super) fn full_report(
    control: &Control<'_>,
    machine: &Machine,
    parts: Vec<SubproblemReport>,
    solved: &[Solved],
    memory: usize,
) -> Report {
    Report {
        seconds: control.elapsed().as_secs_f64(),
        iterations: control.iterations,
        converged: parts.iter().all(|part| part.converged),
        stop: solved.iter().filter_map(|one| one.found.stop).next_back(),
        objective: parts.iter().map(|part| part.objective).sum(),
        gap: parts.iter().map(|part| part.gap).sum(),
        violation: parts.iter().map(|part| part.violation).fold(0.0, f64::max),
        supports: machine.supports().rows(),
        bounded: parts.iter().map(|part| part.bounded).sum(),
        kernel_values: 0,
        peak_memory_bytes: memory,
        table: None,
        system: None,
        low_rank: None,
        chosen: None,
        parts,
    }
}
