//! `cargo xtask bench --all --quick`: the results of the README, prepared and measured, each within its share of 20 minutes;
//! what was found goes into one JSON file, from which `bench charts` draws.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::{Options, report};
use crate::workspace::{self, Workspace, find_python, succeeds};

/// All parts together, building not counted.
const MINUTES: u64 = 20;
const LIMIT: Duration = Duration::from_secs(MINUTES * 60);

/// A task whose files `benches/peers/` makes.
struct Preparation {
    /// The script and the task.
    script: &'static str,
    task: &'static str,
    /// What exists afterwards.
    result: &'static str,
    seconds: u64,
}

/// A result of the README.
struct Part {
    name: &'static str,
    /// Words after `cargo xtask bench`.
    words: &'static [&'static str],
    needs: &'static [usize],
    /// Whether nothing of it can be measured without the peers' Python.
    needs_peers: bool,
    seconds: u64,
}

const PREPARATIONS: &[Preparation] = &[
    Preparation { script: "prepare.py", task: "mnist38", result: "mnist38.model", seconds: 70 },
    Preparation { script: "rows.py", task: "a9a", result: "a9a.train.svm", seconds: 20 },
    Preparation { script: "prepare.py", task: "mnist10", result: "mnist10.model", seconds: 280 },
];

/// The shares of preparations and parts together are at most [`LIMIT`].
const PARTS: &[Part] = &[
    Part {
        name: "calibrated",
        words: &["predict", "--task", "mnist10", "--contract", "calibrated(eps=1e-3, delta=0.05)"],
        needs: &[2],
        needs_peers: false,
        seconds: 230,
    },
    Part {
        name: "certified",
        words: &["predict", "--task", "mnist38", "--contract", "certified"],
        needs: &[0],
        needs_peers: false,
        seconds: 180,
    },
    Part {
        name: "additive",
        words: &["additive", "--task", "MNIST"],
        needs: &[],
        needs_peers: true,
        seconds: 110,
    },
    Part { name: "search", words: &["search"], needs: &[1], needs_peers: false, seconds: 190 },
    Part {
        name: "train",
        words: &["train", "--task", "mnist10"],
        needs: &[2],
        needs_peers: false,
        seconds: 120,
    },
];

/// What `bench --all` works with.
struct Driver {
    workspace: Workspace,
    prepared: PathBuf,
    data: PathBuf,
    /// An interpreter with the packages of benches/peers/requirements.txt.
    peers: Option<String>,
    started: Instant,
    runs: Vec<Value>,
    skipped: Vec<Value>,
}

/// Measures the parts of the topics named, all where none is.
pub fn run(options: &Options, topics: &[String]) -> Result<ExitCode> {
    if !options.quick {
        bail!(
            "--all needs --quick: whole runs of all topics take hours; name a topic for one of them"
        );
    }
    let is_known = |name: &&String| PARTS.iter().any(|part| part.words[0] == **name);
    if let Some(other) = topics.iter().find(|name| !is_known(name)) {
        bail!("--all has no part of topic '{other}'");
    }
    let workspace = Workspace::load()?;
    let prepared = match &options.prepared {
        Some(folder) => std::path::absolute(folder)?,
        None => workspace.target.join("bench"),
    };
    fs::create_dir_all(&prepared)?;
    let data = std::env::var_os("MERCER_DATA");
    let data = workspace.root.join(data.map_or_else(|| "../shared/data".into(), PathBuf::from));
    let file = match &options.figures {
        Some(file) => PathBuf::from(file),
        None => prepared.join("quick.json"),
    };
    let named = |part: &&Part| topics.iter().any(|topic| topic == part.words[0]);
    let wanted: Vec<&Part> = PARTS.iter().filter(|part| topics.is_empty() || named(part)).collect();
    for part in &wanted {
        build(&workspace, part)?;
    }
    let peers = peers(&workspace, options)?;
    let started = Instant::now();
    let mut driver =
        Driver { workspace, prepared, data, peers, started, runs: Vec::new(), skipped: Vec::new() };
    if driver.peers.is_none() {
        let why =
            "no Python with the packages of benches/peers/requirements.txt: --peers names one";
        driver.skip("all peers", why);
    }
    for part in wanted {
        driver.measure(part);
        // Nothing is lost if a later part is interrupted.
        driver.write(&file)?;
    }
    println!(
        "bench: {} parts in {:.0} s, {} skipped: {}",
        driver.runs.len(),
        started.elapsed().as_secs_f64(),
        driver.skipped.len(),
        driver.workspace.shown(&file)
    );
    Ok(ExitCode::SUCCESS)
}

