//! `svm-predict` with LIBSVM's flags, output and messages.

use std::io::Write as _;
use std::path::Path;

use anyhow::{Context, bail};
use mercer::data::read::{self, Chunks, Options};
use mercer::data::write::AtomicFile;
use mercer::data::{DataError, Dataset, MatrixBuilder, Targets};
use mercer::machine::{Answer, Input, Machine, Model, Output, Probabilities, Score, file};
use mercer::query::Plan;

use super::CommandLine;
use super::single_class::SingleClass;
use crate::commands::StopSignal;
use crate::console::Console;
use crate::files::Files;
use crate::labels;
use crate::output::check_words;
use crate::queries::Queries;
use mercer::printf::g;

const USAGE: &str = "Usage: svm-predict [options] test_file model_file output_file
options:
-b probability_estimates: whether to predict probability estimates, 0 or 1 (default 0)
-q : quiet mode (no outputs)
";

/// Rows held at a time.
const CHUNK: usize = 4096;

/// Sums over all rows.
#[derive(Debug, Default)]
struct Sums {
    rows: f64,
    correct: usize,
    error: f64,
    v: f64,
    y: f64,
    vv: f64,
    yy: f64,
    vy: f64,
}

impl Sums {
    fn add(&mut self, v: f64, y: f64) {
        self.rows += 1.0;
        self.correct += usize::from(v == y);
        self.error += (v - y) * (v - y);
        self.v += v;
        self.y += y;
        self.vv += v * v;
        self.yy += y * y;
        self.vy += v * y;
    }

    fn print(&self, is_value: bool) {
        let n = self.rows;
        if is_value {
            let joint = n * self.vy - self.v * self.y;
            let variances = (n * self.vv - self.v * self.v) * (n * self.yy - self.y * self.y);
            println!("Mean squared error = {} (regression)", g(self.error / n, 6));
            let correlation = g(joint * joint / variances, 6);
            println!("Squared correlation coefficient = {correlation} (regression)");
        } else {
            let share = g(self.correct as f64 / n * 100.0, 6);
            println!("Accuracy = {share}% ({}/{n}) (classification)", self.correct);
        }
    }
}

pub(super) fn run(arguments: &[String], console: &Console) -> anyhow::Result<()> {
    let mut line = CommandLine::new(arguments, USAGE);
    let (mut wants_probabilities, mut is_quiet) = (false, false);
    while let Some(flag) = line.flag() {
        match flag {
            "b" => wants_probabilities = line.number::<i32>(flag)? != 0,
            "q" => is_quiet = true,
            _ => return Err(line.unknown(flag)),
        }
    }
    let [test, saved, output] = line.left else { return Err(line.refuse(None)) };
    let stop = StopSignal::install()?;
    let files = Files::default().read(Path::new(test)).read(Path::new(saved));
    files.write("output_file", Path::new(output)).check_outputs()?;
    if let Some(single) = SingleClass::load(Path::new(saved)) {
        let predictor = SinglePredictor { single, wants_probabilities, is_quiet };
        return predictor.predict_file(Path::new(test), Path::new(output));
    }
    let model =
        file::load(Path::new(saved)).with_context(|| format!("can't open model file {saved}"))?;
    let predictor = Predictor { wants_probabilities, is_quiet, stop: &stop, console };
    if wants_probabilities && model.probabilities.is_none() {
        bail!("Model does not support probabiliy estimates");
    }
    if !wants_probabilities && model.probabilities.is_some() && !is_quiet {
        println!("Model supports probability estimates, but disabled in prediction.");
    }
    let names = model.machine.classes();
    let words: Vec<String> = names.iter().map(ToString::to_string).collect();
    check_words(names, if wants_probabilities { &words } else { &[] })
        .with_context(|| format!("can't write labels of {saved}"))?;
    let sums = match predictor.predict_file(&model, Path::new(test), Path::new(output)) {
        Err(error) if !model.input.zero_based && is_index_zero(&error) => {
            predictor.predict_file(&from_zero(&model)?, Path::new(test), Path::new(output))?
        }
        done => done?,
    };
    if !predictor.is_quiet && sums.rows > 0.0 {
        sums.print(*model.machine.output() == Output::Value);
    }
    Ok(())
}

fn is_index_zero(error: &anyhow::Error) -> bool {
    error
        .chain()
        .any(|cause| cause.downcast_ref::<DataError>().is_some_and(DataError::is_index_zero))
}

/// The same machine for rows that count columns from 0: LIBSVM takes an index 0 as one more column, which no vector of this
/// machine has.
fn from_zero(model: &Model) -> anyhow::Result<Model> {
    let machine = &model.machine;
    let mut builder = MatrixBuilder::new();
    for row in machine.supports().iter() {
        row.nonzeros().for_each(|(column, value)| builder.push(column + 1, value));
        builder.end_row();
    }
    let score = |score: &Score| match score {
        Score::Linear { weights, offset } => {
            let weights = [0.0].iter().chain(weights).copied().collect();
            Score::Linear { weights, offset: *offset }
        }
        other => other.clone(),
    };
    let scores = machine.scores().iter().map(score).collect();
    let (kernel, output) = (machine.kernel().clone(), machine.output().clone());
    let machine = Machine::new(kernel, builder.finish(machine.columns() + 1), scores, output)?;
    let input = Input { zero_based: true, ..model.input.clone() };
    Ok(Model { machine, input, plan: None, ..model.clone() })
}

