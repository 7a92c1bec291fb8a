//! Reads LIBSVM model text.

use mercer_data::{Matrix, MatrixBuilder};
use mercer_kernel::KernelRef;
use mercer_spec::Spec;

use super::super::text::Lines;
use super::{LibsvmTask, TYPES, column_of};
use crate::{
    ClassName, Input, Machine, MachineError, Model, Output, Probabilities, Provenance, Scheme,
    Score, pairs,
};

/// Header keys, in the order in which LIBSVM writes them.
pub(super) const KEYS: [&str; 13] = [
    "svm_type",
    "kernel_type",
    "degree",
    "gamma",
    "coef0",
    "nr_class",
    "total_sv",
    "rho",
    "label",
    "probA",
    "probB",
    "prob_density_marks",
    "nr_sv",
];
/// More classes than this are refused: their pairs alone would exceed any memory.
const MAX_CLASSES: usize = 10_000;

/// Reads model text.
pub(super) fn read(bytes: &[u8]) -> Result<Model, MachineError> {
    let mut lines = Lines::new(bytes);
    let header = LibsvmHeader::read(&mut lines)?;
    let zero_based = has_index_zero(bytes) && header.kernel_name != "precomputed";
    let (supports, columns) = read_vectors(&mut lines, &header, u32::from(!zero_based))?;
    let offsets = &header.rho;
    let coefficients = |score: usize, row: usize| columns[row * header.width() + score];
    let total = supports.rows();
    let (scores, output) = match header.task {
        LibsvmTask::Classes => {
            let starts = class_starts(&header.per_class);
            let scores = pairs(header.classes).zip(offsets).map(|((first, second), offset)| {
                let (mut named, mut betas) = (Vec::new(), Vec::new());
                for own in [first, second] {
                    let column = column_of(first, second, own);
                    for row in starts[own]..starts[own + 1] {
                        let beta = coefficients(column, row);
                        if beta != 0.0 {
                            named.push(row as u32);
                            betas.push(beta);
                        }
                    }
                }
                Score::Expansion { supports: named, coefficients: betas, offset: *offset }
            });
            let names = header.labels.iter().map(|label| ClassName::Number(*label)).collect();
            (scores.collect(), Output::Classes { names, scheme: Scheme::OneVsOne })
        }
        task => {
            let beta: Vec<f64> = (0..total).map(|row| coefficients(0, row)).collect();
            let output = if task == LibsvmTask::Novelty { Output::Novelty } else { Output::Value };
            (vec![Score::expansion(&beta, offsets[0])], output)
        }
    };
    let machine = Machine::new(header.kernel()?, supports, scores, output)?;
    let provenance = Provenance {
        origin: "libsvm".to_owned(),
        formulation: Some(header.type_name.to_owned()),
        version: String::new(),
        source_supports: Some(total),
        parent: None,
    };
    let probabilities = header.probabilities();
    let input = Input { zero_based, ..Input::default() };
    Ok(Model { input, probabilities, provenance, ..Model::from(machine) })
}

/// Whether a vector has an index 0, which LIBSVM takes as one more column.
fn has_index_zero(bytes: &[u8]) -> bool {
    bytes.windows(3).any(|three| three[0].is_ascii_whitespace() && three[1..] == *b"0:")
}

fn class_starts(per_class: &[usize]) -> Vec<usize> {
    let mut starts = vec![0];
    for count in per_class {
        starts.push(starts[starts.len() - 1] + count);
    }
    starts
}

#[derive(Debug)]
struct LibsvmHeader {
    type_name: &'static str,
    task: LibsvmTask,
    kernel_name: String,
    degree: f64,
    gamma: f64,
    coef0: f64,
    classes: usize,
    total: usize,
    rho: Vec<f64>,
    labels: Vec<f64>,
    prob_a: Vec<f64>,
    prob_b: Vec<f64>,
    marks: Vec<f64>,
    per_class: Vec<usize>,
}

