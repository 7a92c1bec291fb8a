//! `--json`: what the verbs really print is what `docs/guide/json.schema.json` says, and the tables of
//! `docs/guide/json.md` are made from it.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use serde_json::{Map, Value};

use crate::common::{Folder, SMALL, dataset, done, mercer, object};

fn guide(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide");
    fs::read_to_string(folder.join(name)).unwrap()
}

fn schema() -> &'static Value {
    static SCHEMA: OnceLock<Value> = OnceLock::new();
    SCHEMA.get_or_init(|| serde_json::from_str(&guide("json.schema.json")).expect("JSON"))
}

/// A schema, or the definition that it refers to.
fn resolved(part: &'static Value) -> &'static Value {
    match part["$ref"].as_str() {
        Some(name) => schema().pointer(name.trim_start_matches('#')).expect("a definition"),
        None => part,
    }
}

fn is_of_type(name: &str, value: &Value) -> bool {
    match name {
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "object" => value.is_object(),
        "array" => value.is_array(),
        "null" => value.is_null(),
        other => panic!("the type '{other}' is not known"),
    }
}

/// What is wrong with a value at a place; the part of JSON Schema that the file uses.
fn wrong(part: &'static Value, value: &Value, place: &str) -> Option<String> {
    let part = resolved(part);
    if let Some(choices) = part["anyOf"].as_array() {
        let all: Option<Vec<String>> = choices.iter().map(|one| wrong(one, value, place)).collect();
        return all.map(|all| all.join("; or "));
    }
    let types: Vec<&str> = match &part["type"] {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => panic!("{place}: the schema has no type"),
    };
    if !types.iter().any(|name| is_of_type(name, value)) {
        return Some(format!("{place} is {value}, not {}", types.join(" or ")));
    }
    if let Some(items) = value.as_array() {
        let item = |(at, value)| wrong(&part["items"], value, &format!("{place}[{at}]"));
        return items.iter().enumerate().find_map(item);
    }
    value.as_object().and_then(|found| wrong_object(part, found, place))
}

fn wrong_object(part: &'static Value, found: &Map<String, Value>, place: &str) -> Option<String> {
    let required = part["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    if let Some(missing) = required.into_iter().find(|key| !found.contains_key(*key)) {
        return Some(format!("{place} has no '{missing}'"));
    }
    found.iter().find_map(|(key, value)| {
        let place = format!("{place}.{key}");
        match (part["properties"].get(key), &part["additionalProperties"]) {
            (Some(known), _) => wrong(known, value, &place),
            (None, Value::Null) => None,
            (None, Value::Bool(false)) => Some(format!("{place} is not in the schema")),
            (None, other) => wrong(other, value, &place),
        }
    })
}

/// Fails unless an object is what the schema says of a verb.
pub fn check(verb: &str, value: &Value) {
    let part = schema()["verbs"].get(verb).unwrap_or_else(|| panic!("no verb '{verb}'"));
    if let Some(problem) = wrong(part, value, verb) {
        panic!("{problem}\n{value}");
    }
}

fn printed(verb: &str, arguments: &[&str]) -> Value {
    let found = object(&[arguments, &["--json"]].concat());
    check(verb, &found);
    found
}

#[test]
fn trainings_print_what_the_schema_says() {
    let folder = Folder::new();
    let (sonar, model) = (dataset("sonar/sonar.csv"), folder.path("m.mercer"));
    for flags in [
        vec!["--cv", "3"],
        vec!["--kernel", "linear", "--solver", "linear"],
        vec!["--kernel", "chi2", "--solver", "additive"],
        vec!["--solver", "low_rank"],
        vec!["--solver", "low_rank", "--polish"],
        vec!["--solver", "primal"],
        vec!["--solver", "auto"],
        vec!["--formulation", "ls_svm"],
    ] {
        printed("train", &[&["train", &sonar, "-o", &model][..], &flags].concat());
    }
    let grid = ["--kernel", "linear", "--formulation", "c_svc(C={1,2})", "--cv", "2"];
    printed("search", &[&["search", &sonar][..], &grid].concat());
}

#[test]
fn verbs_of_models_print_what_the_schema_says() {
    let folder = Folder::new();
    let path = |name: &str| folder.path(name);
    let (sonar, model, fast) = (dataset("sonar/sonar.csv"), path("m.mercer"), path("f.mercer"));
    let (digits, queries) = (dataset("digits/digits.model"), dataset("digits/queries.svm"));
    done(&["train", &sonar, "-o", &model, "--probabilities", "sigmoid", "--scale", "standard"]);
    printed("predict", &["predict", &model, &sonar, "--probabilities"]);
    let lines = done(&["predict", &model, &sonar, "--probabilities", "--format", "jsonl"]);
    lines.lines().for_each(|line| check("answer", &serde_json::from_str(line).unwrap()));
    printed("bench", &["bench", &model, &sonar, "--repeats", "1"]);
    printed("explain", &["explain", &model, &sonar]);
    let why = ["explain", &model, &sonar, "--attribute", "--background", &sonar];
    printed("explain --attribute", &[&why[..], &["--background-rows", "5"]].concat());
    printed("inspect", &["inspect", &model]);
    printed("check of a model", &["check", &model]);
    printed("verify", &["verify", &model]);
    printed("import", &["import", &digits, "-o", &path("i.mercer")]);
    printed("export", &["export", &digits, "--sample", &queries, "-o", &path("e.model")]);
    let estimating = "cascade(student(8), exact)";
    let sample = ["--eps", "0.05", "--sample", &queries, "-o", &fast];
    printed("compile", &[&["compile", &digits, "--plan", estimating][..], &sample].concat());
    printed("predict", &["predict", &fast, &queries, "--audit", "0.5"]);
    printed("verify", &["verify", &fast, "--sample", &queries]);
    let (tuned, limit) = (path("t.mercer"), ["--time-limit", "3s"]);
    printed("tune", &[&["tune", &digits, "--sample", &queries, "-o", &tuned][..], &limit].concat());
    printed("inspect", &["inspect", &tuned]);
    printed("bench", &["bench", &tuned, &queries, "--repeats", "1"]);
    printed("explain", &["explain", &tuned, &queries]);
    printed("check of a model", &["check", &tuned]);
    let small = path("c.mercer");
    let kept = ["--size", "20", "--sample", &queries, "-o", &small];
    printed("compress", &[&["compress", &digits][..], &kept].concat());
    printed("inspect", &["inspect", &small]);
}

#[test]
fn other_verbs_print_what_the_schema_says() {
    let folder = Folder::new();
    let (sonar, model) = (dataset("sonar/sonar.csv"), folder.write("m.model", SMALL));
    printed("convert", &["convert", &sonar, &folder.path("s.csv")]);
    printed("check of data", &["check", &sonar]);
    printed("check of data", &["check", &dataset("digits/queries.svm")]);
    let curve: String = (0..60).map(|row| format!("{row},{}.5\n", row * row)).collect();
    printed("check of data", &["check", &folder.write("curve.csv", &curve)]);
    printed("inspect", &["inspect", &model]);
    printed("list", &["list"]);
    printed("man", &["man"]);
    printed("man", &["man", "--to", &folder.path("pages")]);
    printed("completions", &["completions", "bash"]);
    let only = ["--only", "Haberman", "--repeats", "1"];
    printed("reproduce", &[&["reproduce", "decoste03"][..], &only].concat());
    let all = ["all", "--report", &folder.path("papers")];
    printed("reproduce all", &[&["reproduce"][..], &all, &only].concat());
}

#[test]
fn errors_are_objects_too() {
    let folder = Folder::new();
    for (arguments, code) in [
        (vec!["inspect", "nothing.mercer", "--json"], 1),
        (vec!["predict", "--json"], 2),
        (vec!["train", "--no-such-flag", "--json"], 2),
        (vec!["reproduce", "dm03", "--data", "/nonexistent", "--json"], 5),
        (vec!["train", "nothing.csv", "-o", "-", "--json"], 1),
    ] {
        let output = mercer(&arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        let found: Value = serde_json::from_str(&text).expect("one object");
        check("any verb that fails", &found);
        assert_eq!(found["exit_code"], code);
        assert!(!output.stderr.is_empty(), "people are told too");
    }
    let data = folder.write("d.svm", "1 0:1\n");
    let output = mercer(&["predict", &folder.write("m", SMALL), &data, "--json"]);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(found["hint"].as_str().unwrap().contains("--zero-based"), "{found}");
    assert!(found["error"].as_str().unwrap().contains("line 1"), "{found}");
}

/// The keys of an object in words: those that are not always there in brackets.
fn keys(part: &Value) -> String {
    let required: Vec<&str> =
        part["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let all = part["properties"].as_object().expect("properties").keys();
    let mut names: Vec<String> = required.iter().map(|key| format!("`{key}`")).collect();
    let others = all.filter(|key| !required.contains(&key.as_str()));
    names.extend(others.map(|key| format!("[`{key}`]")));
    names.join(", ")
}

fn type_in_words(part: &Value) -> String {
    if let Some(choices) = part["anyOf"].as_array() {
        return choices.iter().map(type_in_words).collect::<Vec<_>>().join(" or ");
    }
    let name = |name: &str| match name {
        "array" => format!("list of {}", type_in_words(&part["items"])),
        "object" if part["properties"].is_object() => format!("{{{}}}", keys(part)),
        "object" => format!("map of {}", type_in_words(&part["additionalProperties"])),
        other => other.to_owned(),
    };
    match &part["type"] {
        Value::Array(names) => {
            let names: Vec<String> = names.iter().filter_map(Value::as_str).map(name).collect();
            names.join(" or ")
        }
        one => name(one.as_str().expect("a type")),
    }
}

#[test]
fn the_page_of_the_guide_is_the_schema_in_words() {
    let mut text = "| verb | keys |\n|---|---|\n".to_owned();
    for (verb, part) in schema()["verbs"].as_object().unwrap() {
        writeln!(text, "| `{verb}` | {} |", keys(part)).unwrap();
        assert_eq!(part["additionalProperties"], false, "{verb} names all its keys");
    }
    text.push_str("\n| key | type | meaning |\n|---|---|---|\n");
    for (key, part) in schema()["$defs"].as_object().unwrap() {
        let meaning = part["description"].as_str().expect("a meaning");
        writeln!(text, "| `{key}` | {} | {meaning} |", type_in_words(part)).unwrap();
    }
    assert!(guide("json.md").contains(&text), "docs/guide/json.md should hold this:\n{text}");
}
