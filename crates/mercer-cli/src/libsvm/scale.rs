//! `svm-scale`: scales every column to one range. Constant columns are left out, zeros are not written.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::{Context, bail};
use mercer_report::save_text;

use super::CommandLine;
use crate::files::Files;
use mercer::printf::g;

const USAGE: &str = "Usage: svm-scale [options] data_filename
options:
-l lower : x scaling lower limit (default -1)
-u upper : x scaling upper limit (default +1)
-y y_lower y_upper : y scaling limits (default: no y scaling)
-s save_filename : save scaling parameters to save_filename
-r restore_filename : restore scaling parameters from restore_filename
";

/// A range of values.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Range {
    least: f64,
    most: f64,
}

impl Range {
    const EMPTY: Self = Self { least: f64::MAX, most: -f64::MAX };

    fn include(&mut self, value: f64) {
        self.least = self.least.min(value);
        self.most = self.most.max(value);
    }

    fn map_onto(self, target: Self, value: f64) -> f64 {
        if value == self.least {
            target.least
        } else if value == self.most {
            target.most
        } else {
            let width = target.most - target.least;
            target.least + width * (value - self.least) / (self.most - self.least)
        }
    }
}

/// How columns and targets are scaled.
#[derive(Debug, PartialEq)]
struct ColumnScaling {
    onto: Range,
    /// Range of each column that is named, by its index: memory follows what the file holds.
    columns: BTreeMap<usize, Range>,
    /// For targets: the new range, and the range in the data.
    target: Option<(Range, Range)>,
}

pub(super) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let mut line = CommandLine::new(arguments, USAGE);
    let (mut onto, mut target) = (Range { least: -1.0, most: 1.0 }, None);
    let (mut save, mut restore) = (None, None);
    while let Some(flag) = line.flag() {
        match flag {
            "l" => onto.least = line.number(flag)?,
            "u" => onto.most = line.number(flag)?,
            "y" => target = Some(Range { least: line.number(flag)?, most: line.number(flag)? }),
            "s" => save = Some(line.value()?),
            "r" => restore = Some(line.value()?),
            _ => return Err(line.unknown(flag)),
        }
    }
    let rises = |range: &Range| range.most > range.least;
    if !rises(&onto) || target.is_some_and(|target| !rises(&target)) {
        bail!("inconsistent lower/upper specification");
    }
    if save.is_some() && restore.is_some() {
        bail!("cannot use -r and -s simultaneously");
    }
    let [path] = line.left else { return Err(line.refuse(None)) };
    let files = Files::default().read(Path::new(path));
    save.into_iter()
        .fold(files, |files, file| files.write("-s", Path::new(file)))
        .check_outputs()?;
    let text = fs::read_to_string(path).with_context(|| format!("can't open file {path}"))?;
    let rows = rows(&text).with_context(|| path.clone())?;
    if rows.iter().any(|(_, values)| values.first().is_some_and(|(index, _)| *index == 0)) {
        eprintln!("WARNING: minimal feature index is 0, but indices should start from 1");
    }
    let scaling = match restore {
        Some(file) => {
            let text =
                fs::read_to_string(file).with_context(|| format!("can't open file {file}"))?;
            restored(&text).with_context(|| file.to_owned())?
        }
        None => ColumnScaling::of(&rows, onto, target),
    };
    if let Some(file) = save {
        save_text(Path::new(file), &scaling.saved())?;
    }
    let out = BufWriter::new(io::stdout().lock());
    let (before, after) = scaling.write(&rows, out)?;
    if after > before {
        eprintln!("WARNING: original #nonzeros {before}");
        eprintln!("       > new      #nonzeros {after}");
        eprintln!(
            "If feature values are non-negative and sparse, use -l 0 rather than the default -l -1"
        );
    }
    Ok(())
}

/// A target, and indices of columns with their values.
type Line = (f64, Vec<(usize, f64)>);

fn rows(text: &str) -> anyhow::Result<Vec<Line>> {
    let row = |(number, line): (usize, &str)| {
        let wrong =
            || format!("line {number}: wrong input format, expected <label> <index>:<value> ...");
        let mut tokens = line.split_ascii_whitespace();
        let target: f64 = tokens.next().and_then(|token| token.parse().ok()).with_context(wrong)?;
        let mut values: Vec<(usize, f64)> = Vec::new();
        for token in tokens {
            let (index, value) = token.split_once(':').with_context(wrong)?;
            let pair: (usize, f64) =
                (index.parse().ok().with_context(wrong)?, value.parse().ok().with_context(wrong)?);
            let last = values.last().map(|last: &(usize, f64)| last.0);
            anyhow::ensure!(
                last.is_none_or(|last| pair.0 > last) && pair.0 < 1 << 31 && pair.1.is_finite(),
                "line {number}: indices must increase and values must be finite; '{token}' is wrong here"
            );
            values.push(pair);
        }
        Ok((target, values))
    };
    let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    lines.map(row).collect()
}

