//! Completions, manual pages and colours: generated from the parser, they name every verb and flag.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use crate::common::{Folder, done, mercer, object};

/// The verbs, as `mercer --help` lists them.
pub fn verbs() -> Vec<String> {
    let help = done(&["--help"]);
    let listed = help.split("Commands:\n").nth(1).and_then(|rest| rest.split("\n\n").next());
    let lines = listed.expect("a list of commands").lines();
    let names = lines.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    names.filter(|name| !name.is_empty() && *name != "help").map(str::to_owned).collect()
}

#[test]
fn completions_name_every_verb_and_shells_accept_them() {
    let verbs = verbs();
    assert!(verbs.len() > 10, "{verbs:?}");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let text = done(&["completions", shell]);
        for verb in &verbs {
            assert!(text.contains(verb.as_str()), "{shell}: {verb}");
        }
        for flag in ["budget-us", "input-format", "log-level"] {
            assert!(text.contains(flag), "{shell}: {flag}");
        }
    }
    // bash itself offers what follows `mercer pre`.
    let script = done(&["completions", "bash"])
        + "\nCOMP_WORDS=(mercer pre); COMP_CWORD=1; _mercer mercer pre mercer\n\
           printf '%s\\n' \"${COMPREPLY[@]}\"\n";
    let Ok(mut bash) = Command::new("bash").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()
    else {
        eprintln!("skipped: there is no bash");
        return;
    };
    bash.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let said = bash.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&said.stdout).trim(), "predict");
}

#[test]
fn manual_pages_are_written_for_every_verb() {
    let folder = Folder::new();
    let to = folder.path("man");
    let told = object(&["man", "--to", &to, "--json"]);
    let files: Vec<&str> =
        told["files"].as_array().unwrap().iter().map(|f| f.as_str().unwrap()).collect();
    assert_eq!(files.len(), verbs().len() + 1);
    for verb in verbs() {
        let text = fs::read_to_string(format!("{to}/mercer-{verb}.1")).unwrap();
        assert!(text.contains(".TH MERCER-") && text.contains("\\-\\-threads"), "{verb}: {text}");
    }
    let page = done(&["man"]);
    assert_eq!(page, fs::read_to_string(format!("{to}/mercer.1")).unwrap());
    assert!(page.contains("mercer\\-predict"), "{page}");
}

#[test]
fn colours_stay_away_from_pipes() {
    let output = mercer(&["inspect", "/nonexistent/model"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.starts_with("error: /nonexistent/model"), "{said}");
    assert!(!said.contains('\u{1b}') && !done(&["--help"]).contains('\u{1b}'));
}
