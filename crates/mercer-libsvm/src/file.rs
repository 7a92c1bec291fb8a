//! `svm_save_model` and `svm_load_model`: LIBSVM's text, digit for digit. Mercer's own reader of such files
//! (`mercer-machine`) merges equal vectors; these keep the structure as it is.

use std::ffi::c_int;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use mercer::data::write::AtomicFile;
use mercer::printf::g;

use crate::layout::{Fields, MARKS, kernel_type, svm_node, svm_parameter};
use crate::memory::{self, Content};

const TYPES: [&str; 5] = ["c_svc", "nu_svc", "one_class", "epsilon_svr", "nu_svr"];
const KERNELS: [&str; 5] = ["linear", "polynomial", "rbf", "sigmoid", "precomputed"];

/// Writes a model; the file appears whole or not at all.
///
/// # Safety
/// The members of the model are null or point to as much as LIBSVM's README says; every row has an end.
pub(crate) unsafe fn save(path: &Path, fields: &Fields) -> Result<(), String> {
    // SAFETY: as the caller of this function promises.
    let (content, is_whole) = unsafe { (fields.content(), fields.is_whole()) };
    if !is_whole {
        return Err("members of the model are missing or do not fit together".to_owned());
    }
    // SAFETY: as the caller of this function promises.
    let head = unsafe { head(fields, &content) };
    let text = head.ok_or("unknown svm type or kernel type")? + &vectors(fields, &content);
    let said = |error: std::io::Error| error.to_string();
    let mut file = AtomicFile::create_private(path).map_err(said)?;
    file.write_all(text.as_bytes()).map_err(said)?;
    file.commit().map_err(said)
}

/// # Safety
/// As [`save`].
unsafe fn head(fields: &Fields, content: &Content<'_>) -> Option<String> {
    let param = &fields.param;
    let name = |names: &[&'static str], number: c_int| {
        usize::try_from(number).ok().and_then(|number| names.get(number).copied())
    };
    let mut text = format!(
        "svm_type {}\nkernel_type {}\n",
        name(&TYPES, param.svm_type)?,
        name(&KERNELS, param.kernel_type)?
    );
    let numbers = |key: &str, values: &[f64]| {
        let values: String = values.iter().map(|value| format!(" {}", g(*value, 17))).collect();
        format!("{key}{values}\n")
    };
    let integers = |key: &str, values: &[c_int]| {
        let values: String = values.iter().map(|value| format!(" {value}")).collect();
        format!("{key}{values}\n")
    };
    let kernel = param.kernel_type;
    if kernel == kernel_type::POLY {
        let _ = writeln!(text, "degree {}", param.degree);
    }
    if matches!(kernel, kernel_type::POLY | kernel_type::RBF | kernel_type::SIGMOID) {
        text += &numbers("gamma", &[param.gamma]);
    }
    if matches!(kernel, kernel_type::POLY | kernel_type::SIGMOID) {
        text += &numbers("coef0", &[param.coef0]);
    }
    let _ = writeln!(text, "nr_class {}\ntotal_sv {}", fields.classes, fields.count);
    text += &numbers("rho", content.rho);
    if !fields.labels.is_null() {
        text += &integers("label", content.labels);
    }
    for (key, pointer, count) in [
        ("probA", fields.prob_a, fields.scores()),
        ("probB", fields.prob_b, fields.scores()),
        ("prob_density_marks", fields.marks, MARKS),
    ] {
        if !pointer.is_null() {
            // SAFETY: as the caller of this function promises.
            text += &numbers(key, unsafe { memory::slice(pointer, count as c_int) });
        }
    }
    if !fields.per_class.is_null() {
        text += &integers("nr_sv", content.per_class);
    }
    text.push_str("SV\n");
    Some(text)
}

