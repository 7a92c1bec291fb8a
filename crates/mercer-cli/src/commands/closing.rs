//! How the range of a score closed, step after step, from an explanation: the data of a drawing and the rows of a table. With
//! several classes the score is the margin of the class that was answered. Answers do not rest on this.

use mercer::machine::{Answer, Machine, Output, Scheme};
use mercer::query::{Certainty, Explanation, ExplanationStep, Interval};
use mercer_report::{ClosingPath, PathStep};

use crate::labels;

/// Steps of a table, at most: the first ones and the last ones.
pub(super) const MOST_ROWS: usize = 200;

/// The range of all scores at one time.
struct Ranges<'m> {
    machine: &'m Machine,
    known: Vec<Interval>,
}

impl Ranges<'_> {
    fn learn(&mut self, step: &ExplanationStep) {
        let known = &mut self.known[step.score];
        *known = known.intersection(step.range).unwrap_or(*known);
    }

    /// The range of the one score, or of the margin of a class.
    fn of(&self, answer: Answer) -> Interval {
        let Answer::Class(class) = answer else { return self.known[0] };
        if self.known.len() == 1 {
            return self.known[0];
        }
        let output = self.machine.output();
        let bounds = [false, true].map(|is_best| output.margin(&self.ends(class, is_best), class));
        Interval { low: bounds[0], high: bounds[1] }
    }

    /// The end of each range at which the class does best, or worst.
    fn ends(&self, class: usize, is_best: bool) -> Vec<f64> {
        let is_one_vs_rest =
            matches!(self.machine.output(), Output::Classes { scheme: Scheme::OneVsRest, .. });
        let classes = self.machine.classes().len();
        let pairs: Vec<(usize, usize)> = mercer::machine::pairs(classes).collect();
        let counts_up = |score: usize| {
            if is_one_vs_rest { score == class } else { pairs[score].0 == class }
        };
        let ends = self.known.iter().enumerate();
        ends.map(|(score, range)| if counts_up(score) == is_best { range.high } else { range.low })
            .collect()
    }

    /// The class that the middles of all ranges vote for, or the side of the one score.
    fn leader(&self) -> Answer {
        let middles: Vec<f64> = self.known.iter().map(|range| middle(*range)).collect();
        self.machine.output().answer(&middles)
    }
}

fn middle(range: Interval) -> f64 {
    range.low / 2.0 + range.high / 2.0
}

/// The steps of a query as a drawing shows them; none if the plan tells no step of it. `border` is the threshold that the score is
/// compared with; the drawing shows by how much the score is above it.
pub(super) fn path(
    machine: &Machine,
    found: &Explanation,
    exact_cost: u64,
    border: f64,
) -> ClosingPath {
    let answer = found.decision.answer;
    let is_one = machine.scores().len() == 1;
    let open = Interval { low: f64::MIN, high: f64::MAX };
    let mut ranges = Ranges { machine, known: vec![open; machine.scores().len()] };
    let mut steps: Vec<PathStep> = Vec::new();
    let mut leader: Option<Answer> = None;
    let key = |step: &ExplanationStep| (step.stage, step.progress, step.is_estimate);
    for moment in found.steps.chunk_by(|a, b| key(a) == key(b)) {
        let last = &moment[moment.len() - 1];
        let (range, leads) = if last.is_estimate {
            // The label of an estimate is known where it is the sign of the one score.
            let sign = machine.output().answer(&[middle(last.range)]);
            (last.range, is_one.then_some(sign))
        } else {
            moment.iter().for_each(|step| ranges.learn(step));
            (ranges.of(answer), Some(ranges.leader()))
        };
        let is_change = leader.is_some() && leads.is_some() && leads != leader && is_one;
        leader = leads.or(leader);
        steps.push(PathStep {
            stage: found.stages[last.stage].clone(),
            low: range.low - border,
            high: range.high - border,
            cost: last.cost.multiply_adds,
            is_estimate: last.is_estimate,
            is_change,
        });
    }
    let decision = &found.decision;
    // The exact stage tells no steps: its answer is the last one.
    if found.answered_by + 1 == found.stages.len() || steps.is_empty() {
        steps.push(PathStep {
            stage: found.stages[found.answered_by].clone(),
            low: decision.range.low - border,
            high: decision.range.high - border,
            cost: decision.cost.multiply_adds,
            is_estimate: decision.certainty == Certainty::Calibrated,
            is_change: false,
        });
    }
    let sides = sides(machine, answer);
    let settled = settled(&steps, sides.is_some() && is_one, decision.certainty);
    ClosingPath { steps, settled, sides, exact_cost }
}

