//! `mercer tune`: plans, budgets, refusals and the HTML report.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Folder, done, mercer, object, refused, refused_with};
use serde_json::Value;

/// A class whose name is markup.
const MARKUP_NAME: &str = "<script>alert(1)</script>";

/// Two crescents as a table; one class has markup as its name.
fn crescents(rows: usize, from: usize) -> String {
    let mut text = String::from("x,y,label\n");
    for n in from..from + rows {
        // Golden-ratio steps: even, never twice the same, no generator needed.
        let (a, b) = ((n as f64 * 0.618_033_9) % 1.0, (n as f64 * 0.754_877_6) % 1.0);
        let side = if n % 2 == 0 { 1.0 } else { -1.0 };
        let angle = std::f64::consts::PI * a;
        let (x, y) = (side * (angle.cos() - 0.5), side * (angle.sin() - 0.3));
        let noise = 0.5 * (b - 0.5);
        let label = if n % 2 == 0 { MARKUP_NAME } else { "right" };
        let _ = writeln!(text, "{:.5},{:.5},{label}", x + noise, y + 0.7 * noise);
    }
    text
}

/// A wave in two columns, as a table with its value last.
fn curve(rows: usize, from: usize) -> String {
    let mut text = String::from("x,y,value\n");
    for n in from..from + rows {
        let (a, b) = ((n as f64 * 0.618_033_9) % 1.0, (n as f64 * 0.754_877_6) % 1.0);
        let _ = writeln!(text, "{a:.5},{b:.5},{:.5}", (6.0 * a).sin() + b * b);
    }
    text
}

/// A trained machine, a sample, and queries that tune never sees.
fn trained(folder: &Folder) -> [String; 3] {
    let training = folder.write("train.csv", &crescents(400, 0));
    let sample = folder.write("sample.csv", &crescents(600, 10_000));
    let unseen = folder.write("unseen.csv", &crescents(500, 50_000));
    let model = folder.path("m.mercer");
    done(&["train", &training, "-o", &model, "--kernel", "rbf(gamma=1)", "--quiet"]);
    [model, sample, unseen]
}

#[test]
fn tune_keeps_the_labels_and_inspect_and_explain_report_it() {
    let folder = Folder::new();
    let [model, sample, unseen] = trained(&folder);
    let fast = folder.path("fast.mercer");
    let tuned =
        object(&["tune", &model, "--sample", &sample, "--for", "latency", "-o", &fast, "--json"]);
    assert_eq!(tuned["contract"], "certified");
    assert_eq!(tuned["final_test"]["disagreements"], 0);
    assert_eq!(tuned["final_test"]["queries"], 200);
    assert!(tuned["tried"].as_array().is_some_and(|tried| !tried.is_empty()), "{tuned}");
    assert_eq!(tuned["difficulty"].as_array().map(Vec::len), Some(10));
    // On a machine this small exact may be the fastest, and is then kept.
    let said = if tuned["plan"] == "exact" { "exact evaluation in f64" } else { "exact" };
    assert!(tuned["guarantee"].as_str().is_some_and(|text| text.contains(said)), "{tuned}");
    let inspected = object(&["inspect", &fast, "--json"]);
    assert_eq!(inspected["plan"], tuned["plan"]);
    assert_eq!(inspected["tuning"]["reason"], tuned["reason"]);
    let text = done(&["inspect", &fast]);
    assert!(text.contains("contract") && text.contains("disagreements with exact"), "{text}");
    let labels = |model: &str| done(&["predict", model, &unseen, "--quiet"]);
    assert_eq!(labels(&model), labels(&fast));
    let path = done(&["explain", &fast, &unseen, "--row", "3"]);
    assert!(path.contains("% of the test queries"), "{path}");
}

