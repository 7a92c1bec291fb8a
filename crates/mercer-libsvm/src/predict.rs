//! `svm_predict`, `svm_predict_values` and `svm_predict_probability`. The functions of the interface in `lib.rs` call these.

use mercer::machine::Answer;

use crate::direct;
use crate::known;
use crate::layout::{Fields, MARKS, svm_node, svm_type};
use crate::memory;
use crate::pack::{FEW, Mode};

/// The least probability of a class in a pair: LIBSVM's.
const LEAST: f64 = 1e-7;

/// So many decision values lie on the stack.
const SCORES_ON_STACK: usize = 16;

/// A model and one query.
pub(crate) struct Prediction<'a> {
    fields: Fields,
    address: usize,
    query: &'a [svm_node],
}

impl<'a> Prediction<'a> {
    /// # Safety
    /// The members of the model at `address` are null or point to as much as LIBSVM's README says, `query` is null or has
    /// an end, and nobody changes them while the prediction is used.
    pub(crate) unsafe fn new(fields: Fields, address: usize, query: *const svm_node) -> Self {
        // SAFETY: as the caller of this function promises.
        let query = unsafe { memory::nodes(query) };
        Self { fields, address, query }
    }

    /// `svm_predict`: the label, or the value of a regression.
    pub(crate) fn label(&self) -> f64 {
        if self.is_packed() {
            // SAFETY: as the caller of `new` promised.
            let pack = unsafe { known::pack(self.address, &self.fields) };
            match pack.answer(self.query) {
                Some(Answer::Class(place)) => return self.class(place),
                Some(Answer::Inlier(is_inlier)) => return if is_inlier { 1.0 } else { -1.0 },
                Some(Answer::Value(value)) => return value,
                None => {}
            }
        }
        self.with_direct_values(|values| self.label_of(values))
    }

    /// `svm_predict_values`: all decision values, and the label that they give.
    pub(crate) fn values(&self) -> (Vec<f64>, f64) {
        let mut values = None;
        if self.is_packed() {
            // SAFETY: as the caller of `new` promised.
            values = unsafe { known::pack(self.address, &self.fields) }.values(self.query);
        }
        let values = values.unwrap_or_else(|| self.with_direct_values(<[f64]>::to_vec));
        let label = self.label_of(&values);
        (values, label)
    }

    /// `svm_predict_probability`: the label, and the probability of each class where the model knows it.
    pub(crate) fn probabilities(&self) -> (Option<Vec<f64>>, f64) {
        let Fields { param, prob_a, prob_b, marks, .. } = self.fields;
        if param.is_classification() && !prob_a.is_null() && !prob_b.is_null() {
            let (values, _) = self.values();
            let pairs = values.len() as i32;
            // SAFETY: as the caller of `new` promised.
            let (a, b) = unsafe { (memory::slice(prob_a, pairs), memory::slice(prob_b, pairs)) };
            let each = of_classes(self.fields.class_count(), &pairwise(&values, a, b));
            let label = self.class(largest(&each));
            return (Some(each), label);
        }
        if param.svm_type == svm_type::ONE_CLASS && !marks.is_null() {
            let (values, label) = self.values();
            // SAFETY: as the caller of `new` promised.
            let marks = unsafe { memory::slice(marks, MARKS as i32) };
            let inlier = of_novelty(marks, values[0]);
            return (Some(vec![inlier, 1.0 - inlier]), label);
        }
        (None, self.label())
    }

    /// Whether the model is worth a pack.
    fn is_packed(&self) -> bool {
        self.fields.count as usize >= FEW && Mode::current() != Mode::Off
    }

    /// LIBSVM's own sums. Values that are no numbers are left out of the row.
    fn with_direct_values<T>(&self, work: impl FnOnce(&[f64]) -> T) -> T {
        let (mut on_stack, mut on_heap) = ([0.0; SCORES_ON_STACK], Vec::new());
        let values = match self.fields.scores() {
            count if count <= SCORES_ON_STACK => &mut on_stack[..count],
            count => {
                on_heap.resize(count, 0.0);
                &mut on_heap[..]
            }
        };
        let finite: Vec<svm_node>;
        let mut query = self.query;
        if query.iter().any(|node| !node.value.is_finite()) {
            finite = query.iter().filter(|node| node.value.is_finite()).copied().collect();
            query = &finite;
        }
        // SAFETY: as the caller of `new` promised.
        unsafe { direct::decision_values(&self.fields, query, values) };
        work(values)
    }

    fn label_of(&self, values: &[f64]) -> f64 {
        match self.fields.param.svm_type {
            svm_type::ONE_CLASS => {
                if values[0] > 0.0 {
                    1.0
                } else {
                    -1.0
                }
            }
            _ if self.fields.param.is_classification() => {
                self.class(direct::vote(self.fields.class_count(), values))
            }
            _ => values[0],
        }
    }

    fn class(&self, place: usize) -> f64 {
        // SAFETY: as the caller of `new` promised.
        let labels = unsafe { self.fields.labels() };
        labels.get(place).map_or(0.0, |label| f64::from(*label))
    }
}

/// The probability of the first class of a pair.
fn sigmoid(value: f64, a: f64, b: f64) -> f64 {
    let z = value * a + b;
    if z >= 0.0 { (-z).exp() / (1.0 + (-z).exp()) } else { 1.0 / (1.0 + z.exp()) }
}

/// The probability of the first class of each pair.
pub(crate) fn pairwise(values: &[f64], a: &[f64], b: &[f64]) -> Vec<f64> {
    values.iter().zip(a.iter().zip(b)).map(|(value, (a, b))| sigmoid(*value, *a, *b)).collect()
}

/// The place of the largest number, the first of equals.
pub(crate) fn largest(values: &[f64]) -> usize {
    (1..values.len()).fold(0, |best, at| if values[at] > values[best] { at } else { best })
}

/// Probabilities of classes from those of pairs, as LIBSVM couples them.
pub(crate) fn of_classes(classes: usize, pairwise: &[f64]) -> Vec<f64> {
    let pairwise: Vec<f64> = pairwise.iter().map(|p| p.clamp(LEAST, 1.0 - LEAST)).collect();
    match classes {
        0 => Vec::new(),
        1 => vec![1.0],
        2 => vec![pairwise[0], 1.0 - pairwise[0]],
        _ => mercer::machine::couple(classes, &pairwise),
    }
}

/// The probability of an inlier: tenths between the marks.
fn of_novelty(marks: &[f64], value: f64) -> f64 {
    if value < marks[0] {
        return 0.001;
    }
    if value > marks[MARKS - 1] {
        return 0.999;
    }
    let tenth = (1..MARKS).find(|at| value < marks[*at]);
    tenth.map_or(0.0, |tenth| tenth as f64 / MARKS as f64)
}
