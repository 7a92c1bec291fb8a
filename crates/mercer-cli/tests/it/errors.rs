//! The table of `docs/errors.md`: every row is what the program prints.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::common::{Folder, SMALL, dataset};

/// A file of the readers' own tests.
fn golden(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../mercer-data/tests/golden");
    fs::read(folder.join(name)).unwrap()
}

/// Runs the command inside the folder, so that messages name files as they are typed.
fn run(folder: &Folder, arguments: &str) -> Output {
    let words: Vec<&str> = arguments.split(' ').collect();
    let mut command = Command::new(env!("CARGO_BIN_EXE_mercer"));
    command.current_dir(folder.path(".")).args(words).output().expect("mercer starts")
}

/// What is wrong, the files, and the command that reads them.
type Case = (&'static str, Vec<(&'static str, Vec<u8>)>, &'static str);

fn text(name: &'static str, text: &str) -> (&'static str, Vec<u8>) {
    (name, text.as_bytes().to_vec())
}

fn tables() -> Vec<Case> {
    let model = || text("m.model", SMALL);
    vec![
        ("NaN in a table", vec![text("d.csv", "a,b\n1,nan\n"), model()], "predict m.model d.csv"),
        (
            "infinity in LIBSVM text",
            vec![text("d.svm", "1 2:inf\n"), model()],
            "predict m.model d.svm",
        ),
        ("NaN in an array", vec![("d.npy", npy(f64::NAN)), model()], "predict m.model d.npy"),
        ("an empty field", vec![text("d.csv", "a,b\n1,\n"), model()], "predict m.model d.csv"),
        (
            "a null",
            vec![("d.parquet", golden("types.parquet")), model()],
            "train d.parquet -o m.mercer --id name --one-hot colour",
        ),
        (
            "`--missing mean` without means",
            vec![text("d.csv", "a,b\n1,\n"), model()],
            "predict m.model d.csv --missing mean",
        ),
        (
            "a type that is not read",
            vec![("d.arrow", golden("lists.arrow")), model()],
            "predict m.model d.arrow",
        ),
        (
            "a page that lies about its size",
            vec![("d.parquet", lying_page()), model()],
            "predict m.model d.parquet",
        ),
        ("an empty file", vec![text("d.svm", ""), model()], "predict m.model d.svm"),
        (
            "a word where a number should be",
            vec![text("d.svm", "x 1:1\n"), model()],
            "predict m.model d.svm",
        ),
        ("a model where rows should be", vec![model()], "train m.model -o n.mercer"),
        (
            "unsorted indices",
            vec![text("d.svm", "1 1:1\n1 2:1 1:1\n"), model()],
            "predict m.model d.svm",
        ),
        ("indices from 0", vec![text("d.svm", "1 0:1 1:1\n"), model()], "predict m.model d.svm"),
        ("a table of labels alone", vec![text("d.csv", "label\n1\n")], "train d.csv -o m.mercer"),
        (
            "rows of different length",
            vec![text("d.csv", "1,2\n3\n"), model()],
            "predict m.model d.csv",
        ),
        (
            "unknown label column",
            vec![text("d.csv", "a,b,c\n1,2,1\n2,3,2\n")],
            "train d.csv -o m.mercer --label d",
        ),
        (
            "more labels than rows",
            vec![("d.npy", npy(1.0)), text("y.csv", "1\n2\n3\n"), model()],
            "predict m.model d.npy --labels y.csv",
        ),
        (
            "negative values under chi2",
            vec![text("d.csv", "a,b,label\n1,-2,1\n2,3,2\n")],
            "train d.csv -o m.mercer --kernel chi2",
        ),
        (
            "a single class",
            vec![text("d.csv", "a,b,label\n1,-2,1\n2,3,1\n")],
            "train d.csv -o m.mercer",
        ),
        (
            "a scaling of very many columns",
            vec![text("d.svm", "1 1:1 50000000:1\n2 1:2 50000000:3\n")],
            "train d.svm -o m.mercer --scale standard",
        ),
        (
            "a scaling that would fill memory",
            vec![text(
                "d.svm",
                &(1..=100).map(|n| format!("{} 1000000:{n}\n", n % 2)).collect::<String>(),
            )],
            "train d.svm -o m.mercer --scale standard",
        ),
        (
            "an unknown scaling",
            vec![text("d.csv", "a,label\n1,1\n")],
            "train d.csv -o m.mercer --scale log",
        ),
        (
            "a cut-off array",
            vec![("d.npy", npy(1.0)[..140].to_vec()), model()],
            "predict m.model d.npy",
        ),
        (
            "compressed by name only",
            vec![text("d.svm.gz", "1 1:1\n"), model()],
            "predict m.model d.svm.gz",
        ),
        (
            "damaged compression",
            vec![("d.svm.gz", gzip()[..20].to_vec()), model()],
            "predict m.model d.svm.gz",
        ),
        (
            "a decompression bomb",
            vec![("d.svm.gz", gzip()), model()],
            "predict m.model d.svm.gz --max-unpacked 1KiB",
        ),
    ]
}

