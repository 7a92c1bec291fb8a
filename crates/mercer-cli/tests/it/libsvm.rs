//! LIBSVM-compatible commands: flags and output, compared with LIBSVM's programs where they are installed.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::{Folder, done, mercer, object, refused_with};

/// 270 rows of 13 values, two classes that overlap: like heart_scale, made here.
fn made() -> String {
    let mut state = 7u64;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 40) as f64 / (1u64 << 24) as f64 * 2.0 - 1.0
    };
    let mut text = String::new();
    for _ in 0..270 {
        let values: Vec<f64> = (0..13).map(|_| (next() * 100.0).round() / 100.0).collect();
        let score = values[0] + 0.8 * values[3] - values[7] * values[2] + 0.6 * next();
        text += if score > 0.1 { "+1" } else { "-1" };
        for (index, value) in (1..).zip(&values).filter(|(_, value)| **value != 0.0) {
            let _ = write!(text, " {index}:{value}");
        }
        text += "\n";
    }
    text
}

/// heart_scale of the data folder, or rows like it.
fn heart(folder: &Folder) -> String {
    let data =
        std::env::var_os("MERCER_DATA").map_or_else(|| "../shared/data".into(), PathBuf::from);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join(data).join("libsvm/heart_scale"));
    if text.is_err() {
        println!("heart_scale is not in the data directory (MERCER_DATA): rows like it are made");
    }
    folder.write("heart", &text.unwrap_or_else(|_| made()))
}

