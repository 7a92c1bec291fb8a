use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use anyhow::Context;
use mercer::data::scale::Columns;
use mercer::data::{Dataset, Targets, draw, read};
use mercer::kernel;
use mercer::machine::{Machine, Output, Score};
use mercer::query::Plan;
use serde_json::json;

use super::super::{StopSignal, input_options};
use super::{Findings, size};
use crate::args::Check;

/// Rows measured to tell how fast kernel values are here.
const MEASURED: usize = 256;
/// Names of columns shown at most.
const SHOWN: usize = 5;

pub(super) fn examine(check: &Check) -> anyhow::Result<Findings> {
    let stop = StopSignal::install()?;
    let mut options = input_options(&check.input);
    options.targets_needed = options.label == read::Label::Guess;
    let source = || check.input.data.display().to_string();
    let data = read::dataset(&check.input.data, &options).with_context(source)?;
    stop.check()?;
    let mut findings = Findings::default();
    let columns = Columns::of(&data.examples);
    shape(&data, &mut findings);
    scales(&data, &columns, &mut findings);
    repeats(&data, &mut findings);
    targets(&data.targets, &mut findings);
    cost(&data, &columns, &mut findings)?;
    Ok(findings)
}

fn shape(data: &Dataset, findings: &mut Findings) {
    let examples = &data.examples;
    let (rows, columns, nonzeros) = (examples.rows(), examples.columns(), examples.nonzeros());
    let density = nonzeros as f64 / (rows as f64 * columns.max(1) as f64);
    findings.figure("rows", rows.to_string(), rows);
    findings.figure("columns", columns.to_string(), columns);
    findings.figure("density", format!("{:.2} % non-zero", 100.0 * density), density);
}

fn named(data: &Dataset, columns: &[usize]) -> String {
    let name = |column: &usize| match &data.names {
        Some(names) => format!("'{}'", names[*column]),
        None => (column + 1).to_string(),
    };
    let shown: Vec<String> = columns.iter().take(SHOWN).map(name).collect();
    let more = if columns.len() > SHOWN { ", ..." } else { "" };
    shown.join(", ") + more
}

fn scales(data: &Dataset, columns: &Columns, findings: &mut Findings) {
    let constants = columns.constants();
    findings.figure("constant columns", constants.len().to_string(), constants.len());
    if !constants.is_empty() {
        let names = named(data, &constants);
        findings
            .remark(format!("{} columns are constant and teach nothing: {names}", constants.len()));
    }
    let mut by_spread: Vec<usize> = (0..columns.spread.len()).collect();
    by_spread.retain(|column| columns.spread[*column] > 0.0);
    by_spread.sort_by(|a, b| columns.spread[*a].total_cmp(&columns.spread[*b]));
    let (Some(least), Some(most)) = (by_spread.first(), by_spread.last()) else { return };
    let ratio = columns.spread[*most] / columns.spread[*least];
    findings.figure("spread ratio", format!("{ratio:.1}"), ratio);
    let median = columns.spread[by_spread[(by_spread.len() - 1) / 2]];
    let wide: Vec<usize> =
        by_spread.iter().rev().copied().filter(|c| columns.spread[*c] > 10.0 * median).collect();
    if !wide.is_empty() && !data.examples.is_sparse() {
        findings.remark(format!(
            "columns are not on one scale: {} spread more than ten times the median and will decide \
             alone under rbf: `mercer train --scale standard`",
            named(data, &wide)
        ));
    }
    let far =
        |c: &usize| columns.low[*c].abs().max(columns.high[*c].abs()) > 1e6 * columns.spread[*c];
    let far: Vec<usize> = by_spread.iter().copied().filter(far).collect();
    if !far.is_empty() {
        let names = named(data, &far);
        findings.remark(format!("columns lie far from zero compared with their spread: {names}"));
    }
}

