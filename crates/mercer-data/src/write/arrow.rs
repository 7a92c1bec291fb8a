//! Writes Arrow IPC files (Feather 2): columns of f64, texts where labels or ids are texts; not compressed.

use std::io::Write;
use std::ops::Range;

use super::{WriteFormat, check_dense, header};
use crate::read::{ARROW_CONTINUATION, ARROW_MAGIC};
use crate::{DataError, Dataset, Targets};
use flat::Flat;

mod flat;

pub(super) static FORMAT: WriteFormat = WriteFormat {
    name: "arrow",
    summary: "Arrow IPC file (Feather 2) of 64-bit floats; ids first, the label last",
    endings: &["arrow", "feather", "ipc"],
    labels_apart: false,
    write,
};

/// Values of a batch, about.
const BATCH_VALUES: usize = 1 << 20;
/// Version 5 of the metadata.
const VERSION: i16 = 4;
const SCHEMA: u8 = 1;
const RECORDS: u8 = 3;

/// A column as a batch stores it.
enum OutputColumn<'a> {
    /// A feature.
    Feature(usize),
    Numbers(&'a [f64]),
    Words(&'a [String]),
}

/// Position of a message, as the footer stores it.
struct Place {
    offset: u64,
    description: usize,
    body: usize,
}

fn write(data: &Dataset, ids: Option<&[String]>, out: &mut dyn Write) -> Result<(), DataError> {
    check_dense("Arrow", data)?;
    let ids_column = ids.map(OutputColumn::Words).into_iter();
    let features = (0..data.examples.columns()).map(OutputColumn::Feature);
    let label = match &data.targets {
        Targets::Absent => None,
        Targets::Numbers(numbers) => Some(OutputColumn::Numbers(numbers)),
        Targets::Names(names) => Some(OutputColumn::Words(names)),
    };
    let columns: Vec<OutputColumn<'_>> = ids_column.chain(features).chain(label).collect();
    let names = header(data, ids.is_some());
    out.write_all(ARROW_MAGIC)?;
    out.write_all(&[0, 0])?;
    let mut at = 8;
    message(SCHEMA, schema(&names, &columns), &[], &mut at, out)?;
    let rows = data.examples.rows();
    let step = BATCH_VALUES.div_ceil(columns.len().max(1)).max(1);
    let mut places = Vec::new();
    for start in (0..rows).step_by(step) {
        let range = start..rows.min(start + step);
        let (batch, body) = batch(data, &columns, range)?;
        places.push(message(RECORDS, batch, &body, &mut at, out)?);
    }
    out.write_all(&ARROW_CONTINUATION)?;
    out.write_all(&[0; 4])?;
    let blocks = places.iter().flat_map(|place| {
        let place = [place.offset, place.description as u64, place.body as u64];
        place.map(u64::to_le_bytes).concat()
    });
    let footer = Flat::Table(vec![
        (0, Flat::Short(VERSION)),
        (1, schema(&names, &columns)),
        (3, Flat::Structs { count: places.len(), bytes: blocks.collect() }),
    ]);
    let footer = footer.finish();
    out.write_all(&footer)?;
    out.write_all(&(footer.len() as u32).to_le_bytes())?;
    out.write_all(ARROW_MAGIC)?;
    Ok(())
}

fn schema(names: &[String], columns: &[OutputColumn<'_>]) -> Flat {
    let field = |(name, column): (&String, &OutputColumn<'_>)| {
        let (kind, parameters) = match column {
            // FloatingPoint of double precision.
            OutputColumn::Feature(_) | OutputColumn::Numbers(_) => (3, vec![(0, Flat::Short(2))]),
            OutputColumn::Words(_) => (5, vec![]),
        };
        Flat::Table(vec![
            (0, Flat::Text(name.clone())),
            (1, Flat::Byte(1)),
            (2, Flat::Byte(kind)),
            (3, Flat::Table(parameters)),
            (5, Flat::Tables(vec![])),
        ])
    };
    Flat::Table(vec![(1, Flat::Tables(names.iter().zip(columns).map(field).collect()))])
}

/// Writes one message and returns its position.
fn message(
    kind: u8,
    contents: Flat,
    body: &[u8],
    at: &mut u64,
    out: &mut dyn Write,
) -> Result<Place, DataError> {
    let message = Flat::Table(vec![
        (0, Flat::Short(VERSION)),
        (1, Flat::Byte(kind)),
        (2, contents),
        (3, Flat::Long(body.len() as i64)),
    ]);
    let description = message.finish();
    out.write_all(&ARROW_CONTINUATION)?;
    out.write_all(&(description.len() as u32).to_le_bytes())?;
    out.write_all(&description)?;
    out.write_all(body)?;
    let place = Place { offset: *at, description: 8 + description.len(), body: body.len() };
    *at += (place.description + place.body) as u64;
    Ok(place)
}

/// A batch of rows and its buffers, each padded to eight bytes.
fn batch(
    data: &Dataset,
    columns: &[OutputColumn<'_>],
    rows: Range<usize>,
) -> Result<(Flat, Vec<u8>), DataError> {
    let count = rows.len() as i64;
    let (mut body, mut buffers) = (Vec::new(), Vec::new());
    let mut push = |bytes: &mut dyn Iterator<Item = u8>| {
        let start = body.len();
        body.extend(bytes);
        buffers.push([start as i64, (body.len() - start) as i64]);
        body.resize(body.len().next_multiple_of(8), 0);
    };
    for column in columns {
        push(&mut std::iter::empty());
        match column {
            OutputColumn::Feature(column) => {
                let values = rows.clone().map(|row| data.examples.row(row).get(*column));
                push(&mut values.flat_map(f64::to_le_bytes));
            }
            OutputColumn::Numbers(numbers) => {
                push(&mut numbers[rows.clone()].iter().flat_map(|number| number.to_le_bytes()));
            }
            OutputColumn::Words(words) => {
                let words = &words[rows.clone()];
                let mut offsets = vec![0i32];
                for word in words {
                    let end = i32::try_from(word.len()).ok();
                    let end = end.and_then(|length| offsets[offsets.len() - 1].checked_add(length));
                    let long = || super::inexpressible("Arrow", "2 GiB of text in one batch");
                    offsets.push(end.ok_or_else(long)?);
                }
                push(&mut offsets.iter().flat_map(|offset| offset.to_le_bytes()));
                push(&mut words.iter().flat_map(|word| word.bytes()));
            }
        }
    }
    let pairs = |pairs: &[[i64; 2]]| Flat::Structs {
        count: pairs.len(),
        bytes: pairs.iter().flatten().flat_map(|number| number.to_le_bytes()).collect(),
    };
    let nodes = vec![[count, 0]; columns.len()];
    let table = vec![(0, Flat::Long(count)), (1, pairs(&nodes)), (2, pairs(&buffers))];
    Ok((Flat::Table(table), body))
}
