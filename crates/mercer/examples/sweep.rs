//! Tunes machines of every kind and tests them on queries that were not used for tuning.
//!
//! `cargo run --release -p mercer --example sweep -- [--files-only] [MODEL QUERIES]...` prints a line of JSON for each machine
//! and contract: machines trained here on synthetic data, and those of the named files, whose queries are split in
//! two halves. Machines with hand-written plans are tuned for batches and for single queries and timed beside those
//! plans. `cargo xtask bench tune` makes a table of it.

use std::path::Path;
use std::time::{Duration, Instant};

use mercer::compile::{Compiler, FittingData};
use mercer::data::{Dataset, Matrix, Targets, read, synthetic};
use mercer::kernel;
use mercer::machine::{Answer, ClassName, Machine, Output, PlanSections, Scheme, Score, file};
use mercer::query::{Decision, Plan, QueryOptions};
use mercer::train::{Training, formulation, train};
use mercer::tune::{Aim, Contract, Tuner};
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde_json::json;

type Failure = Box<dyn std::error::Error>;

/// Timing runs of each plan, in turn: at least the first number; up to the second while there is time.
const RUNS: std::ops::Range<usize> = 3..40;
/// Time for the runs of each plan.
const RUN_TIME: Duration = Duration::from_millis(600);
/// How often plans are loaded again, at other places in memory.
const RELOADS: usize = 5;
/// A batch repeats its queries up to this many multiply-adds of exact answers: in a run of a millisecond, the time to
/// wake threads would dominate.
const LONG_BATCH: f64 = 1e10;
/// Rows that one run decides one at a time, at most.
const SINGLE_ROWS: usize = 500;
/// Queries to tune with, and queries to test with.
const SAMPLE: usize = 4000;
/// Time limit of `tune`.
const LIMIT: Duration = Duration::from_secs(25);
/// Time limit for machines with hand-written plans: the default of `mercer tune`.
const LONG_LIMIT: Duration = Duration::from_secs(120);
const CALIBRATED: &str = "calibrated(eps=0.01, delta=0.05)";

/// The best hand-written plans that we know, by machine and kind of contract.
const HAND_WRITTEN: [(&str, &str, &[&str]); 6] = [
    (
        "mnist38",
        "certified",
        &["low_precision", "anytime", "anytime, low_precision", "low_precision, anytime"],
    ),
    ("mnist38_poly2", "certified", &["spectral", "spectral, low_precision", "low_precision"]),
    ("mnist10", "certified", &["low_precision", "compressed, low_precision"]),
    ("mnist38", "calibrated", STUDENTS),
    ("mnist38_poly2", "calibrated", STUDENTS),
    (
        "mnist10",
        "calibrated",
        &[
            "landmarks(32, 512), pca(128), low_precision",
            "student(48), pca(128), low_precision",
            "student(32), student(48), pca(128), low_precision",
            "linear, student(48), low_precision",
        ],
    ),
];
const STUDENTS: &[&str] = &[
    "student(1, 4, 8, 16, directions=fitted), pca(48, 64, 96, 128, 192)",
    "student(16, 32, directions=fitted), pca(64, 128, 192)",
    "student(16, 32, directions=fitted), low_precision",
    "linear, student(32), low_precision",
    "linear, spectral",
];

/// A machine with queries to tune it on and queries to test it on.
struct Subject {
    name: String,
    machine: Machine,
    sample: Matrix,
    unseen: Matrix,
    /// Training rows, if known: stages that estimate are fitted to them.
    training: Option<Matrix>,
    tolerance: Option<f64>,
}

fn main() -> Result<(), Failure> {
    let mut files: Vec<String> = std::env::args().skip(1).collect();
    let is_all = files.first().is_none_or(|first| first != "--files-only");
    if !is_all {
        files.remove(0);
    }
    for pair in files.chunks(2) {
        let [model, queries] = pair else { return Err("a model without queries".into()) };
        measure(&imported(model, queries)?)?;
    }
    if !is_all {
        return Ok(());
    }
    for subject in [two_supports, no_stage_fits, many_supports, wide_linear] {
        measure(&subject()?)?;
    }
    for task in trained_tasks() {
        measure(&task.train()?)?;
    }
    Ok(())
}

/// A source of rows: their number and a seed.
type Source = fn(usize, u64) -> Dataset;

/// A machine to train.
struct Task {
    name: &'static str,
    data: Source,
    kernel: &'static str,
    formulation: &'static str,
}

