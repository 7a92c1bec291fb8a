//! The model file format of Mercer: safetensors layout, byte by byte in `docs/format.md`.
//! Formats of other programs are the modules beside this one.

mod header;
mod kept_rows;
mod read;
mod write;

use super::Format;
pub(super) use write::{machine_digest as digest, plan_digest, sets_digest};

pub(super) static FORMAT: Format = Format {
    name: "mercer",
    summary: "Mercer's own format: lossless, holds everything that belongs to the model",
    recognise: |bytes| {
        // Eight bytes of header length, then JSON with our key among the first ones.
        bytes.len() > 16 && bytes[8] == b'{' && {
            let head = &bytes[8..bytes.len().min(8 + 4096)];
            head.windows(MARK.len()).any(|window| window == MARK)
        }
    },
    read: read::read,
    write: write::write,
};

/// Text that the header of every file of this format holds.
const MARK: &[u8] = b"\"mercer\":";
/// Key of our JSON in the header's metadata.
const KEY: &str = "mercer";
/// Version of the format that is read and written. Any change of the format increases it.
const VERSION: u64 = 1;

#[cfg(test)]
mod tests;
