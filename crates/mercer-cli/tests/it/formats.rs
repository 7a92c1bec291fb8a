//! Data and model formats: reading, writing, converting and checking files.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::common::{Folder, SMALL, dataset, done, refused};

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
fn data_survive_the_way_from_every_format_to_every_other() {
    let folder = Folder::new();
    let start = folder.write(
        "s.csv",
        "a,b,c,label\n0.1,0,-3e-300,1\n0,0,0,2\n1e17,5e-324,0,1\n0.3333333333333333,7,255,2\n",
    );
    let convert = |from: &str, to: &str| {
        let (stem, ending) = from.rsplit_once('.').unwrap();
        let labels = format!("{stem}.labels.npy");
        let mut words = vec!["convert", from, to];
        if ["npy", "idx"].contains(&ending) {
            words.extend(["--labels", &labels]);
        }
        done(&words);
    };
    // LIBSVM text has no names, so the columns are compared as it calls them.
    let (plain, expected) = (folder.path("plain.svm"), folder.path("expected.csv"));
    convert(&start, &plain);
    convert(&plain, &expected);
    let endings = ["svm", "csv", "tsv", "npy", "idx", "arrow", "parquet"];
    for first in endings {
        let one = folder.path(&format!("one-{first}.{first}"));
        convert(&expected, &one);
        for second in endings {
            let two = folder.path(&format!("two-{first}-{second}.{second}"));
            convert(&one, &two);
            let last = folder.path("last.csv");
            convert(&two, &last);
            let bytes = |path: &str| fs::read_to_string(path).unwrap();
            assert_eq!(bytes(&last), bytes(&expected), "{first} to {second}");
        }
    }
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
fn means_of_the_examples_are_stored_in_the_model() {
    let folder = Folder::new();
    let row = |at: u32| {
        let size = if at.is_multiple_of(7) { String::new() } else { (at % 10).to_string() };
        format!("{size},{},{}\n", at % 3, u8::from(at % 10 > 4))
    };
    let text = "size,kind,label\n".to_owned() + &(1..60).map(row).collect::<String>();
    let (data, model) = (folder.write("d.csv", &text), folder.path("m.mercer"));
    let said = refused(&["train", &data, "-o", &model]);
    assert!(said.contains("line 8: column 'size' is empty"), "{said}");
    let scaled = ["train", &data, "-o", &model, "--missing", "mean", "--scale", "standard"];
    done(&scaled);
    assert!(done(&["inspect", &model]).contains("missing values"));
    // The mean of the examples, whatever else the file of queries holds.
    let sizes: Vec<f64> = (1..60).filter(|at| at % 7 != 0).map(|at| f64::from(at % 10)).collect();
    let mean: f64 = sizes.iter().map(|size| size / sizes.len() as f64).sum();
    let holes = folder.write("q.csv", "size,kind\n,1\n900,2\nNA,0\n");
    let filled = format!("size,kind\n{mean},1\n900,2\n{mean},0\n");
    let filled = folder.write("f.csv", &filled);
    let table = |data: &str| done(&["predict", &model, data, "--format", "csv"]);
    assert_eq!(table(&holes), table(&filled));
    let said = refused(&["predict", &model, &holes, "--missing", "error"]);
    assert!(said.contains("line 2: column 'size' is empty"), "{said}");
    done(&["train", &filled, "-o", &model, "--label", "kind"]);
    let said = refused(&["predict", &model, &holes, "--missing", "mean"]);
    assert!(said.contains("q.csv: the model contains no means"), "{said}");
}

#[test]
fn tables_of_every_kind_train_and_answer_alike() {
    let folder = Folder::new();
    let row = |at: u32| {
        let colour = ["red", "blue", "a colour of more than twelve bytes"][at as usize % 3];
        let label = if (at % 11) * (1 + at % 3) > 9 { "far" } else { "near" };
        format!("n{at},{},{colour},{},{label}\n", at % 11, f64::from(at % 7) / 7.0)
    };
    let head = "name,size,colour,rest,label\n".to_owned();
    let text = head.clone() + &(0..80).map(row).collect::<String>();
    let shuffled: String = (0..30).map(|at| row(at * 5 + 1)).collect();
    let (data, queries) =
        (folder.write("d.csv", &text), folder.write("q.csv", &(head + &shuffled)));
    let flags = ["--one-hot", "colour", "--id", "name"];
    // Row, id and label; ranges differ by a rounding between sparse and dense rows.
    let first = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.split(',').take(3).collect::<Vec<_>>().join(",")).collect()
    };
    let model = folder.path("m.mercer");
    done(&[&["train", &data, "-o", &model], &flags[..]].concat());
    let expected = first(&done(&["predict", &model, &queries, "--id", "name", "--format", "csv"]));
    assert_eq!(expected[..2], ["row,id,label", "1,n1,near"]);
    for ending in ["arrow", "parquet", "csv"] {
        // The words of categories are in no format but tables: they are turned into columns on the way.
        let hot = |from: &str, to: &str| {
            let to = folder.path(&format!("{to}-hot.{ending}"));
            done(&[&["convert", from, &to, "--format", ending], &flags[..]].concat());
            to
        };
        let (data, queries) = (hot(&data, "d"), hot(&queries, "q"));
        let model = folder.path("hot.mercer");
        done(&["train", &data, "-o", &model, "--id", "id"]);
        let told = done(&["predict", &model, &queries, "--id", "id", "--format", "csv"]);
        assert_eq!(first(&told), expected, "{ending}");
    }
    // Files of polars, whose words are views.
    for name in ["views.arrow", "views.parquet"] {
        let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../mercer-data/tests/golden/");
        let golden = format!("{golden}{name}");
        let model = folder.path("p.mercer");
        let flags = ["--missing", "mean", "--one-hot", "colour,raw,kind", "--id", "name"];
        done(&[&["train", &golden, "-o", &model], &flags[..]].concat());
        let told = done(&["predict", &model, &golden, "--id", "name", "--format", "jsonl"]);
        assert_eq!(told.lines().count(), 5, "{told}");
        assert!(told.lines().next().unwrap().contains("\"id\":\"a\""), "{told}");
    }
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
fn check_finds_what_is_wrong_with_data() {
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
    for wanted in ["'same'", "'large'", "have another label", "--class-weight"] {
        assert!(remarks.contains(wanted), "{wanted}: {remarks}");
    }
    let text = done(&["check", &data]);
    for wanted in [
        "suggested kernel",
        "suggested solver",
        "suggested scaling",
        "training seconds",
        "training memory bytes",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    // Missing values and NaN are counted, and the rest is told all the same.
    let holes = text_with_holes(&folder);
    let found: Value = serde_json::from_str(&done(&["check", &holes, "--json"])).unwrap();
    assert_eq!((&found["rows"], &found["rows_with_missing_values"]), (&62.into(), &2.into()));
    assert!(found["remarks"].to_string().contains("line 3: column 'small' is NaN"), "{found}");
}

fn text_with_holes(folder: &Folder) -> String {
    let row = |at: u32| match at {
        1 => "nan,2,0\n".to_owned(),
        5 => "0.5,,1\n".to_owned(),
        _ => format!("{},{},{}\n", at % 7, at % 11, at % 2),
    };
    folder
        .write("h.csv", &("small,large,label\n".to_owned() + &(0..62).map(row).collect::<String>()))
}

#[test]
fn check_reports_what_exports_of_a_model_lose() {
    let folder = Folder::new();
    let model = dataset("digits/digits.model");
    let found: Value = serde_json::from_str(&done(&["check", &model, "--json"])).unwrap();
    assert_eq!(
        (&found["supports"], &found["as_libsvm"], &found["as_onnx"]),
        (&616.into(), &0.into(), &0.into())
    );
    assert_eq!(found["as_liblinear"], Value::Null);
    assert_eq!(found["in_f32"]["changed_labels"], 0, "{found}");
    assert!(found["condition_number"].as_f64().unwrap() > 1.0, "{found}");
    assert!(found["bounded_share"].as_f64().unwrap() > 0.0, "{found}");
    // Rows that only differ beyond the 24 bits of a float: the boundary moves.
    let close =
        SMALL.replace("1:1 ", "1:1.00000001 ").replace("2:1 ", "1:1 ").replace("rho 0", "rho 1e-8");
    let model = folder.write("close.model", &close);
    let queries = folder.write("q.svm", "1 1:1.5\n-1 1:0.5\n");
    let text = done(&["check", &model, "--sample", &queries]);
    assert!(text.contains("as onnx, 1 of 2 labels of the sample change"), "{text}");
    assert!(text.contains("in 32-bit floats, 1 of 2 labels of the sample change"), "{text}");
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
