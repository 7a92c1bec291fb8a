//! The main verbs, as a user runs them.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::common::{Folder, SMALL, dataset, done, keys, noise, refused, refused_with};

#[test]
fn labels_are_those_of_libsvm() {
    let (model, queries) = (dataset("digits/digits.model"), dataset("digits/queries.svm"));
    let labels = done(&["predict", &model, &queries]);
    let oracle = libsvm_rs::io::load_model(Path::new(&model)).expect("a LIBSVM model");
    let problem = libsvm_rs::io::load_problem(Path::new(&queries)).expect("LIBSVM text");
    let expected: Vec<f64> =
        problem.instances.iter().map(|row| libsvm_rs::predict::predict(&oracle, row)).collect();
    let found: Vec<f64> = labels.lines().map(|line| line.parse().expect("a label")).collect();
    assert_eq!(found, expected);
    assert_eq!(found.len(), 597);
}

#[test]
fn import_and_export_change_no_label() {
    let folder = Folder::new();
    let (own, text) = (folder.path("digits.mercer"), folder.path("digits.txt"));
    let (own, text) = (own.as_str(), text.as_str());
    let (model, queries) = (dataset("digits/digits.model"), dataset("digits/queries.svm"));
    done(&["import", &model, "-o", own]);
    done(&["export", own, "--format", "libsvm", "-o", text]);
    let labels = done(&["predict", &model, &queries]);
    assert_eq!(labels, done(&["predict", own, &queries]));
    assert_eq!(labels, done(&["predict", text, &queries]));
    let oracle = libsvm_rs::io::load_model(Path::new(text)).expect("LIBSVM reads our text");
    let problem = libsvm_rs::io::load_problem(Path::new(&queries)).unwrap();
    let again: Vec<String> = problem
        .instances
        .iter()
        .map(|row| libsvm_rs::predict::predict(&oracle, row).to_string())
        .collect();
    assert_eq!(labels.lines().collect::<Vec<_>>(), again);
}

#[test]
fn json_objects_have_their_documented_keys() {
    let (model, queries) = (dataset("digits/digits.model"), dataset("digits/queries.svm"));
    let json = |arguments: &[&str]| -> Value {
        serde_json::from_str(&done(arguments)).expect("one JSON object")
    };
    let predicted = json(&["predict", &model, &queries, "--json"]);
    assert_eq!(
        keys(&predicted),
        ["accuracy", "certainties", "mean_cost", "queries", "seconds", "target"]
    );
    assert_eq!(keys(&predicted["certainties"]), ["calibrated", "certified", "exact", "unsettled"]);
    assert_eq!(predicted["certainties"]["exact"], 597);
    let measured = json(&["bench", &model, &queries, "--json", "--repeats", "1"]);
    assert_eq!(
        keys(&measured),
        [
            "exact_batch_us",
            "exact_batch_us_all_threads",
            "exact_single_us",
            "features",
            "instruction_set",
            "live_columns",
            "queries",
            "supports",
            "threads"
        ]
    );
    let listed = json(&["list", "--json"]);
    assert_eq!(
        keys(&listed),
        [
            "compressors",
            "contracts",
            "data_formats",
            "formulations",
            "instruction_sets",
            "kernels",
            "model_formats",
            "papers",
            "scalings",
            "solvers",
            "stages"
        ]
    );
    let inspected = json(&["inspect", &model, "--json"]);
    assert_eq!(inspected["supports"], 616);
    assert_eq!(inspected["output"], "one_vs_one");
    assert_eq!(inspected["live_columns"], 61);
}

