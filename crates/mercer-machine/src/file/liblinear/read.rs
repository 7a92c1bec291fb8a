//! Reads LIBLINEAR model text.

use mercer_data::Matrix;

use super::super::text::Lines;
use super::{LiblinearTask, SOLVERS};
use crate::{
    ClassName, Input, Machine, MachineError, Model, Output, Probabilities, Provenance, Scheme,
    Score,
};

/// More classes than this are refused.
const MAX_CLASSES: usize = 1_000_000;

struct LiblinearHeader {
    solver: &'static str,
    task: LiblinearTask,
    classes: usize,
    labels: Vec<f64>,
    features: usize,
    bias: f64,
    rho: f64,
}

pub(super) fn read(bytes: &[u8]) -> Result<Model, MachineError> {
    let mut lines = Lines::new(bytes);
    let header = LiblinearHeader::read(&mut lines)?;
    let weights = read_weights(&mut lines, &header)?;
    let width = header.width();
    let column = |score: usize| -> Vec<f64> {
        let own = weights.iter().skip(score).step_by(width);
        own.take(header.features).copied().collect()
    };
    // With a bias, the last row holds the weight of a constant column.
    let offset = |score: usize| match header.task {
        _ if header.bias >= 0.0 => -header.bias * weights[header.features * width + score],
        LiblinearTask::Novelty => header.rho,
        _ => 0.0,
    };
    let linear = |score| Score::Linear { weights: column(score), offset: offset(score) };
    let names = |order: &[usize]| -> Vec<ClassName> {
        order.iter().map(|class| ClassName::Number(header.labels[*class])).collect()
    };
    let (scores, output) = match header.task {
        LiblinearTask::Value => (vec![linear(0)], Output::Value),
        LiblinearTask::Novelty => (vec![linear(0)], Output::Novelty),
        _ if width == 1 => {
            let output = Output::Classes { names: names(&[0, 1]), scheme: Scheme::OneVsOne };
            (vec![linear(0)], output)
        }
        _ if header.classes == 2 => {
            // The larger of two scores, the first of equals: the second class wins on f > 0 only.
            let pairs = column(1).into_iter().zip(column(0));
            let weights = pairs.map(|(second, first)| second - first).collect();
            let score = Score::Linear { weights, offset: offset(1) - offset(0) };
            let output = Output::Classes { names: names(&[1, 0]), scheme: Scheme::OneVsOne };
            (vec![score], output)
        }
        _ => {
            let order: Vec<usize> = (0..header.classes).collect();
            let output = Output::Classes { names: names(&order), scheme: Scheme::OneVsRest };
            (order.into_iter().map(linear).collect(), output)
        }
    };
    let kernel = mercer_kernel::parse("linear")?;
    let supports = Matrix::sparse(header.features, &[0], &[], &[])?;
    let machine = Machine::new(kernel, supports, scores, output)?;
    let probabilities = (header.task == LiblinearTask::Logistic && header.classes == 2)
        .then(|| Probabilities::Sigmoid { a: vec![-1.0], b: vec![0.0] });
    let provenance = Provenance {
        origin: "liblinear".to_owned(),
        formulation: Some(header.solver.to_owned()),
        ..Provenance::default()
    };
    // LIBLINEAR leaves out columns it has no weight for, so rows of any width fit.
    Ok(Model { probabilities, provenance, input: Input::default(), ..Model::from(machine) })
}

impl LiblinearHeader {
    fn read(lines: &mut Lines<'_>) -> Result<Self, MachineError> {
        let mut header = Self {
            solver: "",
            task: LiblinearTask::Classes,
            classes: 0,
            labels: Vec::new(),
            features: usize::MAX,
            bias: -1.0,
            rho: 0.0,
        };
        let missing = "the file ends before its weights (no line 'w')";
        lines.header("w", missing, |lines, key, values| header.set(lines, key, values))?;
        header.check(lines)?;
        Ok(header)
    }

    fn set(&mut self, lines: &Lines<'_>, key: &str, values: &[&str]) -> Result<(), MachineError> {
        let one = || lines.one(key, values);
        let count = |limit: usize| lines.count(key, values, limit);
        match key {
            "solver_type" => {
                let name = one()?;
                let found = SOLVERS.iter().find(|(known, _)| *known == name);
                (self.solver, self.task) =
                    *found.ok_or_else(|| lines.error(format!("unknown solver_type '{name}'")))?;
            }
            "nr_class" => self.classes = count(MAX_CLASSES)?,
            "nr_feature" => self.features = count(u32::MAX as usize)?,
            "bias" => self.bias = lines.number(one()?)?,
            "rho" => self.rho = lines.number(one()?)?,
            "label" => self.labels = lines.numbers(values)?,
            _ => return Err(lines.error(format!("unknown key '{key}'"))),
        }
        Ok(())
    }

    fn check(&self, lines: &Lines<'_>) -> Result<(), MachineError> {
        if self.solver.is_empty() {
            return Err(lines.error("'solver_type' is missing"));
        }
        if self.features == usize::MAX {
            return Err(lines.error("'nr_feature' is missing"));
        }
        if self.is_classifier() {
            if self.classes < 2 {
                return Err(lines.error("'nr_class' must be at least 2"));
            }
            if self.labels.len() != self.classes {
                let (found, expected) = (self.labels.len(), self.classes);
                let reason = format!("'label' has {found} values, {expected} are needed");
                return Err(lines.error(reason));
            }
        }
        Ok(())
    }

    fn is_classifier(&self) -> bool {
        !matches!(self.task, LiblinearTask::Value | LiblinearTask::Novelty)
    }

    /// Weights per line.
    fn width(&self) -> usize {
        let all = self.task == LiblinearTask::AllClasses || self.classes > 2;
        if self.is_classifier() && all { self.classes } else { 1 }
    }
}

/// Weights line after line: one line per column, and one more with a bias.
fn read_weights(lines: &mut Lines<'_>, header: &LiblinearHeader) -> Result<Vec<f64>, MachineError> {
    let (width, needed) = (header.width(), header.features + usize::from(header.bias >= 0.0));
    let mut weights = Vec::new();
    let mut count = 0;
    while let Some(line) = lines.next()? {
        let before = weights.len();
        for token in line.split_ascii_whitespace() {
            weights.push(lines.number(token)?);
        }
        let found = weights.len() - before;
        if found == 0 {
            continue;
        }
        count += 1;
        if found != width {
            return Err(lines.error(format!("{found} weights, {width} are needed")));
        }
        if count > needed {
            return Err(lines.error(format!("more than {needed} lines of weights")));
        }
    }
    if count < needed {
        return Err(
            lines.error(format!("the file ends after {count} of {needed} lines of weights"))
        );
    }
    Ok(weights)
}
