//! Plans from strangers: forged files never certify a wrong label, what is not verified is left out, and what this user fitted
//! or verified works without a further step. Files and what they show: `mercer-machine/tests/data/trust/README.md`.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use mercer::machine::{Budget, file};
use mercer::query::{Plan, PlanTrust};
use serde_json::Value;

use crate::common::Folder;
use crate::guide::table;
use crate::json::check;

/// A user of his own: the command with a cache folder that nobody else has.
struct User<'a>(&'a Folder, &'static str);

impl User<'_> {
    fn run(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_mercer"))
            .args(arguments)
            .env("MERCER_CACHE_DIR", self.0.path(self.1))
            .output()
            .expect("mercer starts")
    }

    fn code(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let output = self.run(arguments);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// The object of a command that must succeed, and what it said.
    fn object(&self, arguments: &[&str]) -> (Value, String) {
        let output = self.run(&[arguments, &["--json"]].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments:?}: {said}");
        (serde_json::from_slice(&output.stdout).expect("one JSON object"), said)
    }
}

fn forged(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../mercer-machine/tests/data/trust");
    folder.join(name).to_str().expect("a plain path").to_owned()
}

#[test]
fn forged_plans_are_refused_by_every_verb_that_answers() {
    let folder = Folder::new();
    let user = User(&folder, "cache");
    let stages = [
        "anytime",
        "compressed",
        "monomials",
        "projected",
        "spectral",
        "table",
        "table_i",
        "taylor",
    ];
    for stage in stages {
        let (model, queries) = (
            forged(&format!("forged_plan_{stage}.mercer")),
            forged(&format!("forged_plan_{stage}.svm")),
        );
        for verb in ["predict", "explain", "bench"] {
            let (code, said) = user.code(&[verb, &model, &queries]);
            assert_eq!(code, Some(1), "{verb} {stage}: {said}");
            assert!(said.contains("cannot be believed"), "{verb} {stage}: {said}");
        }
        let (code, said) = user.code(&["verify", &model]);
        assert_eq!(code, Some(1), "{stage}: {said}");
        assert!(said.contains("cannot be believed"), "{stage}: {said}");
        let (object, _) = user.object(&["inspect", &model]);
        assert_eq!(object["verification"]["state"], "wrong", "{stage}");
        // Whoever says so gets what the file says, and is told.
        let (object, said) = user.object(&["predict", &model, &queries, "--trust-plan"]);
        assert!(said.contains("believed without verification"), "{stage}: {said}");
        assert_eq!(object["trusted_plan"], true);
        assert!(
            object["certainties"]["certified"].as_u64().unwrap() > 0,
            "{stage} is forged for it"
        );
    }
    let model = forged("forged_plan_says_exact.mercer");
    for arguments in [vec!["verify", &model], vec!["predict", &model, &forged("q1.svm")]] {
        let (code, said) = user.code(&arguments);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("the plan calls itself 'exact'"), "{said}");
    }
}

#[test]
fn a_certified_plan_works_for_its_maker_and_for_others() {
    let folder = Folder::new();
    let (maker, other) = (User(&folder, "maker"), User(&folder, "other"));
    let (train, queries) = (
        folder.write("train.csv", &table(200, 0, false)),
        folder.write("q.csv", &table(100, 5000, false)),
    );
    let (model, fast) = (folder.path("m.mercer"), folder.path("fast.mercer"));
    maker.object(&["train", &train, "-o", &model]);
    let plan = "cascade(anytime, low_precision, exact)";
    maker.object(&["compile", &model, "--plan", plan, "-o", &fast]);
    let (mine, said) = maker.object(&["predict", &fast, &queries]);
    assert!(said.is_empty(), "{said}");
    let (theirs, said) = other.object(&["predict", &fast, &queries]);
    assert!(said.is_empty(), "it is verified when it is loaded: {said}");
    assert_eq!(mine["certainties"], theirs["certainties"]);
    assert!(mine["certainties"]["certified"].as_u64().unwrap() > 0);
    let state =
        |user: &User<'_>| user.object(&["inspect", &fast]).0["verification"]["state"].clone();
    assert_eq!((state(&maker), state(&other)), ("known".into(), "verified".into()));
    let (object, _) = other.object(&["verify", &fast]);
    check("verify", &object);
    assert_eq!(object["verified"], "everything");
    assert_eq!(object["verified_stages"][0]["rests_on"], "constants");
    assert_eq!(object["verified_stages"][1]["rests_on"], "machine");
    assert_eq!(state(&other), "known");
    let (object, _) = other.object(&["verify", &model]);
    assert_eq!(object["plan"], Value::Null);
    assert!(fs::read_dir(folder.path("other/plans")).unwrap().count() == 1, "nothing else is kept");
}

