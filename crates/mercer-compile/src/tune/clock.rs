//! Plans on the clock: in turns, the best of several laps, so that what else the machine does hits all
//! alike.

use std::time::Instant;

use mercer_data::Matrix;
use mercer_query::{Asking, Plan, QueryError};

use super::Aim;

/// A lap shorter than this says more about the clock than about the plan: rows are then asked again.
const LEAST_LAP: f64 = 1e-3;
const MOST_REPEATS: f64 = 1000.0;

/// A plan and how it is asked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Runner<'a> {
    pub plan: &'a Plan,
    pub asking: &'a Asking,
}

/// Seconds a query, in the best and the second best lap.
#[derive(Debug, Clone, Copy)]
pub(super) struct Laps {
    pub best: f64,
    second: f64,
}

impl Laps {
    const NONE: Self = Self { best: f64::INFINITY, second: f64::INFINITY };

    fn add(&mut self, seconds: f64) {
        if seconds < self.best {
            *self = Self { best: seconds, second: self.best };
        } else {
            self.second = self.second.min(seconds);
        }
    }

    /// By how much, as a share, two laps of the same plan differ.
    pub(super) fn noise(&self) -> f64 {
        if self.second.is_finite() { self.second / self.best - 1.0 } else { 0.0 }
    }

    pub(super) fn microseconds(&self) -> f64 {
        1e6 * self.best
    }
}

/// A lap longer than this tells a slow plan from a busy computer; shorter ones are run [`FEWEST`] times.
const LONG_LAP: f64 = 0.05;
const FEWEST: usize = 3;

/// Times all runners in turns. After some laps those that need more than `give_up` times as long as the
/// first run no more; they are marked in the second list.
pub(super) fn race(
    runners: &[Runner<'_>],
    rows: &Matrix,
    aim: Aim,
    rounds: usize,
    give_up: f64,
) -> Result<(Vec<Laps>, Vec<bool>), QueryError> {
    let mut laps = vec![Laps::NONE; runners.len()];
    let mut dropped = vec![false; runners.len()];
    let mut repeats = vec![0; runners.len()];
    for (runner, repeats) in runners.iter().zip(&mut repeats) {
        // To warm up, and to know how long a lap is.
        let seconds = lap(*runner, rows, aim, 1)?;
        *repeats = (LEAST_LAP / seconds.max(1e-9)).clamp(1.0, MOST_REPEATS) as usize;
    }
    let rows_count = rows.rows().max(1) as f64;
    for round in 1..=rounds {
        for (number, runner) in runners.iter().enumerate() {
            if dropped[number] {
                continue;
            }
            let seconds = lap(*runner, rows, aim, repeats[number])?;
            laps[number].add(seconds / (repeats[number] as f64 * rows_count));
        }
        for number in 1..runners.len() {
            let length = laps[number].best * repeats[number] as f64 * rows_count;
            let is_sure = round >= FEWEST || length > LONG_LAP;
            dropped[number] |= is_sure && laps[number].best > give_up * laps[0].best;
        }
        if runners.len() > 1 && dropped[1..].iter().all(|dropped| *dropped) {
            break;
        }
    }
    Ok((laps, dropped))
}

/// Seconds that all rows take, asked so many times.
fn lap(runner: Runner<'_>, rows: &Matrix, aim: Aim, repeats: usize) -> Result<f64, QueryError> {
    let Runner { plan, asking } = runner;
    let mut worker = plan.worker();
    let start = Instant::now();
    for _ in 0..repeats {
        match aim {
            Aim::Latency => {
                for row in 0..rows.rows() {
                    std::hint::black_box(worker.decide(rows, row..row + 1, asking)?);
                }
            }
            Aim::Throughput => {
                std::hint::black_box(plan.decide_with(rows, asking)?);
            }
        }
    }
    Ok(start.elapsed().as_secs_f64())
}
