//! Names of classes, columns and files that try to act on a terminal or to break a line. The list is in the test kit;
//! writers of files are tested with it in the crates that have them.

use std::fmt::Write as _;
use std::fs;

use mercer_testkit::names::ADVERSARIAL;

use crate::common::{Folder, SMALL, done, mercer, object, refused};

/// Whether bytes would act on a terminal: control characters but line feeds, direction marks, C1.
fn acts(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    text.chars().any(|c| {
        (c.is_control() && c != '\n')
            || "\u{202e}\u{200f}\u{2067}\u{2069}\u{feff}\u{200b}".contains(c)
    })
}

/// Names that a table can hold: white space around a field does not belong to it.
pub(crate) fn names() -> Vec<&'static str> {
    ADVERSARIAL.iter().copied().filter(|name| name.trim() == *name).collect()
}

/// A table whose columns and labels have adversarial names, and a model of it.
pub(crate) fn trained(folder: &Folder) -> (String, String) {
    let field = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let columns: Vec<String> = ADVERSARIAL.iter().take(8).map(|name| field(name)).collect();
    let mut text = format!("{},class\n", columns.join(","));
    let labels = names();
    for (row, label) in labels.iter().chain(&labels).enumerate() {
        let place = row % labels.len();
        let values: Vec<String> =
            (0..8).map(|c| (if c == 0 { 10 * place } else { c }).to_string()).collect();
        writeln!(text, "{},{}", values.join(","), field(label)).unwrap();
    }
    let data = folder.write("data.csv", &text);
    let model = folder.path("model.mercer");
    let kernel = ["--kernel", "rbf(gamma=0.01)", "--quiet", "--many-classes"];
    done(&[&["train", &data, "--label", "class", "-o", &model][..], &kernel].concat());
    (data, model)
}

#[test]
fn no_message_or_table_sends_control_characters() {
    let folder = Folder::new();
    let (data, model) = trained(&folder);
    for verb in [
        &["inspect"][..],
        &["inspect", "--json"],
        &["check"],
        &["export", "--format", "libsvm", "-o", "x"],
    ] {
        let output = mercer(&[verb, &[model.as_str()]].concat());
        assert!(!acts(&output.stdout) && !acts(&output.stderr), "{verb:?}: {output:?}");
    }
    for name in ADVERSARIAL.iter().filter(|name| !name.contains(['/', '\0'])) {
        let path = folder.write(name, SMALL);
        for arguments in [
            vec!["inspect", &path],
            vec!["check", &path],
            vec!["predict", &data, &path],
            vec!["predict", &path, &path],
            vec!["train", &data, "--label", name, "-o", "/dev/null"],
            vec!["train", &data, "--kernel", name, "-o", "/dev/null"],
            vec!["train", "--no-such-flag", name],
            vec![name],
            vec!["svm-train", name, "x", "y"],
            vec!["svm-predict", name, "x", "y"],
        ] {
            let mut output = mercer(&arguments);
            // LIBSVM's usage has tabs of its own.
            if output.stdout.starts_with(b"Usage: svm-") {
                output.stdout.retain(|byte| *byte != b'\t');
            }
            assert!(!acts(&output.stdout) && !acts(&output.stderr), "{arguments:?}: {output:?}");
        }
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn a_header_with_escape_sequences_is_shown_without_them() {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../mercer-machine/tests/data/trust/inspect_escape.mercer"
    );
    for verb in ["inspect", "check"] {
        let output = mercer(&[verb, file]);
        assert!(
            output.status.success() && !acts(&output.stdout) && !acts(&output.stderr),
            "{output:?}"
        );
    }
}

#[test]
fn json_holds_the_names_themselves() {
    let folder = Folder::new();
    let (_, model) = trained(&folder);
    let found = object(&["inspect", "--json", &model]);
    let mut classes: Vec<&str> =
        found["classes"].as_array().unwrap().iter().map(|c| c.as_str().unwrap()).collect();
    let mut expected = names();
    classes.sort_unstable();
    expected.sort_unstable();
    assert_eq!(classes, expected);
}

#[test]
fn predictions_hold_adversarial_labels_or_the_format_refuses_them() {
    let folder = Folder::new();
    let (data, model) = trained(&folder);
    let refusal = refused(&["predict", &model, &data, "--label", "class"]);
    assert!(refusal.contains("the end of a line") && refusal.contains("--format csv"), "{refusal}");
    let lines = done(&["predict", &model, &data, "--label", "class", "--format", "jsonl"]);
    let labels = |text: &str| -> Vec<String> {
        let of =
            |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["label"].clone();
        text.lines().map(|line| of(line).as_str().unwrap().to_owned()).collect()
    };
    let answers = labels(&lines);
    let expected: Vec<&str> = names().into_iter().chain(names()).collect();
    assert_eq!(answers, expected);
    let table = folder.path("out.csv");
    done(&["predict", &model, &data, "--label", "class", "-o", &table, "--quiet"]);
    let again = folder.path("again.csv");
    done(&["convert", &table, &again, "--label", "label", "--id", "certainty", "--quiet"]);
    let plain = folder.path("again.jsonl");
    done(&["predict", &model, &data, "--label", "class", "-o", &plain, "--quiet"]);
    assert_eq!(fs::read_to_string(&plain).unwrap(), lines);
    assert!(fs::read_to_string(&again).unwrap().contains("9007199254740993"));
}

#[test]
fn an_unknown_instruction_set_is_an_error() {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_mercer"));
    let output = command.arg("list").env("MERCER_ISA", "avx9\u{1b}[2J").output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains("MERCER_ISA is \"avx9") && text.contains("this processor has scalar"),
        "{text}"
    );
    assert!(!acts(&output.stderr));
}