/// The step from which on the label is proved.
fn settled(steps: &[PathStep], is_one: bool, certainty: Certainty) -> Option<usize> {
    if !matches!(certainty, Certainty::Exact | Certainty::Certified) {
        return None;
    }
    let is_closed = |step: &PathStep| !step.is_estimate && (step.low > 0.0 || step.high <= 0.0);
    if is_one { steps.iter().position(is_closed) } else { Some(steps.len() - 1) }
}

/// What lies below and above 0, where 0 is a border.
fn sides(machine: &Machine, answer: Answer) -> Option<[String; 2]> {
    let name = |answer| labels::text(machine.classes(), answer);
    match (machine.output(), answer) {
        (Output::Value, _) => None,
        (Output::Novelty, _) => Some(["new".to_owned(), "like the training data".to_owned()]),
        (Output::Classes { .. }, _) if machine.scores().len() == 1 => {
            Some([1, 0].map(|class| name(Answer::Class(class))))
        }
        _ => Some(["another label".to_owned(), name(answer)]),
    }
}

/// What the numbers of a path are.
pub(super) fn what(machine: &Machine) -> &'static str {
    if machine.scores().len() == 1 {
        "the score"
    } else {
        "the margin, which says how far the class is ahead of its closest rival"
    }
}

pub(super) const HEADS: [&str; 7] =
    ["step#", "stage", "range is", "low#", "high#", "multiply-adds#", "of exact#"];

/// The rows of a table of the steps; of many steps the first and the last ones.
pub(super) fn rows(path: &ClosingPath) -> Vec<Vec<String>> {
    let row = |(number, step): (usize, &PathStep)| {
        vec![
            (number + 1).to_string(),
            step.stage.clone(),
            if step.is_estimate { "estimated" } else { "proved" }.to_owned(),
            end(step.low),
            end(step.high),
            step.cost.to_string(),
            format!("{:.1} %", 100.0 * step.cost as f64 / path.exact_cost.max(1) as f64),
        ]
    };
    let count = path.steps.len();
    let is_shown = |number: &usize| *number < MOST_ROWS / 2 || *number + MOST_ROWS / 2 >= count;
    path.steps.iter().enumerate().filter(|(number, _)| is_shown(number)).map(row).collect()
}

/// An end of a range; ends beyond all scores are no bounds.
fn end(value: f64) -> String {
    if value.abs() >= 1e300 { "none".to_owned() } else { format!("{value:.6}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(low: f64, high: f64, is_estimate: bool) -> PathStep {
        PathStep { stage: "s".to_owned(), low, high, cost: 1, is_estimate, is_change: false }
    }

    #[test]
    fn a_label_is_settled_by_the_first_proof_beside_zero_and_never_by_an_estimate() {
        let steps = [
            step(0.5, 0.7, true),
            step(-1.0, 2.0, false),
            step(-1.0, 0.0, false),
            step(-0.5, -0.1, false),
        ];
        assert_eq!(settled(&steps, true, Certainty::Certified), Some(2));
        assert_eq!(settled(&steps, false, Certainty::Certified), Some(3));
        assert_eq!(settled(&steps, true, Certainty::Calibrated), None);
    }

    #[test]
    fn of_many_steps_the_first_and_the_last_are_listed() {
        let steps = (0..1000).map(|_| step(0.0, 1.0, false)).collect();
        let path = ClosingPath { steps, settled: None, sides: None, exact_cost: 2 };
        let rows = rows(&path);
        assert_eq!(rows.len(), MOST_ROWS);
        assert_eq!((rows[99][0].as_str(), rows[100][0].as_str()), ("100", "901"));
        assert_eq!(rows[0][6], "50.0 %");
    }
}
