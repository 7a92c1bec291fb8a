//! Files that appear under their name only when they are complete.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use tempfile::TempPath;

/// A file under a temporary name beside its target, which [`AtomicFile::commit`] renames to the target.
///
/// Until then an existing file stays as it is. Dropped without `commit`, the temporary file is removed.
/// A target that is not a regular file (a pipe, `/dev/null`) is written directly.
#[derive(Debug)]
pub struct AtomicFile {
    /// Dropped before `temporary`, so that the file is closed when it is removed.
    writer: BufWriter<File>,
    temporary: Option<TempPath>,
    target: PathBuf,
}

impl AtomicFile {
    /// Starts to write what will become `target`.
    pub fn create(target: &Path) -> io::Result<Self> {
        let is_special = fs::metadata(target).is_ok_and(|meta| !meta.is_file());
        if is_special {
            let file = fs::OpenOptions::new().write(true).open(target)?;
            let (writer, temporary) = (BufWriter::new(file), None);
            return Ok(Self { writer, temporary, target: target.to_owned() });
        }
        let name = target.file_name().ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidInput, "the output path names no file")
        })?;
        let mut prefix = std::ffi::OsString::from(".");
        prefix.push(name);
        prefix.push(".");
        // Opened here and not by tempfile: it gets the permissions of any new file, and errors do not name the
        // temporary file.
        let open = |path: &Path| fs::OpenOptions::new().write(true).create_new(true).open(path);
        let folder = target.parent().unwrap_or(Path::new(""));
        let mut builder = tempfile::Builder::new();
        let (file, temporary) =
            builder.prefix(&prefix).suffix(".tmp").make_in(folder, open)?.into_parts();
        let writer = BufWriter::with_capacity(1 << 18, file);
        Ok(Self { writer, temporary: Some(temporary), target: target.to_owned() })
    }

    /// Syncs the file and renames it to its target.
    pub fn commit(self) -> io::Result<()> {
        let Self { writer, temporary, target } = self;
        let file = writer.into_inner().map_err(io::IntoInnerError::into_error)?;
        if let Some(temporary) = temporary {
            file.sync_all()?;
            temporary.persist(target).map_err(|failed| failed.error)?;
        }
        Ok(())
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unfinished_file_leaves_the_old_one_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("out.txt");
        fs::write(&target, "old").unwrap();
        {
            let mut file = AtomicFile::create(&target).unwrap();
            file.write_all(b"half").unwrap();
        }
        assert_eq!(fs::read_to_string(&target).unwrap(), "old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        let mut file = AtomicFile::create(&target).unwrap();
        file.write_all(b"new").unwrap();
        file.commit().unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn an_unwritable_place_is_an_error() {
        let error = AtomicFile::create(Path::new("/nonexistent/folder/file")).unwrap_err();
        assert_eq!(error.to_string(), "No such file or directory (os error 2)");
    }

    #[cfg(unix)]
    #[test]
    fn permissions_are_those_of_any_new_file() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
        let (plain, atomic) = (folder.path().join("plain"), folder.path().join("atomic"));
        File::create(&plain).unwrap();
        AtomicFile::create(&atomic).unwrap().commit().unwrap();
        assert_eq!(mode(&plain), mode(&atomic));
    }
}