impl ColumnScaling {
    fn of(rows: &[Line], onto: Range, target: Option<Range>) -> Self {
        let mut named: BTreeMap<usize, (Range, usize)> = BTreeMap::new();
        let mut targets = Range::EMPTY;
        for (y, values) in rows {
            targets.include(*y);
            for (index, value) in values {
                let (range, count) = named.entry(*index).or_insert((Range::EMPTY, 0));
                range.include(*value);
                *count += 1;
            }
        }
        let with_zeros = |(index, (mut range, count)): (usize, (Range, usize))| {
            if count < rows.len() {
                range.include(0.0);
            }
            (index, range)
        };
        let columns = named.into_iter().map(with_zeros).collect();
        Self { onto, columns, target: target.map(|onto| (onto, targets)) }
    }

    /// The file that `-r` reads.
    fn saved(&self) -> String {
        let mut text = String::new();
        let pair = |range: Range| format!("{} {}", g(range.least, 17), g(range.most, 17));
        if let Some((onto, from)) = self.target {
            let _ = writeln!(text, "y\n{}\n{}", pair(onto), pair(from));
        }
        let _ = writeln!(text, "x\n{}", pair(self.onto));
        for (index, range) in &self.columns {
            if range.least != range.most {
                let _ = writeln!(text, "{index} {}", pair(*range));
            }
        }
        text
    }

    /// Writes the scaled rows; returns the number of non-zeros before and after.
    fn write(&self, rows: &[Line], mut out: impl Write) -> io::Result<(usize, usize)> {
        let (mut before, mut after) = (0, 0);
        let zeros: Vec<(usize, f64)> = self
            .columns
            .iter()
            .filter_map(|(index, range)| {
                let value =
                    if range.least == range.most { 0.0 } else { range.map_onto(self.onto, 0.0) };
                (value != 0.0 && range.most >= range.least).then_some((*index, value))
            })
            .collect();
        for (target, values) in rows {
            before += values.len();
            let target = match self.target {
                Some((onto, from)) => from.map_onto(onto, *target),
                None => *target,
            };
            write!(out, "{} ", g(target, 17))?;
            let mut zeros = zeros.iter().peekable();
            let mut put = |index: usize, value: f64, out: &mut dyn Write| {
                after += 1;
                write!(out, "{index}:{} ", g(value, 6))
            };
            for (index, value) in values {
                while let Some((zero, value)) = zeros.next_if(|(zero, _)| zero < index) {
                    put(*zero, *value, &mut out)?;
                }
                let _ = zeros.next_if(|(zero, _)| zero == index);
                let Some(range) = self.columns.get(index) else { continue };
                let scaled = range.map_onto(self.onto, *value);
                if range.most > range.least && scaled != 0.0 {
                    put(*index, scaled, &mut out)?;
                }
            }
            for (zero, value) in zeros {
                put(*zero, *value, &mut out)?;
            }
            writeln!(out)?;
        }
        out.flush()?;
        Ok((before, after))
    }
}

/// Reads what `-s` wrote.
fn restored(text: &str) -> anyhow::Result<ColumnScaling> {
    let mut lines = text.lines();
    let numbers = |line: Option<&str>| -> anyhow::Result<Vec<f64>> {
        let line = line.context("the file of scaling parameters ends too early")?;
        let parse = |token: &str| token.parse().with_context(|| format!("'{token}' is no number"));
        line.split_ascii_whitespace().map(parse).collect()
    };
    let pair = |line: Option<&str>| match numbers(line)?.as_slice() {
        [least, most] => Ok(Range { least: *least, most: *most }),
        _ => bail!("two numbers are expected in each range"),
    };
    let mut kind = lines.next();
    let mut target = None;
    if kind.map(str::trim) == Some("y") {
        target = Some((pair(lines.next())?, pair(lines.next())?));
        kind = lines.next();
    }
    anyhow::ensure!(kind.map(str::trim) == Some("x"), "the line 'x' is missing");
    let mut scaling = ColumnScaling { onto: pair(lines.next())?, columns: BTreeMap::new(), target };
    for line in lines.filter(|line| !line.trim().is_empty()) {
        let [index, least, most] = numbers(Some(line))?[..] else {
            bail!("'{line}': an index, the least and the most value are expected")
        };
        anyhow::ensure!(
            (0.0..2147483648.0).contains(&index),
            "'{line}': an index is below 2147483648"
        );
        scaling.columns.insert(index as usize, Range { least, most });
    }
    Ok(scaling)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_saved_is_restored() {
        let rows = rows("1 1:2 3:4.5\n-1 1:3 2:7\n2.5 1:4 2:7 3:0.1\n").unwrap();
        let onto = Range { least: 0.0, most: 1.0 };
        let scaling = ColumnScaling::of(&rows, onto, Some(Range { least: -2.0, most: 2.0 }));
        let again = restored(&scaling.saved()).unwrap();
        assert_eq!(again, scaling);
        let mut out = Vec::new();
        again.write(&rows, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().next(), Some("0.28571428571428559 3:1 "));
    }

    #[test]
    fn columns_of_one_value_and_zeros_are_left_out() {
        let rows = rows("1 1:5 2:1\n0 1:5 2:3\n").unwrap();
        let scaling = ColumnScaling::of(&rows, Range { least: -1.0, most: 1.0 }, None);
        let mut out = Vec::new();
        assert_eq!(scaling.write(&rows, &mut out).unwrap(), (4, 2));
        assert_eq!(String::from_utf8(out).unwrap(), "1 2:-1 \n0 2:1 \n");
    }
}
