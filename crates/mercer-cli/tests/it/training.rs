//! `mercer train` and `mercer search`: reports, limits, checkpoints and interrupts.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::common::{Folder, dataset, done, interrupted, keys, mercer, noise, refused_with};

#[test]
fn training_reports_its_documented_keys_and_the_model_answers() {
    let folder = Folder::new();
    let model = folder.path("sonar.mercer");
    let model = model.as_str();
    let data = dataset("sonar/sonar.csv");
    let text = done(&["train", &data, "-o", model, "--kernel", "rbf(gamma=1)", "--json"]);
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        keys(&report),
        [
            "bounded",
            "chosen",
            "converged",
            "gap",
            "iterations",
            "linear",
            "low_rank",
            "objective",
            "peak_memory_bytes",
            "primal",
            "seconds",
            "support_vectors",
            "supports",
            "target",
            "violation"
        ]
    );
    assert_eq!(report["converged"], true);
    let predicted: Value =
        serde_json::from_str(&done(&["predict", model, &data, "--json"])).unwrap();
    assert!(predicted["accuracy"].as_f64().unwrap() > 0.9);
}

#[test]
fn a_limit_ends_training_with_a_usable_machine_and_exit_code_3() {
    let folder = Folder::new();
    let model = folder.path("m.mercer");
    let model = model.as_str();
    let data = dataset("digits/digits.csv.gz");
    let run = mercer(&["train", &data, "-o", model, "--max-iterations", "5"]);
    assert_eq!(run.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&run.stderr).contains("not converged"));
    assert_eq!(done(&["predict", model, &data]).lines().count(), 1797);
}

#[test]
fn wrong_training_texts_are_refused_with_what_is_known() {
    let data = dataset("sonar/sonar.csv");
    for (flag, text, message) in [
        (
            "--kernel",
            "rfb(gamma=1)",
            "unknown kernel 'rfb' (did you mean 'rbf'?); known are linear",
        ),
        ("--kernel", "rbf(gamma=-1)", "rbf: 'gamma' must be above 0 and finite, not -1"),
        ("--formulation", "c_svc(C=0)", "'C' must be"),
        ("--formulation", "nu_svc(nu=0.999)", "nu"),
    ] {
        let (code, said) = refused_with(&["train", &data, "-o", "unused.mercer", flag, text]);
        assert_eq!(code, Some(1), "{text}");
        assert!(said.contains(message), "{text}: {said}");
    }
    let (code, _) = refused_with(&["train", &data, "-o", "unused.mercer", "--time-limit", "soon"]);
    assert_eq!(code, Some(2));
}

#[test]
fn a_search_shows_candidates_writes_its_files_and_trains_the_best() {
    let folder = Folder::new();
    let data = dataset("sonar/sonar.csv");
    let (model, table) = (folder.path("best.mercer"), folder.path("all.csv"));
    let (heat, journal) = (folder.path("heat.svg"), folder.path("journal"));
    let words = |grid: &str| {
        let words = ["search", &data, "--kernel", "rbf(gamma={0.01..1; 3})", "--formulation", grid];
        let words = words.into_iter().chain(["--cv", "3", "--scale", "standard", "--json"]);
        let words = words.chain(["-o", &model, "--table", &table, "--svg", &heat]);
        words.chain(["--journal", &journal]).map(str::to_owned).collect::<Vec<String>>()
    };
    let run = |grid: &str| {
        let words = words(grid);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        serde_json::from_str::<Value>(&done(&words)).expect("one object")
    };
    let found = run("c_svc(C={1, 10})");
    assert_eq!(keys(&found), ["best", "candidates", "measure", "seconds", "stop_reason"]);
    assert_eq!(found["candidates"].as_array().unwrap().len(), 6);
    assert!(found["best"]["mean"].as_f64().unwrap() > 0.8, "{found}");
    assert_eq!(fs::read_to_string(&table).unwrap().lines().count(), 7);
    let picture = fs::read_to_string(&heat).unwrap();
    assert_eq!(picture.matches("<rect").count(), 6);
    assert_eq!(done(&["predict", &model, &data]).lines().count(), 208);
    assert_eq!(run("c_svc(C={1, 10})")["candidates"], found["candidates"], "from the journal");
    let (code, said) = refused_with(&["search", &data, "--formulation", "c_svc(C={1"]);
    assert!(code == Some(1) && said.contains("brace"), "{code:?} {said}");
    let shown = done(&["search", &data, "--kernel", "linear", "--formulation", "c_svc(C=1)"]);
    assert!(shown.contains("accuracy") && shown.contains("linear"), "{shown}");
}

#[test]
fn training_can_validate_first() {
    let folder = Folder::new();
    let (data, model) = (dataset("sonar/sonar.csv"), folder.path("m.mercer"));
    let said = done(&["train", &data, "-o", &model, "--cv", "4", "--json"]);
    let object: Value = serde_json::from_str(&said).expect("one object");
    let validation = &object["cross_validation"];
    assert_eq!(validation["folds"].as_array().unwrap().len(), 4);
    assert!(validation["quality"].as_f64().unwrap() > 0.5);
    let folds: String = (0..208).map(|row| format!("{}\n", row % 2)).collect();
    let folds = folder.write("folds", &folds);
    let said = done(&["train", &data, "-o", &model, "--folds", &folds, "--json"]);
    let object: Value = serde_json::from_str(&said).expect("one object");
    assert_eq!(object["cross_validation"]["folds"].as_array().unwrap().len(), 2);
    let short = folder.write("short", "0\n1\n");
    let (_, said) = refused_with(&["train", &data, "-o", &model, "--folds", &short]);
    assert!(said.contains("folds are given for 2 examples, but there are 208 examples"), "{said}");
}

#[test]
fn an_interrupted_training_leaves_the_best_machine_so_far() {
    let folder = Folder::new();
    let model = folder.path("m.mercer");
    // Enough rows and a hard enough problem that a second is not enough.
    let data = folder.write("noise.svm", &noise(6000, 29, 1e6));
    let mut command = Command::new(env!("CARGO_BIN_EXE_mercer"));
    command.args(["train", &data, "-o", &model, "--kernel", "rbf(gamma=0.01)"]);
    command.args(["--formulation", "c_svc(C=1e6)", "--tolerance", "1e-9"]);
    let output = interrupted(&mut command, 700);
    // 3: the training stalled at f64 precision before the signal came. No other code is accepted.
    let code = output.status.code();
    assert!(matches!(code, Some(130 | 3)), "{code:?}");
    if Path::new(&model).exists() {
        assert_eq!(done(&["predict", &model, &data]).lines().count(), 6000);
    } else {
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("interrupted; nothing was written"), "{said}");
    }
}