#[test]
fn a_calibrated_plan_of_a_stranger_is_tested_before_it_is_used() {
    let folder = Folder::new();
    let (maker, other) = (User(&folder, "maker"), User(&folder, "other"));
    let train = folder.write("train.csv", &table(200, 0, false));
    let sample = folder.write("sample.csv", &table(1500, 1000, false));
    let queries = folder.write("q.csv", &table(300, 5000, false));
    let (model, fast) = (folder.path("m.mercer"), folder.path("fast.mercer"));
    maker.object(&["train", &train, "-o", &model]);
    let plan = "cascade(pca(1, 2), low_precision, exact)";
    let compile =
        ["compile", &model, "--plan", plan, "--sample", &sample, "--eps", "0.05", "-o", &fast];
    maker.object(&compile);
    let (mine, said) = maker.object(&["predict", &fast, &queries]);
    assert!(said.is_empty() && mine["certainties"]["calibrated"].as_u64().unwrap() > 0, "{said}");
    // Another user: the estimates are left out, and a sentence says so.
    let (theirs, said) = other.object(&["predict", &fast, &queries]);
    assert!(said.contains("calibration that was not tested here"), "{said}");
    assert_eq!(theirs["certainties"]["calibrated"], 0);
    assert_eq!(theirs["left_out"][0]["stage"], "pca(1, 2)");
    assert!(theirs.get("calibration").is_none());
    let (code, said) = other.code(&["verify", &fast]);
    assert_eq!(code, Some(4), "{said}");
    // A larger sample: the threshold was chosen as wide as the first one allows.
    let fresh = folder.write("fresh.csv", &table(4000, 20_000, false));
    let (object, _) = other.object(&["verify", &fast, "--sample", &fresh]);
    assert_eq!(object["test"]["holds"], true);
    assert_eq!(object["verified"], "everything");
    let (theirs, said) = other.object(&["predict", &fast, &queries]);
    assert!(said.is_empty(), "{said}");
    assert_eq!(mine["certainties"], theirs["certainties"]);
    // The promise is false for these rows: those on which plan and machine disagree, many times.
    let labels = |model: &str| {
        let out = folder.path("answers");
        maker.object(&["predict", model, &fresh, "-o", &out, "--format", "libsvm"]);
        fs::read_to_string(out).unwrap()
    };
    let (estimated, exact) = (labels(&fast), labels(&model));
    let text = fs::read_to_string(&fresh).unwrap();
    let (header, rows) = text.split_once('\n').unwrap();
    let pairs = rows.lines().zip(estimated.lines().zip(exact.lines()));
    let wrong: Vec<&str> = pairs.filter(|(_, (a, b))| a != b).map(|(row, _)| row).collect();
    assert!(!wrong.is_empty(), "a plan with eps 0.05 disagrees somewhere");
    let many: Vec<&str> = wrong.iter().cycle().take(1000).copied().collect();
    let hard = folder.write("hard.csv", &format!("{header}\n{}\n", many.join("\n")));
    let third = User(&folder, "third");
    let output = third.run(&["verify", &fast, "--sample", &hard]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("calibration    wrong: 1000 disagreements in 1000 queries"), "{said}");
    let (theirs, _) = third.object(&["predict", &fast, &queries]);
    assert_eq!(theirs["certainties"]["calibrated"], 0, "what is wrong is not remembered");
}

