//! SVG without a library: figures for files of their own and charts for a [`Page`](crate::Page).
//!
//! Figures carry their own style sheet for light and dark; charts use the colours of the page.

mod charts;
mod figures;

pub use charts::{Bar, bars, scatter};
pub use figures::{Band, HeatMap, bands, lines, points, stacked};

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

/// Text that cannot become markup.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
