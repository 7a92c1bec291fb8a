//! Our own model file: safetensors layout, byte by byte in `docs/format.md`.

mod header;
mod read;
mod write;

use super::Format;
pub(super) use write::machine_digest as digest;

pub(super) static FORMAT: Format = Format {
    name: "mercer",
    summary: "our own file: loss-free, carries all that belongs to the model",
    recognise: |bytes| {
        // Eight bytes of header length, then JSON that names us among its first keys.
        bytes.len() > 16 && bytes[8] == b'{' && {
            let head = &bytes[8..bytes.len().min(8 + 4096)];
            head.windows(MARK.len()).any(|window| window == MARK)
        }
    },
    read: read::read,
    write: write::write,
};

/// What the header of every file of ours holds.
const MARK: &[u8] = b"\"mercer\":";
/// Key of our JSON in the header's metadata.
const KEY: &str = "mercer";
/// Newest format this version reads; it writes the lowest that says everything.
const FORMAT_NUMBER: u64 = 5;

#[cfg(test)]
mod tests;
