//! `cargo xtask publish`: what the crates would bring to a registry of crates, and whether they could be published.
//! Nothing is uploaded.

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::workspace::{self, Workspace, stdout_of};
use crate::{Args, Verb};

pub const VERB: Verb = Verb {
    name: "publish",
    usage: "[--list]",
    about: "Checks the crates that are to be published, and runs cargo's dry run; uploads nothing.\n\
            Each must have a description, keywords, categories and a readme, must depend on published crates only, and its\n\
            package must hold no data set, test or page that does not belong. The dry run compiles every package by itself.\n\
            --list  only the checks, not the dry run: seconds",
    run,
};

/// The crate whose package is data.
const DATA: &str = "mercer-datasets";
/// Folders of a package, beside its root.
const FOLDERS: [&str; 3] = ["src", "page", "proto"];
/// Endings of the files in them.
const ENDINGS: [&str; 9] = ["rs", "toml", "c", "js", "html", "css", "svg", "json", "proto"];
/// Files that may lie in the root of a package; cargo adds some of them.
const ROOT: [&str; 7] = [
    "Cargo.toml",
    "Cargo.toml.orig",
    "Cargo.lock",
    ".cargo_vcs_info.json",
    "README.md",
    "build.rs",
    "lib.rs",
];
/// Keys of a manifest that must say something.
const KEYS: [&str; 5] = ["description", "license", "keywords", "categories", "readme"];

fn run(mut args: Args) -> Result<ExitCode> {
    let is_list = args.flag("--list");
    args.finish()?;
    let workspace = Workspace::load()?;
    must_hold(&workspace)?;
    if !is_list {
        // A package is made of what is in the folder, committed or not; clippy and tests look at the same.
        let words = ["publish", "--workspace", "--dry-run", "--allow-dirty", "--locked"];
        workspace::run(&mut workspace.cargo(words))?;
        println!("publish: the dry run passed");
    }
    Ok(ExitCode::SUCCESS)
}

/// Fails with one line per thing that is wrong with a crate that is to be published.
pub fn must_hold(workspace: &Workspace) -> Result<()> {
    let packages = workspace.metadata["packages"].as_array().context("packages")?;
    let mut wrong = wrong_manifests(packages);
    let mut count = 0;
    for name in packages.iter().filter(|package| is_published(package)).filter_map(name_of) {
        let words = ["package", "--list", "--allow-dirty", "--offline", "--locked", "-p", name];
        let list = stdout_of(&mut workspace.cargo(words))?;
        wrong.extend(list.lines().filter(|file| !belongs(name, file)).map(|file| {
            format!(
                "{file} does not belong into the package {name}: see `include` in its Cargo.toml"
            )
        }));
        count += 1;
    }
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    println!("publish: {count} crates, their manifests and contents are in order");
    Ok(())
}

fn name_of(package: &Value) -> Option<&str> {
    package["name"].as_str()
}

/// Cargo's metadata has an empty list for `publish = false`, and null where nothing is said.
fn is_published(package: &Value) -> bool {
    package["publish"].is_null()
}

/// What the manifests of published crates lack, and which of them need a crate that is not published.
fn wrong_manifests(packages: &[Value]) -> Vec<String> {
    let kept: Vec<_> =
        packages.iter().filter(|one| !is_published(one)).filter_map(name_of).collect();
    let mut wrong = Vec::new();
    for package in packages.iter().filter(|package| is_published(package)) {
        let name = name_of(package).unwrap_or_default();
        let is_empty = |value: &Value| match value {
            Value::Array(items) => items.is_empty(),
            Value::String(text) => text.is_empty(),
            _ => true,
        };
        let missing = KEYS.iter().filter(|key| is_empty(&package[**key]));
        wrong.extend(missing.map(|key| format!("{name} is published and has no {key}")));
        let used = package["dependencies"].as_array().into_iter().flatten();
        // Cargo leaves out dependencies of tests that have no version.
        let used = used.filter(|one| one["kind"] != "dev").filter_map(name_of);
        wrong.extend(
            used.filter(|used| kept.contains(used))
                .map(|used| format!("{name} is published and depends on {used}, which is not")),
        );
    }
    wrong
}

/// Whether a file may be part of the package of a crate.
fn belongs(name: &str, file: &str) -> bool {
    // Cargo prints the separators of the system.
    let file = file.replace('\\', "/");
    let Some((folder, rest)) = file.split_once('/') else { return ROOT.contains(&&*file) };
    let ending = rest.rsplit('.').next().unwrap_or_default();
    if name == DATA {
        let files = ["README.md", "digits.csv.gz", "digits.model", "svm-predict.labels"];
        return ending == "csv" || files.contains(&rest);
    }
    let is_page_of_tests = folder == "page" && rest.contains('/');
    FOLDERS.contains(&folder) && ENDINGS.contains(&ending) && !is_page_of_tests
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn data_tests_and_pages_do_not_belong() {
        for file in ["src/lib.rs", "src/c/text/exp.c", "Cargo.toml.orig", "page/app.js", "build.rs"]
        {
            assert!(belongs("mercer-server", file), "{file}");
        }
        for file in [
            "tests/golden/types.parquet",
            "references.txt",
            "src/references.txt",
            "page/tests/browser.mjs",
            "page/tests/other.js",
            "docs/page.html",
            "src/digits.csv.gz",
            "examples/soak.rs",
        ] {
            assert!(!belongs("mercer-server", file), "{file}");
        }
        assert!(belongs(DATA, "digits/digits.csv.gz") && belongs(DATA, "sonar\\sonar.csv"));
        assert!(!belongs(DATA, "digits/queries.svm") && !belongs(DATA, "digits/make.py"));
    }

    #[test]
    fn a_published_crate_says_what_it_is_and_needs_published_crates() {
        let whole = |name: &str, used: Value| {
            json!({"name": name, "publish": null, "description": "x", "license": "MIT", "keywords": ["x"],
                   "categories": ["x"], "readme": "README.md", "dependencies": used})
        };
        let kept = json!({"name": "kept", "publish": [], "dependencies": []});
        let fine =
            whole("a", json!([{"name": "b", "kind": null}, {"name": "kept", "kind": "dev"}]));
        assert_eq!(wrong_manifests(&[fine, whole("b", json!([])), kept.clone()]), [""; 0]);
        let needs = whole("a", json!([{"name": "kept", "kind": null}]));
        assert_eq!(wrong_manifests(&[needs, kept]).len(), 1);
        let mut bare = whole("a", json!([]));
        bare["keywords"] = json!([]);
        bare["readme"] = Value::Null;
        assert_eq!(wrong_manifests(&[bare]).len(), 2);
    }

    #[test]
    fn the_crates_of_this_workspace_could_be_published() {
        must_hold(&Workspace::load().unwrap()).unwrap();
    }
}
