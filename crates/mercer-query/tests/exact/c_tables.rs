//! Machines of tables written as C: the compiled file has the bits and labels of the exact evaluation. Needs `cc`.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::Arc;

use mercer_data::Matrix;
use mercer_machine::file::{format, to_bytes};
use mercer_machine::{Answer, Bins, ClassName, Machine, Model, Output, Scheme, Score, Spacing};
use mercer_query::{Exact, Plan};

const COLUMNS: usize = 11;
const COUNT: usize = 9;

/// Reads rows as the bits of their values, and writes the answer and the bits of the scores.
const DRIVER: &str = r#"
#include "machine.c"
#include <stdio.h>
#include <string.h>
int main(void) {
    unsigned long long bits;
    double row[MERCER_COLUMNS], scores[MERCER_SCORES];
    int at = 0, s;
    while (scanf("%llx", &bits) == 1) {
        memcpy(row + at++, &bits, 8);
        if (at < MERCER_COLUMNS) continue;
        at = 0;
        mercer_scores(row, scores);
        printf("%d", mercer_decide(row));
        for (s = 0; s < MERCER_SCORES; s++) {
            memcpy(&bits, scores + s, 8);
            printf(" %llx", bits);
        }
        printf("\n");
    }
    return 0;
}
"#;

fn machine(spacing: Spacing, rank: usize, classes: usize, scheme: Scheme) -> Machine {
    let bins = if rank == COUNT - 1 {
        Bins::one_hot(spacing, COUNT).unwrap()
    } else {
        let number = |at: usize| if at < rank { 0.0 } else { ((at * 37) % 19) as f32 / 7.0 - 1.0 };
        Bins::new(spacing, rank, (0..COUNT * rank).map(number).collect()).unwrap()
    };
    let names = (0..classes).map(|class| ClassName::Number(class as f64)).collect();
    let output = Output::Classes { names, scheme };
    let score = |s: usize| Score::Additive {
        weights: (0..COLUMNS * rank).map(|n| ((n * 29 + s * 11) % 23) as f32 / 3.0 - 3.3).collect(),
        offset: 0.1 * s as f64 - 0.2,
    };
    let scores = (0..output.scores()).map(score).collect();
    let kernel = mercer_kernel::parse("chi2").unwrap();
    Machine::additive(kernel, COLUMNS, Arc::new(bins), scores, output).unwrap()
}

/// Values in every bin, on cuts, beyond the range, and zeros.
fn rows() -> Matrix {
    let value = |n: usize| match n % 7 {
        0 => 0.0,
        1 => (n % 97) as f64 / 64.0,
        2 => 1e-310,
        3 => 40.0,
        _ => ((n * 7919) % 1009) as f64 / 997.0,
    };
    Matrix::dense(COLUMNS, (0..COLUMNS * 300).map(value).collect()).unwrap()
}

