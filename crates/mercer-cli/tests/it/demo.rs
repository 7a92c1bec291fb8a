//! `mercer demo`: what it prints, its page, and the labels of LIBSVM that it compares with.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::common::{Folder, dataset, done};

#[test]
fn the_demo_runs_and_changes_no_label() {
    let folder = Folder::new();
    let report = folder.path("demo.html");
    let text = done(&["demo", "--json", "--report", &report]);
    let object: Value = serde_json::from_str(&text).unwrap();
    crate::json::check("demo", &object);
    assert_eq!(object["queries"], 597);
    assert_eq!(object["changed_by_mercer_format"], 0);
    assert_eq!(object["changed_by_libsvm_format"], 0);
    assert_eq!(object["disagreements_with_libsvm"], 0);
    let rows = object["results"].as_array().unwrap();
    assert_eq!(rows.len(), 6);
    for row in rows {
        let is_calibrated = row["contract"].as_str().unwrap().starts_with("calibrated");
        // The contract allows 2 in 2,000; chance may add a few.
        let most = if is_calibrated { 10 } else { 0 };
        assert!(row["disagreements"].as_u64().unwrap() <= most, "{row}");
        assert!(row["accuracy"].as_f64().unwrap() > 0.85, "{row}");
    }
    let html = fs::read_to_string(report).unwrap();
    let own = html.replace("http://www.w3.org/2000/svg", "");
    for outside in ["http://", "https://", "src=", "@import", "url("] {
        assert!(!own.contains(outside), "{outside}");
    }
    // Twelve digits, each with its picture and its steps; all steps of the digits say what they rest on.
    assert_eq!(html.matches("data-drawing=\"picture\"").count(), 12);
    assert_eq!(html.matches("data-drawing=\"closingPath\"").count(), 12);
    assert!(html.contains("\"isEstimate\":true") && html.contains("\"isEstimate\":false"));
    for part in
        ["Easy: the answer is", "Hard: the answer is", "Labels beside LIBSVM", "What is promised"]
    {
        assert!(html.contains(part), "{part}");
    }
}

#[test]
fn the_labels_of_svm_predict_are_those_of_the_program() {
    let folder = Folder::new();
    let out = folder.path("labels");
    let mut svm_predict = Command::new("svm-predict");
    svm_predict.args([&dataset("digits/queries.svm"), &dataset("digits/digits.model"), &out]);
    let Ok(output) = svm_predict.output() else {
        eprintln!("skipped: no svm-predict here (Debian package `libsvm-tools`)");
        return;
    };
    assert!(output.status.success(), "{output:?}");
    let stored = fs::read_to_string(dataset("digits/svm-predict.labels")).unwrap();
    assert_eq!(fs::read_to_string(out).unwrap(), stored);
}
