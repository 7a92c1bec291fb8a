//! Scalings are fitted once, stored in the model, and applied to the queries of every command.

use std::process::Command;

use crate::common::{Folder, done, mercer, object, refused};

const SCALINGS: [&str; 7] = [
    "standard",
    "standard(centre=no)",
    "min_max",
    "min_max(low=-1)",
    "max_abs",
    "unit_norm",
    "quantile(count=20)",
];

/// Two classes whose columns differ in scale by a million.
fn table(rows: u32, seed: u32) -> String {
    let row = |at: u32| {
        let noise = |k: u32| f64::from((at * 7919 + seed * 104_729 + k * 31) % 1009) / 1009.0;
        let class = at % 2;
        let small = noise(1) + 0.6 * f64::from(class);
        let large = 1e6 * (noise(2) + 3.0);
        format!("{small},{large},7,{class}\n")
    };
    "small,large,same,label\n".to_owned() + &(0..rows).map(row).collect::<String>()
}

#[test]
fn queries_are_scaled_as_the_examples_were() {
    let folder = Folder::new();
    let data = folder.write("d.csv", &table(200, 1));
    let queries = folder.write("q.csv", &table(101, 2));
    for scaling in SCALINGS {
        let model = folder.path("m.mercer");
        done(&["train", &data, "-o", &model, "--scale", scaling]);
        assert!(done(&["inspect", &model]).contains("scaling"));
        let labels = done(&["predict", &model, &queries]);
        // By hand: rows scaled first, asked of the bare machine.
        let (scaled, bare) = (folder.path("scaled.csv"), folder.path("bare.mercer"));
        let scaled_data = folder.path("scaled_data.csv");
        done(&["convert", &queries, &scaled, "--scaled-by", &model]);
        done(&["convert", &data, &scaled_data, "--scaled-by", &model]);
        done(&["train", &scaled_data, "-o", &bare]);
        assert_eq!(labels, done(&["predict", &bare, &scaled]), "{scaling}");
        // Every other command that reads rows for the model.
        let explained = object(&["explain", &model, &queries, "--row", "5", "--json"]);
        assert_eq!(explained["label"], labels.lines().nth(4).unwrap(), "{scaling}");
        let compiled = folder.path("c.mercer");
        let plan = ["--plan", "cascade(low_precision, exact)", "-o", &compiled];
        done(&[&["compile", &model, "--sample", &queries], &plan[..]].concat());
        assert_eq!(labels, done(&["predict", &compiled, &queries]), "{scaling}");
        let measured = object(&["bench", &compiled, &queries, "--repeats", "1", "--json"]);
        assert_eq!(measured["disagreements"], 0, "{scaling}");
        let checked = object(&["check", &model, "--sample", &queries, "--json"]);
        assert_eq!(checked["as_mercer"], 0, "{scaling}: {checked}");
    }
}

#[test]
fn standard_scaling_helps_where_scales_differ() {
    let folder = Folder::new();
    let data = folder.write("d.csv", &table(200, 1));
    let queries = folder.write("q.csv", &table(101, 2));
    let accuracy = |flags: &[&str]| {
        let model = folder.path("m.mercer");
        done(&[&["train", &data, "-o", &model], flags].concat());
        object(&["predict", &model, &queries, "--json"])["accuracy"].as_f64().unwrap()
    };
    let (with, without) = (accuracy(&["--scale", "standard"]), accuracy(&[]));
    assert!(with > without + 0.1, "{with} {without}");
}

#[test]
fn sparse_rows_stay_sparse_and_unknown_columns_are_left_out() {
    let folder = Folder::new();
    let text: String = (0..60)
        .map(|at| format!("{} {}:{} 90:{}\n", at % 2, 1 + at % 30, 5 + at % 2, at))
        .collect();
    let data = folder.write("d.svm", &text);
    let model = folder.path("m.mercer");
    done(&["train", &data, "-o", &model, "--scale", "max_abs"]);
    let (out, queries) = (folder.path("s.svm"), folder.write("q.svm", "1 1:10 90:59 5000:3\n"));
    done(&["convert", &queries, &out, "--scaled-by", &model]);
    assert_eq!(std::fs::read_to_string(out).unwrap(), "1 1:2 90:1\n");
    done(&["predict", &model, &queries]);
}

