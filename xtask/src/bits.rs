//! `cargo xtask bits`: digests of answers, to show that a change leaves every bit as it was.
//!
//! Only the command line, the texts of kernels, solvers and stages, and the rows that `predict` writes are
//! relied on: names in headers, in JSON and in model files may change, and so may messages.

mod cases;
mod data;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;
use std::{env, fs, process};

use anyhow::{Context, Result, bail};
use data::part;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::workspace::{self, Workspace};
use crate::{Args, Verb};

pub const VERB: Verb = Verb {
    name: "bits",
    usage: "[--mercer PATH] [--only GROUP ...] [--json]",
    about: "Prints digests of the answers of every solver, stage, compressor and golden model.\n\
            Two builds whose lines are all equal give the same answers to the last bit; compare them with diff.\n\
            golden    model files of the repository, and model texts of LIBSVM and LIBLINEAR\n\
            solvers   every solver with every formulation on several kernels; scalings, probabilities, weights\n\
            search    qualities and the machine that `mercer search` finds\n\
            plans     every stage on machines of many kinds; cascades, budgets and demands\n\
            compress  every compressor on machines of several kinds\n\
            formats   data files and exported models of every format; LIBSVM's commands\n\
            --mercer PATH  asks this program instead of building one in release\n\
            --only GROUP   only this group\n\
            --json         prints one object instead of lines\n\
            A golden file that is not there is called absent and does not count for its group.",
    run,
};

