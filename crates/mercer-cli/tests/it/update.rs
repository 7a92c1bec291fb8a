//! `mercer train --from`: rows are added and forgotten, from data files and from rows that the model keeps.

use std::fs;

use serde_json::Value;

use crate::common::{Folder, SMALL, dataset, done, keys, object, refused, refused_with};
use crate::json::check;

/// The head line of a table and its rows, in an order in which both classes come early.
fn table(name: &str) -> (String, Vec<String>) {
    let text = fs::read_to_string(dataset(name)).unwrap();
    let mut lines = text.lines().map(str::to_owned);
    let head = lines.next().unwrap();
    let rows: Vec<String> = lines.collect();
    let half = rows.len() / 2;
    let mixed = (0..half).flat_map(|row| [rows[row].clone(), rows[row + half].clone()]).collect();
    (head, mixed)
}

fn write(folder: &Folder, name: &str, head: &str, rows: &[&[String]]) -> String {
    let text: Vec<String> = rows.concat();
    folder.write(name, &format!("{head}\n{}\n", text.join("\n")))
}

fn number(object: &Value, key: &str) -> f64 {
    object[key].as_f64().unwrap_or_else(|| panic!("{key} of {object}"))
}

fn assert_close(a: f64, b: f64) {
    assert!((a - b).abs() <= 1e-6 * b.abs(), "{a} and {b}");
}

struct Files {
    folder: Folder,
    old: String,
    more: String,
    gone: String,
    model: String,
}

const TRAIN: [&str; 4] = ["--kernel", "rbf(gamma=1)", "--formulation", "c_svc(C=10)"];

/// A model of 180 rows of sonar, 20 more rows, and 6 of the old ones.
fn files(flags: &[&str]) -> Files {
    let folder = Folder::new();
    let (head, rows) = table("sonar/sonar.csv");
    let old = write(&folder, "old.csv", &head, &[&rows[..180]]);
    let more = write(&folder, "more.csv", &head, &[&rows[180..200]]);
    let gone = write(&folder, "gone.csv", &head, &[&rows[40..46]]);
    let model = folder.path("old.mercer");
    done(&[&["train", &old, "-o", &model][..], &TRAIN, flags].concat());
    Files { folder, old, more, gone, model }
}

#[test]
fn an_update_is_the_training_on_all_rows() {
    let Files { folder, old, more, gone, model } = files(&[]);
    let (new, page) = (folder.path("new.mercer"), folder.path("page.html"));
    let report = object(&[
        "train",
        &more,
        "--from",
        &model,
        "--data",
        &old,
        "--forget",
        &gone,
        "-o",
        &new,
        "--compare",
        "--report",
        &page,
        "--json",
    ]);
    check("train", &report);
    let update = &report["update"];
    for (key, expected) in
        [("original_rows", 180.0), ("added_rows", 20.0), ("forgotten_rows", 6.0), ("rows", 194.0)]
    {
        assert_eq!(number(update, key), expected, "{key}");
    }
    assert_eq!(update["started_from_nothing"], Value::Null);
    let after = number(update, "supports_stayed") + number(update, "supports_came");
    assert_eq!(after, number(&report, "supports"));
    assert!(number(update, "relative_gap") <= 1e-6);
    let (head, rows) = table("sonar/sonar.csv");
    let all = write(&folder, "all.csv", &head, &[&rows[..40], &rows[46..200]]);
    let tight = ["--tolerance", "1e-8", "--json"];
    let cold = folder.path("cold.mercer");
    let cold = object(&[&["train", &all, "-o", &cold][..], &TRAIN, &tight].concat());
    assert_close(number(&report, "objective"), number(&cold, "objective"));
    assert_close(number(&update["from_nothing"], "objective"), number(&cold, "objective"));
    assert_eq!(
        done(&["predict", &new, &all]),
        done(&["predict", &folder.path("cold.mercer"), &all])
    );
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("stayed") && page.contains("from nothing"));
}

