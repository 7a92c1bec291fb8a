//! Compressed files (gzip, bzip2, xz, zstd) are decompressed while they are read, up to a size limit.

use std::io::{self, BufReader, Cursor, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::options::{MAX_RATIO, UnpackLimits};
use super::{Options, Source};
use crate::DataError;

/// Bytes from which the format of a file is recognised.
pub(super) const HEAD: usize = 16;
/// Largest working memory of xz: what `xz -9` needs.
const XZ_MEMORY: usize = 66 << 20;
/// Largest window of zstd, as a power of two: 64 MiB.
const ZSTD_WINDOW: u32 = 26;

/// A compression.
struct Codec {
    name: &'static str,
    ending: &'static str,
    magic: &'static [u8],
    /// Bytes that unpacking needs beside what it returns, at most.
    memory: usize,
    open: fn(BufReader<Source>) -> Result<Source, DataError>,
}

static CODECS: [Codec; 4] = [
    Codec {
        name: "gzip",
        ending: ".gz",
        magic: &[0x1f, 0x8b],
        memory: 64 << 10,
        open: |raw| Ok(Box::new(flate2::bufread::MultiGzDecoder::new(raw))),
    },
    Codec {
        name: "bzip2",
        ending: ".bz2",
        magic: b"BZh",
        // 900 kB in the largest blocks, of which it holds four bytes each and the output.
        memory: 5 << 20,
        open: |raw| Ok(Box::new(bzip2::bufread::MultiBzDecoder::new(raw))),
    },
    Codec {
        name: "xz",
        ending: ".xz",
        magic: &[0xfd, b'7', b'z', b'X', b'Z', 0],
        memory: XZ_MEMORY,
        open: open_xz,
    },
    Codec {
        name: "zstd",
        ending: ".zst",
        magic: &[0x28, 0xb5, 0x2f, 0xfd],
        // The window, and a block before and behind it.
        memory: (1 << ZSTD_WINDOW) + (1 << 20),
        open: open_zstd,
    },
];

#[cfg(feature = "xz")]
fn open_xz(raw: BufReader<Source>) -> Result<Source, DataError> {
    use liblzma::stream::{CONCATENATED, Stream};
    let stream =
        Stream::new_stream_decoder(XZ_MEMORY as u64, CONCATENATED).map_err(io::Error::from)?;
    Ok(Box::new(liblzma::bufread::XzDecoder::new_stream(raw, stream)))
}

#[cfg(not(feature = "xz"))]
fn open_xz(_: BufReader<Source>) -> Result<Source, DataError> {
    Err(DataError::NotBuiltIn { what: "xz" })
}

#[cfg(feature = "zstd")]
fn open_zstd(raw: BufReader<Source>) -> Result<Source, DataError> {
    let mut decoder = zstd::stream::read::Decoder::with_buffer(raw)?;
    decoder.window_log_max(ZSTD_WINDOW)?;
    Ok(Box::new(decoder))
}

#[cfg(not(feature = "zstd"))]
fn open_zstd(_: BufReader<Source>) -> Result<Source, DataError> {
    Err(DataError::NotBuiltIn { what: "zstd" })
}

/// Bytes as they were before they were compressed.
pub struct Unpacked {
    /// The bytes, unpacked while they are read.
    pub source: Source,
    /// The name that was given, without the ending of the compression.
    pub name: String,
    /// Bytes that unpacking needs beside what it returns, at most.
    pub memory: usize,
}

impl std::fmt::Debug for Unpacked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, memory, .. } = self;
        f.debug_struct("Unpacked")
            .field("name", name)
            .field("memory", memory)
            .finish_non_exhaustive()
    }
}

/// Unpacks bytes that may be compressed, within the limits of the options.
///
/// # Errors
/// If the name says that they are, and they are not, or the compression is not built in.
pub fn unpacked(
    raw: impl Read + Send + 'static,
    name: &str,
    options: &Options,
) -> Result<Unpacked, DataError> {
    let (head, raw) = peek(Box::new(raw))?;
    let named = CODECS.iter().find(|codec| name.ends_with(codec.ending));
    let Some(codec) = CODECS.iter().find(|codec| is_packed(codec, &head)) else {
        return match named {
            Some(codec) => Err(DataError::NotPacked { codec: codec.name }),
            None => Ok(Unpacked { source: raw, name: name.to_owned(), memory: 0 }),
        };
    };
    let packed = Arc::new(AtomicU64::new(0));
    let raw: Source = Box::new(Counted { source: raw, count: Arc::clone(&packed) });
    let source = (codec.open)(BufReader::with_capacity(1 << 16, raw))?;
    let name = CODECS.iter().find_map(|codec| name.strip_suffix(codec.ending)).unwrap_or(name);
    let (limits, unpacked, codec_name) = (options.unpack_limits(), 0, codec.name);
    let limited = Limited { source, codec: codec_name, unpacked, packed, limits };
    Ok(Unpacked { source: Box::new(limited), name: name.to_owned(), memory: codec.memory })
}

fn is_packed(codec: &Codec, head: &[u8]) -> bool {
    // "BZh" could begin a text; the level and the mark of a first block could not.
    let first_block = |rest: &[u8]| rest[1..].starts_with(&[0x31, 0x41, 0x59, 0x26]);
    let no_block = |rest: &[u8]| rest[1..].starts_with(&[0x17, 0x72, 0x45, 0x38]);
    match head.strip_prefix(codec.magic) {
        Some(rest) if codec.name == "bzip2" => {
            rest.len() > 1 && (first_block(rest) || no_block(rest))
        }
        found => found.is_some(),
    }
}

