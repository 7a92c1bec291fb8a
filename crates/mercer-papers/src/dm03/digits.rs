//! The rows and machines of the experiments.

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::Path;

use anyhow::{Context, bail};
use mercer::data::read::{self, Options};
use mercer::data::{Dataset, Matrix, MatrixBuilder, Targets, scale};
use mercer::kernel::parse;
use mercer::machine::{Answer, ClassName, Machine, Output, Scheme, Score};
use mercer::train::{Training, formulation, train};
use serde::Deserialize;

use super::methods::ThresholdSource;
use crate::Session;
use crate::tasks::TASKS;

/// `[dm03]` of `tasks.toml`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DigitsTask {
    train: [String; 2],
    test: [String; 2],
    scale: String,
    kernel: String,
    #[serde(rename = "C")]
    c: f64,
    /// Training digits of a pair.
    rows: usize,
    large_kernel: String,
    large_c: f64,
    large_rows: usize,
}

#[derive(Debug, Deserialize)]
struct Dm03File {
    dm03: DigitsTask,
}

impl DigitsTask {
    pub(super) fn read() -> anyhow::Result<Self> {
        let file: Dm03File = toml::from_str(TASKS).context("tasks.toml")?;
        Ok(file.dm03)
    }

    /// What a folder lacks, if anything.
    pub(super) fn missing(&self, folder: &Path) -> Option<String> {
        let lacks = |name: &&String| {
            !folder.join(name).exists() && !folder.join(format!("{name}.gz")).exists()
        };
        let first = self.train.iter().chain(&self.test).find(lacks)?;
        Some(format!("there is no {}", folder.join(first).display()))
    }
}

/// All digits, scaled.
pub(super) struct Digits {
    examples: Matrix,
    labels: Vec<u8>,
    /// The official test digits.
    pub queries: Matrix,
    query_labels: Vec<u8>,
}

/// A machine with two classes, its training rows, and held-out rows.
pub(super) struct Pair {
    pub machine: Machine,
    pub training: Matrix,
    pub training_answers: Vec<Option<Answer>>,
    pub held_out: Matrix,
    pub held_out_answers: Vec<Option<Answer>>,
    /// Test digits of the pair.
    pub queries: Matrix,
    pub answers: Vec<Option<Answer>>,
    /// Positions of the training rows among all digits.
    used: Vec<usize>,
    classes: (u8, u8),
}

impl Pair {
    /// The rows that thresholds come from, with their labels.
    pub(super) fn threshold_rows(
        &self,
        source: ThresholdSource,
    ) -> (Cow<'_, Matrix>, Cow<'_, [Option<Answer>]>) {
        match source {
            ThresholdSource::Training => {
                (Cow::Borrowed(&self.training), Cow::Borrowed(&self.training_answers))
            }
            ThresholdSource::HeldOut => {
                (Cow::Borrowed(&self.held_out), Cow::Borrowed(&self.held_out_answers))
            }
            ThresholdSource::Both => {
                let mut rows = MatrixBuilder::new();
                let both = self.training.iter().chain(self.held_out.iter());
                both.for_each(|row| rows.push_row(row));
                let answers = [&self.training_answers[..], &self.held_out_answers].concat();
                (Cow::Owned(rows.finish(self.training.columns())), Cow::Owned(answers))
            }
        }
    }
}

/// Which digits a machine with two classes is trained on, and how.
struct TrainingPair<'t> {
    /// Positions of the digits of both classes.
    rows: Vec<usize>,
    /// How many of them are training rows; the others are held out.
    count: usize,
    kernel: &'t str,
    c: f64,
    classes: (u8, u8),
}

/// The vote of all pairs.
pub(super) struct Vote {
    pub machine: Machine,
    pub training: Matrix,
    pub held_out: Matrix,
    pub answers: Vec<Option<Answer>>,
}

impl Digits {
    pub(super) fn read(
        folder: &Path,
        task: &DigitsTask,
        session: &Session<'_>,
    ) -> anyhow::Result<Self> {
        let (examples, labels) = images(folder, &task.train, &task.scale, session)?;
        let (queries, query_labels) = images(folder, &task.test, &task.scale, session)?;
        Ok(Self { examples, labels, queries, query_labels })
    }

    /// The machine of a pair, from its first digits in the order of the file.
    pub(super) fn pair(
        &self,
        a: u8,
        b: u8,
        task: &DigitsTask,
        session: &Session<'_>,
    ) -> anyhow::Result<Pair> {
        let is_first = |label: u8| label == a;
        let chosen = |labels: &[u8]| -> Vec<usize> {
            (0..labels.len()).filter(|at| labels[*at] == a || labels[*at] == b).collect()
        };
        let (own, queries) = (chosen(&self.labels), chosen(&self.query_labels));
        let training = TrainingPair {
            rows: own,
            count: task.rows,
            kernel: &task.kernel,
            c: task.c,
            classes: (a, b),
        };
        self.train(training, queries, is_first, session)
    }

    /// Even digits against odd ones, from the first digits.
    pub(super) fn even_odd(
        &self,
        task: &DigitsTask,
        session: &Session<'_>,
    ) -> anyhow::Result<Pair> {
        let all = (0..self.labels.len()).collect();
        let queries = (0..self.query_labels.len()).collect();
        let training = TrainingPair {
            rows: all,
            count: task.large_rows,
            kernel: &task.large_kernel,
            c: task.large_c,
            classes: (0, 1),
        };
        self.train(training, queries, |label| label % 2 == 0, session)
    }

