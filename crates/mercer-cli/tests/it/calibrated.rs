//! Calibrated plans from the command line: guarantees, audits and refusals.

use std::fmt::Write as _;

use serde_json::Value;

use crate::common::{Folder, done, refused_with};

/// Points of the plane with radii within a range, as LIBSVM text: the label is 1 between 1 and 2.5.
fn plane(count: u64, seed: u64, low: f64, high: f64) -> String {
    let mut state = seed;
    let mut random = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    let mut text = String::new();
    for _ in 0..count {
        let (radius, angle) = (low + (high - low) * random(), std::f64::consts::TAU * random());
        let label = if radius > 1.0 && radius < 2.5 { 1 } else { -1 };
        let _ = writeln!(text, "{label} 1:{} 2:{}", radius * angle.cos(), radius * angle.sin());
    }
    text
}

/// A folder with a machine, its training rows, a sample of small radii, and queries.
pub fn folder() -> Folder {
    let folder = Folder::new();
    for (name, text) in [
        ("train.svm", plane(600, 1, 0.0, 4.0)),
        ("sample.svm", plane(4000, 2, 0.0, 2.0)),
        ("same.svm", plane(2000, 3, 0.0, 2.0)),
        ("far.svm", plane(2000, 4, 3.2, 4.0)),
    ] {
        std::fs::write(folder.path(name), text).expect("a file in a new folder");
    }
    let (train, model) = (folder.path("train.svm"), folder.path("m.mercer"));
    done(&[
        "train",
        &train,
        "--kernel",
        "rbf(gamma=2)",
        "--formulation",
        "c_svc(C=10)",
        "-o",
        &model,
    ]);
    folder
}

pub fn compile(folder: &Folder, plan: &str, more: &[&str]) -> Value {
    let (model, fast, sample) =
        (folder.path("m.mercer"), folder.path("fast.mercer"), folder.path("sample.svm"));
    let mut arguments = vec!["compile", &model, "--plan", plan, "--sample", &sample, "-o", &fast];
    arguments.extend(["--eps", "0.02", "--json"]);
    arguments.extend(more);
    serde_json::from_str(&done(&arguments)).expect("one JSON object")
}

fn predict(folder: &Folder, queries: &str, more: &[&str]) -> Value {
    let (fast, queries) = (folder.path("fast.mercer"), folder.path(queries));
    let mut arguments = vec!["predict", &fast, &queries, "--json"];
    arguments.extend(more);
    serde_json::from_str(&done(&arguments)).expect("one JSON object")
}

#[test]
fn an_audit_is_quiet_on_queries_like_the_sample_and_warns_on_others() {
    let folder = folder();
    compile(&folder, "cascade(student(2), exact)", &[]);
    let quiet = predict(&folder, "same.svm", &["--audit", "0.2"]);
    assert!(quiet["certainties"]["calibrated"].as_u64().expect("a count") > 500, "{quiet}");
    assert!(quiet["audit"]["alarm_at_query"].is_null(), "{quiet}");
    assert!(quiet["audit"]["audited"].as_u64().expect("a count") > 100, "{quiet}");
    assert!(quiet["audit"]["high"].as_f64() > quiet["audit"]["low"].as_f64());
    let sample = folder.path("sample.svm");
    let loud = predict(&folder, "far.svm", &["--audit", "0.02", "--audit-sample", &sample]);
    assert!(loud["audit"]["alarm_at_query"].as_u64().is_some_and(|at| at < 1000), "{loud}");
    assert!(loud["audit"]["low"].as_f64() > Some(0.02), "{loud}");
    let (fast, queries) = (folder.path("fast.mercer"), folder.path("far.svm"));
    let (_, text) = refused_with(&["predict", &fast, &queries, "--audit", "2"]);
    assert!(text.contains("must lie above 0"), "{text}");
    let (_, text) =
        refused_with(&["predict", &folder.path("m.mercer"), &queries, "--audit", "0.1"]);
    assert!(text.contains("nothing to audit"), "{text}");
}

#[test]
fn the_plan_of_the_paper_is_tested_unchanged_and_unsettled_without_a_sample() {
    let folder = folder();
    let train = folder.path("train.svm");
    let object = compile(&folder, "nearest(paper)", &["--training", &train]);
    let known = &object["calibration"];
    assert_eq!(known["queries"], 4000, "{object}");
    assert_eq!(known["eps"], known["bound"], "{object}");
    assert!(known["threshold"].is_null(), "{object}");
    let found = predict(&folder, "same.svm", &[]);
    assert_eq!(found["certainties"]["calibrated"], 2000, "{found}");
    let (model, fast) = (folder.path("m.mercer"), folder.path("fast.mercer"));
    done(&["compile", &model, "--plan", "nearest(paper)", "--training", &train, "-o", &fast]);
    let found = predict(&folder, "same.svm", &[]);
    assert_eq!(found["certainties"]["unsettled"], 2000, "{found}");
}

#[test]
fn excess_errors_need_labels_and_are_reported_with_their_counts() {
    let folder = folder();
    let object = compile(&folder, "cascade(student(2), exact)", &["--risk", "excess-error"]);
    let known = &object["calibration"];
    assert_eq!(known["risk"], "excess-error");
    let count = |name: &str| known[name].as_u64().expect("a count");
    assert_eq!(count("worse") + count("better"), count("disagreements"), "{object}");
    let (fast, queries) = (folder.path("fast.mercer"), folder.path("far.svm"));
    let (_, text) = refused_with(&["predict", &fast, &queries, "--audit", "0.1"]);
    assert!(text.contains("excess errors"), "{text}");
}

#[test]
fn samples_beyond_the_memory_are_refused_by_verify_and_by_an_audit() {
    let folder = folder();
    compile(&folder, "cascade(pca(1, 2), low_precision, exact)", &[]);
    let [fast, sample, queries] = ["fast.mercer", "sample.svm", "same.svm"].map(|n| folder.path(n));
    for command in [
        vec!["verify", &fast, "--sample", &sample],
        vec!["predict", &fast, &queries, "--audit", "0.1", "--audit-sample", &sample],
    ] {
        let (code, said) = refused_with(&[&command[..], &["--memory", "10KiB"]].concat());
        assert_eq!(code, Some(1), "{command:?}: {said}");
        assert!(said.contains("the rows take more than"), "{command:?}: {said}");
        assert!(said.contains("`--memory 4GiB` raises the limit"), "{command:?}: {said}");
        done(&[&command[..], &["--memory", "1MiB"]].concat());
    }
}