#[test]
fn compiled_plans_give_the_same_labels_and_say_what_settled_them() {
    let folder = Folder::new();
    let place = |name: &str| folder.path(name);
    let sonar = dataset("sonar/sonar.csv");
    let degree_2 = place("sonar.mercer");
    let kernel = "polynomial(degree=2, gamma=1, coef0=1)";
    done(&["train", &sonar, "-o", &degree_2, "--kernel", kernel]);
    let (digits, queries) = (dataset("digits/digits.model"), dataset("digits/queries.svm"));
    let cases = [
        (&degree_2, &sonar, "cascade(spectral, exact)"),
        (&degree_2, &sonar, "cascade(low_precision, spectral, exact)"),
        (&digits, &queries, "cascade(low_precision, exact)"),
    ];
    for (model, data, plan) in cases {
        let compiled = place("compiled.mercer");
        done(&["compile", model, "--plan", plan, "-o", &compiled]);
        assert_eq!(done(&["predict", model, data]), done(&["predict", &compiled, data]), "{plan}");
        let report = done(&["bench", &compiled, data, "--json", "--repeats", "1"]);
        let report: Value = serde_json::from_str(&report).unwrap();
        assert_eq!(report["disagreements"], 0, "{plan}");
        assert_eq!(report["plan"], plan);
        for key in ["plan_batch_us", "plan_single_us", "plan_batch_us_all_threads", "mean_cost"] {
            assert!(report[key].as_f64().unwrap() > 0.0, "{plan} {key}");
        }
        let settled = report["settled_by_stage"].as_array().unwrap();
        let count = |stage: &Value| stage["queries"].as_u64().unwrap();
        let total: u64 = settled.iter().map(count).sum();
        assert_eq!(total, report["queries"].as_u64().unwrap());
        let last = settled.last().unwrap();
        assert!(last["stage"] == "exact" && count(last) < total / 2, "{plan}: {settled:?}");
    }
}

#[test]
fn explain_shows_each_step_as_text_json_and_picture() {
    let folder = Folder::new();
    let place = |name: &str| folder.path(name);
    let (sonar, model, picture) =
        (dataset("sonar/sonar.csv"), place("m.mercer"), place("path.svg"));
    let kernel = "polynomial(degree=2, gamma=1, coef0=1)";
    let trained = place("trained.mercer");
    done(&["train", &sonar, "-o", &trained, "--kernel", kernel]);
    done(&["compile", &trained, "--plan", "cascade(spectral, exact)", "-o", &model]);
    let text = done(&["explain", &model, &sonar, "--row", "208", "--svg", &picture]);
    assert!(text.starts_with("row 208: label ") && text.contains("spectral"), "{text}");
    let object: Value =
        serde_json::from_str(&done(&["explain", &model, &sonar, "--row", "5", "--json"])).unwrap();
    assert_eq!(
        keys(&object),
        ["answered_by", "certainty", "cost", "exact_cost", "high", "label", "low", "row", "steps"]
    );
    let steps = object["steps"].as_array().unwrap();
    let width = |step: &Value| step["high"].as_f64().unwrap() - step["low"].as_f64().unwrap();
    assert!(steps.windows(2).all(|pair| width(&pair[1]) <= width(&pair[0])), "ranges never widen");
    assert!(fs::read_to_string(picture).unwrap().contains("<polygon"));
    let (code, said) = refused_with(&["explain", &model, &sonar, "--row", "209"]);
    assert_eq!(code, Some(1));
    assert!(said.contains("there is no row 209"), "{said}");
}

