//! Just enough of flatbuffers to read: tables whose fields are found by number, every offset checked.

use super::error;
use crate::DataError;

/// A table inside a description.
#[derive(Debug, Clone, Copy)]
pub(super) struct FlatTable<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Position and length in bytes of the list of its fields.
    fields: usize,
    size: usize,
}

fn cut_off() -> DataError {
    error("a description is cut off")
}

fn take<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], DataError> {
    let end = at.checked_add(N).ok_or_else(cut_off)?;
    bytes.get(at..end).and_then(|part| part.try_into().ok()).ok_or_else(cut_off)
}

/// What the offset at `at` points to.
fn follow(bytes: &[u8], at: usize) -> Result<usize, DataError> {
    let offset = u32::from_le_bytes(take(bytes, at)?) as usize;
    at.checked_add(offset).filter(|to| *to < bytes.len()).ok_or_else(cut_off)
}

impl<'a> FlatTable<'a> {
    pub(super) fn root(bytes: &'a [u8]) -> Result<Self, DataError> {
        Self::new(bytes, follow(bytes, 0)?)
    }

    fn new(bytes: &'a [u8], at: usize) -> Result<Self, DataError> {
        let back = i64::from(i32::from_le_bytes(take(bytes, at)?));
        let fields = usize::try_from(at as i64 - back).map_err(|_| cut_off())?;
        let size = usize::from(u16::from_le_bytes(take(bytes, fields)?));
        Ok(Self { bytes, at, fields, size })
    }

    /// Position of a field; `None` if it is absent.
    fn place(&self, field: usize) -> Result<Option<usize>, DataError> {
        let at = 4 + 2 * field;
        if at + 2 > self.size {
            return Ok(None);
        }
        let offset = usize::from(u16::from_le_bytes(take(self.bytes, self.fields + at)?));
        Ok((offset > 0).then_some(self.at + offset))
    }

    pub(super) fn byte(&self, field: usize) -> Result<u8, DataError> {
        let place = self.place(field)?;
        place.map_or(Ok(0), |at| take::<1>(self.bytes, at).map(|[byte]| byte))
    }

    pub(super) fn short(&self, field: usize) -> Result<i16, DataError> {
        self.place(field)?.map_or(Ok(0), |at| take(self.bytes, at).map(i16::from_le_bytes))
    }

    pub(super) fn int(&self, field: usize) -> Result<i32, DataError> {
        self.place(field)?.map_or(Ok(0), |at| take(self.bytes, at).map(i32::from_le_bytes))
    }

    pub(super) fn long(&self, field: usize, default: i64) -> Result<i64, DataError> {
        self.place(field)?.map_or(Ok(default), |at| take(self.bytes, at).map(i64::from_le_bytes))
    }

    pub(super) fn table(&self, field: usize) -> Result<Option<FlatTable<'a>>, DataError> {
        let place = self.place(field)?;
        place.map(|at| Self::new(self.bytes, follow(self.bytes, at)?)).transpose()
    }

    /// Elements of a list: position of the first and their number, each of `size` bytes.
    fn list(&self, field: usize, size: usize) -> Result<(usize, usize), DataError> {
        let Some(at) = self.place(field)? else { return Ok((0, 0)) };
        let at = follow(self.bytes, at)?;
        let count = u32::from_le_bytes(take(self.bytes, at)?) as usize;
        let end = count.checked_mul(size).and_then(|bytes| bytes.checked_add(at + 4));
        if end.is_none_or(|end| end > self.bytes.len()) {
            return Err(cut_off());
        }
        Ok((at + 4, count))
    }

    pub(super) fn tables(&self, field: usize) -> Result<Vec<FlatTable<'a>>, DataError> {
        let (start, count) = self.list(field, 4)?;
        let one = |at: usize| Self::new(self.bytes, follow(self.bytes, start + 4 * at)?);
        (0..count).map(one).collect()
    }

    /// 64-bit numbers.
    pub(super) fn longs(&self, field: usize) -> Result<Vec<i64>, DataError> {
        let (start, count) = self.list(field, 8)?;
        (0..count).map(|at| take(self.bytes, start + 8 * at).map(i64::from_le_bytes)).collect()
    }

    /// Positions of messages in a file: offset, length of the description, length of the body.
    pub(super) fn blocks(&self, field: usize) -> Result<Vec<(i64, i32, i64)>, DataError> {
        let (start, count) = self.list(field, 24)?;
        let one = |at: usize| {
            let offset = i64::from_le_bytes(take(self.bytes, start + 24 * at)?);
            let description = i32::from_le_bytes(take(self.bytes, start + 24 * at + 8)?);
            let body = i64::from_le_bytes(take(self.bytes, start + 24 * at + 16)?);
            Ok((offset, description, body))
        };
        (0..count).map(one).collect()
    }

    /// Pairs of 64-bit numbers.
    pub(super) fn pairs(&self, field: usize) -> Result<Vec<(i64, i64)>, DataError> {
        let (start, count) = self.list(field, 16)?;
        let one = |at: usize| {
            let first = i64::from_le_bytes(take(self.bytes, start + 16 * at)?);
            let second = i64::from_le_bytes(take(self.bytes, start + 16 * at + 8)?);
            Ok((first, second))
        };
        (0..count).map(one).collect()
    }

    pub(super) fn text(&self, field: usize) -> Result<&'a str, DataError> {
        let (start, count) = self.list(field, 1)?;
        let bytes = self.bytes.get(start..start + count).ok_or_else(cut_off)?;
        std::str::from_utf8(bytes).map_err(|_| error("a name is not text"))
    }
}