/// Cases that need a machine trained on a table with names: `m.mercer`.
fn queries() -> Vec<Case> {
    vec![
        ("wrong number of columns", vec![text("q.csv", "1,2,3,4,5\n")], "predict m.mercer q.csv"),
        (
            "a column the machine needs",
            vec![text("q.csv", "length,colour\n1,red\n")],
            "predict m.mercer q.csv",
        ),
        (
            "a category the machine never saw",
            vec![text("q.csv", "size,colour\n1,teal\n")],
            "predict m.mercer q.csv",
        ),
        (
            "columns the machine does not know",
            vec![text("q.csv", "note,size,colour,when\n9,1,red,8\n")],
            "predict m.mercer q.csv --json",
        ),
        (
            "a model where data should be, or the reverse",
            vec![text("q.csv", "size,colour\n1,red\n")],
            "predict q.csv m.mercer",
        ),
        ("a damaged model", vec![], "inspect damaged.mercer"),
        ("a model of a later version", vec![], "inspect later.mercer"),
        ("what a format cannot say", vec![], "export chi2.mercer --format onnx -o out.onnx"),
        (
            "an output that cannot be written",
            vec![text("q.svm", "1 1:1\n")],
            "convert q.svm nowhere/x.csv",
        ),
        ("a full disk", vec![text("q.svm", "1 1:1\n")], "convert q.svm /dev/full --format csv"),
    ]
}

/// Two rows of one column.
fn npy(second: f64) -> Vec<u8> {
    let mut header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (2, 1), }".to_vec();
    header.resize(117, b' ');
    header.push(b'\n');
    let mut bytes = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    bytes.extend(header);
    for value in [1.0, second] {
        bytes.extend(value.to_le_bytes());
    }
    bytes
}

/// 2000 rows, packed by hand in one stored block.
fn gzip() -> Vec<u8> {
    let rows = "1 1:1\n".repeat(2000);
    let length = rows.len() as u16;
    let mut bytes = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255, 1];
    bytes.extend(length.to_le_bytes());
    bytes.extend((!length).to_le_bytes());
    bytes.extend(rows.as_bytes());
    bytes.extend([0; 8]);
    bytes
}

/// A file of pyarrow whose first page header claims a gibibyte: field 2 of its compact Thrift.
fn lying_page() -> Vec<u8> {
    let mut bytes = golden("types-plain.parquet");
    assert_eq!((bytes[4], bytes[6]), (0x15, 0x15), "two 32-bit fields");
    let size = bytes[7..].iter().position(|byte| byte & 0x80 == 0).unwrap() + 1;
    bytes.splice(7..7 + size, [0x80, 0x80, 0x80, 0x80, 0x08]);
    bytes
}

