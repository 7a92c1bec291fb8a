//! Checks a data file: shape, scales, duplicates and labels.

use std::collections::{BTreeMap, HashMap, HashSet};

use anyhow::Context;
use mercer::data::read::{Missing, Options};
use mercer::data::scale::ColumnStats;
use mercer::data::{Dataset, LiveColumns, MatrixBuilder, Targets, limits, read};
use serde_json::json;

use super::super::{StopSignal, input_options};
use super::{Findings, cost};
use crate::args::Check;

/// Names of columns shown at most.
const SHOWN: usize = 5;

pub(super) fn examine(check: &Check) -> anyhow::Result<Findings> {
    let stop = StopSignal::install()?;
    let mut options = check.memory.limit(input_options(&check.input));
    options.targets_needed = options.label == read::Label::Guess;
    let source = || check.input.data.display().to_string();
    let mut findings = Findings::default();
    let data = rows(check, &options, &mut findings).with_context(source)?;
    stop.check()?;
    shape(&data, &mut findings);
    let data = narrowed(data, &mut findings);
    let columns = ColumnStats::of(&data.examples).with_context(source)?;
    let is_unscaled = scales(&data, &columns, &mut findings);
    repeats(&data, &mut findings);
    targets(&data.targets, &mut findings);
    stop.check()?;
    cost::estimate(&data, &columns, is_unscaled, &stop, &mut findings).with_context(source)?;
    Ok(findings)
}

/// All rows. If missing values are the only problem, they are counted and replaced by means.
fn rows(check: &Check, options: &Options, findings: &mut Findings) -> anyhow::Result<Dataset> {
    let path = &check.input.data;
    let error = match read::dataset(path, options) {
        Ok(data) => return Ok(data),
        Err(error) => error,
    };
    let with = |missing| read::dataset(path, &Options { missing, ..options.clone() });
    if check.input.missing.is_some() || path.as_os_str() == "-" {
        return Err(error.into());
    }
    let (Ok(all), Ok(full)) = (with(Missing::Zero), with(Missing::Drop)) else {
        return Err(error.into());
    };
    let (rows, holes) = (all.examples.rows(), all.examples.rows() - full.examples.rows());
    findings.add("rows with missing values", holes.to_string(), holes);
    findings.remark(format!(
        "{holes} of {rows} rows have missing values or NaN ({error}): use `--missing mean`, `zero` or `drop`"
    ));
    // All other checks use the rows with missing values replaced by means.
    Ok(with(Missing::Mean).unwrap_or(all))
}

/// Without columns of zeros, if the rows name very large column numbers; names keep the numbers.
fn narrowed(data: Dataset, findings: &mut Findings) -> Dataset {
    let (width, stored) = (data.examples.columns(), data.examples.nonzeros());
    if limits::check_table("a row", width, stored).is_ok() {
        return data;
    }
    let live = LiveColumns::of(&data.examples);
    findings.remark(format!(
        "of {width} columns, {} have values: scalings, and linear and additive solvers, refuse such rows; number the \
         columns consecutively",
        live.len()
    ));
    let mut builder = MatrixBuilder::new();
    for row in data.examples.iter() {
        for (column, value) in row.nonzeros() {
            builder.push(live.slot_or_dead(column), value);
        }
        builder.end_row();
    }
    let name = |column: &u32| match &data.names {
        Some(names) => names[*column as usize].clone(),
        None => (u64::from(*column) + 1).to_string(),
    };
    let names = Some(live.columns().iter().map(name).collect());
    Dataset { examples: builder.finish(live.len()), names, targets: data.targets }
}

