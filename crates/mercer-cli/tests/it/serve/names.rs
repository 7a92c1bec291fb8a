//! Adversarial names of classes, columns, inputs, requests and models through the server: they come back as they are, in JSON, and
//! are nowhere raw.

use serde_json::{Value, json};

use super::{Server, output};
use crate::adversarial::{names, trained};
use crate::common::Folder;
use mercer_testkit::names::ADVERSARIAL;

/// Whether bytes hold what JSON escapes: control characters but line feeds. Programs read them, no terminal.
fn acts(bytes: &[u8]) -> bool {
    bytes.iter().any(|byte| *byte < 0x20 && *byte != b'\n')
}

/// A name as part of an address.
fn encoded(name: &str) -> String {
    name.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// The values of the row that [`trained`] gave a label.
fn row(place: usize) -> Vec<f64> {
    (0..8).map(|column| if column == 0 { 10 * place } else { column } as f64).collect()
}

#[test]
fn labels_columns_and_ids_come_back_as_they_are() {
    let folder = Folder::new();
    let (_, model) = trained(&folder);
    let server = Server::start(&[&model]);
    let labels = names();
    let rows: Vec<Vec<f64>> = (0..labels.len()).map(row).collect();
    let whole =
        json!({ "name": "rows", "shape": [labels.len(), 8], "datatype": "FP64", "data": rows });
    let reply = server.infer("model", &json!({ "inputs": [whole] }));
    assert!(!acts(&reply.body), "{}", String::from_utf8_lossy(&reply.body));
    let dense = reply.json();
    assert_eq!(output(&dense, "label"), &labels.iter().map(|name| json!(name)).collect::<Vec<_>>());
    // The same by columns, whose names are adversarial too.
    let column = |at: usize| {
        let data: Vec<f64> = rows.iter().map(|row| row[at]).collect();
        json!({ "name": ADVERSARIAL[at], "shape": [rows.len()], "datatype": "FP64", "data": data })
    };
    let columns: Vec<Value> = (0..8).map(column).collect();
    let named = server.infer("model", &json!({ "inputs": columns }));
    assert_eq!(named.status, 200, "{}", named.error());
    assert_eq!(output(&named.json(), "label"), output(&dense, "label"));
    for name in ADVERSARIAL {
        let one = json!({ "name": "rows", "shape": [1, 8], "datatype": "FP64", "data": [row(0)] });
        let reply = server.infer("model", &json!({ "id": name, "inputs": [one] }));
        assert!(!acts(reply.head.replace('\r', "").as_bytes()) && !acts(&reply.body), "{name:?}");
        assert_eq!(reply.json()["id"], json!(name));
    }
    let metadata = server.get("/v2/models/model");
    assert!(metadata.status == 200 && !acts(&metadata.body));
    assert!(metadata.json().is_object());
}

#[test]
fn names_that_are_not_there_are_refused_in_json() {
    let folder = Folder::new();
    let (_, model) = trained(&folder);
    let server = Server::start(&[&model]);
    for name in ADVERSARIAL.iter().skip(8) {
        let input =
            |name: &str| json!({ "name": name, "shape": [1], "datatype": "FP64", "data": [1.0] });
        let named = json!({ "inputs": [input(name), input(ADVERSARIAL[0])] });
        let parameter = json!({ "inputs": [input(name)], "parameters": { *name: name } });
        let kind =
            json!({ "inputs": [{ "name": "x", "shape": [1], "datatype": name, "data": [1.0] }] });
        for request in [named, parameter, kind] {
            let reply = server.infer("model", &request);
            assert!((400..500).contains(&reply.status), "{name:?}: {}", reply.status);
            assert!(
                !acts(&reply.body) && !acts(reply.head.replace('\r', "").as_bytes()),
                "{name:?}"
            );
            assert!(!reply.error().is_empty());
        }
        for path in
            ["/v2/models/NAME", "/v2/models/NAME/stats", "/v2/models/model/versions/NAME", "/NAME"]
        {
            let reply = server.get(&path.replace("NAME", &encoded(name)));
            assert!((400..500).contains(&reply.status), "{name:?} {path}: {}", reply.status);
            assert!(
                !acts(&reply.body) && !acts(reply.head.replace('\r', "").as_bytes()),
                "{name:?}"
            );
        }
    }
    // Nothing was counted under a name of a stranger.
    let metrics = server.get("/metrics");
    assert!(!acts(&metrics.body) && !String::from_utf8_lossy(&metrics.body).contains("alert(1)"));
}