/// Rows on which the score, a scaled value or the kernel's domain fails.
#[test]
fn one_bad_row_does_not_cost_the_others_their_answers() {
    let folder = Folder::new();
    let model = folder.write(
        "cubic.model",
        "svm_type c_svc\nkernel_type polynomial\ndegree 3\ngamma 1\ncoef0 0\nnr_class 2\ntotal_sv 2\nrho 0\n\
         label 1 -1\nnr_sv 1 1\nSV\n1 1:1 \n-1 2:1 \n",
    );
    let good: String = (0..600).map(|row| format!("1 1:{} 2:{}\n", row % 7, row % 5)).collect();
    let bad = "1 1:1e200\n";
    let mixed: String =
        good.lines()
            .enumerate()
            .map(|(at, line)| {
                if [0, 255, 256, 599].contains(&at) { bad.to_owned() } else { format!("{line}\n") }
            })
            .collect();
    let (all, some) = (folder.write("all.svm", &good), folder.write("some.svm", &mixed));
    let refusal = refused(&["predict", &model, &some, "-o", &folder.path("none")]);
    assert!(refusal.contains(": row ") && refusal.contains("--skip-bad-rows"), "{refusal}");
    assert!(!std::path::Path::new(&folder.path("none")).exists());
    let lines = done(&["predict", &model, &all, "--format", "jsonl"]);
    let output = mercer(&["predict", &model, &some, "--format", "jsonl", "--skip-bad-rows"]);
    assert!(output.status.success());
    let expected: Vec<&str> = lines
        .lines()
        .enumerate()
        .filter(|(at, _)| ![0, 255, 256, 599].contains(at))
        .map(|(_, l)| l)
        .collect();
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().collect::<Vec<_>>(), expected);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    for row in ["row 1:", "row 256:", "row 257:", "row 600:", "4 rows have no answer"] {
        assert!(said.contains(row), "{said}");
    }
    let labels = done(&["predict", &model, &some, "--skip-bad-rows", "--quiet"]);
    let plain: Vec<&str> = labels.lines().collect();
    assert_eq!((plain.len(), plain[0], plain[255], plain[599]), (600, "", "", ""));
    assert_eq!(plain.iter().filter(|line| line.is_empty()).count(), 4);
    let none = folder.write("none.svm", &bad.repeat(3));
    let refusal = refused(&["predict", &model, &none, "--skip-bad-rows"]);
    assert!(refusal.contains("none of the rows has an answer"), "{refusal}");
    let found = object(&["predict", &model, &some, "--skip-bad-rows", "--json"]);
    assert_eq!((found["queries"].as_u64(), found["skipped_rows"].as_u64()), (Some(596), Some(4)));
}

