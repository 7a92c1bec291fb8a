//! Files whose messages are not in order (written by polars): the footer has their positions.

use std::io::{Cursor, Read};

use super::flat::FlatTable;
use super::schema::{self, Field};
use super::{MAGIC, error};
use crate::DataError;
use crate::read::Source;

/// The columns of a file, and its messages as a stream: dictionaries first, then batches of rows.
///
/// The file is held in memory; `start` are its first bytes, which were read already.
pub(super) fn stream(start: &[u8], mut source: Source) -> Result<(Vec<Field>, Source), DataError> {
    let mut all = start.to_vec();
    source.read_to_end(&mut all)?;
    let cut_off = || error("the file is cut off");
    let rest = all.strip_suffix(MAGIC).ok_or_else(cut_off)?;
    let (rest, length) = rest.split_last_chunk::<4>().ok_or_else(cut_off)?;
    let length = usize::try_from(i32::from_le_bytes(*length)).map_err(|_| cut_off())?;
    let at = rest.len().checked_sub(length).ok_or_else(cut_off)?;
    let (body, footer) = rest.split_at(at);
    let footer = FlatTable::root(footer)?;
    let header = footer.table(1)?.ok_or_else(|| error("there is no schema"))?;
    let fields = schema::fields(header)?;
    let mut messages = Vec::new();
    for (offset, description, length) in footer.blocks(2)?.into_iter().chain(footer.blocks(3)?) {
        let outside = || error("a message lies outside its file");
        let size = i64::from(description).checked_add(length).ok_or_else(outside)?;
        let start = usize::try_from(offset).map_err(|_| outside())?;
        let size = usize::try_from(size).map_err(|_| outside())?;
        let end = start.checked_add(size).ok_or_else(outside)?;
        let message = body.get(start..end).ok_or_else(outside)?;
        // Messages that share bytes could be many times the file.
        if messages.len() + message.len() > body.len() {
            return Err(error("messages overlap"));
        }
        messages.extend_from_slice(message);
    }
    Ok((fields, Box::new(Cursor::new(messages))))
}
