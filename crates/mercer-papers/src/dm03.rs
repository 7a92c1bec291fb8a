//! \[DM03\], the MNIST experiments: all 45 pairs of digits, the paper's early stopping (thresholds
//! from training rows, from held-out rows, with and without the linear filter), our calibrated plan on the
//! same machines, the vote of all pairs, and one machine with many supports.

mod digits;
mod measure;
mod table;

use std::time::Duration;

use anyhow::Context as _;
use mercer::compile::{CompileError, Compiler, FittingData, Progress, Watch};
use mercer::data::Matrix;
use mercer::machine::{Answer, Machine};
use mercer::query::Plan;
use mercer::tune::{Aim, Tuner};
use serde_json::json;

use crate::{Paper, Session};
use digits::{Digits, DigitsTask};
use measure::{MethodRow, RowName, TestQueries};
use mercer_report::svg::points;

pub(crate) static PAPER: Paper = Paper {
    key: "dm03",
    title: "D. DeCoste, D. Mazzoni, Fast Query-Optimized Kernel Machine Classification via Incremental \
            Approximate Nearest Support Vectors, 2003",
    quick: &["3v8"],
    run,
};

/// The plan that we recommend for such machines.
const DEFAULT: &str = "cascade(student(1, 4, 8, 16, directions=fitted), \
                       pca(48, 64, 96, 128, 192), exact)";
/// For machines with many supports; students are cheap beside the exact stage.
const LARGE: &str =
    "cascade(student(8, 16, 32, 56, directions=fitted), pca(64, 96, 128, 192), exact)";
/// For ten classes.
const VOTE: &str = "cascade(landmarks(32, 512), pca(128), low_precision, exact)";

/// The contract of the calibrated plans.
const CONTRACT: &str = "calibrated(eps=0.001, delta=0.05)";
/// Time limit of `mercer tune`.
const TUNING: Duration = Duration::from_secs(120);
/// Machines on which a tuned plan is measured beside the hand-written one.
const TUNED: [&str; 3] = ["3v8", "ten classes", "even odd"];

/// The paper's method: a name, the stage, and whether thresholds come from training rows (or held-out rows).
const PAPER_METHODS: [(&str, &str, bool); 5] = [
    ("paper", "nearest(paper, dimensions=20, smoothing=10, tug_of_war=yes)", true),
    (
        "paper, no filter",
        "nearest(paper, dimensions=20, smoothing=10, tug_of_war=yes, filter=no)",
        true,
    ),
    ("paper, cross-validated", "nearest(paper)", true),
    ("held-out", "nearest(paper, dimensions=20, smoothing=10, tug_of_war=yes)", false),
    (
        "held-out, no filter",
        "nearest(paper, dimensions=20, smoothing=10, tug_of_war=yes, filter=no)",
        false,
    ),
];

/// The experiments, with the lines measured so far.
struct Experiments<'a> {
    session: &'a Session<'a>,
    digits: &'a Digits,
    task: DigitsTask,
    rows: Vec<MethodRow>,
}

/// A hand-written plan and the rows it is fitted to.
#[derive(Clone, Copy)]
struct HandWritten<'a> {
    plan: &'static str,
    fitting_data: FittingData<'a>,
}

fn run(session: &Session<'_>) -> anyhow::Result<()> {
    let task = DigitsTask::read()?;
    let all: Vec<(u8, u8)> = (0..10).flat_map(|a| (a + 1..10).map(move |b| (a, b))).collect();
    let names = all.iter().map(|(a, b)| format!("{a}v{b}"));
    let names = names.chain(["ten classes".to_owned(), "even odd".to_owned()]);
    if !names.into_iter().any(|name| session.wants(&name)) {
        return Ok(());
    }
    let known: Vec<&str> =
        PAPER_METHODS.iter().map(|known| known.0).chain(["default", "tuned"]).collect();
    if let Some(name) = session.options.method.iter().find(|name| !known.contains(&name.as_str())) {
        anyhow::bail!("there is no method {name:?}; there are {}", known.join("; "));
    }
    let data = session.data();
    let missing = match data.as_deref().map(|data| task.missing(data)) {
        None => Some("--data DIR must name a folder with mnist/train-images-idx3-ubyte".to_owned()),
        Some(missing) => missing,
    };
    if let Some(missing) = missing {
        session.warn(&format!("the digits are left out: {missing}"));
        return Ok(());
    }
    let digits = &Digits::read(&data.unwrap_or_default(), &task, session)?;
    let mut experiments = Experiments { session, digits, task, rows: Vec::new() };
    session.line(&table::header());
    let pairs = experiments.pairs(&all)?;
    let totals = table::totals(&experiments.rows);
    totals.iter().for_each(|total| session.line(&total.text()));
    if session.wants("ten classes") {
        experiments.vote(&pairs)?;
    }
    if session.wants("even odd") {
        experiments.even_odd()?;
    }
    let rows: Vec<_> = experiments.rows.iter().map(MethodRow::object).collect();
    let totals: Vec<_> = totals.iter().map(table::Total::object).collect();
    session.detail("measured", json!(rows));
    session.detail("all pairs", json!(totals));
    session.line(table::FOOTER);
    Ok(())
}

