//! Tests of files that appear only when they are complete: permissions, links, leftovers, pipes.

use super::*;

fn write(target: &Path, text: &str) {
    let mut file = AtomicFile::create(target).unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file.commit().unwrap();
}

fn count(folder: &Path) -> usize {
    fs::read_dir(folder).unwrap().count()
}

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
    assert_eq!(count(folder.path()), 1);
    write(&target, "new");
    assert_eq!(fs::read_to_string(&target).unwrap(), "new");
    assert_eq!(count(folder.path()), 1);
}

/// Each writer finds names that others have just given back, and files that others are about to rename.
#[test]
fn many_writers_of_one_target_all_end_well() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("out.txt");
    std::thread::scope(|scope| {
        for writer in 0..6 {
            let target = &target;
            scope.spawn(move || {
                for round in 0..150 {
                    if round % 5 == writer % 5 {
                        drop(AtomicFile::create(target).unwrap());
                    }
                    write(target, "whole");
                }
            });
        }
    });
    assert_eq!(fs::read_to_string(&target).unwrap(), "whole");
    assert_eq!(count(folder.path()), 1);
}

#[test]
fn an_unwritable_place_is_an_error() {
    let error = AtomicFile::create(Path::new("/nonexistent/folder/file")).unwrap_err();
    assert_eq!(error.to_string(), "there is no folder '/nonexistent/folder'; make it first");
}

#[test]
fn a_target_is_checked_without_a_trace() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    let refused = |path: &Path| AtomicFile::check(path).unwrap_err().to_string();
    fs::write(place("old"), "precious").unwrap();
    AtomicFile::check(&place("old")).unwrap();
    AtomicFile::check(&place("new")).unwrap();
    assert_eq!(fs::read_to_string(place("old")).unwrap(), "precious");
    assert_eq!(count(folder.path()), 1);
    assert!(refused(folder.path()).starts_with("this is a folder"));
    assert!(refused(&place("new/")).starts_with("this is a folder"));
    assert!(refused(&place("old/new")).ends_with("old' is not a folder"));
    assert!(refused(&place("no/new")).ends_with("no'; make it first"));
    AtomicFile::check(Path::new("new")).unwrap();
}

#[test]
fn what_a_killed_writer_left_is_removed_and_what_a_running_one_writes_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("out");
    for number in [0, 1, 7] {
        fs::write(folder.path().join(format!(".out.{number}.tmp")), "left").unwrap();
    }
    let other = folder.path().join(".other.0.tmp");
    fs::write(&other, "of another target").unwrap();
    let mut first = AtomicFile::create(&target).unwrap();
    assert_eq!(count(folder.path()), 2);
    let mut second = AtomicFile::create(&target).unwrap();
    assert_eq!(count(folder.path()), 3);
    first.write_all(b"first").unwrap();
    second.write_all(b"second").unwrap();
    second.commit().unwrap();
    assert_eq!(fs::read_to_string(&target).unwrap(), "second");
    first.commit().unwrap();
    assert_eq!(fs::read_to_string(&target).unwrap(), "first");
    assert_eq!(count(folder.path()), 2);
    assert!(other.exists());
}

#[test]
fn at_most_sixteen_programs_write_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("out");
    let writers: Vec<AtomicFile> = (0..16).map(|_| AtomicFile::create(&target).unwrap()).collect();
    let error = AtomicFile::create(&target).unwrap_err();
    assert!(error.to_string().contains("16 temporary files"), "{error}");
    writers.into_iter().for_each(|writer| writer.commit().unwrap());
    assert_eq!(count(folder.path()), 1);
}

#[cfg(unix)]
mod unix {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn new_files_have_the_usual_permissions_and_private_ones_no_more_than_0600() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        File::create(at("plain")).unwrap();
        AtomicFile::create(&at("atomic")).unwrap().commit().unwrap();
        AtomicFile::create_private(&at("private")).unwrap().commit().unwrap();
        assert_eq!(mode(&at("plain")), mode(&at("atomic")));
        assert_eq!(mode(&at("plain")) & 0o600, mode(&at("private")));
    }

    #[test]
    fn a_replaced_file_keeps_its_permissions_at_every_moment() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("out");
        for wanted in [0o600, 0o640, 0o644, 0o666, 0o755, 0o200] {
            fs::write(&target, "old").unwrap();
            fs::set_permissions(&target, fs::Permissions::from_mode(wanted)).unwrap();
            for private in [false, true] {
                let mut file = if private {
                    AtomicFile::create_private(&target).unwrap()
                } else {
                    AtomicFile::create(&target).unwrap()
                };
                assert_eq!(mode(&folder.path().join(".out.0.tmp")), wanted);
                file.write_all(b"new").unwrap();
                file.commit().unwrap();
                assert_eq!(mode(&target), wanted);
            }
            fs::remove_file(&target).unwrap();
        }
    }

    #[test]
    fn a_read_only_file_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("out");
        fs::write(&target, "old").unwrap();
        fs::set_permissions(&target, fs::Permissions::from_mode(0o400)).unwrap();
        let error = AtomicFile::create(&target).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(error.to_string(), "the file is read-only and is not replaced");
        assert_eq!(
            (fs::read_to_string(&target).unwrap().as_str(), count(folder.path())),
            ("old", 1)
        );
    }

    #[test]
    fn symbolic_links_are_followed_even_to_files_that_are_not_there_yet() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("deep")).unwrap();
        symlink("deep/second", at("first")).unwrap();
        symlink("end", at("deep/second")).unwrap();
        for text in ["new file", "replaced file"] {
            write(&at("first"), text);
            assert_eq!(fs::read_to_string(at("deep/end")).unwrap(), text);
            assert!(fs::symlink_metadata(at("first")).unwrap().is_symlink());
            assert!(fs::symlink_metadata(at("deep/second")).unwrap().is_symlink());
        }
        symlink("loop", at("loop")).unwrap();
        let error = AtomicFile::create(&at("loop")).unwrap_err();
        assert_eq!(error.to_string(), "too many symbolic links");
    }

    #[test]
    fn a_pipe_at_a_temporary_name_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (target, pipe) = (folder.path().join("out"), folder.path().join(".out.0.tmp"));
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        write(&target, "text");
        assert!(pipe.exists());
        assert_eq!(fs::read_to_string(&target).unwrap(), "text");
    }

    #[test]
    fn a_pipe_whose_reader_left_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || drop(File::open(pipe).unwrap())
        });
        let mut file = AtomicFile::create(&pipe).unwrap();
        reader.join().unwrap();
        file.write_all(b"nobody reads this").unwrap();
        let error = file.commit().unwrap_err();
        assert_ne!(error.kind(), io::ErrorKind::BrokenPipe);
        assert!(error.to_string().contains("the reader of the pipe left"), "{error}");
    }
}
