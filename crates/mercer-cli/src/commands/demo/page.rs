//! The report of the demo: handwritten digits, easy and hard ones, and how the ranges of their scores closed.

use anyhow::Context;
use mercer::compile::compile;
use mercer::data::{Dataset, Matrix};
use mercer::machine::{Machine, Model};
use mercer::query::{Certainty, Decision, Plan, QueryOptions};
use mercer_report::svg::Series;
use mercer_report::{Bar, Drawing, Example, Page};

use super::digits::{self, DARKEST, SIDE};
use super::libsvm::{LibsvmComparison, unlike_svm_predict};
use super::{DemoRow, DemoTask, train_on};
use crate::commands::{closing, compile as compile_verb, tune};
use crate::labels;
use crate::output::certainty;

/// The plan of the page: named, not tuned, so that the page is the same on every computer; tuning compares times. It is calibrated
/// on the sample that tuning has too, for the risk that is usual.
const PLAN: &str = "cascade(student(24), low_precision, exact)";
const CERTIFIED: &str = "cascade(low_precision, exact)";
/// Digits of each kind that are shown.
const SHOWN: usize = 4;
/// The two digits of the step-by-step proof, and its plan.
const PAIR: [f64; 2] = [1.0, 7.0];
const STEP_BY_STEP: &str = "cascade(anytime(chunk=4), exact)";
/// Parts of the queries that the mean cost is given for.
const PARTS: usize = 5;

/// What the page is about.
pub(super) struct DemoPage<'f> {
    pub(super) comparison: &'f LibsvmComparison,
    pub(super) training: &'f Dataset,
    pub(super) held_out: &'f Dataset,
    /// The machine of all digits, and noisy copies of held-out ones.
    pub(super) task: &'f DemoTask,
    pub(super) rows: &'f [DemoRow],
}

