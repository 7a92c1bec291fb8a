//! Compiles the C file of a plan, runs it on queries, and compares what it prints with the plan's decisions.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use mercer_compile::compile;
use mercer_data::Matrix;
use mercer_machine::{Answer, Machine, Model};
use mercer_query::{Certainty, Plan, QueryError, QueryOptions, write_c};
use mercer_testkit::generate;

use crate::common::clouds::clouds;

/// What any C99 file must survive.
pub const STRICT: [&str; 5] = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"];

/// Runs the file's own test, then reads rows as raw numbers and prints each decision, its numbers as bits.
pub const HARNESS: &str = r#"
#define main self_test
#include "model.c"
#undef main
#include <inttypes.h>
int main(void) {
    double row[MERCER_COLUMNS], scores[MERCER_SCORES];
    if (self_test() != 0 || TESTS == 0) return 1;
    while (fread(row, sizeof row, 1, stdin) == 1) {
        struct mercer_decision d;
        int failure;
        memset(&d, 0, sizeof d);
        failure = mercer_answer(row, &d);
        if (failure) {
            printf("failure %d\n", failure);
            continue;
        }
        if (mercer_scores(row, scores)) scores[0] = 0;
        printf("%d %016" PRIx64 " %016" PRIx64 " %016" PRIx64 " %d %" PRIu64 " %u %d %016" PRIx64 "\n",
               d.label, bits_of(d.value), bits_of(d.low), bits_of(d.high), d.certainty, d.cost, d.stage,
               mercer_decide(row), bits_of(scores[0]));
    }
    return 0;
}
"#;

pub fn has_compiler() -> bool {
    Command::new("cc").arg("--version").output().is_ok()
}

/// A folder of the test's own.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("mercer-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A plan with the queries that are asked.
pub struct Case {
    pub name: String,
    pub model: Model,
    pub plan: Plan,
    pub options: QueryOptions,
    pub queries: Matrix,
}

/// Compiles the file, and returns what the program prints for the queries.
pub fn run(case: &Case, folder: &Path, flags: &[&str]) -> String {
    let mut text = Vec::new();
    write_c(&case.model, &case.plan, &case.options, &mut text)
        .unwrap_or_else(|e| panic!("{}: {e}", case.name));
    std::fs::write(folder.join("model.c"), text).unwrap();
    std::fs::write(folder.join("main.c"), HARNESS).unwrap();
    let mut compiler = Command::new("cc");
    compiler.current_dir(folder).args(STRICT).args(flags).arg("-DMERCER_TEST");
    let made = compiler.args(["main.c", "-o", "program", "-lm"]).output().unwrap();
    assert!(made.status.success(), "{}: {}", case.name, String::from_utf8_lossy(&made.stderr));
    let columns = case.model.machine.columns();
    let mut bytes = Vec::new();
    for row in case.queries.iter() {
        let mut dense = vec![0.0; columns.max(case.queries.columns())];
        row.write_dense(&mut dense);
        dense[..columns].iter().for_each(|x| bytes.extend_from_slice(&x.to_ne_bytes()));
    }
    let input = folder.join("rows");
    std::fs::write(&input, bytes).unwrap();
    let file = std::fs::File::open(input).unwrap();
    let done = Command::new(folder.join("program")).stdin(file).output().unwrap();
    let said = String::from_utf8(done.stdout).unwrap();
    assert!(done.status.success(), "{}: {said}", case.name);
    let (own, rest) = said.split_once('\n').unwrap();
    assert!(own.starts_with("0 of "), "{}: {own}", case.name);
    rest.to_owned()
}

