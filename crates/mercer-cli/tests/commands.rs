//! The commands as a person runs them.

mod common;

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use common::{Folder, SMALL, dataset, done, interrupted, mercer, noise, refused_with};

fn keys(object: &Value) -> Vec<&str> {
    object.as_object().expect("one object").keys().map(String::as_str).collect()
}

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
    assert_eq!(keys(&predicted), ["accuracy", "certainty", "mean_cost", "queries", "seconds"]);
    assert_eq!(keys(&predicted["certainty"]), ["calibrated", "certified", "exact", "unsettled"]);
    assert_eq!(predicted["certainty"]["exact"], 597);
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
            "low_rank",
            "objective",
            "peak_memory_bytes",
            "seconds",
            "supports",
            "table",
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
        ("--kernel", "rfb(gamma=1)", "unknown kernel 'rfb'; known are linear"),
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
    assert_eq!(keys(&found), ["best", "candidates", "measure", "seconds", "stopped"]);
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
    assert!(said.contains("folds are given for 2 examples, there are 208"), "{said}");
}

#[test]
fn a_training_killed_at_any_moment_resumes_to_the_same_bits() {
    let folder = Folder::new();
    let data = folder.write("noise.svm", &noise(2000, 29, 1e6));
    let (whole, pieces) = (folder.path("whole.mercer"), folder.path("pieces.mercer"));
    let checkpoint = folder.path("checkpoint");
    let words = |model: &str| {
        let words = ["train", &data, "-o", model, "--kernel", "rbf(gamma=0.01)", "--formulation"];
        let words = words.into_iter().chain(["c_svc(C=100)", "--solver", "smo(working_set=16)"]);
        words.map(str::to_owned).collect::<Vec<String>>()
    };
    let keep = ["--checkpoint", &checkpoint, "--checkpoint-every", "0s", "--resume"];
    let command = |words: &[String]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mercer"));
        command.args(words).stderr(Stdio::null());
        command
    };
    assert!(command(&words(&whole)).status().unwrap().success());
    let mut killed = 0;
    for pause in [40, 90, 60, 130, 75] {
        let mut child = command(&words(&pieces)).args(keep).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(pause));
        child.kill().unwrap();
        killed += u32::from(!child.wait().unwrap().success());
    }
    assert!(killed > 0, "the training is too short to be killed");
    assert!(command(&words(&pieces)).args(keep).status().unwrap().success());
    let text = |model: &str| {
        let out = folder.path("out.model");
        done(&["export", model, "--format", "libsvm", "-o", &out]);
        fs::read_to_string(out).unwrap()
    };
    assert_eq!(text(&whole), text(&pieces));
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
    // 3: doubles could not tell better points apart before the signal came. Nothing else is excused.
    let code = output.status.code();
    assert!(matches!(code, Some(130 | 3)), "{code:?}");
    if Path::new(&model).exists() {
        assert_eq!(done(&["predict", &model, &data]).lines().count(), 6000);
    } else {
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("interrupted; nothing was written"), "{said}");
    }
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
        let settled = report["settled_by_stage"].as_object().unwrap();
        let total: u64 = settled.values().map(|count| count.as_u64().unwrap()).sum();
        assert_eq!(total, report["queries"].as_u64().unwrap());
        assert!(settled["exact"].as_u64().unwrap() < total / 2, "{plan}: {settled:?}");
    }
}

#[test]
fn explain_shows_each_step_as_text_json_and_picture() {
    let folder = Folder::new();
    let place = |name: &str| folder.path(name);
    let (sonar, model, picture) =
        (dataset("sonar/sonar.csv"), place("m.mercer"), place("path.svg"));
    let kernel = "polynomial(degree=2, gamma=1, coef0=1)";
    done(&["train", &sonar, "-o", &model, "--kernel", kernel]);
    done(&["compile", &model, "--plan", "cascade(spectral, exact)", "-o", &model]);
    let text = done(&["explain", &model, &sonar, "--row", "208", "--svg", &picture]);
    assert!(text.starts_with("row 208: label ") && text.contains("spectral"), "{text}");
    let object: Value =
        serde_json::from_str(&done(&["explain", &model, &sonar, "--row", "5", "--json"])).unwrap();
    assert_eq!(
        keys(&object),
        ["certainty", "settled_by", "cost", "exact_cost", "high", "label", "low", "row", "steps"]
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
    let poor = ask(&["--budget-kernels", "10"]);
    assert_eq!(poor["certainty"]["unsettled"], 597);
    assert_eq!(poor["mean_cost"], 0.0);
    let firm = ask(&["--budget-kernels", "10", "--require", "certified"]);
    assert_eq!(firm["certainty"]["exact"], 597);
    let rich = ask(&["--budget-kernels", "616"]);
    assert_eq!(rich["certainty"]["exact"], 597);
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
    assert!(said.contains("not a model file") && said.contains("hint"), "{said}");
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
    assert!(said.contains("unknown model format 'onyx'; known are mercer, libsvm"), "{said}");
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
fn the_demo_runs_and_changes_no_label() {
    let folder = Folder::new();
    let report = folder.path("demo.html");
    let text = done(&["demo", "--json", "--report", &report]);
    let object: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(object["queries"], 597);
    assert_eq!(object["changed_by_own_format"], 0);
    assert_eq!(object["changed_by_libsvm_format"], 0);
    assert_eq!(object["labels_unlike_libsvm"], 0);
    let rows = object["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 6);
    for row in rows {
        let is_calibrated = row["contract"].as_str().unwrap().starts_with("calibrated");
        // 2 in 2,000 are promised; chance may add a few.
        let most = if is_calibrated { 10 } else { 0 };
        assert!(row["disagreements"].as_u64().unwrap() <= most, "{row}");
        assert!(row["accuracy"].as_f64().unwrap() > 0.85, "{row}");
    }
    assert!(fs::read_to_string(report).unwrap().contains("What is promised"));
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
