//! `cargo xtask bench mutations`: weakens each bound of `xtask/mutations.toml` on purpose, in a copy of the workspace,
//! and says for which of them no test fails. It changes nothing in the workspace itself.
//!
//! The copy is built once with all mutations in it; a variable of the environment chooses the one that holds.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::Options;
use crate::test_binaries::{Binary, binaries_of};
use crate::workspace::{Workspace, stdout_of, stdout_with_errors};

/// The test that should notice.
const ATTACK: &str =
    "attack::a_million_ranges_hold_at_every_scale_for_every_kernel_and_certifying_stage";
/// The crates whose tests are asked before it: they take seconds.
const QUICK: [&str; 2] = ["mercer-kernel", "mercer-query"];
/// The crate of the attack, whose other tests are asked last.
const ATTACKER: &str = "mercer-compile";

/// The list of mutations.
const LIST: &str = "xtask/mutations.toml";

/// What is added to the crate of a mutated file: the number of the mutation that holds, or 0.
const CHOOSER: &str = "
pub(crate) fn weakened() -> usize {
    static NUMBER: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    *NUMBER.get_or_init(|| std::env::var(\"MERCER_WEAKENED\").map_or(0, |text| text.parse().unwrap()))
}
";

/// A bound made too small.
#[derive(Debug)]
struct Mutation {
    /// Its place in the list, from 1 on.
    number: usize,
    /// What is weakened.
    name: String,
    file: String,
    /// Text that occurs once in the file, and the part of it that is replaced.
    find: String,
    expression: std::ops::Range<usize>,
    /// What stands in its place.
    weak: String,
}

/// Asks the quick tests about each mutation, then the attack about those that survived, then all other tests; `--task TEXT`
/// takes the mutations whose names contain the text.
pub fn run(options: &Options) -> Result<ExitCode> {
    let workspace = Workspace::load()?;
    let list = parse(&fs::read_to_string(workspace.root.join(LIST))?)?;
    let is_named = |one: &Mutation| options.tasks.iter().any(|text| one.name.contains(text));
    let is_wanted = |one: &Mutation| options.tasks.is_empty() || is_named(one);
    let wanted: Vec<Mutation> = list.into_iter().filter(is_wanted).collect();
    let scratch = Scratch::new(&workspace, &wanted)?;
    println!("mutations: {} bounds; each group of tests must pass without any", wanted.len());
    let mut survivors: Vec<&Mutation> = wanted.iter().collect();
    for package in QUICK {
        ask_each(&scratch.build(&["-p", package])?, &[], &mut survivors)?;
    }
    let attack = scratch.build(&["-p", ATTACKER, "--test", "it"])?;
    println!("mutations: {} are left for the attack", survivors.len());
    ask(&attack, &["--exact", ATTACK], &mut survivors)?;
    println!("mutations: {} are left for the other tests of {ATTACKER}", survivors.len());
    ask_each(&scratch.build(&["-p", ATTACKER])?, &["--skip", ATTACK], &mut survivors)?;
    println!("mutations: {} of {} bounds have no test that fails", survivors.len(), wanted.len());
    survivors.iter().for_each(|one| println!("  {}", one.name));
    Ok(if survivors.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn parse(list: &str) -> Result<Vec<Mutation>> {
    let table: toml::Table = list.parse().context(LIST)?;
    let mutations =
        table.get("mutation").and_then(toml::Value::as_array).context("no [[mutation]]")?;
    let one = |(place, value): (usize, &toml::Value)| {
        let text = |key: &str| {
            let text = value.get(key).and_then(toml::Value::as_str).map(str::to_owned);
            text.with_context(|| format!("{LIST}: a mutation without {key}"))
        };
        let (name, marked) = (text("name")?, text("find")?);
        let parts: Vec<&str> = marked.split(['⟦', '⟧']).collect();
        ensure!(parts.len() == 3, "{LIST}: {name}: an expression is marked once by ⟦ and ⟧");
        let expression = parts[0].len()..parts[0].len() + parts[1].len();
        let (file, weak) = (text("file")?, text("weak")?);
        Ok(Mutation { number: place + 1, name, file, find: parts.concat(), expression, weak })
    };
    mutations.iter().enumerate().map(one).collect()
}

impl Mutation {
    /// Where its expression lies in the file.
    fn place(&self, text: &str) -> Result<std::ops::Range<usize>> {
        let count = text.matches(&self.find).count();
        ensure!(count == 1, "{}: its text occurs {count} times in {}", self.name, self.file);
        let start = text.find(&self.find).unwrap_or_default();
        Ok(start + self.expression.start..start + self.expression.end)
    }

    /// The source of the crate that its file belongs to.
    fn crate_root(&self) -> Result<PathBuf> {
        let (krate, _) = self.file.split_once("/src/").context("a file of a crate")?;
        Ok(Path::new(krate).join("src/lib.rs"))
    }
}

/// The text of a file with all its mutations, each chosen by its number.
fn with_mutations(text: &str, mutations: &[&Mutation]) -> Result<String> {
    let mut places: BTreeMap<usize, (usize, Vec<&Mutation>)> = BTreeMap::new();
    for mutation in mutations {
        let place = mutation.place(text)?;
        let (end, same) = places.entry(place.start).or_insert((place.end, Vec::new()));
        ensure!(*end == place.end, "{}: its expression overlaps another one", mutation.name);
        same.push(mutation);
    }
    let (mut out, mut at) = (String::new(), 0);
    for (start, (end, same)) in places {
        ensure!(start >= at, "{}: its expression overlaps another one", same[0].name);
        out.push_str(&text[at..start]);
        out.push_str("(match crate::weakened() { ");
        for Mutation { number, weak, .. } in same {
            write!(out, "{number} => {{ {weak} }} ")?;
        }
        write!(out, "_ => {{ {} }} }})", &text[start..end])?;
        at = end;
    }
    out.push_str(&text[at..]);
    Ok(out)
}

/// A copy of the workspace with all mutations in it.
struct Scratch<'a> {
    workspace: &'a Workspace,
    home: PathBuf,
}

impl<'a> Scratch<'a> {
    /// Copies every file that git knows, as it is now, with the time of its last change: what did not change is not
    /// built again.
    fn new(workspace: &'a Workspace, list: &[Mutation]) -> Result<Self> {
        let home = workspace.target.join("mutations");
        let mut command = workspace.command("git");
        for file in stdout_of(command.args(["ls-files", "-z"]))?.split('\0') {
            let (from, to) = (workspace.root.join(file), home.join("source").join(file));
            if file.is_empty() || !from.is_file() {
                continue;
            }
            let mut bytes = fs::read(&from)?;
            let own: Vec<&Mutation> = list.iter().filter(|one| one.file == file).collect();
            let is_root =
                |one: &Mutation| one.crate_root().is_ok_and(|root| root == Path::new(file));
            let is_mutated = !own.is_empty() || list.iter().any(is_root);
            if !own.is_empty() {
                bytes = with_mutations(&String::from_utf8(bytes)?, &own)?.into_bytes();
            }
            if list.iter().any(is_root) {
                bytes.extend_from_slice(CHOOSER.as_bytes());
            }
            if write_changed(&to, &bytes)? && !is_mutated {
                fs::File::open(&to)?.set_modified(fs::metadata(&from)?.modified()?)?;
            }
        }
        Ok(Self { workspace, home })
    }

    /// Test binaries of the copy, built as `cargo xtask test` builds its own.
    fn build(&self, words: &[&str]) -> Result<Vec<Binary>> {
        let words = ["test", "--no-run"].into_iter().chain(words.iter().copied());
        let mut command = self.workspace.cargo(words);
        command.args(["--locked", "--message-format", "json-render-diagnostics"]);
        // Not where the workspace is built: cargo does not tell the crates of two copies of it apart.
        command.current_dir(self.home.join("source"));
        command.env("CARGO_TARGET_DIR", self.home.join("build"));
        let binaries = binaries_of(&stdout_with_errors(&mut command)?);
        ensure!(!binaries.is_empty(), "cargo built no test binary");
        Ok(binaries)
    }
}

/// One binary after the other, each about what the ones before it left.
fn ask_each(binaries: &[Binary], words: &[&str], left: &mut Vec<&Mutation>) -> Result<()> {
    for binary in binaries {
        if !left.is_empty() {
            println!("mutations: {}", binary.name);
            ask(std::slice::from_ref(binary), words, left)?;
        }
    }
    Ok(())
}

/// Runs tests under each of the mutations that survived so far; they must pass without any.
fn ask(binaries: &[Binary], words: &[&str], left: &mut Vec<&Mutation>) -> Result<()> {
    let pass = |number: usize| -> Result<bool> {
        binaries.iter().try_fold(true, |so_far, one| Ok(so_far && passes(one, number, words)?))
    };
    ensure!(pass(0)?, "the tests fail without a mutation");
    let mut survivors = Vec::new();
    for mutation in std::mem::take(left) {
        let (started, survives) = (Instant::now(), pass(mutation.number)?);
        let said = if survives { "survives" } else { "killed" };
        println!("{:>3} {said:<9} {} ({:.0?})", mutation.number, mutation.name, started.elapsed());
        if survives {
            survivors.push(mutation);
        }
    }
    *left = survivors;
    Ok(())
}

/// Whether the tests of a binary pass under a mutation.
fn passes(binary: &Binary, number: usize, words: &[&str]) -> Result<bool> {
    let mut command = Command::new(&binary.program);
    command.current_dir(&binary.folder).env("CARGO_MANIFEST_DIR", &binary.folder);
    command.args(words).env("MERCER_WEAKENED", number.to_string());
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    Ok(status.with_context(|| format!("cannot start {}", binary.name))?.success())
}

/// Writes a file if its bytes changed; whether they did.
fn write_changed(path: &Path, bytes: &[u8]) -> Result<bool> {
    if fs::read(path).is_ok_and(|known| known == bytes) {
        return Ok(false);
    }
    fs::create_dir_all(path.parent().context("a file has a folder")?)?;
    fs::write(path, bytes)?;
    Ok(true)
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
        let list = list();
        for one in &list {
            let own: Vec<&Mutation> = list.iter().filter(|other| other.file == one.file).collect();
            let text = fs::read_to_string(root.join(&one.file)).unwrap();
            let mutated = with_mutations(&text, &own).unwrap();
            assert!(mutated.contains(&format!("{} => {{ {} }}", one.number, one.weak)));
            assert!(root.join(one.crate_root().unwrap()).is_file(), "{}", one.name);
        }
    }

    #[test]
    fn mutations_of_one_expression_stand_side_by_side() {
        let list = parse(
            "[[mutation]]\nname='a'\nfile='c/src/f.rs'\nfind='x = ⟦1 + y⟧;'\nweak='y'\n\
             [[mutation]]\nname='b'\nfile='c/src/f.rs'\nfind='⟦1 + y⟧'\nweak='1'\n\
             [[mutation]]\nname='c'\nfile='c/src/f.rs'\nfind='⟦1⟧ + y'\nweak='0'\n",
        )
        .unwrap();
        let text = "let x = 1 + y;";
        let both = with_mutations(text, &[&list[0], &list[1]]).unwrap();
        let expected =
            "let x = (match crate::weakened() { 1 => { y } 2 => { 1 } _ => { 1 + y } });";
        assert_eq!(both, expected);
        assert!(with_mutations(text, &[&list[0], &list[2]]).is_err());
        assert!(with_mutations("", &[&list[0]]).is_err());
        assert!(with_mutations("let x = 1 + y; 1 + y", &[&list[1]]).is_err());
    }
}
