//! Outputs are checked before the work, in every verb that writes: a wrong name is told before the data are read.

use std::fs;
use std::process::Command;

use crate::common::{Folder, SMALL, refused};

/// Every option that names an output file. `BAD` is read, and no reader accepts it.
const WRITERS: [&str; 25] = [
    "import M -o OUT",
    "export M -o OUT",
    "train BAD -o OUT",
    "train BAD -o ok --checkpoint OUT",
    "train BAD --from M -o ok --report OUT",
    "search BAD -o OUT",
    "search BAD --table OUT",
    "search BAD --svg OUT",
    "search BAD --journal OUT",
    "predict M BAD -o OUT",
    "predict M BAD --sets -o OUT",
    "convert BAD OUT --format csv",
    "convert BAD ok.csv --split 0.5 --rest OUT",
    "convert BAD ok.npy --labels-output OUT",
    "tune M --sample BAD -o OUT",
    "tune M --sample BAD -o ok --report OUT",
    "compile M --plan exact --sample BAD -o OUT",
    "compress M --sample BAD -o OUT",
    "compress M --sample BAD -o ok --svg OUT",
    "compress M --sample BAD -o ok --report OUT",
    "explain M BAD --svg OUT",
    "explain M BAD --report OUT",
    "demo --report OUT",
    "svm-train BAD OUT",
    "svm-predict BAD M OUT",
];

fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("M", SMALL);
    folder.write("BAD", "no rows at all\n");
    fs::create_dir(folder.path("there")).unwrap();
    folder
}

/// The message of a command that is run in the folder, and fails.
fn said(folder: &Folder, arguments: &str) -> String {
    let words: Vec<&str> = arguments.split(' ').collect();
    let mut command = Command::new(env!("CARGO_BIN_EXE_mercer"));
    let output = command.current_dir(folder.path(".")).args(words).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{arguments}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_wrong_output_is_told_before_the_data_are_read() {
    let folder = folder();
    for writer in WRITERS {
        let of = |name: &str| said(&folder, &writer.replace("OUT", name));
        let missing = of("no/out");
        assert!(missing.contains("no/out: there is no folder 'no'"), "{writer}: {missing}");
        let directory = of("there");
        assert!(directory.contains("there: this is a folder"), "{writer}: {directory}");
        let through = of("M/out");
        assert!(through.contains("'M' is not a folder"), "{writer}: {through}");
        if writer.starts_with("demo") {
            continue; // it reads no file
        }
        let input = of(if writer.contains("BAD") { "there/../BAD" } else { "there/../M" });
        assert!(input.contains("the command reads this file"), "{writer}: {input}");
    }
    let left: Vec<_> = fs::read_dir(folder.path(".")).unwrap().collect();
    assert_eq!(left.len(), 3, "{left:?}");
}

#[test]
fn a_place_without_permission_is_told_before_the_data_are_read() {
    let folder = folder();
    let locked = folder.path("there");
    Command::new("chmod").args(["a-w", &locked]).status().unwrap();
    if fs::write(folder.path("there/probe"), "").is_ok() {
        eprintln!("skipped: this user may write everywhere");
    } else {
        for writer in WRITERS {
            let message = said(&folder, &writer.replace("OUT", "there/out"));
            assert!(message.contains("there/out: Permission denied"), "{writer}: {message}");
        }
    }
    folder.write("old", "precious");
    Command::new("chmod").args(["a-w", &folder.path("old")]).status().unwrap();
    for writer in WRITERS {
        let message = said(&folder, &writer.replace("OUT", "old"));
        assert!(message.contains("old: the file is read-only"), "{writer}: {message}");
    }
}

#[test]
fn two_outputs_are_two_files_and_folders_are_checked_too() {
    let folder = folder();
    let message = said(&folder, "tune M --sample BAD -o out --report there/../out");
    assert!(message.contains("both --output and --report write here"), "{message}");
    let message = said(&folder, "convert BAD x.npy --labels x.labels.npy");
    assert!(message.contains("No such file"), "{message}");
    folder.write("x.labels.npy", "1\n");
    let message = said(&folder, "convert BAD x.npy --labels x.labels.npy");
    assert!(message.contains("x.labels.npy: the command reads this file"), "{message}");
    let message = said(&folder, "man --to M/pages");
    assert!(message.contains("'M' is not a folder"), "{message}");
    let message = said(&folder, "reproduce fs01 --figures M");
    assert!(message.contains("'M' is not a folder"), "{message}");
}

/// What is not a regular file is neither an input that is lost nor an output that is written twice.
#[test]
fn devices_are_written_as_they_are() {
    let folder = folder();
    let rows = folder.write("rows.svm", "1 1:1\n-1 1:2\n");
    let made = crate::common::mercer(&["train", &rows, "-o", "/dev/null", "-q"]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let missing = refused(&["train", &rows, "-o", "/dev/null", "--weights", "nothing"]);
    assert!(missing.contains("nothing: No such file"), "{missing}");
}
