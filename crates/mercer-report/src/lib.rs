//! Reports for people: HTML pages, SVG figures, the report of a compression, and timings of plans.
//!
//! Used by the command (`mercer-cli`) and by the reproductions of papers (`mercer-papers`). Nothing here
//! prints or reads arguments.

pub mod compression;
mod drawing;
mod page;
mod printable;
pub mod svg;
pub mod timing;

use std::io::Write;
use std::path::Path;

use anyhow::Context;
use mercer::data::write::AtomicFile;

pub use drawing::{Bar, ClosingPath, Drawing, PathStep};
pub use page::{Example, Page};
pub use printable::printable;

/// Writes a text file atomically: the old file stays until the new one is complete.
pub fn save_text(path: &Path, text: &str) -> anyhow::Result<()> {
    let place = || path.display().to_string();
    let mut file = AtomicFile::create(path).with_context(place)?;
    file.write_all(text.as_bytes()).with_context(place)?;
    file.commit().with_context(place)
}
