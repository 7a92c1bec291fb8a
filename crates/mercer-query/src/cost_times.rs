//! How long a single query takes that costs so much, as measured with one plan: a limit of time becomes a limit of cost
//! by it, once. Multiply-adds of different stages take different times, so a plan has a curve and no one rate.
//!
//! Costs are counted and limits are obeyed in `tracker.rs`, never by the clock.

use std::time::Instant;

use mercer_data::Matrix;
use mercer_machine::{Budget, CostTime, Tuning};

use crate::options::{QueryOptions, Require};
use crate::{Plan, QueryError};

/// Queries that are timed together cost at most this many times the cheapest of them.
const GROUP_RATIO: f64 = 1.5;
/// Queries of a group that are timed, at most.
const TIMED: usize = 16;
/// Rounds of [`CostTimes::by_clock`]; the shortest time counts.
const ROUNDS: usize = 5;
/// A run of fewer seconds says more about the clock than about the plan.
const LEAST_RUN: f64 = 5e-4;

/// Costs of single queries and their times; both increase.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CostTimes {
    points: Vec<CostTime>,
}

impl CostTimes {
    /// Those that `tune` stored with the plan.
    pub fn stored(tuning: &Tuning) -> Option<Self> {
        (!tuning.times.is_empty()).then(|| Self { points: tuning.times.clone() })
    }

    /// As a model file keeps them.
    pub fn points(&self) -> &[CostTime] {
        &self.points
    }

    /// Groups the rows by what they cost and times each group; `time` returns the microseconds of a query when the rows
    /// are asked one at a time with these options. What queries cost that no row stood for, those that go through all
    /// stages to the exact one, is added up from its parts.
    ///
    /// # Errors
    /// If a row cannot be answered, or `time` fails.
    pub fn measure<E: From<QueryError>>(
        plan: &Plan,
        rows: &Matrix,
        options: &QueryOptions,
        mut time: impl FnMut(&QueryOptions, &Matrix) -> Result<f64, E>,
    ) -> Result<Self, E> {
        if rows.rows() == 0 {
            return Ok(Self::default());
        }
        let unlimited = QueryOptions { budget: None, ..*options };
        let answers = plan.decide_with(rows, &unlimited)?;
        let costs: Vec<u64> =
            answers.decisions.iter().map(|decision| decision.cost.multiply_adds).collect();
        let few = rows.select(0..rows.rows().min(TIMED));
        let nothing = QueryOptions { budget: Some(0), require: Require::Nothing, ..*options };
        let idle = time(&nothing, &few)?;
        let mut points = vec![CostTime { multiply_adds: 0, microseconds: idle }];
        for group in groups(&costs) {
            let dearest = &group[group.len().saturating_sub(TIMED)..];
            let microseconds = time(&unlimited, &rows.select(dearest.iter().copied()))?;
            let multiply_adds = costs[*dearest.last().expect("groups are not empty")];
            points.push(CostTime { multiply_adds, microseconds });
        }
        if answers.settled_by_stage.last() == Some(&0) {
            let exactly = QueryOptions { require: Require::Certified, ..nothing };
            let exact = (time(&exactly, &few)? - idle).max(0.0);
            let last = points[points.len() - 1];
            points.push(CostTime {
                multiply_adds: last.multiply_adds + plan.exact_stage().cost().multiply_adds,
                microseconds: last.microseconds + exact,
            });
        }
        // A dearer query takes no less time; the clock may say otherwise.
        for at in 1..points.len() {
            points[at].microseconds = points[at].microseconds.max(points[at - 1].microseconds);
        }
        let rounded = |time: f64| format!("{time:.3e}").parse().unwrap_or(time);
        points.iter_mut().for_each(|point| point.microseconds = rounded(point.microseconds));
        Ok(Self { points })
    }

    /// As [`CostTimes::measure`], by the computer's own clock.
    ///
    /// # Errors
    /// If a row cannot be answered.
    pub fn by_clock(
        plan: &Plan,
        rows: &Matrix,
        options: &QueryOptions,
    ) -> Result<Self, QueryError> {
        let mut worker = plan.worker();
        Self::measure(plan, rows, options, |options, rows| {
            let mut run = |repeats: usize| {
                let start = Instant::now();
                for row in (0..repeats).flat_map(|_| 0..rows.rows()) {
                    std::hint::black_box(worker.decide(rows, row..row + 1, options)?);
                }
                Ok::<f64, QueryError>(start.elapsed().as_secs_f64() / repeats as f64)
            };
            let first = run(1)?;
            let repeats = (LEAST_RUN / first.max(1e-9)).clamp(1.0, 1000.0) as usize;
            let mut best = first;
            for _ in 0..ROUNDS {
                best = best.min(run(repeats)?);
            }
            Ok(1e6 * best / rows.rows() as f64)
        })
    }

