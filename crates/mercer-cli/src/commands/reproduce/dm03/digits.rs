//! The rows and machines of the experiments.

use std::collections::HashSet;
use std::path::Path;

use anyhow::{Context, bail};
use mercer::data::read::{self, Options};
use mercer::data::{Dataset, Matrix, MatrixBuilder, Targets, scale};
use mercer::kernel::parse;
use mercer::machine::{Answer, ClassName, Machine, Output, Scheme, Score};
use mercer::train::{Cancel, Training, formulation, train};
use serde::Deserialize;

use super::super::super::StopSignal;
use super::super::tasks::TASKS;

/// `[dm03]` of `benches/tasks.toml`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Task {
    train: [String; 2],
    test: [String; 2],
    scale: String,
    kernel: String,
    #[serde(rename = "C")]
    c: f64,
    /// Digits of a pair that its machine learns from.
    rows: usize,
    large_kernel: String,
    large_c: f64,
    large_rows: usize,
}

#[derive(Debug, Deserialize)]
struct File {
    dm03: Task,
}

impl Task {
    pub(super) fn read() -> anyhow::Result<Self> {
        let file: File = toml::from_str(TASKS).context("benches/tasks.toml")?;
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

/// All digits, as the machines see them.
pub(super) struct Digits {
    examples: Matrix,
    labels: Vec<u8>,
    /// The official test digits.
    pub queries: Matrix,
    query_labels: Vec<u8>,
}

/// A machine with two classes, the rows it learned from, and rows it did not.
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

/// The vote of all pairs.
pub(super) struct Vote {
    pub machine: Machine,
    pub training: Matrix,
    pub held_out: Matrix,
    pub answers: Vec<Option<Answer>>,
}

impl Digits {
    pub(super) fn read(folder: &Path, task: &Task, stop: &StopSignal) -> anyhow::Result<Self> {
        let (examples, labels) = images(folder, &task.train, &task.scale, stop)?;
        let (queries, query_labels) = images(folder, &task.test, &task.scale, stop)?;
        Ok(Self { examples, labels, queries, query_labels })
    }

    /// The machine of a pair, from its first digits in the order of the file.
    pub(super) fn pair(
        &self,
        a: u8,
        b: u8,
        task: &Task,
        stop: &StopSignal,
    ) -> anyhow::Result<Pair> {
        let is_first = |label: u8| label == a;
        let chosen = |labels: &[u8]| -> Vec<usize> {
            (0..labels.len()).filter(|at| labels[*at] == a || labels[*at] == b).collect()
        };
        let (own, queries) = (chosen(&self.labels), chosen(&self.query_labels));
        let machine = (task.kernel.as_str(), task.c);
        self.learn((own, task.rows), queries, is_first, machine, (a, b), stop)
    }

    /// Even digits against odd ones, from the first digits.
    pub(super) fn even_odd(&self, task: &Task, stop: &StopSignal) -> anyhow::Result<Pair> {
        let all = (0..self.labels.len()).collect();
        let queries = (0..self.query_labels.len()).collect();
        let machine = (task.large_kernel.as_str(), task.large_c);
        self.learn((all, task.large_rows), queries, |label| label % 2 == 0, machine, (0, 1), stop)
    }

    fn learn(
        &self,
        (mut own, count): (Vec<usize>, usize),
        queries: Vec<usize>,
        is_first: impl Fn(u8) -> bool,
        (kernel, c): (&str, f64),
        classes: (u8, u8),
        stop: &StopSignal,
    ) -> anyhow::Result<Pair> {
        let held_out = own.split_off(count.min(own.len()));
        let (kernel, c_svc) = (parse(kernel)?, formulation(&format!("c_svc(C={c})"))?);
        let training = Training::default().cancel(Cancel::from_flag(stop.flag()));
        let target = |at: &usize| if is_first(self.labels[*at]) { 1.0 } else { -1.0 };
        let targets = Targets::Numbers(own.iter().map(target).collect());
        let examples = self.examples.select(own.iter().copied());
        let data = Dataset { examples, targets, names: None };
        let machine = train(&data, &kernel, &c_svc, &training, &mut |_| {})?.machine;
        stop.check()?;
        let first = machine.classes().iter().position(|name| *name == ClassName::Number(1.0));
        let first = first.context("the machine knows the class 1")?;
        let answer =
            |label: u8| Some(Answer::Class(if is_first(label) { first } else { 1 - first }));
        let of = |rows: &[usize]| rows.iter().map(|at| answer(self.labels[*at])).collect();
        Ok(Pair {
            training_answers: of(&own),
            held_out: self.examples.select(held_out.iter().copied()),
            held_out_answers: of(&held_out),
            queries: self.queries.select(queries.iter().copied()),
            answers: queries.iter().map(|at| answer(self.query_labels[*at])).collect(),
            machine,
            training: data.examples,
            used: own,
            classes,
        })
    }

    /// One machine with all scores; supports that several pairs share are kept once.
    pub(super) fn vote(&self, pairs: &[Pair]) -> anyhow::Result<Vote> {
        if pairs.len() != 45 {
            bail!("the vote needs all 45 pairs");
        }
        let mut supports = MatrixBuilder::new();
        let (mut scores, mut count) = (Vec::new(), 0u32);
        for pair in pairs {
            let own = pair.machine.supports();
            let Score::Expansion { supports: members, coefficients, offset } =
                &pair.machine.scores()[0]
            else {
                bail!("a score made of supports")
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

/// Reads images with their labels, scaled, chunk by chunk so that the pixels never stand as doubles in full.
fn images(
    folder: &Path,
    names: &[String; 2],
    scaling: &str,
    stop: &StopSignal,
) -> anyhow::Result<(Matrix, Vec<u8>)> {
    let find = |name: &String| {
        let paths = [folder.join(name), folder.join(format!("{name}.gz"))];
        let missing = || format!("there is no {}", folder.join(name).display());
        paths.into_iter().find(|path| path.exists()).with_context(missing)
    };
    let (path, labels) = (find(&names[0])?, find(&names[1])?);
    let options = Options {
        format: Some("idx".to_owned()),
        labels: Some(labels),
        targets_needed: true,
        ..Options::default()
    };
    let named = || path.display().to_string();
    let mut chunks = read::open(&path, &options).with_context(named)?;
    let (mut rows, mut labels, mut columns) = (MatrixBuilder::new(), Vec::new(), 0);
    let recipe = scale::parse(scaling)?;
    while let Some(chunk) = chunks.next_chunk(4096).with_context(named)? {
        stop.check()?;
        let Targets::Numbers(numbers) = &chunk.targets else { bail!("{}: no labels", named()) };
        labels.extend(numbers.iter().map(|label| *label as u8));
        columns = chunk.examples.columns();
        // Scalings of single rows fit any of them alike.
        let scaled = recipe.fit(&chunk.examples)?.apply(&chunk.examples)?;
        scaled.iter().for_each(|row| rows.push_row(row));
    }
    Ok((rows.finish(columns), labels))
}
