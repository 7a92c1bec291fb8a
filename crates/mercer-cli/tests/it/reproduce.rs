//! `mercer reproduce`: options, all papers on one page, and interrupts. The numbers of the papers are tested in
//! `mercer-papers`.

use crate::common::{Folder, mercer, object, refused_with};

#[test]
fn papers_that_are_not_known_are_named() {
    let (code, text) = refused_with(&["reproduce", "vapnik95"]);
    assert_eq!(code, Some(1));
    assert!(text.contains("decoste03"), "{text}");
}

#[test]
fn all_papers_are_on_one_page() {
    let folder = Folder::new();
    let report = folder.path("papers");
    let object = object(&[
        "reproduce",
        "all",
        "--only",
        "Haberman",
        "--repeats",
        "1",
        "--report",
        &report,
        "--json",
    ]);
    // Only papers that ran count: no other one has a machine of this name.
    assert_eq!(object["ran"], serde_json::json!(["decoste03"]));
    assert_eq!(object["not_computed"].as_array().unwrap().len(), 4);
    let page = std::fs::read_to_string(format!("{report}/index.html")).unwrap();
    assert!(page.contains("Haberman") && page.contains("supports m"), "{page}");
    assert!(page.contains("Nothing was computed"), "no section is blank: {page}");
    let table = std::fs::read_to_string(format!("{report}/decoste03.txt")).unwrap();
    assert!(table.contains("min_wz"), "{table}");
    let (_, text) = refused_with(&["reproduce", "all", "--quick", "--only", "Haberman"]);
    assert!(text.contains("cannot be used with"), "{text}");
    let (code, text) = refused_with(&["reproduce", "all"]);
    assert!(code == Some(1) && text.contains("--report DIR"), "{text}");
}

/// Without its data, a paper is not reproduced: the exit code says so, and the message where they belong.
#[test]
fn missing_data_are_named() {
    let folder = Folder::new();
    let nowhere = folder.path("nowhere");
    for key in ["dm03", "decoste03", "og98"] {
        let only = ["--only", "MNIST 3v8,3v8"];
        let output = mercer(&[&["reproduce", key, "--data", &nowhere][..], &only].concat());
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(5), "{key}: {text}");
        assert!(text.contains("error: nothing was computed") && text.contains("ubyte"), "{text}");
        assert!(text.contains(&format!("put the files into {nowhere}")), "{text}");
        assert!(text.contains("--data DIR or $MERCER_DATA"), "{text}");
    }
    let output = mercer(&["reproduce", "decoste03", "--only", "nothing of that name"]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(5), "{text}");
    assert!(text.contains("none of its machines or parts was selected"), "{text}");
}

/// Ctrl-C stops the running paper; the page holds those before it.
#[cfg(unix)]
#[test]
fn all_papers_interrupted_leave_the_page_of_those_that_are_done() {
    let folder = Folder::new();
    let report = folder.path("report");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_mercer"));
    command.args(["reproduce", "all", "--only", "Haberman,growth", "--rows", "10000000"]);
    command.args(["--repeats", "1", "--report", &report]);
    let pipe = std::process::Stdio::piped;
    let mut child = command.stdout(pipe()).stderr(pipe()).spawn().unwrap();
    // The first paper is done; of those after it, only the last has work, which takes minutes.
    let first = std::path::Path::new(&report).join("decoste03.txt");
    while !first.exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it could be interrupted");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let pid = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let printed = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{printed}");
    assert!(printed.contains("index.html holds"), "{printed}");
    let page = std::fs::read_to_string(std::path::Path::new(&report).join("index.html")).unwrap();
    assert!(page.contains("Interrupted during") && page.contains("Haberman"));
}
