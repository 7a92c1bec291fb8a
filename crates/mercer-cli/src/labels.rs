//! Answers as text, and their accuracy.

use mercer::data::{Targets, label_number};
use mercer::machine::{Answer, ClassName, Machine, Output};

/// An answer as it is written to files.
pub(crate) fn text(machine: &Machine, answer: Answer) -> String {
    match answer {
        Answer::Class(class) => machine.classes()[class].to_string(),
        Answer::Value(value) => value.to_string(),
        Answer::Inlier(inlier) => if inlier { "1" } else { "-1" }.to_owned(),
    }
}

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

/// Accuracy or squared error of answers, summed chunk by chunk.
#[derive(Debug, Default)]
pub(crate) struct Fit {
    counted: usize,
    correct: usize,
    squared: f64,
}

impl Fit {
    pub(crate) fn add(&mut self, machine: &Machine, answers: &[Answer], targets: &Targets) {
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
            match answer {
                Answer::Value(value) => {
                    let target = number.or(name.and_then(|name| name.parse().ok()));
                    self.squared += (value - target.unwrap_or(f64::NAN)).powi(2);
                }
                Answer::Class(class) => {
                    self.correct += usize::from(is_named(&machine.classes()[*class], number, name));
                }
                Answer::Inlier(inlier) => {
                    let expected = number.map(|number| number > 0.0);
                    self.correct += usize::from(expected == Some(*inlier));
                }
            }
        }
    }

    pub(crate) fn counted(&self) -> usize {
        self.counted
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
