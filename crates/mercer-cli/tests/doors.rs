//! Files in and out, as a person meets them.

mod common;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use common::{Folder, SMALL, dataset, done, refused};

#[test]
fn data_survive_every_way_round() {
    let folder = Folder::new();
    let queries = dataset("digits/queries.svm");
    let (csv, npy, back) = (folder.path("q.csv"), folder.path("q.npy"), folder.path("q.svm"));
    done(&["convert", &queries, &csv]);
    done(&["convert", &csv, &npy]);
    done(&["convert", &npy, &back, "--labels", &folder.path("q.labels.npy")]);
    let model = dataset("digits/digits.model");
    let labels = done(&["predict", &model, &queries]);
    assert_eq!(labels, done(&["predict", &model, &csv]));
    assert_eq!(labels, done(&["predict", &model, &npy, "--labels", &folder.path("q.labels.npy")]));
    assert_eq!(labels, done(&["predict", &model, &back]));
    let again = folder.path("again.csv");
    done(&["convert", &back, &again]);
    assert_eq!(fs::read(&csv).unwrap(), fs::read(&again).unwrap());
}

#[test]
fn splits_take_every_row_once_and_the_seed_decides() {
    let folder = Folder::new();
    let data =
        folder.write("d.svm", &(1..=50).map(|row| format!("{row} 1:{row}\n")).collect::<String>());
    let (one, rest, same) = (folder.path("one.svm"), folder.path("rest.svm"), folder.path("s.svm"));
    done(&["convert", &data, &one, "--split", "0.8", "--rest", &rest, "--seed", "3"]);
    done(&["convert", &data, &same, "--sample", "40", "--seed", "3"]);
    let (kept, left) = (fs::read_to_string(&one).unwrap(), fs::read_to_string(&rest).unwrap());
    assert_eq!((kept.lines().count(), left.lines().count()), (40, 10));
    assert_eq!(kept, fs::read_to_string(&same).unwrap());
    let mut all: Vec<&str> = kept.lines().chain(left.lines()).collect();
    all.sort_by_key(|line| line.split(' ').next().unwrap().parse::<u32>().unwrap());
    assert_eq!(all.join("\n") + "\n", fs::read_to_string(&data).unwrap());
}

#[test]
fn unsorted_text_is_refused_with_the_way_out_and_sorted_on_request() {
    let folder = Folder::new();
    let data = folder.write("d.svm", "1 3:1 1:2\n");
    let out = folder.write("out.svm", "precious");
    let said = refused(&["convert", &data, &out]);
    assert!(said.contains("line 1: column 1 comes after 3") && said.contains("--sort"), "{said}");
    assert_eq!(fs::read_to_string(&out).unwrap(), "precious");
    done(&["convert", &data, &out, "--sort"]);
    assert_eq!(fs::read_to_string(&out).unwrap(), "1 1:2 3:1\n");
}

#[test]
fn categories_and_ids_go_through_training_to_the_answers() {
    let folder = Folder::new();
    let row = |at: usize| {
        let (colour, label) = if at.is_multiple_of(2) { ("red", "a") } else { ("blue", "b") };
        format!("n{at},{colour},{},{label}\n", at % 5)
    };
    let text = "name,colour,size,label\n".to_owned() + &(0..40).map(row).collect::<String>();
    let (data, model) = (folder.write("d.csv", &text), folder.path("m.mercer"));
    done(&["train", &data, "-o", &model, "--one-hot", "colour", "--id", "name"]);
    let queries = folder.write("q.csv", "size,name,colour\n1,first,blue\n2,second,red\n");
    let table = done(&["predict", &model, &queries, "--id", "name", "--format", "csv"]);
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines[0], "row,id,label,low,high,certainty,cost");
    assert!(lines[1].starts_with("1,first,b,") && lines[2].starts_with("2,second,a,"), "{table}");
    let strange = folder.write("s.csv", "size,name,colour\n1,first,teal\n");
    let said = refused(&["predict", &model, &strange, "--id", "name"]);
    assert!(said.contains("holds 'teal', which the machine does not know"), "{said}");
}

