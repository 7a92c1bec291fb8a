//! Adversarial model files: `tests/data/trust/README.md` says what each of them shows. Damaged files made at
//! random are in `tests/mutations.rs`.

use std::fs;
use std::path::Path;

use super::from_bytes;

/// Files that are not read here: they end the process or ask for gigabytes of memory.
const NOT_READ: [&str; 5] = [
    "columns_2pow62_panic.mercer",
    "craft_cols_empty_1099511627776.mercer",
    "craft_cols_last_4294967295_chi2.mercer",
    "craft_cols_sparse_4294967296.mercer",
    "wide_column.model",
];

/// Reading alone does not show what is wrong with these files: digests, shapes and numbers are valid.
#[test]
fn adversarial_files_with_valid_digests_are_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/trust");
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let is_model = [".mercer", ".model"].iter().any(|ending| name.ends_with(ending));
        if !is_model || NOT_READ.contains(&name.as_str()) {
            continue;
        }
        let model = from_bytes(&fs::read(&path).unwrap()).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(!model.machine.scores().is_empty(), "{name}");
        assert_eq!(
            model.plan.is_some(),
            HAVE_PLANS.iter().any(|plan| name.contains(plan)),
            "{name}"
        );
        count += 1;
    }
    assert_eq!(count, 32);
}

/// Parts of the names of files that hold a plan.
const HAVE_PLANS: [&str; 3] = ["forged_plan", ".anyt.", ".comp."];