#[test]
fn training_rows_as_a_sample_are_told_with_the_flag_that_says_otherwise() {
    let folder = Folder::new();
    let [model, _, _] = trained(&folder);
    let (training, fast) = (folder.path("train.csv"), folder.path("fast.mercer"));
    let calibrated = "calibrated(eps=0.05, delta=0.05)";
    let flags = ["--sample", &training, "-o", &fast];
    let tune = [&["tune", &model, "--time-limit", "1s"], &flags[..]].concat();
    let plan = "cascade(pca(1, 2), low_precision, exact)";
    let compile =
        [&["compile", &model, "--plan", plan, "--eps", "0.05", "--delta", "0.05"], &flags[..]]
            .concat();
    // A promise would rest on the sample: it is refused. Proofs do not: a warning says what the times may be worth.
    for arguments in [[&tune[..], &["--contract", calibrated]].concat(), compile] {
        let (code, said) = refused_with(&arguments);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("training data") && said.contains("--trust-sample"), "{said}");
        assert!(!Path::new(&fast).exists());
        let output = mercer(&[&arguments[..], &["--trust-sample"]].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && !said.contains("training data"), "{said}");
        fs::remove_file(&fast).unwrap();
    }
    let told = |more: &[&str]| {
        let output = mercer(&[&tune[..], more].concat());
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let warning = "rows of the sample equal supports of the machine; is the sample training data? (--trust-sample";
    assert!(told(&[]).contains(warning));
    assert!(!told(&["--trust-sample"]).contains(warning));
}

#[test]
fn budgets_and_tolerances_are_kept_with_the_model() {
    let folder = Folder::new();
    let [model, sample, unseen] = trained(&folder);
    let fast = folder.path("fast.mercer");
    let tune = ["tune", &model, "--sample", &sample, "--budget-us", "0.001", "-o", &fast, "--json"];
    let (code, said) = refused_with(&tune[..tune.len() - 1]);
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("a budget of 0.001 us settles 0 %") && said.contains("us all of them"),
        "{said}"
    );
    assert!(!Path::new(&fast).exists(), "nothing is written");
    let tuned = object(&[&tune[..], &["--unsettled", "1"]].concat());
    assert_eq!(tuned["budget"]["microseconds"], 0.001, "{tuned}");
    let counts = object(&["predict", &fast, &unseen, "--json"]);
    assert!(counts["certainties"]["unsettled"].as_u64() > Some(0), "{counts}");
    let timed = object(&["bench", &fast, &unseen, "--json"]);
    assert_eq!(timed["unsettled"], counts["certainties"]["unsettled"]);
    let free = ["predict", &fast, &unseen, "--json", "--budget", "1000000"];
    assert_eq!(object(&free)["certainties"]["unsettled"], 0);

    let few = folder.write("curve.csv", &curve(150, 0));
    let more = folder.write("more.csv", &curve(300, 1000));
    let unseen = folder.write("others.csv", &curve(300, 9000));
    let (values, near) = (folder.path("values.mercer"), folder.path("near.mercer"));
    let svr = ["--formulation", "epsilon_svr(C=1, epsilon=0.05)", "--kernel", "rbf(gamma=2)"];
    done(&[&["train", &few, "-o", &values, "--quiet"], &svr[..]].concat());
    let tuned = object(&[
        "tune",
        &values,
        "--sample",
        &more,
        "--tolerance",
        "0.1",
        "--time-limit",
        "5s",
        "-o",
        &near,
        "--json",
        "--quiet",
    ]);
    assert_eq!(
        (&tuned["tolerance"], &tuned["final_test"]["disagreements"]),
        (&0.1.into(), &0.into())
    );
    let answers = |model: &str| -> Vec<f64> {
        let text = done(&["predict", model, &unseen, "--quiet"]);
        text.lines().map(|line| line.parse().expect("a number")).collect()
    };
    let pairs = answers(&values).into_iter().zip(answers(&near)).collect::<Vec<_>>();
    assert!(pairs.iter().all(|(a, b)| (a - b).abs() <= 0.1 * (1.0 + 1e-9)));
}

#[test]
fn bad_contracts_samples_and_limits_get_a_sentence_and_write_nothing() {
    let folder = Folder::new();
    let [model, sample, _] = trained(&folder);
    let out = folder.path("out.mercer");
    let refusal = mercer(&["tune", &model, "--sample", &sample, "--contract", "sure", "-o", &out]);
    let text = String::from_utf8_lossy(&refusal.stderr);
    assert_eq!(refusal.status.code(), Some(2));
    assert!(text.contains("exact, certified, calibrated"), "{text}");
    let few = folder.write("few.csv", &crescents(10, 0));
    let text = refused(&["tune", &model, "--sample", &few, "-o", &out]);
    assert!(text.contains("the sample has 10 queries; at least 30"), "{text}");
    let text = refused(&["tune", &model, "--sample", &sample, "--budget-us", "0", "-o", &out]);
    assert!(text.contains("the budget is 0; it must be positive"), "{text}");
    assert!(!Path::new(&out).exists());
    // No time at all: nothing is tried, exact is kept, and it says so.
    let tuned =
        object(&["tune", &model, "--sample", &sample, "--time-limit", "0s", "-o", &out, "--json"]);
    assert_eq!((&tuned["plan"], &tuned["stopped"]), (&"exact".into(), &true.into()));
}

