//! In place of Fig. 3, whose data are not published: dense problems of 204 columns and 6,500 to 7,000 rows, solved by the
//! paper's method (product form), by ours (split), and by `smo`.

use mercer::kernel::parse;
use mercer::train::{Systems, Training, formulation, solver, train};
use rayon::prelude::*;

use super::{PAPER, Run, TrainingTask, interior, problems, progress_of};
use crate::Comparison;
use mercer_report::svg::{Series, lines};

const PROBLEMS: usize = 150;
/// Every tenth problem is timed beside `smo`, one at a time; the others are solved in parallel.
const TIMED: usize = 10;
/// Problems of a quick run, all of them timed.
const QUICK: usize = 2;
const COLUMNS: usize = 204;
const TOLERANCE: f64 = 1e-6;
/// The rank equals the number of columns: any pivots give the full matrix, and blocks of them are fastest.
const OURS: &str =
    "low_rank(rank=204, pivots=random, method=interior, precision=double, guard=off)";

/// Seconds of one problem, by each method.
struct Timing {
    product_form: f64,
    split: f64,
    smo: f64,
}

pub(super) fn run(run: &Run<'_>) -> anyhow::Result<()> {
    let is_quick = run.session.options.quick;
    let (mut iterations, mut gaps, mut timings) = (Vec::new(), Vec::new(), Vec::new());
    let mut printed_iterations = 0;
    let timed: Vec<usize> =
        (0..PROBLEMS).step_by(TIMED).take(if is_quick { QUICK } else { PROBLEMS }).collect();
    for problem in &timed {
        let data = problems::dense(row_count(run, *problem), COLUMNS, *problem as u64)?;
        let task = TrainingTask { data: &data, kernel: "linear", c: 1.0 };
        let printed = interior("printed", Systems::ProductForm, COLUMNS);
        let printed = printed.replace("greedy", "random");
        let (as_printed, product_form) = run.train(task, &printed, TOLERANCE)?;
        printed_iterations = printed_iterations.max(progress_of(&as_printed.report).0);
        let (trained, split) = run.train(task, OURS, TOLERANCE)?;
        let (steps, gap) = progress_of(&trained.report);
        iterations.push(steps);
        gaps.push(gap);
        timings.push(Timing { product_form, split, smo: run.train(task, "smo", 1e-3)?.1 });
    }
    if !is_quick {
        let others: Vec<usize> = (0..PROBLEMS).filter(|at| !at.is_multiple_of(TIMED)).collect();
        for (steps, gap) in in_parallel(run, &others)? {
            iterations.push(steps);
            gaps.push(gap);
        }
    }
    report_all(run, iterations, &gaps, &timings, printed_iterations);
    figure(run, &timings)
}

fn row_count(run: &Run<'_>, problem: usize) -> usize {
    run.rows(6500 + 500 * problem / (PROBLEMS - 1))
}

/// Iterations and true gaps of problems, on all threads.
fn in_parallel(run: &Run<'_>, problems: &[usize]) -> anyhow::Result<Vec<(usize, f64)>> {
    let cancel = run.session.cancel();
    let (linear, c_svc, how) = (parse("linear")?, formulation("c_svc(C=1)")?, solver(OURS)?);
    let sizes: Vec<(usize, usize)> =
        problems.iter().map(|problem| (*problem, row_count(run, *problem))).collect();
    let one = |(problem, rows): &(usize, usize)| -> anyhow::Result<(usize, f64)> {
        if cancel.is_cancelled() {
            return Ok((0, 0.0));
        }
        let data = problems::dense(*rows, COLUMNS, *problem as u64)?;
        let training =
            Training::default().solver(how.clone()).tolerance(TOLERANCE).cancel(cancel.clone());
        let trained = train(&data, &linear, &c_svc, &training, &mut |_| {})?;
        Ok(progress_of(&trained.report))
    };
    let status = run.session.status();
    let mut found = Vec::new();
    for some in sizes.chunks(15) {
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
    timings: &[Timing],
    printed_iterations: usize,
) {
    iterations.sort_unstable();
    let (least, most) = (iterations[0], iterations[iterations.len() - 1]);
    let median = iterations[iterations.len() / 2];
    let worst = gaps.iter().fold(0.0f64, |most, gap| most.max(*gap));
    let mean =
        |of: fn(&Timing) -> f64| timings.iter().map(of).sum::<f64>() / timings.len().max(1) as f64;
    let dataset = format!("{} problems of {COLUMNS} columns", iterations.len());
    let row = |method: &str, measure: &str| Comparison::new(&*dataset, method, measure);
    let timed = format!("mean of {}; Fig. 3 prints a curve without numbers", timings.len());
    let product = mean(|timing| timing.product_form);
    run.compare(row("printed, product_form", "time").ours(product).unit("s").note(&*timed));
    run.compare(row("interior, split", "time").ours(mean(|t| t.split)).unit("s").note(&*timed));
    run.compare(row("smo", "time").ours(mean(|t| t.smo)).unit("s").note(&*timed));
    let printed = printed_iterations as f64;
    run.compare(
        row("printed, product_form", "most iterations")
            .ours(printed)
            .paper(50.0)
            .note("the paper: rarely more than 50"),
    );
    let range = format!("{least} to {most}");
    run.compare(row("interior, split", "median of iterations").ours(median as f64).note(range));
    run.compare(row("interior, split", "worst relative gap").ours(worst));
}

fn figure(run: &Run<'_>, timings: &[Timing]) -> anyhow::Result<()> {
    let curve = |name: &str, of: fn(&Timing) -> f64| {
        let mut sorted: Vec<f64> = timings.iter().map(of).collect();
        sorted.sort_by(f64::total_cmp);
        Series::line(name, (1..).map(f64::from).zip(sorted).collect())
    };
    let drawn = [
        curve("product form as printed, s", |timing| timing.product_form),
        curve("ours, split, s", |timing| timing.split),
        curve("smo, s", |timing| timing.smo),
    ];
    let (least, most) = (row_count(run, 0), row_count(run, PROBLEMS - 1));
    let title = format!("{COLUMNS} columns, {least} to {most} rows: seconds, sorted (Fig. 3)");
    run.session.figure(&PAPER, "fig3", &lines(&title, "problem", &drawn))
}
