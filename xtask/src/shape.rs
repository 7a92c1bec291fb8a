//! `cargo xtask shape`: fails on what makes a crate hard to read (`faults`), and lists long files and functions.
//! Long ones are a place to look, not a verdict. Words are the matter of `words.rs`.

mod faults;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use serde_json::json;

use crate::source::{code_only, find_word, is_word, line_of, rust_files};
use crate::workspace::{Workspace, stdout_of};
use crate::{Args, Verb};

pub const VERB: Verb = Verb {
    name: "shape",
    usage: "[--json]",
    about: "Fails on a type name that is defined twice in a crate, on parameters that are tuple or array patterns,\n\
            and on files that do not start with what they are for. Lists Rust files over 500 lines and functions\n\
            over 60: a place to look, not a verdict.\n\
            --json  prints one object instead of lines",
    run,
};

const FILE_LINES: usize = 500;
const FUNCTION_LINES: usize = 60;

/// A function with a body.
#[derive(Debug, PartialEq)]
struct Function {
    name: String,
    /// The line of its `fn`, from 1.
    line: usize,
    lines: usize,
}

fn run(mut args: Args) -> Result<ExitCode> {
    let as_json = args.flag("--json");
    args.finish()?;
    let workspace = Workspace::load()?;
    let (mut files, mut functions) = (Vec::new(), Vec::new());
    let sources = sources(&workspace)?;
    for (path, text) in &sources {
        let lines = text.lines().count();
        let found = functions_of(text).into_iter().filter(|f| f.lines > FUNCTION_LINES);
        functions.extend(found.map(|function| (path.display().to_string(), function)));
        if lines > FILE_LINES {
            files.push((path.display().to_string(), lines));
        }
    }
    files.sort_by_key(|(_, lines)| std::cmp::Reverse(*lines));
    functions.sort_by_key(|(_, function)| std::cmp::Reverse(function.lines));
    let faults = faults::of(&sources);
    if as_json {
        print_json(&faults, &files, &functions);
    } else {
        print_lines(&faults, &files, &functions);
    }
    Ok(if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Fails on the first fault.
pub fn must_hold(workspace: &Workspace) -> Result<()> {
    match faults::of(&sources(workspace)?).first() {
        Some(fault) => bail!("{fault} (`cargo xtask shape` lists all)"),
        None => Ok(()),
    }
}

/// Tracked Rust files with their texts; those deleted in this working tree are left out.
fn sources(workspace: &Workspace) -> Result<Vec<(PathBuf, String)>> {
    let paths = tracked_files(workspace)?.into_iter();
    Ok(paths
        .filter_map(|path| {
            let text = fs::read_to_string(workspace.root.join(&path)).ok()?;
            Some((path, text))
        })
        .collect())
}

/// The Rust files git knows, relative to the root; all there are where git is of no help.
fn tracked_files(workspace: &Workspace) -> Result<Vec<PathBuf>> {
    let list = ["ls-files", "-z", "--", "*.rs"];
    if let Ok(list) = stdout_of(workspace.command("git").args(list)) {
        return Ok(list.split_terminator('\0').map(PathBuf::from).collect());
    }
    let files = rust_files(&workspace.root)?.into_iter();
    Ok(files.map(|path| workspace.shown(&path).into()).collect())
}

/// Every function with a body, found by counting braces.
fn functions_of(text: &str) -> Vec<Function> {
    let code = code_only(text);
    let mut functions = Vec::new();
    for start in find_word(&code, "fn") {
        let name: String = code[start + 2..]
            .iter()
            .skip_while(|c| c.is_whitespace())
            .take_while(|c| is_word(**c))
            .collect();
        let Some(end) = end_of_body(&code, start) else {
            continue;
        };
        if !name.is_empty() {
            let line = line_of(&code, start);
            functions.push(Function { name, line, lines: line_of(&code, end) - line + 1 });
        }
    }
    functions
}

/// The place of the brace that closes the body of the function at `start`, if it has one.
fn end_of_body(code: &[char], start: usize) -> Option<usize> {
    let (mut brackets, mut braces) = (0_i32, 0_i32);
    for (place, c) in code.iter().enumerate().skip(start) {
        match c {
            '(' | '[' => brackets += 1,
            ')' | ']' => brackets -= 1,
            '{' => braces += 1,
            '}' => braces -= 1,
            ';' if brackets == 0 && braces == 0 => return None,
            _ => {}
        }
        match (c, braces) {
            ('}', 0) if brackets == 0 => return Some(place),
            (_, ..0) => return None,
            _ => {}
        }
    }
    None
}

fn print_lines(faults: &[String], files: &[(String, usize)], functions: &[(String, Function)]) {
    println!("{} faults", faults.len());
    faults.iter().for_each(|fault| println!("  {fault}"));
    println!("{} files over {FILE_LINES} lines", files.len());
    for (file, lines) in files {
        println!("  {lines:5}  {file}");
    }
    println!("{} functions over {FUNCTION_LINES} lines", functions.len());
    for (file, Function { name, line, lines }) in functions {
        println!("  {lines:5}  {file}:{line} {name}");
    }
}

fn print_json(faults: &[String], files: &[(String, usize)], functions: &[(String, Function)]) {
    let files: Vec<_> =
        files.iter().map(|(file, lines)| json!({"file": file, "lines": lines})).collect();
    let functions: Vec<_> = functions
        .iter()
        .map(|(file, f)| json!({"file": file, "line": f.line, "name": f.name, "lines": f.lines}))
        .collect();
    println!("{}", json!({"faults": faults, "files": files, "functions": functions}));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str, line: usize, lines: usize) -> Function {
        Function { name: name.to_owned(), line, lines }
    }

    #[test]
    fn a_function_ends_at_its_own_brace() {
        let text = "fn a() {\n  if x { \"}\" }\n}\n\nfn b(x: [u8; 2]) -> u8\n{\n  1\n}\n";
        assert_eq!(functions_of(text), [function("a", 1, 3), function("b", 5, 4)]);
    }

    #[test]
    fn declarations_and_pointers_have_no_body() {
        let text = "trait T {\n  fn a(&self);\n  fn b(&self) {}\n}\ntype P = fn(u8) -> u8;\n";
        assert_eq!(functions_of(text), [function("b", 3, 1)]);
    }

    #[test]
    fn a_function_inside_another_counts_for_both() {
        let text = "fn a() {\n  fn b() {\n  }\n}\n";
        assert_eq!(functions_of(text), [function("a", 1, 4), function("b", 2, 2)]);
    }
}
