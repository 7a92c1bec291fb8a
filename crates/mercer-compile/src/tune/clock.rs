//! Plans on the clock: in turns, the best of several laps, so that what else the machine does hits all
//! alike.

use std::time::Instant;

use mercer_data::Matrix;
use mercer_query::{Plan, QueryError, QueryOptions};

use super::Aim;
use crate::CompileError;

/// A lap shorter than this says more about the clock than about the plan: rows are then asked again.
const LEAST_LAP: f64 = 1e-3;
const MOST_REPEATS: f64 = 1000.0;

/// A batch is as long as a plan answers in so many seconds, within these limits.
const LONG_BATCH: f64 = 0.05;
const MOST_ROWS: usize = 8192;
const MOST_BYTES: usize = 1 << 26;

/// A plan, how it is asked, and what.
#[derive(Debug, Clone, Copy)]
pub(super) struct Runner<'a> {
    pub plan: &'a Plan,
    pub options: &'a QueryOptions,
    pub rows: &'a Matrix,
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

    fn merge(&mut self, other: &Self) {
        self.add(other.best);
        self.add(other.second);
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
/// Seconds after which a race has no further round.
const LONG_RACE: f64 = 5.0;

/// A batch that is worth the name, of rows asked again and again if they are few: what cheap stages leave open is
/// gathered over a batch, and costs a query of a short one far more. Nothing, if the rows that the runner has are
/// as many.
pub(super) fn long_batch(runner: Runner<'_>, rows: &Matrix) -> Result<Option<Matrix>, QueryError> {
    let (few, many) = (runner.rows.rows(), rows.rows());
    if few == 0 || many == 0 {
        return Ok(None);
    }
    let (laps, _) = race(&[runner], Aim::Throughput, FEWEST, f64::INFINITY)?;
    let fitting = (LONG_BATCH / laps[0].best.max(1e-12)) as usize;
    let bytes = (rows.bytes() / many).max(1);
    let count = fitting.min(MOST_ROWS).min(MOST_BYTES / bytes);
    Ok((count > few).then(|| rows.select((0..count).map(|at| at % many))))
}

/// Laps of a challenger and the best plan, so many more of a narrow winner, and what is narrow.
const ROUNDS: usize = 5;
const MORE_ROUNDS: usize = 10;
const NARROW: f64 = 0.8;

/// The best plan against another, which leaves early if it is `give_up` times as slow. If that seems to win, both
/// run on: among so many plans some are lucky in a few laps.
pub(super) fn duel(
    runners: [Runner<'_>; 2],
    aim: Aim,
    give_up: f64,
) -> Result<([Laps; 2], bool), QueryError> {
    let (laps, dropped) = race(&runners, aim, ROUNDS, give_up)?;
    let mut laps = [laps[0], laps[1]];
    let ratio = laps[1].best / laps[0].best;
    if (NARROW..1.0).contains(&ratio) {
        let (more, _) = race(&runners, aim, MORE_ROUNDS, f64::INFINITY)?;
        laps.iter_mut().zip(&more).for_each(|(laps, more)| laps.merge(more));
    }
    Ok((laps, dropped[1]))
}

/// Laps of each plan in one place of memory, and how many places there are.
const LAPS_OF_PLACE: usize = 7;
pub(super) const PLACES: usize = 3;

/// Mean seconds of plans over several places of memory, all in turns: the same plan elsewhere may take a tenth longer.
/// `load` makes plan number n anew, `asked` says how it is asked, and what.
pub(super) fn in_places(
    asked: &[(&QueryOptions, &Matrix)],
    aim: Aim,
    mut load: impl FnMut(usize, usize) -> Result<Plan, CompileError>,
) -> Result<Vec<f64>, CompileError> {
    let count = asked.len();
    let mut seconds = vec![0.0; count];
    for place in 0..PLACES {
        // In another order each time: memory that is given back is handed out in the same pieces.
        let mut order: Vec<usize> = (0..count).collect();
        order.rotate_left(place % count.max(1));
        let plans: Vec<Plan> =
            order.iter().map(|at| load(*at, place)).collect::<Result<_, CompileError>>()?;
        let runners = order.iter().zip(&plans).map(|(at, plan)| {
            let (options, rows) = asked[*at];
            Runner { plan, options, rows }
        });
        let (laps, _) = race(&runners.collect::<Vec<_>>(), aim, LAPS_OF_PLACE, f64::INFINITY)?;
        order.iter().zip(&laps).for_each(|(at, laps)| seconds[*at] += laps.best / PLACES as f64);
    }
    Ok(seconds)
}

/// Times all runners in turns. After some laps those that need more than `give_up` times as long as the
/// first run no more; they are marked in the second list.
pub(super) fn race(
    runners: &[Runner<'_>],
    aim: Aim,
    rounds: usize,
    give_up: f64,
) -> Result<(Vec<Laps>, Vec<bool>), QueryError> {
    let mut laps = vec![Laps::NONE; runners.len()];
    let mut dropped = vec![false; runners.len()];
    let mut repeats = vec![0; runners.len()];
    for (runner, repeats) in runners.iter().zip(&mut repeats) {
        // To warm up, and to know how long a lap is.
        let seconds = lap(*runner, aim, 1)?;
        *repeats = (LEAST_LAP / seconds.max(1e-9)).clamp(1.0, MOST_REPEATS) as usize;
    }
    let start = Instant::now();
    let rows = |number: usize| runners[number].rows.rows().max(1) as f64;
    for round in 1..=rounds {
        for (number, runner) in runners.iter().enumerate() {
            if dropped[number] {
                continue;
            }
            let seconds = lap(*runner, aim, repeats[number])?;
            laps[number].add(seconds / (repeats[number] as f64 * rows(number)));
        }
        for number in 1..runners.len() {
            let length = laps[number].best * repeats[number] as f64 * rows(number);
            let is_sure = round >= FEWEST || length > LONG_LAP;
            dropped[number] |= is_sure && laps[number].best > give_up * laps[0].best;
        }
        let is_decided = runners.len() > 1 && dropped[1..].iter().all(|dropped| *dropped);
        if is_decided || (round >= FEWEST && start.elapsed().as_secs_f64() > LONG_RACE) {
            break;
        }
    }
    Ok((laps, dropped))
}

/// Seconds that all rows take, asked so many times.
fn lap(runner: Runner<'_>, aim: Aim, repeats: usize) -> Result<f64, QueryError> {
    let Runner { plan, options, rows } = runner;
    let mut worker = plan.worker();
    let start = Instant::now();
    for _ in 0..repeats {
        match aim {
            Aim::Latency => {
                for row in 0..rows.rows() {
                    std::hint::black_box(worker.decide(rows, row..row + 1, options)?);
                }
            }
            Aim::Throughput => {
                std::hint::black_box(plan.decide_with(rows, options)?);
            }
        }
    }
    Ok(start.elapsed().as_secs_f64())
}

/// Six digits are all that a measurement has.
pub(super) fn rounded(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}
