//! `mercer search`: kernels and formulations by cross-validation. The search itself is in `mercer::train`.

use std::cmp::Ordering;
use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use mercer::train::{
    Candidate, FormulationRef, Progress, SearchProgress, SearchResult, Stop, Training, expand,
    formulation, search, train,
};
use mercer_report::svg::HeatMap;
use serde_json::json;

use super::{StopSignal, save};
use crate::args::Search;
use crate::console::Console;
use crate::failure::{DONE, INTERRUPTED, STOPPED};
use crate::output::save_text;
use crate::training_input::{self, TrainingInput, kernel};

/// Lines of the printed table; all candidates are in `--table` and `--json`.
const SHOWN: usize = 10;
/// One part in so many of the time limit is kept for the training of the best candidate.
const LAST_TRAINING: f64 = 12.0;

pub(super) fn run(arguments: &Search, seed: u64, console: &Console) -> anyhow::Result<u8> {
    let (stop, started) = (StopSignal::install()?, Instant::now());
    let formulations: Vec<FormulationRef> = expand(&arguments.formulation)?
        .iter()
        .map(|text| formulation(text))
        .collect::<Result<_, _>>()?;
    let texts = expand(&arguments.kernel)?;
    let Search { input, training: flags, .. } = arguments;
    let input = TrainingInput::read(input, &texts[0], flags, &stop, console)?
        .for_goal(formulations[0].goal(), flags)
        .with_context(|| arguments.input.data.display().to_string())?;
    let kernels =
        texts.iter().map(|text| kernel(text, &input.data)).collect::<anyhow::Result<Vec<_>>>()?;
    let training = training_input::settings(&arguments.training, &stop)?;
    let limit = arguments.training.time_limit;
    let kept = |limit: Duration| match arguments.output {
        Some(_) => limit.div_f64(LAST_TRAINING),
        None => Duration::ZERO,
    };
    // The limit is that of the whole command: reading counts, and so does the last training.
    let for_search = limit.map(|limit| limit.saturating_sub(started.elapsed() + kept(limit)));
    let options = mercer::train::Search {
        training: training.clone().time_limit(for_search),
        folds: arguments.cv,
        given_folds: TrainingInput::folds(&arguments.training)?,
        seed,
        halving: arguments.halving,
        journal: arguments.journal.clone(),
    };
    let status = console.status();
    let show = |progress: &SearchProgress| {
        let best = progress.best.map_or(String::new(), |best| format!(", best {best:.6}"));
        let SearchProgress { done, all, rows, .. } = progress;
        status.set_message(format!("{done} of {all} candidates on {rows} examples{best}"));
    };
    let result = search(&input.data, &kernels, &formulations, &options, &show)
        .with_context(|| arguments.input.data.display().to_string())?;
    status.finish_and_clear();
    if let Some(path) = &arguments.table {
        save_text(path, &table(&result))?;
    }
    if let Some(path) = &arguments.svg {
        save_text(path, &heat_map(&result))?;
    }
    let seconds = started.elapsed().as_secs_f64();
    report(&result, seconds, console);
    let Some(best) = result.best.map(|at| &result.candidates[at]) else {
        anyhow::bail!("{}", no_candidate(&result));
    };
    if let Some(path) = &arguments.output {
        let left = limit.map(|limit| limit.saturating_sub(started.elapsed()).max(kept(limit)));
        train_best(best, &input, &training.time_limit(left), path, console)?;
    }
    Ok(match result.stop {
        Some(Stop::Cancelled) => INTERRUPTED,
        Some(_) => STOPPED,
        None => DONE,
    })
}

/// Trains the best candidate on all examples and writes the model.
fn train_best(
    best: &Candidate,
    input: &TrainingInput,
    training: &Training,
    path: &Path,
    console: &Console,
) -> anyhow::Result<()> {
    let formulation = formulation(&best.formulation)?;
    let status = console.status();
    let mut show = |at: &Progress| status.set_message(format!("{} iterations", at.iterations));
    let best_kernel = kernel(&best.kernel, &input.data)?;
    let trained = train(&input.data, &best_kernel, &formulation, training, &mut show)?;
    status.finish_and_clear();
    let supports = trained.machine.supports().rows();
    save(&input.model(trained.machine, &formulation), path)?;
    console.summary(&format!("{}: {supports} supports", path.display()));
    Ok(())
}

/// Why there is no best candidate.
fn no_candidate(result: &SearchResult) -> String {
    let failed = result.candidates.iter().find_map(|candidate| candidate.folds.as_ref().err());
    match (result.stop, failed) {
        (Some(stop), _) => format!("{} before a candidate was evaluated", stop.reason()),
        (None, Some(reason)) => format!("no candidate could be trained: {reason}"),
        (None, None) => "no candidate could be trained".to_owned(),
    }
}

