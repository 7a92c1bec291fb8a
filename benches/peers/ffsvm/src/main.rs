//! Times ffsvm's DenseSVM on a LIBSVM model, one query at a time:
//! `cargo run --release --manifest-path benches/peers/ffsvm/Cargo.toml -- MODEL QUERIES`
//! prints one JSON object. Build with `RUSTFLAGS="-C target-cpu=native"`, as its README advises.

use std::time::Instant;

use ffsvm::{DenseSVM, FeatureVector, Label, Predict};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, model, queries] = &arguments[..] else { return Err("usage: MODEL QUERIES".into()) };
    let text = dense(&std::fs::read_to_string(model)?);
    let svm = DenseSVM::try_from(text.as_str()).map_err(|error| format!("{error:?}"))?;
    let lines = std::fs::read_to_string(queries)?;
    let mut rows = Vec::new();
    for line in lines.lines().take(1000) {
        let mut row = FeatureVector::from(&svm);
        let mut tokens = line.split_ascii_whitespace();
        let label: f64 = tokens.next().ok_or("a row without label")?.parse()?;
        for token in tokens {
            let (index, value) = token.split_once(':').ok_or("not index:value")?;
            let index: usize = index.parse()?;
            if let Some(place) = row.features().get_mut(index - 1) {
                *place = value.parse()?;
            }
        }
        rows.push((label, row));
    }
    let (mut best, mut right) = (f64::INFINITY, 0);
    for _ in 0..5 {
        right = 0;
        let start = Instant::now();
        for (label, row) in &mut rows {
            svm.predict_value(row).map_err(|error| format!("{error:?}"))?;
            right += usize::from(row.label() == Label::Class(*label as i32));
        }
        best = best.min(start.elapsed().as_secs_f64() * 1e6 / rows.len() as f64);
    }
    let (count, accuracy) = (rows.len(), right as f64 / rows.len() as f64);
    println!("{{\"ffsvm_single_us\": {best:.2}, \"queries\": {count}, \"accuracy\": {accuracy:.5}}}");
    Ok(())
}

/// The same model with every value written: ffsvm wants dense vectors without gaps.
fn dense(text: &str) -> String {
    let entries = |line: &str| -> Vec<(usize, String)> {
        let pairs = line.split_ascii_whitespace().filter_map(|token| token.split_once(':'));
        pairs.filter_map(|(index, value)| Some((index.parse().ok()?, value.to_owned()))).collect()
    };
    let (header, vectors) = text.split_once("\nSV\n").unwrap_or((text, ""));
    let width = vectors.lines().flat_map(entries).map(|(index, _)| index).max().unwrap_or(0);
    let mut out = format!("{header}\nSV\n");
    for line in vectors.lines() {
        let mut values = vec!["0".to_owned(); width];
        for (index, value) in entries(line) {
            values[index - 1] = value;
        }
        for token in line.split_ascii_whitespace().take_while(|token| !token.contains(':')) {
            out.push_str(token);
            out.push(' ');
        }
        for (column, value) in values.iter().enumerate() {
            out.push_str(&format!("{column}:{value} "));
        }
        out.push('\n');
    }
    out
}
