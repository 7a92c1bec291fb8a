//! Parquet files with flat columns: numbers, booleans, texts.
//!
//! The whole file is held; rows are decoded a few thousand at a time. The library that decodes pages is not
//! ours: should it panic on a damaged file, that becomes an error here.

mod pages;

use std::io::Read;

use bytes::Bytes;
use parquet::basic::{ConvertedType, LogicalType, Type};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::DataType;
use parquet::errors::ParquetError;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::schema::types::ColumnDescriptor;

use super::array::Scalar;
use super::table::columns::Fields;
use super::table::{Cell, Records, TableReader, by_row};
use super::unpack::too_much;
use super::{Options, ReadFormat, Source};
use crate::{DataError, caught};

pub(super) static FORMAT: ReadFormat = ReadFormat {
    name: "parquet",
    summary: "Parquet table; numbers, booleans and texts",
    endings: &["parquet", "pq"],
    recognise: |head| head.starts_with(b"PAR1"),
    open: |source, options| Ok(Box::new(open(source, options)?)),
};

/// Rows decoded at a time.
const BLOCK_ROWS: usize = 4096;

fn error(reason: impl Into<String>) -> DataError {
    DataError::Array { format: "Parquet", reason: reason.into() }
}

fn damaged(cause: ParquetError) -> DataError {
    let text = cause.to_string();
    error(text.trim_start_matches("Parquet error: ").to_owned())
}

/// Runs the library's code; its panics become errors, and are not printed.
fn guarded<T>(work: impl FnOnce() -> Result<T, DataError>) -> Result<T, DataError> {
    caught(work).unwrap_or_else(|_| Err(error("the file is damaged")))
}

/// How the numbers of a column are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ParquetKind {
    Number,
    Unsigned,
    Half,
    Text,
}

/// Values of a block; `None` where they are missing.
#[derive(Debug)]
enum Stored {
    Numbers(Vec<Option<f64>>),
    Texts(Vec<Option<String>>),
}

struct Groups {
    file: SerializedFileReader<Bytes>,
    kinds: Vec<ParquetKind>,
    group: usize,
    columns: Vec<ColumnReader>,
    /// Rows of the group at hand that are not decoded yet.
    left: usize,
    block: Vec<Stored>,
    rows: usize,
    row: usize,
    before: usize,
}

fn open(mut source: Source, options: &Options) -> Result<TableReader<Groups>, DataError> {
    let mut bytes = Vec::new();
    source.read_to_end(&mut bytes)?;
    let bytes = Bytes::from(bytes);
    pages::check_schema(&bytes)?;
    let file = guarded(|| SerializedFileReader::new(bytes.clone()).map_err(damaged))?;
    check_pages(&file, &bytes)?;
    check_size(&file, options.unpack_limits().of(bytes.len() as u64))?;
    let schema = file.metadata().file_metadata().schema_descr_ptr();
    let columns = schema.columns();
    let kinds = columns.iter().map(|column| kind(column)).collect::<Result<Vec<_>, _>>()?;
    if kinds.is_empty() {
        return Err(DataError::NoFeatures);
    }
    let names: Vec<String> = columns.iter().map(|column| column.name().to_owned()).collect();
    let fields = Fields { count: names.len(), names: Some(names) };
    let (group, columns, left, block, rows, row, before) = (0, vec![], 0, vec![], 0, 0, 0);
    let groups = Groups { file, kinds, group, columns, left, block, rows, row, before };
    TableReader::new(groups, fields, options)
}

/// Looks at the headers of all pages.
fn check_pages(file: &SerializedFileReader<Bytes>, bytes: &[u8]) -> Result<(), DataError> {
    let groups = file.metadata().row_groups().iter();
    for column in groups.flat_map(RowGroupMetaData::columns) {
        let start = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
        let start = start.min(column.data_page_offset());
        let start = usize::try_from(start).ok();
        let length = usize::try_from(column.compressed_size()).ok();
        let end = start.zip(length).and_then(|(start, length)| start.checked_add(length));
        let chunk = start.zip(end).and_then(|(start, end)| bytes.get(start..end));
        pages::check(chunk.ok_or_else(|| error("a column lies outside the file"))?)?;
    }
    Ok(())
}

/// Repeated values take almost no room in a file: all numbers of all rows count as unpacked.
fn check_size(file: &SerializedFileReader<Bytes>, limit: u64) -> Result<(), DataError> {
    let size = |group: &RowGroupMetaData| {
        let rows = u64::try_from(group.num_rows()).unwrap_or(0);
        rows.saturating_mul(group.num_columns() as u64).saturating_mul(size_of::<f64>() as u64)
    };
    let groups = file.metadata().row_groups().iter().map(size);
    let all = groups.fold(0u64, u64::saturating_add);
    if all > limit { Err(error(too_much())) } else { Ok(()) }
}