/// Trains the machines of [`queries`].
fn machines(folder: &Folder) {
    let row = |at: usize| {
        let (colour, label) = if at.is_multiple_of(2) { ("red", "a") } else { ("blue", "b") };
        format!("{colour},{},{label}\n", at % 5)
    };
    let table = "colour,size,label\n".to_owned() + &(0..20).map(row).collect::<String>();
    folder.write("d.csv", &table);
    for arguments in [
        "train d.csv -o m.mercer --one-hot colour",
        "train d.csv -o chi2.mercer --one-hot colour --kernel chi2",
    ] {
        let made = run(folder, arguments);
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }
    let good = fs::read(folder.path("m.mercer")).unwrap();
    let mut damaged = good.clone();
    *damaged.last_mut().unwrap() ^= 1;
    fs::write(folder.path("damaged.mercer"), damaged).unwrap();
    let mark = b"\\\"version\\\":1";
    let at = good.windows(mark.len()).position(|window| window == mark).unwrap();
    let mut later = good;
    later[at + mark.len() - 1] = b'9';
    fs::write(folder.path("later.mercer"), later).unwrap();
}

/// One row of the table: the message of the command, without `error:` and `hint:`.
fn row(folder: &Folder, case: &Case) -> String {
    let (what, files, arguments) = case;
    for (name, bytes) in files {
        fs::write(folder.path(name), bytes).unwrap();
    }
    fs::write(folder.path("out.onnx"), "precious").unwrap();
    let output = run(folder, arguments);
    let said = String::from_utf8(output.stderr).unwrap();
    let is_message =
        |line: &&str| ["error: ", "warning: ", "hint: "].iter().any(|word| line.starts_with(word));
    let mut lines = said.lines().filter(is_message);
    let first = lines.next().unwrap_or_default();
    let message = match (first.strip_prefix("error: "), first.strip_prefix("warning: ")) {
        (Some(message), _) => {
            assert_eq!(output.status.code(), Some(1), "{what}: {said}");
            message.to_owned()
        }
        (None, Some(message)) if output.status.success() => message.to_owned(),
        _ => panic!("{what}: {said}"),
    };
    assert_eq!(fs::read_to_string(folder.path("out.onnx")).unwrap(), "precious", "{what}");
    let hint = lines.next().and_then(|line| line.strip_prefix("hint: ")).unwrap_or_default();
    let kind = if first.starts_with("warning") { "a warning: " } else { "" };
    format!("| {what} | {kind}`{message}` | {hint} |\n").replace("|  |", "| |")
}

#[test]
fn the_documented_errors_are_printed() {
    if !Path::new("/dev/full").exists() {
        eprintln!("skipped: there is no /dev/full to stand for a full disk");
        return;
    }
    let folder = Folder::new();
    let mut table = "| what is wrong | what is said | hint |\n|---|---|---|\n".to_owned();
    table.extend(tables().iter().map(|case| row(&folder, case)));
    machines(&folder);
    table.extend(queries().iter().map(|case| row(&folder, case)));
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors.md");
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains(&table), "docs/errors.md should hold this table:\n{table}");
}

/// If the system lets a user mount a small tmpfs, every verb that writes is run on a disk that is really full.
#[test]
fn a_full_disk_leaves_the_old_file_and_nothing_else() {
    let folder = Folder::new();
    fs::create_dir(folder.path("disk")).unwrap();
    let mount = "mount -t tmpfs -o size=16k none disk";
    let in_namespace = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["-rm", "sh", "-c", &format!("{mount} && {script}")]);
        command.current_dir(folder.path(".")).env("MERCER", env!("CARGO_BIN_EXE_mercer"));
        command.env("MODEL", dataset("digits/digits.model"));
        command.env("ROWS", dataset("digits/queries.svm")).output()
    };
    if !in_namespace("true").is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: no tmpfs can be mounted here");
        return;
    }
    for verb in [
        "convert $ROWS disk/out --format csv",
        "convert $ROWS disk/out --format parquet",
        "predict $MODEL $ROWS -o disk/out --format csv",
        "import $MODEL -o disk/out",
        "export $MODEL --format c -o disk/out",
        "train $ROWS -o disk/out",
    ] {
        let script = format!(
            "echo precious > disk/out; $MERCER {verb}; echo code $?; ls -A disk; cat disk/out"
        );
        let output = in_namespace(&script).unwrap();
        let (told, said) = (
            String::from_utf8_lossy(&output.stdout).into_owned(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        );
        assert_eq!(told, "code 1\nout\nprecious\n", "{verb}: {said}");
        let message = "error: disk/out: No space left on device (os error 28)\n";
        assert!(said.ends_with(message), "{verb}: {said}");
    }
}
