//! The table of contents: `docs/SUMMARY.md` with its lists of pages filled in, relative to the root of the repository.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::links::resolve;
use super::markdown;

/// Where it is written.
pub const FILE: &str = "docs/SUMMARY.md";

/// A table of contents, and the pages it names.
pub struct Summary {
    pub text: String,
    pub pages: Vec<PathBuf>,
}

/// Fills in `<!-- pages of FOLDER -->`, a list of the pages of that folder by name, and `<!-- newest pages of FOLDER -->`, the
/// same from the last name to the first.
pub fn read(root: &Path) -> Result<Summary> {
    let written = fs::read_to_string(root.join(FILE)).context(FILE)?;
    let mut filled = String::new();
    for line in written.lines() {
        let indent = &line[..line.len() - line.trim_start().len()];
        let marker =
            line.trim().strip_prefix("<!-- ").and_then(|marker| marker.strip_suffix(" -->"));
        let newest = marker.and_then(|marker| marker.strip_prefix("newest pages of "));
        let folder = newest.or(marker.and_then(|marker| marker.strip_prefix("pages of ")));
        let Some(folder) = folder else {
            filled += line;
            filled.push('\n');
            continue;
        };
        let mut entries = entries(root, folder)?;
        if newest.is_some() {
            entries.reverse();
        }
        for (title, path) in entries {
            let _ = writeln!(filled, "{indent}- [{title}]({path})");
        }
    }
    let mut pages = Vec::new();
    for link in markdown::links(&filled) {
        pages.push(resolve(Path::new(FILE), &link.target)?);
    }
    let from_root = |target: &str| {
        resolve(Path::new(FILE), target)
            .map_or(target.to_owned(), |path| path.display().to_string())
    };
    let text = markdown::map_links(&filled, |target| rename(&from_root(target)));
    Ok(Summary { text, pages })
}

/// Pages of a folder below `docs/`, by name: title, and path from `docs/`.
fn entries(root: &Path, folder: &str) -> Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root.join("docs").join(folder)).context(folder.to_owned())? {
        let name = entry?.file_name();
        if !is_markdown(Path::new(&name)) || name == "README.md" {
            continue;
        }
        let name = name.to_string_lossy();
        let path = format!("{folder}/{name}");
        let text = fs::read_to_string(root.join("docs").join(&path))?;
        let title = markdown::title(&text).with_context(|| format!("{path} has no title"))?;
        // Brackets of a title would end the link.
        found.push((title.replace(['[', ']'], ""), path));
    }
    found.sort_by(|a, b| a.1.cmp(&b.1));
    Ok(found)
}

/// Whether a path names a page.
pub fn is_markdown(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "md")
}

/// A page's name in the site: `README.md` is the index of its folder.
pub fn rename(target: &str) -> String {
    let (path, anchor) = match target.split_once('#') {
        Some((path, anchor)) => (path, format!("#{anchor}")),
        None => (target, String::new()),
    };
    match path.strip_suffix("README.md") {
        Some(folder) if folder.is_empty() || folder.ends_with('/') => {
            format!("{folder}index.md{anchor}")
        }
        _ => target.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_pages_are_filled_in() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let file = folder.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        write("docs/adr/0002-b.md", "# 0002 [B]\n");
        write("docs/adr/0001-a.md", "# 0001 A\n");
        write(FILE, "[Start](../README.md)\n- [Format](format.md)\n  <!-- pages of adr -->\n");
        let summary = read(folder.path()).unwrap();
        assert_eq!(
            summary.text,
            "[Start](index.md)\n- [Format](docs/format.md)\n  - [0001 A](docs/adr/0001-a.md)\n  - [0002 B](docs/adr/0002-b.md)\n"
        );
        assert_eq!(summary.pages.len(), 4);
        assert_eq!(summary.pages[0], Path::new("README.md"));
    }

    #[test]
    fn readmes_are_indices() {
        assert_eq!(rename("../python/README.md#x"), "../python/index.md#x");
        assert_eq!(rename("README.md"), "index.md");
        assert_eq!(rename("docs/README_more.md"), "docs/README_more.md");
    }
}