#[test]
fn the_c_file_gives_the_labels_of_the_exact_plan() {
    if Command::new("cc").arg("--version").output().is_err() {
        return; // no compiler here
    }
    let folder = Folder::new();
    let (model, queries) = (dataset("digits/digits.model"), dataset("digits/queries.svm"));
    let (source, program, table) = (folder.path("m.c"), folder.path("m"), folder.path("q.csv"));
    done(&["export", &model, "--format", "c", "-o", &source]);
    done(&["convert", &queries, &table]);
    let driver = folder.write(
        "main.c",
        "#include \"m.c\"\n#include <stdio.h>\nint main(void) { double row[MERCER_COLUMNS]; int i = 0; \
         while (scanf(\"%lf\", &row[i]) == 1) if (++i == MERCER_COLUMNS) { \
         puts(mercer_names[mercer_decide(row)]); i = 0; } return i; }\n",
    );
    let flags = ["-std=c99", "-O2", "-Wall", "-Werror", &driver, "-o", &program, "-lm"];
    let made = Command::new("cc").args(flags).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let text = fs::read_to_string(&source).unwrap();
    let columns = text.lines().find_map(|line| line.strip_prefix("#define MERCER_COLUMNS "));
    let columns: usize = columns.unwrap().parse().unwrap();
    let mut numbers = String::new();
    for line in fs::read_to_string(&table).unwrap().lines().skip(1) {
        let mut fields: Vec<&str> = line.split(',').collect();
        fields.pop();
        fields.resize(columns, "0");
        numbers += &(fields.join(" ") + "\n");
    }
    let mut child =
        Command::new(&program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let feeder = std::thread::spawn(move || input.write_all(numbers.as_bytes()));
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), done(&["predict", &model, &queries]));
}

#[test]
fn exports_tell_what_they_lose_on_a_sample() {
    let folder = Folder::new();
    let (model, queries) = (dataset("digits/digits.model"), dataset("digits/queries.svm"));
    let onnx = folder.path("m.onnx");
    let told =
        done(&["export", &model, "--format", "onnx", "-o", &onnx, "--sample", &queries, "--json"]);
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!((&told["changed"], &told["queries"]), (&0.into(), &597.into()));
    assert_eq!(done(&["predict", &onnx, &queries]), done(&["predict", &model, &queries]));
}

#[test]
fn the_doctor_finds_what_is_wrong_with_data() {
    let folder = Folder::new();
    let row = |row: u32| {
        let small = f64::from(row % 7) / 7.0;
        format!("{small},{},7,{}\n", 1000 * (row % 11), u8::from(row < 3))
    };
    let mut text = "small,large,same,label\n".to_owned() + &(0..60).map(row).collect::<String>();
    text += "0,0,7,0\n0,0,7,0\n";
    let data = folder.write("d.csv", &text);
    let found: Value = serde_json::from_str(&done(&["check", &data, "--json"])).unwrap();
    assert_eq!(found["rows"], 62);
    assert_eq!(found["constant_columns"], 1);
    assert_eq!(found["conflicting_rows"], 2);
    let remarks = found["remarks"].to_string();
    for wanted in ["'same'", "'large'", "carry another label", "--class-weight"] {
        assert!(remarks.contains(wanted), "{wanted}: {remarks}");
    }
    assert!(done(&["check", &data]).contains("suggested kernel"));
}

#[test]
fn the_doctor_tells_what_exports_of_a_model_lose() {
    let folder = Folder::new();
    let model = dataset("digits/digits.model");
    let found: Value = serde_json::from_str(&done(&["check", &model, "--json"])).unwrap();
    assert_eq!(
        (&found["supports"], &found["as_libsvm"], &found["as_onnx"]),
        (&616.into(), &0.into(), &0.into())
    );
    assert_eq!(found["as_liblinear"], Value::Null);
    // Rows that only differ beyond the 24 bits of a float: the boundary moves.
    let close =
        SMALL.replace("1:1 ", "1:1.00000001 ").replace("2:1 ", "1:1 ").replace("rho 0", "rho 1e-8");
    let model = folder.write("close.model", &close);
    let queries = folder.write("q.svm", "1 1:1.5\n-1 1:0.5\n");
    let text = done(&["check", &model, "--sample", &queries]);
    assert!(text.contains("as onnx, 1 of 2 labels of the sample change"), "{text}");
}

