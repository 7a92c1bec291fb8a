//! What the tests of both shared libraries use: the library under its real name, compilers, programs of others.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder with the shared library under the name that programs look for.
pub struct Installed {
    folder: tempfile::TempDir,
    name: &'static str,
}

impl Installed {
    /// `built` is cargo's name of the library, `name` the one that programs look for.
    pub fn new(built: &str, name: &'static str) -> Self {
        let program = std::env::current_exe().unwrap();
        let mut folders = program.ancestors().skip(1);
        let found = folders.find(|folder| folder.join(built).exists());
        let found = found.expect("cargo built the shared library").join(built);
        let folder = tempfile::tempdir().unwrap();
        fs::copy(found, folder.path().join(name)).unwrap();
        Self { folder, name }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn library(&self) -> PathBuf {
        self.path().join(self.name)
    }

    /// A program in the folder; ours is in front of all other libraries if `is_ours`.
    pub fn command(&self, program: &str, is_ours: bool) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.path());
        if is_ours {
            command.env("LD_LIBRARY_PATH", self.path());
        }
        command
    }

    /// Runs a program in the folder, with the library in front of all others.
    pub fn run(&self, words: &[&str]) -> Output {
        let output = self.command(words[0], true).args(&words[1..]).output();
        output.unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    /// The same without the library.
    pub fn run_without(&self, words: &[&str]) -> Output {
        let output = self.command(words[0], false).args(&words[1..]).output();
        output.unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }
}

/// Whether a program can be started.
pub fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

/// What a program printed; it must have succeeded.
pub fn printed(output: &Output) -> String {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {error}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Compiles `checks.c` with every compiler and runs it; then under valgrind and the sanitizers.
pub fn run_checks(installed: &Installed, flags: &[&str]) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../mercer-libsvm/tests/checks.c");
    let compile = |compiler: &str, more: &[&str]| {
        let strict =
            ["-std=c99", "-D_POSIX_C_SOURCE=200809L", "-Wall", "-Wextra", "-Werror", "-pedantic"];
        let output = Command::new(compiler)
            .args(strict)
            .args(["-O1", "-g", "-o"])
            .arg(installed.path().join("checks"))
            .args(flags)
            .args(more)
            .args([&source, &installed.library()])
            .args(["-lm", "-lpthread"])
            .output()
            .unwrap();
        printed(&output);
    };
    let mut compilers = 0;
    for compiler in ["gcc", "clang"] {
        if !has(compiler) {
            eprintln!("skipped: {compiler} is not installed");
            continue;
        }
        compile(compiler, &[]);
        assert_eq!(printed(&installed.run(&["./checks"])), "done\n", "{compiler}");
        compilers += 1;
    }
    if compilers == 0 {
        return;
    }
    // Every check holds however answers are computed.
    for mode in ["exact", "off"] {
        let output = installed.command("./checks", true).env("MERCER_SVM", mode).output().unwrap();
        assert_eq!(printed(&output), "done\n", "MERCER_SVM={mode}");
    }
    if has("valgrind") {
        let words = ["valgrind", "-q", "--error-exitcode=7", "--leak-check=full"];
        let kinds = ["--errors-for-leak-kinds=definite", "./checks", "few"];
        printed(&installed.run(&[&words[..], &kinds].concat()));
    } else {
        eprintln!("skipped: valgrind is not installed");
    }
    if has("gcc") {
        compile("gcc", &["-fsanitize=address,undefined", "-fno-omit-frame-pointer"]);
        printed(&installed.run(&["./checks"]));
    }
}
