//! Which column of a table is the target: one rule in every verb, told with its reason; and columns that count from 0.

use std::fmt::Write as _;
use std::fs;

use crate::common::{Folder, done, mercer, object, refused};

/// What a command prints on standard error.
fn told(arguments: &[&str]) -> String {
    let output = mercer(arguments);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {text}");
    text
}

/// Two columns and a kind, which is no usual name of a target.
fn table(rows: usize) -> String {
    let mut text = "a,b,kind\n".to_owned();
    for row in 0..rows {
        writeln!(text, "{},{},{}", row % 7, row % 5, ["x", "y"][row % 2]).unwrap();
    }
    text
}

#[test]
fn every_verb_takes_the_same_column_and_says_which() {
    let folder = Folder::new();
    let data = folder.write("d.csv", &table(40));
    let (model, other) = (folder.path("m.mercer"), folder.path("o.csv"));
    let exported = folder.path("exported.mercer");
    let last = "the target is column 'kind': the last column";
    for arguments in [
        vec!["train", &data, "-o", &model],
        vec!["search", &data, "--kernel", "linear", "--formulation", "c_svc(C={1})"],
        vec!["convert", &data, &other],
    ] {
        assert!(told(&arguments).contains(last), "{arguments:?}");
    }
    assert!(done(&["check", &data]).contains(last));
    assert_eq!(fs::read_to_string(&other).unwrap().lines().next(), Some("a,b,label"));
    let of_model = "the target is column 'kind': the target that the model was trained with";
    for arguments in [
        vec!["predict", &model, &data],
        vec!["bench", &model, &data, "--repeats", "1"],
        vec!["explain", &model, &data],
        vec!["compile", &model, "--plan", "exact", "--sample", &data, "-o", &other],
        vec!["tune", &model, "--sample", &data, "--time-limit", "1s", "-o", &other],
        vec!["verify", &other, "--sample", &data],
        vec!["compress", &model, "--size", "2", "--sample", &data, "-o", &other],
        vec!["export", &model, "--sample", &data, "-o", &exported],
    ] {
        assert!(told(&arguments).contains(of_model), "{arguments:?}");
    }
    let report = object(&["train", &data, "-o", &model, "--json"]);
    assert_eq!(report["target"]["column"], "kind");
    assert_eq!(report["target"]["reason"], "the last column");
}

/// `convert` wrote target 0 everywhere and the labels as a column.
#[test]
fn converted_tables_keep_their_labels() {
    let folder = Folder::new();
    let data = folder.write("d.csv", "1,2,7\n3,4,8\n");
    let converted = folder.path("d.svm");
    done(&["convert", &data, &converted]);
    assert_eq!(fs::read_to_string(&converted).unwrap(), "7 1:1 2:2\n8 1:3 2:4\n");
    done(&["convert", &data, &converted, "--label", "none"]);
    assert_eq!(fs::read_to_string(&converted).unwrap(), "0 1:1 2:2 3:7\n0 1:3 2:4 3:8\n");
}

#[test]
fn a_table_that_still_has_its_labels_gives_an_accuracy() {
    let folder = Folder::new();
    let model = folder.path("m.mercer");
    let named = folder.write("d.csv", &table(40));
    done(&["train", &named, "-o", &model, "--label", "kind"]);
    let reordered = folder.write("r.csv", "note,kind,b,a\n1,x,0,0\n2,y,1,1\n");
    let report = object(&["predict", &model, &reordered, "--json"]);
    assert!(report["accuracy"].is_number(), "{report}");
    assert_eq!(report["ignored_columns"][0], "note");
    // The label is the first column of a table without names: the other columns must not move.
    let first: String = (0..40).map(|row| format!("{},{},1\n", row % 2, row % 2)).collect();
    let first = folder.write("f.csv", &first);
    done(&["train", &first, "-o", &model, "--label", "1"]);
    let report = object(&["predict", &model, &first, "--json"]);
    assert_eq!((&report["accuracy"], &report["target"]["column"]), (&1.0.into(), &"1".into()));
    // A column of other things is no target.
    let words = folder.write("o.csv", "0,1,unknown\n1,1,words\n");
    let said = told(&["predict", &model, &words, "--label", "3"]);
    assert!(said.contains("the model knows none of the targets"), "{said}");
}

#[test]
fn a_continuous_target_is_no_problem_of_very_many_classes() {
    let folder = Folder::new();
    let model = folder.path("m.mercer");
    let rows: String = (0..60).map(|row| format!("{},{}.5\n", row % 9, row % 30)).collect();
    let data = folder.write("d.csv", &rows);
    let said = refused(&["train", &data, "-o", &model]);
    assert!(said.contains("30 different values in 60 rows"), "{said}");
    assert!(said.contains("epsilon_svr") && said.contains("--many-classes"), "{said}");
    assert!(refused(&["search", &data]).contains("30 different values"));
    done(&["train", &data, "-o", &model, "--formulation", "epsilon_svr(C=1)"]);
    done(&["train", &data, "-o", &model, "--many-classes"]);
    let names: String = (0..60).map(|row| format!("{},n{row}\n", row % 9)).collect();
    let names = folder.write("n.csv", &names);
    let said = refused(&["train", &names, "-o", &model]);
    assert!(said.contains("--label names another target column"), "{said}");
    assert!(done(&["check", &data]).contains("this looks like regression"));
}

#[test]
fn an_index_0_is_one_more_column_in_data_and_models() {
    let folder = Folder::new();
    let rows: String =
        (0..40).map(|row| format!("{} 0:{} 2:{}\n", row % 2, row % 2, row % 3)).collect();
    let data = folder.write("d.svm", &rows);
    let (model, text) = (folder.path("m.mercer"), folder.path("m.model"));
    assert!(told(&["train", &data, "-o", &model]).contains("columns are counted from 0"));
    let report = object(&["predict", &model, &data, "--json"]);
    assert_eq!(report["accuracy"], 1.0);
    done(&["export", &model, "-o", &text]);
    assert!(fs::read_to_string(&text).unwrap().contains(" 0:1"));
    assert_eq!(done(&["predict", &text, &data]), done(&["predict", &model, &data]));
    done(&["convert", &data, &folder.path("c.svm")]);
    let converted = fs::read_to_string(folder.path("c.svm")).unwrap();
    assert_eq!(converted.lines().nth(1), Some("1 1:1 3:1"));
    // A model whose vectors begin at 1 says why rows from 0 are not its rows.
    let from_one = folder.path("one.mercer");
    done(&["train", &folder.path("c.svm"), "-o", &from_one]);
    let said = refused(&["predict", &from_one, &data]);
    assert!(said.contains("--zero-based"), "{said}");
}

#[test]
fn check_advises_scaling_where_columns_differ_by_orders_of_magnitude() {
    let folder = Folder::new();
    let row = |row: usize| {
        let noise = (row * 7919 % 101) as f64 / 101.0;
        format!(
            "{} 1:{} 2:{} 3:{} 4:{}\n",
            row % 2,
            0.001 * noise,
            0.002 * noise,
            900.0 * noise,
            800.0 * noise
        )
    };
    let data = folder.write("d.svm", &(0..60).map(row).collect::<String>());
    let said = done(&["check", &data]);
    assert!(said.contains("--scale standard"), "{said}");
    let sparse = |row: usize| format!("{} {}:1\n", row % 2, 1 + row % 10);
    let even = folder.write("e.svm", &(0..60).map(sparse).collect::<String>());
    assert!(!done(&["check", &even]).contains("--scale"));
}