/// Predictions with a model of one class.
struct SinglePredictor {
    single: SingleClass,
    wants_probabilities: bool,
    is_quiet: bool,
}

impl SinglePredictor {
    fn predict_file(&self, test: &Path, output: &Path) -> anyhow::Result<()> {
        let Self { single, wants_probabilities, is_quiet } = *self;
        if wants_probabilities && !single.has_probabilities {
            bail!("Model does not support probabiliy estimates");
        }
        if !wants_probabilities && single.has_probabilities && !is_quiet {
            println!("Model supports probability estimates, but disabled in prediction.");
        }
        let options =
            Options { format: Some("libsvm".to_owned()), zero_based: true, ..Options::default() };
        let mut rows = read::open(test, &options)
            .with_context(|| format!("can't open input file {}", test.display()))?;
        let place = || format!("can't open output file {}", output.display());
        let mut out = AtomicFile::create(output).with_context(place)?;
        let label = g(single.label, 17);
        if wants_probabilities {
            writeln!(out, "labels {label}")?;
        }
        let mut sums = Sums::default();
        while let Some(chunk) =
            rows.next_chunk(CHUNK).with_context(|| test.display().to_string())?
        {
            let Targets::Numbers(targets) = &chunk.targets else { continue };
            for target in targets {
                writeln!(out, "{label}{}", if wants_probabilities { " 1" } else { "" })?;
                sums.add(single.label, *target);
            }
        }
        out.commit().with_context(place)?;
        if !is_quiet && sums.rows > 0.0 {
            sums.print(false);
        }
        Ok(())
    }
}

/// What is predicted, and how it is told.
struct Predictor<'a> {
    wants_probabilities: bool,
    is_quiet: bool,
    stop: &'a StopSignal,
    console: &'a Console,
}

impl Predictor<'_> {
    /// Predicts all rows of a file; the output appears when all are predicted.
    fn predict_file(&self, model: &Model, test: &Path, output: &Path) -> anyhow::Result<Sums> {
        let plan = Plan::exact(&model.machine);
        let options = Options { format: Some("libsvm".to_owned()), ..Options::default() };
        let mut rows = Queries::open(test, options, model, self.console)
            .with_context(|| format!("can't open input file {}", test.display()))?;
        let place = || format!("can't open output file {}", output.display());
        let mut out = AtomicFile::create(output).with_context(place)?;
        self.write_header(model, &mut out)?;
        let mut sums = Sums::default();
        let source = || test.display().to_string();
        while let Some(chunk) = rows.next_chunk(CHUNK).with_context(source)? {
            self.stop.check()?;
            self.predict(model, &plan, &chunk, &mut out, &mut sums)?;
        }
        out.commit().with_context(place)?;
        Ok(sums)
    }

    fn write_header(&self, model: &Model, out: &mut AtomicFile) -> anyhow::Result<()> {
        if !self.wants_probabilities {
            return Ok(());
        }
        match (&model.probabilities, model.machine.output()) {
            (Some(Probabilities::Laplace { sigma }), _) => {
                if !self.is_quiet {
                    println!("Prob. model for test data: target value = predicted value + z,");
                    let sigma = g(*sigma, 6);
                    println!("z: Laplace distribution e^(-|z|/sigma)/(2sigma),sigma={sigma}");
                }
            }
            (_, Output::Novelty) => writeln!(out, "label normal outlier")?,
            _ => {
                let labels: String =
                    model.machine.classes().iter().map(|class| format!(" {class}")).collect();
                writeln!(out, "labels{labels}")?;
            }
        }
        Ok(())
    }

    fn predict(
        &self,
        model: &Model,
        plan: &Plan,
        rows: &Dataset,
        out: &mut AtomicFile,
        sums: &mut Sums,
    ) -> anyhow::Result<()> {
        let machine = &model.machine;
        let count = machine.scores().len();
        let scores = plan.scores(&rows.examples)?;
        let fitted = model.probabilities.as_ref().filter(|_| self.wants_probabilities);
        for (row, scores) in scores.chunks_exact(count).enumerate() {
            let mut answer = machine.verdict(scores).answer;
            let mut probabilities = fitted.and_then(|fitted| fitted.of_classes(machine, scores));
            if let Some(shares) = &probabilities {
                // With probabilities, LIBSVM's label is the class with the largest one.
                let best =
                    (1..shares.len()).fold(0, |b, i| if shares[i] > shares[b] { i } else { b });
                answer = Answer::Class(best);
            }
            let normal = fitted.and_then(|fitted| fitted.of_novelty(scores[0]));
            probabilities = probabilities.or(normal.map(|normal| vec![normal, 1.0 - normal]));
            let text = match answer {
                Answer::Value(value) => g(value, 17),
                class => labels::text(machine.classes(), class),
            };
            let probabilities: String =
                probabilities.iter().flatten().map(|p| format!(" {}", g(*p, 6))).collect();
            writeln!(out, "{text}{probabilities}")?;
            if let Targets::Numbers(targets) = &rows.targets {
                sums.add(text.parse().unwrap_or(f64::NAN), targets[row]);
            }
        }
        Ok(())
    }
}
