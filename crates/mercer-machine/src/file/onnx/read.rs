//! Reads an ONNX model: finds the SVM node and the nodes around it that are understood.

use mercer_data::scale::{Map, Norm};
use mercer_data::{Matrix, Scaling};
use mercer_kernel::KernelRef;
use mercer_spec::Spec;

use super::super::libsvm::column_of;
use super::DOMAIN;
use super::field::{attribute, graph, model, node};
use super::wire::{Fields, Value, damaged, text};
use crate::{
    ClassName, Input, Machine, MachineError, Model, Output, Probabilities, Provenance, Scheme,
    Score, pairs,
};

/// Nodes that may follow the SVM: they reshape its scores and leave its label.
const AFTER: [&str; 15] = [
    "Cast",
    "Less",
    "Neg",
    "ArrayFeatureExtractor",
    "Sum",
    "Add",
    "Sub",
    "Concat",
    "Abs",
    "Mul",
    "Div",
    "Identity",
    "Sign",
    "ZipMap",
    "Reshape",
];

/// Nodes before the SVM: one that scales, and conversions of types.
const MAX_BEFORE: usize = 16;

pub(super) fn read(bytes: &[u8]) -> Result<Model, MachineError> {
    let mut svm: Option<Node<'_>> = None;
    let mut others = Vec::new();
    let mut inputs = Vec::new();
    let mut fields = Fields::of(graph_of(bytes)?);
    while let Some((number, value)) = fields.next()? {
        let Value::Bytes(inner) = value else { continue };
        if number == graph::INPUT {
            inputs.push(name_of(inner)?);
        } else if number == graph::NODE {
            let node = Node::read(inner)?;
            if !matches!(node.operator, "SVMClassifier" | "SVMRegressor") {
                others.push(node);
            } else if node.domain != DOMAIN {
                return Err(damaged(format!("'{}' of an unknown domain", node.operator)));
            } else if svm.replace(node).is_some() {
                return Err(unreadable("more than one SVM"));
            }
        }
    }
    let svm = svm.ok_or_else(|| unreadable("a graph without SVMClassifier or SVMRegressor"))?;
    let scaler = check_neighbours(&svm, &others, &inputs)?;
    let attributes = Attributes::read(&svm)?;
    let has_sign = others.iter().any(|node| node.operator == "Sign");
    let mut model = if svm.operator == "SVMClassifier" {
        attributes.classifier()?
    } else {
        attributes.regressor(has_sign)?
    };
    let scaling = scaler.map(|node| scaling(node, model.machine.columns())).transpose()?;
    model.input.scaling = scaling;
    Ok(model)
}

/// The scaling of a `Scaler` or `Normalizer` node.
fn scaling(node: &Node<'_>, columns: usize) -> Result<Scaling, MachineError> {
    let (mut offsets, mut factors, mut norm) = (vec![0.0], vec![1.0], Norm::Max);
    for message in &node.attributes {
        let one = Attribute::read(message)?;
        match one.name {
            "offset" => offsets = one.floats,
            "scale" => factors = one.floats,
            "norm" => {
                norm = match text(one.text)? {
                    "L1" => Norm::L1,
                    "L2" => Norm::L2,
                    "MAX" => Norm::Max,
                    other => return Err(damaged(format!("unknown norm '{other}'"))),
                }
            }
            other => return Err(damaged(format!("unknown attribute '{other}'"))),
        }
    }
    if node.operator == "Normalizer" {
        let spec = format!("unit_norm(norm={})", norm.name());
        return Ok(Scaling::from_parts(&spec, Map::UnitNorm(norm))?);
    }
    let spread = |values: Vec<f64>| match values[..] {
        [one] => Ok(vec![one; columns]),
        _ if values.len() == columns => Ok(values),
        _ => Err(damaged("the Scaler's numbers do not fit the vectors")),
    };
    let map = Map::Affine { centres: spread(offsets)?, factors: spread(factors)? };
    Ok(Scaling::from_parts(Scaling::AFFINE, map)?)
}

fn unreadable(what: &str) -> MachineError {
    MachineError::Inexpressible { format: "a machine", what: format!("{what} (from ONNX)") }
}

