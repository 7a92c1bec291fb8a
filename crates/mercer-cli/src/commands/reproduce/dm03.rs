//! \[DM03\], the MNIST experiments: all 45 pairs of digits, the paper's early stopping as it stands (thresholds
//! from training rows, from held-out rows, with and without the linear filter), our calibrated plan on the
//! same machines, the vote of all pairs, and one machine with many supports.

mod digits;
mod measure;
mod table;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use mercer::compile::{CompileError, Compiler, FittingData, Progress, Watch};
use mercer::data::Matrix;
use mercer::machine::{Answer, Machine};
use mercer::query::Plan;
use mercer::tune::{Aim, Tuner};
use serde_json::json;

use super::super::StopSignal;
use super::{Paper, Reproduce};
use crate::console::Console;
use crate::output::whole;
use crate::picture::points;
use digits::{Digits, Task};
use measure::{Asked, Measured};

pub(super) static PAPER: Paper = Paper {
    key: "dm03",
    title: "D. DeCoste, D. Mazzoni, Fast Query-Optimized Kernel Machine Classification via Incremental \
            Approximate Nearest Support Vectors, 2003",
    quick: &["3v8"],
    run,
};

/// The plan that we recommend for such machines.
const DEFAULT: &str = "cascade(student(1, 4, 8, 16, directions=fitted), \
                       pca(48, 64, 96, 128, 192), exact)";
/// With many supports students are cheap beside everything else.
const LARGE: &str =
    "cascade(student(8, 16, 32, 56, directions=fitted), pca(64, 96, 128, 192), exact)";
/// With ten classes.
const VOTE: &str = "cascade(landmarks(32, 512), pca(128), low_precision, exact)";

/// What the plans promise.
const CONTRACT: &str = "calibrated(eps=0.001, delta=0.05)";
/// How long `mercer tune` may look for a plan of its own.
const TUNING: Duration = Duration::from_secs(120);
/// Machines on which a plan that is found is measured beside those written by hand.
const TUNED: [&str; 3] = ["3v8", "ten classes", "even odd"];

/// What the paper does: its numbers, where its thresholds come from, and whether it filters.
const FAITHFUL: [(&str, &str, bool); 5] = [
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

/// One reproduction at work.
struct Work<'a> {
    arguments: &'a Reproduce,
    console: &'a Console,
    stop: &'a StopSignal,
    digits: &'a Digits,
    task: Task,
    rows: Vec<Measured>,
}

fn run(arguments: &Reproduce, console: &Console, stop: &StopSignal) -> anyhow::Result<()> {
    let task = Task::read()?;
    let data =
        arguments.data.clone().or_else(|| std::env::var_os("MERCER_DATA").map(PathBuf::from));
    let all: Vec<(u8, u8)> = (0..10).flat_map(|a| (a + 1..10).map(move |b| (a, b))).collect();
    let is_wanted =
        |name: &str| arguments.only.is_empty() || arguments.only.iter().any(|only| only == name);
    let names = all.iter().map(|(a, b)| format!("{a}v{b}"));
    let names = names.chain(["ten classes".to_owned(), "even odd".to_owned()]);
    if !names.into_iter().any(|name| is_wanted(&name)) {
        return Ok(());
    }
    let known: Vec<&str> =
        FAITHFUL.iter().map(|known| known.0).chain(["default", "tuned"]).collect();
    if let Some(name) = arguments.method.iter().find(|name| !known.contains(&name.as_str())) {
        anyhow::bail!("there is no method {name:?}; there are {}", known.join("; "));
    }
    let missing = match data.as_deref().map(|data| task.missing(data)) {
        None => Some("--data DIR must name a folder with mnist/train-images-idx3-ubyte".to_owned()),
        Some(missing) => missing,
    };
    if let Some(missing) = missing {
        console.warn(&format!("the digits are left out: {missing}"));
        return Ok(());
    }
    let digits = &Digits::read(&data.unwrap_or_default(), &task, stop)?;
    let mut work = Work { arguments, console, stop, digits, task, rows: Vec::new() };
    let mut pairs = Vec::new();
    if !console.json {
        table::names();
    }
    let wants_vote = is_wanted("ten classes");
    for (a, b) in all {
        let name = format!("{a}v{b}");
        if !is_wanted(&name) && !wants_vote {
            continue;
        }
        stop.check()?;
        let pair = work.digits.pair(a, b, &work.task, stop)?;
        if is_wanted(&name) {
            work.pair(&name, &pair)?;
        }
        pairs.push(pair);
    }
    let totals = table::totals(&work.rows);
    if !console.json {
        totals.iter().for_each(table::Total::print);
    }
    if wants_vote {
        work.vote(&pairs)?;
    }
    if is_wanted("even odd") {
        work.even_odd()?;
    }
    if console.json {
        let rows: Vec<_> = work.rows.iter().map(Measured::object).collect();
        let totals: Vec<_> = totals.iter().map(table::Total::object).collect();
        let object = json!({
            "paper": PAPER.key, "title": PAPER.title, "rows": rows, "all pairs": totals,
        });
        println!("{object}");
    } else {
        table::foot();
    }
    Ok(())
}

