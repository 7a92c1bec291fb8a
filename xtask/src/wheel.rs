//! `cargo xtask wheel`: the wheel of the Python package, built, looked into, installed in a fresh virtual environment and
//! tested there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};

use crate::workspace::{self, Workspace, find_python};
use crate::{Args, Verb};

pub const VERB: Verb = Verb {
    name: "wheel",
    usage: "[--profile NAME] [--quick]",
    about: "Builds the wheel of the Python package in target/wheels, checks what is in it, installs it in a fresh virtual\n\
            environment, compares the type stubs with the module (mypy.stubtest) and runs the package's tests there.\n\
            --profile NAME  of cargo (release)\n\
            --quick         only the tests that need nothing but numpy and scikit-learn",
    run,
};

/// Tests of `--quick`.
const QUICK: [&str; 3] = ["test_machines.py", "test_quick.py", "test_linear.py"];
/// What a wheel must hold, by the end of the name.
const CONTENTS: [&str; 8] = [
    "mercer/__init__.py",
    "mercer/_mercer.pyi",
    "mercer/py.typed",
    ".dist-info/METADATA",
    ".dist-info/WHEEL",
    ".dist-info/RECORD",
    ".dist-info/licenses/LICENSE-APACHE",
    ".dist-info/licenses/LICENSE-MIT",
];
/// Fields of the metadata, with the least number of each.
const FIELDS: [(&str, usize); 6] = [
    ("Summary: ", 1),
    ("Keywords: ", 1),
    ("Classifier: Programming Language :: Python :: 3.", 4),
    ("License-Expression: MIT OR Apache-2.0", 1),
    ("Requires-Python: >=3.11", 1),
    ("Description-Content-Type: text/markdown", 1),
];

fn run(mut args: Args) -> Result<ExitCode> {
    let profile = args.value("--profile")?.unwrap_or_else(|| "release".to_owned());
    let is_quick = args.flag("--quick");
    args.finish()?;
    let workspace = Workspace::load()?;
    let wheel = build(&workspace, &profile)?;
    let python = venv(&workspace, "wheel-venv")?;
    look_into(&workspace, &python, &wheel)?;
    let extra = if is_quick { "" } else { "[test]" };
    let installed = format!("{}{extra}", wheel.display());
    pip(&workspace, &python, &[&installed, "pytest>=8", "pytest-xdist>=3.6", "mypy"])?;
    // Outside the repository's python/, so that the installed package is the one that is found.
    let mut stubs = workspace.command(&python);
    stubs.current_dir(&workspace.target).args(["-m", "mypy.stubtest", "mercer._mercer"]);
    workspace::run(&mut stubs).context("the type stubs differ from the module")?;
    let tests = workspace.root.join("python/tests");
    let files = if is_quick { QUICK.map(|name| tests.join(name)).to_vec() } else { vec![tests] };
    let mut pytest = workspace.command(&python);
    pytest.args(["-m", "pytest", "--quiet", "--numprocesses", "auto"]).args(files);
    workspace::run(&mut pytest)?;
    println!("wheel: {} passed its tests", workspace.shown(&wheel));
    Ok(ExitCode::SUCCESS)
}

fn build(workspace: &Workspace, profile: &str) -> Result<PathBuf> {
    let python = venv(workspace, "wheel-build-venv")?;
    pip(workspace, &python, &["maturin>=1.9,<2"])?;
    let folder = workspace.target.join("wheels");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    let mut maturin = workspace.command(&python);
    maturin.args(["-m", "maturin", "build", "--locked", "--profile", profile]);
    maturin.args(["--manifest-path", "python/Cargo.toml", "--out"]).arg(&folder);
    workspace::run(&mut maturin)?;
    let files = fs::read_dir(&folder)?.filter_map(|entry| Some(entry.ok()?.path()));
    let mut wheels = files.filter(|file| file.extension().is_some_and(|ending| ending == "whl"));
    wheels.next().context("maturin built no wheel")
}

/// A fresh virtual environment below the target directory; returns its Python.
fn venv(workspace: &Workspace, name: &str) -> Result<PathBuf> {
    let home = workspace.target.join(name);
    let mut make = workspace.command(find_python(workspace)?);
    workspace::run(make.args(["-m", "venv", "--clear"]).arg(&home))?;
    Ok(home.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" }))
}

fn pip(workspace: &Workspace, python: &Path, packages: &[&str]) -> Result<()> {
    let mut pip = workspace.command(python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(packages);
    workspace::run(&mut pip)
}

/// Names, tag and metadata of a wheel.
fn look_into(workspace: &Workspace, python: &Path, wheel: &Path) -> Result<()> {
    let name = wheel.file_name().unwrap_or_default().to_string_lossy();
    ensure!(name.contains("-abi3-"), "{name} is not for the stable interface of Python (abi3)");
    let list = "import sys, zipfile\nprint('\\n'.join(zipfile.ZipFile(sys.argv[1]).namelist()))";
    let names = workspace::stdout_of(workspace.command(python).args(["-c", list]).arg(wheel))?;
    let read = "import sys, zipfile\nz = zipfile.ZipFile(sys.argv[1])\n\
                print(z.read(next(n for n in z.namelist() if n.endswith('/METADATA'))).decode())";
    let mut command = workspace.command(python);
    command.env("PYTHONIOENCODING", "utf-8").args(["-c", read]).arg(wheel);
    must_be_complete(&names, &workspace::stdout_of(&mut command)?)
}

fn must_be_complete(names: &str, metadata: &str) -> Result<()> {
    for wanted in CONTENTS {
        ensure!(names.lines().any(|name| name.ends_with(wanted)), "the wheel has no {wanted}");
    }
    let allowed = |name: &&str| name.starts_with("mercer/") || name.contains(".dist-info/");
    if let Some(other) = names.lines().find(|name| !name.is_empty() && !allowed(name)) {
        bail!("{other} does not belong into the wheel");
    }
    for (field, least) in FIELDS {
        let found = metadata.lines().filter(|line| line.starts_with(field)).count();
        ensure!(found >= least, "the metadata have {found} of '{field}', not {least}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_wheel_lacks_or_has_too_much_is_named() {
        let names = CONTENTS.map(|end| {
            if end.starts_with('.') { format!("mercer-1{end}") } else { end.to_owned() }
        });
        let names = names.join("\n");
        let metadata: String =
            FIELDS.iter().map(|(field, n)| format!("{field}x\n").repeat(*n)).collect();
        must_be_complete(&names, &metadata).unwrap();
        let without = names.replace("mercer/py.typed", "mercer/other");
        assert!(
            must_be_complete(&without, &metadata).unwrap_err().to_string().contains("py.typed")
        );
        assert!(must_be_complete(&format!("{names}\ntests/x.py"), &metadata).is_err());
        assert!(must_be_complete(&names, &metadata.replace("Keywords", "Other")).is_err());
    }
}
