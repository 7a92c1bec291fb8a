//! \[DM03\], the MNIST experiments: all 45 pairs of digits, the paper's early stopping (thresholds from training rows, from
//! held-out rows, and from both), its variants on three pairs, our calibrated plan on the same machines, the vote of
//! all pairs, and one machine with many supports.

mod digits;
mod figures;
mod measure;
mod methods;
mod table;

use std::time::Duration;

use anyhow::Context as _;
use mercer::compile::{CompileError, Compiler, FittingData, Progress, Watch};
use mercer::data::Matrix;
use mercer::machine::{Answer, Machine, PlanSections};
use mercer::query::Plan;
use mercer::tune::{Aim, Tuner};

use crate::comparison::Comparison;
use crate::{Paper, Session};
use digits::{Digits, DigitsTask};
use measure::{MethodRow, RowName, TestQueries};
use methods::{METHODS, PaperMethod, REDUCED};
use table::Detail;

pub(crate) static PAPER: Paper = Paper {
    key: "dm03",
    title: "D. DeCoste, D. Mazzoni, Fast Query-Optimized Kernel Machine Classification via Incremental \
            Approximate Nearest Support Vectors, 2003",
    quick: &["3v8", "0v1", "4v9"],
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

/// The paper's method for ten classes: one-vs-one, with the vote.
const NEAREST_VOTE: &str = "nearest(paper, dimensions=20, smoothing=10, tug_of_war=yes, rows=both)";

/// The contract of the calibrated plans.
const CONTRACT: &str = "calibrated(eps=0.001, delta=0.05)";
/// Time limit of `mercer tune`.
const TUNING: Duration = Duration::from_secs(120);
/// Machines on which a tuned plan is measured beside the hand-written one.
const TUNED: [&str; 3] = ["3v8", "ten classes", "even odd"];

/// The pairs shown as Table 1 shows its three: the two that the paper's design was made on, and the one whose disagreements
/// its text names. Which pair was the third is lost.
const TABLE_1: [&str; 3] = ["3v8", "0v1", "4v9"];
/// The pair of the figures, and of the variants in a quick run.
const SHOWN: &str = "3v8";

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
        METHODS.iter().map(|known| known.name).chain(["default", "tuned", "nearest"]).collect();
    if let Some(name) = session.options.method.iter().find(|name| !known.contains(&name.as_str())) {
        anyhow::bail!("there is no method {name:?}; there are {}", known.join("; "));
    }
    let data = session.data();
    let missing = match data.as_deref().map(|data| task.missing(data)) {
        None => Some("--data DIR must name a folder with mnist/train-images-idx3-ubyte".to_owned()),
        Some(missing) => missing,
    };
    if let Some(missing) = missing {
        session.leave_out("MNIST", &missing);
        return Ok(());
    }
    let digits = &Digits::read(&data.unwrap_or_default(), &task, session)?;
    let mut experiments = Experiments { session, digits, task, rows: Vec::new() };
    let pairs = experiments.pairs(&all)?;
    let printed: Vec<&str> =
        METHODS.iter().filter(|method| method.is_printed).map(|method| method.name).collect();
    table::totals(session, &experiments.rows, &printed);
    if session.wants("ten classes") {
        experiments.vote(&pairs)?;
    }
    if session.wants("even odd") {
        experiments.even_odd()?;
    }
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
        let is_shown = TABLE_1.contains(&name);
        let detail = if is_shown { Detail::Table1 } else { Detail::Pair };
        let digits = self.digits;
        let everything =
            is_shown.then(|| TestQueries::new(&exact, &digits.queries, &[])).transpose()?;
        self.machine(name, pair, &own);
        // A quick run shows the variants on one pair.
        let has_variants = if self.session.options.quick { name == SHOWN } else { is_shown };
        for method in &METHODS {
            if !self.session.wants_method(method.name) || !(method.is_for_all || has_variants) {
                continue;
            }
            self.session.check()?;
            let supports = pair.machine.supports().rows();
            if method.is_reduced && supports <= REDUCED {
                let note = format!("not run: the machine has {supports} supports");
                self.session.compare(Comparison::new(name, method.name, "mean k").note(note));
                continue;
            }
            let (plan, sections) = self.paper_plan(pair, method)?;
            let row_name = RowName { dataset: name, method: method.name };
            let mut row = measure::early_stopping(&plan, &own, row_name)?;
            if is_shown {
                let repeats = self.session.options.repeats;
                let exact_times = measure::times(&exact, &pair.queries, repeats)?;
                row.set_times(measure::times(&plan, &pair.queries, repeats)?, exact_times);
            }
            if method.name == "as printed" && is_shown {
                let errors = measure::linear_errors(&sections, pair);
                let row = Comparison::new(name, "linear SVM", "test errors");
                self.session.compare(row.ours(errors).note("the filter alone, without thresholds"));
            }
            if self.session.wants_figures() && name == SHOWN {
                self.figures(method.name, pair, &plan, &sections)?;
            }
            self.add(row, detail, method.is_printed);
            if let (Some(everything), true) = (&everything, method.is_for_all) {
                let row = measure::early_stopping(&plan, everything, row_name)?;
                self.add(row.on_all_digits(), detail, false);
            }
        }
        let fitting_data = FittingData {
            sample: Some(&pair.held_out),
            training: Some(&pair.training),
            ..FittingData::default()
        };
        let plans = self.plans(name, &pair.machine, HandWritten { plan: DEFAULT, fitting_data })?;
        let times = if is_shown && !plans.is_empty() {
            self.times(&exact, &plans, &pair.queries)?
        } else {
            Vec::new()
        };
        for (number, (method, plan)) in plans.iter().enumerate() {
            let mut row = measure::calibrated(plan, &own, RowName { dataset: name, method })?;
            if let (Some(time), Some(exact)) = (times.get(number + 1), times.first()) {
                row.set_times(*time, *exact);
            }
            self.add(row, detail, false);
        }
        Ok(())
    }

    /// What Table 1 says of the machine itself.
    fn machine(&self, name: &str, pair: &digits::Pair, own: &TestQueries<'_>) {
        let supports = pair.machine.supports().rows() as f64;
        let row = |measure: &str| Comparison::new(name, "machine", measure);
        self.session.compare(row("supports m").ours(supports));
        self.session.compare(row("test queries").ours(own.rows.rows() as f64));
        let errors = own.exact_errors().map(|errors| errors as f64);
        self.session.compare(row("exact test errors").ours(errors).note("of the exact machine"));
    }

    /// The paper's stage, with thresholds from the rows that the method names.
    fn paper_plan(
        &self,
        pair: &digits::Pair,
        method: &PaperMethod,
    ) -> anyhow::Result<(Plan, PlanSections)> {
        let (rows, labels) = pair.threshold_rows(method.source);
        let fitting_data = FittingData {
            training: Some(&rows),
            training_labels: Some(&labels),
            ..FittingData::default()
        };
        let text = method.stage.parse()?;
        let compiled = self.watched(|watch| {
            let compiler = Compiler::new(&pair.machine).fitting_data(fitting_data).watch(watch);
            compiler.boundary(method.generated).run(&text)
        })?;
        Ok((Plan::fitted(&pair.machine, &compiled.sections)?, compiled.sections))
    }

    /// Fig. 1 and Fig. 3 of the paper, from the plan without a filter.
    fn figures(
        &self,
        method: &str,
        pair: &digits::Pair,
        plan: &Plan,
        sections: &PlanSections,
    ) -> anyhow::Result<()> {
        if method != "as printed, no filter" {
            return Ok(());
        }
        let svg = figures::score_against_steps(plan, sections, &pair.queries)?;
        self.session.figure(&PAPER, "fig3", &svg)?;
        let query = pair.queries.row(0);
        let svg = figures::nearest_supports(&pair.machine, sections, plan, query)?;
        self.session.figure(&PAPER, "fig1", &svg)
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
        self.calibrated("ten classes", &vote.machine, hand_written, &vote.answers)?;
        if !self.session.wants_method("nearest") {
            return Ok(());
        }
        // The paper's stage for the vote of all pairs, tested on held-out rows.
        let plan = self.compile(&vote.machine, NEAREST_VOTE, fitting_data)?;
        let exact = Plan::exact(&vote.machine);
        let digits = self.digits;
        let test = TestQueries::new(&exact, &digits.queries, &vote.answers)?;
        let name = RowName { dataset: "ten classes", method: "nearest" };
        let mut row = measure::early_stopping(&plan, &test, name)?;
        let repeats = self.session.options.repeats;
        let exact_times = measure::times(&exact, &digits.queries, repeats)?;
        row.set_times(measure::times(&plan, &digits.queries, repeats)?, exact_times);
        self.add(row, Detail::Table1, false);
        Ok(())
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
            self.add(row, Detail::Table1, false);
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
        let is_quick = self.session.options.quick;
        if self.session.wants_method("tuned") && TUNED.contains(&name) && !is_quick {
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

    fn add(&mut self, row: MethodRow, detail: Detail, is_printed: bool) {
        table::report(self.session, &row, detail, is_printed);
        self.rows.push(row);
    }
}
