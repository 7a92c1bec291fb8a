//! The report of a tuning as an HTML page.

use mercer::machine::{Model, Speed, Trial, Tuning};
use mercer::query::Certainty;
use mercer::tune::Point;
use mercer_report::svg::Series;
use mercer_report::{Bar, Drawing, Page};

use super::sets::Sets;
use super::{guarantee, meaning};
use crate::commands::describe;

/// Points drawn at most; of more points, every n-th is drawn.
const MOST_POINTS: usize = 1500;

/// The page; `name` is the name of the model.
pub(in crate::commands) fn page(
    name: &str,
    model: &Model,
    tuning: &Tuning,
    points: &[Point],
    sets: Option<&Sets>,
) -> String {
    let mut page = Page::new(&format!("Tuning of {name}"));
    let spec = model.plan.as_ref().map_or("exact", |plan| plan.spec.as_str());
    page.text(&format!("Contract: {}, optimised for {}.", tuning.contract, tuning.aim));
    page.text(&format!("Result: {}.", tuning.reason));
    cards(&mut page, tuning);
    page.heading("Guarantee");
    page.text(&format!("Guaranteed: {}.", guarantee(model, tuning)));
    for line in meaning(model) {
        page.text(line);
    }
    pictures(&mut page, tuning, points, spec);
    page.heading("Test");
    test(&mut page, tuning);
    if let Some(sets) = sets {
        sets.add_to(&mut page);
    }
    page.heading("Machine");
    machine(&mut page, model);
    plans(&mut page, tuning, spec);
    if !tuning.refused.is_empty() {
        page.heading("Stages that are not applicable");
        let rows = tuning.refused.iter().map(|r| vec![r.stage.clone(), r.reason.clone()]);
        page.table(&["stage", "reason"], &rows.collect::<Vec<_>>());
    }
    page.finish()
}

/// The plans of the last comparison, whose times are those of the rest of the page; and those of the search.
fn plans(page: &mut Page, tuning: &Tuning, spec: &str) {
    let row = |trial: &Trial| {
        let chosen = if trial.plan == spec && trial.compared { "chosen" } else { "" };
        vec![
            trial.plan.clone(),
            format!("{:.2}", trial.us),
            format!("{:.0}", trial.mean_cost),
            format!("{:.1} %", 100.0 * trial.settled),
            if trial.dropped { "dropped early" } else { chosen }.to_owned(),
        ]
    };
    let heads = ["plan", "us per query#", "multiply-adds#", "settled before exact#", ""];
    let (compared, searched): (Vec<&Trial>, Vec<&Trial>) =
        tuning.tried.iter().partition(|trial| trial.compared);
    if !compared.is_empty() {
        page.heading("Plans compared");
        page.text(&format!(
            "Timed in turns with exact, which takes {:.2} us. Multiply-adds and settled queries are those of the search.",
            optimised(tuning, &tuning.exact),
        ));
        page.table(&heads, &compared.into_iter().map(row).collect::<Vec<_>>());
    }
    if !searched.is_empty() {
        page.heading("Plans tried before");
        page.text(
            "Their times are those of the search: few runs, each beside the best plan so far, estimates with expected \
             thresholds. They are not times of the last comparison.",
        );
        page.table(&heads, &searched.into_iter().map(row).collect::<Vec<_>>());
    }
}

/// The time of what was optimised.
fn optimised(tuning: &Tuning, speed: &Speed) -> f64 {
    if tuning.aim == "latency" { speed.single_us } else { speed.batch_us }
}

fn cards(page: &mut Page, tuning: &Tuning) {
    let Tuning { exact, plan, .. } = tuning;
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let card = |what: &str, before: f64, after: f64, unit: &str, gain: String| {
        format!(
            "<div class=\"card\">{what}<b>{after:.2} {unit}</b>\
             <span class=\"soft\">exact: {before:.2} {unit}{gain}</span></div>"
        )
    };
    let gain = |before: f64, after: f64| format!("; speedup {:.1}", before / after);
    let single = gain(exact.single_us, plan.single_us);
    let batch = gain(exact.batch_us, plan.batch_us);
    let memory = (mib(exact.bytes), mib(plan.bytes));
    let cards = [
        card("One query, one thread", exact.single_us, plan.single_us, "us", single),
        card("Query in a batch, all threads", exact.batch_us, plan.batch_us, "us", batch),
        card("Memory", memory.0, memory.1, "MiB", String::new()),
    ];
    page.add(&format!("<div class=\"cards\">{}</div>", cards.concat()));
}

