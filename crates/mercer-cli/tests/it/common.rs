//! Helpers of the tests: run the command, temporary folders, data.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

pub fn mercer(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mercer")).args(arguments).output().expect("mercer starts")
}

/// What a command that must succeed prints.
pub fn done(arguments: &[&str]) -> String {
    let output = mercer(arguments);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {text}");
    String::from_utf8(output.stdout).expect("text")
}

/// As [`done`], for one JSON object.
pub fn object(arguments: &[&str]) -> Value {
    serde_json::from_str(&done(arguments)).expect("one JSON object")
}

/// Output of a command that is interrupted, as by Ctrl-C, after some milliseconds.
pub fn interrupted(command: &mut Command, milliseconds: u64) -> Output {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(milliseconds));
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    child.wait_with_output().unwrap()
}

/// Rows of LIBSVM text with random labels: nearly every row becomes a support. Values are integers below 2^24
/// over `divisor`.
pub fn noise(rows: usize, columns: usize, divisor: f64) -> String {
    let (mut text, mut state) = (String::new(), 1u64);
    for row in 0..rows {
        text.push_str(if row % 2 == 0 { "1" } else { "-1" });
        for column in 1..=columns {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let value = (state >> 40) as f64 / divisor;
            write!(text, " {column}:{value}").unwrap();
        }
        text.push('\n');
    }
    text
}

/// Exit code and standard error.
pub fn refused_with(arguments: &[&str]) -> (Option<i32>, String) {
    let output = mercer(arguments);
    assert!(output.stdout.is_empty(), "{arguments:?} printed to standard output");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// The message about bad input.
pub fn refused(arguments: &[&str]) -> String {
    let output = mercer(arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub fn dataset(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../datasets").join(name);
    path.to_str().expect("a plain path").to_owned()
}

/// The keys of a JSON object, sorted.
pub fn keys(object: &Value) -> Vec<&str> {
    object.as_object().expect("one object").keys().map(String::as_str).collect()
}

/// A temporary folder.
pub struct Folder(tempfile::TempDir);

impl Folder {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("a plain path").to_owned()
    }

    pub fn write(&self, name: &str, text: &str) -> String {
        fs::write(self.path(name), text).unwrap();
        self.path(name)
    }
}

/// Two supports, two classes, linear.
pub const SMALL: &str = "svm_type c_svc\nkernel_type linear\nnr_class 2\ntotal_sv 2\nrho 0\nlabel 1 -1\n\
    nr_sv 1 1\nSV\n1 1:1 \n-1 2:1 \n";
