//! Writes CSV and tab-separated tables.

use std::io::Write;

use super::{WriteFormat, check_dense, digits, header, inexpressible};
use crate::{DataError, Dataset, Targets};

pub(super) static FORMAT: WriteFormat = WriteFormat {
    name: "csv",
    summary: "comma separated table with a header; ids first, the label last",
    endings: &["csv"],
    labels_apart: false,
    write: |data, ids, out| write(data, ids, b',', out),
};

pub(super) static TABS: WriteFormat = WriteFormat {
    name: "tsv",
    summary: "tab separated table with a header; ids first, the label last",
    endings: &["tsv", "tab"],
    labels_apart: false,
    write: |data, ids, out| write(data, ids, b'\t', out),
};

fn write(
    data: &Dataset,
    ids: Option<&[String]>,
    delimiter: u8,
    out: &mut dyn Write,
) -> Result<(), DataError> {
    check_dense("CSV", data)?;
    check_white_space(data, ids)?;
    let mut builder = csv::WriterBuilder::new();
    let mut table = builder.delimiter(delimiter).comment(Some(b'#')).from_writer(out);
    let columns = data.examples.columns();
    table.write_record(header(data, ids.is_some())).map_err(from_csv)?;
    let mut values = vec![0.0; columns];
    for (at, row) in data.examples.iter().enumerate() {
        row.write_dense(&mut values);
        let label = match &data.targets {
            Targets::Absent => None,
            Targets::Numbers(numbers) => Some(digits(numbers[at])),
            Targets::Names(names) => Some(names[at].clone()),
        };
        let id = ids.map(|ids| ids[at].clone());
        let numbers = values.iter().map(|value| digits(*value));
        table.write_record(id.into_iter().chain(numbers).chain(label)).map_err(from_csv)?;
    }
    table.flush()?;
    Ok(())
}

/// White space around a field belongs to the table, not to the field: readers drop it.
fn check_white_space(data: &Dataset, ids: Option<&[String]>) -> Result<(), DataError> {
    let labels = match &data.targets {
        Targets::Names(names) => names.as_slice(),
        Targets::Numbers(_) | Targets::Absent => &[],
    };
    let names = data.names.as_deref().unwrap_or_default();
    let mut texts = labels.iter().chain(ids.unwrap_or_default()).chain(names);
    match texts.find(|text| text.trim() != text.as_str()) {
        Some(text) => {
            Err(inexpressible("CSV", format!("the text '{text}', with white space around it")))
        }
        None => Ok(()),
    }
}

fn from_csv(error: csv::Error) -> DataError {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => DataError::Io(error),
        other => DataError::Io(std::io::Error::other(format!("{other:?}"))),
    }
}