/// What a column holds; what is not read is refused by name.
fn kind(column: &ColumnDescriptor) -> Result<ParquetKind, DataError> {
    let refused = |what: &str| {
        let name: String = column.path().string().chars().take(40).collect();
        Err(error(format!("column '{name}' holds {what}, which is not read")))
    };
    if column.max_rep_level() > 0 || column.path().parts().len() != 1 {
        return refused("lists");
    }
    match column.converted_type() {
        ConvertedType::DECIMAL => return refused("decimals"),
        ConvertedType::DATE
        | ConvertedType::TIME_MILLIS
        | ConvertedType::TIME_MICROS
        | ConvertedType::TIMESTAMP_MILLIS
        | ConvertedType::TIMESTAMP_MICROS
        | ConvertedType::INTERVAL => return refused("times"),
        _ => {}
    }
    match column.logical_type_ref() {
        Some(LogicalType::Decimal(_)) => return refused("decimals"),
        Some(LogicalType::Date | LogicalType::Time(_) | LogicalType::Timestamp(_)) => {
            return refused("times");
        }
        _ => {}
    }
    let is_unsigned = matches!(
        column.converted_type(),
        ConvertedType::UINT_8
            | ConvertedType::UINT_16
            | ConvertedType::UINT_32
            | ConvertedType::UINT_64
    );
    match column.physical_type() {
        Type::INT32 | Type::INT64 if is_unsigned => Ok(ParquetKind::Unsigned),
        Type::BOOLEAN | Type::INT32 | Type::INT64 | Type::FLOAT | Type::DOUBLE => {
            Ok(ParquetKind::Number)
        }
        Type::BYTE_ARRAY => Ok(ParquetKind::Text),
        Type::FIXED_LEN_BYTE_ARRAY if column.logical_type_ref() == Some(&LogicalType::Float16) => {
            Ok(ParquetKind::Half)
        }
        Type::INT96 => refused("times"),
        Type::FIXED_LEN_BYTE_ARRAY => refused("bytes"),
    }
}

impl Groups {
    /// Decodes the next rows; false at the end.
    fn next_block(&mut self) -> Result<bool, DataError> {
        self.before += self.rows;
        self.rows = 0;
        while self.left == 0 {
            if self.group == self.file.num_row_groups() {
                return Ok(false);
            }
            let group = self.file.get_row_group(self.group).map_err(damaged)?;
            self.group += 1;
            let rows = group.metadata().num_rows();
            self.left = usize::try_from(rows).map_err(|_| error("a group of negative length"))?;
            let columns = (0..self.kinds.len()).map(|column| group.get_column_reader(column));
            self.columns = columns.collect::<Result<_, _>>().map_err(damaged)?;
        }
        let rows = self.left.min(BLOCK_ROWS);
        let decoded = self.columns.iter_mut().zip(&self.kinds);
        self.block =
            decoded.map(|(column, kind)| decode(column, *kind, rows)).collect::<Result<_, _>>()?;
        self.left -= rows;
        self.rows = rows;
        Ok(true)
    }
}

fn decode(column: &mut ColumnReader, kind: ParquetKind, rows: usize) -> Result<Stored, DataError> {
    let exact = |value: Option<f64>| {
        value.ok_or_else(|| error("an integer beyond 2^53 is not exact in f64"))
    };
    let numbers = match column {
        ColumnReader::BoolColumnReader(column) => {
            values(column, rows, |value| Ok(f64::from(u8::from(*value))))?
        }
        ColumnReader::Int32ColumnReader(column) => values(column, rows, |value| {
            Ok(if kind == ParquetKind::Unsigned {
                f64::from(value.cast_unsigned())
            } else {
                f64::from(*value)
            })
        })?,
        ColumnReader::Int64ColumnReader(column) => {
            let scalar = if kind == ParquetKind::Unsigned { Scalar::U64 } else { Scalar::I64 };
            values(column, rows, |value| exact(scalar.value(value.to_le_bytes())))?
        }
        ColumnReader::FloatColumnReader(column) => {
            values(column, rows, |value| Ok(f64::from(*value)))?
        }
        ColumnReader::DoubleColumnReader(column) => values(column, rows, |value| Ok(*value))?,
        ColumnReader::FixedLenByteArrayColumnReader(column) => values(column, rows, |value| {
            let mut bytes = [0; 8];
            let half = value.data().get(..2).ok_or_else(|| error("a half float is cut off"))?;
            bytes[..2].copy_from_slice(half);
            exact(Scalar::F16.value(bytes))
        })?,
        ColumnReader::ByteArrayColumnReader(column) => {
            let text = |value: &parquet::data_type::ByteArray| {
                let text = value.as_utf8().map_err(|_| error("a word is not text"))?;
                Ok(text.to_owned())
            };
            return values(column, rows, text).map(Stored::Texts);
        }
        ColumnReader::Int96ColumnReader(_) => return Err(error("times are not read")),
    };
    Ok(Stored::Numbers(numbers))
}