fn trained_tasks() -> [Task; 12] {
    let tasks: [(&str, Source, &str, &str); 12] = [
        ("Ripley, 2 columns", synthetic::ripley, "rbf(gamma=1)", "c_svc(C=1)"),
        ("crescents, 2 columns", synthetic::banana, "rbf(gamma=2)", "c_svc(C=1)"),
        ("degree 3, 3 columns", |n, s| clouds(n, 3, 2, s), CUBIC, "c_svc(C=1)"),
        ("degree 2, 40 columns", |n, s| clouds(n, 40, 2, s), SQUARE, "c_svc(C=0.01)"),
        ("rbf, 100 columns", |n, s| clouds(n, 100, 2, s), "rbf(gamma=0.005)", "c_svc(C=1)"),
        ("five classes, 30 columns", |n, s| clouds(n, 30, 5, s), "rbf(gamma=0.02)", "c_svc(C=1)"),
        ("sparse, 50,000 columns", |n, s| text(n, 50_000, s), "rbf(gamma=0.1)", "c_svc(C=1)"),
        ("chi2, 200 columns", |n, s| synthetic::histograms(n, 200, s), "chi2", "c_svc(C=1)"),
        ("intersection, 200 columns", |n, s| text(n, 200, s), "intersection", "c_svc(C=1)"),
        ("regression, 5 columns", waves, "rbf(gamma=0.2)", "epsilon_svr(C=10, epsilon=0.05)"),
        ("novelty, 10 columns", |n, s| clouds(n, 10, 1, s), "rbf(gamma=0.05)", "one_class(nu=0.1)"),
        (
            "sigmoid, 8 columns",
            |n, s| clouds(n, 8, 2, s),
            "sigmoid(gamma=0.05, coef0=0)",
            "c_svc(C=1)",
        ),
    ];
    tasks.map(|(name, data, kernel, formulation)| Task { name, data, kernel, formulation })
}

const SQUARE: &str = "polynomial(degree=2, gamma=0.05, coef0=1)";
const CUBIC: &str = "polynomial(degree=3, gamma=0.5, coef0=1)";

fn text(rows: usize, columns: usize, seed: u64) -> Dataset {
    synthetic::histograms(rows, columns, seed)
}

/// Overlapping round clouds, one for each class, their centres always the same.
fn clouds(rows: usize, columns: usize, classes: usize, seed: u64) -> Dataset {
    let mut centre_rng = Xoshiro256PlusPlus::seed_from_u64(77);
    let scale = 3.0 / (columns as f64).sqrt();
    let centres: Vec<f64> =
        (0..classes * columns).map(|_| scale * synthetic::normal(&mut centre_rng)).collect();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut values = Vec::with_capacity(rows * columns);
    for row in 0..rows {
        let class = row % classes;
        let centre = &centres[class * columns..(class + 1) * columns];
        values.extend(centre.iter().map(|c| c + synthetic::normal(&mut rng)));
    }
    let targets = (0..rows).map(|row| (row % classes) as f64).collect();
    let examples = Matrix::dense(columns, values).expect("whole rows");
    Dataset { examples, targets: Targets::Numbers(targets), names: None }
}

/// A smooth function of five columns, with noise.
fn waves(rows: usize, seed: u64) -> Dataset {
    let mut data = clouds(rows, 5, 1, seed);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed + 1);
    let value = |row: mercer::data::Row<'_>| {
        row.nonzeros().map(|(_, x)| x.sin()).sum::<f64>() + 0.05 * synthetic::normal(&mut rng)
    };
    data.targets = Targets::Numbers(data.examples.iter().map(value).collect());
    data
}

impl Task {
    fn train(&self) -> Result<Subject, Failure> {
        let kernel = kernel::parse(self.kernel)?;
        let formulation = formulation(self.formulation)?;
        let rows = (self.data)(2000, 1);
        let training = Training::default();
        let machine = train(&rows, &kernel, &formulation, &training, &mut |_| ())?.machine;
        let tolerance = matches!(machine.output(), Output::Value).then_some(0.01);
        let (sample, unseen) = ((self.data)(SAMPLE, 2).examples, (self.data)(SAMPLE, 3).examples);
        let name = self.name.to_owned();
        Ok(Subject { name, machine, sample, unseen, training: None, tolerance })
    }
}

/// A machine that was not trained: coefficients +1 and -1 on two clouds.
fn given(name: &str, kernel: &str, data: Source, supports: usize) -> Result<Subject, Failure> {
    let betas: Vec<f64> = (0..supports).map(|row| if row % 2 == 0 { 1.0 } else { -1.0 }).collect();
    let names = vec![ClassName::Number(0.0), ClassName::Number(1.0)];
    let output = Output::Classes { names, scheme: Scheme::OneVsOne };
    let scores = vec![Score::expansion(&betas, 0.001)];
    let rows = data(supports, 1).examples;
    let machine = Machine::new(kernel::parse(kernel)?, rows, scores, output)?;
    let (sample, unseen) = (data(SAMPLE, 2).examples, data(SAMPLE, 3).examples);
    Ok(Subject { name: name.to_owned(), machine, sample, unseen, training: None, tolerance: None })
}