fn shape(data: &Dataset, findings: &mut Findings) {
    let examples = &data.examples;
    let (rows, columns, nonzeros) = (examples.rows(), examples.columns(), examples.nonzeros());
    let density = nonzeros as f64 / (rows as f64 * columns.max(1) as f64);
    findings.add("rows", rows.to_string(), rows);
    findings.add("columns", columns.to_string(), columns);
    findings.add("density", format!("{:.2} % non-zero", 100.0 * density), density);
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

/// Whether the columns need scaling.
fn scales(data: &Dataset, columns: &ColumnStats, findings: &mut Findings) -> bool {
    let constants = columns.constants();
    findings.add("constant columns", constants.len().to_string(), constants.len());
    if !constants.is_empty() {
        let names = named(data, &constants);
        findings.remark(format!(
            "{} columns are constant and carry no information: {names}",
            constants.len()
        ));
    }
    let mut by_deviation: Vec<usize> = (0..columns.std_dev.len()).collect();
    by_deviation.retain(|column| columns.std_dev[*column] > 0.0);
    by_deviation.sort_by(|a, b| columns.std_dev[*a].total_cmp(&columns.std_dev[*b]));
    let (Some(least), Some(most)) = (by_deviation.first(), by_deviation.last()) else {
        return false;
    };
    let ratio = columns.std_dev[*most] / columns.std_dev[*least];
    findings.add("scale ratio", format!("{ratio:.1}"), ratio);
    let median = columns.std_dev[by_deviation[(by_deviation.len() - 1) / 2]];
    let wide: Vec<usize> = by_deviation
        .iter()
        .rev()
        .copied()
        .filter(|c| columns.std_dev[*c] > 10.0 * median)
        .collect();
    let is_unscaled = !wide.is_empty() && !data.examples.is_sparse();
    if is_unscaled {
        findings.remark(format!(
            "columns are not on one scale: the standard deviation of {} is more than ten times the median, and these \
             columns will dominate an rbf kernel: use `mercer train --scale standard`",
            named(data, &wide)
        ));
    }
    let far =
        |c: &usize| columns.min[*c].abs().max(columns.max[*c].abs()) > 1e6 * columns.std_dev[*c];
    let far: Vec<usize> = by_deviation.iter().copied().filter(far).collect();
    if !far.is_empty() {
        let names = named(data, &far);
        findings.remark(format!(
            "columns are far from zero compared with their standard deviation: {names}"
        ));
    }
    is_unscaled
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
    findings.add("repeated rows", repeated.to_string(), repeated);
    findings.add("conflicting rows", conflicting.to_string(), conflicting);
    if repeated * 100 > data.examples.rows() {
        findings.remark(format!(
            "{repeated} rows are duplicates of earlier rows: a random split puts copies into both parts"
        ));
    }
    if conflicting > 0 {
        findings.remark(format!(
            "{conflicting} rows equal an earlier row but have another label: no machine can fit both"
        ));
    }
}

/// Whether targets look like values and not like classes: numbers, most of them distinct.
pub(super) fn is_regression(targets: &Targets) -> bool {
    let Targets::Numbers(numbers) = targets else { return false };
    let distinct: HashSet<u64> = numbers.iter().map(|number| number.to_bits()).collect();
    distinct.len() > numbers.len() / 2 && distinct.len() > 20
}

fn targets(targets: &Targets, findings: &mut Findings) {
    let is_regression = is_regression(targets);
    let texts: Vec<String> = match targets {
        Targets::Absent => {
            findings.remark("there are no labels: only novelty detection (one_class) is possible");
            return;
        }
        Targets::Numbers(numbers) => numbers.iter().map(ToString::to_string).collect(),
        Targets::Names(names) => names.clone(),
    };
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    texts.iter().for_each(|text| *counts.entry(text).or_default() += 1);
    findings.add("distinct labels", counts.len().to_string(), counts.len());
    if is_regression {
        findings.remark("labels are mostly distinct: this looks like regression");
        return;
    }
    let by_count =
        |(a, _): &(&&str, &usize), (b, _): &(&&str, &usize)| counts[**a].cmp(&counts[**b]);
    let rarest = counts.iter().min_by(by_count).map(|(name, count)| (*name, *count));
    let largest = counts.values().max().copied().unwrap_or(0);
    if counts.len() <= 20 {
        let list: Vec<String> = counts.iter().map(|(name, n)| format!("{name}: {n}")).collect();
        findings.add("labels", list.join(", "), json!(counts));
    }
    match rarest {
        Some((name, _)) if counts.len() == 1 => {
            findings
                .remark(format!("all rows have the label {name}: there is only one class"));
        }
        Some((name, count)) if count * 10 < largest => findings.remark(format!(
            "label {name} has {count} rows, the most frequent label {largest}: consider --class-weight"
        )),
        _ => {}
    }
}