/// What the plan answers, as the program prints it.
pub fn expected(case: &Case) -> (String, [usize; 4]) {
    let (mut text, mut tally) = (String::new(), [0; 4]);
    for row in 0..case.queries.rows() {
        let given = case.queries.select([row]);
        let seen = case.model.input.prepare(&given).unwrap();
        let answers = match case.plan.decide_with(&seen, &case.options) {
            Ok(answers) => answers,
            Err(QueryError::NotFinite { .. }) => {
                text.push_str("failure 1\n");
                continue;
            }
            Err(error) => panic!("{}: {error}", case.name),
        };
        let (decision, stage) = (answers.decisions[0], answers.answered_by[0]);
        let (label, value) = match decision.answer {
            Answer::Class(class) => (class as i64, 0.0),
            Answer::Inlier(is_inlier) => (if is_inlier { 1 } else { -1 }, 0.0),
            Answer::Value(value) => (0, value),
        };
        let certainty = match decision.certainty {
            Certainty::Unsettled => 0,
            Certainty::Calibrated => 1,
            Certainty::Certified => 2,
            Certainty::Exact => 3,
        };
        tally[certainty] += 1;
        let score = case.plan.scores(&seen).map_or(0.0, |scores| scores[0]);
        let [value, low, high, score] =
            [value, decision.range.low, decision.range.high, score].map(f64::to_bits);
        let cost = decision.cost.multiply_adds;
        writeln!(
            text,
            "{label} {value:016x} {low:016x} {high:016x} {certainty} {cost} {stage} {label} {score:016x}"
        )
        .unwrap();
    }
    (text, tally)
}

/// The program gives the plan's answers under all these flags; returns how many were unsettled, calibrated, certified, exact.
pub fn agree(case: &Case, folder: &Folder, flags: &[&[&str]]) -> [usize; 4] {
    let (wanted, tally) = expected(case);
    for flags in flags {
        let found = run(case, &folder.0, flags);
        for (row, (found, wanted)) in found.lines().zip(wanted.lines()).enumerate() {
            assert_eq!(found, wanted, "{} {flags:?}, query {row}", case.name);
        }
        assert_eq!(found.lines().count(), wanted.lines().count(), "{} {flags:?}", case.name);
    }
    tally
}

pub const ALL_LEVELS: &[&[&str]] =
    &[&["-O0"], &["-O2"], &["-O3", "-march=native"], &["-std=gnu11", "-O3", "-march=native"]];
pub const ONE_LEVEL: &[&[&str]] = &[&["-O1", "-march=native"]];

pub fn case(name: &str, machine: &Machine, plan: &str, queries: Matrix) -> Option<Case> {
    let sections = compile(machine, &plan.parse().unwrap(), None).ok()?;
    let plan = Plan::fitted(machine, &sections).unwrap();
    let name = format!("{name}: {} {}", plan.spec(), machine.kernel().spec());
    let model = Model { plan: Some(sections), ..machine.clone().into() };
    Some(Case { name, model, plan, options: QueryOptions::default(), queries })
}

/// Ordinary queries, queries near a change of label, and queries at the ends of the range of numbers.
pub fn queries(machine: &Machine, count: usize, seed: u64) -> Matrix {
    let columns = machine.columns();
    let domain = machine.kernel().domain();
    let mut rows = generate::values(&generate::within(domain, &clouds(count, columns, seed)));
    let plan = Plan::exact(machine);
    let score = |row: &[f64]| {
        let row = Matrix::dense(columns, row.to_vec()).unwrap();
        plan.scores(&row).map_or(0.0, |scores| scores[0])
    };
    // Between two rows of different sign there is a border: bisection.
    let pairs: Vec<Vec<f64>> = rows.chunks_exact(columns).map(<[f64]>::to_vec).collect();
    for pair in pairs.windows(2).take(count / 3) {
        let (mut a, mut b) = (pair[0].clone(), pair[1].clone());
        if (score(&a) > 0.0) == (score(&b) > 0.0) {
            continue;
        }
        for step in 0..50 {
            let middle: Vec<f64> = a.iter().zip(&b).map(|(a, b)| 0.5 * (a + b)).collect();
            if step % 10 == 9 {
                rows.extend(&middle);
            }
            if (score(&middle) > 0.0) == (score(&a) > 0.0) { a = middle } else { b = middle }
        }
    }
    for scale in [0.0, 1e-170, 1e-20, 1e-9, 1e3, 1e9, 1e18, 1e160] {
        rows.extend(pairs[0].iter().map(|x| x * scale));
    }
    for support in 0..4.min(machine.supports().rows()) {
        let mut row = vec![0.0; columns];
        machine.supports().row(support).write_dense(&mut row);
        rows.extend(row);
    }
    Matrix::dense(columns, rows).unwrap()
}
