//! Numbers of one report agree with each other: supports and bounded vectors, times and the table they are in.

use std::fmt::Write as _;

use crate::common::{Folder, dataset, done, mercer, noise, object};

fn said(arguments: &[&str]) -> String {
    let output = mercer(arguments);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {text}");
    text
}

/// Supports were counted over examples, bounded vectors over subproblems, of which there were more.
#[test]
fn no_more_vectors_are_bounded_than_there_are() {
    let folder = Folder::new();
    let model = folder.path("m.mercer");
    let mut rows = String::new();
    for (at, line) in noise(90, 3, 1e6).lines().enumerate() {
        let values = line.split_once(' ').unwrap().1;
        writeln!(rows, "{} {values}", at % 3).unwrap();
    }
    let data = folder.write("d.svm", &rows);
    let c = ["--formulation", "c_svc(C=0.01)"];
    let report = object(&[&["train", &data, "-o", &model, "--json"][..], &c].concat());
    let count = |key: &str| report[key].as_u64().unwrap();
    assert!(count("bounded") > count("supports"), "the example shows it: {report}");
    assert!(count("bounded") <= count("support_vectors"), "{report}");
    let text = said(&[&["train", &data, "-o", &model][..], &c].concat());
    let line = format!(
        "{} distinct supports; of the {} support vectors of 3 binary subproblems, {} are bounded",
        count("supports"),
        count("support_vectors"),
        count("bounded")
    );
    assert!(text.contains(&line), "{line}: {text}");
}

/// Rows that are repeated are one support of the machine, and as many support vectors as there are rows.
#[test]
fn svm_train_counts_repeated_rows_as_libsvm_does() {
    let folder = Folder::new();
    let data = folder.write("d.svm", &noise(20, 2, 1e6).repeat(2));
    let text = done(&["svm-train", "-c", "0.1", &data, &folder.path("m")]);
    let number = |key: &str| -> u64 {
        let line = text.lines().find(|line| line.starts_with(key)).unwrap();
        let rest = &line[key.len()..];
        rest.split(',').next().unwrap().trim().parse().unwrap()
    };
    assert_eq!(number("Total nSV ="), number("nSV ="));
}

#[test]
fn a_linear_machine_has_live_columns() {
    let folder = Folder::new();
    let model = folder.path("m.mercer");
    let sonar = dataset("sonar/sonar.csv");
    done(&["train", &sonar, "-o", &model, "--kernel", "linear", "--solver", "linear"]);
    assert_eq!(object(&["inspect", &model, "--json"])["live_columns"], 60);
    let measured = object(&["bench", &model, &sonar, "--json", "--repeats", "1"]);
    assert_eq!(measured["live_columns"], 60);
}

/// The times of a tuned plan are those of the comparison that chose it.
#[test]
fn the_plan_that_is_kept_is_the_fastest_of_its_table() {
    let folder = Folder::new();
    let (model, queries) = (dataset("digits/digits.model"), dataset("digits/queries.svm"));
    for (aim, key) in [("latency", "single_us"), ("throughput", "batch_us")] {
        let out = folder.path("t.mercer");
        let flags = ["--for", aim, "--time-limit", "10s", "-o", &out, "--json"];
        let tuned = object(&[&["tune", &model, "--sample", &queries][..], &flags].concat());
        let us = |at: &serde_json::Value| at.as_f64().unwrap();
        let (exact, plan) = (us(&tuned["exact_times"][key]), us(&tuned["plan_times"][key]));
        let spec = &tuned["plan"];
        let tried = tuned["tried"].as_array().unwrap();
        let compared: Vec<_> = tried.iter().filter(|trial| trial["compared"] == true).collect();
        assert!(!compared.is_empty(), "{tuned}");
        // Differences below the noise are none; the noise is at most 15 %. Times are printed with six digits.
        let most = 1.15 * (1.0 + 1e-5);
        assert!(compared.iter().all(|trial| plan <= most * us(&trial["us"])), "{tuned}");
        let reason = tuned["reason"].as_str().unwrap();
        if spec == "exact" {
            assert_eq!(plan, exact, "{tuned}");
            assert!(reason.starts_with("exact is kept"), "{reason}");
            continue;
        }
        assert!(plan < exact, "{tuned}");
        let own = compared.iter().find(|trial| trial["plan"] == *spec).expect("it was compared");
        assert_eq!(us(&own["us"]), plan, "{tuned}");
        let fastest = compared.iter().all(|trial| plan <= us(&trial["us"]));
        assert_eq!(reason.contains("the fastest of"), fastest, "{reason}");
    }
}
