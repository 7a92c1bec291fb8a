//! Files made to harm: every verb reads them within a memory limit and ends with an exit code of its own.
//!
//! The limits are set by `ulimit -d` (memory) and, for small files, `ulimit -t` (processor time) of the shell, which Linux
//! obeys; elsewhere these tests are skipped, and say so.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::Folder;

/// Memory that every verb may use, whatever the file.
const MEMORY: u64 = 64 << 20;
/// Memory in addition, for each byte of the file.
const PER_BYTE: u64 = 20;
/// A run that takes longer hangs.
const HANG: Duration = Duration::from_secs(100);
/// Files below this size may take so many seconds of processor time: one, and more where nothing is optimised.
const SMALL_FILE: u64 = 1024;
const SECONDS: u32 = if cfg!(debug_assertions) { 6 } else { 1 };

/// Files of other programs and of ours, with right digests, that claim more than they hold.
fn trust(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../mercer-machine/tests/data/trust").join(name)
}

/// Runs the command with memory for a file of that size; returns what is wrong with how it ended.
fn fault(arguments: &[String], size: u64) -> Option<String> {
    let kib = (MEMORY + PER_BYTE * size) >> 10;
    let time = if size < SMALL_FILE { format!("ulimit -t {SECONDS} && ") } else { String::new() };
    let mut child = Command::new("sh")
        .arg("-c")
        .arg(format!("ulimit -d {kib} && {time}exec \"$0\" \"$@\""))
        .arg(env!("CARGO_BIN_EXE_mercer"))
        .args(arguments)
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("sh starts");
    let (id, started) = (child.id().to_string(), Instant::now());
    let stderr = child.stderr.take().expect("it is piped");
    let reader = std::thread::spawn(move || std::io::read_to_string(stderr).unwrap_or_default());
    let status = loop {
        if let Some(status) = child.try_wait().expect("it is our child") {
            break status;
        }
        if started.elapsed() > HANG {
            child.kill().expect("it is our child");
            return Some(format!("{arguments:?}: process {id} hangs"));
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let said = reader.join().expect("reading does not panic");
    let is_ended = matches!(status.code(), Some(0..=4));
    let is_panic = said.contains("panicked") || said.contains("memory allocation of");
    let is_wordless = status.code() == Some(1) && !said.contains("error: ");
    (!is_ended || is_panic || is_wordless).then(|| format!("{arguments:?}: {status}: {said}"))
}

/// Runs the commands, two at a time, and lists all faults. `{}` is the file, `{out}` a file to write.
fn survive(folder: &Folder, file: &Path, commands: &[&str]) {
    let size = fs::metadata(file).unwrap().len();
    let name = file.to_str().expect("a plain path");
    let run = |(number, command): (usize, &&str)| {
        let out = folder.path(&format!("out{number}"));
        let fill = |word: &str| word.replace("{out}", &out).replace("{}", name);
        let words: Vec<String> = command.split_whitespace().map(fill).collect();
        fault(&words, size)
    };
    let numbered: Vec<(usize, &&str)> = commands.iter().enumerate().collect();
    let faults: Vec<String> = std::thread::scope(|scope| {
        let half = |skip: usize| {
            let part: Vec<_> = numbered.iter().copied().skip(skip).step_by(2).collect();
            scope.spawn(move || part.into_iter().filter_map(run).collect::<Vec<_>>())
        };
        let halves = [half(0), half(1)];
        halves.into_iter().flat_map(|half| half.join().expect("it does not panic")).collect()
    });
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Every verb that reads a model; `{q}` are queries.
const OF_MODELS: &[&str] = &[
    "inspect {}",
    "inspect --json {}",
    "check {}",
    "check {} --sample {q}",
    "verify {}",
    "verify {} --sample {q}",
    "import {} -o {out}",
    "export {} --format mercer -o {out}",
    "export {} --format libsvm -o {out}",
    "export {} --format liblinear -o {out}",
    "export {} --format onnx -o {out}",
    "export {} --format c -o {out}",
    "export {} --format c-float -o {out}",
    "export {} --format libsvm -o {out} --sample {q}",
    "predict {} {q}",
    "predict {} {q} --probabilities",
    "predict {} {q} --audit 0.5 --audit-sample {q}",
    "predict {} {q} --sets",
    "predict {} {q} --sets --trust-plan",
    "explain {} {q}",
    "explain {} {q} --attribute --background {q}",
    "bench {} {q} --repeats 1",
    "compile {} --plan exact -o {out}",
    "compile {} --plan cascade(anytime,exact) -o {out}",
    "compile {} --plan cascade(low_precision,exact) -o {out}",
    "compile {} --plan cascade(table,exact) -o {out}",
    "compile {} --plan cascade(compressed(2),exact) -o {out}",
    "compile {} --plan cascade(projected,exact) -o {out}",
    "compress {} --size 1 -o {out}",
    "compress {} --size 1 --keep-vectors -o {out}",
    "tune {} --sample {q} --time-limit 0.3s -o {out}",
    "tune {} --sample {q} --coverage 0.5 --time-limit 0.3s -o {out}",
    "convert {q} {out}.csv --scaled-by {}",
    "train {q} --warm-start {} -o {out}",
    "svm-predict {q} {} {out}",
];

/// Every verb that reads rows; `{m}` is a model.
const OF_ROWS: &[&str] = &[
    "check {}",
    "convert {} {out}.svm",
    "convert {} {out}.csv",
    "convert {} {out}.npy",
    "convert {} {out}.idx",
    "convert {} {out}.arrow",
    "convert {} {out}.parquet",
    "convert {} {out}.svm --sort",
    "train {} -o {out}",
    "train {} -o {out} --scale standard",
    "train {} -o {out} --scale quantile",
    "train {} -o {out} --kernel linear --solver linear",
    "train {} -o {out} --kernel chi2 --solver additive",
    "train {} -o {out} --kernel linear --formulation ls_svm(C=1)",
    "train {} -o {out} --solver low_rank",
    "search {} --cv 2 --kernel rbf(gamma={scale,1}) --formulation c_svc(C={1,2}) --time-limit 20s",
    "predict {m} {}",
    "explain {m} {}",
    "explain {m} {} --attribute --background {}",
    "predict {m} {} --audit 0.5 --audit-sample {}",
    "compile {m} --plan cascade(anytime,exact) --sample {} -o {out}",
    "compress {m} --size 1 --keep-vectors --sample {} -o {out}",
    "svm-train {} {out}",
    "svm-scale {}",
];

fn filled(commands: &[&str], hole: &str, with: &str) -> Vec<String> {
    commands.iter().map(|command| command.replace(hole, with)).collect()
}

fn is_skipped() -> bool {
    let skipped = !cfg!(target_os = "linux");
    if skipped {
        eprintln!("skipped: `ulimit -d` limits memory on Linux only");
    }
    skipped
}

fn survive_as_model(folder: &Folder, file: &Path) {
    let queries = trust("q1.svm");
    let commands = filled(OF_MODELS, "{q}", queries.to_str().expect("a plain path"));
    survive(folder, file, &commands.iter().map(String::as_str).collect::<Vec<_>>());
}

fn survive_as_rows(folder: &Folder, file: &Path) {
    let model = folder.write("m.model", crate::common::SMALL);
    let commands = filled(OF_ROWS, "{m}", &model);
    survive(folder, file, &commands.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn models_that_claim_too_much_are_read_within_a_memory_limit() {
    if is_skipped() {
        return;
    }
    let folder = Folder::new();
    for name in [
        "columns_2pow62_panic.mercer",
        "craft_cols_empty_1099511627776.mercer",
        "craft_cols_last_4294967295_chi2.mercer",
        "craft_cols_sparse_4294967296.mercer",
        "inspect_panic.mercer",
        "parent_even.mercer",
        "parent_short.mercer",
        "inspect_escape.mercer",
        "nested_normalized_16.mercer",
        "wide_column.model",
        "zero_vector.model",
        "merged_overflow.model",
        "proj_poly9_one.model",
    ] {
        survive_as_model(&folder, &trust(name));
    }
}

#[test]
fn rows_with_a_very_large_column_number_are_read_within_a_memory_limit() {
    if is_skipped() {
        return;
    }
    let folder = Folder::new();
    survive_as_rows(&folder, &trust("wide_column.svm"));
    let columns = [70_000, 1 << 20, (1 << 20) + 1, 1 << 28];
    for column in columns {
        let text = format!("1 1:1 {column}:2\n-1 2:1\n1 3:1 {column}:0.5\n-1 1:2 2:3\n");
        let file = folder.write(&format!("wide-{column}.svm"), &text);
        survive_as_rows(&folder, Path::new(&file));
    }
}

/// A model of LIBSVM text whose supports lie far out, and classes that share no supports.
fn wide_text(column: u64, classes: usize) -> String {
    let pairs = classes * (classes - 1) / 2;
    let list = |value: &str, count: usize| vec![value; count].join(" ");
    let labels: Vec<String> = (1..=classes).map(|class| class.to_string()).collect();
    let mut text = format!(
        "svm_type c_svc\nkernel_type rbf\ngamma 0.5\nnr_class {classes}\ntotal_sv {classes}\nrho {}\nlabel {}\n\
         nr_sv {}\nSV\n",
        list("0", pairs),
        labels.join(" "),
        list("1", classes),
    );
    for class in 1..=classes {
        writeln!(text, "{} {class}:1 {column}:{class}", list("1", classes - 1)).unwrap();
    }
    text
}

#[test]
fn models_of_other_programs_with_a_very_large_column_number_are_read_within_a_memory_limit() {
    if is_skipped() {
        return;
    }
    let folder = Folder::new();
    for (column, classes) in [(70_000, 2), (1 << 20, 3), (4_294_967_294, 3)] {
        let file = folder.write(&format!("{column}.model"), &wide_text(column, classes));
        survive_as_model(&folder, Path::new(&file));
    }
}

#[test]
fn headers_that_claim_more_than_follows_are_read_within_a_memory_limit() {
    if is_skipped() {
        return;
    }
    let folder = Folder::new();
    let text = "{'descr': '<f8', 'fortran_order': True, 'shape': (4000000000, 4000), }\n";
    let mut npy = b"\x93NUMPY\x01\x00".to_vec();
    npy.extend((text.len() as u16).to_le_bytes());
    npy.extend(text.as_bytes());
    let idx = [&[0u8, 0, 8, 3][..], &[0x7f; 12], &[1; 64]].concat();
    let mut arrow = b"ARROW1\0\0".to_vec();
    arrow.extend([0xff, 0xff, 0xff, 0xff, 0, 0, 0, 3]);
    let liblinear = "solver_type L2R_L2LOSS_SVC\nnr_class 1000000\nlabel 1 2\nnr_feature 4294967295\nbias 1\nw\n1\n";
    for (name, bytes) in [
        ("a.npy", npy),
        ("b.idx", idx),
        ("c.arrow", arrow),
        ("d.csv", b"a,b\n1,\"".to_vec()),
        ("e.svm", b"1 4294967294:1 4294967295:1\n".to_vec()),
    ] {
        let file = folder.path(name);
        fs::write(&file, bytes).unwrap();
        survive_as_rows(&folder, Path::new(&file));
    }
    let file = folder.write("l.model", liblinear);
    survive_as_model(&folder, Path::new(&file));
}

#[test]
fn a_small_compressed_table_of_spaces_is_refused_within_a_memory_limit() {
    if is_skipped() {
        return;
    }
    let folder = Folder::new();
    let file = folder.path("spaces.csv.gz");
    let best = flate2::Compression::best();
    let mut packed = flate2::write::GzEncoder::new(fs::File::create(&file).unwrap(), best);
    let spaces = vec![b' '; 1 << 20];
    for _ in 0..400 {
        packed.write_all(&spaces).unwrap();
    }
    packed.finish().unwrap();
    survive(&folder, Path::new(&file), &["convert {} {out}.svm", "check {}", "train {} -o {out}"]);
}

/// Models with very many classes: work grows with their number, not with its square.
#[test]
fn many_classes_are_read_in_linear_time() {
    let classes = 60_000;
    let labels: Vec<String> = (1..=classes).map(|class| class.to_string()).collect();
    let weights = vec!["1"; classes].join(" ");
    let text = format!(
        "solver_type MCSVM_CS\nnr_class {classes}\nlabel {}\nnr_feature 1\nbias -1\nw\n{weights}\n",
        labels.join(" ")
    );
    let folder = Folder::new();
    let (model, queries) = (folder.write("many.model", &text), folder.write("q.svm", "1 1:1\n"));
    let own = folder.path("many.mercer");
    crate::common::done(&["import", &model, "-o", &own]);
    crate::common::done(&["inspect", &own]);
    let said = crate::common::done(&["predict", &own, &queries]);
    assert!(said.lines().count() >= 1, "{said}");
}

/// What is written can be read again, or is refused before it is written.
#[test]
fn every_model_that_is_imported_can_be_read_again() {
    let folder = Folder::new();
    for name in ["zero_vector.model", "merged_overflow.model", "wide_column.model"] {
        let (source, out) = (trust(name), folder.path(&format!("{name}.mercer")));
        let source = source.to_str().expect("a plain path");
        let run = crate::common::mercer(&["import", source, "-o", &out]);
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        if name == "merged_overflow.model" {
            assert_eq!(run.status.code(), Some(1), "{said}");
            assert!(said.contains("a coefficient of score 1 is inf"), "{said}");
            assert!(!Path::new(&out).exists());
        } else {
            assert!(run.status.success(), "{name}: {said}");
            crate::common::done(&["inspect", &out]);
        }
    }
}

#[test]
fn rows_beyond_the_memory_are_refused_by_every_verb_that_reads_them_at_once() {
    let folder = Folder::new();
    let model = folder.write("m.model", crate::common::SMALL);
    let rows = folder.write("rows.csv", &format!("a,b\n{}", "1,2\n".repeat(20_000)));
    let out = folder.path("out");
    for command in [
        format!("check {rows}"),
        format!("check {model} --sample {rows}"),
        format!("convert {rows} {out}.svm"),
        format!("bench {model} {rows}"),
        format!("export {model} --sample {rows} -o {out}"),
        format!("compile {model} --plan exact --sample {rows} -o {out}"),
        format!("compress {model} --size 1 --sample {rows} -o {out}"),
        format!("tune {model} --sample {rows} -o {out}"),
    ] {
        let words: Vec<&str> = command.split(' ').collect();
        let said = crate::common::refused(&[&words[..], &["--memory", "100KiB"]].concat());
        assert!(said.contains("the rows take more than 0.1 MiB of memory"), "{command}: {said}");
        assert!(said.contains("`--memory 4GiB` raises the limit"), "{command}: {said}");
        assert!(!Path::new(&out).exists(), "{command}");
    }
    // Rows that are read in chunks have no limit.
    crate::common::done(&["predict", &model, &rows, "-o", &out, "--memory", "100KiB"]);
}

#[test]
fn more_than_four_threads_per_core_are_refused() {
    let folder = Folder::new();
    let model = folder.write("m.model", crate::common::SMALL);
    let said = crate::common::refused(&["inspect", &model, "--threads", "100000"]);
    assert!(said.contains("asks for 100000 threads; at most"), "{said}");
    for command in [["inspect", model.as_str()], ["svm-scale", model.as_str()]] {
        let output = Command::new(env!("CARGO_BIN_EXE_mercer"))
            .args(command)
            .env("RAYON_NUM_THREADS", "100000")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("RAYON_NUM_THREADS asks for 100000 threads"), "{said}");
    }
}
