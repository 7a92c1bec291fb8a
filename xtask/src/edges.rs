//! `cargo xtask edges`: dependencies point one way, and only two crates may say `unsafe`.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::source::{code_only, find_word, line_of, rust_files};
use crate::workspace::Workspace;
use crate::{Args, Verb};

pub const VERB: Verb = Verb {
    name: "edges",
    usage: "",
    about: "Fails on a dependency between crates that the architecture does not allow.\n\
            Also on a crate other than mercer-simd, mercer-c and mercer-libsvm* that does not forbid `unsafe`, or says it.",
    run,
};

const SIMD: &str = "mercer-simd";
/// The only crates with `unsafe`: vector instructions, and pointers of callers in C.
const WITH_UNSAFE: [&str; 5] =
    [SIMD, "mercer-c", "mercer-libsvm", "mercer-libsvm3", "mercer-libsvm4"];
/// The crate every other may use in its tests.
const TESTKIT: &str = "mercer-testkit";

/// Each crate and those it may depend on. A crate comes after all it may depend on.
const ALLOWED: &[(&str, &[&str])] = &[
    (SIMD, &[]),
    ("mercer-spec", &[]),
    ("mercer-data", &[SIMD, "mercer-spec"]),
    ("mercer-kernel", &[SIMD, "mercer-spec", "mercer-data"]),
    ("mercer-machine", &[SIMD, "mercer-spec", "mercer-data", "mercer-kernel"]),
    ("mercer-query", UP_TO_MACHINE),
    ("mercer-train", UP_TO_MACHINE),
    ("mercer-compile", UP_TO_TRAIN),
    ("mercer", UP_TO_COMPILE),
    ("mercer-draw", &[]),
    ("mercer-datasets", &[]),
    (
        "mercer-server",
        &["mercer-data", "mercer-draw", "mercer-kernel", "mercer-machine", "mercer-query"],
    ),
    ("mercer-play", &["mercer", "mercer-server"]),
    ("mercer-report", &["mercer", "mercer-draw"]),
    ("mercer-papers", &["mercer", "mercer-datasets", "mercer-report"]),
    (
        "mercer-cli",
        &[
            "mercer",
            "mercer-datasets",
            "mercer-play",
            "mercer-report",
            "mercer-papers",
            "mercer-server",
        ],
    ),
    ("mercer-c", &["mercer"]),
    ("mercer-libsvm", &["mercer"]),
    ("mercer-libsvm3", &["mercer-libsvm"]),
    ("mercer-libsvm4", &["mercer-libsvm"]),
    ("mercer-python", &["mercer"]),
    (TESTKIT, UP_TO_FACADE),
    ("xtask", &[]),
];
const UP_TO_MACHINE: &[&str] = UP_TO_FACADE.split_at(5).0;
const UP_TO_TRAIN: &[&str] = UP_TO_FACADE.split_at(7).0;
const UP_TO_COMPILE: &[&str] = UP_TO_FACADE.split_at(8).0;
const UP_TO_FACADE: &[&str] = &[
    SIMD,
    "mercer-spec",
    "mercer-data",
    "mercer-kernel",
    "mercer-machine",
    "mercer-query",
    "mercer-train",
    "mercer-compile",
    "mercer",
];

fn run(args: Args) -> Result<ExitCode> {
    args.finish()?;
    check(&Workspace::load()?)?;
    println!("edges: in order");
    Ok(ExitCode::SUCCESS)
}

/// Fails with one line per thing that is not in order.
pub fn check(workspace: &Workspace) -> Result<()> {
    let mut wrong = wrong_edges(&workspace.metadata)?;
    let root = fs::read_to_string(workspace.root.join("Cargo.toml"))?;
    if !forbids_unsafe(&root.parse().context("Cargo.toml")?) {
        wrong.push("Cargo.toml: [workspace.lints.rust] must say unsafe_code = \"forbid\"".into());
    }
    for package in packages(&workspace.metadata)? {
        if !WITH_UNSAFE.contains(&text(package, "name")?) {
            let manifest = Path::new(text(package, "manifest_path")?);
            wrong.extend(unsafe_ways(workspace, manifest)?);
        }
    }
    if !wrong.is_empty() {
        bail!("edges: {} not in order\n  {}", wrong.len(), wrong.join("\n  "));
    }
    Ok(())
}

/// One sentence per dependency between workspace crates that [`ALLOWED`] does not list.
///
/// Normal, build and development dependencies obey the same table, but any crate's tests may use
/// the test kit.
fn wrong_edges(metadata: &Value) -> Result<Vec<String>> {
    let packages = packages(metadata)?;
    let members = packages.iter().map(|p| text(p, "name")).collect::<Result<Vec<_>>>()?;
    let mut wrong = Vec::new();
    for (package, name) in packages.iter().zip(&members) {
        let Some((_, allowed)) = ALLOWED.iter().find(|(listed, _)| listed == name) else {
            wrong.push(format!("{name} has no line in the table of xtask/src/edges.rs"));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let used = text(dependency, "name")?;
            let kind = dependency["kind"].as_str().unwrap_or("normal");
            let for_tests = kind == "dev" && used == TESTKIT && *name != "xtask";
            if members.contains(&used) && !allowed.contains(&used) && !for_tests {
                wrong.push(format!("{name} must not depend on {used} ({kind} dependency)"));
            }
        }
    }
    Ok(wrong)
}

