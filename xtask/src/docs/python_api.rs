//! The reference of the Python package, from its docstrings: `python/docs/api.py` reads the sources with griffe, without
//! importing them.

use std::path::Path;

use anyhow::{Context, Result};

use crate::workspace::{self, Workspace, find_python};

/// The pages that the script writes.
pub const PAGES: &[&str] = &[
    "python.md",
    "python-svm.md",
    "python-machines.md",
    "python-spark.md",
    "python-decomposition.md",
    "python-onnx.md",
    "python-errors.md",
];
const GRIFFE: &str = "griffe>=1.14,<3";

/// Writes the pages into a folder.
pub fn write(workspace: &Workspace, home: &Path, folder: &Path) -> Result<()> {
    let venv = home.join("venv");
    let python = venv.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    if !workspace::succeeds(workspace.command(&python).args(["-c", "import griffe"])) {
        let mut make = workspace.command(find_python(workspace)?);
        workspace::run(make.args(["-m", "venv"]).arg(&venv))?;
        let mut pip = workspace.command(&python);
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", GRIFFE]);
        workspace::run(&mut pip).context("griffe cannot be installed")?;
    }
    let mut script = workspace.command(&python);
    workspace::run(script.arg("python/docs/api.py").arg("--to").arg(folder))
}
