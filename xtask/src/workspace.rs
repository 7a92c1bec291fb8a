//! The workspace as cargo sees it, and the commands run in it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// Where things are, and cargo's description of the crates.
pub struct Workspace {
    pub root: PathBuf,
    /// Cargo's target directory, wherever the environment puts it.
    pub target: PathBuf,
    /// What `cargo metadata --no-deps` prints.
    pub metadata: Value,
}

impl Workspace {
    /// Asks cargo about the workspace around the current directory.
    pub fn load() -> Result<Self> {
        let mut command = Command::new(cargo_path());
        command.args(["metadata", "--format-version", "1", "--no-deps"]);
        let text = stdout_of(&mut command)?;
        let metadata: Value = serde_json::from_str(&text).context("cargo metadata is not JSON")?;
        let path = |key: &str| match metadata[key].as_str() {
            Some(path) => Ok(PathBuf::from(path)),
            None => bail!("cargo metadata has no {key}"),
        };
        Ok(Self { root: path("workspace_root")?, target: path("target_directory")?, metadata })
    }

    /// `program`, to be run in the root.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.root);
        // There is no next build to prepare for.
        if std::env::var_os("CI").is_some() {
            command.env("CARGO_INCREMENTAL", "0");
        }
        command
    }

    /// The cargo that started this program, to be run in the root.
    pub fn cargo<'a>(&self, words: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = self.command(cargo_path());
        command.args(words);
        command
    }

    /// A path as a person in the root would type it.
    pub fn shown(&self, path: &Path) -> String {
        path.strip_prefix(&self.root).unwrap_or(path).display().to_string()
    }
}

fn cargo_path() -> PathBuf {
    std::env::var_os("CARGO").map_or_else(|| "cargo".into(), PathBuf::from)
}

/// Runs a command whose output goes to the terminal; fails unless it succeeds.
pub fn run(command: &mut Command) -> Result<()> {
    let line = line_of(command);
    let status = command.status().with_context(|| format!("cannot start `{line}`"))?;
    if !status.success() {
        bail!("`{line}`: {status}");
    }
    Ok(())
}

/// Runs a command and returns what it prints; fails unless it succeeds.
pub fn stdout_of(command: &mut Command) -> Result<String> {
    let line = line_of(command);
    let output = command.output().with_context(|| format!("cannot start `{line}`"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("`{line}`: {}\n{}", output.status, said.trim_end());
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{line}` does not print text"))
}

/// As [`stdout_of`], but what the command says on its standard error goes to the terminal at once.
pub fn stdout_with_errors(command: &mut Command) -> Result<String> {
    let line = line_of(command);
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("cannot start `{line}`"))?;
    if !output.status.success() {
        bail!("`{line}`: {}", output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{line}` does not print text"))
}

/// Whether a command can be started and succeeds; its output is dropped.
pub fn succeeds(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
}

/// The first of `$PYTHON`, `python3` and `python` that starts.
pub fn find_python(workspace: &Workspace) -> Result<PathBuf> {
    let named = std::env::var_os("PYTHON").map(PathBuf::from);
    let mut candidates = named.into_iter().chain(["python3".into(), "python".into()]);
    let starts = |python: &PathBuf| succeeds(workspace.command(python).arg("--version"));
    candidates.find(starts).context("no Python starts; put python3 on the path or set PYTHON")
}

/// A command as one would type it: the program without its folder, then its words.
fn line_of(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let mut line = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    for word in command.get_args() {
        line.push(' ');
        line.push_str(&word.to_string_lossy());
    }
    line
}
