//! In place of Fig. 3, whose data are not public: dense problems of 204 columns and 6,500 to 7,000 rows.

use mercer::kernel::parse;
use mercer::train::{Training, formulation, solver, train};
use rayon::prelude::*;
use serde_json::{Value, json};

use super::{Run, problems, progress_of};
use mercer_report::svg::{Series, lines};

const PROBLEMS: usize = 150;
/// Every tenth problem is timed beside `smo`, one at a time; the others are solved in parallel.
const TIMED: usize = 10;
const TOLERANCE: f64 = 1e-6;
/// The rank equals the number of columns: any pivots give the full matrix, and blocks of them are fastest.
const SOLVER: &str =
    "low_rank(rank=204, pivots=random, method=interior, precision=double, guard=off)";

pub(super) fn run(run: &Run<'_>) -> anyhow::Result<Value> {
    let make = |problem: usize| {
        let rows = 6500 + 500 * problem / (PROBLEMS - 1);
        problems::dense(rows.min(run.rows(rows)), 204, problem as u64)
    };
    let (mut iterations, mut gaps, mut seconds) = (Vec::new(), Vec::new(), Vec::new());
    for problem in (0..PROBLEMS).step_by(TIMED) {
        let data = make(problem)?;
        let (trained, took) = run.train(&data, "linear", 1.0, SOLVER, TOLERANCE)?;
        let (steps, _, gap) = progress_of(&trained.report);
        iterations.push(steps);
        gaps.push(gap);
        seconds.push((took, run.train(&data, "linear", 1.0, "smo", 1e-3)?.1));
    }
    let others: Vec<usize> = (0..PROBLEMS).filter(|at| !at.is_multiple_of(TIMED)).collect();
    for (steps, gap) in in_parallel(run, &others)? {
        iterations.push(steps);
        gaps.push(gap);
    }
    report_all(run, iterations, &gaps, &seconds)
}

/// Iterations and true gaps of problems, on all threads.
fn in_parallel(run: &Run<'_>, problems: &[usize]) -> anyhow::Result<Vec<(usize, f64)>> {
    let (cancel, limit) = (run.session.cancel(), run.rows(usize::MAX));
    let (linear, c_svc, how) = (parse("linear")?, formulation("c_svc(C=1)")?, solver(SOLVER)?);
    let one = |problem: &usize| -> anyhow::Result<(usize, f64)> {
        if cancel.is_cancelled() {
            return Ok((0, 0.0));
        }
        let rows = (6500 + 500 * problem / (PROBLEMS - 1)).min(limit);
        let data = problems::dense(rows, 204, *problem as u64)?;
        let training =
            Training::default().solver(how.clone()).tolerance(TOLERANCE).cancel(cancel.clone());
        let trained = train(&data, &linear, &c_svc, &training, &mut |_| {})?;
        let (steps, _, gap) = progress_of(&trained.report);
        Ok((steps, gap))
    };
    let status = run.session.status();
    let mut found = Vec::new();
    for some in problems.chunks(15) {
        status.show(&format!("problem {} of {}", found.len() + 1, problems.len()));
        let part: anyhow::Result<Vec<_>> = some.par_iter().map(one).collect();
        found.extend(part?);
        run.session.check()?;
    }
    drop(status);
    Ok(found)
}

fn report_all(
    run: &Run<'_>,
    mut iterations: Vec<usize>,
    gaps: &[f64],
    seconds: &[(f64, f64)],
) -> anyhow::Result<Value> {
    iterations.sort_unstable();
    let [least, median, most] = [0, PROBLEMS / 2, PROBLEMS - 1].map(|at| iterations[at]);
    let worst = gaps.iter().fold(0.0f64, |most, gap| most.max(*gap));
    let timed = seconds.len().max(1) as f64;
    let interior = seconds.iter().map(|(interior, _)| interior).sum::<f64>() / timed;
    let smo = seconds.iter().map(|(_, smo)| smo).sum::<f64>() / timed;
    run.session.line(&format!(
        "{PROBLEMS} problems: iterations {least} to {most}, median {median}; worst relative gap {worst:.1e}; \
         {interior:.2} s each, smo {smo:.2} s each, over {} of them",
        seconds.len()
    ));
    let curve = |name: &str, of: &dyn Fn(&(f64, f64)) -> f64| {
        let mut sorted: Vec<f64> = seconds.iter().map(of).collect();
        sorted.sort_by(f64::total_cmp);
        Series::line(name, (1..).map(f64::from).zip(sorted).collect())
    };
    let drawn = [curve("interior, s", &|one| one.0), curve("smo, s", &|one| one.1)];
    let (least_rows, most_rows) = (run.rows(6500), run.rows(7000));
    let title = format!("204 columns, {least_rows} to {most_rows} rows: seconds, sorted (Fig. 3)");
    run.figures.borrow_mut().push(lines(&title, "problem", &drawn));
    Ok(json!({
        "problems": PROBLEMS, "least": least, "median": median, "most": most, "worst_gap": worst,
        "timed": seconds.len(), "seconds": interior, "smo_seconds": smo,
    }))
}
