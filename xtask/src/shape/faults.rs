//! What `shape` fails on: type names defined twice, tuple and array patterns as parameters, files
//! without a header.
//! Read from the text without a parser; code of tests may repeat names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::source::{code_only, find_word, is_word, line_of};

/// Every fault as a line, in the order of the files.
pub fn of(sources: &[(PathBuf, String)]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut types: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for (path, text) in sources {
        let code = without_tests(&code_only(text));
        let place = |line: usize| format!("{}:{line}", path.display());
        if !text.trim_start().starts_with("//!") {
            faults.push(format!("{}: it does not start with what it is for (`//!`)", place(1)));
        }
        for line in pattern_parameters(&code) {
            faults.push(format!(
                "{}: a parameter is a tuple or array pattern; name a struct",
                place(line)
            ));
        }
        if let Some(package) = package_of(path) {
            for (name, line) in types_of(&code) {
                types.entry((package.clone(), name)).or_default().push(place(line));
            }
        }
    }
    for ((package, name), places) in types {
        if places.len() > 1 {
            let places = places.join(", ");
            faults.push(format!("{package}: type {name} is defined {places}"));
        }
    }
    faults
}

/// The crate whose sources a file belongs to; none for tests, examples and benches.
fn package_of(path: &Path) -> Option<String> {
    let parts: Vec<&str> = path.iter().filter_map(|part| part.to_str()).collect();
    let is_test = |part: &&str| matches!(*part, "tests" | "tests.rs" | "examples" | "benches");
    if parts.iter().any(is_test) {
        return None;
    }
    let root = parts.iter().position(|part| matches!(*part, "src" | "rust"))?;
    Some(parts[..root].join("/"))
}

/// The code with modules behind `#[cfg(test)]` blanked.
fn without_tests(code: &[char]) -> Vec<char> {
    let mut code = code.to_vec();
    let marker: Vec<char> = "#[cfg(test)]".chars().collect();
    let mut at = 0;
    while let Some(found) = code[at..].windows(marker.len()).position(|window| window == marker) {
        let start = at + found;
        let end = end_of_item(&code, start + marker.len());
        for place in &mut code[start..end] {
            if *place != '\n' {
                *place = ' ';
            }
        }
        at = end;
    }
    code
}

/// The place behind the `;` or the closing brace of the item that follows.
fn end_of_item(code: &[char], start: usize) -> usize {
    let mut depth = 0_usize;
    for (place, c) in code.iter().enumerate().skip(start) {
        match c {
            ';' if depth == 0 => return place + 1,
            '{' => depth += 1,
            '}' if depth <= 1 => return place + 1,
            '}' => depth -= 1,
            _ => {}
        }
    }
    code.len()
}

/// Types that the code defines, with their lines. Associated types are not counted: they are indented.
fn types_of(code: &[char]) -> Vec<(String, usize)> {
    let mut types = Vec::new();
    for keyword in ["struct", "enum", "trait", "union", "type"] {
        for start in find_word(code, keyword) {
            let name: String = code[start + keyword.len()..]
                .iter()
                .skip_while(|c| c.is_whitespace())
                .take_while(|c| is_word(**c))
                .collect();
            let is_type = name.starts_with(char::is_uppercase);
            if is_type && (keyword != "type" || !is_indented(code, start)) {
                types.push((name, line_of(code, start)));
            }
        }
    }
    types
}

fn is_indented(code: &[char], place: usize) -> bool {
    let line = code[..place].iter().rposition(|c| *c == '\n').map_or(0, |end| end + 1);
    code[line].is_whitespace()
}

/// Lines of functions with a parameter that is a tuple or array pattern.
fn pattern_parameters(code: &[char]) -> Vec<usize> {
    let starts = find_word(code, "fn").into_iter();
    starts.filter(|&start| has_pattern(code, start)).map(|start| line_of(code, start)).collect()
}

/// Whether a parameter of the function whose `fn` is at `start` begins with a bracket.
fn has_pattern(code: &[char], start: usize) -> bool {
    let named = code[start + 2..].iter().position(|c| !c.is_whitespace());
    if named.is_none_or(|offset| !is_word(code[start + 2 + offset])) {
        return false; // a pointer type: fn(...)
    }
    let Some(open) = opening_bracket(code, start) else { return false };
    let (mut depth, mut is_at_start) = (0_i32, false);
    for (place, c) in code.iter().enumerate().skip(open) {
        match c {
            '(' | '[' if depth == 1 && is_at_start => return true,
            '>' if code[place - 1] == '-' => {}
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' | '>' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return false;
        }
        is_at_start = depth == 1 && (*c == ',' || *c == '(' || (is_at_start && c.is_whitespace()));
    }
    false
}

/// Where the list of parameters opens, behind the name and its generic parameters.
fn opening_bracket(code: &[char], start: usize) -> Option<usize> {
    let mut angles = 0_i32;
    for (place, c) in code.iter().enumerate().skip(start) {
        match c {
            '<' => angles += 1,
            '>' if code[place - 1] != '-' => angles -= 1,
            '(' if angles == 0 => return Some(place),
            ';' | '{' => return None,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(files: &[(&str, &str)]) -> Vec<String> {
        let owned = |(path, text): &(&str, &str)| (PathBuf::from(path), (*text).to_owned());
        of(&files.iter().map(owned).collect::<Vec<_>>())
    }

    #[test]
    fn a_type_defined_twice_in_a_crate_is_a_fault() {
        let a = ("crates/a/src/x.rs", "//! X.\nstruct Rows;\n");
        let b = ("crates/a/src/y.rs", "//! Y.\npub enum Rows { A }\n");
        let c = ("crates/c/src/y.rs", "//! Y.\npub enum Rows { A }\n");
        let found = faults(&[a, b, c]);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("type Rows") && found[0].contains("y.rs:2"), "{found:?}");
        assert_eq!(faults(&[a, c]), [""; 0]);
    }

    #[test]
    fn tests_may_repeat_names_and_implementations_have_types_of_their_own() {
        let a =
            ("crates/a/src/x.rs", "//! X.\nstruct Rows;\n#[cfg(test)]\nmod t { struct Rows; }\n");
        let b = ("crates/a/tests/it.rs", "//! T.\nstruct Rows;\n");
        let c = ("crates/a/src/y.rs", "//! Y.\nimpl T for A {\n    type Rows = u8;\n}\n");
        assert_eq!(faults(&[a, b, c]), [""; 0]);
    }

    #[test]
    fn patterns_are_faults_only_as_parameters() {
        let file = |text: &'static str| [("crates/a/src/x.rs", text)];
        assert_eq!(faults(&file("//! X.\nfn f((a, b): (u8, u8)) {}\n")).len(), 1);
        assert_eq!(
            faults(&file("//! X.\nfn f<T: Fn(u8) -> u8>(\n    x: T,\n    (a, b): P,\n) {}\n"))
                .len(),
            1
        );
        assert_eq!(faults(&file("//! X.\nfn f(&self, [a, b]: [u8; 2]) {}\n")).len(), 1);
        let fine =
            "//! X.\nfn f(a: (u8, u8), b: [u8; 2], g: fn((u8, u8)) -> u8) { h(|(a, b)| a) }\n";
        assert_eq!(faults(&file(fine)), [""; 0]);
    }

    #[test]
    fn a_file_without_a_header_is_a_fault() {
        assert_eq!(faults(&[("crates/a/src/x.rs", "use a;\n")]).len(), 1);
    }
}
