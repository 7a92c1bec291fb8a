//! The temporary file beside a target: its name, its lock, its permissions. When it is renamed is decided in
//! `atomic.rs`.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempPath;

use super::Access;

/// Programs that may write one target at the same time.
const WRITERS: usize = 16;

/// A temporary file; removed when dropped.
#[derive(Debug)]
pub(super) struct Temporary(TempPath);

impl Temporary {
    /// Makes the first of the names `.TARGET.0.tmp` to `.TARGET.15.tmp` that no running program uses, and removes
    /// those that a killed one has left: a writer holds a lock, which ends with its process.
    pub(super) fn create(
        target: &Path,
        replaced: Option<&Metadata>,
        access: Access,
    ) -> io::Result<(File, Self)> {
        let name = target.file_name().ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidInput, "the output path names no file")
        })?;
        let names: Vec<PathBuf> = (0..WRITERS)
            .map(|number| {
                let mut own = OsString::from(".");
                own.push(name);
                own.push(format!(".{number}.tmp"));
                target.with_file_name(own)
            })
            .collect();
        names.iter().for_each(|path| remove_abandoned(path));
        for path in &names {
            let file = match open_new(path, replaced, access) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                opened => opened?,
            };
            let temporary = Self(TempPath::try_from_path(path)?);
            // Waits for a program that took the file for abandoned and is about to remove it. Where the file
            // system has no locks, nothing is taken for abandoned.
            let _ = file.lock();
            if !is_file_of(path, &file) {
                // It was removed, and the name may belong to another writer by now.
                let _ = temporary.0.keep();
                continue;
            }
            if let Some(replaced) = replaced {
                keep_permissions(&file, replaced)?;
            }
            return Ok((file, temporary));
        }
        let text = format!("{WRITERS} temporary files of other writers are beside the output");
        Err(io::Error::other(text))
    }

    pub(super) fn rename_to(self, target: &Path) -> io::Result<()> {
        self.0.persist(target).map_err(|failed| failed.error)
    }
}

/// Removes a temporary file whose writer is gone.
fn remove_abandoned(path: &Path) {
    // A pipe of that name would keep the open call waiting.
    if !fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file()) {
        return;
    }
    // Only writers open files for writing: a lock needs no more than reading, and old files may be read-only.
    // The name may have gone to another writer since it was opened. Whoever holds the lock of the file behind a name is
    // the only one who may remove or rename it.
    if let Ok(file) = File::open(path)
        && file.try_lock().is_ok()
        && is_file_of(path, &file)
    {
        let _ = fs::remove_file(path);
    }
}

/// Whether `path` still names this open file.
#[cfg(unix)]
fn is_file_of(path: &Path, file: &File) -> bool {
    use std::os::unix::fs::MetadataExt;
    let identity = |meta: Metadata| (meta.dev(), meta.ino());
    let named = fs::symlink_metadata(path).map(identity);
    named.is_ok_and(|named| file.metadata().map(identity).is_ok_and(|own| own == named))
}

#[cfg(not(unix))]
fn is_file_of(path: &Path, _: &File) -> bool {
    path.exists()
}

/// A new file with the permissions of any new file, or fewer.
#[cfg(unix)]
fn open_new(path: &Path, replaced: Option<&Metadata>, access: Access) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let mode = match (replaced, access) {
        (None, Access::Usual) => 0o666,
        // Those of the replaced file are set before anything is written.
        (Some(_), _) | (None, Access::Owner) => 0o600,
    };
    OpenOptions::new().write(true).create_new(true).mode(mode).open(path)
}

#[cfg(not(unix))]
fn open_new(path: &Path, _: Option<&Metadata>, _: Access) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(path)
}

/// Owner, group and mode of the replaced file. Where the group cannot be kept, the new group gets no more than all
/// others have.
#[cfg(unix)]
fn keep_permissions(file: &File, replaced: &Metadata) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
    let own = file.metadata()?;
    let mut mode = replaced.mode() & 0o777;
    let differs = (own.uid(), own.gid()) != (replaced.uid(), replaced.gid());
    if differs && fchown(file, Some(replaced.uid()), Some(replaced.gid())).is_err() {
        let is_kept =
            own.gid() == replaced.gid() || fchown(file, None, Some(replaced.gid())).is_ok();
        if !is_kept {
            mode = (mode & !0o070) | ((mode & 0o007) << 3);
        }
    }
    file.set_permissions(fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
fn keep_permissions(_: &File, _: &Metadata) -> io::Result<()> {
    Ok(())
}
