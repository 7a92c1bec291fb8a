//! `cargo xtask clib`: builds the C library and installs it with its header and its pkg-config file.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::workspace::{self, Workspace};
use crate::{Args, Verb};

pub const VERB: Verb = Verb {
    name: "clib",
    usage: "--prefix DIR",
    about: "Builds the C library and installs it: DIR/lib/libmercer.so and .a, DIR/include/mercer.h,\n\
            DIR/lib/pkgconfig/mercer.pc; and libsvm.so.3 and libsvm.so.4 with LIBSVM's interface. Linux.",
    run,
};

fn run(mut args: Args) -> Result<ExitCode> {
    let prefix = args.value("--prefix")?.context("--prefix DIR says where to install")?;
    args.finish()?;
    let prefix = std::path::absolute(prefix)?;
    let workspace = Workspace::load()?;
    let packages = ["-p", "mercer-c", "-p", "mercer-libsvm3", "-p", "mercer-libsvm4"];
    let words = ["build", "--release", "--locked"].into_iter().chain(packages);
    workspace::run(&mut workspace.cargo(words))?;
    let built = workspace.target.join("release");
    let lib = prefix.join("lib");
    let shared = built.join("libmercer.so");
    link_with_versions(&workspace, &built.join("libmercer_c.a"), &shared)?;
    install(&workspace, &shared, &prefix)?;
    copy(&built.join("libmercer_c.a"), &lib.join("libmercer.a"))?;
    for number in ["3", "4"] {
        let (from, to) = (format!("libmercer_libsvm{number}.so"), format!("libsvm.so.{number}"));
        copy(&built.join(from), &lib.join(to))?;
    }
    println!("clib: installed in {}", prefix.display());
    Ok(ExitCode::SUCCESS)
}

/// Links the static library into a shared one whose symbols have versions. rustc links with a version script of its own that
/// has no names, and linkers refuse a second one beside it; so its shared library has no versions.
fn link_with_versions(workspace: &Workspace, archive: &Path, shared: &Path) -> Result<()> {
    let mut gcc = workspace.command("gcc");
    gcc.args(["-shared", "-Wl,--whole-archive"]).arg(archive).args([
        "-Wl,--no-whole-archive",
        "-Wl,--gc-sections",
        "-Wl,--strip-debug",
        "-Wl,-z,relro,-z,now",
        "-Wl,-soname,libmercer.so.0",
    ]);
    let map = workspace.root.join("crates/mercer-c/mercer.map");
    gcc.arg(format!("-Wl,--version-script={}", map.display()));
    gcc.args(["-lgcc_s", "-lm", "-lpthread", "-ldl", "-lc", "-o"]).arg(shared);
    workspace::run(&mut gcc).context("a C compiler is needed to link the library")
}

/// Installs a shared library that was built, with its header and its pkg-config file.
pub fn install(workspace: &Workspace, shared: &Path, prefix: &Path) -> Result<()> {
    let (include, lib) = (prefix.join("include"), prefix.join("lib"));
    fs::create_dir_all(&include)?;
    fs::create_dir_all(lib.join("pkgconfig"))?;
    copy(&workspace.root.join("crates/mercer-c/include/mercer.h"), &include.join("mercer.h"))?;
    // The name that programs look for at run time (`build.rs` of mercer-c), and the one that linkers look for.
    copy(shared, &lib.join("libmercer.so.0"))?;
    link("libmercer.so.0", &lib.join("libmercer.so"))?;
    let text = pkg_config(prefix, version(workspace)?);
    fs::write(lib.join("pkgconfig/mercer.pc"), text)?;
    Ok(())
}

/// The version of the library, which is not that of this program.
fn version(workspace: &Workspace) -> Result<&str> {
    let packages = workspace.metadata["packages"].as_array();
    let mut packages = packages.context("cargo metadata has no packages")?.iter();
    let library = packages.find(|package| package["name"] == "mercer-c");
    let version = library.and_then(|package| package["version"].as_str());
    version.context("cargo metadata has no version of mercer-c")
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let said = || format!("cannot copy {} to {}", from.display(), to.display());
    fs::copy(from, to).map(drop).with_context(said)
}

#[cfg(unix)]
fn link(to: &str, name: &Path) -> Result<()> {
    if name.symlink_metadata().is_ok() {
        fs::remove_file(name)?;
    }
    Ok(std::os::unix::fs::symlink(to, name)?)
}

#[cfg(not(unix))]
fn link(_: &str, name: &Path) -> Result<()> {
    anyhow::bail!("cannot make the link {}: this is for Linux", name.display())
}

fn pkg_config(prefix: &Path, version: &str) -> String {
    format!(
        "prefix={}\nlibdir=${{prefix}}/lib\nincludedir=${{prefix}}/include\n\n\
         Name: mercer\nDescription: Kernel machines that answer fast, with the same decisions\n\
         Version: {version}\nLibs: -L${{libdir}} -lmercer\nLibs.private: -lm -lpthread -ldl\n\
         Cflags: -I${{includedir}}\n",
        prefix.display(),
    )
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn has(program: &str) -> bool {
        Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
    }

    /// The lines that a user copies from docs/guide/c.md, on what `cargo xtask clib` installs.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_program_is_compiled_by_the_lines_of_the_guide() {
        let workspace = Workspace::load().unwrap();
        let archive = workspace.target.join("debug/deps/libmercer_c.a");
        if !archive.exists() || !has("gcc") || !has("pkg-config") {
            eprintln!("skipped: gcc, pkg-config or {} is not there", archive.display());
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let (prefix, shared) = (folder.path().join("prefix"), folder.path().join("shared.so"));
        link_with_versions(&workspace, &archive, &shared).unwrap();
        install(&workspace, &shared, &prefix).unwrap();
        // A second time, over the first.
        install(&workspace, &shared, &prefix).unwrap();
        let guide = fs::read_to_string(workspace.root.join("docs/guide/c.md")).unwrap();
        let line =
            guide.lines().find(|line| line.starts_with("cc ")).expect("a line that compiles");
        let write = |text: &str| fs::write(folder.path().join("program.c"), text).unwrap();
        let said = |line: &str| {
            let output = Command::new("sh")
                .args(["-ec", line])
                .current_dir(folder.path())
                .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"))
                .env("LD_LIBRARY_PATH", prefix.join("lib"))
                .output()
                .unwrap();
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{line}: {error}");
            String::from_utf8(output.stdout).unwrap()
        };
        let compile_and_run = format!("{line} && ./program");
        let example = workspace.root.join("crates/mercer-c/examples/plane.c");
        write(&fs::read_to_string(example).unwrap());
        let run = said(&compile_and_run);
        assert!(run.ends_with("done\n"), "{run}");
        write(
            "#include <stdio.h>\n#include <mercer.h>\nint main(void) { puts(mercer_version()); return 0; }\n",
        );
        assert_eq!(said("pkg-config --modversion mercer"), said(&compile_and_run));
    }
}
