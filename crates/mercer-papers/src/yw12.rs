//! \[YW12\]: all methods on the public sets, at one value of C and at each method's best; errors of the
//! interpolated curves (Tables 1 and 2); nodes, degrees, bins and ranks (Table 3, Figures 3 and 4, section 5.2);
//! growth of time and memory with the number of rows. Sets that are not public are null
//! beside the numbers of the paper.

mod growth;
mod interpolation;
mod methods;
mod sets;
mod sweeps;

use std::path::Path;

use anyhow::Context;
use mercer::data::write;
use serde_json::{Value, json};

use crate::{Paper, Session};
use sets::{Set, SetRows};

pub(crate) static PAPER: Paper = Paper {
    key: "yw12",
    title: "H. Yang and J. Wu, Practical Large Scale Classification with Additive Kernels, 2012",
    quick: &["Adult", "interpolation"],
    run,
};

/// A set that is not public: training seconds and accuracy of PmSVM-LUT (chi2) and LIBLINEAR in Tables 4, 5
/// and 8.
type PrivateSet = (&'static str, [f64; 2], [f64; 2]);

const NOT_PUBLIC: [PrivateSet; 8] = [
    ("KDDA", [55.0, 0.8961], [1481.5, 0.8856]),
    ("KDDB", [123.0, 0.9001], [3537.8, 0.8894]),
    ("URL", [7.5, 0.9877], [127.2, 0.9845]),
    ("RCV1", [2.2, 0.9785], [7.1, 0.9717]),
    ("WEBSPAM", [0.9, 0.9428], [5.8, 0.9269]),
    ("ILSVRC 1000", [24_999.0, 0.2615], [136_874.0, 0.2213]),
    ("Caltech 101", [78.0, 0.7205], [53.0, 0.6806]),
    ("Indoor 67", [131.0, 0.4618], [442.0, 0.4093]),
];

/// The rows of a set; a warning and none where files are missing.
fn rows_of(session: &Session<'_>, set: &Set) -> anyhow::Result<Option<SetRows>> {
    let rows = set.rows(session.data().as_deref(), session.options.rows);
    match rows.with_context(|| set.name.clone())? {
        Ok(rows) => Ok(Some(rows)),
        Err(missing) => {
            session.warn(&format!("{} is left out: {missing}", set.name));
            Ok(None)
        }
    }
}

fn run(session: &Session<'_>) -> anyhow::Result<()> {
    if let Some(folder) = &session.options.write_rows {
        return write_rows(session, folder);
    }
    let (mut found, mut swept) = (serde_json::Map::new(), serde_json::Map::new());
    let mut errors = Value::Null;
    for set in sets::all()? {
        let wants_sweeps = set.sweeps && session.wants("sweeps");
        let wants_errors = set.name == interpolation::SET && session.wants("interpolation");
        if !(session.wants(&set.name) || wants_sweeps || wants_errors) {
            continue;
        }
        let Some(rows) = rows_of(session, &set)? else {
            found.insert(set.name, Value::Null);
            continue;
        };
        session.check()?;
        if session.wants(&set.name) {
            found.insert(set.name.clone(), methods::compare(session, &set, &rows)?);
        }
        if wants_errors {
            errors = interpolation::run(session, &rows)?;
        }
        if wants_sweeps {
            swept.insert(set.name.clone(), sweeps::run(session, &set, &rows)?);
        }
    }
    let growth = if session.wants("growth") { growth::run(session)? } else { Value::Null };
    let not_public = not_public(session);
    session.detail("threads", json!(rayon::current_num_threads()));
    session.detail("sets", json!(found));
    session.detail("interpolation", errors);
    session.detail("sweeps", json!(swept));
    session.detail("growth", growth);
    session.detail("not_public", json!(not_public));
    Ok(())
}

/// Sets of the paper that are not public: its numbers only.
fn not_public(session: &Session<'_>) -> Vec<Value> {
    let mut objects = Vec::new();
    for (name, lut, linear) in NOT_PUBLIC.iter().filter(|(name, ..)| session.wants(name)) {
        session.line(&format!(
            "\n{name}: not public; the paper: PmSVM-LUT {} s, {:.2} %, LIBLINEAR (C = 1) {} s, {:.2} %",
            lut[0],
            100.0 * lut[1],
            linear[0],
            100.0 * linear[1],
        ));
        let paper =
            |[seconds, accuracy]: [f64; 2]| json!({ "seconds": seconds, "accuracy": accuracy });
        objects.push(json!({
            "set": name, "ours": null,
            "paper": { "PmSVM-LUT, chi2": paper(*lut), "LIBLINEAR": paper(*linear) },
        }));
    }
    objects
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