#[test]
fn exports_fold_the_scaling_say_it_or_refuse_by_name() {
    let folder = Folder::new();
    let data = folder.write("d.csv", &table(200, 1));
    let queries = folder.write("q.csv", &table(101, 2));
    let model = folder.path("m.mercer");
    for (scaling, kernel, refusals) in [
        ("standard", "linear", &["liblinear"][..]),
        ("min_max", "rbf(gamma=2)", &["libsvm", "liblinear"]),
        ("unit_norm", "linear", &["libsvm", "liblinear"]),
        ("quantile", "rbf(gamma=2)", &["libsvm", "liblinear", "onnx"]),
    ] {
        done(&["train", &data, "-o", &model, "--scale", scaling, "--kernel", kernel]);
        let labels = done(&["predict", &model, &queries]);
        for format in ["libsvm", "liblinear", "onnx"] {
            let out = folder.path("out.model");
            let export = ["export", &model, "--format", format, "-o", &out];
            if refusals.contains(&format) {
                let said = refused(&export);
                assert!(said.contains("cannot express"), "{scaling} {format}: {said}");
                assert!(said.contains(scaling) || format == "liblinear", "{format}: {said}");
                continue;
            }
            let told = object(&[&export[..], &["--sample", &queries, "--json"]].concat());
            let again = done(&["predict", &out, &queries]);
            let differ = labels.lines().zip(again.lines()).filter(|(a, b)| a != b).count();
            assert_eq!(told["changed"], differ, "{scaling} {format}");
            // ONNX holds 32-bit floats; folding into LIBSVM text only rounds f64 values.
            assert!(differ == 0 || format == "onnx", "{scaling} {format}: {differ}");
        }
    }
}

/// Compiles the C file with gcc: its own test vectors are rows before scaling.
#[test]
fn c_files_scale_their_rows() {
    if Command::new("cc").arg("--version").output().is_err() {
        eprintln!("skipped: there is no C compiler");
        return;
    }
    let folder = Folder::new();
    let data = folder.write("d.csv", &table(120, 1));
    let model = folder.path("m.mercer");
    for scaling in SCALINGS {
        done(&["train", &data, "-o", &model, "--scale", scaling, "--kernel", "rbf(gamma=2)"]);
        for format in ["c", "c-float"] {
            let (source, program) = (folder.path("m.c"), folder.path("m"));
            done(&["export", &model, "--format", format, "-o", &source]);
            let flags = ["-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-DMERCER_TEST"];
            let made =
                Command::new("cc").args(flags).args([&source, "-o", &program, "-lm"]).output();
            let made = made.unwrap();
            assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
            let said = Command::new(&program).output().unwrap();
            let said = String::from_utf8_lossy(&said.stdout).into_owned();
            assert!(said.starts_with("0 of "), "{scaling} {format}: {said}");
            // Under unit_norm all rows of this table fall together: none is clear in floats.
            assert!(
                scaling == "unit_norm" || !said.contains("of 0 "),
                "{scaling} {format}: {said}"
            );
        }
    }
}

#[test]
fn scalings_that_cannot_be_are_refused() {
    let folder = Folder::new();
    let data = folder.write("d.csv", &table(20, 1));
    let model = folder.path("m.mercer");
    let train = |flags: &[&str]| refused(&[&["train", &data, "-o", &model], flags].concat());
    assert!(train(&["--scale", "log"]).contains("standard, min_max, max_abs, unit_norm, quantile"));
    assert!(train(&["--scale", "min_max(low=2)"]).contains("must be below"));
    let said = train(&["--scale", "standard", "--kernel", "precomputed", "--input-format", "csv"]);
    assert!(said.contains("cannot be scaled"), "{said}");
    let said = train(&["--scale", "standard", "--kernel", "chi2"]);
    assert!(said.contains("chi2"), "{said}");
}

#[test]
fn columns_the_machine_does_not_know_are_told() {
    let folder = Folder::new();
    let data = folder.write("d.csv", &table(40, 1));
    let model = folder.path("m.mercer");
    done(&["train", &data, "-o", &model]);
    let wide = folder.write("q.csv", "note,same,small,large,label,when\n9,7,0.5,3e6,1,8\n");
    let run = mercer(&["predict", &model, &wide, "--json"]);
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(said.contains("ignored columns, which the model does not know: note, when"), "{said}");
    let told: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(told["ignored_columns"], serde_json::json!(["note", "when"]));
    let said = refused(&["predict", &model, &folder.write("n.csv", "small,large\n1,2\n")]);
    assert!(said.contains("there is no column 'same'"), "{said}");
}