impl Work<'_> {
    fn is_method(&self, name: &str) -> bool {
        let wanted = &self.arguments.method;
        wanted.is_empty() || wanted.iter().any(|method| method == name)
    }

    /// All methods on one pair.
    fn pair(&mut self, name: &str, pair: &digits::Pair) -> anyhow::Result<()> {
        let exact = Plan::exact(&pair.machine);
        let own = Asked::new(&exact, &pair.queries, &pair.answers)?;
        let digits = self.digits;
        let everything = Asked::new(&exact, &digits.queries, &[])?;
        let exact_times = measure::times(&exact, &pair.queries, self.arguments.repeats)?;
        for (method, text, is_paper) in FAITHFUL {
            if !self.is_method(method) {
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
            let mut row = measure::walked(&plan, &own, (name, method))?;
            row.time(measure::times(&plan, &pair.queries, self.arguments.repeats)?, exact_times);
            if let (Some(path), "paper, no filter", true) =
                (&self.arguments.svg, method, self.rows.len() < FAITHFUL.len())
            {
                draw(&plan, &own, path)?;
            }
            self.add(row);
            let row = measure::walked(&plan, &everything, (name, method))?;
            self.add(row.on_all_digits());
        }
        let fitting_data = FittingData {
            sample: Some(&pair.held_out),
            training: Some(&pair.training),
            ..FittingData::default()
        };
        let plans = self.plans(name, &pair.machine, (DEFAULT, fitting_data))?;
        let times = self.times(&exact, &plans, &pair.queries)?;
        for ((method, plan), time) in plans.iter().zip(&times[1..]) {
            let mut row = measure::asked(plan, &own, (name, method))?;
            row.time(*time, times[0]);
            self.add(row);
            let row = measure::asked(plan, &everything, (name, method))?;
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
        measure::times_in_turns(&all, queries, self.arguments.repeats)
    }

    /// All pairs as one machine that votes.
    fn vote(&mut self, pairs: &[digits::Pair]) -> anyhow::Result<()> {
        let vote = self.digits.vote(pairs)?;
        let fitting_data = FittingData {
            sample: Some(&vote.held_out),
            training: Some(&vote.training),
            ..FittingData::default()
        };
        self.calibrated("ten classes", &vote.machine, (VOTE, fitting_data), &vote.answers)
    }

    /// One machine with many supports: even digits against odd ones.
    fn even_odd(&mut self) -> anyhow::Result<()> {
        let pair = self.digits.even_odd(&self.task, self.stop)?;
        let fitting_data = FittingData {
            sample: Some(&pair.held_out),
            training: Some(&pair.training),
            ..FittingData::default()
        };
        self.calibrated("even odd", &pair.machine, (LARGE, fitting_data), &pair.answers)
    }

    fn calibrated(
        &mut self,
        name: &str,
        machine: &Machine,
        (text, fitting_data): (&str, FittingData<'_>),
        answers: &[Option<Answer>],
    ) -> anyhow::Result<()> {
        let exact = Plan::exact(machine);
        let digits = self.digits;
        let queries: &Matrix = &digits.queries;
        let asked = Asked::new(&exact, queries, answers)?;
        self.stop.check()?;
        let plans = self.plans(name, machine, (text, fitting_data))?;
        let times = self.times(&exact, &plans, queries)?;
        for ((method, plan), time) in plans.iter().zip(&times[1..]) {
            self.stop.check()?;
            let mut row = measure::asked(plan, &asked, (name, method))?;
            row.time(*time, times[0]);
            self.add(row);
        }
        Ok(())
    }

    /// The plan written by hand and the one that `mercer tune` finds, as far as they are wanted.
    fn plans(
        &self,
        name: &str,
        machine: &Machine,
        (text, fitting_data): (&str, FittingData<'_>),
    ) -> anyhow::Result<Vec<(&'static str, Plan)>> {
        let mut plans = Vec::new();
        if self.is_method("default") {
            plans.push(("default", self.compile(machine, text, fitting_data)?));
        }
        if self.is_method("tuned") && TUNED.contains(&name) {
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
        Ok(Plan::load(machine, &found.sections)?)
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
        Ok(Plan::load(machine, &compiled.sections)?)
    }

    /// Work that tells how far it is and stops when asked to.
    fn watched<T>(
        &self,
        work: impl FnOnce(Watch<'_>) -> Result<T, CompileError>,
    ) -> anyhow::Result<T> {
        let status = self.console.status();
        let watch = |progress: Progress| {
            let Progress { what, done, most } = progress;
            status.set_message(format!("{what}: {done} of at most {most}"));
            self.stop.check().is_ok()
        };
        let found = work(Watch::new(&watch));
        status.finish_and_clear();
        self.stop.check()?;
        Ok(found?)
    }

    fn add(&mut self, row: Measured) {
        if !self.console.json {
            table::row(&row);
        }
        self.rows.push(row);
    }
}

/// Steps against the exact score: work in proportion to difficulty.
fn draw(plan: &Plan, asked: &Asked<'_>, path: &std::path::Path) -> anyhow::Result<()> {
    let scores = plan.scores(asked.rows)?;
    let records = plan.records(asked.rows)?;
    let steps = records.iter().map(|one| one.last().map_or(0, |record| record.progress) as f64);
    let shown: Vec<(f64, f64)> = scores.into_iter().zip(steps).collect();
    whole(path, &points("Steps until a query stops", "score f", "supports met", &shown))
}
