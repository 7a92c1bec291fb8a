//! Checks a data file: shape, scales, duplicates and labels.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use anyhow::Context;
use mercer::data::read::{Missing, Options, TargetColumn};
use mercer::data::scale::ColumnStats;
use mercer::data::{DataError, Dataset, LiveColumns, MatrixBuilder, Targets, limits, read};
use serde_json::json;

use super::super::{StopSignal, input_options};
use super::{Findings, cost};
use crate::args::Check;
use crate::console::Console;
use crate::files::is_standard;
use crate::labels::too_many_classes;
use crate::training_input::{in_either_base, target_object};

/// Names of columns shown at most.
const SHOWN: usize = 5;

pub(super) fn examine(check: &Check, console: &Console) -> anyhow::Result<Findings> {
    let stop = StopSignal::install()?;
    let mut options = check.memory.limit(input_options(&check.input));
    let source = || check.input.data.display().to_string();
    let mut findings = Findings::default();
    let CheckedRows { data, target, holes } =
        in_either_base(&check.input.data, &mut options, console, |options| {
            rows(check, options).with_context(source)
        })?;
    stop.check()?;
    if let Some((holes, error)) = holes {
        findings.add("rows with missing values", holes.to_string(), holes);
        findings.remark(format!(
            "{holes} of {} rows have missing values or NaN ({error}): use `--missing mean`, `zero` or `drop`",
            data.examples.rows()
        ));
    }
    if let Some(target) = target {
        findings.add("target", target.to_string(), target_object(&target));
    }
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

/// The rows of a file, and what was found while they were read.
struct CheckedRows {
    data: Dataset,
    target: Option<TargetColumn>,
    /// Rows with missing values, and the error that they are without `--missing`.
    holes: Option<(usize, DataError)>,
}

impl CheckedRows {
    fn read(path: &Path, options: &Options) -> Result<Self, DataError> {
        let mut chunks = read::open(path, options)?;
        let (data, _) = read::read_all_within(&mut *chunks, options.row_memory)?;
        Ok(Self { data, target: chunks.target(), holes: None })
    }
}

/// All rows. If missing values are the only problem, they are counted and replaced by means.
fn rows(check: &Check, options: &Options) -> anyhow::Result<CheckedRows> {
    let path = &check.input.data;
    let error = match CheckedRows::read(path, options) {
        Ok(rows) => return Ok(rows),
        Err(error) => error,
    };
    let with = |missing| CheckedRows::read(path, &Options { missing, ..options.clone() });
    if check.input.missing.is_some() || is_standard(path) {
        return Err(error.into());
    }
    let (Ok(all), Ok(full)) = (with(Missing::Zero), with(Missing::Drop)) else {
        return Err(error.into());
    };
    let holes = all.data.examples.rows() - full.data.examples.rows();
    // All other checks use the rows with missing values replaced by means.
    let rows = with(Missing::Mean).unwrap_or(all);
    Ok(CheckedRows { holes: Some((holes, error)), ..rows })
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
    let (rows, columns) = (examples.rows(), examples.columns());
    let density = density(data);
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

/// Adds constant columns, the spread of columns, and whether they need scaling.
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
    let spread = ColumnSpread::of(data, columns);
    let Some(ratio) = spread.ratio() else { return false };
    findings.add("scale ratio", format!("{ratio:.1}"), ratio);
    let wide = spread.wide();
    let is_unscaled = !wide.is_empty() || spread.bulk_ratio() > MAGNITUDES;
    if is_unscaled {
        let (what, scaling) = (spread.what, suggested_scaling(data));
        let which = if wide.is_empty() {
            format!(
                "the {what} of a tenth of them is more than {MAGNITUDES} times that of another tenth"
            )
        } else {
            format!("the {what} of {} is more than ten times the median", named(data, &wide))
        };
        findings.remark(format!(
            "columns are not on one scale: {which}, and large columns will dominate an rbf kernel: use \
             `mercer train --scale {scaling}`"
        ));
    }
    let far =
        |c: &usize| columns.min[*c].abs().max(columns.max[*c].abs()) > 1e6 * columns.std_dev[*c];
    let varies = |c: &usize| columns.std_dev[*c] > 0.0;
    let far: Vec<usize> = (0..columns.std_dev.len()).filter(varies).filter(far).collect();
    if !far.is_empty() {
        let names = named(data, &far);
        findings.remark(format!(
            "columns are far from zero compared with their standard deviation: {names}"
        ));
    }
    is_unscaled
}

/// Columns differ by orders of magnitude if a tenth of them is so many times as large as another tenth.
const MAGNITUDES: f64 = 100.0;
/// Rows with fewer values than this share are kept sparse by the scaling that is suggested.
const DENSE: f64 = 0.5;

/// The scaling for rows like these: sparse rows must keep their zeros.
pub(super) fn suggested_scaling(data: &Dataset) -> &'static str {
    if density(data) < DENSE { "max_abs" } else { "standard" }
}

fn density(data: &Dataset) -> f64 {
    let Dataset { examples, .. } = data;
    examples.nonzeros() as f64 / (examples.rows() as f64 * examples.columns().max(1) as f64)
}

/// How large the columns are that are not constant, from the smallest to the largest.
struct ColumnSpread {
    what: &'static str,
    sorted: Vec<(usize, f64)>,
}

impl ColumnSpread {
    /// Standard deviations; of sparse rows the largest values, as rare values have small deviations on any scale.
    fn of(data: &Dataset, columns: &ColumnStats) -> Self {
        let is_sparse = density(data) < DENSE;
        let what = if is_sparse { "largest value" } else { "standard deviation" };
        let size = |column: usize| {
            if is_sparse {
                columns.min[column].abs().max(columns.max[column].abs())
            } else {
                columns.std_dev[column]
            }
        };
        let varies = |column: &usize| columns.std_dev[*column] > 0.0;
        let columns = (0..columns.std_dev.len()).filter(varies);
        let mut sorted: Vec<(usize, f64)> = columns.map(|column| (column, size(column))).collect();
        sorted.sort_by(|a, b| a.1.total_cmp(&b.1));
        Self { what, sorted }
    }

    fn at(&self, share: f64) -> f64 {
        let last = self.sorted.len().saturating_sub(1);
        self.sorted.get((share * last as f64) as usize).map_or(f64::NAN, |(_, size)| *size)
    }

    fn ratio(&self) -> Option<f64> {
        (!self.sorted.is_empty()).then(|| self.at(1.0) / self.at(0.0))
    }

    /// Size of the columns at nine tenths over that at one tenth.
    fn bulk_ratio(&self) -> f64 {
        self.at(0.9) / self.at(0.1)
    }

    /// Columns that are more than ten times as large as the median, the largest first.
    fn wide(&self) -> Vec<usize> {
        let limit = 10.0 * self.at(0.5);
        let wide = self.sorted.iter().rev().filter(|(_, size)| *size > limit);
        wide.map(|(column, _)| *column).collect()
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

/// Whether targets look like values and not like classes: numbers, too many for classes.
pub(super) fn is_regression(targets: &Targets) -> bool {
    matches!(targets, Targets::Numbers(_)) && too_many_classes(targets).is_some()
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
        findings
            .remark("labels are too many for classes: this looks like regression (epsilon_svr)");
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