fn two_supports() -> Result<Subject, Failure> {
    given("two supports, 2 columns", "rbf(gamma=1)", |n, s| clouds(n, 2, 2, s), 2)
}

fn no_stage_fits() -> Result<Subject, Failure> {
    given("laplacian, 20 columns", "laplacian(gamma=0.1)", |n, s| clouds(n, 20, 2, s), 300)
}

fn many_supports() -> Result<Subject, Failure> {
    given("20,000 supports, 20 columns", "rbf(gamma=0.05)", |n, s| clouds(n, 20, 2, s), 20_000)
}

fn wide_linear() -> Result<Subject, Failure> {
    given("linear expansion, 50,000 columns", "linear", |n, s| text(n, 50_000, s), 1000)
}

/// A model of any format, and queries, of which every second one is kept for the test. Its training rows may be in
/// `NAME.train.svm` beside it.
fn imported(model: &str, queries: &str) -> Result<Subject, Failure> {
    let machine = file::load(Path::new(model))?.machine;
    let rows = read::dataset(Path::new(queries), &read::Options::default())?.examples;
    let half = |first: usize| (first..rows.rows()).step_by(2).take(SAMPLE).collect::<Vec<_>>();
    let (sample, unseen) = (rows.select(half(0)), rows.select(half(1)));
    let beside = Path::new(model).with_extension("train.svm");
    let training = if beside.is_file() {
        Some(read::dataset(&beside, &read::Options::default())?.examples)
    } else {
        None
    };
    let stem = Path::new(model).file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let tolerance = matches!(machine.output(), Output::Value).then_some(0.01);
    Ok(Subject { name: stem.unwrap_or_default(), machine, sample, unseen, training, tolerance })
}

fn measure(subject: &Subject) -> Result<(), Failure> {
    let is_label = !matches!(subject.machine.output(), Output::Value);
    for contract in ["certified", CALIBRATED] {
        if contract == CALIBRATED && (!is_label || subject.sample.rows() < SAMPLE) {
            continue;
        }
        let known = HAND_WRITTEN
            .iter()
            .find(|(name, kind, _)| *name == subject.name && contract.starts_with(kind));
        let hand_written = hand_written(subject, contract, known.map_or(&[], |known| known.2))?;
        let aims: &[Aim] = match known {
            Some(_) => &[Aim::Throughput, Aim::Latency],
            None => &[Aim::Throughput],
        };
        for aim in aims {
            eprintln!("{}: {contract}, for {}", subject.name, aim.name());
            one(subject, contract, *aim, &hand_written)?;
        }
    }
    Ok(())
}

/// Compiles the hand-written plans; those that do not fit the machine are left out with a message.
fn hand_written(
    subject: &Subject,
    contract: &str,
    plans: &[&str],
) -> Result<Vec<PlanSections>, Failure> {
    let mut compiled = Vec::new();
    for stages in plans {
        let text = format!("cascade({stages}, exact)");
        let fitting_data = FittingData {
            sample: Some(&subject.sample),
            training: subject.training.as_ref(),
            ..FittingData::default()
        };
        let compiler = Compiler::new(&subject.machine).fitting_data(fitting_data);
        let compiler = match contract.parse()? {
            Contract::Calibrated(target) => compiler.target(target),
            _ => compiler,
        };
        match compiler.run(&text.parse()?) {
            Ok(found) => compiled.push(found.sections),
            Err(error) => eprintln!("hand-written plan {text}: {error}"),
        }
    }
    Ok(compiled)
}

fn one(
    subject: &Subject,
    contract: &str,
    aim: Aim,
    hand_written: &[PlanSections],
) -> Result<(), Failure> {
    let Subject { name, machine, sample, unseen, training, tolerance } = subject;
    let start = Instant::now();
    let tuned = Tuner::new(machine, sample)
        .contract(contract.parse::<Contract>()?)
        .aim(aim)
        .tolerance(*tolerance)
        .training(training.as_ref())
        .time_limit(if hand_written.is_empty() { LIMIT } else { LONG_LIMIT })
        // Rows with few categories are often equal; none of them is a training row.
        .trust_sample(true)
        .run()?;
    let seconds = start.elapsed().as_secs_f64();
    let plan = Plan::fitted(machine, &tuned.sections)?;
    let exact = Plan::exact(machine);
    let options = QueryOptions { tolerance: *tolerance, ..QueryOptions::default() };
    let truth = exact.decide(unseen)?;
    let count = |plan: &Plan| disagreements(plan, subject, &truth);
    // The tuned plan is timed twice: the difference shows the noise of the timing.
    let plans: Vec<&PlanSections> = [&tuned.sections; 2].into_iter().chain(hand_written).collect();
    let times = time_all(machine, &plans, unseen, &options)?;
    let mut others = Vec::new();
    for (sections, Times { batch, single }) in hand_written.iter().zip(&times[3..]) {
        let disagreements = count(&Plan::fitted(machine, sections)?)?;
        others.push(json!({
            "plan": sections.spec, "batch_us": batch, "single_us": single,
            "disagreements": disagreements,
        }));
    }
    let line = json!({
        "machine": name, "contract": contract, "aim": aim.name(), "columns": machine.columns(),
        "supports": machine.supports().rows(), "scores": machine.scores().len(),
        "plan": plan.spec().to_string(), "tune_seconds": seconds, "queries": unseen.rows(),
        "disagreements": count(&plan)?, "exact_batch_us": times[0].batch, "batch_us": times[1].batch,
        "exact_single_us": times[0].single, "single_us": times[1].single,
        "again_batch_us": times[2].batch, "again_single_us": times[2].single, "hand_written": others,
        "is_cut_short": tuned.tuning().stopped,
    });
    println!("{line}");
    Ok(())
}