/// A calibrated plan with a budget that the whole of it keeps for most queries, and the limit.
fn budgeted(folder: &Folder, maker: &User<'_>, queries: &str) -> (String, u64) {
    let train = folder.write("train.csv", &table(200, 0, false));
    let sample = folder.write("sample.csv", &table(1500, 1000, false));
    let (model, fast) = (folder.path("m.mercer"), folder.path("fast.mercer"));
    maker.object(&["train", &train, "-o", &model]);
    let plan = "cascade(pca(1, 2), low_precision, exact)";
    let compile =
        ["compile", &model, "--plan", plan, "--sample", &sample, "--eps", "0.05", "-o", &fast];
    maker.object(&compile);
    let tuned = folder.path("tuned.mercer");
    maker.object(&["tune", &model, "--sample", &sample, "--time-limit", "1s", "-o", &tuned]);
    let open = |path: &str| file::load(Path::new(path)).unwrap();
    let rows = open(&fast).machine.supports().clone();
    let mut whole = open(&fast);
    let sections = whole.plan.as_mut().unwrap();
    let plan = Plan::load(&whole.machine, sections, PlanTrust::Everything).unwrap();
    let costs = plan.decide(&rows).unwrap();
    let mut costs: Vec<u64> = costs.iter().map(|found| found.cost.multiply_adds).collect();
    costs.sort_unstable();
    let multiply_adds = costs[costs.len() / 2];
    let mut tuning = open(&tuned).plan.unwrap().tuning.unwrap();
    tuning.budget = Some(Budget { microseconds: 4.0, rate: None, multiply_adds });
    sections.tuning = Some(tuning);
    let path = folder.path("budgeted.mercer");
    file::save(&whole, file::format("mercer").unwrap(), Path::new(&path)).unwrap();
    let (object, _) = maker.object(&["predict", &path, queries, "--trust-plan"]);
    assert_eq!(object["budget"]["multiply_adds"], multiply_adds);
    (path, multiply_adds)
}

#[test]
fn a_budget_of_a_stranger_holds_for_his_whole_plan_or_not_at_all() {
    let folder = Folder::new();
    let queries = folder.write("q.csv", &table(300, 5000, false));
    let (fast, limit) = budgeted(&folder, &User(&folder, "maker"), &queries);
    let other = User(&folder, "other");
    let limit = limit.to_string();
    // Nothing is known of the plan; then its constants are: both times the estimates do not answer.
    for _ in 0..2 {
        for verb in ["predict", "bench"] {
            let (object, said) = other.object(&[verb, &fast, &queries]);
            let unsettled = match verb {
                "predict" => &object["certainties"]["unsettled"],
                _ => &object["unsettled"],
            };
            assert_eq!(*unsettled, 0, "{verb}: {object}");
            assert!(object.get("budget").is_none(), "{verb}: {object}");
            assert!(said.contains("budget of 4 us belongs to the whole plan"), "{verb}: {said}");
        }
        let (path, _) = other.object(&["explain", &fast, &queries, "--row", "7"]);
        assert_ne!(path["certainty"], "unsettled");
        let text = other.run(&["explain", &fast, &queries]).stdout;
        assert!(!String::from_utf8_lossy(&text).contains("of the test queries"));
        // What the user sets himself is obeyed, and a time is measured with what is left of the plan.
        let (own, _) = other.object(&["predict", &fast, &queries, "--budget", "1"]);
        assert_eq!(own["certainties"]["unsettled"], 300);
        let (own, _) = other.object(&["predict", &fast, &queries, "--budget-us", "1e6"]);
        assert_eq!(own["certainties"]["unsettled"], 0);
        other.run(&["verify", &fast]);
    }
    // Who believes the whole of it gets it with its budget.
    let (object, _) = other.object(&["predict", &fast, &queries, "--trust-plan"]);
    let limited = ["predict", &fast, &queries, "--trust-plan", "--budget", &limit];
    assert_eq!(object["certainties"], other.object(&limited).0["certainties"]);
    assert!(object["certainties"]["unsettled"].as_u64() > Some(0), "{object}");
    assert!(object["certainties"]["calibrated"].as_u64() > Some(0), "{object}");
    // A plan that is cut for C is no longer the whole one.
    let c = folder.path("plan.c");
    let export = ["export", &fast, "--trust-plan", "--plan", "possible", "-o", &c];
    let (_, said) = other.object(&export);
    assert!(said.contains("budget of 4 us belongs to the whole plan"), "{said}");
}