#[test]
fn budgets_leave_queries_unsettled_unless_certainty_is_required() {
    let (model, queries) = (dataset("digits/digits.model"), dataset("digits/queries.svm"));
    let ask = |flags: &[&str]| -> Value {
        let arguments = [&["predict", &model, &queries, "--json"], flags].concat();
        serde_json::from_str(&done(&arguments)).unwrap()
    };
    let poor = ask(&["--budget", "640"]);
    assert_eq!(poor["certainties"]["unsettled"], 597);
    assert_eq!(poor["mean_cost"], 0.0);
    let firm = ask(&["--budget", "640", "--require", "certified"]);
    assert_eq!(firm["certainties"]["exact"], 597);
    let rich = ask(&["--budget", "39424"]);
    assert_eq!(rich["certainties"]["exact"], 597);
    // Every form of output marks what is unsettled.
    let form =
        |format: &str| done(&["predict", &model, &queries, "--format", format, "--budget", "640"]);
    for format in ["libsvm", "csv", "jsonl"] {
        let text = form(format);
        assert_eq!(text.matches("unsettled").count(), 597, "{format}");
    }
    // With no time at all, or a limit that is too small, nothing is settled, and a sentence says so and why.
    let limits = [
        (["--budget-us", "0.001"], "0.001 us are too little"),
        (["--budget", "640"], "640 multiply-adds are too little"),
    ];
    for (limit, why) in limits {
        let arguments = [&["predict", &model, &queries], &limit[..]].concat();
        let output = crate::common::mercer(&arguments);
        let [out, said] =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        assert!(output.status.success(), "{said}");
        assert!(out.lines().all(|line| line.ends_with(" unsettled")), "{out}");
        let warned = format!("597 of 597 queries are unsettled: {why}");
        assert_eq!(said.matches(&warned).count(), 1, "{said}");
    }
    // A time that suffices settles everything, and the multiply-adds that it prints do the same.
    let ample = ask(&["--budget-us", "1e6"]);
    assert_eq!(ample["certainties"]["exact"], 597);
    let limit = ample["budget"]["multiply_adds"].to_string();
    assert_eq!(ask(&["--budget", &limit])["certainties"], ample["certainties"]);
}

#[test]
fn a_threshold_moves_the_border_and_proofs_hold_on_both_sides() {
    let folder = Folder::new();
    let (rows, model, fast) =
        (folder.path("rows.svm"), folder.path("m.mercer"), folder.path("fast.mercer"));
    fs::write(&rows, noise(120, 30, 1e7)).unwrap();
    done(&[
        "train",
        &rows,
        "-o",
        &model,
        "--kernel",
        "rbf(gamma=0.2)",
        "--formulation",
        "c_svc(C=1)",
    ]);
    done(&["compile", &model, "--plan", "cascade(low_precision, exact)", "-o", &fast]);
    let ask = |threshold: &str| {
        let lines = done(&["predict", &fast, &rows, "--format", "jsonl", "--threshold", threshold]);
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.collect::<Vec<_>>()
    };
    let (low, high) =
        (|row: &Value| row["low"].as_f64().unwrap(), |row: &Value| row["high"].as_f64().unwrap());
    let mut changed = 0;
    for (threshold, value) in [("0.3", 0.3), ("-0.3", -0.3)] {
        for (there, at_zero) in ask(threshold).iter().zip(&ask("0")) {
            // At 0 the first class is the one of positive scores.
            let is_above = low(there) > value;
            assert!(is_above != (high(there) < value), "{there}");
            changed += usize::from(there["label"] != at_zero["label"]);
        }
    }
    assert!(changed > 0, "no score lies between 0 and the thresholds");
    let digits = dataset("digits/digits.model");
    let said = refused(&["predict", &digits, &dataset("digits/queries.svm"), "--threshold", "0.1"]);
    assert!(said.contains("a threshold needs a machine that answers by one score"), "{said}");
    let nowhere = ["--server", "http://127.0.0.1:1", "--threshold", "inf"];
    let said = refused(&[&["predict", "m", &rows], &nowhere[..]].concat());
    assert!(said.contains("it must be a finite number"), "{said}");
    let said = refused(&["predict", &fast, &rows, "--threshold", "nan"]);
    assert!(said.contains("it must be a finite number"), "{said}");
}