/// What a part runs, so that building is not measured. The release builds are linked as a whole: minutes.
fn build(workspace: &Workspace, part: &Part) -> Result<()> {
    let examples: &[[&str; 4]] = match part.words[0] {
        "train" => &[["-p", "mercer-train", "--example", "train"]],
        "additive" => &[
            ["-p", "mercer-train", "--example", "pmsvm_lut"],
            ["-p", "mercer-query", "--example", "tables"],
        ],
        _ => &[],
    };
    let command: &[&str] = &["-p", "mercer-cli"];
    for words in std::iter::once(command).chain(examples.iter().map(<[&str; 4]>::as_slice)) {
        let all = ["build", "--release", "--locked"].into_iter().chain(words.iter().copied());
        workspace::run(&mut workspace.cargo(all))?;
    }
    Ok(())
}

/// The interpreter that was named, or the first usual one that has the peers' packages.
fn peers(workspace: &Workspace, options: &Options) -> Result<Option<String>> {
    let has_peers = |python: &Path| {
        let imports = "import sklearn, sklearnex, onnxruntime, threadpoolctl, liblinear";
        succeeds(workspace.command(python).args(["-c", imports]))
    };
    if let Some(named) = &options.peers {
        let path = Path::new(named);
        let path = if path.components().count() > 1 {
            std::path::absolute(path)?
        } else {
            path.to_owned()
        };
        if !has_peers(&path) {
            bail!("{named} lacks packages of benches/peers/requirements.txt");
        }
        return Ok(Some(path.display().to_string()));
    }
    let found = find_python(workspace).ok().filter(|python| has_peers(python));
    Ok(found.map(|python| python.display().to_string()))
}

impl Driver {
    fn skip(&mut self, what: &str, why: &str) {
        println!("bench: skipped {what}: {why}");
        self.skipped.push(json!({"what": what, "why": why}));
    }

    /// The share of time that a command gets: never more than is left.
    fn share(&self, seconds: u64) -> Duration {
        Duration::from_secs(seconds).min(LIMIT.saturating_sub(self.started.elapsed()))
    }

    /// Prepares and measures a part; says why if that was not possible.
    fn measure(&mut self, part: &Part) {
        if part.needs_peers && self.peers.is_none() {
            return self.skip(part.name, "it compares with peers, which are not installed");
        }
        for place in part.needs {
            if let Err(error) = self.prepare(&PREPARATIONS[*place]) {
                return self.skip(part.name, &format!("not prepared: {error:#}"));
            }
        }
        let found = self.prepared.join(format!("{}.figures.json", part.name));
        let _ = fs::remove_file(&found);
        let Ok(program) = std::env::current_exe() else {
            return self.skip(part.name, "this program does not know where it is");
        };
        let mut command = self.workspace.command(program);
        command.arg("bench").args(part.words).arg("--quick").arg("--prepared").arg(&self.prepared);
        command.args(self.peers.iter().flat_map(|python| ["--peers", python]));
        command.arg("--figures").arg(&found);
        println!("bench: {}", part.name);
        let started = Instant::now();
        match within(&mut command, self.share(part.seconds)).and_then(|()| read(&found)) {
            Ok(figures) => self.runs.push(self.record(part, started.elapsed(), &figures)),
            Err(error) => self.skip(part.name, &format!("{error:#}")),
        }
    }

    fn prepare(&self, wanted: &Preparation) -> Result<()> {
        if self.prepared.join(wanted.result).is_file() {
            return Ok(());
        }
        let Some(python) = &self.peers else {
            bail!("benches/peers/{} needs the peers' Python", wanted.script)
        };
        println!("bench: preparing {}", wanted.task);
        let mut command = self.workspace.command(python);
        command.arg(format!("benches/peers/{}", wanted.script)).arg("--data").arg(&self.data);
        command.arg("--out").arg(&self.prepared).arg(wanted.task);
        within(&mut command, self.share(wanted.seconds))
    }

