//! `cargo xtask words`: fails where a private word stands that the field has a standard word for.
//! The list is `xtask/words.toml`. It does not judge style; `docs/glossary.md` defines the words that stay.

use std::fs;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::source::is_word;
use crate::workspace::{Workspace, stdout_of};
use crate::{Args, Verb};

pub const VERB: Verb = Verb {
    name: "words",
    usage: "",
    about: "Fails on words of xtask/words.toml in code, messages and documentation, and names the standard word.",
    run,
};

/// The committed list, relative to the root.
const LIST: &str = "xtask/words.toml";
/// Pages of dated measurements keep the words of their day.
const OLD_PAGES: &str = "docs/benchmarks/";
/// What is read.
const PATTERNS: [&str; 6] = ["*.rs", "*.py", "*.pyi", "*.md", "*.toml", "*.html"];

/// One entry of the list.
#[derive(Debug)]
struct Rule {
    text: String,
    kind: Kind,
    standard: String,
    /// Beginnings of paths where the text has its ordinary meaning.
    except: Vec<String>,
}

/// How a text is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Exactly this identifier, capitals included; in code only.
    Name,
    /// A word, or a part of an identifier, in capitals or not.
    Word,
    /// Words in a row, in capitals or not.
    Phrase,
}

/// A place where a rule matches.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    path: String,
    line: usize,
    text: String,
    standard: String,
}

fn run(args: Args) -> Result<ExitCode> {
    args.finish()?;
    let findings = check(&Workspace::load()?)?;
    for Finding { path, line, text, standard } in &findings {
        println!("{path}:{line}: '{text}'; the standard term is '{standard}'");
    }
    println!("{} private words", findings.len());
    Ok(if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Fails if any rule matches.
pub fn must_hold(workspace: &Workspace) -> Result<()> {
    match check(workspace)?.as_slice() {
        [] => Ok(()),
        [first, ..] => bail!(
            "{}:{}: '{}'; the standard term is '{}' (`cargo xtask words` lists all)",
            first.path,
            first.line,
            first.text,
            first.standard
        ),
    }
}

fn check(workspace: &Workspace) -> Result<Vec<Finding>> {
    let list = fs::read_to_string(workspace.root.join(LIST)).context(LIST)?;
    let rules = parse(&list)?;
    let mut command = workspace.command("git");
    let files = stdout_of(command.args(["ls-files", "-z", "--"]).args(PATTERNS))?;
    let mut findings = Vec::new();
    for path in files.split_terminator('\0') {
        if path == LIST || path == file!() || path.starts_with(OLD_PAGES) {
            continue;
        }
        if let Ok(text) = fs::read_to_string(workspace.root.join(path)) {
            findings.extend(find(&rules, path, &text));
        }
    }
    Ok(findings)
}

fn parse(list: &str) -> Result<Vec<Rule>> {
    let table: toml::Table = list.parse().context(LIST)?;
    let rules = table.get("rule").and_then(toml::Value::as_array).context("no [[rule]]")?;
    rules.iter().map(rule).collect()
}

fn rule(value: &toml::Value) -> Result<Rule> {
    let text = |key: &str| value.get(key).and_then(toml::Value::as_str).map(str::to_owned);
    let (kind, word) = [(Kind::Name, "name"), (Kind::Word, "word"), (Kind::Phrase, "phrase")]
        .into_iter()
        .find_map(|(kind, key)| Some((kind, text(key)?)))
        .context("a rule has a name, a word or a phrase")?;
    let standard = text("standard").with_context(|| format!("'{word}' has no standard term"))?;
    let except = match value.get("except").and_then(toml::Value::as_array) {
        Some(paths) => paths.iter().filter_map(|path| Some(path.as_str()?.to_owned())).collect(),
        None => Vec::new(),
    };
    Ok(Rule { text: word, kind, standard, except })
}

/// All places of one file, the path included.
fn find(rules: &[Rule], path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_code = [".rs", ".py", ".pyi"].iter().any(|ending| path.ends_with(ending));
    let lines = (0..).zip(std::iter::once(path).chain(text.lines()));
    for (line, content) in lines {
        let names: Vec<&str> =
            content.split(|c| !is_word(c)).filter(|name| !name.is_empty()).collect();
        let parts: Vec<String> = names.iter().flat_map(|name| parts_of(name)).collect();
        let spaced = format!(" {} ", names.join(" ").to_lowercase());
        for rule in rules.iter().filter(|rule| !rule.except.iter().any(|p| path.starts_with(p))) {
            let matches = match rule.kind {
                Kind::Name => is_code && names.contains(&rule.text.as_str()),
                Kind::Word => parts.contains(&rule.text),
                Kind::Phrase => spaced.contains(&format!(" {} ", rule.text)),
            };
            if matches {
                let (text, standard) = (rule.text.clone(), rule.standard.clone());
                findings.push(Finding { path: path.to_owned(), line, text, standard });
            }
        }
    }
    findings
}

/// The words of an identifier in lower case: `FooBar_baz` has foo, bar and baz.
fn parts_of(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut was_lower = false;
    for c in name.chars() {
        if c == '_' || (c.is_uppercase() && was_lower) {
            parts.push(String::new());
        }
        if c != '_' {
            parts.last_mut().expect("never empty").extend(c.to_lowercase());
        }
        was_lower = c.is_lowercase() || c.is_numeric();
    }
    parts.retain(|part| !part.is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str = r#"
        [[rule]]
        word = "duel"
        standard = "pairwise classifier"
        except = ["games/"]
        [[rule]]
        name = "Closer"
        standard = "DecisionTracker"
        [[rule]]
        phrase = "places of memory"
        standard = "memory layouts"
    "#;

    fn found(path: &str, text: &str) -> Vec<(usize, String)> {
        let findings = find(&parse(RULES).unwrap(), path, text);
        findings.into_iter().map(|finding| (finding.line, finding.text)).collect()
    }

    #[test]
    fn words_are_found_inside_identifiers() {
        assert_eq!(found("a.rs", "fn a_duel() {}"), [(1, "duel".to_owned())]);
        assert_eq!(found("a.rs", "\nstruct DuelList;"), [(2, "duel".to_owned())]);
        assert_eq!(found("duel.rs", ""), [(0, "duel".to_owned())]);
        assert_eq!(found("a.rs", "residuel dueling"), []);
    }

    #[test]
    fn names_are_whole_identifiers() {
        assert_eq!(found("a.rs", "impl Closer {}"), [(1, "Closer".to_owned())]);
        assert_eq!(found("a.rs", "closer CloserLook"), []);
        assert_eq!(found("a.md", "Closer looks"), []);
    }

    #[test]
    fn phrases_are_words_in_a_row() {
        assert_eq!(found("a.md", "three Places of memory."), [(1, "places of memory".to_owned())]);
        assert_eq!(found("a.md", "places of memories"), []);
    }

    #[test]
    fn exceptions_are_beginnings_of_paths() {
        assert_eq!(found("games/a.rs", "duel"), []);
    }

    #[test]
    fn the_committed_list_is_read() {
        assert!(!parse(include_str!("../words.toml")).unwrap().is_empty());
    }

    #[test]
    fn a_rule_without_its_standard_term_is_refused() {
        assert!(parse("[[rule]]\nword = \"a\"").is_err());
        assert!(parse("[[rule]]\nstandard = \"a\"").is_err());
    }
}
