//! Writes an ONNX model.

use std::io::Write;

use mercer_data::scale::Map;
use mercer_data::{Row, Scaling};
use mercer_kernel::{Finish, Form, Profile};

use super::super::libsvm::write::{VectorLine, vector_lines};
use super::DOMAIN;
use super::field::{attribute, graph, model, node, opset};
use super::wire::Message;
use crate::{ClassName, Machine, MachineError, Model, Output, Probabilities, Score};

/// Vectors are stored densely: more numbers than this are refused, and more than the stored values justify.
const MAX_NUMBERS: usize = 1 << 28;

/// Attribute kinds of onnx.proto.
pub(super) const INTEGER: i64 = 2;
const TEXT: i64 = 3;
const FLOATS: i64 = 6;
const INTEGERS: i64 = 7;
const TEXTS: i64 = 8;
/// Element kinds of rows.
const FLOAT: i64 = 1;
pub(super) const INTEGER64: i64 = 7;
pub(super) const TEXT_ELEMENT: i64 = 8;
pub(super) const DOUBLE: i64 = 11;
/// Centres this many times as large as the spread cost 32-bit floats six of their 24 bits.
const FAR: f64 = 64.0;

pub(super) fn inexpressible(what: impl Into<String>) -> MachineError {
    MachineError::Inexpressible { format: "ONNX", what: what.into() }
}

/// Writes a model of one node.
pub(super) fn write(saved: &Model, out: &mut dyn Write) -> Result<(), MachineError> {
    let machine = &saved.machine;
    if let Some(grid) = machine.bins() {
        return super::tables::write(saved, grid, out);
    }
    let is_classifier = matches!(machine.output(), Output::Classes { .. });
    let has_words = machine.classes().iter().any(|name| matches!(name, ClassName::Text(_)));
    let shift = shift(saved);
    let scaling = match (&saved.input.scaling, &shift) {
        (Some(scaling), _) => Some(scaler(scaling)?),
        (None, Some(shift)) => Some(shifter(shift)?),
        (None, None) => None,
    };
    let (svm, answers) = if is_classifier {
        let label = if has_words { TEXT_ELEMENT } else { INTEGER64 };
        let answers = vec![("label", label, None), ("scores", 1, Some(score_columns(machine)))];
        (classifier(saved, shift.as_deref())?, answers)
    } else {
        (regressor(saved, shift.as_deref())?, vec![("score", 1, Some(1))])
    };
    let outputs = answers.iter().fold(svm, |svm, (name, ..)| svm.bytes(node::OUTPUT, name));
    // Values far from zero would lose their digits on the way in: such rows are read as f64.
    let rows_kind = if shift.is_some() { DOUBLE } else { FLOAT };
    let nodes = scaling.into_iter().chain([outputs]);
    let mut whole = nodes
        .fold(Message::default(), |whole, node| whole.message(graph::NODE, node))
        .bytes(graph::NAME, "mercer")
        .message(graph::INPUT, tensor("rows", rows_kind, Some(machine.columns())));
    for (name, kind, columns) in answers {
        whole = whole.message(graph::OUTPUT, tensor(name, kind, columns));
    }
    let version = |domain: &str, version: i64| {
        Message::default().bytes(opset::DOMAIN, domain).integer(opset::VERSION, version)
    };
    let file = Message::default()
        .integer(model::IR_VERSION, 8)
        .bytes(model::PRODUCER, "mercer")
        .message(model::GRAPH, whole)
        .message(model::OPSET, version("", 15))
        .message(model::OPSET, version(DOMAIN, 1));
    out.write_all(&file.0)?;
    Ok(())
}

fn score_columns(machine: &Machine) -> usize {
    if machine.classes().len() == 2 { 2 } else { machine.scores().len() }
}

/// A named matrix of rows, or a vector, of an element kind of onnx.proto.
pub(super) fn tensor(name: &str, kind: i64, columns: Option<usize>) -> Message {
    let rows = Message::default().message(1, Message::default().bytes(2, "N"));
    let shape = match columns {
        Some(columns) => rows.message(1, Message::default().integer(1, columns as i64)),
        None => rows,
    };
    let tensor = Message::default().integer(1, kind).message(2, shape);
    Message::default().bytes(1, name).message(2, Message::default().message(1, tensor))
}

fn start(operator: &str, name: &str, input: &str) -> Message {
    Message::default()
        .bytes(node::INPUT, input)
        .bytes(node::NAME, name)
        .bytes(node::OPERATOR, operator)
        .bytes(node::DOMAIN, DOMAIN)
}

/// What the SVM reads: the graph's input, or what the scaling makes of it.
fn svm_input(saved: &Model, shift: Option<&[f64]>) -> &'static str {
    if saved.input.scaling.is_some() || shift.is_some() { "scaled" } else { "rows" }
}

