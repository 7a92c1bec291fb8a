//! Times PmSVM-LUT as printed in \[YW12\] (the reference of `mercer-testkit`), one class against the rest in turn.
//!
//! `cargo run --release -p mercer-train --example pmsvm_lut -- FILE.svm C`

use std::path::Path;
use std::time::Instant;

use mercer_data::{Targets, read};
use mercer_testkit::pmsvm::{Problem, chebyshev, train};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [file, c] = words.as_slice() else { return Err("pmsvm_lut FILE.svm C".into()) };
    let data = read::dataset(Path::new(file), &read::Options::default())?;
    let Targets::Numbers(labels) = &data.targets else { return Err("labels are numbers".into()) };
    let mut classes = labels.clone();
    classes.sort_by(f64::total_cmp);
    classes.dedup();
    if classes.len() == 2 {
        classes.truncate(1);
    }
    let chi2 = |s: f64, t: f64| if s + t > 0.0 { 2.0 * s * t / (s + t) } else { 0.0 };
    let (mut seconds, mut updates) = (0.0, 0);
    for class in classes {
        let signs: Vec<f32> =
            labels.iter().map(|label| if *label == class { 1.0 } else { -1.0 }).collect();
        let problem = Problem {
            rows: &data.examples,
            signs: &signs,
            c: c.parse()?,
            tolerance: 0.1,
            nodes: chebyshev(2),
            bins: Some(1000),
        };
        // Converting the rows to the paper's layout is not timed: the paper's program reads them in it.
        let mut started = Instant::now();
        updates += train(&problem, &chi2, || started = Instant::now()).updates;
        seconds += started.elapsed().as_secs_f64();
    }
    println!("{{\"seconds\": {seconds}, \"updates\": {updates}}}");
    Ok(())
}
