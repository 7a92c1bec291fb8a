use std::path::PathBuf;

use anyhow::Context;
use mercer::compile::compress::{CurvePoint, Judged};
use mercer::compile::{
    CompileError, Compression, CompressionReport, FittingData, Goal, Progress, Watch, compressor,
};
use mercer::data::Dataset;
use mercer::data::read::Options;
use mercer::machine::{Model, Parent, Provenance, file};
use serde_json::{Value, json};

use super::{StopSignal, load};
use crate::args::Compress;
use crate::console::Console;
use crate::failure::{DONE, Interrupted};
use crate::output::whole;
use crate::picture::{self, Line};
use crate::queries::Queries;

pub(super) fn run(arguments: &Compress, console: &Console) -> anyhow::Result<u8> {
    let method = compressor(&arguments.method)?;
    let model = load(&arguments.model, console)?;
    let stop = StopSignal::install()?;
    let read = |path: &Option<PathBuf>| -> anyhow::Result<Option<Dataset>> {
        let whole = |path| Queries::whole(path, Options::default(), &model, console);
        path.as_deref().map(whole).transpose()
    };
    let (sample, training) = (read(&arguments.sample)?, read(&arguments.training)?);
    let start = std::time::Instant::now();
    let status = console.status();
    let watch = |progress: Progress| {
        let Progress { what, done, most } = progress;
        status.set_message(format!("{what}: {done} of at most {most}"));
        stop.check().is_ok()
    };
    let made = Compression::new(&model.machine, method)
        .goal(goal(arguments))
        .fitting_data(FittingData {
            sample: sample.as_ref().map(|data| &data.examples),
            training: training.as_ref().map(|data| &data.examples),
            ..FittingData::default()
        })
        .tolerance(arguments.value_tolerance)
        .keep_vectors(arguments.keep_vectors)
        .watch(Watch::new(&watch))
        .run();
    status.finish_and_clear();
    let made = match made {
        Err(CompileError::Ended) => return Err(Interrupted.into()),
        other => other?,
    };
    let (seconds, report) = (start.elapsed().as_secs_f64(), &made.report);
    let parent = Parent {
        machine: file::digest(&model.machine),
        supports: report.before,
        method: report.method.clone(),
        error: report.error.relative,
    };
    let provenance = Provenance {
        parent: Some(parent),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        source_supports: None,
        ..model.provenance.clone()
    };
    let small = Model { machine: made.machine, plan: None, provenance, ..model };
    if let Some(path) = &arguments.svg {
        whole(path, &drawing(report))?;
    }
    if let Some(path) = &arguments.report {
        whole(path, &page(report, seconds))?;
    }
    let own = file::format("mercer").context("the mercer format is always registered")?;
    file::save(&small, own, &arguments.output)
        .with_context(|| arguments.output.display().to_string())?;
    if console.json {
        println!("{}", object(report, seconds));
    } else {
        print(report, seconds, &arguments.output.display().to_string(), console);
    }
    Ok(DONE)
}

fn goal(arguments: &Compress) -> Goal {
    let Compress { size, error, disagreement, certified, .. } = arguments;
    match (size, error, disagreement, certified) {
        (Some(size), ..) => Goal::Size(size.get()),
        (_, Some(error), ..) => Goal::Error(*error),
        (_, _, Some(share), _) => Goal::Disagreement(*share),
        (.., Some(share)) => Goal::Certified(*share),
        _ => Goal::Own,
    }
}

/// Sizes worth a line: those that a sample was asked about, and about twelve others.
fn shown(curve: &[CurvePoint]) -> Vec<CurvePoint> {
    let mut next = 1.0;
    let mut keep = |(at, point): &(usize, &CurvePoint)| {
        let is_due = point.size as f64 >= next || at + 1 == curve.len();
        if is_due {
            next = (point.size as f64 * 1.6).max(next);
        }
        is_due || point.judged.is_some()
    };
    curve.iter().enumerate().filter(|pair| keep(pair)).map(|(_, point)| *point).collect()
}

