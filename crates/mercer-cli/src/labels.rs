//! Answers as text, and their accuracy.

use std::collections::HashSet;

use mercer::data::{Targets, label_number};
use mercer::machine::{Answer, ClassName, Machine, Output};

/// An answer as it is written to files.
pub(crate) use mercer_server::label_text as text;

/// Targets as answers of a machine; none for a class that it does not know, and none at all without targets.
pub(crate) fn answers(machine: &Machine, targets: &Targets) -> Option<Vec<Option<Answer>>> {
    let of = |number: Option<f64>, name: Option<&str>| match machine.output() {
        Output::Value => number.map(Answer::Value),
        Output::Novelty => number.map(|number| Answer::Inlier(number > 0.0)),
        Output::Classes { names, .. } => {
            names.iter().position(|class| is_named(class, number, name)).map(Answer::Class)
        }
    };
    match targets {
        Targets::Numbers(numbers) => Some(numbers.iter().map(|x| of(Some(*x), None)).collect()),
        Targets::Names(names) => Some(names.iter().map(|name| of(None, Some(name))).collect()),
        Targets::Absent => None,
    }
}

/// Classes up to this number are never too many.
const FEW_CLASSES: usize = 20;
/// More classes than one for so many rows are refused, unless they are few.
const ROWS_PER_CLASS: usize = 10;

/// The number of different targets, if these are too many to be classes: more than 20, and more than one for every
/// 10 rows.
pub(crate) fn too_many_classes(targets: &Targets) -> Option<usize> {
    let distinct = match targets {
        Targets::Absent => 0,
        Targets::Numbers(numbers) => {
            numbers.iter().map(|number| number.to_bits()).collect::<HashSet<_>>().len()
        }
        Targets::Names(names) => names.iter().collect::<HashSet<_>>().len(),
    };
    (distinct > FEW_CLASSES && distinct * ROWS_PER_CLASS > targets.len()).then_some(distinct)
}

/// Refuses targets of a classification that are probably values, or names of rows.
pub(crate) fn refuse_values(targets: &Targets) -> anyhow::Result<()> {
    let Some(found) = too_many_classes(targets) else { return Ok(()) };
    let rows = targets.len();
    let other = match targets {
        Targets::Names(_) => "--label names another target column",
        _ => "a regression is trained with --formulation 'epsilon_svr(C=1)'",
    };
    anyhow::bail!(
        "the target has {found} different values in {rows} rows, too many for classes (more than {FEW_CLASSES}, and \
         more than one for every {ROWS_PER_CLASS} rows); {other}, and --many-classes says that they are classes"
    )
}

/// Accuracy or squared error of answers, summed chunk by chunk.
#[derive(Debug, Default)]
pub(crate) struct Fit {
    counted: usize,
    /// Rows whose target is one that the machine could answer.
    known: usize,
    correct: usize,
    squared: f64,
}

impl Fit {
    pub(crate) fn add(&mut self, classes: &[ClassName], answers: &[Answer], targets: &Targets) {
        for (position, answer) in answers.iter().enumerate() {
            let number = match targets {
                Targets::Numbers(numbers) => Some(numbers[position]),
                Targets::Names(_) | Targets::Absent => None,
            };
            let name = match targets {
                Targets::Names(names) => Some(names[position].as_str()),
                Targets::Numbers(_) | Targets::Absent => None,
            };
            if number.is_none() && name.is_none() {
                return;
            }
            self.counted += 1;
            let value = number.or(name.and_then(|name| name.parse().ok()));
            match answer {
                Answer::Value(answer) => {
                    self.known += usize::from(value.is_some());
                    self.squared += (answer - value.unwrap_or(f64::NAN)).powi(2);
                }
                Answer::Class(class) => {
                    let is_correct = is_named(&classes[*class], number, name);
                    let is_known =
                        is_correct || classes.iter().any(|class| is_named(class, number, name));
                    self.known += usize::from(is_known);
                    self.correct += usize::from(is_correct);
                }
                Answer::Inlier(inlier) => {
                    // As LIBSVM counts: the answer is 1 or -1, and any other target is wrong.
                    let answer = if *inlier { 1.0 } else { -1.0 };
                    self.known += usize::from(value.is_some());
                    self.correct += usize::from(value == Some(answer));
                }
            }
        }
    }

    /// Rows with targets; none if no target is one that the machine could answer: another column was taken for it.
    pub(crate) fn counted(&self) -> usize {
        if self.known > 0 { self.counted } else { 0 }
    }

    /// Whether there are targets, and the machine knows none of them.
    pub(crate) fn is_strange(&self) -> bool {
        self.counted > 0 && self.known == 0
    }

    pub(crate) fn correct(&self) -> usize {
        self.correct
    }

    pub(crate) fn accuracy(&self) -> f64 {
        self.correct as f64 / self.counted as f64
    }

    pub(crate) fn mean_squared_error(&self) -> f64 {
        self.squared / self.counted as f64
    }
}

/// The position of a row's class, if it has one that the machine knows.
pub(crate) fn class_of(machine: &Machine, targets: &Targets, row: usize) -> Option<usize> {
    let (number, name) = match targets {
        Targets::Numbers(numbers) => (Some(numbers[row]), None),
        Targets::Names(names) => (None, Some(names[row].as_str())),
        Targets::Absent => return None,
    };
    machine.classes().iter().position(|class| is_named(class, number, name))
}

fn is_named(class: &ClassName, number: Option<f64>, name: Option<&str>) -> bool {
    match (class, number, name) {
        (ClassName::Number(class), Some(number), _) => *class == number,
        (ClassName::Number(class), None, Some(name)) => label_number(name) == Some(*class),
        (ClassName::Text(class), Some(number), _) => label_number(class) == Some(number),
        (ClassName::Text(class), None, Some(name)) => class == name,
        (_, None, None) => false,
    }
}
