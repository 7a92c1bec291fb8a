//! Papers whose tables and figures are computed again, beside the numbers that the paper prints.
//!
//! One file per paper, one entry in [`PAPERS`]. Each paper hands [`Comparison`] rows to its [`Session`], which is the
//! one place that makes tables and JSON of them. Nothing here prints: both go to the [`Observer`] of the caller. The verb `mercer reproduce` is in `mercer-cli`.

mod comparison;
mod decoste03;
mod dm03;
mod fs01;
mod og98;
mod overview;
mod session;
mod tasks;
mod yw12;

use anyhow::Context;

pub use comparison::Comparison;
pub use overview::{LeftOut, Overview, overview};
pub use session::{Interrupted, NothingComputed, Observer, Options, Session};

/// A paper whose tables can be computed again.
#[derive(Debug)]
pub struct Paper {
    /// Its key in `docs/papers.md`, in small letters.
    pub key: &'static str,
    /// Authors, title and year.
    pub title: &'static str,
    /// Its machines or parts for a quick run: two minutes on two cores at most.
    pub quick: &'static [&'static str],
    run: fn(&Session<'_>) -> anyhow::Result<()>,
}

/// All papers, in the order of their keys.
pub static PAPERS: &[&Paper] =
    &[&decoste03::PAPER, &dm03::PAPER, &fs01::PAPER, &og98::PAPER, &yw12::PAPER];

impl Paper {
    /// The paper with this key; the error lists all.
    pub fn find(key: &str) -> anyhow::Result<&'static Self> {
        let paper = PAPERS.iter().find(|paper| paper.key == key).with_context(|| {
            let known: Vec<String> =
                PAPERS.iter().map(|paper| format!("{} ({})", paper.key, paper.title)).collect();
            let nearest = mercer::spec::suggestion(key, PAPERS.iter().map(|paper| paper.key));
            format!("there is no paper '{key}'{nearest}; known are {}", known.join(", "))
        })?;
        Ok(paper)
    }

    /// Computes its tables; results go to the observer of the session.
    ///
    /// # Errors
    /// [`NothingComputed`] if its data are missing or nothing of it is selected; any error of its parts.
    pub fn run(&self, session: &Session<'_>) -> anyhow::Result<()> {
        (self.run)(session)?;
        session.check_computed()?;
        session.finish(self);
        Ok(())
    }
}
