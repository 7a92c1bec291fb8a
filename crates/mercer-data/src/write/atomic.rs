//! Files that appear under their name only when they are complete. Names and permissions of the file before that are
//! in `atomic/temporary.rs`.

mod temporary;

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use temporary::Temporary;

/// Who may read a file that did not exist before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    /// Whoever may read any new file of this user (0666 without the umask).
    Usual,
    /// The owner alone (0600 without the umask).
    Owner,
}

/// A file under a temporary name beside its target, which [`AtomicFile::commit`] renames to the target.
///
/// Until then an existing file stays as it is. Dropped without `commit`, the temporary file is removed; what a killed
/// process left behind is removed when the same target is written again. A file that is replaced keeps its
/// permissions, a read-only one is not replaced, and a symbolic link stays: the file it names is replaced.
/// A target that is not a regular file (a pipe, `/dev/null`) is written directly.
#[derive(Debug)]
pub struct AtomicFile {
    /// Dropped before `writer`: the file is removed while its lock is held, before another writer may take the name.
    temporary: Option<Temporary>,
    writer: BufWriter<File>,
    target: PathBuf,
}

impl AtomicFile {
    /// Starts to write what will become `target`.
    pub fn create(target: &Path) -> io::Result<Self> {
        Self::with_access(target, Access::Usual)
    }

    /// The same for what holds rows of data, a model: if it is new, only its owner may read it.
    pub fn create_private(target: &Path) -> io::Result<Self> {
        Self::with_access(target, Access::Owner)
    }

    /// Whether [`AtomicFile::create`] would succeed now; an existing file stays, and no other is left behind.
    ///
    /// # Errors
    /// One sentence about the folder, the permissions or the kind of the target.
    pub fn check(target: &Path) -> io::Result<()> {
        match fs::metadata(target) {
            // A pipe without a reader would keep the open call waiting.
            Ok(meta) if !meta.is_file() && !meta.is_dir() => Ok(()),
            _ => Self::create(target).map(drop),
        }
    }

    fn with_access(target: &Path, access: Access) -> io::Result<Self> {
        let target = behind_links(target)?;
        let replaced = match fs::metadata(&target) {
            Ok(meta) if meta.is_dir() => return Err(refused(io::ErrorKind::IsADirectory, FOLDER)),
            Ok(meta) if !meta.is_file() => {
                let file = fs::OpenOptions::new().write(true).open(&target)?;
                return Ok(Self { writer: BufWriter::new(file), temporary: None, target });
            }
            Ok(meta) => {
                refuse_read_only(&target, &meta)?;
                Some(meta)
            }
            Err(_) => {
                check_folder(&target)?;
                None
            }
        };
        let (file, temporary) = Temporary::create(&target, replaced.as_ref(), access)?;
        let writer = BufWriter::with_capacity(1 << 18, file);
        Ok(Self { writer, temporary: Some(temporary), target })
    }

    /// Syncs the file and renames it to its target.
    pub fn commit(self) -> io::Result<()> {
        let Self { writer, temporary, target } = self;
        let file = writer.into_inner().map_err(|failed| reader_left(failed.into_error()))?;
        if let Some(temporary) = temporary {
            file.sync_all()?;
            temporary.rename_to(&target)?;
        }
        Ok(())
    }
}

const FOLDER: &str = "this is a folder; give the name of a file";

fn refused(kind: io::ErrorKind, text: impl Into<String>) -> io::Error {
    io::Error::new(kind, text.into())
}

/// Whether the folder of a new file exists.
fn check_folder(target: &Path) -> io::Result<()> {
    if target.to_string_lossy().ends_with(std::path::is_separator) {
        return Err(refused(io::ErrorKind::IsADirectory, FOLDER));
    }
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
    match folder.map(|folder| (folder, fs::metadata(folder))) {
        None => Ok(()),
        Some((_, Ok(meta))) if meta.is_dir() => Ok(()),
        Some((folder, Ok(_))) => {
            let text = format!("'{}' is not a folder", folder.display());
            Err(refused(io::ErrorKind::NotADirectory, text))
        }
        Some((folder, Err(error))) if error.kind() == io::ErrorKind::NotFound => {
            let text = format!("there is no folder '{}'; make it first", folder.display());
            Err(refused(io::ErrorKind::NotFound, text))
        }
        Some((_, Err(error))) => Err(error),
    }
}

/// Where a chain of symbolic links ends, whether a file is there or not.
fn behind_links(target: &Path) -> io::Result<PathBuf> {
    let mut path = target.to_owned();
    // Linux gives up after as many.
    for _ in 0..40 {
        let Ok(next) = fs::read_link(&path) else { return Ok(path) };
        path = path.parent().unwrap_or(Path::new("")).join(next);
    }
    Err(io::Error::other("too many symbolic links"))
}

/// A rename does not ask whether the file it replaces may be written.
fn refuse_read_only(target: &Path, meta: &fs::Metadata) -> io::Result<()> {
    if meta.permissions().readonly() {
        let text = "the file is read-only and is not replaced";
        return Err(refused(io::ErrorKind::PermissionDenied, text));
    }
    fs::OpenOptions::new().write(true).open(target).map(drop)
}

/// A closed pipe is the end of standard output, but the loss of a result where a file was named.
fn reader_left(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::BrokenPipe => {
            io::Error::other("the reader of the pipe left before everything was written")
        }
        _ => error,
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes).map_err(reader_left)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush().map_err(reader_left)
    }
}

#[cfg(test)]
mod tests;
