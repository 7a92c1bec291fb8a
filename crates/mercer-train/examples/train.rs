//! Trains on a file and prints how it went.
//!
//! `cargo run --release -p mercer-train --example train -- FILE.svm --kernel 'rbf(gamma=0.02)' --c 10`

use std::path::Path;
use std::time::Duration;

use mercer_machine::Scheme;
use mercer_train::{Training, formulation, solver, train};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let named = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1).cloned()
    };
    let file = arguments.first().ok_or("which file?")?;
    let kernel = mercer_kernel::parse(&named("--kernel").unwrap_or("rbf(gamma=1)".into()))?;
    let c_svc = format!("c_svc(C={})", named("--c").unwrap_or("1".into()));
    let formulation = formulation(&named("--formulation").unwrap_or(c_svc))?;
    let mut training = Training::default()
        .solver(solver(&named("--solver").unwrap_or("smo".into()))?)
        .tolerance(named("--tolerance").map_or(Ok(1e-3), |text| text.parse())?);
    if let Some(megabytes) = named("--memory") {
        training = training.memory(megabytes.parse::<usize>()? << 20);
    }
    if let Some(seconds) = named("--time-limit") {
        training = training.time_limit(Some(Duration::try_from_secs_f64(seconds.parse()?)?));
    }
    if named("--scheme").as_deref() == Some("ovr") {
        training = training.scheme(Scheme::OneVsRest);
    }
    let data = mercer_data::read::dataset(Path::new(file), &mercer_data::read::Options::default())?;
    let verbose = arguments.iter().any(|argument| argument == "--verbose");
    let trained = train(&data, &kernel, &formulation, &training, &mut |progress| {
        if verbose {
            eprintln!("{progress:?}");
        }
    })?;
    let mut report = trained.report;
    report.parts.clear();
    println!("{report:#?}");
    println!("kernel rows: {:.1}", report.kernel_values as f64 / data.examples.rows() as f64);
    Ok(())
}