/// What is taken from rows and supports before they become 32-bit floats: a kernel of distances does not see it.
/// It is itself a 32-bit float, so that nothing is rounded but the differences.
///
/// Only machines whose supports lie far from zero, compared with how far they lie apart, are shifted.
fn shift(saved: &Model) -> Option<Vec<f64>> {
    let centre = saved.machine.centre().filter(|_| saved.input.scaling.is_none())?;
    let mut widths = vec![0.0f64; centre.len()];
    for row in saved.machine.supports().iter() {
        for ((column, width), middle) in widths.iter_mut().enumerate().zip(centre) {
            *width = width.max((row.get(column) - middle).abs());
        }
    }
    let is_far = |(middle, width): (&f64, &f64)| middle.abs() > FAR * width;
    centre.iter().zip(&widths).any(is_far).then_some(())?;
    Some(centre.iter().map(|value| f64::from(*value as f32)).collect())
}

fn shifter(shift: &[f64]) -> Result<Message, MachineError> {
    Ok(start("Scaler", "centring", "rows")
        .message(node::ATTRIBUTE, floats("offset", shift)?)
        .message(node::ATTRIBUTE, floats("scale", &vec![1.0; shift.len()])?)
        .bytes(node::OUTPUT, "scaled"))
}

/// `Scaler` computes `(x - offset) scale`, `Normalizer` divides each row by its norm.
fn scaler(scaling: &Scaling) -> Result<Message, MachineError> {
    let node = match scaling.map() {
        Map::Affine { centres, factors } => start("Scaler", "scaling", "rows")
            .message(node::ATTRIBUTE, floats("offset", centres)?)
            .message(node::ATTRIBUTE, floats("scale", factors)?),
        Map::UnitNorm(norm) => {
            let word = norm.name().to_uppercase();
            let start = start("Normalizer", "scaling", "rows");
            start.message(node::ATTRIBUTE, words("norm", &word))
        }
        Map::Quantiles { .. } => {
            return Err(inexpressible(format!("rows scaled by {}", scaling.spec())));
        }
    };
    Ok(node.bytes(node::OUTPUT, "scaled"))
}

fn classifier(saved: &Model, shift: Option<&[f64]>) -> Result<Message, MachineError> {
    let machine = &saved.machine;
    let classes = machine.classes().len();
    let is_linear = matches!(machine.scores(), [Score::Linear { .. }]);
    let lines = if is_linear && classes == 2 {
        // One vector, the weights themselves, with coefficient 1.
        vec![VectorLine { class: 0, support: 0, coefficients: vec![1.0] }]
    } else {
        vector_lines(machine).map_err(renamed)?
    };
    if lines.is_empty() {
        return Err(inexpressible("a machine without supports"));
    }
    let mut per_class = vec![0i64; classes];
    lines.iter().for_each(|line| per_class[line.class] += 1);
    let mut coefficients = Vec::new();
    for column in 0..classes - 1 {
        coefficients.extend(lines.iter().map(|line| line.coefficients[column]));
    }
    let offsets: Vec<f64> = machine.scores().iter().map(|score| -score.offset()).collect();
    let mut svm = start("SVMClassifier", "svm", svm_input(saved, shift));
    svm = labels(svm, machine.classes())?
        .message(node::ATTRIBUTE, floats("coefficients", &coefficients)?)
        .message(node::ATTRIBUTE, integers("vectors_per_class", &per_class))
        .message(node::ATTRIBUTE, floats("rho", &offsets)?);
    if let Some((a, b)) = saved.probabilities.as_ref().and_then(Probabilities::sigmoids) {
        svm = svm
            .message(node::ATTRIBUTE, floats("prob_a", &a)?)
            .message(node::ATTRIBUTE, floats("prob_b", &b)?);
    }
    vectors_and_kernel(svm, machine, &lines, shift)
}

fn regressor(saved: &Model, shift: Option<&[f64]>) -> Result<Message, MachineError> {
    let machine = &saved.machine;
    let score = &machine.scores()[0];
    let is_novelty = i64::from(*machine.output() == Output::Novelty);
    let mut svm = start("SVMRegressor", "svm", svm_input(saved, shift))
        .message(node::ATTRIBUTE, floats("rho", &[-score.offset()])?)
        .message(node::ATTRIBUTE, integer("one_class", is_novelty));
    if let Score::Linear { weights, .. } = score {
        return Ok(svm
            .message(node::ATTRIBUTE, integer("n_supports", 0))
            .message(node::ATTRIBUTE, floats("coefficients", weights)?)
            .message(node::ATTRIBUTE, words("kernel_type", "LINEAR")));
    }
    let lines = vector_lines(machine).map_err(renamed)?;
    if lines.is_empty() {
        return Err(inexpressible("a machine without supports"));
    }
    let coefficients: Vec<f64> = lines.iter().map(|line| line.coefficients[0]).collect();
    svm = svm
        .message(node::ATTRIBUTE, integer("n_supports", lines.len() as i64))
        .message(node::ATTRIBUTE, floats("coefficients", &coefficients)?);
    vectors_and_kernel(svm, machine, &lines, shift)
}

/// An error of the LIBSVM writer, under the name of this format.
fn renamed(error: MachineError) -> MachineError {
    match error {
        MachineError::Inexpressible { what, .. } => inexpressible(what),
        other => other,
    }
}

