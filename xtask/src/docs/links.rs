//! Links between the pages of the repository: every target exists, and so does its heading. Paths in code that begin with a
//! folder of the repository exist as well. Nothing is built for it.

use std::collections::HashMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::markdown::{self, Link};
use super::staging;
use crate::workspace::{Workspace, stdout_of};

/// Folders whose paths are checked where they stand in code.
const FOLDERS: [&str; 9] =
    ["benches/", "crates/", "datasets/", "deploy/", "docs/", "fuzz/", "python/", "r/", "xtask/"];

/// Checks all pages; returns how many links were looked at.
pub fn must_hold(workspace: &Workspace) -> Result<usize> {
    let mut command = workspace.command("git");
    let list = stdout_of(command.args(["ls-files", "-z", "--", "*.md"]))?;
    let mut checker = Checker { root: &workspace.root, anchors: HashMap::new() };
    let (mut count, mut wrong) = (0, Vec::new());
    for page in list.split_terminator('\0') {
        let Ok(text) = fs::read_to_string(workspace.root.join(page)) else { continue };
        let (links, spans) = (markdown::links(&text), markdown::code_spans(&text));
        count += links.len();
        for Link { line, target } in links {
            if let Err(reason) = checker.link(Path::new(page), &target) {
                wrong.push(format!("{page}:{line}: {target}: {reason}"));
            }
        }
        for Link { line, target } in spans.into_iter().filter(|span| is_path(&span.target)) {
            count += 1;
            if !workspace.root.join(&target).exists() {
                wrong.push(format!("{page}:{line}: there is no {target}"));
            }
        }
    }
    if count == 0 {
        bail!("no page of the repository has a link");
    }
    wrong.iter().for_each(|line| println!("{line}"));
    if !wrong.is_empty() {
        bail!("{} of {count} links are dead", wrong.len());
    }
    Ok(count)
}

struct Checker<'a> {
    root: &'a Path,
    /// Of pages that were read.
    anchors: HashMap<PathBuf, Vec<String>>,
}

impl Checker<'_> {
    fn link(&mut self, page: &Path, target: &str) -> Result<()> {
        if target.contains("://") || target.starts_with("mailto:") {
            return Ok(());
        }
        let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
        let path = if path.is_empty() { page.to_owned() } else { resolve(page, path)? };
        if staging::is_generated(&path) {
            return Ok(());
        }
        let file = self.root.join(&path);
        if !file.exists() {
            bail!("there is no {}", path.display());
        }
        if anchor.is_empty() {
            return Ok(());
        }
        if !self.anchors.contains_key(&path) {
            let text = fs::read_to_string(&file).context("it cannot be read")?;
            self.anchors.insert(path.clone(), markdown::anchors(&text));
        }
        if !self.anchors[&path].iter().any(|known| known == anchor) {
            bail!("{} has no heading '{anchor}'", path.display());
        }
        Ok(())
    }
}

/// The path in the repository that a link of a page means.
pub fn resolve(page: &Path, target: &str) -> Result<PathBuf> {
    let folder = page.parent().unwrap_or(Path::new(""));
    let mut path = PathBuf::new();
    for part in folder.join(target).components() {
        match part {
            Component::ParentDir if !path.pop() => bail!("it leaves the repository"),
            Component::ParentDir | Component::CurDir => {}
            Component::Normal(name) => path.push(name),
            Component::RootDir | Component::Prefix(_) => bail!("it is not relative"),
        }
    }
    Ok(path)
}

/// Whether code is a path in this repository: no spaces, patterns or numbers of lines.
fn is_path(code: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-');
    FOLDERS.iter().any(|folder| code.starts_with(folder) && code.len() > folder.len())
        && code.chars().all(fits)
        && !code.contains("...")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_relative_to_their_page() {
        let page = Path::new("docs/guide/verbs/train.md");
        let is = |target: &str| resolve(page, target).unwrap();
        assert_eq!(is("predict.md"), Path::new("docs/guide/verbs/predict.md"));
        assert_eq!(is("../../../README.md"), Path::new("README.md"));
        assert!(resolve(page, "../../../../outside.md").is_err());
        assert!(resolve(page, "/etc/passwd").is_err());
    }

    #[test]
    fn dead_links_and_headings_are_found() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("b.md"), "# Title\n## Part one\n").unwrap();
        let mut checker = Checker { root: folder.path(), anchors: HashMap::new() };
        let mut holds = |target: &str| checker.link(Path::new("a.md"), target).is_ok();
        assert!(holds("b.md") && holds("b.md#part-one") && holds("https://example.org/x"));
        assert!(!holds("c.md") && !holds("b.md#part-two") && !holds("../b.md"));
    }

    #[test]
    fn paths_in_code_are_told_from_other_code() {
        assert!(is_path("docs/format.md") && is_path("crates/mercer-query/src/"));
        for other in
            ["docs/", "docs/*.md", "cargo xtask docs", "crates/{a,b}", "docs/benchmarks/..."]
        {
            assert!(!is_path(other), "{other}");
        }
    }
}
