//! What the tests of both shared libraries use: the library under its real name, compilers, programs of others.

pub mod rows;

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

/// LIBSVM's functions, in the order of its header, and its data symbol.
const SYMBOLS: [&str; 20] = [
    "libsvm_version",
    "svm_check_parameter",
    "svm_check_probability_model",
    "svm_cross_validation",
    "svm_destroy_param",
    "svm_free_and_destroy_model",
    "svm_free_model_content",
    "svm_get_labels",
    "svm_get_nr_class",
    "svm_get_nr_sv",
    "svm_get_sv_indices",
    "svm_get_svm_type",
    "svm_get_svr_probability",
    "svm_load_model",
    "svm_predict",
    "svm_predict_probability",
    "svm_predict_values",
    "svm_save_model",
    "svm_set_print_string_function",
    "svm_train",
];

/// The library exports what LIBSVM exports and nothing else, under the name that programs ask for.
pub fn check_exports(installed: &Installed) {
    if !has("readelf") {
        eprintln!("skipped: readelf is not installed (Debian: binutils)");
        return;
    }
    let library = installed.library();
    let read = |what: &[&str]| {
        printed(&Command::new("readelf").arg("-W").args(what).arg(&library).output().unwrap())
    };
    let symbols = read(&["--dyn-syms"]);
    let exported =
        symbols.lines().filter(|line| line.contains("GLOBAL") && !line.contains(" UND "));
    let kind_and_name = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        (words[3].to_owned(), words[words.len() - 1].to_owned())
    };
    let mut exported: Vec<(String, String)> = exported.map(kind_and_name).collect();
    exported.sort_by(|a, b| a.1.cmp(&b.1));
    let names: Vec<&str> = exported.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!(names, SYMBOLS);
    assert!(exported.iter().all(|(kind, name)| (kind == "OBJECT") == (name == "libsvm_version")));
    let soname = format!("soname: [{}]", installed.name);
    assert!(read(&["-d"]).contains(&soname), "{soname}");
}

/// Runs `packages.py` with our library, then with LIBSVM's, and compares what they print. The folders hold the package on ours
/// and on LIBSVM's own library; without them it is Debian's.
pub fn compare_packages(installed: &Installed, python: &str, folders: Option<[&str; 2]>) {
    rows::write_rows(installed.path(), ".train", 200, 31);
    rows::write_rows(installed.path(), ".test", 100, 32);
    fs::write(installed.path().join("packages.py"), include_str!("../packages.py")).unwrap();
    let words = |place: usize| {
        let mut words = vec![python, "packages.py", ["ours", "theirs"][place]];
        words.extend(folders.map(|folders| folders[place]));
        words
    };
    let own = printed(&installed.run(&words(0)));
    let theirs = printed(&installed.run_without(&words(1)));
    let lines = |text: &str| -> Vec<String> {
        text.lines().filter(|line| line.contains(": ")).map(str::to_owned).collect()
    };
    let (own, theirs) = (lines(&own), lines(&theirs));
    assert_eq!((own.len(), theirs.len()), (27, 27), "{own:?}{theirs:?}");
    for (own, theirs) in own.iter().zip(&theirs) {
        let numbers = |line: &str| -> Vec<f64> {
            let (_, numbers) = line.rsplit_once(": ").unwrap();
            numbers.split(' ').map(|word| word.parse().unwrap()).collect()
        };
        let (a, b) = (numbers(own), numbers(theirs));
        // A row of 100 or two of the folds; 1 % of the vectors.
        let few =
            if own.starts_with("-s 3") || own.starts_with("-s 4") { 0.01 * b[0] } else { 1.0 };
        assert!((a[0] - b[0]).abs() <= few, "{own}; {theirs}");
        assert!((a[1] - b[1]).abs() <= 1.0 + 0.01 * b[1], "{own}; {theirs}");
    }
}
