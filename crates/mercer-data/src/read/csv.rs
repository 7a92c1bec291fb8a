use std::io::{BufRead, BufReader, Cursor, Read};

use super::{Chunks, Format, Label, Options, Source};
use crate::{DataError, Dataset, Matrix, Targets};

pub(super) static FORMAT: Format = Format {
    name: "csv",
    summary: "comma, semicolon or tab separated table, with or without a header line",
    endings: &["csv", "tsv", "tab"],
    open: |source, options| Ok(Box::new(Reader::open(source, options)?)),
};

/// Column names that mark the target when nothing else is said.
const LABEL_NAMES: [&str; 3] = ["label", "target", "class"];

struct Reader {
    records: csv::Reader<Source>,
    /// The first row of a table without header, read while looking for one.
    pending: Option<csv::StringRecord>,
    names: Option<Vec<String>>,
    fields: usize,
    label: Option<usize>,
}

impl Reader {
    fn open(source: Source, options: &Options) -> Result<Self, DataError> {
        let mut buffered = BufReader::new(source);
        let mut head = Vec::new();
        (&mut buffered).take(1 << 24).read_until(b'\n', &mut head)?;
        let delimiter = guess_delimiter(&head);
        let rest: Source = Box::new(Cursor::new(head).chain(buffered));
        let mut records = csv::ReaderBuilder::new()
            .delimiter(delimiter)
            .has_headers(false)
            .flexible(true)
            .trim(csv::Trim::All)
            .comment(Some(b'#'))
            .from_reader(rest);
        let mut first = csv::StringRecord::new();
        if !records.read_record(&mut first).map_err(|error| from_csv(&error))? {
            return Err(DataError::Empty);
        }
        let fields = first.len();
        // A header holds no number at all; a row of words only cannot be an example.
        let has_header = first.iter().all(|field| fast_float2::parse::<f64, _>(field).is_err());
        let names: Option<Vec<String>> =
            has_header.then(|| first.iter().map(str::to_owned).collect());
        let label = find_label(options, names.as_deref(), fields)?;
        let pending = (!has_header).then_some(first);
        Ok(Self { records, pending, names, fields, label })
    }

    fn next_record(&mut self) -> Result<Option<(usize, csv::StringRecord)>, DataError> {
        let record = match self.pending.take() {
            Some(first) => first,
            None => {
                let mut record = csv::StringRecord::new();
                if !self.records.read_record(&mut record).map_err(|error| from_csv(&error))? {
                    return Ok(None);
                }
                record
            }
        };
        let line = record.position().map_or(1, |position| position.line() as usize);
        if record.len() != self.fields {
            let (found, expected) = (record.len(), self.fields);
            return Err(DataError::RaggedRow { line, found, expected });
        }
        Ok(Some((line, record)))
    }

    fn column_name(&self, column: usize) -> String {
        let name = self.names.as_ref().map(|names| names[column].clone());
        name.unwrap_or_else(|| (column + 1).to_string())
    }

    fn push_features(
        &self,
        line: usize,
        record: &csv::StringRecord,
        values: &mut Vec<f64>,
    ) -> Result<(), DataError> {
        for (column, field) in record.iter().enumerate() {
            if Some(column) == self.label {
                continue;
            }
            if field.is_empty() {
                return Err(DataError::Missing { line, column: self.column_name(column) });
            }
            let value = fast_float2::parse::<f64, _>(field.strip_prefix('+').unwrap_or(field))
                .map_err(|_| {
                    let token = field.chars().take(40).collect();
                    DataError::NotANumber { line, token }
                })?;
            if !value.is_finite() {
                let place = format!("column '{}'", self.column_name(column));
                return Err(DataError::NotFinite { line, place, value });
            }
            values.push(value);
        }
        Ok(())
    }
}

impl Chunks for Reader {
    fn next_chunk(&mut self, rows: usize) -> Result<Option<Dataset>, DataError> {
        let mut values = Vec::new();
        let mut labels: Vec<String> = Vec::new();
        let mut count = 0;
        while count < rows
            && let Some((line, record)) = self.next_record()?
        {
            self.push_features(line, &record, &mut values)?;
            if let Some(label) = self.label {
                if record[label].is_empty() {
                    return Err(DataError::Missing { line, column: self.column_name(label) });
                }
                labels.push(record[label].to_owned());
            }
            count += 1;
        }
        if count == 0 {
            return Ok(None);
        }
        let columns = self.fields - usize::from(self.label.is_some());
        let examples = Matrix::dense(columns, values)?;
        let names = self.names.as_ref().map(|names| {
            let kept = names.iter().enumerate().filter(|(column, _)| Some(*column) != self.label);
            kept.map(|(_, name)| name.clone()).collect()
        });
        let targets = if self.label.is_some() { targets(labels) } else { Targets::Absent };
        Ok(Some(Dataset { examples, targets, names }))
    }
}

