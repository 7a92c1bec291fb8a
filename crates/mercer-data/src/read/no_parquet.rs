//! Stands for Parquet in programs built without it: files are still recognised, and refused by name.

use super::ReadFormat;
use crate::DataError;

pub(super) static FORMAT: ReadFormat = ReadFormat {
    name: "parquet",
    summary: "Parquet table; left out of this program (cargo feature `parquet`)",
    endings: &["parquet", "pq"],
    recognise: |head| head.starts_with(b"PAR1"),
    open: |_, _| Err(DataError::NotBuiltIn { what: "Parquet" }),
};

#[cfg(test)]
mod tests {
    use crate::read::{Options, from_reader};

    #[test]
    fn files_are_recognised_and_refused_by_name() {
        for (name, bytes) in [("x", &b"PAR1 and more"[..]), ("x.parquet", b"anything")] {
            let said = from_reader(std::io::Cursor::new(bytes), name, &Options::default());
            let said = said.map(|_| ()).unwrap_err().to_string();
            assert_eq!(
                said,
                "this program was built without Parquet; the cargo features parquet, xz and zstd add readers"
            );
        }
    }
}