/// LIBSVM's own program, unless it is not installed.
fn theirs(name: &str, arguments: &[&str]) -> Option<Output> {
    let found = Command::new(name).args(arguments).output();
    if found.is_err() {
        println!("SKIPPED: {name} is not installed (Debian: libsvm-tools)");
    }
    found.ok()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The number after these words.
fn after(text: &str, words: &str) -> f64 {
    let rest = text.split(words).nth(1).unwrap_or_else(|| panic!("'{words}' is missing in {text}"));
    let number: String =
        rest.trim_start().chars().take_while(|c| "+-.e0123456789".contains(*c)).collect();
    number.parse().unwrap_or_else(|_| panic!("no number after '{words}' in {text}"))
}

fn near(a: f64, b: f64, share: f64) -> bool {
    (a - b).abs() <= share * b.abs().max(1.0)
}

/// What svm-train 3.24 printed for the rows made above.
#[test]
fn lines_are_those_that_libsvm_prints() {
    let folder = Folder::new();
    let data = folder.write("made", &made());
    let model = folder.path("made.model");
    for (flags, golden) in GOLDEN {
        let words: Vec<&str> = flags.split_whitespace().chain([data.as_str(), &model]).collect();
        let printed = done(&[&["svm-train"], words.as_slice()].concat());
        let kinds = |text: &str| -> Vec<String> {
            let line = |line: &str| -> String {
                line.chars().filter(|c| !"+-.0123456789*".contains(*c)).collect()
            };
            text.lines().map(line).collect()
        };
        assert_eq!(kinds(&printed), kinds(golden), "{flags}");
        for (words, share) in [("obj =", 1e-3), ("rho =", 2e-2), ("nSV =", 2e-2), ("nu =", 1e-2)] {
            if golden.contains(words) {
                let (own, other) = (after(&printed, words), after(golden, words));
                assert!(near(own, other, share), "{flags}: {words} {own}, LIBSVM {other}");
            }
        }
    }
}

const GOLDEN: [(&str, &str); 6] = [
    (
        "",
        "*\n\
         optimization finished, #iter = 174\n\
         nu = 0.585356\n\
         obj = -125.870864, rho = 0.757506\n\
         nSV = 170, nBSV = 145\n\
         Total nSV = 170\n",
    ),
    (
        "-s 0 -c 10 -g 0.1 -w1 2",
        "*\n\
         optimization finished, #iter = 1076\n\
         obj = -508.217385, rho = 0.822540\n\
         nSV = 118, nBSV = 25\n\
         Total nSV = 118\n",
    ),
    (
        "-s 1 -n 0.4",
        "*\n\
         optimization finished, #iter = 364\n\
         C = 4.838856\n\
         obj = 135.661874, rho = 1.127419\n\
         nSV = 135, nBSV = 84\n\
         Total nSV = 135\n",
    ),
    (
        "-s 2 -n 0.3",
        "*\n\
         optimization finished, #iter = 97\n\
         obj = 1474.014586, rho = 37.953614\n\
         nSV = 87, nBSV = 76\n",
    ),
    (
        "-s 3 -c 1 -p 0.1",
        "*\n\
         optimization finished, #iter = 288\n\
         nu = 0.843100\n\
         obj = -124.531836, rho = 0.418276\n\
         nSV = 248, nBSV = 211\n",
    ),
    (
        "-s 4 -n 0.5",
        "*\n\
         optimization finished, #iter = 286\n\
         epsilon = 0.510695\n\
         obj = -119.801394, rho = 0.478543\n\
         nSV = 153, nBSV = 117\n",
    ),
];

#[test]
fn models_and_answers_go_both_ways() {
    let folder = Folder::new();
    let data = heart(&folder);
    if theirs("svm-train", &[]).is_none() {
        return;
    }
    let (own_model, their_model) = (folder.path("own.model"), folder.path("their.model"));
    for flags in [
        "-c 1",
        "-s 0 -t 0 -c 0.5 -w1 2 -w-1 0.5",
        "-s 0 -t 1 -d 2 -g 0.1 -r 1 -c 10 -h 0 -m 50",
        "-s 0 -t 3 -g 0.01 -r 0.1",
        "-s 1 -n 0.3 -e 0.0001",
        "-s 2 -n 0.2",
        "-s 3 -c 2 -p 0.2",
        "-s 4 -n 0.4 -c 1",
    ] {
        let train = |model: &str| -> Vec<String> {
            let words = flags.split_whitespace().chain([data.as_str(), model]);
            words.map(str::to_owned).collect()
        };
        let own: Vec<String> = train(&own_model);
        let own: Vec<&str> =
            std::iter::once("svm-train").chain(own.iter().map(String::as_str)).collect();
        let printed = done(&own);
        let words = train(&their_model);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let golden = text(&theirs("svm-train", &words).expect("it is installed"));
        assert!(near(after(&printed, "obj ="), after(&golden, "obj ="), 1e-3), "{flags}");
        assert!(near(after(&printed, "rho ="), after(&golden, "rho ="), 2e-2), "{flags}");
        for word in ["nu =", "C =", "epsilon ="] {
            assert_eq!(printed.contains(word), golden.contains(word), "{flags} {word}");
            if golden.contains(word) {
                let (own, other) = (after(&printed, word), after(&golden, word));
                assert!(near(own, other, 2e-2), "{flags}: {word} {own} {other}");
            }
        }
        // Each program asks the other's model: the same labels and the same lines.
        for model in [&own_model, &their_model] {
            let (own_out, their_out) = (folder.path("own.out"), folder.path("their.out"));
            let printed = done(&["svm-predict", &data, model, &own_out]);
            let golden = theirs("svm-predict", &[&data, model, &their_out]).expect("installed");
            assert_eq!(printed, text(&golden), "{flags}");
            let lines = |path: &str| -> Vec<f64> {
                let text = std::fs::read_to_string(path).expect("answers");
                text.lines().map(|line| line.parse().expect("a number")).collect()
            };
            let (own, other) = (lines(&own_out), lines(&their_out));
            assert_eq!(own.len(), other.len());
            // Debian's LIBSVM writes six digits.
            assert!(own.iter().zip(other).all(|(a, b)| near(*a, b, 1e-5)), "{flags}");
        }
    }
}

#[test]
fn probabilities_are_libsvms_where_libsvm_wrote_them() {
    let folder = Folder::new();
    let data = heart(&folder);
    let (model, out) = (folder.path("b.model"), folder.path("b.out"));
    done(&["svm-train", "-b", "1", "-q", &data, &model]);
    done(&["svm-predict", "-b", "1", &data, &model, &out]);
    let answers = std::fs::read_to_string(&out).expect("answers");
    assert!(answers.starts_with("labels 1 -1\n"), "{answers}");
    for line in answers.lines().skip(1) {
        let numbers: Vec<f64> =
            line.split(' ').map(|token| token.parse().expect("number")).collect();
        assert!((numbers[1] + numbers[2] - 1.0).abs() < 1e-5);
        assert_eq!(numbers[0] > 0.0, numbers[1] >= numbers[2]);
    }
    if theirs("svm-train", &["-b", "1", "-q", &data, &model]).is_none() {
        return;
    }
    let their_out = folder.path("their.out");
    let golden = theirs("svm-predict", &["-b", "1", &data, &model, &their_out]).expect("installed");
    assert_eq!(done(&["svm-predict", "-b", "1", &data, &model, &out]), text(&golden));
    assert_eq!(std::fs::read_to_string(&out).unwrap().trim_end(), {
        let text = std::fs::read_to_string(&their_out).unwrap();
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        lines.join("\n")
    });
}

#[test]
fn scaled_rows_are_those_of_svm_scale() {
    let folder = Folder::new();
    let data = folder.write("raw", "1 1:10 2:0.5 4:3\n-1 1:20 3:7 4:3\n+1 1:15 2:-1 4:3\n");
    let more = folder.write("more", "-1 1:30 2:0.25 3:3.5\n1 2:1\n");
    for flags in ["", "-l 0 -u 1", "-y -2 5", "-l 0"] {
        let (own, other) = (folder.path("own.range"), folder.path("their.range"));
        let own_words: Vec<&str> = flags.split_whitespace().chain(["-s", &own, &data]).collect();
        let scaled = done(&[&["svm-scale"], own_words.as_slice()].concat());
        let again = done(&["svm-scale", "-r", &own, &more]);
        assert_eq!(scaled.lines().count(), 3);
        let words: Vec<&str> = flags.split_whitespace().chain(["-s", &other, &data]).collect();
        let Some(golden) = theirs("svm-scale", &words) else { return };
        assert_eq!(scaled, text(&golden), "{flags}");
        let restored = theirs("svm-scale", &["-r", &other, &more]).expect("installed");
        assert_eq!(again, text(&restored), "{flags}");
        let read = |path: &str| std::fs::read_to_string(path).expect("a range");
        assert_eq!(read(&own), read(&other), "{flags}");
    }
}

#[test]
fn cross_validation_prints_what_grid_py_reads() {
    let folder = Folder::new();
    let data = heart(&folder);
    let printed = done(&["svm-train", "-v", "5", "-q", &data]);
    let line = printed.trim_end();
    let accuracy = after(line, "Cross Validation Accuracy =");
    assert!(line.ends_with('%') && (60.0..100.0).contains(&accuracy), "{line}");
    let printed = done(&["svm-train", "-s", "3", "-v", "5", "-q", &data]);
    assert!(after(&printed, "Cross Validation Mean squared error =") > 0.0);
    assert!(after(&printed, "Cross Validation Squared correlation coefficient =") > 0.1);
}

/// A link called svm-train is svm-train, and grid.py works with it.
#[cfg(unix)]
#[test]
fn grid_py_runs_with_a_link_to_mercer() {
    let folder = Folder::new();
    let data = heart(&folder);
    let link = folder.path("svm-train");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_mercer"), &link).expect("a link");
    let printed = Command::new(&link).args(["-v", "3", "-q", &data]).output().expect("it starts");
    assert!(text(&printed).starts_with("Cross Validation Accuracy = "));
    let Some(grid) = ["/usr/bin/svm-grid"].into_iter().find(|path| Path::new(path).exists()) else {
        println!("SKIPPED: svm-grid is not installed (Debian: libsvm-tools)");
        return;
    };
    let found = Command::new("python3")
        .args([grid, "-svmtrain", &link, "-gnuplot", "null", "-out", "null", "-v", "3"])
        .args(["-log2c", "0,2,2", "-log2g", "-4,-2,2", &data])
        .output();
    let Ok(found) = found else {
        println!("SKIPPED: python3 does not start");
        return;
    };
    let last: Vec<f64> = text(&found)
        .lines()
        .last()
        .unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&found.stderr)))
        .split(' ')
        .map(|token| token.parse().expect("a number"))
        .collect();
    assert!(last.len() == 3 && last[2] > 60.0, "{last:?}");
}