    fn train(
        &self,
        pair: TrainingPair<'_>,
        queries: Vec<usize>,
        is_first: impl Fn(u8) -> bool,
        session: &Session<'_>,
    ) -> anyhow::Result<Pair> {
        let TrainingPair { rows: mut used, count, kernel, c, classes } = pair;
        let held_out = used.split_off(count.min(used.len()));
        let (kernel, c_svc) = (parse(kernel)?, formulation(&format!("c_svc(C={c})"))?);
        let training = Training::default().cancel(session.cancel());
        let target = |at: &usize| if is_first(self.labels[*at]) { 1.0 } else { -1.0 };
        let targets = Targets::Numbers(used.iter().map(target).collect());
        let examples = self.examples.select(used.iter().copied());
        let data = Dataset { examples, targets, names: None };
        let machine = train(&data, &kernel, &c_svc, &training, &mut |_| {})?.machine;
        session.check()?;
        let first = machine.classes().iter().position(|name| *name == ClassName::Number(1.0));
        let first = first.context("the machine knows the class 1")?;
        let answer =
            |label: u8| Some(Answer::Class(if is_first(label) { first } else { 1 - first }));
        let of = |rows: &[usize]| rows.iter().map(|at| answer(self.labels[*at])).collect();
        Ok(Pair {
            training_answers: of(&used),
            held_out: self.examples.select(held_out.iter().copied()),
            held_out_answers: of(&held_out),
            queries: self.queries.select(queries.iter().copied()),
            answers: queries.iter().map(|at| answer(self.query_labels[*at])).collect(),
            machine,
            training: data.examples,
            used,
            classes,
        })
    }

    /// One machine with all scores; supports that several pairs share are kept once.
    pub(super) fn vote(&self, pairs: &[Pair]) -> anyhow::Result<Vote> {
        if pairs.len() != 45 {
            bail!("the vote needs all 45 pairs of digits");
        }
        let mut supports = MatrixBuilder::new();
        let (mut scores, mut count) = (Vec::new(), 0u32);
        for pair in pairs {
            let own = pair.machine.supports();
            let Score::Expansion { supports: members, coefficients, offset } =
                &pair.machine.scores()[0]
            else {
                bail!("a score that is an expansion")
            };
            own.iter().for_each(|row| supports.push_row(row));
            // Positive scores vote for the first class of the pair.
            let first = pair.machine.classes().first() == Some(&ClassName::Number(1.0));
            let sign = if first { 1.0 } else { -1.0 };
            scores.push(Score::Expansion {
                supports: members.iter().map(|member| member + count).collect(),
                coefficients: coefficients.iter().map(|beta| sign * beta).collect(),
                offset: sign * offset,
            });
            count += own.rows() as u32;
            debug_assert!(pair.classes.0 < pair.classes.1);
        }
        let names = (0..10).map(|digit| ClassName::Number(f64::from(digit))).collect();
        let output = Output::Classes { names, scheme: Scheme::OneVsOne };
        let kernel = pairs[0].machine.kernel().clone();
        let supports = supports.finish(self.examples.columns());
        let machine = Machine::new(kernel, supports, scores, output)?;
        let used: HashSet<usize> = pairs.iter().flat_map(|pair| &pair.used).copied().collect();
        let (training, held_out): (Vec<usize>, Vec<usize>) =
            (0..self.labels.len()).partition(|at| used.contains(at));
        let class = |label: &u8| Some(Answer::Class(usize::from(*label)));
        Ok(Vote {
            machine,
            training: self.examples.select(training),
            held_out: self.examples.select(held_out),
            answers: self.query_labels.iter().map(class).collect(),
        })
    }
}

/// Reads images with their labels, scaled, chunk by chunk, so that the pixels are never all in memory as f64.
fn images(
    folder: &Path,
    names: &[String; 2],
    scaling: &str,
    session: &Session<'_>,
) -> anyhow::Result<(Matrix, Vec<u8>)> {
    let find = |name: &String| {
        let paths = [folder.join(name), folder.join(format!("{name}.gz"))];
        let missing = || format!("there is no {}", folder.join(name).display());
        paths.into_iter().find(|path| path.exists()).with_context(missing)
    };
    let (path, labels) = (find(&names[0])?, find(&names[1])?);
    let options =
        Options { format: Some("idx".to_owned()), labels: Some(labels), ..Options::default() };
    let named = || path.display().to_string();
    let mut chunks = read::open(&path, &options).with_context(named)?;
    let (mut rows, mut labels, mut columns) = (MatrixBuilder::new(), Vec::new(), 0);
    let recipe = scale::parse(scaling)?;
    while let Some(chunk) = chunks.next_chunk(4096).with_context(named)? {
        session.check()?;
        let Targets::Numbers(numbers) = &chunk.targets else { bail!("{}: no labels", named()) };
        labels.extend(numbers.iter().map(|label| *label as u8));
        columns = chunk.examples.columns();
        // The scaling works row by row, so it may be fitted to any chunk.
        let scaled = recipe.fit(&chunk.examples)?.apply(&chunk.examples)?;
        scaled.iter().for_each(|row| rows.push_row(row));
    }
    Ok((rows.finish(columns), labels))
}