impl LibsvmHeader {
    fn read(lines: &mut Lines<'_>) -> Result<Self, MachineError> {
        let mut header = Self {
            type_name: "",
            task: LibsvmTask::Classes,
            kernel_name: String::new(),
            degree: 3.0,
            gamma: f64::NAN,
            coef0: 0.0,
            classes: 0,
            total: usize::MAX,
            rho: Vec::new(),
            labels: Vec::new(),
            prob_a: Vec::new(),
            prob_b: Vec::new(),
            marks: Vec::new(),
            per_class: Vec::new(),
        };
        let missing = "the file ends before its vectors (no line 'SV')";
        lines.header("SV", missing, |lines, key, values| header.set(lines, key, values))?;
        header.check(lines)?;
        Ok(header)
    }

    fn set(&mut self, lines: &Lines<'_>, key: &str, values: &[&str]) -> Result<(), MachineError> {
        let one = || lines.one(key, values);
        let count = |limit: usize| lines.count(key, values, limit);
        let real = || one().and_then(|value| lines.number(value));
        let reals = || lines.numbers(values);
        match key {
            "svm_type" => {
                let name = one()?;
                let found = TYPES.iter().find(|(known, _)| *known == name);
                (self.type_name, self.task) =
                    *found.ok_or_else(|| lines.error(format!("unknown svm_type '{name}'")))?;
            }
            "kernel_type" => one()?.clone_into(&mut self.kernel_name),
            "degree" => self.degree = real()?,
            "gamma" => self.gamma = real()?,
            "coef0" => self.coef0 = real()?,
            "nr_class" => self.classes = count(MAX_CLASSES)?,
            "total_sv" => self.total = count(u32::MAX as usize)?,
            "rho" => self.rho = reals()?,
            "label" => self.labels = reals()?,
            "probA" => self.prob_a = reals()?,
            "probB" => self.prob_b = reals()?,
            "prob_density_marks" => self.marks = reals()?,
            "nr_sv" => {
                let parse = |value: &&str| value.parse::<usize>().ok();
                let counts = values.iter().map(parse).collect::<Option<Vec<_>>>();
                self.per_class =
                    counts.ok_or_else(|| lines.error("'nr_sv' must be whole numbers"))?;
            }
            _ => return Err(lines.error(format!("unknown key '{key}'"))),
        }
        Ok(())
    }

    fn check(&self, lines: &Lines<'_>) -> Result<(), MachineError> {
        let need = |what: &str, found: usize, expected: usize| {
            if found == expected {
                return Ok(());
            }
            Err(lines.error(format!("'{what}' has {found} values, {expected} are needed")))
        };
        if self.type_name.is_empty() || self.kernel_name.is_empty() {
            return Err(lines.error("'svm_type' or 'kernel_type' is missing"));
        }
        if self.total == usize::MAX {
            return Err(lines.error("'total_sv' is missing"));
        }
        if self.classes < 2 {
            return Err(lines.error("'nr_class' must be at least 2"));
        }
        let pairs = self.classes * (self.classes - 1) / 2;
        if self.task == LibsvmTask::Classes {
            need("rho", self.rho.len(), pairs)?;
            need("label", self.labels.len(), self.classes)?;
            need("nr_sv", self.per_class.len(), self.classes)?;
            let sum = self.per_class.iter().try_fold(0usize, |sum, n| sum.checked_add(*n));
            if sum != Some(self.total) {
                return Err(lines.error("'nr_sv' does not add up to 'total_sv'"));
            }
        } else {
            need("rho", self.rho.len(), 1)?;
        }
        let pairs_needed = if self.task == LibsvmTask::Classes { pairs } else { 1 };
        if !self.prob_a.is_empty() {
            need("probA", self.prob_a.len(), pairs_needed)?;
        }
        if !self.prob_b.is_empty() {
            need("probB", self.prob_b.len(), pairs_needed)?;
            need("probA", self.prob_a.len(), pairs_needed)?;
        }
        Ok(())
    }

    /// Coefficients per line.
    fn width(&self) -> usize {
        if self.task == LibsvmTask::Classes { self.classes - 1 } else { 1 }
    }

