//! Every method at equal size, times beside training, and certified cascades.

use std::time::Instant;

use mercer::compile::compress::SampleAgreement;
use mercer::compile::{FittingData, Goal, Progress, Watch, compile_with};
use mercer::query::{Certainty, Plan};
use mercer_report::timing::best_us;

use super::{CompressionTask, refused, train_task};
use crate::Session;

/// Methods at equal size: the paper's first, as printed and re-fitted; its second with three penalties; ours.
const METHODS: [&str; 8] = [
    "regression(refit=no)",
    "regression",
    "primal(penalty=l1)",
    "primal(penalty=margin)",
    "primal(penalty=errors)",
    "lasso",
    "greedy",
    "moved",
];

/// Methods whose time is compared with that of training, at a fifth of the supports.
const PACED: [&str; 2] = ["greedy", "moved"];

pub(super) fn run(trained: &mut CompressionTask, session: &Session<'_>) -> anyhow::Result<()> {
    if trained.task.sizes.is_empty() {
        return Ok(());
    }
    for size in trained.task.sizes.clone() {
        for method in METHODS {
            at_size(trained, method, size, session)?;
            session.check()?;
        }
    }
    pace(trained, session)
}

/// Error, disagreement and certified share of one method at one size.
fn at_size(
    trained: &CompressionTask,
    method: &str,
    size: usize,
    session: &Session<'_>,
) -> anyhow::Result<()> {
    let row = |measure: &str| trained.row(method, format!("{measure}, {size} vectors"));
    let made = match trained.compress(method, Goal::Size(size), None, session)? {
        Ok(made) => made,
        Err(reason) => {
            session.compare(row("error").note(reason));
            return Ok(());
        }
    };
    let fitting_data = FittingData { sample: Some(&trained.queries), ..FittingData::default() };
    let agreement = refused(made.agreement(&trained.machine, fitting_data, None))?.ok().flatten();
    let note = format!("{} vectors", made.report.after);
    session.compare(row("error").ours(made.report.error.relative).note(note));
    let percent = |share: Option<f64>| share.map(|share| 100.0 * share);
    let note = |share: Option<f64>| if share.is_none() { "cannot be measured" } else { "" };
    let disagreement = percent(agreement.as_ref().map(SampleAgreement::disagreement));
    let certified = percent(agreement.as_ref().and_then(SampleAgreement::certified_share));
    session.compare(row("disagr.").ours(disagreement).unit("%").note(note(disagreement)));
    session.compare(row("certified").ours(certified).unit("%").note(note(certified)));
    Ok(())
}

/// Training and compression to a fifth of the supports in turn, so that other load on the computer affects
/// all of them; the least time of each counts.
fn pace(trained: &mut CompressionTask, session: &Session<'_>) -> anyhow::Result<()> {
    let size = (trained.machine.supports().rows() / 5).max(1);
    let mut training = trained.report.seconds;
    let mut best = [f64::INFINITY; PACED.len()];
    for _ in 0..session.options.repeats.max(1) {
        let again = train_task(&trained.task, &trained.data, "smo", session)?;
        training = training.min(again.report.seconds);
        for (best, method) in best.iter_mut().zip(PACED) {
            let start = Instant::now();
            if trained.compress(method, Goal::Size(size), None, session)?.is_ok() {
                *best = best.min(start.elapsed().as_secs_f64());
            }
        }
    }
    for (method, best) in PACED.into_iter().zip(best) {
        let row = trained.row(method, format!("time, {size} vectors"));
        let note = if best.is_finite() { format!("{best:.4} s") } else { "refused".to_owned() };
        session.compare(row.ours(best / training).unit("training").note(note));
    }
    Ok(())
}

/// The certified cascade at each size against exact answers, in a batch.
pub(super) fn cascades(trained: &CompressionTask, session: &Session<'_>) -> anyhow::Result<()> {
    let CompressionTask { task, machine, queries, .. } = trained;
    let exact = Plan::exact(machine);
    let truth = exact.decide(queries)?;
    for size in &task.sizes {
        let text = format!("cascade(compressed({size}), exact)");
        let watch = |_: Progress| !session.is_stopped();
        let fitting_data = FittingData::default();
        let sections = compile_with(machine, &text.parse()?, fitting_data, Watch::new(&watch));
        session.check()?;
        let row = |measure: &str| trained.row(&text, measure);
        let Ok(sections) = sections else {
            session.compare(row("disagreements").note("the stage refuses this machine"));
            continue;
        };
        let plan = Plan::fitted(machine, &sections)?;
        let answers = plan.decide(queries)?;
        let pairs = answers.iter().zip(&truth);
        let disagreements = pairs.filter(|(a, b)| a.answer != b.answer).count();
        let certified = answers.iter().filter(|d| d.certainty == Certainty::Certified).count();
        let count = queries.rows();
        // In turn, so that other load on the computer affects both.
        let (mut cascade, mut full) = (f64::INFINITY, f64::INFINITY);
        for _ in 0..session.options.repeats.max(1) {
            cascade = cascade.min(best_us(1, count, || drop(plan.decide(queries))));
            full = full.min(best_us(1, count, || drop(exact.decide(queries))));
        }
        let share = 100.0 * certified as f64 / count.max(1) as f64;
        session.compare(row("certified").ours(share).unit("%"));
        session.compare(row("disagreements").ours(disagreements as f64));
        let note = format!("{cascade:.2} us against {full:.2} us exact");
        session.compare(row("speedup").ours(full / cascade).note(note));
    }
    Ok(())
}
