//! One method on one machine.

use mercer::data::Matrix;
use mercer::machine::Answer;
use mercer::query::{Certainty, Estimate, Plan};
use serde_json::{Value, json};

use super::super::super::bench;

/// Queries with what exact answers make of them.
pub(super) struct Asked<'a> {
    pub rows: &'a Matrix,
    exact: Vec<Answer>,
    /// What is right, where that is known.
    right: &'a [Option<Answer>],
    cost: f64,
}

impl<'a> Asked<'a> {
    pub(super) fn new(
        exact: &Plan,
        rows: &'a Matrix,
        right: &'a [Option<Answer>],
    ) -> anyhow::Result<Self> {
        let decisions = exact.decide(rows)?;
        let cost = exact.exact_stage().cost().multiply_adds as f64;
        let exact = decisions.into_iter().map(|decision| decision.answer).collect();
        Ok(Self { rows, exact, right, cost })
    }

    fn errors(&self, answers: &[Answer]) -> Option<usize> {
        let wrong = |(answer, right): (&Answer, &Option<Answer>)| Some(*answer) != *right;
        let count = answers.iter().zip(self.right).filter(|pair| wrong(*pair)).count();
        (!self.right.is_empty()).then_some(count)
    }
}

/// What one method does on one machine.
#[derive(Debug, Clone)]
pub(super) struct Measured {
    pub dataset: String,
    pub queries: &'static str,
    pub method: String,
    pub count: usize,
    pub supports: usize,
    /// Supports met: mean and median, a filter counting as one.
    pub steps: Option<[f64; 2]>,
    /// Share of the queries that the filter answers.
    pub pruned: Option<f64>,
    /// Multiply-adds of an exact answer and of this one on average.
    pub costs: [f64; 2],
    /// Time of exact answers over time of these: batch, single, and batch on all threads.
    pub times: Option<Times>,
    pub disagreements: usize,
    pub errors: Option<usize>,
    pub exact_errors: Option<usize>,
    /// Share of calibrated answers; the others are exact.
    pub calibrated: Option<f64>,
    /// eps and delta, disagreements and size of the test.
    pub promise: Option<(f64, u64, u64)>,
    pub plan: String,
}

impl Measured {
    fn new(plan: &Plan, asked: &Asked<'_>, (dataset, method): (&str, &str)) -> Self {
        Self {
            dataset: dataset.to_owned(),
            queries: "own",
            method: method.to_owned(),
            count: asked.rows.rows(),
            supports: plan.exact_stage().machine().supports().rows(),
            steps: None,
            pruned: None,
            costs: [asked.cost, asked.cost],
            times: None,
            disagreements: 0,
            errors: None,
            exact_errors: asked.errors(&asked.exact),
            calibrated: None,
            promise: None,
            plan: plan.spec().to_string(),
        }
    }

    /// The queries were all digits, whatever the machine's classes.
    pub(super) fn on_all_digits(mut self) -> Self {
        self.queries = "all digits";
        self
    }

    /// Its times against those of exact answers.
    pub(super) fn time(&mut self, own: Times, exact: Times) {
        self.times = Some(std::array::from_fn(|at| exact[at] / own[at]));
    }

    /// Multiply-adds of an exact answer over those of this one.
    pub(super) fn ratio(&self) -> f64 {
        self.costs[0] / self.costs[1]
    }

    pub(super) fn object(&self) -> Value {
        let steps = self.steps.map(|[mean, median]| {
            json!({ "mean": mean, "median": median, "m/k": self.supports as f64 / mean })
        });
        json!({
            "dataset": self.dataset, "queries": self.queries, "method": self.method,
            "plan": self.plan,
            "count": self.count, "m": self.supports, "k": steps, "pruned": self.pruned,
            "multiply_adds": self.costs[1], "multiply_adds_ratio": self.ratio(),
            "batch_ratio": self.times.map(|times| times[0]),
            "single_ratio": self.times.map(|times| times[1]),
            "batch_all_threads_ratio": self.times.map(|times| times[2]),
            "disagreements": self.disagreements, "errors": self.errors,
            "exact_errors": self.exact_errors, "calibrated": self.calibrated,
            "eps": self.promise.map(|promise| promise.0),
            "test_disagreements": self.promise.map(|promise| promise.1),
            "test_queries": self.promise.map(|promise| promise.2),
        })
    }
}

/// Of a batch and of single queries on one thread, and of a batch on all.
pub(super) type Times = [f64; 3];

/// Microseconds of a query.
pub(super) fn times(plan: &Plan, rows: &Matrix, repeats: u32) -> anyhow::Result<Times> {
    let times = bench::times(plan, rows, repeats, 500)?;
    Ok([times.batch, times.single, times.batch_all_threads])
}

/// The same of several plans, round by round: what else the computer does hits all alike.
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

/// A plan of the paper's stage alone: every query stops by its rule.
pub(super) fn walked(
    plan: &Plan,
    asked: &Asked<'_>,
    names: (&str, &str),
) -> anyhow::Result<Measured> {
    let mut row = Measured::new(plan, asked, names);
    let machine = plan.exact_stage().machine();
    // The filter costs one product, as much as a support.
    let has_filter = !names.1.contains("no filter");
    let (mut steps, mut answers, mut cost, mut pruned) = (Vec::new(), Vec::new(), 0.0, 0);
    for (records, exact) in plan.records(asked.rows)?.iter().zip(&asked.exact) {
        let Some(record) = records.last() else {
            answers.push(*exact);
            steps.push(row.supports as f64);
            cost += asked.cost;
            continue;
        };
        let answer = match record.guess {
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
    row.disagreements = answers.iter().zip(&asked.exact).filter(|(a, b)| a != b).count();
    row.errors = asked.errors(&answers);
    Ok(row)
}

/// A calibrated plan.
pub(super) fn asked(
    plan: &Plan,
    asked: &Asked<'_>,
    names: (&str, &str),
) -> anyhow::Result<Measured> {
    let mut row = Measured::new(plan, asked, names);
    let found = plan.decide_with(asked.rows, &mercer::query::QueryOptions::default())?;
    let answers: Vec<Answer> = found.decisions.iter().map(|decision| decision.answer).collect();
    let is_calibrated =
        |decision: &&mercer::query::Decision| decision.certainty == Certainty::Calibrated;
    let calibrated = found.decisions.iter().filter(is_calibrated).count();
    row.calibrated = Some(calibrated as f64 / row.count.max(1) as f64);
    row.costs[1] = found.mean_cost();
    row.disagreements = answers.iter().zip(&asked.exact).filter(|(a, b)| a != b).count();
    row.errors = asked.errors(&answers);
    row.promise = plan.calibration().map(|known| (known.risk, known.disagreements, known.queries));
    Ok(row)
}
