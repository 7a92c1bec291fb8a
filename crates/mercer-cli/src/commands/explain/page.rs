//! `mercer explain --report`: the path of one query as an HTML page.

use mercer::data::Matrix;
use mercer::machine::{Model, Tuning};
use mercer::query::{Certainty, Explanation};
use mercer_report::{Drawing, Page};

use super::compared;
use crate::commands::closing;
use crate::output::certainty;

/// One query and how it was answered.
pub(super) struct Queried<'q> {
    pub(super) model: &'q Model,
    pub(super) name: String,
    pub(super) row: usize,
    /// The row alone, scaled.
    pub(super) values: &'q Matrix,
    pub(super) path: &'q Explanation,
    pub(super) label: &'q str,
    pub(super) exact_cost: u64,
    /// The threshold that the score is compared with.
    pub(super) border: f64,
    /// The record of `tune`, if the query was answered by the plan that was tuned.
    pub(super) tuning: Option<&'q Tuning>,
}

impl Queried<'_> {
    pub(super) fn page(&self) -> String {
        let Self { model, row, path, label, exact_cost, border, .. } = self;
        let machine = &model.machine;
        let decision = &path.decision;
        let mut page = Page::new(&format!("Row {row} of {}: label {label}", self.name));
        let cost = decision.cost.multiply_adds;
        let share = 100.0 * cost as f64 / (*exact_cost).max(1) as f64;
        page.text(&format!(
            "{}, by {}, for {cost} multiply-adds: {share:.1} % of the exact evaluation over {} support vectors ({exact_cost}).",
            in_words(decision.certainty),
            path.stages[path.answered_by],
            machine.supports().rows(),
        ));
        if let Some(tuning) = self.tuning {
            page.text(&format!("Beside the queries of the test: {}.", compared(path, tuning)));
        }
        let closing = closing::path(machine, path, *exact_cost, *border);
        page.heading("The range closes");
        page.text(&self.legend());
        let mut drawings = vec![Drawing::closing_path("Range after each step", &closing)];
        drawings.extend(self.picture());
        page.drawings(&drawings);
        page.heading("Steps");
        page.table(&closing::HEADS, &closing::rows(&closing));
        if closing.steps.len() > closing::MOST_ROWS {
            let (all, half) = (closing.steps.len(), closing::MOST_ROWS / 2);
            page.text(&format!(
                "The first and the last {half} of {all} steps; the command prints all of them with --json."
            ));
        }
        page.finish()
    }

    /// What the drawing shows.
    fn legend(&self) -> String {
        let what = closing::what(&self.model.machine);
        let border = if self.border == 0.0 {
            String::new()
        } else {
            format!(" The threshold {} is taken off, so that 0 is the border.", self.border)
        };
        format!(
            "Each line is a range of {what}, from top to bottom one step after the other. A solid line is proved: the \
             exact value lies in it. A dashed one is an estimate with its acceptance threshold. When a proved range lies \
             on one side of 0, no second label is possible: red marks at the sides show that step. A diamond marks a step at which a different label \
             leads than before. The slider walks through the steps.{border}"
        )
    }

    /// The row as a picture, where it is one: 8 by 8 or 28 by 28 columns as they are.
    fn picture(&self) -> Option<Drawing> {
        let columns = self.values.columns();
        let side = [8, 28].into_iter().find(|side| side * side == columns)?;
        if self.model.input.scaling.is_some() {
            return None;
        }
        let mut values = vec![0.0; columns];
        self.values.row(0).write_dense(&mut values);
        let most = values.iter().copied().fold(0.0, f64::max);
        let full = if side == 8 { 16.0 } else { 255.0 };
        let is_picture = values.iter().all(|value| *value >= 0.0) && most > 0.0;
        is_picture
            .then(|| Drawing::picture("The row as a picture", &values, side, f64::max(full, most)))
    }
}

fn in_words(kind: Certainty) -> &'static str {
    match kind {
        Certainty::Exact => "Exact: the specified evaluation of all supports",
        Certainty::Certified => "Certified: proved to be the exact label, rounding included",
        Certainty::Calibrated => {
            "Calibrated: an estimate beyond the threshold that was tested on a sample"
        }
        Certainty::Unsettled => certainty(kind),
    }
}
