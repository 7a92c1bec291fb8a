//! Damaged files: the message names the file, and an existing output stays as it was.

use std::fs;

use crate::common::{Folder, done, mercer};
use mercer_testkit::mutations::variants;

/// Variants of each kind; every one starts a process.
const VARIANTS: usize = 25;

/// Runs a command on damaged variants of a file: `{}` stands for the file, `{out}` for the output.
fn survive(folder: &Folder, name: &str, good: &[u8], arguments: &[&str]) {
    let (file, out) = (folder.path(&format!("damaged-{name}")), folder.path("out.csv"));
    let mut refused = 0;
    for bytes in variants(good, 7).take(VARIANTS) {
        fs::write(&file, bytes).unwrap();
        fs::write(&out, "precious").unwrap();
        let filled = arguments.iter().map(|word| match *word {
            "{}" => file.as_str(),
            "{out}" => out.as_str(),
            other => other,
        });
        let run = mercer(&filled.collect::<Vec<_>>());
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        match run.status.code() {
            Some(0) => {}
            Some(1) => {
                refused += 1;
                assert!(said.contains(&file), "{name}: {said}");
                assert_eq!(fs::read_to_string(&out).unwrap(), "precious", "{name}: {said}");
            }
            code => panic!("{name}: exit code {code:?}: {said}"),
        }
    }
    assert!(refused > 0, "{name}: nothing was refused");
    let left = fs::read_dir(folder.path("."))
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().ends_with(".tmp"));
    assert_eq!(left.count(), 0, "{name}: a temporary file is left");
}

#[test]
fn damaged_data_files_are_named_and_outputs_stay() {
    let folder = Folder::new();
    let table = folder.write("d.csv", "a,b,label\n1,2.5,1\n-3,4,2\n5,6,1\n7,1e-3,2\n");
    let mut files = vec![("d.csv".to_owned(), fs::read(&table).unwrap())];
    for name in ["d.svm", "d.npy", "d.arrow", "d.parquet"] {
        let path = folder.path(name);
        done(&["convert", &table, &path]);
        files.push((name.to_owned(), fs::read(path).unwrap()));
    }
    let mut idx = vec![0, 0, 8, 2, 0, 0, 0, 3, 0, 0, 0, 2];
    idx.extend(1..=6);
    files.push(("d.idx".to_owned(), idx));
    for (name, bytes) in files {
        survive(&folder, &name, &bytes, &["convert", "{}", "{out}", "--max-unpacked", "1MiB"]);
    }
}

#[test]
fn damaged_model_files_are_named_and_outputs_stay() {
    let folder = Folder::new();
    let queries = folder.write("q.svm", "1 1:1\n-1 2:1\n");
    let small = folder.write("m.model", crate::common::SMALL);
    let linear = "solver_type L2R_L2LOSS_SVC\nnr_class 2\nlabel 1 -1\nnr_feature 2\nbias 1\nw\n\
                  0.5\n-1\n0.25\n";
    let mut files = vec![
        ("m.model".to_owned(), crate::common::SMALL.as_bytes().to_vec()),
        ("l.model".to_owned(), linear.as_bytes().to_vec()),
    ];
    for (name, format) in [("m.onnx", "onnx"), ("m.mercer", "mercer")] {
        let path = folder.path(name);
        done(&["export", &small, "--format", format, "-o", &path]);
        files.push((name.to_owned(), fs::read(path).unwrap()));
    }
    for (name, bytes) in files {
        survive(&folder, &name, &bytes, &["predict", "{}", &queries, "-o", "{out}"]);
    }
}