#[test]
fn a_model_that_keeps_its_rows_is_updated_without_them() {
    let flags = [
        "--keep-rows",
        "--scale",
        "standard",
        "--class-weight",
        "M=2",
        "--solver",
        "smo(shrinking=off)",
    ];
    let Files { folder, old, more, gone, model } = files(&flags);
    let inspected = object(&["inspect", &model, "--json"]);
    check("inspect", &inspected);
    assert_eq!(inspected["kept_rows"], 180);
    assert!(done(&["inspect", &model]).contains("all 180 rows of the training data are kept"));
    let path = |name: &str| folder.path(name);
    let (kept, given) = (path("kept.mercer"), path("given.mercer"));
    let by_kept = object(&["train", &more, "--from", &model, "-o", &kept, "--json"]);
    let by_data = object(
        &[
            &["train", &more, "--from", &model, "--data", &old, "-o", &given, "--json"][..],
            &["--class-weight", "M=2", "--solver", "smo(shrinking=off)"],
        ]
        .concat(),
    );
    for key in ["objective", "supports", "iterations"] {
        assert_eq!(by_kept[key], by_data[key], "{key}");
    }
    // The new model keeps its rows too, in order: what was added can be forgotten without any data file.
    assert_eq!(object(&["inspect", &kept, "--json"])["kept_rows"], 200);
    let back = path("back.mercer");
    let report = object(&["train", "--from", &kept, "--forget", &more, "-o", &back, "--json"]);
    let before = object(&[
        "train",
        "--from",
        &model,
        "--forget",
        &gone,
        "-o",
        &path("less.mercer"),
        "--json",
    ]);
    assert_eq!(
        (number(&report["update"], "rows"), number(&before["update"], "rows")),
        (180.0, 174.0)
    );
    let cold = object(
        &[
            &["train", &old, "-o", &path("cold.mercer"), "--tolerance", "1e-8", "--json"][..],
            &TRAIN,
            &flags[1..],
        ]
        .concat(),
    );
    assert_close(number(&report, "objective"), number(&cold, "objective"));
    // A compressed machine was not trained on these rows.
    let small = path("small.mercer");
    done(&["compress", &kept, "-o", &small, "--size", "20"]);
    assert_eq!(object(&["inspect", &small, "--json"])["kept_rows"], Value::Null);
}

#[test]
fn weights_of_rows_come_with_their_rows() {
    let Files { folder, old, more, gone, .. } = files(&[]);
    let weights =
        |rows: usize| -> String { (0..rows).map(|row| ["1\n", "0.5\n", "2\n"][row % 3]).collect() };
    let (of_old, of_more) =
        (folder.write("old.txt", &weights(180)), folder.write("more.txt", &weights(20)));
    let path = |name: &str| folder.path(name);
    let (model, kept) = (path("w.mercer"), path("k.mercer"));
    let train = |output: &str, flag: &[&str]| {
        done(&[&["train", &old, "-o", output, "--weights", &of_old][..], &TRAIN, flag].concat());
    };
    train(&model, &[]);
    train(&kept, &["--keep-rows"]);
    let data = ["--data", &old, "--data-weights", &of_old];
    let change = |from: &str, flags: &[&str]| {
        let all = [
            &["train", &more, "--from", from, "--weights", &of_more, "--forget", &gone][..],
            &["-o", &path("o.mercer"), "--json"],
            flags,
        ];
        number(&object(&all.concat()), "objective")
    };
    let (head, rows) = table("sonar/sonar.csv");
    let all = write(&folder, "all.csv", &head, &[&rows[..40], &rows[46..200]]);
    let lines = |text: String| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let (a, b) = (lines(weights(180)), lines(weights(20)));
    let joined = folder.write("all.txt", &[&a[..40], &a[46..], &b].concat().join("\n"));
    let flags = ["--tolerance", "1e-8", "--json", "--weights", &joined];
    let cold = object(&[&["train", &all, "-o", &path("c.mercer")][..], &TRAIN, &flags].concat());
    assert_close(change(&model, &data), number(&cold, "objective"));
    assert_close(change(&kept, &[]), number(&cold, "objective"));
}