/// The first bytes of a source, and the source from its start.
pub(super) fn peek(mut source: Source) -> Result<(Vec<u8>, Source), DataError> {
    let (mut head, mut count) = (vec![0; HEAD], 0);
    // Who sends a short line may wait for its answer before sending more.
    while count < HEAD && !is_line(&head[..count]) {
        match source.read(&mut head[count..]) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
            Ok(0) => break,
            Ok(read) => count += read,
        }
    }
    head.truncate(count);
    let from_start: Source = Box::new(Cursor::new(head.clone()).chain(source));
    Ok((head, from_start))
}

/// Whether these bytes are text with the end of a line: no format of other bytes begins so.
fn is_line(head: &[u8]) -> bool {
    let is_text = |byte: &u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace();
    head.contains(&b'\n') && head.iter().all(is_text)
}

/// Passes bytes on and counts them.
struct Counted {
    source: Source,
    count: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer)?;
        self.count.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// The sentence about data that grow beyond any usual ratio.
pub(super) fn too_much() -> String {
    format!(
        "the file unpacks to more than {MAX_RATIO} times its size; a limit in bytes (--max-unpacked) accepts that"
    )
}

/// Passes bytes on up to the limit.
struct Limited {
    source: Source,
    codec: &'static str,
    unpacked: u64,
    packed: Arc<AtomicU64>,
    limits: UnpackLimits,
}

impl Read for Limited {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer).map_err(|error| {
            let reason = format!("the {} data are damaged: {error}", self.codec);
            io::Error::new(error.kind(), reason)
        })?;
        self.unpacked += read as u64;
        let refuse = |reason: String| Err(io::Error::new(io::ErrorKind::FileTooLarge, reason));
        if self.unpacked > self.limits.bytes {
            return refuse(format!("the file unpacks to more than {} bytes", self.limits.bytes));
        }
        if self.unpacked > self.limits.of(self.packed.load(Ordering::Relaxed)) {
            return refuse(too_much());
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const TEXT: &[u8] = b"1 1:1\n-1 2:1\n";

    fn packed() -> Vec<(&'static str, Vec<u8>)> {
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gz.write_all(TEXT).unwrap();
        let mut bz2 = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::best());
        bz2.write_all(TEXT).unwrap();
        let plain = [("x.svm.gz", gz.finish().unwrap()), ("x.svm.bz2", bz2.finish().unwrap())];
        plain.into_iter().chain(xz()).chain(zst()).collect()
    }

    fn xz() -> Option<(&'static str, Vec<u8>)> {
        #[cfg(feature = "xz")]
        {
            let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 6);
            xz.write_all(TEXT).unwrap();
            Some(("x.svm.xz", xz.finish().unwrap()))
        }
        #[cfg(not(feature = "xz"))]
        None
    }

    fn zst() -> Option<(&'static str, Vec<u8>)> {
        #[cfg(feature = "zstd")]
        return Some(("x.svm.zst", zstd::encode_all(TEXT, 3).unwrap()));
        #[cfg(not(feature = "zstd"))]
        None
    }

    fn read(bytes: Vec<u8>, name: &str, limit: u64) -> Result<Vec<u8>, String> {
        let options = Options { unpacked_limit: limit, ..Options::default() };
        let found = unpacked(Cursor::new(bytes), name, &options);
        let Unpacked { mut source, name, .. } = found.map_err(|error| error.to_string())?;
        assert_eq!(name, "x.svm");
        let mut out = Vec::new();
        source.read_to_end(&mut out).map_err(|error| error.to_string())?;
        Ok(out)
    }

    #[test]
    fn compressed_files_are_recognised_by_their_first_bytes() {
        for (name, bytes) in packed() {
            assert_eq!(read(bytes.clone(), name, 1 << 20).unwrap(), TEXT, "{name}");
            assert_eq!(read(bytes, "x.svm", 1 << 20).unwrap(), TEXT, "{name}");
        }
    }

    #[test]
    fn concatenated_compressed_files_are_one_file() {
        for (name, bytes) in packed() {
            let twice = [bytes.clone(), bytes].concat();
            assert_eq!(read(twice, name, 1 << 20).unwrap(), TEXT.repeat(2), "{name}");
        }
    }

    #[test]
    fn a_file_that_grows_beyond_any_usual_ratio_is_refused_unless_that_is_accepted() {
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        gz.write_all(&vec![b' '; 20 << 20]).unwrap();
        let bytes = gz.finish().unwrap();
        let read = |options: &Options| {
            let mut found = unpacked(Cursor::new(bytes.clone()), "x", options).unwrap();
            io::copy(&mut found.source, &mut io::sink()).map_err(|error| error.to_string())
        };
        let said = read(&Options::default()).unwrap_err();
        assert!(said.starts_with("the file unpacks to more than 400 times its size"), "{said}");
        let accepted = Options { unpacked_any_ratio: true, ..Options::default() };
        assert_eq!(read(&accepted), Ok(20 << 20));
    }

    #[test]
    fn limits_damage_and_wrong_names_are_reported() {
        for (name, bytes) in packed() {
            let said = read(bytes.clone(), name, 12).unwrap_err();
            assert_eq!(said, "the file unpacks to more than 12 bytes", "{name}");
            let said = read(bytes[..bytes.len() - 3].to_vec(), name, 100).unwrap_err();
            assert!(said.contains("data are damaged"), "{name}: {said}");
            let said = read(TEXT.to_vec(), name, 100).unwrap_err();
            assert!(said.contains("but the contents are not compressed with"), "{name}: {said}");
        }
    }
}
