//! Files of strangers through the C interface: forged plans are refused unless the caller vouches for them, and no certified
//! label is wrong. Files and what they show: `mercer-machine/tests/data/trust/README.md`.

use std::ffi::{CStr, CString};
use std::fs;
use std::path::PathBuf;
use std::ptr::{null, null_mut};

use mercer_c::{
    mercer_certainty, mercer_decide, mercer_decision, mercer_last_error, mercer_model,
    mercer_model_free, mercer_model_open, mercer_query_options_of, mercer_rows, mercer_status,
};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../mercer-machine/tests/data/trust")
}

/// A model that is freed in the end.
struct Model(*mut mercer_model);

impl Drop for Model {
    fn drop(&mut self) {
        // SAFETY: `open` made it, and nobody else has it.
        unsafe { mercer_model_free(self.0) }
    }
}

impl Model {
    fn open(name: &str, trust_plan: bool) -> Result<Self, (mercer_status, String)> {
        let path = CString::new(folder().join(name).to_str().unwrap()).unwrap();
        let mut model = null_mut();
        // SAFETY: the path ends with NUL, and `model` may be written.
        let status = unsafe { mercer_model_open(path.as_ptr(), trust_plan, &raw mut model) };
        if status == mercer_status::MERCER_OK {
            return Ok(Self(model));
        }
        // SAFETY: a text that stays until the next call of this thread.
        let said = unsafe { CStr::from_ptr(mercer_last_error()) };
        Err((status, said.to_string_lossy().into_owned()))
    }

    /// Decisions of rows of so many columns.
    fn decide(&self, columns: usize, values: &[f64]) -> Vec<mercer_decision> {
        let count = values.len() / columns;
        let rows = mercer_rows {
            rows: count,
            columns,
            values: values.as_ptr(),
            stride: columns,
            starts: null(),
            indices: null(),
        };
        let mut decisions: Vec<mercer_decision> = Vec::with_capacity(count);
        // SAFETY: the model is open, `rows` says how long its values are, and there is a place for each decision, which a
        // call that succeeds has written.
        unsafe {
            let status = mercer_decide(self.0, &raw const rows, null(), decisions.as_mut_ptr());
            assert_eq!(status, mercer_status::MERCER_OK);
            decisions.set_len(count);
        }
        decisions
    }
}

/// The queries of a file, as dense rows.
fn queries(name: &str) -> (usize, Vec<f64>) {
    let text = fs::read_to_string(folder().join(format!("{name}.svm"))).unwrap();
    let row = |line: &str| {
        let pairs = line.split_whitespace().skip(1).map(|pair| pair.split_once(':').unwrap());
        pairs
            .map(|(column, value)| (column.parse().unwrap(), value.parse().unwrap()))
            .collect::<Vec<(usize, f64)>>()
    };
    let rows: Vec<Vec<(usize, f64)>> = text.lines().map(row).collect();
    let columns = rows.iter().flatten().map(|(column, _)| *column).max().unwrap();
    let mut values = vec![0.0; rows.len() * columns];
    for (row, pairs) in values.chunks_exact_mut(columns).zip(&rows) {
        for (column, value) in pairs {
            row[column - 1] = *value;
        }
    }
    (columns, values)
}

/// Checks decisions against enclosed scores; how many are certified.
fn check(name: &str, decisions: &[mercer_decision], scores: &[(f64, f64)]) -> usize {
    assert_eq!(decisions.len(), scores.len(), "{name}");
    let mut certified = 0;
    for (row, (decision, (low, high))) in decisions.iter().zip(scores).enumerate() {
        assert!(decision.low <= *low && *high <= decision.high, "{name}, row {row}: {low:e}");
        if decision.certainty == mercer_certainty::MERCER_CERTIFIED {
            certified += 1;
            assert_eq!(decision.class_index, i64::from(*high <= 0.0), "{name}, row {row}: {low:e}");
        }
    }
    certified
}

#[test]
fn forged_plans_are_refused_unless_the_caller_vouches_for_them() {
    let stages = [
        "anytime",
        "compressed",
        "monomials",
        "projected",
        "spectral",
        "table",
        "table_i",
        "taylor",
    ];
    for stage in stages {
        let (name, queries) =
            (format!("forged_plan_{stage}"), queries(&format!("forged_plan_{stage}")));
        let Err((status, said)) = Model::open(&format!("{name}.mercer"), false) else {
            panic!("{stage} is opened");
        };
        assert_eq!(status, mercer_status::MERCER_PLAN, "{stage}: {said}");
        assert!(said.contains("cannot be believed"), "{stage}: {said}");
        // Whoever vouches for it gets what the file says: it is forged to look proved.
        let model = Model::open(&format!("{name}.mercer"), true).unwrap();
        let decisions = model.decide(queries.0, &queries.1);
        let is_certified =
            |one: &mercer_decision| one.certainty == mercer_certainty::MERCER_CERTIFIED;
        assert!(decisions.iter().any(is_certified), "{stage}");
    }
    let Err((status, said)) = Model::open("forged_plan_says_exact.mercer", false) else {
        panic!("it is opened");
    };
    assert_eq!(status, mercer_status::MERCER_PLAN);
    assert!(said.contains("the plan calls itself 'exact'"), "{said}");
}

#[test]
fn no_certified_label_is_wrong_at_the_ends_of_the_range_of_numbers() {
    let text = fs::read_to_string(folder().join("references.txt")).unwrap();
    let words: Vec<Vec<&str>> =
        text.lines().map(|line| line.split_whitespace().collect()).collect();
    let mut answered = 0;
    for one in words.chunk_by(|a, b| a[0] == b[0]) {
        let (name, (columns, values)) = (one[0][0], queries(one[0][0]));
        let number = |word: &str| word.parse::<f64>().unwrap();
        let scores: Vec<(f64, f64)> =
            one.iter().map(|words| (number(words[1]), number(words[2]))).collect();
        for ending in ["mercer", "model", "anyt.mercer", "comp.mercer"] {
            let file = format!("{name}.{ending}");
            if !folder().join(&file).exists() {
                continue;
            }
            // A plan that is refused certifies nothing.
            let Ok(model) = Model::open(&file, false) else { continue };
            println!(
                "{file}: {} certified",
                check(&file, &model.decide(columns, &values), &scores)
            );
            answered += 1;
        }
    }
    assert!(answered >= 9, "{answered} files");
}

#[test]
fn a_stored_budget_holds_for_the_whole_plan_or_not_at_all() {
    let points: Vec<f64> = (0..400)
        .flat_map(|at| [at % 20, at / 20])
        .map(|step| 0.25 * f64::from(step) - 2.5)
        .collect();
    let unsettled = |trust_plan: bool| {
        let model = Model::open("budgeted.mercer", trust_plan).map_err(|(_, said)| said).unwrap();
        let mut options = std::mem::MaybeUninit::uninit();
        // SAFETY: the model is open, and a call that succeeds has written the options.
        let options = unsafe {
            let status = mercer_query_options_of(model.0, options.as_mut_ptr());
            assert_eq!(status, mercer_status::MERCER_OK);
            options.assume_init()
        };
        let is_open =
            |found: &&mercer_decision| found.certainty == mercer_certainty::MERCER_UNSETTLED;
        (options.budget, model.decide(2, &points).iter().filter(is_open).count())
    };
    // The estimates of a stranger are left out, and his budget with them.
    assert_eq!(unsettled(false), (0, 0));
    let (budget, count) = unsettled(true);
    assert!(budget > 0 && count > 0 && count < 400, "{budget} {count}");
}