    /// The largest cost of a query that takes at most so long.
    pub fn limit(&self, microseconds: f64) -> u64 {
        let within = |point: &CostTime| point.microseconds <= microseconds;
        let Some(at) = self.points.iter().rposition(within) else { return 0 };
        let below = self.points[at];
        let cost = |share: f64, more: u64| below.multiply_adds + (share * more as f64) as u64;
        match self.points.get(at + 1) {
            Some(above) => {
                let share =
                    (microseconds - below.microseconds) / (above.microseconds - below.microseconds);
                cost(share, above.multiply_adds - below.multiply_adds)
            }
            // Dearer queries than any that was measured: at the mean rate of the dearest.
            None if below.microseconds > 0.0 => {
                let share = (microseconds / below.microseconds - 1.0).min(1e6);
                cost(share, below.multiply_adds)
            }
            None => u64::MAX,
        }
    }

    /// A limit of time and the limit of cost that it becomes.
    pub fn budget(&self, microseconds: f64) -> Budget {
        Budget { microseconds, rate: None, multiply_adds: self.limit(microseconds) }
    }

    /// How long a query of this cost takes.
    pub fn microseconds(&self, multiply_adds: u64) -> f64 {
        let above = self.points.iter().position(|point| point.multiply_adds >= multiply_adds);
        match (above, self.points.last()) {
            (Some(0), _) => self.points[0].microseconds,
            (Some(at), _) => {
                let (below, above) = (self.points[at - 1], self.points[at]);
                let share = (multiply_adds - below.multiply_adds) as f64
                    / (above.multiply_adds - below.multiply_adds) as f64;
                below.microseconds + share * (above.microseconds - below.microseconds)
            }
            (None, Some(last)) => {
                last.microseconds * multiply_adds as f64 / last.multiply_adds.max(1) as f64
            }
            (None, None) => 0.0,
        }
    }
}

/// Rows in the order of their costs, cut where a cost exceeds [`GROUP_RATIO`] times the least of its group.
fn groups(costs: &[u64]) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..costs.len()).collect();
    order.sort_by_key(|row| costs[*row]);
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for row in order {
        match groups.last_mut() {
            Some(group) if costs[row] as f64 <= GROUP_RATIO * costs[group[0]] as f64 => {
                group.push(row);
            }
            _ => groups.push(vec![row]),
        }
    }
    groups.retain(|group| costs[*group.last().unwrap_or(&0)] > 0);
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(points: &[(u64, f64)]) -> CostTimes {
        let point = |(multiply_adds, microseconds): &(u64, f64)| CostTime {
            multiply_adds: *multiply_adds,
            microseconds: *microseconds,
        };
        CostTimes { points: points.iter().map(point).collect() }
    }

    #[test]
    fn stages_have_rates_of_their_own() {
        // Fast integer products first, then slow ones in f64.
        let curve = curve(&[(0, 0.5), (1_000_000, 2.5), (1_500_000, 52.5)]);
        assert_eq!(curve.limit(0.4), 0);
        assert_eq!(curve.limit(1.5), 500_000);
        assert_eq!(curve.limit(2.5), 1_000_000);
        assert_eq!(curve.limit(27.5), 1_250_000);
        assert_eq!(curve.limit(105.0), 3_000_000);
        for time in [0.5, 0.7, 2.5, 3.0, 52.5, 80.0] {
            let back = curve.microseconds(curve.limit(time));
            assert!((back - time).abs() < 1e-4 * time, "{time} {back}");
        }
        assert_eq!(CostTimes::default().limit(1.0), 0);
        assert_eq!(CostTimes::default().microseconds(1), 0.0);
    }

    #[test]
    fn equal_times_give_the_dearest_cost() {
        let curve = curve(&[(0, 1.0), (10, 1.0), (20, 1.0)]);
        assert_eq!(curve.limit(1.0), 20);
        assert_eq!(curve.limit(0.9), 0);
    }

    #[test]
    fn groups_are_of_similar_costs() {
        assert_eq!(groups(&[100, 10, 11, 140, 151, 0]), vec![vec![1, 2], vec![0, 3], vec![4]]);
    }
}