    fn kernel(&self) -> Result<KernelRef, MachineError> {
        let gamma = || {
            let missing = MachineError::Text { line: 1, reason: "'gamma' is missing".to_owned() };
            if self.gamma.is_nan() { Err(missing) } else { Ok(self.gamma) }
        };
        let spec = match self.kernel_name.as_str() {
            "linear" => Spec::new("linear"),
            "polynomial" => Spec::new("polynomial")
                .set("degree", self.degree)
                .set("gamma", gamma()?)
                .set("coef0", self.coef0),
            "rbf" => Spec::new("rbf").set("gamma", gamma()?),
            "sigmoid" => Spec::new("sigmoid").set("gamma", gamma()?).set("coef0", self.coef0),
            "precomputed" => Spec::new("precomputed"),
            other => {
                let reason = format!("unknown kernel_type '{other}'");
                return Err(MachineError::Text { line: 2, reason });
            }
        };
        Ok(mercer_kernel::KERNELS.build(&spec)?)
    }

    fn probabilities(&self) -> Option<Probabilities> {
        match self.task {
            LibsvmTask::Classes if !self.prob_b.is_empty() => {
                Some(Probabilities::Sigmoid { a: self.prob_a.clone(), b: self.prob_b.clone() })
            }
            LibsvmTask::Value if !self.prob_a.is_empty() => {
                Some(Probabilities::Laplace { sigma: self.prob_a[0] })
            }
            LibsvmTask::Novelty if !self.marks.is_empty() => {
                Some(Probabilities::Marks(self.marks.clone()))
            }
            _ => None,
        }
    }
}

/// The vectors, whose indices begin at `first`, and their coefficients row after row.
fn read_vectors(
    lines: &mut Lines<'_>,
    header: &LibsvmHeader,
    first: u32,
) -> Result<(Matrix, Vec<f64>), MachineError> {
    let width = header.width();
    let precomputed = header.kernel_name == "precomputed";
    let mut builder = MatrixBuilder::new();
    let mut coefficients = Vec::new();
    while let Some(line) = lines.next()? {
        let mut tokens = line.split_ascii_whitespace().peekable();
        if tokens.peek().is_none() {
            continue;
        }
        if builder.rows() == header.total {
            return Err(lines.error(format!("more than {} vectors (total_sv)", header.total)));
        }
        for position in 0..width {
            let Some(token) = tokens.next().filter(|token| !token.contains(':')) else {
                let reason = format!("{position} coefficients, {width} are needed");
                return Err(lines.error(reason));
            };
            coefficients.push(lines.number(token)?);
        }
        let mut previous = None;
        for token in tokens {
            let (index, value) = entry(lines, token, precomputed, first)?;
            if let Some(previous) = previous.filter(|previous| index <= *previous) {
                let reason = format!("index {index} comes after {previous}; indices must increase");
                return Err(lines.error(reason));
            }
            previous = Some(index);
            builder.push(index - first, value);
        }
        builder.end_row();
    }
    if builder.rows() < header.total {
        let (found, total) = (builder.rows(), header.total);
        return Err(lines.error(format!("the file ends after {found} of {total} vectors")));
    }
    let columns = builder.width();
    Ok((builder.finish(columns), coefficients))
}

/// Index and value; `0:serial` of a precomputed kernel is the unit vector of its serial number.
fn entry(
    lines: &Lines<'_>,
    token: &str,
    precomputed: bool,
    first: u32,
) -> Result<(u32, f64), MachineError> {
    let Some((index, value)) = token.split_once(':') else {
        let shown: String = token.chars().take(40).collect();
        return Err(lines.error(format!("'{shown}' is not of the form index:value")));
    };
    let value = lines.number(value)?;
    if precomputed && index == "0" {
        let serial = (value >= 1.0 && value < f64::from(u32::MAX) && value.fract() == 0.0)
            .then_some(value as u32);
        let serial = serial.ok_or_else(|| lines.error("the serial number must be at least 1"))?;
        return Ok((serial, 1.0));
    }
    let parsed = index.parse::<u32>().ok().filter(|index| (first..u32::MAX).contains(index));
    let index = parsed.ok_or_else(|| {
        let shown: String = index.chars().take(40).collect();
        lines.error(format!("index '{shown}' is outside {first} to {}", u32::MAX - 1))
    })?;
    Ok((index, value))
}