/// Numbers if all labels are finite numbers, names otherwise.
fn targets(labels: Vec<String>) -> Targets {
    let number = |label: &String| {
        let value = fast_float2::parse::<f64, _>(label.strip_prefix('+').unwrap_or(label)).ok();
        value.filter(|value| value.is_finite())
    };
    match labels.iter().map(number).collect::<Option<Vec<f64>>>() {
        Some(numbers) => Targets::Numbers(numbers),
        None => Targets::Names(labels),
    }
}

fn guess_delimiter(head: &[u8]) -> u8 {
    let count = |wanted: u8| head.iter().filter(|byte| **byte == wanted).count();
    [b',', b'\t', b';'].into_iter().rev().max_by_key(|byte| count(*byte)).unwrap_or(b',')
}

fn find_label(
    options: &Options,
    names: Option<&[String]>,
    fields: usize,
) -> Result<Option<usize>, DataError> {
    let named = |name: &str| names.and_then(|names| names.iter().position(|n| n == name));
    match &options.label {
        Label::Absent => Ok(None),
        Label::Last => Ok(Some(fields - 1)),
        Label::Guess => {
            let is_last = options.features == Some(fields - 1) || options.targets_needed;
            let known = LABEL_NAMES.iter().find_map(|name| named(name));
            Ok(known.or(is_last.then_some(fields - 1)))
        }
        Label::Column(name) => {
            let number = name.parse::<usize>().ok().filter(|n| (1..=fields).contains(n));
            named(name).or(number.map(|n| n - 1)).map(Some).ok_or_else(|| DataError::NoSuchColumn {
                name: name.clone(),
                known: names.map_or(format!("1 to {fields}"), |names| names.join(", ")),
            })
        }
    }
}

fn from_csv(error: &csv::Error) -> DataError {
    let line = error.position().map_or(1, |position| position.line() as usize);
    DataError::Malformed { line, reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::super::from_reader;
    use super::*;

    fn read(text: &'static str, options: &Options) -> Result<Option<Dataset>, DataError> {
        from_reader(text.as_bytes(), "x.csv", options)?.next_chunk(1000)
    }

    fn label(name: &str) -> Options {
        Options { label: name.parse().unwrap(), ..Options::default() }
    }

    #[test]
    fn headers_and_labels_are_found() {
        let data = read("a,label,b\n1,yes,2\n3,no,4\n", &Options::default()).unwrap().unwrap();
        assert_eq!(data.examples.as_dense().unwrap(), [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(data.targets, Targets::Names(vec!["yes".into(), "no".into()]));
        assert_eq!(data.names, Some(vec!["a".into(), "b".into()]));
    }

    #[test]
    fn a_table_one_wider_than_the_machine_ends_in_its_target() {
        let options = Options { features: Some(2), ..Options::default() };
        let data = read("1;2;7\n3;4;8", &options).unwrap().unwrap();
        assert_eq!(data.targets, Targets::Numbers(vec![7.0, 8.0]));
        let plain = read("1\t2\n3\t4", &options).unwrap().unwrap();
        assert_eq!(plain.targets, Targets::Absent);
    }

    #[test]
    fn errors_name_line_and_column() {
        for (text, options, message) in [
            ("", label("guess"), "the file holds no rows"),
            ("1,2\n3", label("guess"), "line 2: 1 fields where the first row has 2"),
            (
                "a,b\n1,",
                label("guess"),
                "line 2: column 'b' is empty; missing values are not accepted",
            ),
            ("a,b\n1,x", label("guess"), "line 2: 'x' is not a number"),
            ("a,b\n1,nan", label("guess"), "line 2: column 'b' is NaN; values must be finite"),
            ("a,b\n1,2", label("c"), "there is no column 'c'; the columns are a, b"),
        ] {
            assert_eq!(read(text, &options).map(|_| ()).unwrap_err().to_string(), message);
        }
    }
}