impl Experiments<'_> {
    /// Trains and measures the selected pairs; trains the others too if the vote needs them.
    fn pairs(&mut self, all: &[(u8, u8)]) -> anyhow::Result<Vec<digits::Pair>> {
        let mut pairs = Vec::new();
        for (a, b) in all {
            let name = format!("{a}v{b}");
            if !self.session.wants(&name) && !self.session.wants("ten classes") {
                continue;
            }
            self.session.check()?;
            let pair = self.digits.pair(*a, *b, &self.task, self.session)?;
            if self.session.wants(&name) {
                self.pair(&name, &pair)?;
            }
            pairs.push(pair);
        }
        Ok(pairs)
    }

    /// All methods on one pair.
    fn pair(&mut self, name: &str, pair: &digits::Pair) -> anyhow::Result<()> {
        let exact = Plan::exact(&pair.machine);
        let own = TestQueries::new(&exact, &pair.queries, &pair.answers)?;
        let digits = self.digits;
        let everything = TestQueries::new(&exact, &digits.queries, &[])?;
        let exact_times = measure::times(&exact, &pair.queries, self.session.options.repeats)?;
        for (method, text, is_paper) in PAPER_METHODS {
            if !self.session.wants_method(method) {
                continue;
            }
            let (rows, labels) = if is_paper {
                (&pair.training, &pair.training_answers)
            } else {
                (&pair.held_out, &pair.held_out_answers)
            };
            let fitting_data = FittingData {
                training: Some(rows),
                training_labels: Some(labels),
                ..FittingData::default()
            };
            let plan = self.compile(&pair.machine, text, fitting_data)?;
            let row_name = RowName { dataset: name, method };
            let mut row = measure::early_stopping(&plan, &own, row_name)?;
            let times = measure::times(&plan, &pair.queries, self.session.options.repeats)?;
            row.set_times(times, exact_times);
            let is_first = self.rows.len() < PAPER_METHODS.len();
            if self.session.wants_figures() && method == "paper, no filter" && is_first {
                self.session.figure(&PAPER, "steps", &steps_against_scores(&plan, &own)?)?;
            }
            self.add(row);
            let row = measure::early_stopping(&plan, &everything, row_name)?;
            self.add(row.on_all_digits());
        }
        let fitting_data = FittingData {
            sample: Some(&pair.held_out),
            training: Some(&pair.training),
            ..FittingData::default()
        };
        let plans = self.plans(name, &pair.machine, HandWritten { plan: DEFAULT, fitting_data })?;
        let times = self.times(&exact, &plans, &pair.queries)?;
        for ((method, plan), time) in plans.iter().zip(&times[1..]) {
            let row_name = RowName { dataset: name, method };
            let mut row = measure::calibrated(plan, &own, row_name)?;
            row.set_times(*time, times[0]);
            self.add(row);
            let row = measure::calibrated(plan, &everything, row_name)?;
            self.add(row.on_all_digits());
        }
        Ok(())
    }

    /// Times of exact answers, then those of plans.
    fn times(
        &self,
        exact: &Plan,
        plans: &[(&str, Plan)],
        queries: &Matrix,
    ) -> anyhow::Result<Vec<measure::Times>> {
        let all: Vec<&Plan> = std::iter::once(exact).chain(plans.iter().map(|p| &p.1)).collect();
        measure::times_in_turns(&all, queries, self.session.options.repeats)
    }

    /// All pairs as one machine that votes (one-vs-one).
    fn vote(&mut self, pairs: &[digits::Pair]) -> anyhow::Result<()> {
        let vote = self.digits.vote(pairs)?;
        let fitting_data = FittingData {
            sample: Some(&vote.held_out),
            training: Some(&vote.training),
            ..FittingData::default()
        };
        let hand_written = HandWritten { plan: VOTE, fitting_data };
        self.calibrated("ten classes", &vote.machine, hand_written, &vote.answers)
    }

    /// One machine with many supports: even digits against odd ones.
    fn even_odd(&mut self) -> anyhow::Result<()> {
        let pair = self.digits.even_odd(&self.task, self.session)?;
        let fitting_data = FittingData {
            sample: Some(&pair.held_out),
            training: Some(&pair.training),
            ..FittingData::default()
        };
        let hand_written = HandWritten { plan: LARGE, fitting_data };
        self.calibrated("even odd", &pair.machine, hand_written, &pair.answers)
    }

    fn calibrated(
        &mut self,
        name: &str,
        machine: &Machine,
        hand_written: HandWritten<'_>,
        answers: &[Option<Answer>],
    ) -> anyhow::Result<()> {
        let exact = Plan::exact(machine);
        let digits = self.digits;
        let queries: &Matrix = &digits.queries;
        let test = TestQueries::new(&exact, queries, answers)?;
        self.session.check()?;
        let plans = self.plans(name, machine, hand_written)?;
        let times = self.times(&exact, &plans, queries)?;
        for ((method, plan), time) in plans.iter().zip(&times[1..]) {
            self.session.check()?;
            let row_name = RowName { dataset: name, method };
            let mut row = measure::calibrated(plan, &test, row_name)?;
            row.set_times(*time, times[0]);
            self.add(row);
        }
        Ok(())
    }

    /// The hand-written plan and the one that `mercer tune` finds, if selected.
    fn plans(
        &self,
        name: &str,
        machine: &Machine,
        hand_written: HandWritten<'_>,
    ) -> anyhow::Result<Vec<(&'static str, Plan)>> {
        let HandWritten { plan, fitting_data } = hand_written;
        let mut plans = Vec::new();
        if self.session.wants_method("default") {
            plans.push(("default", self.compile(machine, plan, fitting_data)?));
        }
        if self.session.wants_method("tuned") && TUNED.contains(&name) {
            plans.push(("tuned", self.tune(machine, fitting_data)?));
        }
        Ok(plans)
    }

    fn tune(&self, machine: &Machine, fitting_data: FittingData<'_>) -> anyhow::Result<Plan> {
        let sample = fitting_data.sample.context("there is a sample")?;
        let contract = CONTRACT.parse()?;
        let found = self.watched(|watch| {
            Tuner::new(machine, sample)
                .training(fitting_data.training)
                .contract(contract)
                .aim(Aim::Throughput)
                .time_limit(TUNING)
                .watch(watch)
                .run()
        })?;
        Ok(Plan::fitted(machine, &found.sections)?)
    }

    fn compile(
        &self,
        machine: &Machine,
        text: &str,
        fitting_data: FittingData<'_>,
    ) -> anyhow::Result<Plan> {
        let text = text.parse()?;
        let compiled = self.watched(|watch| {
            Compiler::new(machine).fitting_data(fitting_data).watch(watch).run(&text)
        })?;
        Ok(Plan::fitted(machine, &compiled.sections)?)
    }

    /// Compiles or tunes with a status text; the stop flag ends it.
    fn watched<T>(
        &self,
        work: impl FnOnce(Watch<'_>) -> Result<T, CompileError>,
    ) -> anyhow::Result<T> {
        let status = self.session.status();
        let watch = |progress: Progress| {
            let Progress { what, done, most } = progress;
            status.show(&format!("{what}: {done} of at most {most}"));
            !self.session.is_stopped()
        };
        let found = work(Watch::new(&watch));
        drop(status);
        self.session.check()?;
        Ok(found?)
    }

    fn add(&mut self, row: MethodRow) {
        self.session.line(&table::row(&row));
        self.rows.push(row);
    }
}

/// Draws steps against the exact score.
fn steps_against_scores(plan: &Plan, test: &TestQueries<'_>) -> anyhow::Result<String> {
    let scores = plan.scores(test.rows)?;
    let records = plan.records(test.rows)?;
    let steps = records.iter().map(|one| one.last().map_or(0, |record| record.progress) as f64);
    let shown: Vec<(f64, f64)> = scores.into_iter().zip(steps).collect();
    Ok(points("Steps until a query stops", "score f", "supports used", &shown))
}
