//! The C library as programs in C and C++ use it: the header, an example and a program of checks, with every compiler that
//! is installed, under valgrind and the address sanitizer where they are.

#![expect(unsafe_code, reason = "functions of the C interface are called as a C program does")]

mod forged;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn home() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// `MERCER_WRITE_HEADER=1 cargo test -p mercer-c` writes it.
#[test]
fn the_header_is_current() {
    let config = cbindgen::Config::from_file(home().join("cbindgen.toml")).unwrap();
    let bindings = cbindgen::Builder::new().with_crate(home()).with_config(config).generate();
    let mut written = Vec::new();
    bindings.unwrap().write(&mut written);
    let (written, file) = (String::from_utf8(written).unwrap(), home().join("include/mercer.h"));
    if std::env::var_os("MERCER_WRITE_HEADER").is_some() {
        fs::write(&file, &written).unwrap();
    }
    let known = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        known == written,
        "include/mercer.h is old: MERCER_WRITE_HEADER=1 cargo test -p mercer-c"
    );
}

/// The folder of the shared library that this test was built with.
fn library() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let folder = program.parent().unwrap().to_owned();
    let name = "libmercer_c.so";
    let found = [folder.clone(), folder.join("..")].into_iter().find(|one| one.join(name).exists());
    found.expect("cargo built the shared library")
}

/// Whether a program can be started.
fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

struct Build {
    compiler: &'static str,
    standard: &'static str,
    source: &'static str,
    more: &'static [&'static str],
}

impl Build {
    /// Compiles a program; returns its path.
    fn run(&self, folder: &Path) -> PathBuf {
        let program = folder.join("program");
        let output = Command::new(self.compiler)
            .args([self.standard, "-Wall", "-Wextra", "-Werror", "-pedantic", "-O1", "-g"])
            .args(self.more)
            .arg("-I")
            .arg(home().join("include"))
            .arg(home().join(self.source))
            .arg(library().join("libmercer_c.so"))
            .args(["-lm", "-lpthread", "-o"])
            .arg(&program)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{} {}: {said}", self.compiler, self.source);
        program
    }
}