#[test]
fn regression_and_novelty_detection_are_updated_too() {
    let folder = Folder::new();
    let (head, rows) = table("sonar/sonar.csv");
    let features = |row: &String| row.rsplit_once(',').unwrap().0.to_owned();
    let rows: Vec<String> = rows.iter().map(features).collect();
    let head = features(&head);
    let old = write(&folder, "old.csv", &head, &[&rows[..180]]);
    let more = write(&folder, "more.csv", &head, &[&rows[180..]]);
    let all = write(&folder, "all.csv", &head, &[&rows]);
    let path = |name: &str| folder.path(name);
    for (formulation, label) in
        [("epsilon_svr(C=10, epsilon=0.05)", "last"), ("one_class(nu=0.3)", "none")]
    {
        let flags = ["--label", label, "--formulation", formulation, "--kernel", "rbf(gamma=0.1)"];
        done(&[&["train", &old, "-o", &path("m.mercer")][..], &flags].concat());
        let warm = object(&[
            "train",
            &more,
            "--label",
            label,
            "--from",
            &path("m.mercer"),
            "--data",
            &old,
            "-o",
            &path("n.mercer"),
            "--json",
        ]);
        let tight = ["--tolerance", "1e-8", "--json"];
        let cold =
            object(&[&["train", &all, "-o", &path("c.mercer")][..], &flags, &tight].concat());
        assert_close(number(&warm, "objective"), number(&cold, "objective"));
    }
}

#[test]
fn what_an_update_cannot_use_is_refused_in_a_sentence() {
    let Files { folder, old, more, gone, model } = files(&[]);
    let output = folder.path("out.mercer");
    let update =
        |rest: &[&str]| refused(&[&["train", "-o", &output, "--from", &model][..], rest].concat());
    let text = update(&[&more]);
    assert!(text.contains("does not keep the rows") && text.contains("--data FILE"), "{text}");
    let text = update(&[&old, "--data", &more]);
    assert!(text.contains("more.csv") && text.contains("not those of the machine"), "{text}");
    let text = update(&["--data", &old, "--forget", &more]);
    assert!(
        text.contains("more.csv") && text.contains("row 1 of the rows to forget is none"),
        "{text}"
    );
    let twice = folder.write(
        "twice.csv",
        &(fs::read_to_string(&gone).unwrap()
            + fs::read_to_string(&gone).unwrap().split_once('\n').unwrap().1),
    );
    let text = update(&["--data", &old, "--forget", &twice]);
    assert!(text.contains("row 7") && text.contains("more often than it is there"), "{text}");
    let narrow = folder.write("narrow.svm", "M 1:0.5\n");
    let wide = folder.write("wide.csv", "a,b,class\n1,2,M\n");
    let text = update(&[&wide, "--data", &old]);
    assert!(text.contains("wide.csv"), "{text}");
    let text = update(&[&narrow, "--data", &old, "--data-weights", &wide]);
    assert!(text.contains("is not a valid number"), "{text}");
    let libsvm = folder.write("small.model", SMALL);
    let text = refused(&["train", &more, "-o", &output, "--from", &libsvm, "--data", &old]);
    assert!(text.contains("not with which parameters; give --formulation"), "{text}");
    for flags in [
        &["train", &more, "-o", &output, "--data", &old][..],
        &["train", &more, "-o", &output, "--forget", &old],
        &["train", &more, "-o", &output, "--from", &model, "--kernel", "linear"],
        &["train", "-o", &output, "--from", &model, "--data", &old],
        &["train", "-o", &output],
    ] {
        assert_eq!(refused_with(flags).0, Some(2), "{flags:?}");
    }
    assert!(!std::path::Path::new(&output).exists());
}

#[test]
fn plans_and_sets_of_the_old_machine_are_left_out() {
    let Files { folder, old, more, model, .. } = files(&[]);
    let (tuned, new) = (folder.path("t.mercer"), folder.path("n.mercer"));
    done(&["compile", &model, "-o", &tuned, "--plan", "cascade(low_precision, exact)"]);
    let output =
        crate::common::mercer(&["train", &more, "--from", &tuned, "--data", &old, "-o", &new]);
    assert!(output.status.success());
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("left out with the old machine: plan"), "{told}");
    let inspected = object(&["inspect", &new, "--json"]);
    assert!(keys(&inspected).contains(&"plan") && inspected["plan"] == Value::Null);
}