/// Whole numbers that f64 rounds, and texts that look like numbers, are the same labels everywhere.
#[test]
fn labels_that_are_no_f64_numbers_survive_or_are_refused() {
    let folder = Folder::new();
    let labels = ["9007199254740993", "9007199254740992", "007", "7"];
    let rows: String = (0..40)
        .map(|row| format!("{},{},{}\n", row % 4, (row * row) % 5, labels[row % 4]))
        .collect();
    let data = folder.write("labels.csv", &format!("a,b,label\n{rows}"));
    let (model, out) = (folder.path("m.mercer"), folder.path("out.csv"));
    done(&[
        "train",
        &data,
        "-o",
        &model,
        "--formulation",
        "c_svc(C=1000)",
        "--kernel",
        "rbf(gamma=1)",
        "--quiet",
    ]);
    let mut classes: Vec<String> =
        serde_json::from_value(object(&["inspect", "--json", &model])["classes"].clone()).unwrap();
    classes.sort();
    let mut expected = labels.to_vec();
    expected.sort_unstable();
    assert_eq!(classes, expected);
    assert_eq!(object(&["predict", &model, &data, "--json", "-o", &out])["accuracy"], 1.0);
    let column = |path: &str| -> Vec<String> {
        let text = fs::read_to_string(path).unwrap();
        text.lines().skip(1).map(|line| line.split(',').nth(1).unwrap().to_owned()).collect()
    };
    assert_eq!(column(&out), (0..40).map(|row| labels[row % 4]).collect::<Vec<_>>());
    for ending in ["csv", "arrow", "parquet"] {
        let again = folder.path(&format!("again.{ending}"));
        done(&["convert", &data, &again, "--quiet"]);
        assert_eq!(object(&["predict", &model, &again, "--json"])["accuracy"], 1.0, "{ending}");
    }
    for ending in ["svm", "npy"] {
        let refusal = refused(&["convert", &data, &folder.path(&format!("again.{ending}"))]);
        assert!(refusal.contains("label"), "{refusal}");
    }
    let text = folder.write("large.svm", "1 1:1\n9007199254740993 1:2\n");
    assert!(
        refused(&["train", &text, "-o", &model]).contains("line 2: the label 9007199254740993")
    );
    let values = folder.write("values.csv", "a,y\n1,007\n2,9007199254740993\n3,5\n4,8\n");
    done(&["train", &values, "--formulation", "epsilon_svr", "-o", &model, "--quiet"]);
}

#[test]
fn prediction_sets_hold_adversarial_labels_and_no_control_characters_on_the_terminal() {
    let folder = Folder::new();
    let (data, model) = trained(&folder);
    let sets = folder.path("sets.mercer");
    let tune = ["tune", &model, "--sample", &data, "--trust-sample"];
    done(&[&tune[..], &["--coverage", "0.5", "--time-limit", "2s", "-o", &sets]].concat());
    let ask = ["predict", &sets, &data, "--label", "class", "--sets"];
    for format in ["csv", "jsonl"] {
        let output = mercer(&[&ask[..], &["--format", format]].concat());
        assert!(output.status.success(), "{output:?}");
        assert!(!acts(&output.stdout) && !acts(&output.stderr), "{output:?}");
    }
    let lines = done(&[&ask[..], &["--format", "jsonl", "-o", "-"]].concat());
    let mut found: Vec<String> = lines
        .lines()
        .flat_map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            line["set"].as_array().unwrap().clone()
        })
        .map(|name| name.as_str().unwrap().to_owned())
        .collect();
    found.sort_unstable();
    found.dedup();
    let mut expected = names();
    expected.sort_unstable();
    assert_eq!(found, expected, "the names themselves");
    let file = folder.path("sets.csv");
    done(&[&ask[..], &["-o", &file]].concat());
    // It is read as a table: no name breaks a line.
    let again = folder.path("again.csv");
    done(&["convert", &file, &again, "--label", "certainty", "--id", "set", "--quiet"]);
}
