//! Where models lie: files and folders, and which names and versions they have. What is read of them is decided in `repository.rs`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// Models of a source: a file, or a folder with `name.mercer` or `name/VERSION/model.mercer`.
pub fn files(source: &Path) -> Result<Vec<(String, u64, PathBuf)>, Failure> {
    let unreadable =
        |error: std::io::Error| Failure::invalid(format!("{}: {error}", source.display()));
    if fs::metadata(source).map_err(unreadable)?.is_file() {
        return Ok(vec![(model_name(source)?, 1, source.to_owned())]);
    }
    let mut found = Vec::new();
    for path in sorted(source).map_err(unreadable)? {
        if path.is_file() && path.extension().is_some_and(|ending| ending == "mercer") {
            found.push((model_name(&path)?, 1, path));
        } else if path.is_dir() {
            let versions = sorted(&path).map_err(unreadable)?;
            for folder in versions {
                let number = folder.file_name().and_then(|name| name.to_str()?.parse::<u64>().ok());
                let file = folder.join("model.mercer");
                if let Some(version) = number.filter(|_| file.is_file()) {
                    found.push((
                        address_name(&path.file_name().unwrap_or_default().to_string_lossy())?,
                        version,
                        file,
                    ));
                }
            }
        }
    }
    Ok(found)
}

fn sorted(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    paths.sort();
    Ok(paths)
}

fn model_name(path: &Path) -> Result<String, Failure> {
    address_name(&path.file_stem().unwrap_or_default().to_string_lossy())
}

/// A name that can be part of an address.
pub fn address_name(name: &str) -> Result<String, Failure> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.starts_with('.') || !name.chars().all(is_plain) {
        let what = format!(
            "'{name}' cannot be the name of a served model: letters, digits, '-', '_' and '.' can"
        );
        return Err(Failure::invalid(what));
    }
    Ok(name.to_owned())
}