/// How many answers disagree with exact ones.
fn disagreements(plan: &Plan, subject: &Subject, truth: &[Decision]) -> Result<usize, Failure> {
    let Subject { unseen, tolerance, .. } = subject;
    let options = QueryOptions { tolerance: *tolerance, ..QueryOptions::default() };
    let found = plan.decide_with(unseen, &options)?.decisions;
    let differs = |(a, b): &(&Decision, &Decision)| match (a.answer, b.answer) {
        (Answer::Value(a), Answer::Value(b)) => {
            (a - b).abs() > tolerance.unwrap_or(0.0) * 1.000_001
        }
        (a, b) => a != b,
    };
    Ok(truth.iter().zip(&found).filter(differs).count())
}

/// Microseconds per query, in a batch and one at a time.
#[derive(Clone, Copy)]
struct Times {
    batch: f64,
    single: f64,
}

/// Times of exact answers, then of all plans: in turn, the best run of each. Plans are loaded again several times,
/// since the same plan at another place in memory may take a tenth longer. Each plan answers some rows before its
/// run; otherwise the plan after the exact one would start with caches full of supports. Exact answers of large
/// machines get only a few runs: they take longer than all plans together.
fn time_all(
    machine: &Machine,
    plans: &[&PlanSections],
    rows: &Matrix,
    options: &QueryOptions,
) -> Result<Vec<Times>, Failure> {
    let mut times = vec![Times { batch: f64::INFINITY, single: f64::INFINITY }; plans.len() + 1];
    let first = rows.select(0..rows.rows().min(SINGLE_ROWS));
    let cost = Plan::exact(machine).exact_stage().cost().multiply_adds as f64 * rows.rows() as f64;
    let again = (LONG_BATCH / cost).clamp(1.0, 16.0) as usize;
    let batch = rows.select((0..again * rows.rows()).map(|at| at % rows.rows()));
    for reload in 0..RELOADS {
        // Another order each time, since the allocator returns the same blocks.
        let mut order: Vec<usize> = (0..times.len()).collect();
        order.rotate_left(reload % times.len());
        let mut loaded = Vec::new();
        for at in order {
            let plan = match at.checked_sub(1) {
                Some(plan) => Plan::fitted(machine, plans[plan])?,
                None => Plan::exact(machine),
            };
            loaded.push((at, plan));
        }
        let limits = [RUN_TIME, RUN_TIME * plans.len() as u32];
        let mut spent = [Duration::ZERO; 2];
        for run in 0..RUNS.end {
            let goes_on = [0, 1].map(|of| run < RUNS.start || spent[of] < limits[of]);
            for (at, plan) in &loaded {
                let of = usize::from(*at > 0);
                if goes_on[of] {
                    let begin = Instant::now();
                    time_run(plan, &batch, &first, options, &mut times[*at])?;
                    spent[of] += begin.elapsed();
                }
            }
        }
    }
    Ok(times)
}

/// One timing run of a plan: a batch, then single rows.
fn time_run(
    plan: &Plan,
    batch: &Matrix,
    first: &Matrix,
    options: &QueryOptions,
    best: &mut Times,
) -> Result<(), Failure> {
    plan.decide_with(first, options)?;
    let start = Instant::now();
    std::hint::black_box(plan.decide_with(batch, options)?);
    let seconds = start.elapsed().as_secs_f64();
    best.batch = best.batch.min(1e6 * seconds / batch.rows() as f64);
    let mut worker = plan.worker();
    let start = Instant::now();
    for row in 0..first.rows() {
        std::hint::black_box(worker.decide(first, row..row + 1, options)?);
    }
    let seconds = start.elapsed().as_secs_f64();
    best.single = best.single.min(1e6 * seconds / first.rows() as f64);
    Ok(())
}