/// The table of `docs/errors.md`.
#[test]
fn errors_name_the_place_and_the_value() {
    let folder = Folder::new();
    let model = folder.write("m.model", SMALL);
    for (name, text, message) in [
        ("nan.csv", "a,b\n1,nan\n", "nan.csv: line 2: column 'b' is NaN; values must be finite"),
        ("inf.svm", "1 2:inf\n", "inf.svm: line 1: column 2 is inf; values must be finite"),
        ("empty.svm", "", "empty.svm: the file holds no rows"),
        ("gap.csv", "a,b\n1,\n", "gap.csv: line 2: column 'b' is empty; missing values are not"),
        ("named.svm.gz", "1 1:1\n", "packed with gzip by its name, but not by its contents"),
        ("short.npy", "\u{1}", "short.npy: NPY: the header is cut off"),
    ] {
        let data = folder.write(name, text);
        let said = refused(&["predict", &model, &data]);
        assert!(said.contains(message), "{name}: {said}");
    }
    let data = folder.write("d.csv", "a,b,c\n1,-2,1\n2,3,1\n");
    let out = folder.path("out.mercer");
    let said = refused(&["train", &data, "-o", &out]);
    assert!(said.contains("class"), "one class: {said}");
    let said = refused(&["train", &data, "-o", &out, "--label", "d"]);
    assert!(said.contains("there is no column 'd'; the columns are a, b, c"), "{said}");
    let two = folder.write("two.csv", "a,b,label\n1,-2,1\n2,3,2\n");
    let said = refused(&["train", &two, "-o", &out, "--kernel", "chi2"]);
    assert!(said.contains("-2") && said.contains("chi2"), "{said}");
    let wide = folder.write("wide.csv", "a,b,label\n1,2,1\n2,3,2\n");
    done(&["train", &wide, "-o", &out]);
    let narrow = folder.write("narrow.csv", "1,2,3,4\n");
    let said = refused(&["predict", &out, &narrow]);
    assert!(said.contains("rows have 4 columns, the machine expects 2"), "{said}");
    let said = refused(&["convert", &wide, "/nonexistent/x.svm"]);
    assert!(said.contains("/nonexistent/x.svm"), "{said}");
}

/// `/dev/full` stands for a disk without room.
#[test]
fn a_full_disk_is_an_error() {
    if !Path::new("/dev/full").exists() {
        return;
    }
    let queries = dataset("digits/queries.svm");
    let said = refused(&["convert", &queries, "/dev/full", "--format", "csv"]);
    assert!(said.contains("No space left on device"), "{said}");
}

#[test]
fn labels_of_their_own_file_must_fit_the_rows() {
    let folder = Folder::new();
    let model = folder.write("m.model", SMALL);
    let (rows, npy) = (folder.write("d.csv", "a,b\n1,0\n0,1\n"), folder.path("d.npy"));
    done(&["convert", &rows, &npy, "--label", "none"]);
    let fit = folder.write("fit.csv", "1\n-1\n");
    let told = done(&["predict", &model, &npy, "--labels", &fit, "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&told).unwrap()["accuracy"], 1.0);
    let long = folder.write("long.csv", "1\n-1\n1\n");
    let said = refused(&["predict", &model, &npy, "--labels", &long]);
    assert!(said.contains("2 rows, but 3 labels"), "{said}");
    let short = folder.write("short.csv", "1\n");
    let said = refused(&["predict", &model, &npy, "--labels", &short]);
    assert!(said.contains("2 rows, but 1 labels"), "{said}");
    let two = folder.write("two.csv", "1,2\n3,4\n");
    let said = refused(&["predict", &model, &npy, "--labels", &two]);
    assert!(said.contains("the labels file has 2 columns, one is needed"), "{said}");
}
