//! The program is killed at random moments, files lose their permissions, two programs write one file: no file is half
//! written, and what is resumed ends with the same bits. `MERCER_KILLS` sets how often each verb is killed (default 3;
//! `cargo xtask bench faults`: 100; runs that end before their kill do not count). A full disk is tested in `errors.rs`.

use std::collections::hash_map::RandomState;
use std::fs;
use std::hash::BuildHasher;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{Folder, dataset, done, noise, refused};

/// How often each verb is killed.
fn kills() -> u64 {
    std::env::var("MERCER_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(3)
}

/// What a run of a verb leaves.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leaves {
    /// The same bytes in every run.
    SameBytes,
    /// A model with measured times: any that can be read.
    Readable,
}

/// A verb that is killed.
struct KilledCommand {
    name: &'static str,
    /// The words after `mercer`; `OUT` and `STATE` are the names of the files it writes.
    words: Vec<String>,
    result: Leaves,
}

impl KilledCommand {
    fn new(name: &'static str, line: &str, result: Leaves) -> Self {
        Self { name, words: line.split_whitespace().map(str::to_owned).collect(), result }
    }

    /// A training with checkpoints.
    fn training(data: &str, solver: &str) -> Self {
        let line = format!(
            "train {data} -o OUT --kernel rbf(gamma=0.01) --formulation c_svc(C=100) --solver {solver} \
             --checkpoint STATE --checkpoint-every 0s --resume"
        );
        Self::new("train", &line, Leaves::SameBytes)
    }

    fn start(&self, out: &str, state: &str) -> Child {
        let word = |word: &String| word.replace("OUT", out).replace("STATE", state);
        let mut command = Command::new(env!("CARGO_BIN_EXE_mercer"));
        command.args(self.words.iter().map(word)).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().unwrap()
    }

    /// Kills runs at random moments; each must leave the old file or a whole new one.
    fn survive(&self, folder: &Folder) {
        let (out, state) = (folder.path("out"), folder.path("state"));
        let started = Instant::now();
        assert!(self.start(&out, &state).wait().unwrap().success(), "{}", self.name);
        let whole = started.elapsed();
        let reference = fs::read(&out).unwrap();
        let (mut killed, mut tries, mut old, mut new) = (0, 0, 0, 0);
        // How long runs from the start take, and those that continue: what ends before its kill shortens it.
        let mut lasts = [whole; 2];
        let seed = RandomState::new().hash_one(()) | 1;
        let mut random = seed;
        while killed < kills() && tries < 20 * kills() {
            fs::write(&out, "old").unwrap();
            // Half of the runs continue what the last one left.
            let kind = (tries % 2) as usize;
            if kind == 0 {
                let _ = fs::remove_file(&state);
            }
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let pause = lasts[kind].as_secs_f64() * (random >> 33) as f64 / f64::from(1u32 << 31);
            let mut child = self.start(&out, &state);
            std::thread::sleep(Duration::from_secs_f64(pause));
            child.kill().unwrap();
            if child.wait().unwrap().success() {
                lasts[kind] = lasts[kind].mul_f64(0.9);
            } else {
                killed += 1;
            }
            tries += 1;
            match fs::read(&out).unwrap() {
                bytes if bytes == b"old" => old += 1,
                bytes => {
                    new += 1;
                    self.check(&bytes, &reference, &out);
                }
            }
            if killed == kills() || kind == 1 {
                assert!(
                    self.start(&out, &state).wait().unwrap().success(),
                    "{}: resumed",
                    self.name
                );
                self.check(&fs::read(&out).unwrap(), &reference, &out);
                let left = names(folder);
                assert!(left.iter().all(|name| !name.contains(".tmp")), "{}: {left:?}", self.name);
            }
        }
        println!(
            "{}: {killed} of {tries} runs of {:.2} s killed, {old} left the old file, {new} a whole new one; seed {seed}",
            self.name,
            whole.as_secs_f64(),
        );
        assert_eq!(killed, kills(), "{}: too few runs were killed, seed {seed}", self.name);
        for name in names(folder).iter().filter(|name| *name == "out" || *name == "state") {
            fs::remove_file(folder.path(name)).unwrap();
        }
    }

    fn check(&self, bytes: &[u8], reference: &[u8], out: &str) {
        match self.result {
            Leaves::SameBytes => assert!(bytes == reference, "{}: other bytes", self.name),
            Leaves::Readable => {
                done(&["inspect", out]);
            }
        }
    }
}

