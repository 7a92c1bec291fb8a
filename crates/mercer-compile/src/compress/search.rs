//! The fewest vectors that are enough.

use std::collections::BTreeMap;

use mercer_machine::Machine;

use super::measure::{Judge, Judged, Length, distance};
use super::{CurvePoint, Goal, Points, Run, Teacher, unfit};
use crate::CompileError;

/// A candidate, measured.
#[derive(Debug)]
pub(super) struct Found {
    pub machine: Machine,
    pub size: usize,
    pub error: Length,
    pub judged: Option<Judged>,
}

/// Sizes nearer than this share are not told apart.
const FINE: usize = 20;

fn measured(
    teacher: &Teacher<'_>,
    points: &Points,
    judge: &Judge<'_>,
) -> Result<Found, CompileError> {
    let error = distance(teacher, points)?;
    let machine = points.machine(teacher.machine)?;
    let judged = judge.judge(&points.rows, &machine, &teacher.watch)?;
    Ok(Found { size: points.rows.rows(), machine, error, judged })
}

/// Looks for what the goal asks.
pub(super) fn find(
    teacher: &Teacher<'_>,
    run: &mut dyn Run,
    goal: Goal,
    judge: &Judge<'_>,
) -> Result<Found, CompileError> {
    match goal {
        Goal::Own => {
            let points = run.own()?.ok_or_else(|| {
                let goals = "--size, --error, --disagreement or --certified";
                unfit("compress", format!("this method needs a goal: {goals}"))
            })?;
            measured(teacher, &points, judge)
        }
        Goal::Size(size) => measured(teacher, &run.at(size.max(1))?, judge),
        Goal::Error(error) => {
            let start = run.guess(error)?;
            let is_enough = |found: &Found| found.error.relative <= error;
            fewest(teacher, run, judge, start, &is_enough, &format!("a relative error of {error}"))
        }
        Goal::Disagreement(share) => {
            judge.needed("disagreement")?;
            let is_enough =
                |found: &Found| found.judged.is_some_and(|judged| judged.disagreement() <= share);
            fewest(teacher, run, judge, None, &is_enough, &format!("a disagreement of {share}"))
        }
        Goal::Certified(share) => {
            judge.needed("certified")?;
            let is_enough = |found: &Found| {
                let proved = found.judged.and_then(|judged| judged.certified_share());
                proved.is_some_and(|proved| proved >= share)
            };
            fewest(teacher, run, judge, None, &is_enough, &format!("a certified share of {share}"))
        }
    }
}

/// Doubles the size until it is enough, then halves the interval. With a size to start from, only that
/// one and larger ones are tried.
fn fewest(
    teacher: &Teacher<'_>,
    run: &mut dyn Run,
    judge: &Judge<'_>,
    start: Option<usize>,
    is_enough: &dyn Fn(&Found) -> bool,
    wanted: &str,
) -> Result<Found, CompileError> {
    let most = teacher.most();
    let (mut few, mut size) = (start.map_or(0, |size| size - 1), start.unwrap_or(1).min(most));
    let mut best = loop {
        let found = measured(teacher, &run.at(size)?, judge)?;
        if is_enough(&found) {
            break found;
        }
        if size >= most || found.size < size {
            let Found { size, error, .. } = found;
            let reached = format!("{size} vectors have a relative error of {:.3e}", error.relative);
            return Err(unfit("compress", format!("{wanted} is out of reach: {reached}")));
        }
        few = size;
        let step = if start.is_some() { (size / FINE).max(1) } else { size };
        size = (size + step).min(most);
    };
    while best.size > few + 1 && best.size - few > best.size / FINE {
        let middle = few.midpoint(best.size);
        let found = measured(teacher, &run.at(middle)?, judge)?;
        if is_enough(&found) && found.size < best.size {
            best = found;
        } else {
            few = middle;
        }
    }
    Ok(best)
}

/// What the sample says of a few smaller sizes; nothing without a sample.
pub(super) fn ladder(
    teacher: &Teacher<'_>,
    run: &mut dyn Run,
    judge: &Judge<'_>,
    found: &Found,
) -> Result<Vec<CurvePoint>, CompileError> {
    let point = |found: &Found| CurvePoint {
        size: found.size,
        error: found.error.relative,
        judged: found.judged,
    };
    let mut points = vec![point(found)];
    if found.judged.is_none() {
        return Ok(points);
    }
    for share in [2, 4, 8] {
        let size = found.size / share;
        if size == 0 {
            break;
        }
        points.push(point(&measured(teacher, &run.at(size)?, judge)?));
    }
    Ok(points)
}

/// All that is known, by size; what was measured goes before what was estimated.
pub(super) fn curve(estimated: Vec<(usize, f64)>, ladder: &[CurvePoint]) -> Vec<CurvePoint> {
    let mut curve: BTreeMap<usize, CurvePoint> = BTreeMap::new();
    for (size, error) in estimated {
        curve.insert(size, CurvePoint { size, error, judged: None });
    }
    for point in ladder {
        curve.insert(point.size, *point);
    }
    curve.into_values().collect()
}
