//! Machines of tables in ONNX: bins by comparisons, entries by `Gather`, one sum over the columns, all in f64. Only standard
//! operators are used; such graphs are written, not read back.
//!
//! Bins and entries are the very numbers of the machine. A runtime adds the entries of a row in an order of its own, so that a
//! score may differ by the rounding of that sum, `columns 2^-53` of the sum of the sizes of its entries at most.

use std::io::Write;

use mercer_data::Scaling;
use mercer_data::scale::Map;

use super::field::{attribute, graph, model, node, opset, tensor as tensor_field};
use super::wire::Message;
use super::write::{DOUBLE, INTEGER, INTEGER64, TEXT_ELEMENT, inexpressible, tensor, whole_names};
use crate::bins::{Bins, Spacing};
use crate::{ClassName, Machine, MachineError, Model, Output, Scheme, Score, pairs};

/// Entries of all scores at most.
const MAX_NUMBERS: usize = 1 << 26;

/// A graph that is being written: nodes, constants, and the last name.
#[derive(Default)]
struct Graph {
    nodes: Vec<Message>,
    constants: Vec<Message>,
}

impl Graph {
    fn constant(&mut self, name: &str, kind: i64, dimensions: &[usize], raw: &[u8]) -> String {
        let shape = dimensions.iter().fold(Message::default(), |message, length| {
            message.integer(tensor_field::DIMENSIONS, *length as i64)
        });
        let message = shape
            .integer(tensor_field::KIND, kind)
            .bytes(tensor_field::NAME, name)
            .bytes(tensor_field::RAW, raw);
        self.constants.push(message);
        name.to_owned()
    }

    fn f64s(&mut self, name: &str, dimensions: &[usize], values: &[f64]) -> String {
        let raw: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.constant(name, DOUBLE, dimensions, &raw)
    }

    fn integers(&mut self, name: &str, dimensions: &[usize], values: &[i64]) -> String {
        let raw: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.constant(name, INTEGER64, dimensions, &raw)
    }

    fn texts(&mut self, name: &str, values: &[ClassName]) -> String {
        let message = Message::default()
            .integer(tensor_field::DIMENSIONS, values.len() as i64)
            .integer(tensor_field::KIND, TEXT_ELEMENT)
            .bytes(tensor_field::NAME, name);
        let list = |message: Message, value: &ClassName| {
            message.bytes(tensor_field::TEXTS, value.to_string())
        };
        self.constants.push(values.iter().fold(message, list));
        name.to_owned()
    }

    /// A node with whole numbers as attributes; returns the name of its output.
    fn node(
        &mut self,
        operator: &str,
        inputs: &[&str],
        attributes: &[(&str, i64)],
        output: &str,
    ) -> String {
        let message = inputs
            .iter()
            .fold(Message::default(), |message, input| message.bytes(node::INPUT, input))
            .bytes(node::OUTPUT, output)
            .bytes(node::NAME, output)
            .bytes(node::OPERATOR, operator);
        let add = |message: Message, (name, value): &(&str, i64)| {
            let one = Message::default().bytes(attribute::NAME, name);
            let one = one.integer(attribute::INTEGER, *value).integer(attribute::KIND, INTEGER);
            message.message(node::ATTRIBUTE, one)
        };
        self.nodes.push(attributes.iter().fold(message, add));
        output.to_owned()
    }
}

/// Writes a machine of tables.
pub(super) fn write(saved: &Model, grid: &Bins, out: &mut dyn Write) -> Result<(), MachineError> {
    let machine = &saved.machine;
    let mut graph = Graph::default();
    let rows = match &saved.input.scaling {
        Some(scaling) => scaled(&mut graph, scaling, machine.columns())?,
        None => "rows".to_owned(),
    };
    let (places, per_column) = match grid.spacing() {
        Spacing::Power { top, exponent } => {
            (power_bins(&mut graph, &rows, grid, *top, *exponent), grid.count())
        }
        Spacing::Quantile { starts, cuts } => {
            quantile_ranks(&mut graph, &rows, machine.columns(), starts, cuts)?
        }
    };
    let scores = scores(&mut graph, &rows, &places, per_column, machine, grid)?;
    let answers = answers(&mut graph, &scores, machine)?;
    let mut whole = Message::default();
    for node in graph.nodes {
        whole = whole.message(graph::NODE, node);
    }
    whole = whole.bytes(graph::NAME, "mercer");
    for constant in graph.constants {
        whole = whole.message(graph::INITIALIZER, constant);
    }
    whole = whole.message(graph::INPUT, tensor("rows", DOUBLE, Some(machine.columns())));
    for (name, kind, columns) in answers {
        whole = whole.message(graph::OUTPUT, tensor(name, kind, columns));
    }
    let version = Message::default().bytes(opset::DOMAIN, "").integer(opset::VERSION, 15);
    let file = Message::default()
        .integer(model::IR_VERSION, 8)
        .bytes(model::PRODUCER, "mercer")
        .message(model::GRAPH, whole)
        .message(model::OPSET, version);
    out.write_all(&file.0)?;
    Ok(())
}