fn vectors(fields: &Fields, content: &Content<'_>) -> String {
    let mut text = String::new();
    for (at, row) in content.supports.iter().enumerate() {
        for array in &content.coefficients {
            let _ = write!(text, "{} ", g(array[at], 17));
        }
        if fields.param.kernel_type == kernel_type::PRECOMPUTED {
            let serial = row.first().map_or(0, |node| node.value as i64);
            let _ = write!(text, "0:{serial} ");
        } else {
            for node in *row {
                let _ = write!(text, "{}:{} ", node.index, g(node.value, 8));
            }
        }
        text.push('\n');
    }
    text
}

/// A model text taken apart.
struct Parsed {
    param: svm_parameter,
    classes: usize,
    count: usize,
    rho: Vec<f64>,
    labels: Option<Vec<c_int>>,
    prob_a: Option<Vec<f64>>,
    prob_b: Option<Vec<f64>>,
    marks: Option<Vec<f64>>,
    per_class: Option<Vec<c_int>>,
}

/// Reads a model, or says as LIBSVM does why a text is none.
pub(crate) fn load(bytes: &[u8], has_marks: bool) -> Result<Fields, String> {
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = split_head(&text).ok_or("ERROR: fscanf failed to read model")?;
    let parsed = parse_head(head)?;
    let is_classification = parsed.param.is_classification();
    let arrays = if is_classification { parsed.classes.saturating_sub(1) } else { 1 };
    let mut coefficients = vec![Vec::new(); arrays];
    let (mut nodes, mut starts) = (Vec::new(), Vec::new());
    let mut lines = body.lines();
    for number in 0..parsed.count {
        let line = lines.next().ok_or_else(|| {
            format!("ERROR: {number} vectors where the head says {}", parsed.count)
        })?;
        let mut words = line.split_ascii_whitespace();
        for array in &mut coefficients {
            let word = words.next().ok_or("ERROR: a vector without coefficients")?;
            array.push(word.parse::<f64>().map_err(|_| format!("ERROR: not a number: [{word}]"))?);
        }
        starts.push(nodes.len());
        for word in words {
            let node = word.split_once(':').and_then(|(index, value)| {
                Some(svm_node { index: index.parse().ok()?, value: value.parse().ok()? })
            });
            nodes.push(node.ok_or_else(|| format!("ERROR: not index:value: [{word}]"))?);
        }
        nodes.push(svm_node { index: -1, value: 0.0 });
    }
    Ok(parsed.fields(&coefficients, &nodes, &starts, has_marks))
}

/// What stands before and after the line `SV`.
fn split_head(text: &str) -> Option<(&str, &str)> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if line.trim() == "SV" {
            return Some((&text[..at], &text[at + line.len()..]));
        }
        at += line.len();
    }
    None
}

fn parse_head(head: &str) -> Result<Parsed, String> {
    let mut parsed = Parsed {
        param: svm_parameter {
            svm_type: -1,
            kernel_type: -1,
            degree: 0,
            gamma: 0.0,
            coef0: 0.0,
            cache_size: 0.0,
            eps: 0.0,
            C: 0.0,
            nr_weight: 0,
            weight_label: std::ptr::null_mut(),
            weight: std::ptr::null_mut(),
            nu: 0.0,
            p: 0.0,
            shrinking: 0,
            probability: 0,
        },
        classes: 0,
        count: 0,
        rho: Vec::new(),
        labels: None,
        prob_a: None,
        prob_b: None,
        marks: None,
        per_class: None,
    };
    for line in head.lines() {
        let mut words = line.split_ascii_whitespace();
        if let Some(key) = words.next() {
            let words: Vec<&str> = words.collect();
            parsed.set(key, &words)?;
        }
    }
    parsed.check()?;
    Ok(parsed)
}

fn all<T: std::str::FromStr>(key: &str, words: &[&str]) -> Result<Vec<T>, String> {
    let parse =
        |word: &&str| word.parse().map_err(|_| format!("ERROR: {key}: not a number: [{word}]"));
    words.iter().map(parse).collect()
}

fn one<T: std::str::FromStr>(key: &str, words: &[&str]) -> Result<T, String> {
    let mut values = all(key, &words[..words.len().min(1)])?;
    values.pop().ok_or_else(|| format!("ERROR: {key} has no value"))
}

