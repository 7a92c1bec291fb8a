//! Writes Parquet files: columns of f64, texts where labels or ids are texts; compressed with Snappy.

use std::io::Write;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;

use super::{WriteFormat, check_dense, header};
use crate::{DataError, Dataset, Targets};

pub(super) static FORMAT: WriteFormat = WriteFormat {
    name: "parquet",
    summary: "Parquet table of 64-bit floats; ids first, the label last",
    endings: &["parquet", "pq"],
    labels_apart: false,
    write,
};

/// Values of a group of rows, about.
const GROUP_VALUES: usize = 1 << 22;

fn failed(error: ParquetError) -> DataError {
    DataError::Io(std::io::Error::other(error))
}

fn write(data: &Dataset, ids: Option<&[String]>, out: &mut dyn Write) -> Result<(), DataError> {
    check_dense("Parquet", data)?;
    let names = header(data, ids.is_some());
    let has_words = |at: usize| {
        let is_id = ids.is_some() && at == 0;
        is_id || at + 1 == names.len() && matches!(data.targets, Targets::Names(_))
    };
    let mut fields = Vec::new();
    for (at, name) in names.iter().enumerate() {
        let kind = if has_words(at) { Physical::BYTE_ARRAY } else { Physical::DOUBLE };
        let meaning = has_words(at).then_some(LogicalType::String);
        let field = Type::primitive_type_builder(name, kind)
            .with_repetition(Repetition::REQUIRED)
            .with_logical_type(meaning);
        fields.push(Arc::new(field.build().map_err(failed)?));
    }
    let schema = Type::group_type_builder("rows").with_fields(fields).build().map_err(failed)?;
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    // The writer needs ownership of its output.
    let mut bytes = Vec::new();
    let writer = SerializedFileWriter::new(&mut bytes, Arc::new(schema), Arc::new(properties));
    let mut writer = writer.map_err(failed)?;
    let rows = data.examples.rows();
    let step = GROUP_VALUES.div_ceil(names.len().max(1)).max(1);
    for start in (0..rows).step_by(step) {
        let range = start..rows.min(start + step);
        let mut group = writer.next_row_group().map_err(failed)?;
        if let Some(ids) = ids {
            words(&mut group, &ids[range.clone()])?;
        }
        for column in 0..data.examples.columns() {
            let values: Vec<f64> =
                range.clone().map(|row| data.examples.row(row).get(column)).collect();
            numbers(&mut group, &values)?;
        }
        match &data.targets {
            Targets::Absent => {}
            Targets::Numbers(targets) => numbers(&mut group, &targets[range])?,
            Targets::Names(targets) => words(&mut group, &targets[range])?,
        }
        group.close().map_err(failed)?;
    }
    writer.close().map_err(failed)?;
    out.write_all(&bytes)?;
    Ok(())
}

fn numbers<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &[f64],
) -> Result<(), DataError> {
    if let Some(mut column) = group.next_column().map_err(failed)? {
        column.typed::<DoubleType>().write_batch(values, None, None).map_err(failed)?;
        column.close().map_err(failed)?;
    }
    Ok(())
}

fn words<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    words: &[String],
) -> Result<(), DataError> {
    if let Some(mut column) = group.next_column().map_err(failed)? {
        let words: Vec<ByteArray> = words.iter().map(|word| word.as_str().into()).collect();
        column.typed::<ByteArrayType>().write_batch(&words, None, None).map_err(failed)?;
        column.close().map_err(failed)?;
    }
    Ok(())
}