/// `(x - centre) factor`, zero where the factor is, in f64.
fn scaled(graph: &mut Graph, scaling: &Scaling, columns: usize) -> Result<String, MachineError> {
    let Map::Affine { centres, factors } = scaling.map() else {
        return Err(inexpressible(format!("rows scaled by {}", scaling.spec())));
    };
    let wide = |values: &[f64]| {
        let mut values = values.to_vec();
        values.resize(columns, 0.0);
        values
    };
    let centres = graph.f64s("centres", &[1, columns], &wide(centres));
    let factors = graph.f64s("factors", &[1, columns], &wide(factors));
    let moved = graph.node("Sub", &["rows", &centres], &[], "centred");
    Ok(graph.node("Mul", &[&moved, &factors], &[], "scaled"))
}

/// Bins of even steps: `share last + 1/2`, cut off; [`Spacing::bin`] says the same.
fn power_bins(graph: &mut Graph, rows: &str, grid: &Bins, top: f64, exponent: u32) -> String {
    let last = (grid.count() - 1) as f64;
    let top = graph.f64s("top", &[], &[top]);
    let mut share = graph.node("Div", &[rows, &top], &[], "share");
    if exponent == 2 {
        let zero = graph.f64s("no_share", &[], &[0.0]);
        let positive = graph.node("Max", &[&share, &zero], &[], "positive_share");
        share = graph.node("Sqrt", &[&positive], &[], "root_share");
    }
    let (steps, half) = (graph.f64s("steps", &[], &[last]), graph.f64s("half", &[], &[0.5]));
    let along = graph.node("Mul", &[&share, &steps], &[], "along");
    let at = graph.node("Add", &[&along, &half], &[], "place");
    let one = graph.f64s("first_bin", &[], &[1.0]);
    let inside = graph.node("Clip", &[&at, &one, &steps], &[], "place_within");
    graph.node("Cast", &[&inside], &[("to", INTEGER64)], "bins")
}

/// How many cuts of its column lie below each value; and one more than the most.
fn quantile_ranks(
    graph: &mut Graph,
    rows: &str,
    columns: usize,
    starts: &[usize],
    cuts: &[f64],
) -> Result<(String, usize), MachineError> {
    let inner = |column: usize| {
        let own = &cuts[starts[column]..starts[column + 1]];
        own.get(1..own.len().max(2) - 1).unwrap_or(&[])
    };
    let most = (0..columns).map(|column| inner(column).len()).max().unwrap_or(0).max(1);
    if columns.saturating_mul(most) > MAX_NUMBERS {
        return Err(inexpressible(format!("{most} cuts in each of {columns} columns")));
    }
    // No value is above an infinite cut.
    let mut all = vec![f64::INFINITY; columns * most];
    for (column, places) in all.chunks_exact_mut(most).enumerate() {
        places.iter_mut().zip(inner(column)).for_each(|(place, cut)| *place = *cut);
    }
    let cuts = graph.f64s("cuts", &[1, columns, most], &all);
    let axis = graph.integers("last_axis", &[1], &[2]);
    let wide = graph.node("Unsqueeze", &[rows, &axis], &[], "wide_rows");
    let is_below = graph.node("Less", &[&cuts, &wide], &[], "is_below");
    let ones = graph.node("Cast", &[&is_below], &[("to", INTEGER64)], "ones_below");
    let ranks = graph.node("ReduceSum", &[&ones, &axis], &[("keepdims", 0)], "ranks");
    Ok((ranks, most + 1))
}

/// The entries of each row, summed over its columns, less the offsets. Zeros add nothing: each column has an entry of zero
/// behind its others.
fn scores(
    graph: &mut Graph,
    rows: &str,
    places: &str,
    per_column: usize,
    machine: &Machine,
    grid: &Bins,
) -> Result<String, MachineError> {
    let (columns, count) = (machine.columns(), machine.scores().len());
    let stride = per_column + 1;
    let numbers = columns.saturating_mul(stride).saturating_mul(count);
    if numbers > MAX_NUMBERS {
        return Err(inexpressible(format!("tables of {numbers} entries")));
    }
    let mut table = vec![0.0; numbers];
    for (number, score) in machine.scores().iter().enumerate() {
        let Score::Additive { weights, .. } = score else {
            return Err(inexpressible("tables beside other scores"));
        };
        for column in 0..columns {
            let own = &weights[column * grid.rank()..(column + 1) * grid.rank()];
            for place in 0..per_column {
                let Some(bin) = bin_of(grid, column, place) else { continue };
                table[(column * stride + place) * count + number] = grid.dot(own, bin);
            }
        }
    }
    let table = graph.f64s("table", &[columns * stride, count], &table);
    let zero = graph.f64s("zero", &[], &[0.0]);
    let is_zero = graph.node("Equal", &[rows, &zero], &[], "is_zero");
    let behind = graph.integers("behind", &[], &[per_column as i64]);
    let place = graph.node("Where", &[&is_zero, &behind, places], &[], "place_or_behind");
    let firsts: Vec<i64> = (0..columns).map(|column| (column * stride) as i64).collect();
    let firsts = graph.integers("firsts", &[1, columns], &firsts);
    let at = graph.node("Add", &[&place, &firsts], &[], "entry_places");
    let entries = graph.node("Gather", &[&table, &at], &[("axis", 0)], "entries");
    let axis = graph.integers("columns_axis", &[1], &[1]);
    let sums = graph.node("ReduceSum", &[&entries, &axis], &[("keepdims", 0)], "sums");
    let offsets: Vec<f64> = machine.scores().iter().map(Score::offset).collect();
    let offsets = graph.f64s("offsets", &[1, count], &offsets);
    let name = if *machine.output() == Output::Value { "score" } else { "scores" };
    Ok(graph.node("Sub", &[&sums, &offsets], &[], name))
}

