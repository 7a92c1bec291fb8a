//! Steps, costs, times and errors of one method on one machine.

use mercer::data::{Matrix, Row};
use mercer::machine::{Answer, PlanSections};
use mercer::query::{Certainty, Decision, Estimate, Plan, QueryOptions};

use super::digits::Pair;
use mercer_report::timing::PlanTimes;

/// Test queries with their exact answers.
pub(super) struct TestQueries<'a> {
    pub rows: &'a Matrix,
    exact: Vec<Answer>,
    /// The true answers; empty if unknown.
    truth: &'a [Option<Answer>],
    /// Multiply-adds of an exact answer.
    cost: f64,
}

impl<'a> TestQueries<'a> {
    pub(super) fn new(
        exact: &Plan,
        rows: &'a Matrix,
        truth: &'a [Option<Answer>],
    ) -> anyhow::Result<Self> {
        let decisions = exact.decide(rows)?;
        let cost = exact.exact_stage().cost().multiply_adds as f64;
        let exact = decisions.into_iter().map(|decision| decision.answer).collect();
        Ok(Self { rows, exact, truth, cost })
    }

    /// Errors of the exact machine, where the truth is known.
    pub(super) fn exact_errors(&self) -> Option<usize> {
        self.errors(&self.exact)
    }

    fn errors(&self, answers: &[Answer]) -> Option<usize> {
        let wrong = |(answer, truth): (&Answer, &Option<Answer>)| Some(*answer) != *truth;
        let count = answers.iter().zip(self.truth).filter(|pair| wrong(*pair)).count();
        (!self.truth.is_empty()).then_some(count)
    }
}

/// One line of the table: one method on one machine.
#[derive(Debug, Clone)]
pub(super) struct MethodRow {
    pub dataset: String,
    pub queries: &'static str,
    pub method: String,
    pub count: usize,
    pub supports: usize,
    /// Supports used: mean and median; a filter counts as one.
    pub steps: Option<[f64; 2]>,
    /// Share of the queries that the filter answers.
    pub pruned: Option<f64>,
    /// Multiply-adds of an exact answer and of this one on average.
    pub costs: [f64; 2],
    /// Time of exact answers over time of these: batch, single, and batch on all threads.
    pub time_ratios: Option<Times>,
    pub disagreements: usize,
    pub errors: Option<usize>,
    pub exact_errors: Option<usize>,
    /// Share of calibrated answers; the others are exact.
    pub calibrated: Option<f64>,
}

/// What a line is about.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowName<'n> {
    pub dataset: &'n str,
    pub method: &'n str,
}

impl MethodRow {
    fn new(plan: &Plan, queries: &TestQueries<'_>, name: RowName<'_>) -> Self {
        Self {
            dataset: name.dataset.to_owned(),
            queries: "own",
            method: name.method.to_owned(),
            count: queries.rows.rows(),
            supports: plan.exact_stage().machine().supports().rows(),
            steps: None,
            pruned: None,
            costs: [queries.cost, queries.cost],
            time_ratios: None,
            disagreements: 0,
            errors: None,
            exact_errors: queries.errors(&queries.exact),
            calibrated: None,
        }
    }

    /// The queries were all digits, whatever the machine's classes.
    pub(super) fn on_all_digits(mut self) -> Self {
        self.queries = "all digits";
        self
    }

    /// Sets the time of exact answers over the time of this method.
    pub(super) fn set_times(&mut self, times: Times, exact: Times) {
        self.time_ratios = Some(std::array::from_fn(|at| exact[at] / times[at]));
    }

    /// Multiply-adds of an exact answer over those of this one.
    pub(super) fn ratio(&self) -> f64 {
        self.costs[0] / self.costs[1]
    }
}

/// Microseconds per query: a batch and single queries on one thread, and a batch on all threads.
pub(super) type Times = [f64; 3];

/// Times of one plan.
pub(super) fn times(plan: &Plan, rows: &Matrix, repeats: u32) -> anyhow::Result<Times> {
    let times = PlanTimes::measure(plan, rows, &QueryOptions::default(), repeats, 500)?;
    Ok([times.batch, times.single, times.batch_all_threads])
}

