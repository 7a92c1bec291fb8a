//! Every `console` block of the guide is run: lines that begin with `$ ` are commands, in the order of the page.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Folder, SMALL};

/// Two crescents as a table, or a wave with its value.
pub fn table(rows: usize, from: usize, is_curve: bool) -> String {
    let mut text = String::from("x,y,label\n");
    for n in from..from + rows {
        let (a, b) = ((n as f64 * 0.618_033_9) % 1.0, (n as f64 * 0.754_877_6) % 1.0);
        let side = if n % 2 == 0 { 1.0 } else { -1.0 };
        let angle = std::f64::consts::PI * a;
        let (x, y) = (side * (angle.cos() - 0.5) + b - 0.5, side * (angle.sin() - 0.3) - b + 0.5);
        let label =
            if is_curve { format!("{:.4}", (3.0 * x).sin() + y) } else { format!("{side}") };
        let _ = writeln!(text, "{x:.5},{y:.5},{label}");
    }
    text
}

fn pages(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("the guide is there") {
        let path = entry.expect("it can be read").path();
        if path.is_dir() {
            found.extend(pages(&path));
        } else if path.extension().is_some_and(|ending| ending == "md") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Commands of a page's `console` blocks.
fn commands(text: &str) -> Vec<String> {
    let mut is_inside = false;
    let mut found = Vec::new();
    for line in text.lines() {
        if line.starts_with("```") {
            is_inside = line == "```console";
        } else if is_inside && let Some(command) = line.strip_prefix("$ ") {
            found.push(command.to_owned());
        }
    }
    found
}

fn run(page: &Path) -> usize {
    let commands = commands(&fs::read_to_string(page).expect("it can be read"));
    if commands.is_empty() {
        return 0;
    }
    let folder = Folder::new();
    folder.write("train.csv", &table(200, 0, false));
    folder.write("sample.csv", &table(600, 1000, false));
    folder.write("queries.csv", &table(100, 5000, false));
    folder.write("curve.csv", &table(200, 0, true));
    folder.write("old.model", SMALL);
    folder.write("old.svm", "1 1:1 2:0.1\n-1 1:0.2 2:1\n1 1:0.8\n-1 2:0.9\n");
    let bin = Path::new(env!("CARGO_BIN_EXE_mercer")).parent().expect("it lies in a folder");
    let path = std::env::var("PATH").unwrap_or_default();
    for command in &commands {
        let output = Command::new("sh")
            .args(["-c", command])
            .current_dir(folder.path(""))
            .env("PATH", format!("{}:{path}", bin.display()))
            .output()
            .expect("a shell");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {command}\n{said}", page.display());
    }
    commands.len()
}

#[test]
fn every_example_of_the_guide_runs() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide");
    let ran: usize = pages(&guide).iter().map(|page| run(page)).sum();
    assert!(ran >= 30, "only {ran} commands were found");
}

#[test]
fn every_verb_has_a_page() {
    let help = crate::common::done(&["--help"]);
    let verbs = help.lines().skip_while(|line| !line.starts_with("Commands:")).skip(1);
    let verbs = verbs.take_while(|line| line.starts_with("  "));
    // Long summaries go on in deeper lines.
    let verbs = verbs.filter(|line| !line.starts_with("   "));
    let names: Vec<&str> = verbs.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.len() > 10, "{help}");
    for name in names.into_iter().filter(|name| *name != "help") {
        let page = format!("{}/../../docs/guide/verbs/{name}.md", env!("CARGO_MANIFEST_DIR"));
        assert!(
            Path::new(&page).is_file(),
            "{page}: every verb has a page with an example that runs"
        );
    }
}