/// The bin that a place of the table stands for: the bin itself, or the bin of that many cuts below a value.
fn bin_of(grid: &Bins, column: usize, place: usize) -> Option<usize> {
    match grid.spacing() {
        Spacing::Power { .. } => (place > 0).then_some(place),
        Spacing::Quantile { starts, cuts } => {
            let own = &cuts[starts[column]..starts[column + 1]];
            let last = grid.count() - 1;
            let Some(inner) = own.get(1..own.len().max(2) - 1) else { return Some(last) };
            (place <= inner.len()).then(|| (last * (place + 1)).div_ceil(inner.len() + 1))
        }
    }
}

/// The outputs of the graph: a label where there are classes, and the scores.
fn answers(
    graph: &mut Graph,
    scores: &str,
    machine: &Machine,
) -> Result<Vec<(&'static str, i64, Option<usize>)>, MachineError> {
    let (count, classes) = (machine.scores().len(), machine.classes());
    let with_label = |kind: i64| vec![("label", kind, None), ("scores", DOUBLE, Some(count))];
    let zero = "zero";
    let (number, names, kind) = match machine.output() {
        Output::Value => return Ok(vec![("score", DOUBLE, Some(1))]),
        Output::Novelty => {
            let names = graph.integers("names", &[2], &[1, -1]);
            (second_class(graph, scores, zero), names, INTEGER64)
        }
        Output::Classes { scheme, .. } => {
            let has_words = classes.iter().any(|name| matches!(name, ClassName::Text(_)));
            let names = if has_words {
                graph.texts("names", classes)
            } else {
                graph.integers("names", &[classes.len()], &whole_names(classes)?)
            };
            let number = match scheme {
                _ if count == 1 => second_class(graph, scores, zero),
                Scheme::OneVsRest => winner(graph, scores),
                Scheme::OneVsOne => {
                    let votes = votes(graph, scores, zero, classes.len());
                    winner(graph, &votes)
                }
            };
            (number, names, if has_words { TEXT_ELEMENT } else { INTEGER64 })
        }
    };
    graph.node("Gather", &[&names, &number], &[("axis", 0)], "label");
    Ok(with_label(kind))
}

/// 0 where the only score is positive, 1 elsewhere.
fn second_class(graph: &mut Graph, scores: &str, zero: &str) -> String {
    let axis = graph.integers("score_axis", &[1], &[1]);
    let score = graph.node("Squeeze", &[scores, &axis], &[], "score");
    let is_first = graph.node("Greater", &[&score, zero], &[], "is_first");
    let is_second = graph.node("Not", &[&is_first], &[], "is_second");
    graph.node("Cast", &[&is_second], &[("to", INTEGER64)], "number")
}

/// The first of the largest.
fn winner(graph: &mut Graph, values: &str) -> String {
    let attributes = [("axis", 1), ("keepdims", 0), ("select_last_index", 0)];
    graph.node("ArgMax", &[values], &attributes, "number")
}

/// Votes of all pairs, which are whole numbers: a positive score votes for the first class of its pair.
fn votes(graph: &mut Graph, scores: &str, zero: &str, classes: usize) -> String {
    let all: Vec<(usize, usize)> = pairs(classes).collect();
    let (mut matrix, mut seconds) = (vec![0.0; all.len() * classes], vec![0.0; classes]);
    for (row, (first, second)) in all.iter().enumerate() {
        matrix[row * classes + first] = 1.0;
        matrix[row * classes + second] = -1.0;
        seconds[*second] += 1.0;
    }
    let is_first = graph.node("Greater", &[scores, zero], &[], "is_first");
    let ones = graph.node("Cast", &[&is_first], &[("to", DOUBLE)], "ones");
    let matrix = graph.f64s("pairs", &[all.len(), classes], &matrix);
    let moved = graph.node("MatMul", &[&ones, &matrix], &[], "moved_votes");
    let seconds = graph.f64s("second_votes", &[1, classes], &seconds);
    graph.node("Add", &[&moved, &seconds], &[], "votes")
}