/// Runs a program, under another one if it is given; returns what it printed. The library is found under its own name.
fn started(words: &[&str], folder: &Path) -> String {
    let wanted = folder.join("libmercer.so.0");
    if !wanted.exists() {
        fs::copy(library().join("libmercer_c.so"), &wanted).unwrap();
    }
    // What `checks.c` opens: a model of skl2onnx and the answers of ONNX Runtime.
    for file in ["svc2.onnx", "onnx.txt"] {
        let golden = home().join("../mercer-machine/tests/golden").join(file);
        fs::copy(golden, folder.join(file)).unwrap();
    }
    let output = Command::new(words[0])
        .args(&words[1..])
        .current_dir(folder)
        .env("LD_LIBRARY_PATH", folder)
        .env("MERCER_CACHE_DIR", folder)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{words:?}: {}\n{said}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

const C: &str = "-std=c99";

/// The functions that the header declares.
fn declared() -> Vec<String> {
    let header = fs::read_to_string(home().join("include/mercer.h")).unwrap();
    let code = header.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code: Vec<&str> = code.collect();
    let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
    let mut names: Vec<String> = code
        .join("\n")
        .split('(')
        .map(|before| before.rsplit(|c| !is_name(c)).next().unwrap_or_default().to_owned())
        .filter(|name| name.starts_with("mercer_"))
        .collect();
    names.sort();
    names.dedup();
    names
}

/// As `cargo xtask clib` links it: the static library with the versions of `mercer.map`.
#[test]
fn every_function_of_the_header_has_a_version() {
    let map = fs::read_to_string(home().join("mercer.map")).unwrap();
    let declared = declared();
    assert!(declared.len() > 20, "{declared:?}");
    let is_listed = |name: &String| map.lines().any(|line| line.trim() == format!("{name};"));
    let missing: Vec<&String> = declared.iter().filter(|name| !is_listed(name)).collect();
    assert!(missing.is_empty(), "mercer.map lacks {missing:?}");
    let archive = library().join("libmercer_c.a");
    if !cfg!(target_os = "linux") || !has("gcc") || !has("readelf") || !archive.exists() {
        eprintln!("skipped: gcc, readelf or the static library is not there");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let shared = folder.path().join("libmercer.so.0");
    let output = Command::new("gcc")
        .args(["-shared", "-Wl,--whole-archive"])
        .arg(&archive)
        .args(["-Wl,--no-whole-archive", "-Wl,--gc-sections", "-Wl,-soname,libmercer.so.0"])
        .arg(format!("-Wl,--version-script={}", home().join("mercer.map").display()))
        .args(["-lgcc_s", "-lm", "-lpthread", "-ldl", "-lc", "-o"])
        .arg(&shared)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let symbols = Command::new("readelf").args(["-W", "--dyn-syms"]).arg(&shared).output().unwrap();
    let symbols = String::from_utf8(symbols.stdout).unwrap();
    let exported = |line: &&str| line.contains(" GLOBAL ") && !line.contains(" UND ");
    let exported: Vec<&str> = symbols
        .lines()
        .filter(exported)
        .filter_map(|line| line.split_whitespace().last())
        .filter(|name| *name != "MERCER_0")
        .collect();
    for name in &declared {
        assert!(exported.contains(&format!("{name}@@MERCER_0").as_str()), "{name}: {exported:?}");
    }
    assert_eq!(exported.len(), declared.len(), "nothing else is exported: {exported:?}");
    // A program that was linked with it asks for the version.
    let source = home().join("tests/checks.c");
    let program = folder.path().join("program");
    let output = Command::new("gcc")
        .args([C, "-I"])
        .arg(home().join("include"))
        .args([&source, &shared])
        .args(["-lm", "-lpthread", "-o"])
        .arg(&program)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = started(&[program.to_str().unwrap()], folder.path());
    assert!(said.ends_with("done\n"), "{said}");
    let needs = Command::new("readelf").args(["-W", "-V"]).arg(&program).output().unwrap();
    assert!(String::from_utf8_lossy(&needs.stdout).contains("MERCER_0"));
}

#[test]
fn programs_in_c_and_cpp_compile_without_a_warning_and_run() {
    if !cfg!(target_os = "linux") {
        eprintln!("skipped: the shared library has this name on Linux only");
        return;
    }
    let mut count = 0;
    for (compiler, standard, source) in [
        ("gcc", C, "tests/checks.c"),
        ("clang", C, "tests/checks.c"),
        ("gcc", C, "examples/plane.c"),
        ("clang", C, "examples/plane.c"),
        ("g++", "-std=c++17", "examples/threads.cpp"),
        ("clang++", "-std=c++17", "examples/threads.cpp"),
    ] {
        if !has(compiler) {
            eprintln!("skipped: {compiler} is not installed");
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        let program = Build { compiler, standard, source, more: &[] }.run(folder.path());
        let said = started(&[program.to_str().unwrap()], folder.path());
        assert!(said.ends_with("done\n"), "{compiler} {source}: {said}");
        count += 1;
    }
    assert!(count > 0 || !has("cc"), "no compiler was found");
}

#[test]
fn no_memory_is_misused_or_lost() {
    let folder = tempfile::tempdir().unwrap();
    let source = "tests/checks.c";
    if cfg!(target_os = "linux") && has("gcc") && has("valgrind") {
        let program = Build { compiler: "gcc", standard: C, source, more: &[] }.run(folder.path());
        let valgrind = ["valgrind", "-q", "--error-exitcode=7", "--leak-check=full"];
        let kinds = ["--errors-for-leak-kinds=definite", program.to_str().unwrap()];
        started(&[&valgrind[..], &kinds].concat(), folder.path());
    } else {
        eprintln!("skipped: valgrind or gcc is not installed");
    }
    let more = ["-fsanitize=address,undefined", "-fno-omit-frame-pointer"].as_slice();
    if cfg!(target_os = "linux") && has("gcc") {
        let program = Build { compiler: "gcc", standard: C, source, more }.run(folder.path());
        started(&[program.to_str().unwrap()], folder.path());
    } else {
        eprintln!("skipped: gcc is not installed");
    }
}