fn repeats(data: &Dataset, findings: &mut Findings) {
    let label = |row: usize| match &data.targets {
        Targets::Absent => String::new(),
        Targets::Numbers(numbers) => numbers[row].to_string(),
        Targets::Names(names) => names[row].clone(),
    };
    let mut seen: HashMap<Vec<(u32, u64)>, (usize, bool)> = HashMap::new();
    let (mut repeated, mut conflicting) = (0usize, 0usize);
    for (at, row) in data.examples.iter().enumerate() {
        let key = row.nonzeros().map(|(column, value)| (column, value.to_bits())).collect();
        let (first, _) = *seen.entry(key).or_insert((at, false));
        if first != at {
            repeated += 1;
            conflicting += usize::from(label(first) != label(at));
        }
    }
    findings.figure("repeated rows", repeated.to_string(), repeated);
    findings.figure("conflicting rows", conflicting.to_string(), conflicting);
    if repeated * 100 > data.examples.rows() {
        findings.remark(format!(
            "{repeated} rows repeat earlier ones: splits drawn at random will see them on both sides"
        ));
    }
    if conflicting > 0 {
        findings.remark(format!(
            "{conflicting} rows equal an earlier row but carry another label: no machine can learn both"
        ));
    }
}

fn targets(targets: &Targets, findings: &mut Findings) {
    let texts: Vec<String> = match targets {
        Targets::Absent => {
            findings.remark("there are no labels: only novelty can be learned");
            return;
        }
        Targets::Numbers(numbers) => numbers.iter().map(ToString::to_string).collect(),
        Targets::Names(names) => names.clone(),
    };
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    texts.iter().for_each(|text| *counts.entry(text).or_default() += 1);
    findings.figure("distinct labels", counts.len().to_string(), counts.len());
    if counts.len() > texts.len() / 2 && counts.len() > 20 {
        findings.remark("labels are mostly distinct: this looks like regression");
        return;
    }
    let by_count =
        |(a, _): &(&&str, &usize), (b, _): &(&&str, &usize)| counts[**a].cmp(&counts[**b]);
    let rarest = counts.iter().min_by(by_count).map(|(name, count)| (*name, *count));
    let largest = counts.values().max().copied().unwrap_or(0);
    if counts.len() <= 20 {
        let list: Vec<String> = counts.iter().map(|(name, n)| format!("{name}: {n}")).collect();
        findings.figure("labels", list.join(", "), json!(counts));
    }
    match rarest {
        Some((name, _)) if counts.len() == 1 => {
            findings
                .remark(format!("all rows carry the label {name}: there is nothing to tell apart"));
        }
        Some((name, count)) if count * 10 < largest => findings.remark(format!(
            "label {name} has {count} rows, the most common one {largest}: consider --class-weight"
        )),
        _ => {}
    }
}

fn cost(data: &Dataset, columns: &Columns, findings: &mut Findings) -> anyhow::Result<()> {
    let examples = &data.examples;
    let rows = examples.rows() as f64;
    let matrix = 8.0 * rows * rows;
    findings.figure("kernel matrix", size(matrix), matrix);
    let sample = examples.select(draw(examples.rows(), MEASURED, 1));
    let count = sample.rows();
    let kernel = kernel::parse("rbf(gamma=1e-3)")?;
    let scores = vec![Score::expansion(&vec![1.0; count], 0.0)];
    let plan = Plan::exact(&Machine::new(kernel, sample.clone(), scores, Output::Novelty)?);
    plan.scores(&sample)?;
    let start = Instant::now();
    plan.scores(&sample)?;
    let each = start.elapsed().as_secs_f64() / (count * count) as f64;
    let pass = each * rows * rows;
    findings.figure("one pass over it", format!("about {pass:.2} s here"), pass);
    if matrix > 16e9 {
        findings.remark(format!(
            "the kernel matrix ({}) exceeds usual memory: give --memory, expect several passes of {pass:.0} s",
            size(matrix)
        ));
    }
    let is_wide =
        examples.columns() > examples.rows() || examples.is_sparse() && examples.columns() > 10_000;
    let is_histogram = columns.low.iter().all(|low| *low >= 0.0) && {
        let sums = examples.iter().take(100).map(|row| row.nonzeros().map(|(_, v)| v).sum::<f64>());
        let sums: Vec<f64> = sums.collect();
        sums.iter().all(|sum| (sum - sums[0]).abs() <= 1e-6 * sums[0].abs()) && sums[0] > 0.0
    };
    let kernel = if is_wide {
        "linear"
    } else if is_histogram {
        "chi2"
    } else {
        "rbf(gamma=scale)"
    };
    findings.figure("suggested kernel", kernel, kernel);
    findings.figure("suggested solver", "smo", "smo");
    Ok(())
}