#[test]
fn exports_go_by_the_name_of_the_file_and_say_that_the_plan_stays_behind() {
    let folder = Folder::new();
    let (fast, model) = (folder.path("fast.mercer"), dataset("digits/digits.model"));
    done(&["compile", &model, "--plan", "cascade(low_precision, exact)", "-o", &fast]);
    for (name, format) in
        [("m.onnx", "onnx"), ("m.c", "c"), ("m.mercer", "mercer"), ("m.txt", "libsvm")]
    {
        let output = crate::common::mercer(&["export", &fast, "-o", &folder.path(name), "--json"]);
        let [out, said] =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        let object: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{said}"));
        assert_eq!(object["format"], format);
        let is_told = said.contains("the plan cascade(low_precision, exact) is not in the file");
        assert_eq!(is_told, !matches!(format, "mercer" | "c"), "{name}: {said}");
        if format == "c" {
            assert_eq!(object["plan"], "cascade(low_precision, exact)");
            assert_eq!(object["left_out"].as_array().map(Vec::len), Some(0));
        }
    }
    let alone = folder.path("alone.c");
    let output = crate::common::mercer(&["export", &fast, "-o", &alone, "--plan", "none"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("the plan cascade(low_precision, exact) is not in the file"), "{said}");
}

#[test]
fn stages_without_c_are_refused_by_name_or_left_out_as_told() {
    let folder = Folder::new();
    let (fast, model) = (folder.path("fast.mercer"), dataset("digits/digits.model"));
    let plan = "cascade(projected, low_precision, exact)";
    done(&["compile", &model, "--plan", plan, "-o", &fast]);
    let file = folder.path("m.c");
    let (code, said) = refused_with(&["export", &fast, "-o", &file]);
    assert_eq!(code, Some(1));
    assert!(said.contains("C cannot express the stage projected"), "{said}");
    assert!(said.contains("--plan possible") && !std::path::Path::new(&file).exists(), "{said}");
    let output =
        crate::common::mercer(&["export", &fast, "-o", &file, "--plan", "possible", "--json"]);
    let [out, said] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    let object: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{said}"));
    assert_eq!(object["plan"], "cascade(low_precision, exact)");
    assert!(object["left_out"][0]["stage"].as_str().unwrap().starts_with("projected"), "{out}");
    assert!(said.contains("is left out because it has no C"), "{said}");
}

/// The program of `docs/guide/formats.md` and the file's own test, compiled with all warnings.
#[test]
fn the_program_of_the_guide_answers_as_predict_does() {
    if std::process::Command::new("cc").arg("--version").output().is_err() {
        return; // no compiler here
    }
    let folder = Folder::new();
    let (fast, model) = (folder.path("fast.mercer"), dataset("digits/digits.model"));
    done(&["compile", &model, "--plan", "cascade(low_precision, exact)", "-o", &fast]);
    done(&["export", &fast, "-o", &folder.path("model.c")]);
    let guide = include_str!("../../../../docs/guide/formats.md");
    let program = guide.split("```c\n").find(|part| part.contains("int main")).unwrap();
    std::fs::write(folder.path("main.c"), program.split("```").next().unwrap()).unwrap();
    let run = |source: &str, more: &[&str]| {
        let program = folder.path("program");
        let mut compiler = std::process::Command::new("cc");
        compiler.args(["-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-pedantic"]).args(more);
        let made = compiler.args([&folder.path(source), "-o", &program, "-lm"]).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let ran = std::process::Command::new(program).output().unwrap();
        assert!(ran.status.success(), "{source}");
        String::from_utf8(ran.stdout).unwrap()
    };
    assert!(run("model.c", &["-DMERCER_TEST"]).starts_with("0 of 16 wrong"));
    let said = run("main.c", &[]);
    let zeros = folder.path("zeros.svm");
    std::fs::write(&zeros, "0 1:0\n").unwrap();
    let table = done(&["predict", &fast, &zeros, "--format", "csv"]);
    let row = table.lines().nth(1).unwrap();
    let (label, cost) = (row.split(',').nth(1).unwrap(), row.rsplit(',').next().unwrap());
    // The names of digits are their positions.
    assert!(said.starts_with(&format!("{label}: score between ")), "{said} {table}");
    assert!(
        said.contains("proved") && said.contains(&format!("{cost} multiply-adds")),
        "{said} {table}"
    );
}

#[test]
fn plans_that_do_not_fit_are_refused_with_a_sentence() {
    let model = dataset("digits/digits.model");
    for (plan, message) in [
        ("cascade(spectral, exact)", "spectral"),
        ("cascade(low_precision)", "the last stage must be exact"),
        ("cascade(sorcery, exact)", "there is no stage 'sorcery'"),
        ("cascade(", "expected at character 9"),
    ] {
        let (code, said) =
            refused_with(&["compile", &model, "--plan", plan, "-o", "unused.mercer"]);
        assert_eq!(code, Some(1), "{plan}");
        assert!(said.contains(message), "{plan}: {said}");
    }
}

#[test]
fn regression_reports_its_squared_error() {
    let folder = Folder::new();
    let text =
        "svm_type epsilon_svr\nkernel_type linear\nnr_class 2\ntotal_sv 1\nrho 1\nSV\n2 1:1 \n";
    let model = folder.write("m.model", text);
    let data = folder.write("d.svm", "3 1:2\n6 1:3\n");
    let object: Value = serde_json::from_str(&done(&["predict", &model, &data, "--json"])).unwrap();
    assert_eq!(object["mse"], 0.5);
    assert!(object.get("accuracy").is_none());
}

#[test]
fn answers_come_as_table_lines_or_objects() {
    let folder = Folder::new();
    let model = folder.write("m.model", SMALL);
    let data = folder.write("d.csv", "a,b,label\n1,0,1\n0,2,-1\n");
    let table = done(&["predict", &model, &data, "--format", "csv"]);
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines[0], "row,label,low,high,certainty,cost");
    assert!(lines[1].starts_with("1,1,0.99999") && lines[1].ends_with(",exact,4"), "{}", lines[1]);
    let objects = done(&["predict", &model, &data, "--format", "jsonl"]);
    let second: Value = serde_json::from_str(objects.lines().nth(1).unwrap()).unwrap();
    assert_eq!(keys(&second), ["certainty", "cost", "high", "label", "low", "row"]);
    assert_eq!((&second["label"], &second["row"]), (&"-1".into(), &2.into()));
    let file = folder.path("out.csv");
    done(&["predict", &model, &data, "-o", &file]);
    assert_eq!(fs::read_to_string(file).unwrap(), table);
}

