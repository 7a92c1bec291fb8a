//! `cargo xtask shape`: lists long files and long functions, as a place to look.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;

use crate::source::{code_only, find_word, is_word, line_of, rust_files};
use crate::workspace::{Workspace, stdout_of};
use crate::{Args, Verb};

pub const VERB: Verb = Verb {
    name: "shape",
    usage: "[--json]",
    about: "Lists Rust files over 500 lines and functions over 60: a place to look, not a verdict.\n\
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
    for path in tracked_files(&workspace)? {
        let Ok(text) = fs::read_to_string(workspace.root.join(&path)) else {
            continue; // tracked, but deleted in this working tree
        };
        let lines = text.lines().count();
        let found = functions_of(&text).into_iter().filter(|f| f.lines > FUNCTION_LINES);
        functions.extend(found.map(|function| (path.display().to_string(), function)));
        if lines > FILE_LINES {
            files.push((path.display().to_string(), lines));
        }
    }
    files.sort_by_key(|(_, lines)| std::cmp::Reverse(*lines));
    functions.sort_by_key(|(_, function)| std::cmp::Reverse(function.lines));
    if as_json {
        print_json(&files, &functions);
    } else {
        print_lines(&files, &functions);
    }
    Ok(ExitCode::SUCCESS)
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

fn print_lines(files: &[(String, usize)], functions: &[(String, Function)]) {
    println!("{} files over {FILE_LINES} lines", files.len());
    for (file, lines) in files {
        println!("  {lines:5}  {file}");
    }
    println!("{} functions over {FUNCTION_LINES} lines", functions.len());
    for (file, Function { name, line, lines }) in functions {
        println!("  {lines:5}  {file}:{line} {name}");
    }
}

fn print_json(files: &[(String, usize)], functions: &[(String, Function)]) {
    let files: Vec<_> =
        files.iter().map(|(file, lines)| json!({"file": file, "lines": lines})).collect();
    let functions: Vec<_> = functions
        .iter()
        .map(|(file, f)| json!({"file": file, "line": f.line, "name": f.name, "lines": f.lines}))
        .collect();
    println!("{}", json!({"files": files, "functions": functions}));
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
