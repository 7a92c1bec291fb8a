//! Programs of others that tests run beside ours, from Debian's packages. Where they cannot be installed, the tests that need
//! them say that they are skipped.

use anyhow::Result;

use crate::workspace::{self, Workspace};

/// Packages, and a file that each of them brings.
const PACKAGES: [(&str, &str); 16] = [
    ("libsvm-tools", "/usr/bin/svm-train"),
    ("gnuplot-nox", "/usr/bin/gnuplot"),
    ("python3-libsvm", "/usr/lib/python3/dist-packages/svm.py"),
    ("valgrind", "/usr/bin/valgrind"),
    ("chromium", "/usr/bin/chromium"),
    ("nodejs", "/usr/bin/node"),
    ("npm", "/usr/bin/npm"),
    ("clang", "/usr/bin/clang"),
    ("r-base-dev", "/usr/share/R/debian/r-cran.mk"),
    ("r-cran-e1071", "/usr/lib/R/site-library/e1071/DESCRIPTION"),
    ("r-cran-kernlab", "/usr/lib/R/site-library/kernlab/DESCRIPTION"),
    ("r-cran-testthat", "/usr/lib/R/site-library/testthat/DESCRIPTION"),
    ("r-cran-knitr", "/usr/lib/R/site-library/knitr/DESCRIPTION"),
    ("r-cran-rmarkdown", "/usr/lib/R/site-library/rmarkdown/DESCRIPTION"),
    ("r-cran-matrix", "/usr/lib/R/library/Matrix/DESCRIPTION"),
    ("r-cran-sparsem", "/usr/lib/R/site-library/SparseM/DESCRIPTION"),
];

/// Installs the packages that are missing, if the caller may: as root of a Debian system, as in a container.
///
/// # Errors
/// Never because of a package: what is missing is said, and tests skip it.
pub fn install(workspace: &Workspace) -> Result<Option<&'static str>> {
    let missing = missing_packages();
    if missing.is_empty() {
        return Ok(None);
    }
    let is_root =
        workspace::stdout_of(workspace.command("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
    let has_apt = workspace::succeeds(workspace.command("apt-get").arg("--version"));
    if !is_root || !has_apt {
        println!("not installed, so tests with them are skipped: {}", missing.join(", "));
        return Ok(Some(
            "programs of others are missing, and only root of a Debian system installs them here",
        ));
    }
    // The list of packages may be empty or old, and a system may lack some of them: then the others are installed alone.
    if !apt_install(workspace, &missing) {
        workspace::succeeds(workspace.command("apt-get").args(["update", "-qq"]));
        if !apt_install(workspace, &missing) {
            for name in &missing {
                apt_install(workspace, &[name]);
            }
        }
    }
    let still_missing = missing_packages();
    if still_missing.is_empty() {
        println!("installed: {}", missing.join(", "));
        return Ok(None);
    }
    println!("cannot be installed, so tests with them are skipped: {}", still_missing.join(", "));
    Ok(Some("programs of others cannot be installed here"))
}

/// The packages whose files are not here.
fn missing_packages() -> Vec<&'static str> {
    let is_missing = |(_, file): &&(&str, &str)| !std::path::Path::new(file).exists();
    PACKAGES.iter().filter(is_missing).map(|(name, _)| *name).collect()
}

fn apt_install(workspace: &Workspace, packages: &[&str]) -> bool {
    let mut command = workspace.command("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command.args(["install", "-y", "-qq", "--no-install-recommends"]).args(packages);
    workspace::succeeds(&mut command)
}
