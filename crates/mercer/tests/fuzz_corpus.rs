//! Feeds every input of the fuzzers' corpora (`fuzz/corpus/`) to its target again; none of them may panic.
//!
//! The corpora are the inputs that reached new code, made as few as possible (`fuzz/README.md`).

#[path = "../../../fuzz/src/bodies.rs"]
mod bodies;

use std::fs;
use std::path::Path;

#[test]
fn every_input_of_the_corpora_ends_in_an_error_or_in_checked_values() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for (target, _) in bodies::TARGETS {
        let inputs = fs::read_dir(folder.join(target)).unwrap_or_else(|e| panic!("{target}: {e}"));
        let mut count = 0;
        for input in inputs {
            let path = input.unwrap().path();
            let bytes = fs::read(&path).unwrap();
            let ended = std::panic::catch_unwind(|| bodies::run(target, &bytes));
            assert!(ended.is_ok(), "{} ends in a panic", path.display());
            count += 1;
        }
        assert!(count > 0, "{target}: the corpus is empty");
    }
}

/// Every target has a file, and every file is a target.
#[test]
fn targets_and_their_files_agree() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/fuzz_targets");
    let mut files: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    files.sort();
    let mut targets: Vec<&str> = bodies::TARGETS.iter().map(|(name, _)| *name).collect();
    targets.sort_unstable();
    assert_eq!(files, targets);
}