fn vectors_and_kernel(
    svm: Message,
    machine: &Machine,
    lines: &[VectorLine],
    shift: Option<&[f64]>,
) -> Result<Message, MachineError> {
    let columns = machine.columns();
    let numbers = lines.len().saturating_mul(columns);
    let is_wide = machine.check_dense(numbers).is_err();
    if numbers > MAX_NUMBERS || is_wide {
        return Err(inexpressible(format!("{} dense vectors of {columns} columns", lines.len())));
    }
    let mut values = vec![0.0; lines.len() * columns];
    for (line, out) in lines.iter().zip(values.chunks_exact_mut(columns.max(1))) {
        match &machine.scores()[0] {
            Score::Linear { weights, .. } => Row::Dense(weights).write_dense(out),
            Score::Expansion { .. } => machine.supports().row(line.support).write_dense(out),
            Score::Additive { .. } => return Err(inexpressible("scores that are tables")),
        }
        for (value, shift) in out.iter_mut().zip(shift.unwrap_or_default()) {
            *value -= shift;
        }
    }
    let (name, parameters) = kernel(machine)?;
    if let Some(lost) = parameters.iter().find(|value| **value != 0.0 && **value as f32 == 0.0) {
        let what = format!("the kernel parameter {lost:e} (32-bit floats have nothing so small)");
        return Err(inexpressible(what));
    }
    Ok(svm
        .message(node::ATTRIBUTE, floats("support_vectors", &values)?)
        .message(node::ATTRIBUTE, words("kernel_type", name))
        .message(node::ATTRIBUTE, floats("kernel_params", &parameters)?)
        .message(node::ATTRIBUTE, words("post_transform", "NONE")))
}

/// Its name, and gamma, coef0, degree.
fn kernel(machine: &Machine) -> Result<(&'static str, [f64; 3]), MachineError> {
    let spec = machine.kernel().spec();
    let form = machine.kernel().form();
    let profile = form.finish().map_or(Profile::Other, Finish::profile);
    let number = |name: &str| {
        let value = spec.get(name).and_then(|value| value.to_string().parse().ok());
        value.unwrap_or(0.0)
    };
    match (spec.name(), form, profile) {
        ("linear", _, _) => Ok(("LINEAR", [0.0, 0.0, 0.0])),
        (_, Form::Shift(_), Profile::Gaussian { gamma }) => Ok(("RBF", [gamma, 0.0, 0.0])),
        (_, Form::Dot(_), Profile::Power { scale, shift, degree }) => {
            Ok(("POLY", [scale, shift, f64::from(degree)]))
        }
        ("sigmoid", _, _) => Ok(("SIGMOID", [number("gamma"), number("coef0"), 0.0])),
        _ => Err(inexpressible(format!("the kernel {spec}"))),
    }
}

fn labels(svm: Message, names: &[ClassName]) -> Result<Message, MachineError> {
    let attribute = if names.iter().any(|name| matches!(name, ClassName::Text(_))) {
        let list = Message::default().bytes(attribute::NAME, "classlabels_strings");
        let list =
            names.iter().fold(list, |list, name| list.bytes(attribute::TEXTS, name.to_string()));
        list.integer(attribute::KIND, TEXTS)
    } else {
        integers("classlabels_ints", &whole_names(names)?)
    };
    Ok(svm.message(node::ATTRIBUTE, attribute))
}

/// Names of classes that are numbers.
pub(super) fn whole_names(names: &[ClassName]) -> Result<Vec<i64>, MachineError> {
    let whole = |name: &ClassName| match name {
        ClassName::Number(number) if number.fract() == 0.0 && number.abs() < 2f64.powi(53) => {
            Ok(*number as i64)
        }
        other => {
            let what = format!("the class name '{other}' (only whole numbers or words)");
            Err(inexpressible(what))
        }
    };
    names.iter().map(whole).collect()
}

fn floats(name: &str, values: &[f64]) -> Result<Message, MachineError> {
    let narrow: Vec<f32> = values.iter().map(|value| *value as f32).collect();
    if let Some(at) = narrow.iter().position(|value| !value.is_finite()) {
        return Err(inexpressible(format!("{} in '{name}' (32-bit floats)", values[at])));
    }
    let list = Message::default().bytes(attribute::NAME, name);
    Ok(list.floats(attribute::FLOATS, &narrow).integer(attribute::KIND, FLOATS))
}

fn integers(name: &str, values: &[i64]) -> Message {
    let list = Message::default().bytes(attribute::NAME, name);
    let list = values.iter().fold(list, |list, value| list.integer(attribute::INTEGERS, *value));
    list.integer(attribute::KIND, INTEGERS)
}

fn integer(name: &str, value: i64) -> Message {
    let one = Message::default().bytes(attribute::NAME, name).integer(attribute::INTEGER, value);
    one.integer(attribute::KIND, INTEGER)
}

fn words(name: &str, value: &str) -> Message {
    let one = Message::default().bytes(attribute::NAME, name).bytes(attribute::TEXT, value);
    one.integer(attribute::KIND, TEXT)
}