#[test]
fn wrong_flags_print_the_usage_and_wrong_files_a_sentence() {
    let output = mercer(&["svm-train", "-k", "1", "nothing"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("Unknown option: -k"));
    let usage = text(&output);
    assert!(usage.starts_with("Usage: svm-train [options] training_set_file [model_file]"));
    assert!(usage.contains("\n\t0 -- C-SVC\t\t(multi-class classification)\n"), "{usage}");
    let (code, message) = refused_with(&["svm-train", "/nowhere/data"]);
    assert!(code == Some(1) && message.contains("/nowhere/data"), "{message}");
    let folder = Folder::new();
    let bad = folder.write("bad", "1 3:1 2:1\n");
    let (code, message) = refused_with(&["svm-train", &bad]);
    assert!(code == Some(1) && message.contains("line 1"), "{message}");
    let (code, message) = refused_with(&["svm-scale", "-l", "1", "-u", "0", &bad]);
    assert!(code == Some(1) && message.contains("inconsistent"), "{message}");
}

/// Beside LIBSVM's: probabilities of `mercer train` follow the label, in all forms.
#[test]
fn probabilities_of_mercer_train_follow_the_label() {
    let folder = Folder::new();
    let data = heart(&folder);
    let (model, csv) = (folder.path("p.mercer"), folder.path("p.csv"));
    for (kind, extra) in
        [("sigmoid", "c_svc(C=1)"), ("isotonic", "c_svc(C=1)"), ("sigmoid", "fisher(C=0.1)")]
    {
        done(&["train", &data, "-o", &model, "--probabilities", kind, "--formulation", extra]);
        done(&["predict", &model, &data, "--probabilities", "-o", &csv]);
        let answers = std::fs::read_to_string(&csv).expect("answers");
        let mut lines = answers.lines();
        assert!(lines.next().is_some_and(|head| head.ends_with(",cost,p(1),p(-1)")), "{answers}");
        for line in lines {
            let fields: Vec<&str> = line.split(',').collect();
            let plus: f64 = fields[fields.len() - 2].parse().expect("a number");
            assert_eq!(fields[1] == "1", plus > 0.5, "{line}");
        }
        let summary = object(&["predict", &model, &data, "--probabilities", "--json"]);
        let loss = summary["log_loss"].as_f64().expect("a number");
        assert!(loss > 0.0 && loss < 0.65, "{kind} {extra}: {loss}");
    }
    let plain = folder.path("plain.mercer");
    done(&["train", &data, "-o", &plain]);
    let (code, message) = refused_with(&["predict", &plain, &data, "--probabilities"]);
    assert!(code == Some(1) && message.contains("--probabilities"), "{message}");
}