fn run(machine: &Machine, rows: &Matrix, name: &str, optimized: &[&str]) -> Vec<(i64, Vec<u64>)> {
    let folder = std::env::temp_dir().join(format!("mercer-tables-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let text = to_bytes(&Model::from(machine.clone()), format("c").unwrap()).unwrap();
    std::fs::write(folder.join("machine.c"), text).unwrap();
    std::fs::write(folder.join("driver.c"), DRIVER).unwrap();
    let strict = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"];
    let compile = |flags: &[&str], source: &str| {
        let mut compiler = Command::new("cc");
        compiler.current_dir(&folder).args(flags).args([source, "-o", "program", "-lm"]);
        compiler.output().unwrap()
    };
    let made = compile(&[&strict[..], &["-DMERCER_TEST"]].concat(), "machine.c");
    assert!(made.status.success(), "{name}: {}", String::from_utf8_lossy(&made.stderr));
    let own = Command::new(folder.join("program")).output().unwrap();
    let said = String::from_utf8_lossy(&own.stdout).into_owned();
    assert!(own.status.success() && !said.contains("of 0 wrong"), "{name}: {said}");
    let made = compile(&[&strict[..], optimized].concat(), "driver.c");
    assert!(made.status.success(), "{name}: {}", String::from_utf8_lossy(&made.stderr));
    let mut given = String::new();
    for row in rows.iter() {
        let mut dense = [0.0; COLUMNS];
        row.write_dense(&mut dense);
        dense.iter().for_each(|value| writeln!(given, "{:x}", value.to_bits()).unwrap());
    }
    let mut program = Command::new(folder.join("program"));
    let mut child = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || pipe.write_all(given.as_bytes()).unwrap());
    let found = child.wait_with_output().unwrap();
    writer.join().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let line = |line: &str| {
        let (answer, scores) = line.split_once(' ').unwrap();
        let bits = scores.split(' ').map(|bits| u64::from_str_radix(bits, 16).unwrap());
        (answer.parse().unwrap(), bits.collect())
    };
    String::from_utf8(found.stdout).unwrap().lines().map(line).collect()
}

#[test]
fn tables_in_c_have_the_bits_and_labels_of_the_exact_evaluation() {
    if Command::new("cc").arg("--version").output().is_err() {
        return; // no compiler here
    }
    let starts =
        (0..=COLUMNS).map(|column| if column == 0 { 0 } else { (column - 1) * 6 }).collect();
    let cuts = (0..(COLUMNS - 1) * 6).map(|n| (n % 6) as f64 / 5.0).collect();
    let machines = [
        ("power", machine(Spacing::Power { top: 1.5, exponent: 2 }, 3, 4, Scheme::OneVsOne)),
        ("uniform", machine(Spacing::Power { top: 0.9, exponent: 1 }, 8, 3, Scheme::OneVsRest)),
        ("quantile", machine(Spacing::Quantile { starts, cuts }, 2, 2, Scheme::OneVsOne)),
    ];
    let rows = rows();
    // The last two may fuse products and sums, and vectorise: only what the file says keeps the bits.
    let optimized: [&[&str]; 3] = [
        &["-O2", "-ffp-contract=off"],
        &["-O3", "-march=native"],
        &["-O3", "-march=native", "-ffp-contract=fast"],
    ];
    let cases = machines.iter().flat_map(|case| optimized.map(|flags| (case, flags)));
    for ((name, machine), flags) in cases {
        let exact = Exact::new(machine);
        let count = machine.scores().len();
        let mut expected = vec![0.0; rows.rows() * count];
        let each = (0..rows.rows()).map(|row| rows.row(row));
        exact.scores(each, &mut exact.scratch(), &mut expected);
        let decisions = Plan::exact(machine).decide(&rows).unwrap();
        let found = run(machine, &rows, name, flags);
        assert_eq!(found.len(), rows.rows());
        let scores = expected.chunks_exact(count);
        for (row, ((found, scores), decision)) in
            found.iter().zip(scores).zip(&decisions).enumerate()
        {
            let bits: Vec<u64> = scores.iter().map(|score| score.to_bits()).collect();
            assert_eq!(found.1, bits, "{name} {flags:?}, row {row}: {scores:?}");
            assert_eq!(decision.answer, Answer::Class(found.0 as usize), "{name}, row {row}");
        }
    }
}

#[test]
fn tables_in_c_refuse_compilers_that_change_their_arithmetic() {
    if Command::new("cc").arg("--version").output().is_err() {
        return; // no compiler here
    }
    let machine = machine(Spacing::Power { top: 1.5, exponent: 2 }, 3, 4, Scheme::OneVsOne);
    let text = to_bytes(&Model::from(machine), format("c").unwrap()).unwrap();
    let said = |flags: &str| {
        let mut compiler = Command::new("cc");
        compiler.args(["-std=c99", "-fsyntax-only", "-x", "c", "-"]).args(flags.split(' '));
        compiler.stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut child = compiler.spawn().unwrap();
        // A compiler that stops early closes the pipe.
        let _ = child.stdin.take().unwrap().write_all(&text);
        let output = child.wait_with_output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert!(said("-O3").0);
    for flags in [
        "-ffast-math",
        "-ffinite-math-only",
        "-freciprocal-math",
        "-fassociative-math -fno-signed-zeros -fno-trapping-math",
    ] {
        let (is_compiled, said) = said(flags);
        assert!(!is_compiled && said.contains("#error"), "{flags}: {said}");
    }
}

#[test]
fn tables_in_float_are_refused_by_name() {
    let machine = machine(Spacing::Power { top: 1.0, exponent: 1 }, 2, 2, Scheme::OneVsOne);
    let said = to_bytes(&Model::from(machine), format("c-float").unwrap()).unwrap_err();
    let expected = "C cannot express scores that are tables in float; the format c has them";
    assert_eq!(said.to_string(), expected);
}