fn pictures(page: &mut Page, tuning: &Tuning, points: &[Point], spec: &str) {
    let Tuning { exact, plan, verification, .. } = tuning;
    let bar =
        |name: &str, us: f64| Bar { name: name.to_owned(), value: us, text: format!("{us:.2} us") };
    let times = [
        bar("exact, one query", exact.single_us),
        bar("this plan, one query", plan.single_us),
        bar("exact, in a batch", exact.batch_us),
        bar("this plan, in a batch", plan.batch_us),
    ];
    let share = |count: u64| 100.0 * count as f64 / verification.queries.max(1) as f64;
    let mut settled: Vec<Bar> = verification
        .stages
        .iter()
        .map(|stage| Bar {
            name: stage.stage.clone(),
            value: stage.queries as f64,
            text: format!("{:.1} %", share(stage.queries)),
        })
        .collect();
    if verification.unsettled > 0 {
        settled.push(Bar {
            name: "unsettled: budget exhausted".to_owned(),
            value: verification.unsettled as f64,
            text: format!("{:.1} %", share(verification.unsettled)),
        });
    }
    page.heading("Time");
    page.drawings(&[
        Drawing::bars("Exact and tuned", &times),
        Drawing::bars("Queries settled by each stage", &settled),
        difficulty(tuning, points),
        front(tuning, spec),
    ]);
    page.add(
        "<p class=\"soft\">Queries far from a decision boundary are easy: a good plan spends little on them. \
         No plan is better than one on the Pareto front in both time and multiply-adds.</p>",
    );
}

/// Cost of each test query against its distance from the nearest decision boundary.
fn difficulty(tuning: &Tuning, points: &[Point]) -> Drawing {
    let step = points.len().div_ceil(MOST_POINTS).max(1);
    let shown: Vec<&Point> = points.iter().step_by(step).collect();
    let mut series: Vec<Series> = Vec::new();
    for (number, stage) in tuning.verification.stages.iter().enumerate() {
        let settled = shown
            .iter()
            .filter(|point| point.stage == number && point.certainty != Certainty::Unsettled);
        let points: Vec<(f64, f64)> =
            settled.map(|point| (point.margin, point.cost.max(1) as f64)).collect();
        if !points.is_empty() {
            series.push(Series::dots(&format!("settled by {}", stage.stage), points));
        }
    }
    let open = shown.iter().filter(|point| point.certainty == Certainty::Unsettled);
    let open: Vec<(f64, f64)> =
        open.map(|point| (point.margin, point.cost.max(1) as f64)).collect();
    if !open.is_empty() {
        series.push(Series::dots("unsettled", open));
    }
    let (x, y) = ("|f|, distance from a boundary", "multiply-adds");
    Drawing::scatter("Cost against difficulty", x, y, &series)
}

/// Time and cost of the plans tried, and their Pareto front.
fn front(tuning: &Tuning, spec: &str) -> Drawing {
    let exact_us = optimised(tuning, &tuning.exact);
    let mut all: Vec<(f64, f64)> =
        tuning.tried.iter().map(|trial| (trial.us, trial.mean_cost.max(1.0))).collect();
    let exact = (exact_us, tuning.verification.exact_cost.max(1) as f64);
    all.push(exact);
    all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let mut front: Vec<(f64, f64)> = Vec::new();
    for point in &all {
        if front.last().is_none_or(|last| point.1 < last.1) {
            front.push(*point);
        }
    }
    let kept = tuning.tried.iter().filter(|trial| trial.plan == spec);
    let kept: Vec<(f64, f64)> = kept.map(|trial| (trial.us, trial.mean_cost.max(1.0))).collect();
    let mut series = vec![
        Series::dots("plans tried", all),
        Series::line("Pareto front", front),
        Series::dots("exact", vec![exact]),
    ];
    if !kept.is_empty() {
        series.push(Series::dots("chosen", kept));
    }
    Drawing::scatter("Plans tried", "us per query", "multiply-adds", &series)
}

fn test(page: &mut Page, tuning: &Tuning) {
    let (sample, seen) = (&tuning.sample, &tuning.verification);
    page.text(&format!(
        "A sample of {} queries was split at random with seed {}. Stages were fitted to {} of them; on {}, plans \
         were compared and the residual RMS of estimates was measured; {} were used only in the final test. In that \
         test, {} settled answers disagree with exact ones; {} are unsettled.",
        sample.rows,
        tuning.seed,
        sample.fitted,
        sample.measured,
        sample.verified,
        seen.disagreements,
        seen.unsettled,
    ));
    if sample.repeated > 0 {
        page.text(&format!(
            "{} rows of the sample equal supports of the machine.",
            sample.repeated
        ));
    }
    let share = 100.0 * seen.mean_cost / (seen.exact_cost as f64).max(1.0);
    page.text(&format!(
        "A query costs {:.0} multiply-adds on average, {share:.1} % of the exact evaluation. Times are the best of \
         several timings on this computer: {}, {} threads.",
        seen.mean_cost, tuning.instruction_set, tuning.threads,
    ));
    if tuning.stopped {
        page.text("The time limit stopped the search before all plans were tried.");
    }
}

fn machine(page: &mut Page, model: &Model) {
    let machine = &model.machine;
    let classes: Vec<String> = machine.classes().iter().map(ToString::to_string).collect();
    let more = if classes.len() > 20 { ", ..." } else { "" };
    let classes = classes[..classes.len().min(20)].join(", ") + more;
    let rows = [
        ("kernel", machine.kernel().spec().to_string()),
        ("task", describe(machine)),
        ("classes", classes),
        ("supports", machine.supports().rows().to_string()),
        ("columns", machine.columns().to_string()),
        ("origin", model.provenance.origin.clone()),
    ];
    let rows = rows.into_iter().filter(|(_, text)| !text.is_empty());
    let rows: Vec<Vec<String>> = rows.map(|(name, text)| vec![name.to_owned(), text]).collect();
    page.table(&["", ""], &rows);
}
