//! Rank against objective, |w| and Frobenius error (Fig. 6), and against training and test error (Fig. 7).

use mercer::data::{Dataset, Targets};
use mercer::kernel::factor::{Factor, Given, KernelColumns};
use mercer::kernel::parse;
use mercer::machine::{Answer, Machine};
use mercer::query::Plan;

use super::{PAPER, POLYNOMIAL, Run, TrainingTask, problems};
use crate::Comparison;
use mercer_report::svg::{Series, lines};

const RANKS: [usize; 8] = [5, 10, 20, 50, 100, 200, 300, 500];
/// The paper trains on the first 3,000 rows and tests on the other 1,177.
const TRAINED: usize = 3000;

/// One rank of the figures.
struct RankPoint {
    rank: f64,
    objective: f64,
    norm: f64,
    frobenius: f64,
    train_error: f64,
    test_error: f64,
}

pub(super) fn run(run: &Run<'_>) -> anyhow::Result<()> {
    let all = problems::abalone()?;
    let last = all.examples.rows();
    // With fewer rows than the paper has, as large a share of them.
    let trained = run.rows(last) * TRAINED / last;
    let data = all.select(&(0..trained).collect::<Vec<_>>());
    let test = all.select(&(TRAINED..last).collect::<Vec<_>>());
    let task = TrainingTask { data: &data, kernel: POLYNOMIAL, c: 1.0 };
    let mut points: Vec<RankPoint> = Vec::new();
    for rank in RANKS.into_iter().filter(|rank| *rank <= trained / 4) {
        let text = format!(
            "low_rank(rank={rank}, pivots=greedy, method=interior, precision=double, guard=off)"
        );
        let (trained, _) = run.train(task, &text, 1e-9)?;
        let Some(report) = trained.report.low_rank.as_deref() else { continue };
        let pivots: Vec<usize> =
            trained.expansions[0].examples.iter().map(|row| *row as usize).collect();
        let point = RankPoint {
            rank: report.rank as f64,
            objective: -trained.report.objective,
            norm: report.approximation[0].square.sqrt(),
            frobenius: frobenius(&data, &pivots)?,
            train_error: error(&trained.machine, &data)?,
            test_error: error(&trained.machine, &test)?,
        };
        let dataset = format!(
            "Abalone, degree 5, C = 1, rank {}: {} rows to train, {} to test",
            report.rank,
            data.examples.rows(),
            test.examples.rows()
        );
        let row = |measure: &str| Comparison::new(&*dataset, "greedy, interior", measure);
        let (six, seven) = ("Fig. 6, a curve without numbers", "Fig. 7, a curve without numbers");
        run.compare(row("objective, negative").ours(point.objective).note(six));
        run.compare(row("|w|").ours(point.norm).note(six));
        run.compare(row("Frobenius error / |K|").ours(point.frobenius).note(six));
        run.compare(row("train error").ours(100.0 * point.train_error).unit("%").note(seven));
        run.compare(row("test error").ours(100.0 * point.test_error).unit("%").note(seven));
        points.push(point);
        run.session.check()?;
    }
    figures(run, &points)
}

fn figures(run: &Run<'_>, points: &[RankPoint]) -> anyhow::Result<()> {
    let curve = |name: &str, of: fn(&RankPoint) -> f64| {
        Series::line(name, points.iter().map(|point| (point.rank, of(point))).collect())
    };
    let frobenius = || curve("Frobenius error", |point| point.frobenius);
    let of_factor = [
        curve("objective", |point| point.objective),
        curve("|w|", |point| point.norm),
        frobenius(),
    ];
    let of_machine = [
        curve("train error", |point| point.train_error),
        curve("test error", |point| point.test_error),
        frobenius(),
    ];
    let six = lines("Abalone, degree 5: the optimisation problem (Fig. 6)", "rank", &of_factor);
    let seven = lines("Abalone, degree 5: the classifier (Fig. 7)", "rank", &of_machine);
    run.session.figure(&PAPER, "fig6", &six)?;
    run.session.figure(&PAPER, "fig7", &seven)
}

/// `|K - GG'|` of the first thousand rows, relative to `|K|`.
fn frobenius(data: &Dataset, pivots: &[usize]) -> anyhow::Result<f64> {
    let count = data.examples.rows().min(1000);
    let kernel = parse(POLYNOMIAL)?;
    // The pivots first, then the rows that are compared.
    let chosen: Vec<usize> = pivots.iter().copied().chain(0..count).collect();
    let rows = data.examples.select(chosen);
    let columns = KernelColumns::new(kernel.clone(), rows.clone(), None, 1 << 28);
    let mut factor = Factor::new(columns, 1e-13);
    factor.grow(&mut Given::new(0..pivots.len()), pivots.len(), &mut |_| true);
    let factor_rows: Vec<Vec<f64>> = (0..count).map(|row| factor.row(pivots.len() + row)).collect();
    let (mut off, mut total) = (0.0, 0.0);
    for a in 0..count {
        for b in 0..count {
            let exact = kernel.value(rows.row(pivots.len() + a), rows.row(pivots.len() + b));
            let low: f64 = factor_rows[a].iter().zip(&factor_rows[b]).map(|(x, y)| x * y).sum();
            off += (exact - low).powi(2);
            total += exact * exact;
        }
    }
    Ok((off / total).sqrt())
}

/// Share of wrong classes.
fn error(machine: &Machine, data: &Dataset) -> anyhow::Result<f64> {
    let Targets::Numbers(targets) = &data.targets else { anyhow::bail!("the targets are numbers") };
    let plan = Plan::exact(machine);
    let decisions = plan.decide(&data.examples)?;
    let wrong = decisions.iter().zip(targets).filter(|(decision, target)| match decision.answer {
        Answer::Class(class) => machine.classes()[class].to_string().parse() != Ok(**target),
        _ => true,
    });
    Ok(wrong.count() as f64 / targets.len() as f64)
}
