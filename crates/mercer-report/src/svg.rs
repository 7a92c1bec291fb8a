//! SVG without a library: figures for files of their own, with their own style sheet for light and dark.
//!
//! Drawings of a [`Page`](crate::Page) are in `drawing.rs`.

mod figures;

use crate::printable;

pub use figures::{Band, HeatMap, SignedBar, bands, lines, plot, points, signed_bars, stacked};

/// A named list of points.
#[derive(Debug, Clone)]
pub struct Series {
    /// What the legend calls it.
    pub name: String,
    /// Its points, as (x, y).
    pub points: Vec<(f64, f64)>,
    /// Whether a line joins the points.
    pub is_line: bool,
}

impl Series {
    /// Points joined by a line.
    pub fn line(name: &str, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.to_owned(), points, is_line: true }
    }

    /// Separate points.
    pub fn dots(name: &str, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.to_owned(), points, is_line: false }
    }
}

/// Text that cannot become markup, and that XML allows: no control characters but line feeds and tabs.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for piece in text.split_inclusive(['\n', '\t', '&', '<', '>', '"', '\'']) {
        let plain = piece.trim_end_matches(['\n', '\t', '&', '<', '>', '"', '\'']);
        out.push_str(&printable(plain));
        out.push_str(match &piece[plain.len()..] {
            "&" => "&amp;",
            "<" => "&lt;",
            ">" => "&gt;",
            "\"" => "&quot;",
            "'" => "&#39;",
            other => other,
        });
    }
    out
}

/// The text, or its beginning.
fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests;