/// A model with prediction sets of a user, and its file with another quantile.
fn with_sets(folder: &Folder, maker: &User<'_>) -> (String, String) {
    let train = folder.write("train.csv", &table(200, 0, false));
    let sample = folder.write("sample.csv", &table(600, 1000, false));
    let (model, sets) = (folder.path("m.mercer"), folder.path("sets.mercer"));
    maker.object(&["train", &train, "-o", &model, "--kernel", "rbf(gamma=1)"]);
    let tune = ["tune", &model, "--sample", &sample, "--time-limit", "2s", "-o", &sets];
    maker.object(&[&tune[..], &["--coverage", "0.9"]].concat());
    let bytes = fs::read(&sets).unwrap();
    // The header is JSON within JSON: `"conformal":{...,"quantile":0.5}` with escaped quotes.
    let find = |word: &[u8], from: usize| {
        from + bytes[from..].windows(word.len()).position(|at| at == word).expect("the key")
    };
    let from = find(br#"quantile\":"#, find(b"conformal", 0)) + br#"quantile\":"#.len();
    let end = find(b"}", from);
    let other = format!("{:1$}", -9, end - from);
    let forged = [&bytes[..from], other.as_bytes(), &bytes[end..]].concat();
    let path = folder.path("forged.mercer");
    fs::write(&path, forged).unwrap();
    (sets, path)
}

#[test]
fn prediction_sets_of_a_stranger_are_tested_before_they_are_used() {
    let folder = Folder::new();
    let (maker, other) = (User(&folder, "maker"), User(&folder, "other"));
    let (sets, forged) = with_sets(&folder, &maker);
    let queries = folder.write("q.csv", &table(300, 5000, false));
    let ask = |model: &str| ["predict", model, &queries, "--sets"].map(str::to_owned);
    let ask = |user: &User<'_>, model: &str| {
        let words = ask(model);
        user.code(&words.each_ref().map(String::as_str))
    };
    assert_eq!(ask(&maker, &sets).0, Some(0));
    // A forged quantile is not believed of anybody, not even by the maker of the file that it was.
    for (user, model) in [(&maker, &forged), (&other, &forged), (&other, &sets)] {
        let (code, said) = ask(user, model);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("calibrated elsewhere") && said.contains("mercer verify"), "{said}");
        let (object, _) = user.object(&["inspect", model]);
        assert_eq!(object["conformal"]["state"], "not verified");
    }
    assert_eq!(maker.object(&["inspect", &sets]).0["conformal"]["state"], "known");
    let (_, said) = other.object(&["predict", &forged, &queries, "--sets", "--trust-plan"]);
    assert!(said.contains("prediction sets are believed without a test"), "{said}");
    // Without a sample nothing is tested; a forged one fails on any sample.
    let (code, said) = other.code(&["verify", &forged]);
    assert_eq!(code, Some(4), "{said}");
    let sample = folder.write("fresh.csv", &table(500, 20_000, false));
    let found = other.run(&["verify", &forged, "--sample", &sample, "--json"]);
    assert_eq!(found.status.code(), Some(4));
    let found: Value = serde_json::from_slice(&found.stdout).unwrap();
    check("verify", &found);
    assert_eq!(
        (&found["sets_test"]["holds"], &found["verified"]),
        (&false.into(), &"constants".into())
    );
    assert_eq!(found["sets_test"]["needed"], 451, "of 500 rows for 0.9");
    assert_eq!(ask(&other, &forged).0, Some(1));
    // Correct sets hold on about every second sample; which of them is decided by the seeds of the rows.
    let holds = (0..40).find(|seed| {
        let sample = folder.write("fresh.csv", &table(500, 20_000 + 1000 * seed, false));
        let found = other.run(&["verify", &sets, "--sample", &sample, "--json"]);
        let found: Value = serde_json::from_slice(&found.stdout).unwrap();
        found["sets_test"]["holds"] == true
    });
    assert!(holds.is_some());
    assert_eq!(ask(&other, &sets).0, Some(0));
    assert_eq!(other.object(&["inspect", &sets]).0["conformal"]["state"], "known");
    assert_eq!(ask(&other, &forged).0, Some(1));
}