/// The next rows of a column.
fn values<T: DataType, V>(
    column: &mut ColumnReaderImpl<T>,
    rows: usize,
    convert: impl Fn(&T::T) -> Result<V, DataError>,
) -> Result<Vec<Option<V>>, DataError> {
    let (mut levels, mut found) = (Vec::new(), Vec::new());
    let (records, counted, present) =
        column.read_records(rows, Some(&mut levels), None, &mut found).map_err(damaged)?;
    if records != rows {
        return Err(error("a column ends before its rows do"));
    }
    let mut next = found.iter().take(present);
    // A column that must be there has no levels; another one has level 1 where a value is.
    let is_required = levels.is_empty() && counted == present;
    let mut out = Vec::with_capacity(rows);
    for row in 0..rows {
        let is_there = is_required || levels.get(row).is_some_and(|level| *level > 0);
        let value = if is_there {
            let value = next.next().ok_or_else(|| error("a column ends before its rows do"))?;
            Some(convert(value)?)
        } else {
            None
        };
        out.push(value);
    }
    Ok(out)
}

impl Records for Groups {
    fn advance(&mut self) -> Result<Option<usize>, DataError> {
        self.row += 1;
        if self.row >= self.rows {
            if !guarded(|| self.next_block())? {
                return Ok(None);
            }
            self.row = 0;
        }
        Ok(Some(self.before + self.row + 1))
    }

    fn cell(&self, field: usize) -> Cell<'_> {
        match &self.block[field] {
            Stored::Numbers(numbers) => numbers[self.row].map_or(Cell::Missing, Cell::Number),
            Stored::Texts(texts) => texts[self.row].as_deref().map_or(Cell::Missing, Cell::Text),
        }
    }

    fn place(&self, error: DataError) -> DataError {
        by_row("Parquet", error)
    }
}

#[cfg(test)]
mod tests {
    use crate::Targets;
    use crate::read::{Missing, Options, from_reader, read_all};

    fn read(bytes: &[u8], options: &Options) -> Result<crate::Dataset, String> {
        let source = std::io::Cursor::new(bytes.to_vec());
        let chunks =
            from_reader(source, "x", options).and_then(|mut chunks| read_all(&mut *chunks));
        chunks.map_err(|error| error.to_string())
    }

    /// Files of pyarrow (`tests/golden/make_tables.py`): dictionaries and snappy, plain pages in two groups, pages
    /// of version 2 with zstd.
    #[test]
    fn files_of_others_hold_the_rows_their_writer_saw() {
        let files: [(&str, &[u8]); 3] = [
            ("usual", include_bytes!("../../tests/golden/types.parquet")),
            ("plain", include_bytes!("../../tests/golden/types-plain.parquet")),
            ("v2", include_bytes!("../../tests/golden/types-v2.parquet")),
        ];
        for (name, bytes) in files {
            let options = Options {
                missing: Missing::Zero,
                one_hot: vec!["colour".into()],
                id: Some("name".into()),
                ..Options::default()
            };
            let data = read(bytes, &options).unwrap();
            assert_eq!(data.names.as_ref().unwrap()[7..], ["colour=blue", "colour=red"], "{name}");
            let labels = ["yes", "no", "yes", "no", "yes"].map(String::from);
            assert_eq!(data.targets, Targets::Names(labels.into()));
            assert_eq!(
                data.examples.to_dense().as_dense().unwrap(),
                [
                    -1.0, 200.0, 4e9, 0.5, 0.25, 1.0, 1.0, 0.0, 1.0, //
                    0.0, 1.0, -5.0, -2.5, 0.1, 2.0, 0.0, 1.0, 0.0, //
                    3.0, 2.0, 6.0, 0.0, 0.0, 3.0, 1.0, 0.0, 0.0, //
                    4.0, 3.0, 7.0, 1.0, 1.5, 4.0, 0.0, 0.0, 1.0, //
                    5.0, 4.0, 8.0, 2.0, 2.5, 5.0, 1.0, 1.0, 0.0,
                ],
                "{name}"
            );
            let said = read(bytes, &Options { missing: Missing::Error, ..options }).unwrap_err();
            assert!(said.contains("row 2: column 'i1' is empty"), "{name}: {said}");
        }
        let views = include_bytes!("../../tests/golden/views.parquet");
        crate::read::arrow::views::check("polars", |options| read(views, options));
        let listed = include_bytes!("../../tests/golden/lists.parquet");
        let said = read(listed, &Options::default()).unwrap_err();
        assert_eq!(said, "Parquet: column 'tags.list.element' holds lists, which is not read");
    }
}