/// A name and what fills the group.
type Filler = (&'static str, fn(&mut Session) -> Result<()>);

const GROUPS: &[Filler] = &[
    ("golden", golden),
    ("solvers", solvers),
    ("search", search),
    ("plans", plans),
    ("compress", compress),
    ("formats", formats),
];

/// What every call is told: the answers depend on the seed, never on the number of threads.
const ALWAYS: [&str; 5] = ["--threads", "2", "--seed", "7", "--quiet"];
/// Codes with which `mercer` ends where nothing is wrong with it: done, refused, stopped by a limit.
const DONE: i32 = 0;
const REFUSED: i32 = 1;
const STOPPED: i32 = 3;

/// One thing that was asked.
#[derive(Debug, Clone, PartialEq)]
struct Item {
    name: String,
    found: Found,
}

#[derive(Debug, Clone, PartialEq)]
enum Found {
    /// The first 16 digits of a SHA-256.
    Digest(String),
    /// The file is not in this tree.
    Absent,
    /// It should have been answered; why it was not.
    Failed(String),
}

/// The program that is asked, the folder with its files, and what was found in the group at work.
struct Session {
    mercer: PathBuf,
    root: PathBuf,
    folder: PathBuf,
    group: &'static str,
    as_json: bool,
    items: Vec<Item>,
}

fn run(mut args: Args) -> Result<ExitCode> {
    let as_json = args.flag("--json");
    let (mercer, only) = (args.value("--mercer")?, args.values("--only")?);
    args.finish()?;
    if let Some(name) = only.iter().find(|name| GROUPS.iter().all(|(known, _)| known != name)) {
        let known: Vec<_> = GROUPS.iter().map(|(known, _)| *known).collect();
        bail!("no group '{name}'; there are {}", known.join(", "));
    }
    let workspace = Workspace::load()?;
    let mercer = match mercer {
        Some(path) => fs::canonicalize(&path).with_context(|| path)?,
        None => built(&workspace)?,
    };
    let folder = env::temp_dir().join(format!("mercer-bits-{}", process::id()));
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let root = workspace.root.clone();
    let mut session = Session { mercer, root, folder, group: "", as_json, items: Vec::new() };
    let ended = session.fill(&only);
    fs::remove_dir_all(&session.folder)?;
    ended
}

/// The program of this tree, built in release.
fn built(workspace: &Workspace) -> Result<PathBuf> {
    workspace::run(&mut workspace.cargo(["build", "--release", "--locked", "-p", "mercer-cli"]))?;
    Ok(workspace.target.join(format!("release/mercer{}", env::consts::EXE_SUFFIX)))
}

impl Session {
    fn fill(&mut self, only: &[String]) -> Result<ExitCode> {
        let started = Instant::now();
        data::write_all(self)?;
        let list = self.ask("list")?.map_err(anyhow::Error::msg)?;
        for name in cases::unmentioned(&list) {
            eprintln!("note: `mercer list` knows '{name}', which no item asks");
        }
        let (mut totals, mut objects, mut failed) = (Vec::new(), Vec::new(), 0);
        for (name, filler) in GROUPS {
            if only.is_empty() || only.iter().any(|wanted| wanted == name) {
                self.group = name;
                filler(self)?;
                let items = std::mem::take(&mut self.items);
                failed += items.iter().filter(|i| matches!(i.found, Found::Failed(_))).count();
                let total = total_of(&items);
                objects.push(object(name, &items, &total));
                let count = items.iter().filter(|item| item.found != Found::Absent).count();
                totals.push(format!("total {name}, {count} items {total}"));
            }
        }
        if self.as_json {
            println!("{}", json!({ "groups": objects }));
        } else {
            println!("{}", totals.join("\n"));
        }
        eprintln!("{:.0} s, {failed} failed", started.elapsed().as_secs_f64());
        Ok(if failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    /// Takes an item, and prints it as it comes.
    fn add(&mut self, name: impl Into<String>, found: Found) {
        let item = Item { name: name.into(), found };
        if !self.as_json {
            println!("{}", line_of(self.group, &item));
        }
        self.items.push(item);
    }

    /// Runs one command line; a word that begins with `@` is a file in the folder. False if it is refused.
    fn accepts(&self, line: &str) -> Result<bool> {
        Ok(self.ask(line)?.is_ok())
    }

    /// What one command line prints, or why it is refused. A machine that is not converged is one all the same.
    fn ask(&self, line: &str) -> Result<Result<String, String>> {
        let mut command = process::Command::new(&self.mercer);
        command.current_dir(&self.root);
        let own = |word: &str| match word.strip_prefix('@') {
            Some(name) => self.folder.join(name).into_os_string(),
            None => word.into(),
        };
        command.args(line.split_whitespace().map(own));
        if !line.starts_with("svm-") {
            command.args(ALWAYS);
        }
        let output = command.output().with_context(|| self.mercer.display().to_string())?;
        match output.status.code() {
            Some(DONE | STOPPED) => Ok(Ok(String::from_utf8_lossy(&output.stdout).into_owned())),
            Some(REFUSED) => {
                let said = String::from_utf8_lossy(&output.stderr);
                Ok(Err(said.lines().next().unwrap_or_default().to_owned()))
            }
            _ => {
                let said = String::from_utf8_lossy(&output.stderr);
                bail!("`mercer {line}`: {}\n{}", output.status, said.trim_end())
            }
        }
    }

    /// The digest of a file that was written, after what `only` leaves of its text.
    fn digest(&self, name: &str, only: fn(&str) -> String) -> Result<Found> {
        let path = self.folder.join(name);
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        Ok(Found::Digest(short(&only(&text))))
    }

    /// What a model answers.
    fn predicted(&self, model: &str, queries: &str, words: &str) -> Result<Found> {
        let line = format!("predict {model} {queries} -o @answers.csv {words}");
        match self.ask(&line)? {
            Ok(_) => self.digest("answers.csv", rows_only),
            Err(reason) => Ok(Found::Failed(reason)),
        }
    }
}

fn golden(session: &mut Session) -> Result<()> {
    for (name, queries, words, candidates) in cases::GOLDEN {
        let path = candidates.iter().find(|path| session.root.join(path).is_file());
        let found = match path {
            Some(path) => session.predicted(path, queries, words)?,
            None => Found::Absent,
        };
        session.add(*name, found);
    }
    for (name, words, text) in cases::TEXTS {
        fs::write(session.folder.join("text.model"), text)?;
        let found = match session.ask("import @text.model -o @read.mercer")? {
            Ok(_) => session.predicted("@read.mercer", "@plane.svm", words)?,
            Err(reason) => Found::Failed(reason),
        };
        session.add(*name, found);
    }
    Ok(())
}

fn solvers(session: &mut Session) -> Result<()> {
    for solver in cases::words(cases::SOLVERS) {
        let mut refused = Vec::new();
        for line in cases::lines(cases::FORMULATIONS) {
            let (formulation, sets) = first_word(line);
            for (set, kernel) in cases::pairs(sets, cases::KERNELS) {
                let words =
                    format!("--solver {solver} --formulation {formulation} --kernel {kernel}");
                let name = format!("{set} {words}");
                let queries = part(set, "query");
                let train = part(set, "train");
                if session.accepts(&format!("train {train} -o @m.mercer {words}"))? {
                    let found = session.predicted("@m.mercer", &queries, "")?;
                    session.add(name, found);
                } else {
                    refused.push(name);
                }
            }
        }
        refuse(session, solver, &refused);
    }
    for line in cases::lines(cases::TRAININGS) {
        let (words, asked) = line.split_once(" / ").unwrap_or((line, ""));
        let (set, words) = first_word(words);
        let train = format!("train {} -o @m.mercer {words}", part(set, "train"));
        let found = match session.ask(&train)? {
            Ok(_) => session.predicted("@m.mercer", &part(set, "query"), asked)?,
            Err(reason) => Found::Failed(reason),
        };
        session.add(line, found);
    }
    Ok(())
}

fn search(session: &mut Session) -> Result<()> {
    for line in cases::lines(cases::SEARCHES) {
        let (set, words) = first_word(line);
        let train = part(set, "train");
        let asked = format!("search {train} -o @m.mercer --table @table.csv {words}");
        let (qualities, machine) = match session.ask(&asked)? {
            Ok(_) => (
                session.digest("table.csv", without_seconds)?,
                session.predicted("@m.mercer", &part(set, "query"), "")?,
            ),
            Err(reason) => (Found::Failed(reason.clone()), Found::Failed(reason)),
        };
        session.add(format!("{line}, qualities"), qualities);
        session.add(format!("{line}, machine"), machine);
    }
    Ok(())
}

fn plans(session: &mut Session) -> Result<()> {
    for machine in cases::machines() {
        machine.train(session)?;
        let mut refused = Vec::new();
        for stage in cases::words(cases::STAGES) {
            let plan = format!("cascade({stage},exact)");
            let name = format!("{} {plan}", machine.name);
            if compiled(session, &machine, &plan, cases::SAMPLED)? {
                let found = session.predicted("@fast.mercer", &machine.queries, machine.asked)?;
                session.add(name, found);
            } else {
                refused.push(name);
            }
        }
        refuse(session, machine.name, &refused);
        for line in cases::lines(cases::PLANS) {
            let (name, words) = first_word(line);
            if name == machine.name {
                chosen_plan(session, &machine, words)?;
            }
        }
    }
    Ok(())
}

/// Asks what `PLAN compile words / predict words / other predict words` says, and as the machine is asked.
fn chosen_plan(session: &mut Session, machine: &cases::Machine, line: &str) -> Result<()> {
    let mut parts = line.split(" / ");
    let (plan, words) = first_word(parts.next().unwrap_or_default());
    let is_compiled = compiled(session, machine, plan, words)?;
    for asked in std::iter::once(machine.asked).chain(parts) {
        let found = if is_compiled {
            session.predicted("@fast.mercer", &machine.queries, asked)?
        } else {
            Found::Failed("it does not fit".to_owned())
        };
        session.add(format!("{} {plan} {words} / {asked}", machine.name), found);
    }
    Ok(())
}

fn compiled(session: &Session, machine: &cases::Machine, plan: &str, words: &str) -> Result<bool> {
    let words = machine.with_parts(words);
    session.accepts(&format!("compile {} -o @fast.mercer --plan {plan} {words}", machine.file))
}

fn compress(session: &mut Session) -> Result<()> {
    for machine in cases::machines() {
        machine.train(session)?;
        let mut refused = Vec::new();
        for line in cases::lines(cases::COMPRESSIONS) {
            let (method, words) = first_word(line);
            let words = machine.with_parts(words);
            let name = format!("{} {line}", machine.name);
            let asked =
                format!("compress {} -o @small.mercer --method {method} {words}", machine.file);
            if session.accepts(&asked)? {
                let found = session.predicted("@small.mercer", &machine.queries, "")?;
                session.add(name, found);
            } else {
                refused.push(name);
            }
        }
        refuse(session, machine.name, &refused);
    }
    Ok(())
}

fn formats(session: &mut Session) -> Result<()> {
    for machine in cases::machines() {
        machine.train(session)?;
    }
    let tables = ["made.csv", "answers.csv"];
    for line in cases::lines(cases::COMMANDS) {
        let (file, words) = first_word(line);
        let mut fixtures = cases::words(words).filter(|word| word.starts_with("crates/"));
        let name = format!("{file}: {words}");
        if fixtures.any(|path| !session.root.join(path).is_file()) {
            session.add(name, Found::Absent);
            continue;
        }
        let found = match session.ask(words)? {
            Err(reason) => Found::Failed(reason),
            Ok(_) if file == "." => continue,
            Ok(printed) if file == "-" => Found::Digest(short(&printed)),
            Ok(_) if tables.contains(&file) => session.digest(file, rows_only)?,
            Ok(_) => session.digest(file, str::to_owned)?,
        };
        session.add(name, found);
    }
    Ok(())
}

/// One item for all that was refused: the same things must be.
fn refuse(session: &mut Session, name: &str, refused: &[String]) {
    let found = Found::Digest(short(&refused.join("\n")));
    session.add(format!("{name}: {} refused", refused.len()), found);
}

fn first_word(line: &str) -> (&str, &str) {
    let (word, rest) = line.trim().split_once(char::is_whitespace).unwrap_or((line.trim(), ""));
    (word, rest.trim_start())
}

/// A table without its header.
fn rows_only(text: &str) -> String {
    text.split_once('\n').map_or(String::new(), |(_, rows)| rows.to_owned())
}

/// The rows of a table of candidates without the third last column, which is a time. Texts in the first
/// columns may hold commas, numbers in the last ones do not.
fn without_seconds(text: &str) -> String {
    let mut rows = String::new();
    for line in rows_only(text).lines() {
        let fields: Vec<&str> = line.rsplitn(4, ',').collect();
        if let [folds, converged, _, rest] = fields.as_slice() {
            let _ = writeln!(rows, "{rest},{converged},{folds}");
        }
    }
    rows
}

/// The first 16 digits of the SHA-256.
fn short(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().take(8).fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// The digest of all lines but those of files that are not there.
fn total_of(items: &[Item]) -> String {
    let mut all = String::new();
    for item in items.iter().filter(|item| item.found != Found::Absent) {
        all.push_str(&line_of("", item));
        all.push('\n');
    }
    short(&all)
}

fn line_of(group: &str, item: &Item) -> String {
    let name = item.name.split_whitespace().collect::<Vec<_>>().join(" ");
    let found = match &item.found {
        Found::Digest(digest) => digest,
        Found::Absent => "absent",
        Found::Failed(reason) => &format!("failed: {reason}"),
    };
    format!("{group} {name} {found}")
}

fn object(group: &str, items: &[Item], total: &str) -> serde_json::Value {
    let one = |item: &Item| match &item.found {
        Found::Digest(digest) => json!({ "item": item.name, "digest": digest }),
        Found::Absent => json!({ "item": item.name, "digest": null }),
        Found::Failed(reason) => json!({ "item": item.name, "failed": reason }),
    };
    let all: Vec<_> = items.iter().map(one).collect();
    json!({ "group": group, "digest": total, "items": all })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(name: &str, found: Found) -> Item {
        Item { name: name.to_owned(), found }
    }

    #[test]
    fn headers_and_times_do_not_count() {
        assert_eq!(rows_only("row,label\n1,a\n2,b\n"), rows_only("number,class\n1,a\n2,b\n"));
        let table = |name: &str, seconds: &str| {
            format!(
                "{name},rows\n\"rbf(gamma=1)\",\"svr(C=1, epsilon=2)\",9,0.5,{seconds},true,1 2\n"
            )
        };
        let rows = without_seconds(&table("kernel", "0.25"));
        assert_eq!(rows, "\"rbf(gamma=1)\",\"svr(C=1, epsilon=2)\",9,0.5,true,1 2\n");
        assert_eq!(rows, without_seconds(&table("k", "3e-7")));
    }

    #[test]
    fn a_digest_is_the_beginning_of_the_sha_256() {
        assert_eq!(short("abc"), "ba7816bf8f01cfea");
    }

    #[test]
    fn files_that_are_not_there_do_not_count_for_the_total() {
        let digest = || item("a", Found::Digest("00".to_owned()));
        let all = [digest(), item("b", Found::Absent)];
        assert_eq!(total_of(&all), total_of(&all[..1]));
        assert_ne!(total_of(&all), total_of(&[]));
        let others = [item("a", Found::Digest("01".to_owned()))];
        assert_ne!(total_of(&all), total_of(&others));
    }

    #[test]
    fn a_line_is_group_item_digest() {
        let lined = line_of("plans", &item("digits  exact", Found::Digest("0f".to_owned())));
        assert_eq!(lined, "plans digits exact 0f");
        assert_eq!(line_of("golden", &item("own", Found::Absent)), "golden own absent");
    }

    #[test]
    fn the_first_word_is_cut_off() {
        assert_eq!(first_word("  sonar --cv 3 "), ("sonar", "--cv 3"));
        assert_eq!(first_word("sonar"), ("sonar", ""));
    }

    #[test]
    fn every_group_is_explained() {
        for (name, _) in GROUPS {
            assert!(VERB.about.lines().any(|line| line.starts_with(name)), "{name}");
        }
    }
}
