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
    fs::write(lib.join("pkgconfig/mercer.pc"), pkg_config(prefix))?;
    Ok(())
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

fn pkg_config(prefix: &Path) -> String {
    format!(
        "prefix={}\nlibdir=${{prefix}}/lib\nincludedir=${{prefix}}/include\n\n\
         Name: mercer\nDescription: Kernel machines that answer fast, with the same decisions\n\
         Version: {}\nLibs: -L${{libdir}} -lmercer\nLibs.private: -lm -lpthread -ldl\n\
         Cflags: -I${{includedir}}\n",
        prefix.display(),
        env!("CARGO_PKG_VERSION"),
    )
}