/// Times of several plans in turn, so that other load on the computer affects all of them.
pub(super) fn times_in_turns(
    plans: &[&Plan],
    rows: &Matrix,
    repeats: u32,
) -> anyhow::Result<Vec<Times>> {
    let mut best = vec![[f64::INFINITY; 3]; plans.len()];
    for _ in 0..repeats {
        for (best, plan) in best.iter_mut().zip(plans) {
            let now = times(plan, rows, 1)?;
            *best = std::array::from_fn(|at| best[at].min(now[at]));
        }
    }
    Ok(best)
}

/// A plan of the paper's stage alone: its rule stops every query.
pub(super) fn early_stopping(
    plan: &Plan,
    queries: &TestQueries<'_>,
    name: RowName<'_>,
) -> anyhow::Result<MethodRow> {
    let mut row = MethodRow::new(plan, queries, name);
    let machine = plan.exact_stage().machine();
    // The filter costs one product, as much as a support.
    let has_filter = !plan.spec().to_string().contains("filter=no");
    let (mut steps, mut answers, mut cost, mut pruned) = (Vec::new(), Vec::new(), 0.0, 0);
    for (records, exact) in plan.records(queries.rows)?.iter().zip(&queries.exact) {
        let Some(record) = records.last() else {
            answers.push(*exact);
            steps.push(row.supports as f64);
            cost += queries.cost;
            continue;
        };
        let answer = match record.estimate {
            Estimate::Score(score) => machine.verdict(&[score]).answer,
            Estimate::Class { class, .. } => Answer::Class(class),
        };
        answers.push(answer);
        steps.push(record.progress as f64 + f64::from(u8::from(has_filter)));
        cost += record.cost.multiply_adds as f64;
        pruned += usize::from(record.progress == 0);
    }
    let count = row.count.max(1) as f64;
    let mean = steps.iter().sum::<f64>() / count;
    steps.sort_by(f64::total_cmp);
    row.steps = Some([mean, steps.get(steps.len() / 2).copied().unwrap_or(0.0)]);
    row.pruned = has_filter.then_some(pruned as f64 / count);
    row.costs[1] = cost / count;
    row.disagreements = answers.iter().zip(&queries.exact).filter(|(a, b)| a != b).count();
    row.errors = queries.errors(&answers);
    Ok(row)
}

/// A calibrated plan.
pub(super) fn calibrated(
    plan: &Plan,
    queries: &TestQueries<'_>,
    name: RowName<'_>,
) -> anyhow::Result<MethodRow> {
    let mut row = MethodRow::new(plan, queries, name);
    let found = plan.decide_with(queries.rows, &QueryOptions::default())?;
    let answers: Vec<Answer> = found.decisions.iter().map(|decision| decision.answer).collect();
    let is_calibrated = |decision: &&Decision| decision.certainty == Certainty::Calibrated;
    let calibrated = found.decisions.iter().filter(is_calibrated).count();
    row.calibrated = Some(calibrated as f64 / row.count.max(1) as f64);
    row.costs[1] = found.mean_cost();
    row.disagreements = answers.iter().zip(&queries.exact).filter(|(a, b)| a != b).count();
    row.errors = queries.errors(&answers);
    Ok(row)
}

/// Test errors of the linear filter of a plan, if it answered everything.
pub(super) fn linear_errors(sections: &PlanSections, pair: &Pair) -> Option<f64> {
    let section = sections.sections.first()?;
    let (weights, ends) = (section.f64s("filter")?, section.f64s("filter_ends")?);
    let is_wrong = |(row, truth): (Row<'_>, &Option<Answer>)| {
        let known = row.nonzeros().take_while(|(column, _)| (*column as usize) < weights.len());
        let value: f64 = known.map(|(column, x)| weights[column as usize] * x).sum::<f64>();
        *truth != Some(Answer::Class(usize::from(value + ends[0] <= 0.0)))
    };
    let pairs = pair.queries.iter().zip(&pair.answers);
    Some(pairs.filter(|pair| is_wrong(*pair)).count() as f64)
}
