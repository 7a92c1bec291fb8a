//! \[YW12\]: all methods on the sets that can be had, at one price and at each method's best; errors of the
//! interpolated curves (Tables 1 and 2); nodes, degrees, bins and ranks (Table 3, Figures 3 and 4, section 5.2);
//! growth of time and memory with the number of rows. Sets that are not public stand as null beside what the
//! paper found.

mod growth;
mod interpolation;
mod methods;
mod sets;
mod sweeps;

use std::path::{Path, PathBuf};

use anyhow::Context;
use mercer::data::write;
use serde_json::{Value, json};

use super::super::StopSignal;
use super::{Paper, Reproduce};
use crate::console::Console;
use sets::{Rows, Set};

pub(super) static PAPER: Paper = Paper {
    key: "yw12",
    title: "H. Yang and J. Wu, Practical Large Scale Classification with Additive Kernels, 2012",
    quick: &["Adult", "interpolation"],
    run,
};

/// A set that nobody can have from here: training seconds and accuracy of PmSVM-LUT (chi2) and LIBLINEAR in
/// Tables 4, 5 and 8.
type Lost = (&'static str, [f64; 2], [f64; 2]);

const NOT_PUBLIC: [Lost; 8] = [
    ("KDDA", [55.0, 0.8961], [1481.5, 0.8856]),
    ("KDDB", [123.0, 0.9001], [3537.8, 0.8894]),
    ("URL", [7.5, 0.9877], [127.2, 0.9845]),
    ("RCV1", [2.2, 0.9785], [7.1, 0.9717]),
    ("WEBSPAM", [0.9, 0.9428], [5.8, 0.9269]),
    ("ILSVRC 1000", [24_999.0, 0.2615], [136_874.0, 0.2213]),
    ("Caltech 101", [78.0, 0.7205], [53.0, 0.6806]),
    ("Indoor 67", [131.0, 0.4618], [442.0, 0.4093]),
];

/// What all parts read.
struct Run<'r> {
    arguments: &'r Reproduce,
    console: &'r Console,
    stop: &'r StopSignal,
}

impl Run<'_> {
    fn line(&self, text: &str) {
        if !self.console.json {
            println!("{text}");
        }
    }

    fn wants(&self, name: &str) -> bool {
        let only = &self.arguments.only;
        only.is_empty() || only.iter().any(|wanted| wanted == name)
    }

    /// The rows of a set; a warning and none where files are missing.
    fn rows(&self, set: &Set) -> anyhow::Result<Option<Rows>> {
        let data = self.arguments.data.clone();
        let data = data.or_else(|| std::env::var_os("MERCER_DATA").map(PathBuf::from));
        let rows = set.rows(data.as_deref(), self.arguments.rows);
        match rows.with_context(|| set.name.clone())? {
            Ok(rows) => Ok(Some(rows)),
            Err(missing) => {
                self.console.warn(&format!("{} is left out: {missing}", set.name));
                Ok(None)
            }
        }
    }
}

fn run(arguments: &Reproduce, console: &Console, stop: &StopSignal) -> anyhow::Result<()> {
    let run = Run { arguments, console, stop };
    if let Some(folder) = &arguments.write_rows {
        return write_rows(&run, folder);
    }
    let (mut found, mut swept) = (serde_json::Map::new(), serde_json::Map::new());
    let mut errors = Value::Null;
    for set in sets::all()? {
        let wants_sweeps = set.sweeps && run.wants("sweeps");
        let wants_errors = set.name == interpolation::SET && run.wants("interpolation");
        if !(run.wants(&set.name) || wants_sweeps || wants_errors) {
            continue;
        }
        let Some(rows) = run.rows(&set)? else {
            found.insert(set.name, Value::Null);
            continue;
        };
        stop.check()?;
        if run.wants(&set.name) {
            found.insert(set.name.clone(), methods::compare(&run, &set, &rows)?);
        }
        if wants_errors {
            errors = interpolation::run(&run, &rows)?;
        }
        if wants_sweeps {
            swept.insert(set.name.clone(), sweeps::run(&run, &set, &rows)?);
        }
    }
    let growth = if run.wants("growth") { growth::run(&run)? } else { Value::Null };
    let lost = not_public(&run);
    if console.json {
        let object = json!({
            "paper": PAPER.key, "title": PAPER.title, "threads": rayon::current_num_threads(),
            "sets": found, "interpolation": errors, "sweeps": swept, "growth": growth,
            "not_public": lost,
        });
        println!("{object}");
    }
    Ok(())
}

/// Sets of the paper that are not public: its figures, none of ours.
fn not_public(run: &Run<'_>) -> Vec<Value> {
    let mut lost = Vec::new();
    for (name, lut, linear) in NOT_PUBLIC.iter().filter(|(name, ..)| run.wants(name)) {
        run.line(&format!(
            "\n{name}: not public; the paper: PmSVM-LUT {} s, {:.2} %, LIBLINEAR (C = 1) {} s, {:.2} %",
            lut[0],
            100.0 * lut[1],
            linear[0],
            100.0 * linear[1],
        ));
        let paper =
            |[seconds, accuracy]: [f64; 2]| json!({ "seconds": seconds, "accuracy": accuracy });
        lost.push(json!({
            "set": name, "ours": null,
            "paper": { "PmSVM-LUT, chi2": paper(*lut), "LIBLINEAR": paper(*linear) },
        }));
    }
    lost
}

/// `SET.train.svm` and `SET.test.svm` of every set wanted, for programs to be measured beside.
fn write_rows(run: &Run<'_>, folder: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let mut written = Vec::new();
    for set in sets::all()?.iter().filter(|set| run.wants(&set.name)) {
        let Some(rows) = run.rows(set)? else { continue };
        for (kind, data) in [("train", &rows.examples), ("test", &rows.queries)] {
            run.stop.check()?;
            let path = folder.join(format!("{}.{kind}.svm", set.name.replace(' ', "_")));
            let mut file =
                write::AtomicFile::create(&path).with_context(|| path.display().to_string())?;
            write::dataset(data, None, write::format(Some("libsvm"), &path)?, &mut file)?;
            file.commit()?;
            run.line(&path.display().to_string());
            written.push(path.display().to_string());
        }
    }
    if run.console.json {
        println!("{}", json!({ "paper": PAPER.key, "written": written }));
    }
    Ok(())
}