#[test]
fn rows_come_from_standard_input_and_packed_files_too() {
    let (model, queries) = (dataset("digits/digits.model"), dataset("digits/queries.svm"));
    let text = fs::read(&queries).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_mercer"))
        .args(["predict", &model, "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let feeder = std::thread::spawn(move || input.write_all(&text));
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), done(&["predict", &model, &queries]));
    let all = dataset("digits/digits.csv.gz");
    let object: Value = serde_json::from_str(&done(&["predict", &model, &all, "--json"])).unwrap();
    assert_eq!(object["queries"], 1797);
    assert!(object["accuracy"].as_f64().unwrap() > 0.98);
}

#[test]
fn threads_change_nothing_but_time() {
    let (model, queries) = (dataset("digits/digits.model"), dataset("digits/queries.svm"));
    let run = |threads: &str| {
        done(&["predict", &model, &queries, "--format", "csv", "--threads", threads])
    };
    assert_eq!(run("1"), run("3"));
}

#[test]
fn bad_input_gets_a_sentence_and_an_exit_code() {
    let folder = Folder::new();
    let model = folder.write("m.model", SMALL);
    let good = folder.write("good.svm", "1 1:1\n");
    let cases = [
        ("nan.svm", "1 1:nan\n", "line 1: column 1 is NaN; values must be finite"),
        (
            "order.svm",
            "1 1:1\n1 2:1 1:1\n",
            "line 2: column 1 comes after 2; columns must increase",
        ),
        ("empty.svm", "", "the file holds no rows"),
        ("empty.csv", "", "the file holds no rows"),
        ("word.svm", "1 1:x\n", "line 1: 'x' is not a number"),
    ];
    for (name, text, message) in cases {
        let data = folder.write(name, text);
        let (code, said) = refused_with(&["predict", &model, &data]);
        assert_eq!(code, Some(1), "{name}");
        assert!(said.contains(message) && said.contains(name), "{name}: {said}");
    }
    let zero_based = folder.write("zero.svm", "1 0:1\n");
    let (_, said) = refused_with(&["predict", &model, &zero_based]);
    assert!(said.contains("hint: `--zero-based`"), "{said}");
    let (code, said) = refused_with(&["predict", &good, &model]);
    assert_eq!(code, Some(1));
    assert!(said.contains("not a model file") && said.contains("hint: the model comes"), "{said}");
    // A hint names what the command has.
    let (_, said) = refused_with(&["svm-predict", &model, &good, &folder.path("out")]);
    assert!(said.contains("hint: the order is: svm-predict test_file model_file"), "{said}");
    let (_, said) = refused_with(&["inspect", &good]);
    assert!(!said.contains("hint"), "{said}");
    let (_, said) = refused_with(&[
        "compile",
        &model,
        "--plan",
        "exact",
        "--sample",
        &zero_based,
        "-o",
        &folder.path("c"),
    ]);
    assert!(said.contains("hint: `mercer convert --zero-based`"), "{said}");
    let words = folder.write("words.csv", "a,b,label\nred,1,1\nblue,2,2\n");
    let (_, said) = refused_with(&["train", &words, "-o", &folder.path("c")]);
    assert!(said.contains("hint: `--one-hot`"), "{said}");
    let (code, said) = refused_with(&["predict", &model, &good, "-o", "/nonexistent/out.txt"]);
    assert_eq!(code, Some(1));
    assert!(said.contains("/nonexistent/out.txt"), "{said}");
    let (code, _) = refused_with(&["predict", &model]);
    assert_eq!(code, Some(2));
    let (code, _) = refused_with(&["predict", "missing.model", &good]);
    assert_eq!(code, Some(1));
}

