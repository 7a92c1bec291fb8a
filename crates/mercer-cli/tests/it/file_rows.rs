//! Examples larger than `--memory`: read in chunks, packed into a temporary file, trained on in chunks.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use crate::common::{Folder, done, interrupted, object};

/// Counts of two kinds, sorted by kind; `noise` of the labels are wrong.
fn counts(rows: u64, noise: u64) -> String {
    let (mut text, mut state) = (String::new(), 1u64);
    let mut next = |below: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % below
    };
    for row in 0..rows {
        let kind = row * 2 / rows;
        let label = if next(100) < noise { 1 - kind } else { kind };
        text.push_str(if label == 0 { "-1" } else { "1" });
        for column in 1..=20 {
            let most = if column % 2 == kind { 9 } else { 5 };
            let count = next(most);
            if count > 0 {
                write!(text, " {column}:{count}").unwrap();
            }
        }
        text.push('\n');
    }
    text
}

fn words<'a>(data: &'a str, model: &'a str) -> Vec<&'a str> {
    vec!["train", data, "-o", model, "--kernel", "chi2", "--solver", "additive"]
}

#[test]
fn rows_beyond_memory_give_nearly_the_same_machine() {
    let folder = Folder::new();
    let data = folder.write("counts.svm", &counts(2000, 3));
    let (inside, outside) = (folder.path("inside.mercer"), folder.path("outside.mercer"));
    let tight = ["--tolerance", "0.05", "--json"];
    let all = object(&[&words(&data, &inside)[..], &tight].concat());
    assert!(all["linear"]["chunks_on_disk"].is_null());
    let few = object(&[&words(&data, &outside)[..], &tight, &["--memory", "40KiB"]].concat());
    assert!(few["linear"]["chunks_on_disk"].as_u64().unwrap() > 2, "{few}");
    let gap = |found: &serde_json::Value| found["gap"].as_f64().unwrap();
    let objective = |found: &serde_json::Value| found["objective"].as_f64().unwrap();
    let apart = (objective(&all) - objective(&few)).abs();
    assert!(apart <= gap(&all) + gap(&few), "{all} {few}");
    let (a, b) = (done(&["predict", &inside, &data]), done(&["predict", &outside, &data]));
    let label = |line: &str| line.split([' ', ',']).next().unwrap().to_owned();
    let same = a.lines().zip(b.lines()).filter(|(a, b)| label(a) == label(b)).count();
    assert!(same >= 1990, "{same}");
}

#[cfg(unix)]
#[test]
fn nothing_is_left_of_the_temporary_file_after_an_interrupt() {
    let folder = Folder::new();
    let data = folder.write("counts.svm", &counts(8000, 40));
    let (model, place) = (folder.path("m.mercer"), folder.path("temporary"));
    fs::create_dir(&place).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_mercer"));
    command.args(words(&data, &model)).env("TMPDIR", &place);
    command.args(["--formulation", "c_svc(C=1000)", "--tolerance", "1e-6", "--memory", "100KiB"]);
    let output = interrupted(&mut command, 1500);
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(fs::read_dir(&place).unwrap().count(), 0);
}