#[test]
fn the_report_is_complete_escaped_and_drawn() {
    let folder = Folder::new();
    let [model, sample, _] = trained(&folder);
    let page = folder.path("report.html");
    let out = folder.path("fast.mercer");
    done(&["tune", &model, "--sample", &sample, "--report", &page, "-o", &out, "--quiet"]);
    let html = fs::read_to_string(&page).unwrap();
    // Four drawings hold their data; the module draws them.
    assert!(html.contains("&lt;script&gt;alert(1)"));
    assert_eq!(
        (
            html.matches("<script type=\"application/json\"").count(),
            html.matches("<script").count()
        ),
        (4, 5)
    );
    let own = html.replace("http://www.w3.org/2000/svg", "");
    for outside in ["http://", "https://", "src=", "@import", "url("] {
        assert!(!own.contains(outside), "{outside}");
    }
    for part in ["Guarantee", "<h2>Test</h2>", "Plans compared"] {
        assert!(html.contains(part), "{part}");
    }
    let pictures: Vec<&str> =
        html.match_indices("<figure>").map(|(at, _)| part(&html[at..], "", "</figure>")).collect();
    assert_eq!(pictures.len(), 4);
    let Some(browser) = browser() else {
        eprintln!("skipped: no chromium here (Debian package `chromium`), pictures were not drawn");
        return;
    };
    let style = part(&html, "<style>", "</style>");
    let module = part(&html, "<script type=\"module\">", "</script>");
    for (number, picture) in pictures.iter().enumerate() {
        // Without its title, which is no drawing.
        let picture = picture.replace(part(picture, "<figcaption>", "</figcaption>"), "");
        let text = format!("<!doctype html>{style}<body>{picture}{module}");
        let alone = folder.write("one.html", &text);
        let shot = folder.path(&format!("{number}.png"));
        for (scheme, is_dark) in [("light", false), ("dark", true)] {
            draw(&browser, &alone, &shot, is_dark);
            let (marked, ground) = marked(&fs::read(&shot).unwrap());
            assert!(marked > 0.003, "picture {number} is blank, {scheme}: {marked}");
            assert_eq!(ground < 128, is_dark, "picture {number}, {scheme}: its ground is {ground}");
        }
    }
    let on_phone = |script| evaluated_at(&browser, &folder, &html, 400, script);
    assert_eq!(on_phone("page.querySelectorAll('figure svg').length"), 4);
    assert_eq!(on_phone("page.documentElement.scrollWidth"), 400, "wider than a phone");
    let narrowest = "Math.min(...[...page.querySelectorAll('.figures td:first-child')].map(c => c.offsetWidth))";
    let narrowest = on_phone(narrowest);
    assert!((200..=400).contains(&narrowest), "plans are in a column of {narrowest} pixels");
}

/// The part of a text from `start` to the first `end` behind it, both included.
fn part<'t>(text: &'t str, start: &str, end: &str) -> &'t str {
    let at = text.find(start).expect("it begins");
    let length = text[at..].find(end).expect("it ends") + end.len();
    &text[at..at + length]
}

/// Chromium, if there is one.
fn browser() -> Option<PathBuf> {
    let paths = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let places = std::env::split_paths(&paths).flat_map(|dir| names.map(|name| dir.join(name)));
    places.into_iter().find(|place| place.is_file())
}

fn headless(browser: &Path, arguments: &[&str]) -> String {
    let profile = tempfile::tempdir().unwrap();
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .args(arguments)
        .output()
        .expect("chromium starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn draw(browser: &Path, page: &str, shot: &str, is_dark: bool) {
    let (shot, page) = (format!("--screenshot={shot}"), format!("file://{page}"));
    let scheme = format!("--blink-settings=preferredColorScheme={}", u8::from(!is_dark));
    headless(browser, &["--window-size=500,600", &scheme, &shot, &page]);
}

/// What a script makes of the `page` in a frame of that width.
fn evaluated_at(browser: &Path, folder: &Folder, html: &str, width: u32, script: &str) -> u32 {
    let inner = html.replace('&', "&amp;").replace('"', "&quot;");
    let frame = format!(
        "<!doctype html><iframe width=\"{width}\" height=\"900\" style=\"border:0\" srcdoc=\"{inner}\" \
         onload=\"const page = this.contentDocument; document.title='w'+{script}+'w'\"></iframe>"
    );
    let page = format!("file://{}", folder.write("frame.html", &frame));
    let dom = headless(browser, &["--virtual-time-budget=2000", "--dump-dom", &page]);
    let found = dom.split("<title>w").nth(1).and_then(|rest| rest.split('w').next());
    found.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("no title in {dom}"))
}

