//! \[YW12\]: all methods on the sets at hand, as printed and on one engine, at one value of C and at each method's best
//! (Tables 4 to 9); errors of the interpolated curves (Tables 1 and 2, Figures 1 and 2); nodes, degrees, bins and ranks
//! (Table 3, Figures 3 and 4, section 5.2); growth of time and memory with the number of rows.
//!
//! The paper's own sets are measured where their files lie in the data folder; else its numbers stand alone.

mod growth;
mod interpolation;
mod methods;
mod paper;
mod printed;
mod sets;
mod sweeps;

use std::path::Path;

use anyhow::Context;
use mercer::data::write;
use serde_json::json;

use crate::{Paper, Session};
use sets::{Set, SetRows};

pub(crate) static PAPER: Paper = Paper {
    key: "yw12",
    title: "H. Yang and J. Wu, Practical Large Scale Classification with Additive Kernels, 2012",
    quick: &["MNIST", "Adult", "interpolation", "sweeps"],
    run,
};

/// The set whose sweeps a quick run makes.
const QUICK_SWEEPS: &str = "gradients";

/// The rows of a set; a warning and none where files are missing.
fn rows_of(session: &Session<'_>, set: &Set) -> anyhow::Result<Option<SetRows>> {
    let rows = set.rows(session.data().as_deref(), session.options.rows);
    match rows.with_context(|| set.name.clone())? {
        Ok(rows) => Ok(Some(rows)),
        Err(missing) => {
            session.leave_out(&set.name, &missing);
            Ok(None)
        }
    }
}

fn run(session: &Session<'_>) -> anyhow::Result<()> {
    if let Some(folder) = &session.options.write_rows {
        return write_rows(session, folder);
    }
    session.detail("threads", json!(rayon::current_num_threads()));
    let of_paper = |name: &str| paper::SETS.iter().find(|set| set.name == name);
    for set in sets::all()? {
        let is_left_out = session.options.quick && set.name != QUICK_SWEEPS;
        let wants_sweeps = set.sweeps && session.wants("sweeps") && !is_left_out;
        let wants_errors = set.name == interpolation::SET && session.wants("interpolation");
        if !(session.wants(&set.name) || wants_sweeps || wants_errors) {
            continue;
        }
        if let Some(printed) = of_paper(&set.name).filter(|_| !set.is_there(session)) {
            if let Err(missing) = set.rows(session.data().as_deref(), 0)? {
                session.leave_out(&set.name, &missing);
            }
            paper::compare_missing(session, printed);
            continue;
        }
        let Some(rows) = rows_of(session, &set)? else { continue };
        session.check()?;
        if session.wants(&set.name) {
            methods::compare(session, &set, &rows)?;
        }
        if wants_errors {
            interpolation::run(session, &rows)?;
        }
        if wants_sweeps {
            sweeps::run(session, &set, &rows)?;
        }
    }
    if session.wants("growth") {
        growth::run(session)?;
    }
    // Sets of images whose features the authors made.
    let known = sets::all()?;
    let is_known = |name: &str| known.iter().any(|set| set.name == name);
    for set in paper::SETS.iter().filter(|set| session.wants(set.name) && !is_known(set.name)) {
        paper::compare_missing(session, set);
    }
    Ok(())
}

/// Writes `SET.train.svm` and `SET.test.svm` of every selected set, for comparisons with other programs.
fn write_rows(session: &Session<'_>, folder: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let mut written = Vec::new();
    for set in sets::all()?.iter().filter(|set| session.wants(&set.name)) {
        let Some(rows) = rows_of(session, set)? else { continue };
        for (kind, data) in [("train", &rows.examples), ("test", &rows.queries)] {
            session.check()?;
            let path = folder.join(format!("{}.{kind}.svm", set.name.replace(' ', "_")));
            let mut file =
                write::AtomicFile::create(&path).with_context(|| path.display().to_string())?;
            write::dataset(data, None, write::format(Some("libsvm"), &path)?, &mut file)?;
            file.commit()?;
            session.line(&path.display().to_string());
            written.push(path.display().to_string());
        }
    }
    session.detail("written", json!(written));
    Ok(())
}