fn print(report: &CompressionReport, seconds: f64, place: &str, console: &Console) {
    let CompressionReport { method, before, after, error, judged, .. } = report;
    let what = if *after == 0 { "its weights".to_owned() } else { format!("{after} vectors") };
    println!("{place}: {before} supports became {what} by {method}, in {seconds:.2} s");
    println!("  |W - W~|       {:.4e}, relative {:.4e}", error.absolute, error.relative);
    if error.offset > 0.0 {
        println!("  |b - b~|       {:.4e}", error.offset);
    }
    if let Some(judged) = judged {
        println!("  sample         {}", sentence(judged));
    }
    if report.curve.len() > 1 {
        println!(
            "\n  {:>8}  {:>12}  {:>12}  {:>10}",
            "vectors", "error", "other labels", "certified"
        );
        for point in shown(&report.curve) {
            let percent = |share: Option<f64>| {
                share.map_or(String::new(), |share| format!("{:.3} %", 100.0 * share))
            };
            let others = percent(point.judged.map(|judged| judged.disagreement()));
            let proved = percent(point.judged.and_then(|judged| judged.certified_share()));
            println!("  {:>8}  {:>12.4e}  {others:>12}  {proved:>10}", point.size, point.error);
        }
    }
    if judged.is_none() {
        console.info("with --sample FILE the report counts other labels and certified ones");
    }
}

fn sentence(judged: &Judged) -> String {
    let Judged { queries, others, most, .. } = judged;
    let proved = judged.certified_share().map_or(String::new(), |share| {
        format!("; the vectors prove the label of {:.2} %", 100.0 * share)
    });
    format!(
        "{others} of {queries} queries get another label, scores differ by at most {most:.3e}{proved}"
    )
}

fn judged_object(judged: &Judged) -> Value {
    json!({
        "queries": judged.queries, "others": judged.others,
        "disagreement": judged.disagreement(), "largest_difference": judged.most,
        "certified": judged.certified_share(),
    })
}

pub(super) fn object(report: &CompressionReport, seconds: f64) -> Value {
    let CompressionReport { method, before, after, error, judged, curve } = report;
    let point = |point: &CurvePoint| {
        json!({
            "size": point.size, "error": point.error,
            "judged": point.judged.as_ref().map(judged_object),
        })
    };
    let curve: Vec<Value> = curve.iter().map(point).collect();
    json!({
        "method": method, "before": before, "after": after, "seconds": seconds,
        "error": {
            "absolute": error.absolute, "relative": error.relative,
            "rounding_of_square": error.rounding, "offset": error.offset,
        },
        "judged": judged.as_ref().map(judged_object), "curve": curve,
    })
}

/// Sizes against errors and shares, on logarithmic axes.
pub(super) fn drawing(report: &CompressionReport) -> String {
    let curve = &report.curve;
    let line = |name: &str, of: &dyn Fn(&CurvePoint) -> Option<f64>| Line {
        name: name.to_owned(),
        points: curve.iter().filter_map(|p| Some((p.size as f64, of(p)?))).collect(),
    };
    let lines = [
        line("|W - W~| / |W|", &|p| Some(p.error)),
        line("other labels", &|p| p.judged.map(|judged| judged.disagreement())),
        line("not certified", &|p| {
            p.judged.and_then(|judged| judged.certified_share()).map(|share| 1.0 - share)
        }),
    ];
    picture::lines(&format!("{}: size and error", report.method), "vectors", &lines)
}

fn page(report: &CompressionReport, seconds: f64) -> String {
    let CompressionReport { method, before, after, error, judged, curve } = report;
    let share = |share: Option<f64>| share.map_or(String::new(), |x| format!("{:.3} %", 100.0 * x));
    let row = |point: &CurvePoint| {
        format!(
            "<tr><td>{}</td><td>{:.4e}</td><td>{}</td><td>{}</td></tr>",
            point.size,
            point.error,
            share(point.judged.map(|judged| judged.disagreement())),
            share(point.judged.and_then(|judged| judged.certified_share())),
        )
    };
    let rows: String = shown(curve).iter().map(row).collect();
    let sample =
        judged.as_ref().map_or(String::new(), |judged| format!("<p>{}</p>", sentence(judged)));
    format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Compression</title>\
         <style>body{{font:15px sans-serif;max-width:44em;margin:2em auto;padding:0 1em}}\
         table{{border-collapse:collapse}}td,th{{padding:.2em 1em;text-align:right}}\
         tr:nth-child(even){{background:#8882}}:root{{color-scheme:light dark}}</style>\
         <h1>{before} supports became {after} vectors</h1>\
         <p>Method <code>{method}</code>, {seconds:.2} s. |W - W~| = {absolute:.4e}, relative \
         {relative:.4e}; |b - b~| = {offset:.2e}.</p>{sample}{picture}\
         <table><tr><th>vectors</th><th>|W - W~| / |W|</th><th>other labels</th>\
         <th>certified</th></tr>{rows}</table></html>\n",
        method = picture::escape(method),
        absolute = error.absolute,
        relative = error.relative,
        offset = error.offset,
        picture = drawing(report),
    )
}
