//! Names and types of the columns.

use super::error;
use super::flat::FlatTable;
use crate::DataError;
use crate::read::array::Scalar;

/// Type of a message that holds a schema.
pub(super) const HEADER: u8 = 1;
/// Columns at most: the schema is read into memory.
const MAX_FIELDS: usize = 1 << 22;

/// One column.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) kind: ArrowKind,
    /// The dictionary its numbers point into.
    pub(super) dictionary: Option<i64>,
    /// How the texts of that dictionary are stored.
    pub(super) words: ArrowKind,
}

/// How values are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ArrowKind {
    Number(Scalar),
    Bool,
    /// Offsets of that many bytes into text.
    Text(usize),
    /// Views of 16 bytes: short texts themselves, longer ones as places in further buffers.
    View,
}

impl ArrowKind {
    fn is_words(self) -> bool {
        matches!(self, Self::Text(_) | Self::View)
    }
}

pub(super) fn fields(schema: FlatTable<'_>) -> Result<Vec<Field>, DataError> {
    if schema.short(0)? != 0 {
        return Err(error("big-endian files are not read"));
    }
    let tables = schema.tables(1)?;
    if tables.len() > MAX_FIELDS {
        return Err(error(format!("{} columns are more than are read", tables.len())));
    }
    tables.into_iter().map(field).collect()
}

fn field(table: FlatTable<'_>) -> Result<Field, DataError> {
    let name = table.text(0)?.to_owned();
    let refused = |what: &str| {
        let name: String = name.chars().take(40).collect();
        error(format!("column '{name}' holds {what}, which is not read"))
    };
    let kind = match (table.byte(2)?, table.table(3)?) {
        (2, Some(whole)) => {
            ArrowKind::Number(scalar(whole).map_err(|_| refused("integers of an unknown size"))?)
        }
        (3, Some(float)) => ArrowKind::Number(match float.short(0)? {
            0 => Scalar::F16,
            1 => Scalar::F32,
            2 => Scalar::F64,
            _ => return Err(refused("floats of odd width")),
        }),
        // Bytes are read as texts too; rows that are not UTF-8 are refused.
        (4 | 5, _) => ArrowKind::Text(4),
        (19 | 20, _) => ArrowKind::Text(8),
        (23 | 24, _) => ArrowKind::View,
        (6, _) => ArrowKind::Bool,
        (1, _) => return Err(refused("nothing")),
        (7, _) => return Err(refused("decimals")),
        (8..=11 | 18, _) => return Err(refused("times")),
        (12 | 13 | 16 | 17 | 21 | 25 | 26, _) => return Err(refused("lists")),
        (other, _) => return Err(refused(&format!("values of kind {other}"))),
    };
    let Some(encoding) = table.table(4)? else {
        return Ok(Field { name, kind, dictionary: None, words: kind });
    };
    if !kind.is_words() {
        return Err(refused("a dictionary of something other than texts"));
    }
    let indices = match encoding.table(1)? {
        Some(whole) => scalar(whole).map_err(|_| refused("indices of an unknown size"))?,
        None => Scalar::I32,
    };
    let dictionary = Some(encoding.long(0, 0)?);
    Ok(Field { name, kind: ArrowKind::Number(indices), dictionary, words: kind })
}

fn scalar(whole: FlatTable<'_>) -> Result<Scalar, DataError> {
    Ok(match (whole.int(0)?, whole.byte(1)? != 0) {
        (8, true) => Scalar::I8,
        (8, false) => Scalar::U8,
        (16, true) => Scalar::I16,
        (16, false) => Scalar::U16,
        (32, true) => Scalar::I32,
        (32, false) => Scalar::U32,
        (64, true) => Scalar::I64,
        (64, false) => Scalar::U64,
        _ => return Err(error("an integer of an unknown size")),
    })
}