impl DemoPage<'_> {
    pub(super) fn page(&self) -> anyhow::Result<String> {
        let mut page = Page::new("Handwritten digits, answered in stages");
        let DemoTask { machine, sample, .. } = self.task;
        let sections = compile(machine, &PLAN.parse()?, Some(sample))?;
        let plan = Plan::fitted(machine, &sections)?;
        self.introduction(&mut page, &plan);
        self.examples(&mut page, &plan)?;
        self.proof(&mut page)?;
        self.difficulty(&mut page, &plan)?;
        self.libsvm(&mut page, &plan)?;
        page.heading("What is promised");
        let calibration = plan.calibration().context("the plan was calibrated")?;
        page.text(&format!("Of the plan of this page: {}.", compile_verb::sentence(calibration)));
        let model = Model { plan: Some(sections), ..Model::from(machine.clone()) };
        for line in tune::meaning(&model) {
            page.text(line);
        }
        page.heading("All machines and contracts, tuned on this computer");
        self.table(&mut page);
        Ok(page.finish())
    }

    fn introduction(&self, page: &mut Page, plan: &Plan) {
        let cost = plan.exact_stage().cost().multiply_adds;
        let machine = &self.task.machine;
        page.text(&format!(
            "A support vector machine was trained on {} pictures of handwritten digits, 8 by 8 pixels each. It kept {} of them, its \
             support vectors: to read a new picture, it compares it with every one of them, which costs {cost} multiply-adds. That is the \
             exact answer.",
            self.training.examples.rows(),
            machine.supports().rows(),
        ));
        page.text(
            "Most pictures need less. A plan works in stages, cheap ones first, and stops as soon as the label is settled. An easy query is \
             far from every border between two digits, so a rough look is enough; a hard one is near a border and goes on to the next stage.",
        );
        page.text(
            "A label is certified when a range is proved to hold the true score, and no second label is possible anywhere in \
             that range. It is calibrated when an estimate is further from the border than a threshold that was tested: a stated small share \
             of such labels may differ from the exact ones.",
        );
        page.add(&format!(
            "<p>Plan of this page: <code>{}</code></p>",
            mercer_report::svg::escape(&plan.spec().to_string())
        ));
        let digits = self.rows.iter().filter(|row| row.machine == self.rows[0].machine);
        let bars: Vec<Bar> = digits
            .map(|row| Bar {
                name: row.contract.to_string().split('(').next().unwrap_or_default().to_owned(),
                value: row.times.batch_all_threads,
                text: format!("{:.2} us", row.times.batch_all_threads),
            })
            .collect();
        page.drawings(&[Drawing::bars("Time per picture in a batch, on this computer", &bars)]);
    }

    /// Easy and hard digits with the path of each through the tuned plan.
    fn examples(&self, page: &mut Page, plan: &Plan) -> anyhow::Result<()> {
        let rows = &self.held_out.examples;
        let machine = &self.task.machine;
        let mut order: Vec<(f64, usize)> = margins(machine, rows)?.into_iter().zip(0..).collect();
        order.sort_by(|a, b| a.0.total_cmp(&b.0));
        page.heading("Easy digits, and hard ones");
        page.text(&format!(
            "Of {} digits that the machine was not trained on: the {SHOWN} furthest from a border, then the {SHOWN} nearest to one, each written as another \
             label. The plan was fitted to noisy copies of these {} digits. Each line is a range of the margin, which says how far the label is \
             ahead of its closest rival: dashed where it is estimated, solid where it is proved. The red line is the border. Move a slider to \
             walk through the stages. A hard digit can cost more than exact: it paid for the stages that did not settle it.",
            rows.rows(),
            rows.rows(),
        ));
        let labels = digits::labels(self.held_out)?;
        let hard = others(order.iter().map(|(_, row)| *row), labels);
        let easy = others(order.iter().rev().map(|(_, row)| *row), labels);
        for (kind, chosen) in [("Easy", easy), ("Hard", hard)] {
            let examples = chosen.into_iter().map(|row| {
                let theirs = digits::svm_predict_labels();
                let more = format!("LIBSVM's svm-predict answers {}.", theirs[row]);
                example(kind, machine, plan, self.held_out, row, &more)
            });
            page.examples(&examples.collect::<anyhow::Result<Vec<_>>>()?);
            page.add("<p></p>");
        }
        Ok(())
    }

    /// Two digits, and a plan whose proof closes support by support.
    fn proof(&self, page: &mut Page) -> anyhow::Result<()> {
        let (training, held_out) =
            (digits::pair(self.training, PAIR)?, digits::pair(self.held_out, PAIR)?);
        let machine = train_on(&training, "rbf(gamma=0.001)", "c_svc(C=10)")?;
        let sections = compile(&machine, &STEP_BY_STEP.parse()?, None)?;
        let plan = Plan::fitted(&machine, &sections)?;
        let decisions = plan.decide(&held_out.examples)?;
        let mut order: Vec<usize> = (0..decisions.len()).collect();
        order.sort_by_key(|row| (decisions[*row].cost.multiply_adds, *row));
        let certified =
            decisions.iter().filter(|decision| decision.certainty == Certainty::Certified).count();
        page.heading("One proof, step by step");
        page.text(&format!(
            "The same with two classes only: is it a {} or a {}? A machine trained on {} pictures has {} support vectors, and \
             the stage anytime looks at a few more of them in each step: every range is proved, and each is narrower than the one before. A red diamond marks a step at which a different label leads, the red \
             marks at the sides the step from which on the label is proved. \
             Of {} new pictures {certified} are certified before the work exceeds that of the exact evaluation. These two are the \
             cheapest ones with each label, and the two that cost most. (For all ten digits together the stage does not pay, \
             and tuning does not choose it.)",
            PAIR[0],
            PAIR[1],
            training.examples.rows(),
            machine.supports().rows(),
            decisions.len(),
        ));
        let labels = digits::labels(&held_out)?;
        let first = |order: &mut dyn Iterator<Item = usize>| -> Vec<usize> {
            let mut chosen: Vec<usize> = Vec::new();
            for row in order {
                if !chosen.iter().any(|shown| labels[*shown] == labels[row]) {
                    chosen.push(row);
                }
            }
            chosen
        };
        let (cheap, costly) =
            (first(&mut order.iter().copied()), first(&mut order.iter().rev().copied()));
        let mut examples = Vec::new();
        for (kind, chosen) in [("Easy", cheap), ("Hard", costly)] {
            for row in chosen {
                examples.push(example(kind, &machine, &plan, &held_out, row, "")?);
            }
        }
        page.examples(&examples);
        Ok(())
    }

    fn difficulty(&self, page: &mut Page, plan: &Plan) -> anyhow::Result<()> {
        let DemoTask { machine, unseen, .. } = self.task;
        let rows = &unseen.examples;
        page.heading("Cost against difficulty");
        page.text(&format!(
            "{} noisy digits that were used for nothing else. In the first drawing each is a point: its margin to the right, its cost upwards. In \
             the second one, the mean cost of each fifth of them, from the hardest to the easiest.",
            rows.rows(),
        ));
        let answers = plan.decide_with(rows, &QueryOptions::default())?;
        let costs = answers.decisions.iter().map(|decision| decision.cost.multiply_adds as f64);
        let mut points: Vec<(f64, f64)> = margins(machine, rows)?.into_iter().zip(costs).collect();
        let stages = plan.stages().iter().map(|stage| stage.spec().to_string());
        let series: Vec<Series> = stages
            .chain(["exact".to_owned()])
            .enumerate()
            .map(|(number, stage)| {
                let own = points.iter().zip(&answers.answered_by).filter(|(_, by)| **by == number);
                Series::dots(&format!("settled by {stage}"), own.map(|(point, _)| *point).collect())
            })
            .filter(|series| !series.points.is_empty())
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let exact = plan.exact_stage().cost().multiply_adds as f64;
        let part = |number: usize| {
            let part = &points[number * points.len() / PARTS..(number + 1) * points.len() / PARTS];
            let mean = part.iter().map(|(_, cost)| cost).sum::<f64>() / part.len() as f64;
            Bar {
                name: format!("{:.2} to {:.2}", part[0].0, part[part.len() - 1].0),
                value: mean,
                text: format!("{:.0} % of exact", 100.0 * mean / exact),
            }
        };
        page.drawings(&[
            Drawing::scatter("Cost against difficulty", "margin", "multiply-adds", &series),
            Drawing::bars("Mean cost by margin", &(0..PARTS).map(part).collect::<Vec<_>>()),
        ]);
        Ok(())
    }

    fn libsvm(&self, page: &mut Page, plan: &Plan) -> anyhow::Result<()> {
        let LibsvmComparison { queries, imported, disagreements, training_seconds, .. } =
            self.comparison;
        page.heading("Labels beside LIBSVM's");
        page.text(&format!(
            "LIBSVM's svm-predict labelled the {queries} held-out digits with a model that LIBSVM trained (files digits.model, queries.svm and \
             svm-predict.labels in datasets/digits; the command stands beside them). The table compares its labels with those given here. \
             Training here took {training_seconds:.2} s.",
        ));
        let row = |what: &str, count: usize| {
            vec![what.to_owned(), queries.to_string(), count.to_string()]
        };
        let DemoTask { machine, .. } = self.task;
        let certified = Plan::fitted(machine, &compile(machine, &CERTIFIED.parse()?, None)?)?;
        let unlike = |plan: &Plan| unlike_svm_predict(machine, plan, &self.held_out.examples);
        let rows = [
            row("LIBSVM's model, imported; exact answers", *imported),
            row("machine trained here on the same rows; exact answers", *disagreements),
            row(&format!("the same machine; {CERTIFIED}, certified"), unlike(&certified)?),
            row(&format!("the same machine; {PLAN}, calibrated"), unlike(plan)?),
        ];
        page.table(&["answered by", "digits#", "labels that differ#"], &rows);
        Ok(())
    }

    fn table(&self, page: &mut Page) {
        let cells = |row: &DemoRow| {
            let percent = |share: f64| format!("{:.1} %", 100.0 * share);
            vec![
                format!("{}: {}", row.machine, row.contract),
                format!("{:.2}", row.times.single),
                format!("{:.2}", row.times.batch_all_threads),
                format!("{:.2} %", 100.0 * row.accuracy),
                row.disagreements.to_string(),
                percent(row.shares[1]),
                percent(row.shares[2]),
                row.plan.clone(),
            ]
        };
        page.text(
            "Microseconds per query, best of 5, on queries that tuning did not see (noisy digits, and points in a plane). Disagreements \
             are labels that differ from the exact ones.",
        );
        let heads = [
            "machine and contract",
            "single#",
            "batch#",
            "accuracy#",
            "disagreements#",
            "certified#",
            "calibrated#",
            "plan",
        ];
        page.table(&heads, &self.rows.iter().map(cells).collect::<Vec<_>>());
    }
}