fn graph_of(bytes: &[u8]) -> Result<&[u8], MachineError> {
    let mut fields = Fields::of(bytes);
    let mut found = None;
    while let Some((number, value)) = fields.next()? {
        if let (model::GRAPH, Value::Bytes(inner)) = (number, value) {
            found = Some(inner);
        }
    }
    found.ok_or_else(|| damaged("there is no graph"))
}

/// Field 1 of graph inputs is their name.
fn name_of(message: &[u8]) -> Result<&str, MachineError> {
    let mut fields = Fields::of(message);
    while let Some((number, value)) = fields.next()? {
        if let (1, Value::Bytes(name)) = (number, value) {
            return text(name);
        }
    }
    Ok("")
}

#[derive(Debug, Default)]
struct Node<'a> {
    operator: &'a str,
    domain: &'a str,
    input: Option<&'a str>,
    output: Option<&'a str>,
    attributes: Vec<&'a [u8]>,
}

impl<'a> Node<'a> {
    fn read(message: &'a [u8]) -> Result<Self, MachineError> {
        let mut found = Self::default();
        let mut fields = Fields::of(message);
        while let Some((number, value)) = fields.next()? {
            let Value::Bytes(inner) = value else { continue };
            match number {
                node::OPERATOR => found.operator = text(inner)?,
                node::DOMAIN => found.domain = text(inner)?,
                node::INPUT if found.input.is_none() => found.input = Some(text(inner)?),
                node::OUTPUT if found.output.is_none() => found.output = Some(text(inner)?),
                node::ATTRIBUTE => found.attributes.push(inner),
                _ => {}
            }
        }
        Ok(found)
    }
}

/// The SVM must see the graph's input itself, or scaled once; what follows must leave its label. Returns the
/// node that scales.
fn check_neighbours<'a, 'b>(
    svm: &Node<'_>,
    others: &'b [Node<'a>],
    inputs: &[&str],
) -> Result<Option<&'b Node<'a>>, MachineError> {
    let mut source = svm.input.unwrap_or_default();
    let mut scaler = None;
    let is_scaler =
        |node: &Node<'_>| matches!(node.operator, "Scaler" | "Normalizer") && node.domain == DOMAIN;
    let mut steps = 0;
    while let Some(node) = others.iter().find(|node| node.output == Some(source)) {
        // Nodes may read each other's outputs in a circle.
        steps += 1;
        if steps > MAX_BEFORE {
            return Err(unreadable(&format!("more than {MAX_BEFORE} nodes before the SVM")));
        }
        if is_scaler(node) && scaler.is_none() {
            scaler = Some(node);
        } else if node.operator != "Cast" || node.input == Some(source) {
            return Err(unreadable(&format!("a {} before the SVM", node.operator)));
        }
        if node.input == Some(source) {
            return Err(damaged("a node reads its own output"));
        }
        source = node.input.unwrap_or_default();
        if inputs.contains(&source) {
            break;
        }
    }
    if !inputs.contains(&source) {
        return Err(damaged("the SVM does not read the graph's input"));
    }
    let is_other = |node: &&Node<'_>| {
        !AFTER.contains(&node.operator)
            && scaler.is_none_or(|scaler: &Node<'_>| !std::ptr::eq(scaler, *node))
    };
    match others.iter().find(is_other) {
        Some(node) => Err(unreadable(&format!("a {} beside the SVM", node.operator))),
        None => Ok(scaler),
    }
}

/// The attributes of both operators.
#[derive(Debug, Default)]
struct Attributes {
    kernel_type: String,
    post_transform: String,
    kernel_params: Vec<f64>,
    coefficients: Vec<f64>,
    rho: Vec<f64>,
    support_vectors: Vec<f64>,
    prob_a: Vec<f64>,
    prob_b: Vec<f64>,
    vectors_per_class: Vec<i64>,
    labels: Vec<ClassName>,
    n_supports: i64,
    one_class: i64,
}