fn report(result: &SearchResult, seconds: f64, console: &Console) {
    if console.json {
        let as_json = |candidate: &Candidate| {
            json!({
                "kernel": candidate.kernel, "formulation": candidate.formulation,
                "rows": candidate.rows, "mean": candidate.mean(),
                "deviation": candidate.deviation(), "folds": candidate.folds.as_ref().ok(),
                "failure": candidate.folds.as_ref().err(), "seconds": candidate.seconds,
                "converged": candidate.converged,
            })
        };
        let candidates: Vec<_> = result.candidates.iter().map(as_json).collect();
        let best = result.best.map(|at| as_json(&result.candidates[at]));
        println!(
            "{}",
            json!({
                "measure": result.measure.name(), "best": best, "candidates": candidates,
                "seconds": seconds, "stop_reason": result.stop.map(Stop::reason),
            })
        );
        return;
    }
    let mut ranked: Vec<&Candidate> = result.candidates.iter().collect();
    ranked.sort_by(|a, b| {
        let better = match (a.mean(), b.mean()) {
            (Some(a), Some(b)) if result.measure.prefers(a, b) => Ordering::Less,
            (Some(a), Some(b)) if result.measure.prefers(b, a) => Ordering::Greater,
            (a, b) => b.is_some().cmp(&a.is_some()),
        };
        b.rows.cmp(&a.rows).then(better)
    });
    println!("{:>12} {:>10} {:>8}  candidate", result.measure.name(), "deviation", "seconds");
    for candidate in ranked.iter().take(SHOWN) {
        let (mean, deviation) = match (candidate.mean(), candidate.deviation()) {
            (Some(mean), Some(deviation)) => (format!("{mean:.6}"), format!("{deviation:.6}")),
            _ => ("failed".to_owned(), String::new()),
        };
        let Candidate { kernel, formulation, seconds, .. } = candidate;
        println!("{mean:>12} {deviation:>10} {seconds:>8.2}  {kernel}, {formulation}");
    }
    if ranked.len() > SHOWN {
        println!("and {} more (--table FILE writes all of them)", ranked.len() - SHOWN);
    }
    let unconverged = result
        .candidates
        .iter()
        .filter(|candidate| candidate.folds.is_ok() && !candidate.converged)
        .count();
    if unconverged > 0 {
        console.warn(&format!("{unconverged} candidates did not converge in every fold"));
    }
    if let Some(stop) = result.stop {
        console.warn(&format!("{}; the results so far are shown", stop.reason()));
    }
    console.summary(&format!("{} candidates in {seconds:.1} s", result.candidates.len()));
}

/// Candidates as CSV; texts are quoted.
fn table(result: &SearchResult) -> String {
    let name = result.measure.name();
    let mut text = format!("kernel,formulation,rows,{name},deviation,seconds,converged,folds\n");
    for candidate in &result.candidates {
        let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
        let folds: Vec<String> =
            candidate.folds.iter().flatten().map(std::string::ToString::to_string).collect();
        let _ = writeln!(
            text,
            "\"{}\",\"{}\",{},{},{},{},{},{}",
            candidate.kernel,
            candidate.formulation,
            candidate.rows,
            number(candidate.mean()),
            number(candidate.deviation()),
            candidate.seconds,
            candidate.converged,
            folds.join(" "),
        );
    }
    text
}

/// One row per kernel, one column per formulation. If halving evaluated a candidate several times, the last
/// result counts.
fn heat_map(result: &SearchResult) -> String {
    let (mut kernels, mut formulations): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    for candidate in &result.candidates {
        if !kernels.contains(&candidate.kernel.as_str()) {
            kernels.push(&candidate.kernel);
        }
        if !formulations.contains(&candidate.formulation.as_str()) {
            formulations.push(&candidate.formulation);
        }
    }
    let cell = |kernel: &str, formulation: &str| {
        let same = |candidate: &&Candidate| {
            candidate.kernel == kernel && candidate.formulation == formulation
        };
        result.candidates.iter().rev().find(same).and_then(Candidate::mean)
    };
    let cells: Vec<Vec<Option<f64>>> = kernels
        .iter()
        .map(|kernel| formulations.iter().map(|formulation| cell(kernel, formulation)).collect())
        .collect();
    HeatMap {
        title: result.measure.name(),
        rows: &kernels,
        columns: &formulations,
        cells: &cells,
        more_is_better: result.measure.prefers(1.0, 0.0),
    }
    .draw()
}
