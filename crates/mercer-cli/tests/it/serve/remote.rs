//! `mercer predict --server` gives what `mercer predict` gives.

use serde_json::Value;

use super::{Digits, Server};
use crate::common::{Folder, dataset, done, object, refused};
use crate::guide::table;

const TOKEN: &str = "0123456789abcdef";

#[test]
fn a_server_gives_the_answers_of_predict_in_every_form() {
    let digits = Digits::new();
    let token = digits.folder.write("token", TOKEN);
    let server = Server::start(&[&digits.model, "--token-file", &token]);
    let url = format!("http://{}", server.address);
    let queries = dataset("digits/queries.svm");
    let asked = |more: &[&str]| {
        let remote = ["predict", "digits", &queries, "--server", &url, "--token-file", &token];
        done(&[&remote[..], more].concat())
    };
    for more in [
        &["--format", "csv", "--quiet"][..],
        &["--format", "jsonl", "--quiet"],
        &["--format", "libsvm", "--quiet"],
        &["--format", "csv", "--budget", "640", "--quiet"],
        &["--format", "csv", "--budget", "640", "--require", "certified", "--quiet"],
    ] {
        let local = done(&[&["predict", &digits.model, &queries][..], more].concat());
        assert_eq!(asked(more), local, "{more:?}");
    }
    let found: Value = serde_json::from_str(&asked(&["--json"])).unwrap();
    let local = object(&["predict", &digits.model, &queries, "--json"]);
    for name in ["queries", "mean_cost", "certainties", "accuracy", "target"] {
        assert_eq!(found[name], local[name], "{name}");
    }
    crate::json::check("predict", &found);
    let said = refused(&["predict", "digits", &queries, "--server", &url]);
    assert!(said.contains("(401): the token is missing or wrong"), "{said}");
    let said = refused(&["predict", "nobody", &queries, "--server", &url, "--token-file", &token]);
    assert!(said.contains("there is no model 'nobody'"), "{said}");
    let said =
        refused(&["predict", "digits/9", &queries, "--server", &url, "--token-file", &token]);
    assert!(said.contains("has no version '9'"), "{said}");
    let said = refused(&["predict", "digits", &queries, "--server", "localhost:1"]);
    assert!(said.contains("is no address of a server"), "{said}");
    let said = refused(&["predict", "digits", &queries, "--server", "http://127.0.0.1:1"]);
    assert!(said.contains("the server at 127.0.0.1:1"), "{said}");
}

#[test]
fn tables_values_and_probabilities_come_from_a_server_too() {
    let folder = Folder::new();
    for (name, is_curve, more) in [
        ("m", false, &["--kernel", "rbf(gamma=1)", "--probabilities", "sigmoid"][..]),
        ("v", true, &["--kernel", "rbf(gamma=1)", "--formulation", "epsilon_svr(C=1)"]),
    ] {
        let train = folder.write("train.csv", &table(200, 0, is_curve));
        let queries = folder.write("queries.csv", &table(50, 5000, is_curve));
        let model = folder.path(&format!("{name}.mercer"));
        done(&[&["train", &train, "-o", &model][..], more].concat());
        let server = Server::start(&[&model]);
        let url = format!("http://{}", server.address);
        let mut format = vec!["--format", "csv", "--quiet"];
        if !is_curve {
            format.push("--probabilities");
        }
        let local = done(&[&["predict", &model, &queries][..], &format].concat());
        let remote = done(&[&["predict", name, &queries, "--server", &url][..], &format].concat());
        assert_eq!(remote, local, "{name}");
        let threshold = ["--format", "csv", "--threshold", "-0.3", "--quiet"];
        if is_curve {
            let asked = ["predict", name, &queries, "--server", &url];
            let said = refused(&[&asked[..], &threshold].concat());
            assert!(
                said.contains("a threshold needs a machine that answers by one score"),
                "{said}"
            );
        } else {
            let at = done(&[&["predict", &model, &queries][..], &threshold].concat());
            let asked = ["predict", name, &queries, "--server", &url];
            assert_eq!(done(&[&asked[..], &threshold].concat()), at, "{name}");
            assert_ne!(at, done(&["predict", &model, &queries, "--format", "csv", "--quiet"]));
        }
        let [found, local] = [
            object(&["predict", name, &queries, "--server", &url, "--json"]),
            object(&["predict", &model, &queries, "--json"]),
        ];
        let quality = if is_curve { "mse" } else { "accuracy" };
        assert!(found[quality].is_number(), "{found}");
        assert_eq!(found[quality], local[quality]);
    }
}
