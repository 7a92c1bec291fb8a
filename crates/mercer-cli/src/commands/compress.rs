//! `mercer compress`: replaces a machine by one with fewer vectors. The methods are in `mercer::compile::compress`,
//! the report in `mercer_report`.

use mercer::compile::compress::CompressorRef;
use mercer::compile::{Compressed, Compression, CompressionReport, Goal, compressor};
use mercer::machine::{Model, Parent, Provenance, file};
use mercer_report::compression;

use super::fitting::{FittingRows, watched};
use super::{StopSignal, load, save};
use crate::args::Compress;
use crate::console::Console;
use crate::failure::DONE;
use crate::output::save_text;

pub(super) fn run(arguments: &Compress, console: &Console) -> anyhow::Result<u8> {
    let method = compressor(&arguments.method)?;
    let model = load(&arguments.model, console)?;
    let (compressed, seconds) = compress(arguments, method, &model, console)?;
    if model.training.is_some() {
        console.warn(
            "the rows of the training are left out: the compressed machine was not trained on them",
        );
    }
    let report = &compressed.report;
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
    let small = Model {
        machine: compressed.machine,
        plan: None,
        conformal: None,
        training: None,
        provenance,
        ..model
    };
    if let Some(path) = &arguments.svg {
        save_text(path, &compression::figure(report))?;
    }
    if let Some(path) = &arguments.report {
        save_text(path, &compression::page(report, seconds))?;
    }
    save(&small, &arguments.output)?;
    if console.json {
        println!("{}", compression::object(report, seconds));
    } else {
        print(report, seconds, &arguments.output.display().to_string(), console);
    }
    Ok(DONE)
}

/// Reads the sample and the training rows, and compresses the machine; with the seconds of the compression.
fn compress(
    arguments: &Compress,
    method: CompressorRef,
    model: &Model,
    console: &Console,
) -> anyhow::Result<(Compressed, f64)> {
    let stop = StopSignal::install()?;
    let Compress { sample, training, memory, .. } = arguments;
    let rows = FittingRows::read(sample.as_deref(), training.as_deref(), *memory, model, console)?;
    watched(console, &stop, |watch| {
        Compression::new(&model.machine, method)
            .goal(goal(arguments))
            .fitting_data(rows.data())
            .tolerance(arguments.value_tolerance)
            .keep_vectors(arguments.keep_vectors)
            .watch(watch)
            .run()
    })
}

fn goal(arguments: &Compress) -> Goal {
    let Compress { size, error, disagreement, certified, .. } = arguments;
    match (size, error, disagreement, certified) {
        (Some(size), ..) => Goal::Size(size.get()),
        (_, Some(error), ..) => Goal::Error(*error),
        (_, _, Some(share), _) => Goal::Disagreement(*share),
        (.., Some(share)) => Goal::Certified(*share),
        _ => Goal::ByParameters,
    }
}

fn print(report: &CompressionReport, seconds: f64, place: &str, console: &Console) {
    let CompressionReport { method, before, after, error, agreement, .. } = report;
    let what = if *after == 0 { "a weight vector".to_owned() } else { format!("{after} vectors") };
    println!("{place}: {before} supports compressed to {what} by {method} in {seconds:.2} s");
    println!("  |W - W~|       {:.4e}, relative {:.4e}", error.absolute, error.relative);
    if error.offset > 0.0 {
        println!("  |b - b~|       {:.4e}", error.offset);
    }
    if let Some(tube) = &report.tube {
        println!("  at the rows    {}", compression::tube_sentence(tube));
    }
    if let Some(agreement) = agreement {
        println!("  sample         {}", compression::sentence(agreement));
    }
    if report.curve.len() > 1 {
        println!();
        println!(
            "  {:>8}  {:>12}  {:>13}  {:>10}",
            "vectors", "error", "disagreements", "certified"
        );
        for point in compression::shown(&report.curve) {
            let percent = |share: Option<f64>| {
                share.map_or(String::new(), |share| format!("{:.3} %", 100.0 * share))
            };
            let disagreements = percent(point.agreement.map(|agreement| agreement.disagreement()));
            let certified =
                percent(point.agreement.and_then(|agreement| agreement.certified_share()));
            println!(
                "  {:>8}  {:>12.4e}  {disagreements:>13}  {certified:>10}",
                point.size, point.error
            );
        }
    }
    if agreement.is_none() {
        console.info("with --sample FILE the report counts disagreements and certified labels");
    }
}