    fn record(&self, part: &Part, taken: Duration, figures: &Value) -> Value {
        let quoted = |word: &&str| {
            if word.contains('(') { format!("'{word}'") } else { (*word).to_owned() }
        };
        let words: Vec<_> = part.words.iter().map(quoted).collect();
        let peers = if self.peers.is_some() { " --peers PYTHON" } else { "" };
        json!({
            "name": part.name,
            "machine": report::machine(),
            "date": report::today(),
            "commit": report::commit(&self.workspace),
            "command": format!("cargo xtask bench {} --quick{peers}", words.join(" ")),
            "seconds": taken.as_secs(),
            "figures": figures["figures"],
            "notes": figures["notes"],
        })
    }

    /// The file, with runs that it held before and that were not repeated.
    fn write(&self, file: &Path) -> Result<()> {
        let before = fs::read_to_string(file).ok();
        let before: Value = match before {
            Some(text) => {
                serde_json::from_str(&text).with_context(|| self.workspace.shown(file))?
            }
            None => json!({}),
        };
        let whole = json!({
            "about": "cargo xtask bench --all --quick",
            "runs": joined(&before["runs"], &self.runs, "name"),
            "skipped": joined(&before["skipped"], &self.skipped, "what")
                .into_iter().filter(|one| !self.runs.iter().any(|run| run["name"] == one["what"])).collect::<Vec<_>>(),
        });
        let text = serde_json::to_string_pretty(&whole)? + "\n";
        fs::write(file, text).with_context(|| self.workspace.shown(file))
    }
}

/// Old entries whose key is not among the new ones, then the new ones.
fn joined(old: &Value, new: &[Value], key: &str) -> Vec<Value> {
    let old = old.as_array().into_iter().flatten();
    let kept = old.filter(|one| !new.iter().any(|other| other[key] == one[key]));
    kept.chain(new).cloned().collect()
}

fn read(file: &Path) -> Result<Value> {
    let text = fs::read_to_string(file).context("it measured nothing; what it printed says why")?;
    Ok(serde_json::from_str(&text)?)
}

/// Runs a command and ends it, with all programs that it started, after this time.
fn within(command: &mut Command, limit: Duration) -> Result<()> {
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    let mut child = command.stdin(Stdio::null()).spawn().context("it does not start")?;
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            if !status.success() {
                bail!("it failed ({status}); what it printed says why");
            }
            return Ok(());
        }
        if started.elapsed() >= limit {
            end(&mut child);
            bail!("it took longer than its share of {} s", limit.as_secs());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn end(child: &mut Child) {
    let number = child.id().to_string();
    let mut command = if cfg!(windows) {
        let mut command = Command::new("taskkill");
        command.args(["/T", "/F", "/PID", &number]);
        command
    } else {
        let mut command = Command::new("kill");
        command.args(["-KILL", "--", &format!("-{number}")]);
        command
    };
    if !succeeds(&mut command) {
        let _ = child.kill();
    }
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_at_most_twenty_minutes_and_parts_are_topics() {
        let shares = PARTS.iter().map(|part| part.seconds);
        let total: u64 = shares.chain(PREPARATIONS.iter().map(|one| one.seconds)).sum();
        assert!(Duration::from_secs(total) <= LIMIT, "{total}");
        for part in PARTS {
            assert!(super::super::TOPICS.iter().any(|(name, ..)| *name == part.words[0]));
        }
    }

    #[test]
    fn runs_that_are_not_repeated_stay() {
        let old = json!([{"name": "a", "seconds": 1}, {"name": "b", "seconds": 2}]);
        let new = [json!({"name": "b", "seconds": 3})];
        let all = joined(&old, &new, "name");
        assert_eq!(all, [json!({"name": "a", "seconds": 1}), json!({"name": "b", "seconds": 3})]);
        assert_eq!(joined(&Value::Null, &new, "name"), new);
    }

    #[cfg(unix)]
    #[test]
    fn a_command_is_ended_with_what_it_started() {
        let file = std::env::temp_dir().join(format!("mercer-within-{}", std::process::id()));
        let script = format!("(sleep 3; touch {}) & wait", file.display());
        let error = within(Command::new("sh").args(["-c", &script]), Duration::from_millis(200));
        assert!(error.unwrap_err().to_string().contains("longer than its share"));
        std::thread::sleep(Duration::from_secs(4));
        assert!(!file.exists());
        within(Command::new("sh").args(["-c", "true"]), Duration::from_secs(30)).unwrap();
        assert!(
            within(Command::new("sh").args(["-c", "exit 3"]), Duration::from_secs(30)).is_err()
        );
    }
}