/// The share of pixels of a PNG file that differ from the one in the last corner, and how light that one is.
fn marked(bytes: &[u8]) -> (f64, u8) {
    let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let (width, height) = (word(16), word(20));
    assert_eq!(bytes[24], 8, "eight bits a channel");
    let channels = if bytes[25] == 6 { 4 } else { 3 };
    let (mut packed, mut at) = (Vec::new(), 8);
    while at + 8 < bytes.len() {
        let length = word(at);
        if &bytes[at + 4..at + 8] == b"IDAT" {
            packed.extend_from_slice(&bytes[at + 8..at + 8 + length]);
        }
        at += length + 12;
    }
    let mut raw = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::ZlibDecoder::new(&packed[..]), &mut raw).unwrap();
    let rows = unfiltered(&raw, width * channels, channels);
    assert_eq!(rows.len(), width * height * channels);
    let corner = &rows[rows.len() - channels..];
    let unlike = rows.chunks_exact(channels).filter(|pixel| *pixel != corner).count();
    (unlike as f64 / (width * height) as f64, corner[1])
}

/// Undoes the five filters of PNG.
fn unfiltered(raw: &[u8], stride: usize, channels: usize) -> Vec<u8> {
    let mut out: Vec<u8> = Vec::with_capacity(raw.len());
    for line in raw.chunks_exact(stride + 1) {
        let start = out.len();
        for (n, value) in line[1..].iter().enumerate() {
            let left = if n >= channels { out[start + n - channels] } else { 0 };
            let above = if start > 0 { out[start - stride + n] } else { 0 };
            let corner =
                if start > 0 && n >= channels { out[start - stride + n - channels] } else { 0 };
            let predicted = match line[0] {
                0 => 0,
                1 => left,
                2 => above,
                3 => u8::midpoint(left, above),
                _ => paeth(left, above, corner),
            };
            out.push(value.wrapping_add(predicted));
        }
    }
    out
}

fn paeth(left: u8, above: u8, corner: u8) -> u8 {
    let [a, b, c] = [left, above, corner].map(i16::from);
    let guess = a + b - c;
    let [to_a, to_b, to_c] = [a, b, c].map(|x| (guess - x).abs());
    if to_a <= to_b && to_a <= to_c {
        left
    } else if to_b <= to_c {
        above
    } else {
        corner
    }
}

/// Keys that scripts may rely on, as `docs/guide/json.md` lists them.
#[test]
fn the_object_has_the_documented_keys() {
    let folder = Folder::new();
    let [model, sample, _] = trained(&folder);
    let out = folder.path("out.mercer");
    let contract = "calibrated(eps=0.05, delta=0.1)";
    let tuned = object(&[
        "tune",
        &model,
        "--sample",
        &sample,
        "--contract",
        contract,
        "-o",
        &out,
        "--json",
    ]);
    for key in [
        "contract",
        "aim",
        "seed",
        "instruction_set",
        "threads",
        "sample",
        "exact_times",
        "plan",
        "tried",
        "refused",
        "stopped",
        "final_test",
        "reason",
        "plan_times",
        "calibration",
        "guarantee",
        "difficulty",
    ] {
        assert!(tuned.get(key).is_some(), "{key}: {tuned}");
    }
    assert_eq!(tuned["contract"], contract);
    let keys = ["single_us", "batch_us", "bytes"];
    assert!(
        keys.iter().all(|key| tuned["plan_times"][key].as_f64().is_some_and(|x| x > 0.0)),
        "{tuned}"
    );
    assert!(tuned["calibration"].is_null() || tuned["calibration"]["bound"].as_f64() <= Some(0.05));
    assert_ne!(tuned["sample"]["rows"], Value::Null);
}
