//! Rank against objective, |w| and Frobenius error (Fig. 6), and against training and test error (Fig. 7).

use mercer::data::{Dataset, Targets};
use mercer::kernel::factor::{Factor, Given, KernelColumns};
use mercer::kernel::parse;
use mercer::machine::{Answer, Machine};
use mercer::query::Plan;
use serde_json::{Value, json};

use super::{Run, problems};
use mercer_report::svg::{Series, lines};

const KERNEL: &str = "polynomial(degree=5, gamma=0.0909090909090909, coef0=1)";
const RANKS: [usize; 7] = [5, 10, 20, 50, 100, 200, 300];

pub(super) fn run(run: &Run<'_>) -> anyhow::Result<Value> {
    let all = run.first(&problems::abalone()?);
    let (test, rest): (Vec<usize>, Vec<usize>) =
        (0..all.examples.rows()).partition(|row| row % 4 == 3);
    let (data, test) = (all.select(&rest), all.select(&test));
    run.session.line(&format!(
        "{:>5} {:>14} {:>12} {:>12} {:>10} {:>12} {:>12}",
        "rank", "objective", "|w|", "Frobenius", "trace", "train error", "test error"
    ));
    let mut rows: Vec<[f64; 7]> = Vec::new();
    for rank in RANKS {
        let text = format!(
            "low_rank(rank={rank}, pivots=greedy, method=interior, precision=double, guard=off)"
        );
        let (trained, _) = run.train(&data, KERNEL, 1.0, &text, 1e-9)?;
        let Some(report) = trained.report.low_rank.as_deref() else { continue };
        let examples: Vec<usize> =
            trained.expansions[0].examples.iter().map(|row| *row as usize).collect();
        let row = [
            report.rank as f64,
            trained.report.objective,
            report.approximation[0].square.sqrt(),
            frobenius(&data, &examples)?,
            report.trace_share,
            error(&trained.machine, &data)?,
            error(&trained.machine, &test)?,
        ];
        run.session.line(&format!(
            "{:>5} {:>14.4} {:>12.4} {:>12.4e} {:>10.1e} {:>12.4} {:>12.4}",
            row[0], row[1], row[2], row[3], row[4], row[5], row[6]
        ));
        rows.push(row);
        run.session.check()?;
    }
    let curve = |name: &str, at: usize| {
        Series::line(name, rows.iter().map(|row| (row[0], row[at].abs())).collect())
    };
    let of_factor = [curve("objective", 1), curve("|w|", 2), curve("Frobenius error", 3)];
    let of_machine = [curve("train error", 5), curve("test error", 6)];
    run.figures.borrow_mut().extend([
        lines("Abalone, degree 5: error of the factor (Fig. 6)", "rank", &of_factor),
        lines("Abalone, degree 5: errors of the machine (Fig. 7)", "rank", &of_machine),
    ]);
    let object = |row: &[f64; 7]| {
        json!({
            "rank": row[0], "objective": row[1], "norm_of_w": row[2], "frobenius": row[3],
            "trace_share": row[4], "train_error": row[5], "test_error": row[6],
        })
    };
    Ok(rows.iter().map(object).collect())
}

/// `|K - GG'|` of the first thousand rows, relative to `|K|`.
fn frobenius(data: &Dataset, pivots: &[usize]) -> anyhow::Result<f64> {
    let count = data.examples.rows().min(1000);
    let kernel = parse(KERNEL)?;
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