impl Attributes {
    fn read(svm: &Node<'_>) -> Result<Self, MachineError> {
        let mut all = Self::default();
        for message in &svm.attributes {
            let one = Attribute::read(message)?;
            match one.name {
                "kernel_type" => all.kernel_type = text(one.text)?.to_owned(),
                "post_transform" => all.post_transform = text(one.text)?.to_owned(),
                "kernel_params" => all.kernel_params = one.floats,
                "coefficients" => all.coefficients = one.floats,
                "rho" => all.rho = one.floats,
                "support_vectors" => all.support_vectors = one.floats,
                "prob_a" => all.prob_a = one.floats,
                "prob_b" => all.prob_b = one.floats,
                "vectors_per_class" => all.vectors_per_class = one.integers,
                "classlabels_ints" => {
                    let names = one.integers.iter().map(|label| ClassName::Number(*label as f64));
                    all.labels = names.collect();
                }
                "classlabels_strings" => all.labels.extend(one.texts),
                "n_supports" => all.n_supports = one.integer,
                "one_class" => all.one_class = one.integer,
                other => return Err(damaged(format!("unknown attribute '{other}'"))),
            }
        }
        if !matches!(all.post_transform.as_str(), "" | "NONE") {
            return Err(unreadable(&format!("the post_transform {}", all.post_transform)));
        }
        Ok(all)
    }

    fn kernel(&self) -> Result<KernelRef, MachineError> {
        let parameter = |at: usize| {
            let value = self.kernel_params.get(at).copied();
            value.ok_or_else(|| damaged("'kernel_params' needs three numbers"))
        };
        let spec = match self.kernel_type.as_str() {
            "" | "LINEAR" => Spec::new("linear"),
            "RBF" => Spec::new("rbf").set("gamma", parameter(0)?),
            "SIGMOID" => {
                Spec::new("sigmoid").set("gamma", parameter(0)?).set("coef0", parameter(1)?)
            }
            "POLY" => Spec::new("polynomial")
                .set("degree", parameter(2)?)
                .set("gamma", parameter(0)?)
                .set("coef0", parameter(1)?),
            other => return Err(damaged(format!("unknown kernel_type '{other}'"))),
        };
        Ok(mercer_kernel::KERNELS.build(&spec)?)
    }

    /// Vectors as rows.
    fn supports(&self, count: usize) -> Result<Matrix, MachineError> {
        let values = self.support_vectors.len();
        if count == 0 || values == 0 || !values.is_multiple_of(count) {
            return Err(damaged(format!("{values} numbers do not make {count} vectors")));
        }
        Ok(Matrix::dense(values / count, self.support_vectors.clone())?)
    }

    fn classifier(self) -> Result<Model, MachineError> {
        let classes = self.labels.len();
        let counts = self.vectors_per_class.iter().map(|count| usize::try_from(*count).ok());
        let counts = counts.collect::<Option<Vec<usize>>>().unwrap_or_default();
        let total = counts.iter().try_fold(0usize, |sum, count| sum.checked_add(*count));
        let Some(total) = total.filter(|total| *total > 0) else {
            return Err(unreadable("a classifier without support vectors"));
        };
        let needed = total.checked_mul(classes.saturating_sub(1));
        if classes < 2
            || counts.len() != classes
            || needed != Some(self.coefficients.len())
            || self.rho.len() != classes * (classes - 1) / 2
        {
            return Err(damaged("labels, vectors, coefficients and rho do not fit together"));
        }
        let supports = self.supports(total)?;
        let mut starts = vec![0];
        counts.iter().for_each(|count| starts.push(starts[starts.len() - 1] + count));
        let scores = pairs(classes).zip(&self.rho).map(|((first, second), rho)| {
            let (mut named, mut betas) = (Vec::new(), Vec::new());
            for own in [first, second] {
                let column = column_of(first, second, own);
                for row in starts[own]..starts[own + 1] {
                    let beta = self.coefficients[column * total + row];
                    if beta != 0.0 {
                        named.push(row as u32);
                        betas.push(beta);
                    }
                }
            }
            Score::Expansion { supports: named, coefficients: betas, offset: -rho }
        });
        let scores = scores.collect();
        let probabilities = (!self.prob_a.is_empty())
            .then(|| Probabilities::Sigmoid { a: self.prob_a.clone(), b: self.prob_b.clone() });
        let fits = |all: &[f64]| all.is_empty() || all.len() == self.rho.len();
        if !fits(&self.prob_a) || self.prob_a.len() != self.prob_b.len() {
            return Err(damaged("'prob_a' and 'prob_b' do not fit the number of pairs"));
        }
        let kernel = self.kernel()?;
        let output = Output::Classes { names: self.labels, scheme: Scheme::OneVsOne };
        let machine = Machine::new(kernel, supports, scores, output)?;
        Ok(finish(machine, total, probabilities))
    }