/// The distance of each row's exact label from a change.
fn margins(machine: &Machine, rows: &Matrix) -> anyhow::Result<Vec<f64>> {
    let scores = Plan::exact(machine).scores(rows)?;
    let scores = scores.chunks_exact(machine.scores().len());
    Ok(scores.map(|scores| machine.verdict(scores).score.abs()).collect())
}

/// The first rows with different labels.
fn others(order: impl Iterator<Item = usize>, labels: &[f64]) -> Vec<usize> {
    let mut chosen: Vec<usize> = Vec::new();
    for row in order {
        if chosen.len() < SHOWN && !chosen.iter().any(|shown| labels[*shown] == labels[row]) {
            chosen.push(row);
        }
    }
    chosen
}

/// One digit: its picture, its answer, and how the range of its score closed.
fn example(
    kind: &str,
    machine: &Machine,
    plan: &Plan,
    digits: &Dataset,
    row: usize,
    more: &str,
) -> anyhow::Result<Example> {
    let path = plan.explain(&digits.examples, row, &QueryOptions::default())?;
    let exact = plan.exact_stage().cost().multiply_adds;
    let Decision { answer, cost, certainty: kind_of, .. } = &path.decision;
    let written = digits::labels(digits)?[row];
    let answer = labels::text(machine.classes(), *answer);
    let mut values = vec![0.0; digits.examples.columns()];
    digits.examples.row(row).write_dense(&mut values);
    let share = 100.0 * cost.multiply_adds as f64 / exact.max(1) as f64;
    let lines = vec![
        format!("Written as {written}. {more}"),
        match kind_of {
            Certainty::Exact => {
                "Exact: no stage settled it, so it was compared with all support vectors."
                    .to_owned()
            }
            other => {
                format!("{} by {}.", capital(certainty(*other)), path.stages[path.answered_by])
            }
        },
        format!("Cost: {share:.0} % of the exact evaluation."),
    ];
    let name = format!("{answer} in row {}", row + 1);
    Ok(Example {
        title: format!("{kind}: the answer is {answer}"),
        picture: Some(Drawing::picture(&format!("picture of a {written}"), &values, SIDE, DARKEST)),
        lines,
        path: Drawing::closing_path(
            &format!("{}, {name}", if machine.scores().len() == 1 { "score" } else { "margin" }),
            &closing::path(machine, &path, exact, 0.0),
        ),
    })
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}