impl Parsed {
    fn set(&mut self, key: &str, words: &[&str]) -> Result<(), String> {
        let place = |names: &[&str], what: &str| {
            let word = words.first().copied().unwrap_or_default();
            let place = names.iter().position(|name| *name == word);
            place.map(|place| place as c_int).ok_or_else(|| format!("unknown {what}."))
        };
        match key {
            "svm_type" => self.param.svm_type = place(&TYPES, "svm type")?,
            "kernel_type" => self.param.kernel_type = place(&KERNELS, "kernel function")?,
            "degree" => self.param.degree = one(key, words)?,
            "gamma" => self.param.gamma = one(key, words)?,
            "coef0" => self.param.coef0 = one(key, words)?,
            "nr_class" => self.classes = one(key, words)?,
            "total_sv" => self.count = one(key, words)?,
            "rho" => self.rho = all(key, words)?,
            "label" => self.labels = Some(all(key, words)?),
            "probA" => self.prob_a = Some(all(key, words)?),
            "probB" => self.prob_b = Some(all(key, words)?),
            "prob_density_marks" => self.marks = Some(all(key, words)?),
            "nr_sv" => self.per_class = Some(all(key, words)?),
            _ => return Err(format!("unknown text in model file: [{key}]")),
        }
        Ok(())
    }

    /// Numbers of the head must fit each other: predictions read as many as the type says.
    fn check(&self) -> Result<(), String> {
        let is_classification = self.param.is_classification();
        let pairs = self.classes.saturating_mul(self.classes.saturating_sub(1)) / 2;
        let scores = if is_classification { pairs } else { 1 };
        let right = |values: &Option<Vec<f64>>, count: usize| {
            values.as_ref().is_none_or(|values| values.len() == count)
        };
        let classes = |values: &Option<Vec<c_int>>| {
            values.as_ref().is_none_or(|values| values.len() == self.classes)
                && (values.is_some() || !is_classification)
        };
        let sum = self.per_class.as_ref().map(|counts| {
            counts
                .iter()
                .map(|count| usize::try_from(*count).unwrap_or(usize::MAX))
                .fold(0, usize::saturating_add)
        });
        let is_right = self.param.svm_type >= 0
            && self.param.kernel_type >= 0
            && self.rho.len() == scores
            && classes(&self.labels)
            && classes(&self.per_class)
            && sum.is_none_or(|sum| sum == self.count || !is_classification)
            && right(&self.prob_a, scores)
            && right(&self.prob_b, scores)
            && right(&self.marks, MARKS)
            && c_int::try_from(self.count).is_ok();
        if is_right { Ok(()) } else { Err("ERROR: fscanf failed to read model".to_owned()) }
    }

    fn fields(
        &self,
        coefficients: &[Vec<f64>],
        nodes: &[svm_node],
        starts: &[usize],
        has_marks: bool,
    ) -> Fields {
        let space = memory::copied(nodes);
        let rows: Vec<*mut svm_node> =
            starts.iter().map(|start| space.wrapping_add(*start)).collect();
        let arrays: Vec<*mut f64> =
            coefficients.iter().map(|array| memory::copied(array)).collect();
        if rows.is_empty() {
            // SAFETY: the memory was just allocated, and no row points to it.
            unsafe { memory::release(space) };
        }
        let marks = self.marks.as_deref().filter(|_| has_marks);
        Fields {
            param: self.param,
            classes: self.classes as c_int,
            count: self.count as c_int,
            supports: memory::copied(&rows),
            coefficients: memory::copied(&arrays),
            rho: memory::copied(&self.rho),
            prob_a: memory::copied_if(self.prob_a.as_deref()),
            prob_b: memory::copied_if(self.prob_b.as_deref()),
            marks: memory::copied_if(marks),
            indices: std::ptr::null_mut(),
            labels: memory::copied_if(self.labels.as_deref()),
            per_class: memory::copied_if(self.per_class.as_deref()),
            frees_supports: 1,
        }
    }
}