    fn regressor(self, has_sign: bool) -> Result<Model, MachineError> {
        let [rho] = self.rho[..] else {
            return Err(damaged("'rho' must be one number"));
        };
        let output = if self.one_class != 0 || has_sign { Output::Novelty } else { Output::Value };
        if self.n_supports == 0 {
            let weights = self.coefficients;
            let supports = Matrix::sparse(weights.len(), &[0], &[], &[])?;
            let scores = vec![Score::Linear { weights, offset: -rho }];
            let kernel = mercer_kernel::parse("linear")?;
            return Ok(finish(Machine::new(kernel, supports, scores, output)?, 0, None));
        }
        let count = usize::try_from(self.n_supports).unwrap_or(0);
        if self.coefficients.len() != count {
            return Err(damaged("as many coefficients as vectors are needed"));
        }
        let supports = self.supports(count)?;
        let scores = vec![Score::expansion(&self.coefficients, -rho)];
        let machine = Machine::new(self.kernel()?, supports, scores, output)?;
        Ok(finish(machine, count, None))
    }
}

fn finish(machine: Machine, vectors: usize, probabilities: Option<Probabilities>) -> Model {
    let input = Input { features: Some(machine.columns()), ..Input::default() };
    let provenance = Provenance {
        origin: "onnx".to_owned(),
        source_supports: Some(vectors),
        ..Provenance::default()
    };
    Model { input, probabilities, provenance, ..Model::from(machine) }
}

/// One attribute of a node.
#[derive(Debug, Default)]
struct Attribute<'a> {
    name: &'a str,
    text: &'a [u8],
    integer: i64,
    floats: Vec<f64>,
    integers: Vec<i64>,
    texts: Vec<ClassName>,
}

impl<'a> Attribute<'a> {
    fn read(message: &'a [u8]) -> Result<Self, MachineError> {
        let mut one = Self::default();
        let mut fields = Fields::of(message);
        while let Some((number, value)) = fields.next()? {
            match (number, value) {
                (attribute::NAME, Value::Bytes(name)) => one.name = text(name)?,
                (attribute::INTEGER, Value::Varint(value)) => one.integer = value.cast_signed(),
                (attribute::TEXT, Value::Bytes(bytes)) => one.text = bytes,
                (attribute::FLOATS, Value::Fixed32(bytes)) => one.float(bytes)?,
                (attribute::FLOATS, Value::Bytes(packed)) => {
                    let (whole, rest) = packed.as_chunks::<4>();
                    if !rest.is_empty() {
                        return Err(damaged("a list of floats is cut off"));
                    }
                    whole.iter().try_for_each(|bytes| one.float(*bytes))?;
                }
                (attribute::INTEGERS, Value::Varint(value)) => {
                    one.integers.push(value.cast_signed());
                }
                (attribute::INTEGERS, Value::Bytes(packed)) => {
                    // Packed integers are varints one after the other: as fields, they would need tags.
                    one.unpack(packed)?;
                }
                (attribute::TEXTS, Value::Bytes(bytes)) => {
                    one.texts.push(ClassName::Text(text(bytes)?.to_owned()));
                }
                _ => {}
            }
        }
        Ok(one)
    }

    fn float(&mut self, bytes: [u8; 4]) -> Result<(), MachineError> {
        let value = f32::from_le_bytes(bytes);
        if !value.is_finite() {
            return Err(damaged(format!("'{}' holds {value}; values must be finite", self.name)));
        }
        self.floats.push(f64::from(value));
        Ok(())
    }

    fn unpack(&mut self, packed: &[u8]) -> Result<(), MachineError> {
        let mut value = 0u64;
        let mut shift = 0;
        for byte in packed {
            if shift > 63 {
                return Err(damaged("a whole number is too long"));
            }
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                self.integers.push(value.cast_signed());
                (value, shift) = (0, 0);
            }
        }
        if shift == 0 { Ok(()) } else { Err(damaged("a list of whole numbers is cut off")) }
    }
}
