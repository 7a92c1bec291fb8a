//! Links of the site that was built: every `href` and `src` is a file of the site, and every anchor an element of that page.
//! Addresses of other hosts are not asked for; scripts, styles and pictures of other hosts are refused.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::links::resolve;

/// Checks all pages of the site; returns how many links were looked at.
pub fn must_hold(site: &Path) -> Result<usize> {
    let mut pages = HashMap::new();
    read_pages(site, site, &mut pages)?;
    let ids: HashMap<&PathBuf, HashSet<&str>> =
        pages.iter().map(|(path, text)| (path, values(text, "id").collect())).collect();
    let (mut count, mut wrong) = (0, Vec::new());
    for (page, text) in &pages {
        for (attribute, is_loaded) in [("href", false), ("src", true)] {
            for target in values(text, attribute) {
                count += 1;
                if let Err(reason) = check(site, page, target, is_loaded, &ids) {
                    wrong.push(format!("{}: {target}: {reason}", page.display()));
                }
            }
        }
    }
    wrong.sort();
    wrong.iter().for_each(|line| println!("{line}"));
    if !wrong.is_empty() || count == 0 {
        bail!("{} of {count} links of the site are dead", wrong.len());
    }
    Ok(count)
}

fn check(
    site: &Path,
    page: &Path,
    target: &str,
    is_loaded: bool,
    ids: &HashMap<&PathBuf, HashSet<&str>>,
) -> Result<()> {
    if target.starts_with("data:") || target.starts_with("mailto:") {
        return Ok(());
    }
    if target.contains("://") || target.starts_with("//") {
        if is_loaded {
            bail!("the site must not load what is elsewhere");
        }
        return Ok(());
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = path.split('?').next().unwrap_or_default();
    let file = if path.is_empty() { page.to_owned() } else { resolve(page, path)? };
    if !site.join(&file).is_file() {
        bail!("there is no {}", file.display());
    }
    let known = ids.get(&file);
    if !anchor.is_empty() && known.is_some_and(|known| !known.contains(anchor)) {
        bail!("{} has no element '{anchor}'", file.display());
    }
    Ok(())
}

/// All HTML pages by their path in the site. `404.html` stands for any address, so its links are not relative to it.
fn read_pages(site: &Path, folder: &Path, pages: &mut HashMap<PathBuf, String>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            read_pages(site, &path, pages)?;
        } else if path.extension().is_some_and(|ending| ending == "html")
            && !path.ends_with("404.html")
        {
            let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            pages.insert(path.strip_prefix(site)?.to_owned(), text);
        }
    }
    Ok(())
}

/// The values of an attribute, as they stand in double quotes.
fn values<'a>(text: &'a str, attribute: &str) -> impl Iterator<Item = &'a str> {
    let wanted = format!(" {attribute}=\"");
    let mut rest = text;
    std::iter::from_fn(move || {
        let place = rest.find(&wanted)? + wanted.len();
        let end = place + rest[place..].find('"')?;
        let value = &rest[place..end];
        rest = &rest[end..];
        Some(value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_links_of_a_site_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("a.html", "<a href=\"b.html#here\">b</a> <img src=\"p.svg\">");
        write("b.html", "<h2 id=\"here\">x</h2>");
        write("p.svg", "<svg/>");
        assert_eq!(must_hold(folder.path()).unwrap(), 2);
        for bad in ["b.html#there", "c.html", "../b.html"] {
            write("a.html", &format!("<a href=\"{bad}\">b</a>"));
            assert!(must_hold(folder.path()).is_err(), "{bad}");
        }
        write("a.html", "<script src=\"https://example.org/x.js\"></script>");
        assert!(must_hold(folder.path()).is_err());
    }
}