fn names(folder: &Folder) -> Vec<String> {
    let entries = fs::read_dir(folder.path(".")).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn killed_runs_leave_whole_files_and_resume_to_the_same_bits() {
    let folder = Folder::new();
    let data = folder.write("noise.svm", &noise(400, 29, 1e6));
    let (model, queries) = (dataset("digits/digits.model"), dataset("digits/queries.svm"));
    let search = format!(
        "search {data} -o OUT --kernel rbf(gamma={{0.001,0.01,0.1}}) --formulation c_svc(C={{1,10}}) --cv 2 --journal STATE"
    );
    let tune =
        format!("tune {model} --sample {queries} --contract certified --time-limit 0.3s -o OUT");
    let convert = format!("convert {queries} OUT --format csv");
    let compress = format!("compress {model} --size 20 -o OUT");
    let commands = [
        KilledCommand::training(&data, "smo(working_set=16)"),
        KilledCommand::new("search", &search, Leaves::SameBytes),
        KilledCommand::new("tune", &tune, Leaves::Readable),
        KilledCommand::new("convert", &convert, Leaves::SameBytes),
        KilledCommand::new("compress", &compress, Leaves::SameBytes),
    ];
    for command_line in commands {
        command_line.survive(&folder);
    }
}

#[test]
fn two_programs_that_write_one_file_and_one_checkpoint_both_end_well() {
    let folder = Folder::new();
    let data = folder.write("noise.svm", &noise(400, 29, 1e6));
    let command_line = KilledCommand::training(&data, "smo");
    let (out, state) = (folder.path("out"), folder.path("state"));
    assert!(command_line.start(&out, &state).wait().unwrap().success());
    let reference = fs::read(&out).unwrap();
    for _ in 0..kills().div_ceil(2) {
        let _ = fs::remove_file(&state);
        let running: Vec<Child> = (0..3).map(|_| command_line.start(&out, &state)).collect();
        for mut child in running {
            assert!(child.wait().unwrap().success());
        }
        assert!(fs::read(&out).unwrap() == reference);
        assert!(names(&folder).iter().all(|name| !name.contains(".tmp")), "{:?}", names(&folder));
    }
}

#[cfg(unix)]
#[test]
fn models_are_private_and_files_keep_their_permissions_and_links() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = Folder::new();
    let (model, out) = (dataset("digits/digits.model"), folder.path("out"));
    let mode = |path: &str| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let set = |path: &str, mode: u32| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let import = || done(&["import", &model, "-o", &out]);
    import();
    assert_eq!(mode(&out) & 0o077, 0, "a model holds training rows");
    for wanted in [0o644, 0o640, 0o600] {
        set(&out, wanted);
        import();
        assert_eq!(mode(&out), wanted);
    }
    set(&out, 0o400);
    let before = fs::read(&out).unwrap();
    assert!(refused(&["import", &model, "-o", &out]).contains("read-only"));
    assert!(fs::read(&out).unwrap() == before && mode(&out) == 0o400);
    let link = folder.path("link");
    symlink("behind", &link).unwrap();
    done(&["import", &model, "-o", &link]);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(fs::read(folder.path("behind")).unwrap() == before);
}

/// Root may write anywhere: the program then runs as another user.
#[cfg(unix)]
#[test]
fn a_folder_without_permission_is_an_error_and_keeps_its_files() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::os::unix::process::CommandExt;
    const NOBODY: u32 = 65534;
    let folder = Folder::new();
    let set = |path: &str, mode: u32| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let (locked, out) = (folder.path("locked"), folder.path("locked/out"));
    fs::create_dir(&locked).unwrap();
    fs::write(&out, "old").unwrap();
    let model = folder.path("digits.model");
    fs::copy(dataset("digits/digits.model"), &model).unwrap();
    let program = folder.path("mercer");
    fs::copy(env!("CARGO_BIN_EXE_mercer"), &program).unwrap();
    [
        (folder.path("."), 0o755),
        (locked.clone(), 0o555),
        (out.clone(), 0o666),
        (model.clone(), 0o644),
        (program.clone(), 0o755),
    ]
    .iter()
    .for_each(|(path, mode)| set(path, *mode));
    let mut command = Command::new(&program);
    if fs::metadata(&locked).unwrap().uid() == 0 {
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = command.args(["import", &model, "-o", &out]).current_dir("/").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("Permission denied"), "{said}");
    assert_eq!(fs::read_to_string(&out).unwrap(), "old");
    set(&locked, 0o755);
    assert_eq!(fs::read_dir(&locked).unwrap().count(), 1);
}

#[cfg(unix)]
#[test]
fn a_pipe_whose_reader_left_is_an_error_and_standard_output_may_end_early() {
    let folder = Folder::new();
    let pipe = folder.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let (model, queries) = (dataset("digits/digits.model"), dataset("digits/queries.svm"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_mercer"));
    command
        .args(["predict", &model, &queries, "--format", "jsonl", "-o", &pipe])
        .stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    drop(fs::File::open(Path::new(&pipe)).unwrap());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("the reader of the pipe left"), "{said}");
}