#[test]
fn a_failed_run_leaves_the_old_output() {
    let folder = Folder::new();
    let model = folder.write("m.model", SMALL);
    let out = folder.write("out.txt", "precious");
    let mut text = "1 1:1\n".repeat(20_000);
    text.push_str("1 1:broken\n");
    let data = folder.write("d.svm", &text);
    refused_with(&["predict", &model, &data, "-o", &out]);
    assert_eq!(fs::read_to_string(&out).unwrap(), "precious");
    assert_eq!(fs::read_dir(folder.path("")).unwrap().count(), 3, "no temporary file is left");
}

#[test]
fn exporting_what_a_format_cannot_say_is_refused_by_name() {
    let folder = Folder::new();
    let model = folder.write("m.model", SMALL);
    let out = folder.path("x.onnx");
    let (code, said) = refused_with(&["export", &model, "--format", "onyx", "-o", &out]);
    assert_eq!(code, Some(1));
    assert!(
        said.contains(
            "unknown model format 'onyx' (did you mean 'onnx'?); known are mercer, libsvm"
        ),
        "{said}"
    );
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let (model, queries) = (dataset("digits/digits.model"), dataset("digits/queries.svm"));
    let predict = ["predict", &model, &queries, "--format", "csv"];
    for arguments in [&predict[..], &["inspect", &model], &["list"]] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_mercer"))
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!said.contains("error") && !said.contains("panicked"), "{arguments:?}: {said}");
    }
}

#[test]
fn the_version_names_the_instruction_set() {
    let text = done(&["--version"]);
    assert!(text.contains("instruction set: "), "{text}");
    let scalar = Command::new(env!("CARGO_BIN_EXE_mercer"))
        .arg("--version")
        .env("MERCER_ISA", "scalar")
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&scalar.stdout).contains("instruction set: scalar"));
}
