//! Standard input and output: `-o -` in every verb that writes bytes, and `predict -` as a co-process.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use crate::common::{Folder, dataset, done, mercer, refused};

/// What a command writes to standard output, byte for byte.
fn bytes(arguments: &[&str]) -> Vec<u8> {
    let output = mercer(arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {said}");
    output.stdout
}

/// The command with OUT in the place of its output gives the same bytes in a file and on standard output.
#[test]
fn a_dash_is_standard_output_for_every_verb() {
    let folder = Folder::new();
    let (sonar, digits) = (dataset("sonar/sonar.csv"), dataset("digits/digits.model"));
    let queries = dataset("digits/queries.svm");
    let model = folder.path("m.mercer");
    done(&["train", &sonar, "-o", &model]);
    for command in [
        vec!["train", &sonar, "-o", "OUT"],
        vec!["import", &digits, "-o", "OUT"],
        vec!["export", &digits, "-o", "OUT"],
        vec!["export", &model, "--format", "c", "-o", "OUT"],
        vec!["convert", &sonar, "--format", "csv", "-o", "OUT"],
        vec!["convert", &sonar, "OUT", "--format", "parquet"],
        vec!["compile", &model, "--plan", "cascade(low_precision, exact)", "-o", "OUT"],
        vec!["compress", &model, "--size", "20", "-o", "OUT"],
        vec!["explain", &model, &sonar, "--svg", "OUT"],
        vec!["predict", &digits, &queries, "-o", "OUT", "--format", "csv"],
    ] {
        let file = folder.path("file");
        let with = |out: &str| -> Vec<String> {
            command.iter().map(|word| word.replace("OUT", out)).collect()
        };
        let words = |all: &[String]| bytes(&all.iter().map(String::as_str).collect::<Vec<_>>());
        words(&with(&file));
        let streamed = words(&with("-"));
        assert!(streamed == fs::read(&file).unwrap(), "{command:?}");
    }
    let tuned = bytes(&["tune", &digits, "--sample", &queries, "--time-limit", "2s", "-o", "-"]);
    fs::write(folder.path("t.mercer"), tuned).unwrap();
    assert!(done(&["inspect", &folder.path("t.mercer")]).contains("contract"));
    let table = bytes(&[
        "search",
        &sonar,
        "--kernel",
        "linear",
        "--formulation",
        "c_svc(C={1,2})",
        "--table",
        "-",
    ]);
    assert!(table.starts_with(b"kernel,formulation"));
}

#[test]
fn standard_output_holds_one_thing() {
    let folder = Folder::new();
    let sonar = dataset("sonar/sonar.csv");
    let said = String::from_utf8(mercer(&["train", &sonar, "-o", "-", "--json"]).stderr).unwrap();
    assert!(said.contains("--json prints its object on standard output"), "{said}");
    let said = refused(&["search", &sonar, "-o", "-", "--table", "-"]);
    assert!(said.contains("both --output and --table"), "{said}");
    let said = refused(&["train", &sonar, "-o", &folder.path("m"), "--checkpoint", "-"]);
    assert!(said.contains("--checkpoint must be a file"), "{said}");
    let said = refused(&["convert", &sonar, "-"]);
    assert!(said.contains("give --format"), "{said}");
    let said = refused(&["convert", &sonar, "-o", "-", "--format", "npy"]);
    assert!(said.contains("npy cannot hold labels"), "{said}");
}

/// Each row is sent only after the answer to the one before has come.
#[test]
fn rows_that_come_line_by_line_are_answered_line_by_line() {
    let folder = Folder::new();
    let digits = dataset("digits/digits.model");
    let queries = fs::read_to_string(dataset("digits/queries.svm")).unwrap();
    let expected = done(&["predict", &digits, &dataset("digits/queries.svm")]);
    let rows: Vec<&str> = queries.lines().take(20).collect();
    let table = folder.path("q.csv");
    done(&["convert", &dataset("digits/queries.svm"), &table, "--label", "none"]);
    let table = fs::read_to_string(&table).unwrap();
    let records: Vec<&str> = table.lines().take(21).collect();
    for (arguments, header, rows) in [
        (vec!["predict", &digits, "-"], None, rows.as_slice()),
        (vec!["predict", &digits, "-", "--input-format", "csv"], Some(records[0]), &records[1..]),
    ] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_mercer"))
            .args(&arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
        if let Some(header) = header {
            writeln!(input, "{header}").unwrap();
        }
        for (row, expected) in rows.iter().zip(expected.lines()) {
            writeln!(input, "{row}").unwrap();
            assert_eq!(answers.next().unwrap().unwrap(), expected, "{arguments:?}");
        }
        drop(input);
        assert!(answers.next().is_none());
        assert!(child.wait().unwrap().success());
    }
}