/// What is wrong with a crate that must not be unsafe.
fn unsafe_ways(workspace: &Workspace, manifest: &Path) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    let shown = workspace.shown(manifest);
    let table: toml::Table = fs::read_to_string(manifest)?.parse().context(shown.clone())?;
    if !inherits_lints(&table) {
        wrong.push(format!("{shown}: must say [lints] workspace = true"));
    }
    for file in rust_files(manifest.parent().context("a manifest is in a folder")?)? {
        let code = code_only(&fs::read_to_string(&file)?);
        for place in find_word(&code, "unsafe") {
            let line = line_of(&code, place);
            let (file, only) = (workspace.shown(&file), WITH_UNSAFE.join(" and "));
            wrong.push(format!("{file}:{line}: only {only} may say unsafe"));
        }
    }
    Ok(wrong)
}

fn inherits_lints(manifest: &toml::Table) -> bool {
    let inherits = manifest.get("lints").and_then(|lints| lints.get("workspace"));
    inherits.and_then(toml::Value::as_bool) == Some(true)
}

fn forbids_unsafe(root: &toml::Table) -> bool {
    let lints = root.get("workspace").and_then(|workspace| workspace.get("lints"));
    let lint = lints.and_then(|lints| lints.get("rust")).and_then(|rust| rust.get("unsafe_code"));
    let level = lint.map(|lint| lint.get("level").unwrap_or(lint));
    level.and_then(toml::Value::as_str) == Some("forbid")
}

fn packages(metadata: &Value) -> Result<&Vec<Value>> {
    metadata["packages"].as_array().context("cargo metadata lists no packages")
}

fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str> {
    value[key].as_str().with_context(|| format!("cargo metadata has a package without {key}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A dependency of a made-up crate: what it uses, and cargo's word for the kind.
    type Used<'a> = (&'a str, Option<&'a str>);

    fn metadata(crates: &[(&str, &[Used<'_>])]) -> Value {
        let mut packages = Vec::new();
        for (name, used) in crates {
            let used = used.iter().map(|(name, kind)| json!({"name": name, "kind": kind}));
            packages.push(json!({"name": name, "dependencies": used.collect::<Vec<_>>()}));
        }
        json!({ "packages": packages })
    }

    #[test]
    fn the_table_points_one_way() {
        for (place, (name, allowed)) in ALLOWED.iter().enumerate() {
            for used in *allowed {
                let earlier = ALLOWED[..place].iter().any(|(listed, _)| listed == used);
                assert!(earlier, "{name} may use {used}, which does not come before it");
            }
        }
    }

    #[test]
    fn what_is_not_for_users_is_used_by_no_room() {
        for (name, allowed) in ALLOWED {
            assert!(!allowed.contains(&TESTKIT) && !allowed.contains(&"xtask"), "{name}");
        }
    }

    #[test]
    fn the_table_says_what_the_drawing_says() {
        let may_use = |name: &str| ALLOWED.iter().find(|(listed, _)| *listed == name).unwrap().1;
        assert_eq!(may_use("mercer-query").last(), Some(&"mercer-machine"));
        assert_eq!(may_use("mercer-train").last(), Some(&"mercer-machine"));
        assert_eq!(may_use("mercer-compile").last(), Some(&"mercer-train"));
        assert_eq!(may_use("mercer").last(), Some(&"mercer-compile"));
        assert_eq!(may_use("mercer-papers"), ["mercer", "mercer-datasets", "mercer-report"]);
        assert_eq!(
            may_use("mercer-cli"),
            [
                "mercer",
                "mercer-datasets",
                "mercer-play",
                "mercer-report",
                "mercer-papers",
                "mercer-server"
            ]
        );
    }

    #[test]
    fn an_allowed_graph_passes() {
        let graph = metadata(&[
            ("mercer-simd", &[("gemm", None), ("mercer-testkit", Some("dev"))]),
            ("mercer-spec", &[]),
            ("mercer-data", &[("mercer-simd", None), ("mercer-spec", Some("build"))]),
            ("mercer-testkit", &[("mercer-simd", None), ("mercer-data", None)]),
            ("xtask", &[("toml", None)]),
        ]);
        assert_eq!(wrong_edges(&graph).unwrap(), [""; 0]);
    }

    #[test]
    fn a_forbidden_edge_is_named() {
        let graph = metadata(&[
            ("mercer-train", &[]),
            ("mercer-query", &[("mercer-train", None), ("serde", None)]),
        ]);
        let expected = ["mercer-query must not depend on mercer-train (normal dependency)"];
        assert_eq!(wrong_edges(&graph).unwrap(), expected);
    }

    #[test]
    fn the_test_kit_is_for_tests() {
        for kind in [None, Some("build")] {
            let graph =
                metadata(&[("mercer-testkit", &[]), ("mercer-data", &[("mercer-testkit", kind)])]);
            assert_eq!(wrong_edges(&graph).unwrap().len(), 1, "{kind:?}");
        }
    }

    #[test]
    fn tests_obey_the_table_too() {
        let graph =
            metadata(&[("mercer-query", &[]), ("mercer-data", &[("mercer-query", Some("dev"))])]);
        assert_eq!(wrong_edges(&graph).unwrap().len(), 1);
    }

    #[test]
    fn a_crate_outside_the_table_is_named() {
        let wrong = wrong_edges(&metadata(&[("mercer-utils", &[])])).unwrap();
        assert!(wrong[0].starts_with("mercer-utils has no line"));
    }

    #[test]
    fn lints_are_inherited_from_a_workspace_that_forbids() {
        let table = |text: &str| text.parse::<toml::Table>().unwrap();
        assert!(inherits_lints(&table("[lints]\nworkspace = true")));
        assert!(!inherits_lints(&table("[lints.rust]\nunsafe_code = 'forbid'")));
        assert!(forbids_unsafe(&table("[workspace.lints.rust]\nunsafe_code = 'forbid'")));
        assert!(forbids_unsafe(&table("workspace.lints.rust.unsafe_code.level = 'forbid'")));
        assert!(!forbids_unsafe(&table("[workspace.lints.rust]\nunsafe_code = 'deny'")));
    }
}
