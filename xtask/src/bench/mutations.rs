//! `cargo xtask bench mutations`: weakens each bound of `xtask/mutations.toml` on purpose, in a copy of the workspace,
//! and says for which of them no test fails. It changes nothing in the workspace itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use super::Options;
use crate::workspace::{Workspace, stdout_of};

/// The test that should notice, and the tests that are asked if it does not.
const ATTACK: &[&str] = &["-p", "mercer-compile", "--test", "it", "--", "attack::a_million"];
const OTHERS: &[&str] = &["-p", "mercer-kernel", "-p", "mercer-query", "-p", "mercer-compile"];

/// The list of mutations.
const LIST: &str = "xtask/mutations.toml";

/// A bound made too small.
#[derive(Debug)]
struct Mutation {
    /// What is weakened.
    name: String,
    file: String,
    /// Text that occurs once in the file.
    find: String,
    replace: String,
}

/// Which tests failed on a weakened bound.
#[derive(Debug, PartialEq, Eq)]
enum MutationResult {
    Attack,
    Others,
    None,
    DoesNotCompile,
}

/// Applies one mutation after the other; `--task TEXT` takes those whose names contain the text.
pub fn run(options: &Options) -> Result<ExitCode> {
    let workspace = Workspace::load()?;
    let list = parse(&fs::read_to_string(workspace.root.join(LIST))?)?;
    let is_named = |one: &&Mutation| options.tasks.iter().any(|text| one.name.contains(text));
    let wanted: Vec<&Mutation> =
        list.iter().filter(|one| options.tasks.is_empty() || is_named(one)).collect();
    let scratch = Scratch::new(&workspace)?;
    for mutation in &wanted {
        mutation.applied(&fs::read_to_string(scratch.source.join(&mutation.file))?)?;
    }
    println!("mutations: {} bounds; first the tests without any", wanted.len());
    ensure!(scratch.passes(ATTACK)?, "the attack fails without a mutation");
    let mut survivors = Vec::new();
    for (place, mutation) in wanted.iter().enumerate() {
        let started = Instant::now();
        let outcome = scratch.outcome(mutation)?;
        let said = match outcome {
            MutationResult::Attack => "the attack fails",
            MutationResult::Others => "another test fails",
            MutationResult::None => "NO TEST FAILS",
            MutationResult::DoesNotCompile => "DOES NOT COMPILE",
        };
        let seconds = started.elapsed().as_secs_f64();
        println!("{:>3}/{} {said:<18} {} ({seconds:.0} s)", place + 1, wanted.len(), mutation.name);
        if matches!(outcome, MutationResult::None | MutationResult::DoesNotCompile) {
            survivors.push(mutation.name.as_str());
        }
    }
    println!("mutations: {} of {} bounds have no test that fails", survivors.len(), wanted.len());
    survivors.iter().for_each(|name| println!("  {name}"));
    Ok(if survivors.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn parse(list: &str) -> Result<Vec<Mutation>> {
    let table: toml::Table = list.parse().context(LIST)?;
    let mutations =
        table.get("mutation").and_then(toml::Value::as_array).context("no [[mutation]]")?;
    let one = |value: &toml::Value| {
        let text = |key: &str| {
            let text = value.get(key).and_then(toml::Value::as_str).map(str::to_owned);
            text.with_context(|| format!("{LIST}: a mutation without {key}"))
        };
        let (name, file) = (text("name")?, text("file")?);
        Ok(Mutation { name, file, find: text("find")?, replace: text("replace")? })
    };
    mutations.iter().map(one).collect()
}

impl Mutation {
    /// The file's text with the bound weakened.
    fn applied(&self, text: &str) -> Result<String> {
        let count = text.matches(&self.find).count();
        if count != 1 {
            bail!("{}: its text occurs {count} times in {}", self.name, self.file);
        }
        Ok(text.replacen(&self.find, &self.replace, 1))
    }
}

/// A copy of the workspace that may be broken.
struct Scratch {
    source: PathBuf,
    target: PathBuf,
}

impl Scratch {
    /// Copies every file that git knows, as it is now; files that did not change stay, so that little is built again.
    fn new(workspace: &Workspace) -> Result<Self> {
        let home = workspace.target.join("mutations");
        let (source, target) = (home.join("source"), home.join("build"));
        let mut list = workspace.command("git");
        for file in stdout_of(list.args(["ls-files", "-z"]))?.split('\0') {
            let from = workspace.root.join(file);
            if !file.is_empty() && from.is_file() {
                write_changed(&source.join(file), &fs::read(from)?)?;
            }
        }
        Ok(Self { source, target })
    }

    fn outcome(&self, mutation: &Mutation) -> Result<MutationResult> {
        let path = self.source.join(&mutation.file);
        let original = fs::read_to_string(&path)?;
        fs::write(&path, mutation.applied(&original)?)?;
        let outcome = self.judge();
        fs::write(&path, original)?;
        outcome
    }

    fn judge(&self) -> Result<MutationResult> {
        let build = ["test", "--no-run", "-p", "mercer-compile", "--test", "it"];
        if !self.succeeds(&build)? {
            return Ok(MutationResult::DoesNotCompile);
        }
        if !self.passes(ATTACK)? {
            return Ok(MutationResult::Attack);
        }
        Ok(if self.passes(OTHERS)? { MutationResult::None } else { MutationResult::Others })
    }

    /// Whether these tests pass.
    fn passes(&self, words: &[&str]) -> Result<bool> {
        self.succeeds(&[&["test"], words].concat())
    }

    fn succeeds(&self, words: &[&str]) -> Result<bool> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.current_dir(&self.source).args(words).env("CARGO_TARGET_DIR", &self.target);
        let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        Ok(status.context("cannot start cargo")?.success())
    }
}

fn write_changed(path: &Path, bytes: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|known| known == bytes) {
        return Ok(());
    }
    fs::create_dir_all(path.parent().context("a file has a folder")?)?;
    Ok(fs::write(path, bytes)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list() -> Vec<Mutation> {
        parse(include_str!("../../mutations.toml")).unwrap()
    }

    /// A change of a bound must be followed in the list.
    #[test]
    fn every_mutation_applies() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for mutation in list() {
            let text = fs::read_to_string(root.join(&mutation.file)).unwrap();
            assert_ne!(mutation.applied(&text).unwrap(), text, "{}", mutation.name);
        }
    }

    #[test]
    fn a_text_that_is_not_there_once_is_an_error() {
        let mutation = &list()[0];
        assert!(mutation.applied("").is_err());
        assert!(mutation.applied(&[mutation.find.as_str(); 2].join("\n")).is_err());
    }
}
