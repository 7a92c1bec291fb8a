//! `libsvm.so.4` as programs use it: a program in C, and the package `libsvm-official` of Python.

#[path = "../../mercer-libsvm/tests/support/mod.rs"]
mod support;

use std::fs;
use std::process::Command;

use support::{Installed, has, printed, run_checks};

fn installed() -> Installed {
    Installed::new("libmercer_libsvm4.so", "libsvm.so.4")
}

#[test]
#[cfg(target_os = "linux")]
fn a_program_in_c_trains_predicts_and_survives_nonsense() {
    run_checks(&installed(), &["-DHAS_MARKS"]);
}

/// The Python files of `libsvm-official` look for `libsvm.so.4` two folders above.
#[test]
#[cfg(target_os = "linux")]
fn the_package_libsvm_official_works_on_it() {
    let installed = installed();
    if !has("python3") {
        eprintln!("skipped: python3 is not installed");
        return;
    }
    let place = installed.path().join("a/libsvm");
    let download = Command::new("python3")
        .args(["-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"])
        .args(["--no-build-isolation", "libsvm-official==3.37.0", "-d"])
        .arg(installed.path())
        .output();
    let archive = installed.path().join("libsvm_official-3.37.0.tar.gz");
    if !download.is_ok_and(|output| output.status.success()) && !archive.exists() {
        eprintln!("skipped: libsvm-official cannot be downloaded");
        return;
    }
    printed(&installed.run_without(&["tar", "xzf", "libsvm_official-3.37.0.tar.gz"]));
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    fs::rename(installed.path().join("libsvm_official-3.37.0/libsvm"), &place).unwrap();
    fs::write(installed.path().join("script.py"), include_str!("official.py")).unwrap();
    let said = printed(&installed.run(&["python3", "script.py", "a"]));
    assert!(said.ends_with("done\n"), "{said}");
}
