use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// A file under a temporary name beside its target, which [`AtomicFile::commit`] moves into place.
///
/// Until then an existing file stays as it was; dropped without `commit`, nothing is left behind.
/// A target that is not a regular file (a pipe, `/dev/null`) is written directly.
#[derive(Debug)]
pub struct AtomicFile {
    writer: Option<BufWriter<File>>,
    temporary: Option<PathBuf>,
    target: PathBuf,
}

impl AtomicFile {
    /// Starts writing what is to become `target`.
    pub fn create(target: &Path) -> io::Result<Self> {
        let special = fs::metadata(target).is_ok_and(|meta| !meta.is_file());
        if special {
            let file = fs::OpenOptions::new().write(true).open(target)?;
            let writer = Some(BufWriter::new(file));
            return Ok(Self { writer, temporary: None, target: target.to_owned() });
        }
        let name = target.file_name().ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidInput, "the output path names no file")
        })?;
        for attempt in 0..100 {
            let mut hidden = std::ffi::OsString::from(".");
            hidden.push(name);
            hidden.push(format!(".{}-{attempt}.tmp", std::process::id()));
            let temporary = target.with_file_name(hidden);
            match fs::OpenOptions::new().write(true).create_new(true).open(&temporary) {
                Ok(file) => {
                    let writer = Some(BufWriter::with_capacity(1 << 18, file));
                    return Ok(Self {
                        writer,
                        temporary: Some(temporary),
                        target: target.to_owned(),
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "no free temporary name beside the output",
        ))
    }

    /// Syncs the file and moves it into place.
    pub fn commit(mut self) -> io::Result<()> {
        let writer = self.writer.take().expect("the writer is taken by commit alone");
        let file = writer.into_inner().map_err(io::IntoInnerError::into_error)?;
        if let Some(temporary) = &self.temporary {
            file.sync_all()?;
            fs::rename(temporary, &self.target)?;
            self.temporary = None;
        }
        Ok(())
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.as_mut().expect("open until commit").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.as_mut().expect("open until commit").flush()
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if let Some(temporary) = self.temporary.take() {
            drop(self.writer.take());
            let _ = fs::remove_file(temporary);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unfinished_file_leaves_the_old_one_and_nothing_else() {
        let folder = std::env::temp_dir().join(format!("mercer-whole-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let target = folder.join("out.txt");
        fs::write(&target, "old").unwrap();
        {
            let mut file = AtomicFile::create(&target).unwrap();
            file.write_all(b"half").unwrap();
        }
        assert_eq!(fs::read_to_string(&target).unwrap(), "old");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        let mut file = AtomicFile::create(&target).unwrap();
        file.write_all(b"new").unwrap();
        file.commit().unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "new");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn an_unwritable_place_is_an_error() {
        assert!(AtomicFile::create(Path::new("/nonexistent/folder/file")).is_err());
    }
}
