//! The source of the site: the pages of the table of contents at their places in the repository, so that links stay as they
//! are, and the pages that the program writes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{components, links, markdown, python_api, summary};
use crate::workspace::{self, Workspace};

/// Where generated pages are, and what they are called there.
const REFERENCE: &str = "docs/reference";
/// Pages whose options are appended by the program.
const VERBS: &str = "docs/guide/verbs";

/// Whether a page is written by this command, not by people.
pub fn is_generated(path: &Path) -> bool {
    path.parent() == Some(Path::new(REFERENCE))
        && path.file_name().and_then(|name| name.to_str()).is_some_and(|name| {
            components::PAGES.iter().any(|page| page.file == name)
                || python_api::PAGES.contains(&name)
        })
}

/// Writes the source of the site into `home/src`, and its settings; returns how many pages it has.
pub fn stage(workspace: &Workspace, command: &Path, home: &Path) -> Result<usize> {
    let source = home.join("src");
    let summary = summary::read(&workspace.root)?;
    every_page_is_named(workspace, &summary.pages)?;
    write(&source.join("SUMMARY.md"), &summary.text)?;
    fs::copy(workspace.root.join("docs/book.toml"), home.join("book.toml"))
        .context("docs/book.toml")?;
    components::write(command, &source.join(REFERENCE))?;
    python_api::write(workspace, home, &source.join(REFERENCE))?;
    for page in summary.pages.iter().filter(|page| !is_generated(page)) {
        let text = fs::read_to_string(workspace.root.join(page))
            .with_context(|| page.display().to_string())?;
        copy_files(workspace, page, &text, &source)?;
        let mut text = markdown::map_links(&text, summary::rename);
        if page.starts_with(VERBS) {
            text += &options_of(command, page)?;
        }
        write(&source.join(summary::rename(&page.display().to_string())), &text)?;
    }
    Ok(summary.pages.len())
}

/// Every page below `docs/` must be reachable.
fn every_page_is_named(workspace: &Workspace, named: &[PathBuf]) -> Result<()> {
    let mut git = workspace.command("git");
    let list = workspace::stdout_of(git.args(["ls-files", "-z", "--", "docs/*.md"]))?;
    let missing: Vec<&str> = list
        .split_terminator('\0')
        .filter(|page| *page != summary::FILE && !named.iter().any(|path| path == Path::new(page)))
        .collect();
    if !missing.is_empty() {
        bail!("{} does not name {}", summary::FILE, missing.join(", "));
    }
    Ok(())
}

/// Files that a page links to and that are not pages: pictures, JSON.
fn copy_files(workspace: &Workspace, page: &Path, text: &str, source: &Path) -> Result<()> {
    for link in markdown::links(text) {
        let path = link.target.split('#').next().unwrap_or_default();
        if path.is_empty() || path.contains("://") || summary::is_markdown(Path::new(path)) {
            continue;
        }
        let file = links::resolve(page, path)?;
        if workspace.root.join(&file).is_file() {
            let to = source.join(&file);
            fs::create_dir_all(to.parent().context("it is in a folder")?)?;
            fs::copy(workspace.root.join(&file), to)?;
        }
    }
    Ok(())
}

/// What the parser says of a verb.
fn options_of(command: &Path, page: &Path) -> Result<String> {
    let verb = page.file_stem().and_then(|name| name.to_str()).context("a page has a name")?;
    // LIBSVM's commands print their usage if nothing is given.
    let words: &[&str] = if verb.starts_with("svm-") { &[verb] } else { &[verb, "--help"] };
    let output = Command::new(command).args(words).output();
    let output = output.with_context(|| command.display().to_string())?;
    let said = if output.stdout.is_empty() { output.stderr } else { output.stdout };
    let said = String::from_utf8_lossy(&said).into_owned();
    if said.trim().is_empty() {
        bail!("{} {} says nothing", command.display(), words.join(" "));
    }
    Ok(format!("\n## Options\n\n```text\n{}\n```\n", said.trim_end()))
}

fn write(file: &Path, text: &str) -> Result<()> {
    fs::create_dir_all(file.parent().context("it is in a folder")?)?;
    fs::write(file, text).with_context(|| file.display().to_string())
}
