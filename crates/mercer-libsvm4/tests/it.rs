//! `libsvm.so.4` as programs use it: a program in C, and the package `libsvm-official` of Python.

#[path = "../../mercer-libsvm/tests/support/mod.rs"]
mod support;

use std::fs;
use std::process::Command;

use support::{Installed, check_exports, compare_packages, has, printed, run_checks};

fn installed() -> Installed {
    Installed::new("libmercer_libsvm4.so", "libsvm.so.4")
}

#[test]
#[cfg(target_os = "linux")]
fn a_program_in_c_trains_predicts_and_survives_nonsense() {
    run_checks(&installed(), &["-DHAS_MARKS"]);
}

#[test]
#[cfg(target_os = "linux")]
fn it_has_libsvms_symbols_and_name_and_no_others() {
    check_exports(&installed());
}

/// The Python files of `libsvm-official` look for `libsvm.so.4` two folders above. Its own library is compiled there for the
/// comparison.
#[test]
#[cfg(target_os = "linux")]
fn the_package_libsvm_official_gives_the_results_of_its_own_library() {
    let installed = installed();
    if !has("python3") || !has("g++") {
        eprintln!("skipped: python3 or g++ is not installed");
        return;
    }
    let download = Command::new("python3")
        .args(["-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"])
        .args(["libsvm-official==3.37.0", "-d"])
        .arg(installed.path())
        .output();
    let archive = installed.path().join("libsvm_official-3.37.0.tar.gz");
    if !download.is_ok_and(|output| output.status.success()) && !archive.exists() {
        eprintln!("skipped: libsvm-official cannot be downloaded");
        return;
    }
    printed(&installed.run_without(&["tar", "xzf", "libsvm_official-3.37.0.tar.gz"]));
    let source = installed.path().join("libsvm_official-3.37.0");
    for folder in ["a", "theirs/a"] {
        let folder = installed.path().join(folder).join("libsvm");
        fs::create_dir_all(&folder).unwrap();
        for file in ["__init__.py", "commonutil.py", "svm.py", "svmutil.py"] {
            fs::copy(source.join("libsvm").join(file), folder.join(file)).unwrap();
        }
    }
    let compile = ["g++", "-O2", "-shared", "-fPIC", "-Wl,-soname,libsvm.so.4", "-o"];
    let files = ["theirs/libsvm.so.4", "libsvm_official-3.37.0/cpp-source/svm.cpp"];
    printed(&installed.run_without(&[&compile[..], &files].concat()));
    compare_packages(&installed, "python3", Some(["a", "theirs/a"]));
}
