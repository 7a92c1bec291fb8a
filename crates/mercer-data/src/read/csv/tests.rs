//! Tests of the CSV reader: headers, labels, missing values, categories.

use super::super::{Missing, from_reader};
use super::*;
use crate::{Dataset, Targets};

fn read(text: &'static str, options: &Options) -> Result<Option<Dataset>, DataError> {
    from_reader(text.as_bytes(), "x.csv", options)?.next_chunk(1000)
}

fn label(name: &str) -> Options {
    Options { label: name.parse().unwrap(), ..Options::default() }
}

#[test]
fn headers_and_labels_are_found() {
    let data = read("a,label,b\n1,yes,2\n3,no,4\n", &Options::default()).unwrap().unwrap();
    assert_eq!(data.examples.as_dense().unwrap(), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(data.targets, Targets::Names(vec!["yes".into(), "no".into()]));
    assert_eq!(data.names, Some(vec!["a".into(), "b".into()]));
}

#[test]
fn a_table_one_wider_than_the_machine_ends_in_its_target() {
    let options = Options { features: Some(2), ..Options::default() };
    let data = read("1;2;7\n3;4;8", &options).unwrap().unwrap();
    assert_eq!(data.targets, Targets::Numbers(vec![7.0, 8.0]));
    let plain = read("1\t2\n3\t4", &options).unwrap().unwrap();
    assert_eq!(plain.targets, Targets::Absent);
}

#[test]
fn the_target_is_chosen_by_one_rule_and_says_why() {
    let with = |features: Option<usize>, names: &[&str], target: Option<&str>| Options {
        features,
        names: (!names.is_empty()).then(|| names.iter().map(|name| (*name).to_owned()).collect()),
        target: target.map(str::to_owned),
        ..Options::default()
    };
    let model = with(Some(2), &["a", "b"], Some("kind"));
    for (text, options, told) in [
        ("a,b,kind\n1,2,3\n", Options::default(), "column 'kind': the last column"),
        ("a,class,b\n1,2,3\n", Options::default(), "column 'class': by its name"),
        ("1,2,3\n", Options::default(), "column '3': the last column"),
        ("a,b,c\n1,2,3\n", label("2"), "column 'b': as --label says"),
        (
            "kind,a,label,b\n1,2,3,4\n",
            model.clone(),
            "'kind': the target that the model was trained",
        ),
        ("x,a,label,b\n1,2,3,4\n", model.clone(), "column 'label': by its name"),
        ("a,x,b\n1,2,3\n", model.clone(), "column 'x': the column that the model does not need"),
        ("x,a,y,b\n1,2,3,4\n", model.clone(), "no column is the target: several columns are left"),
        ("b,a\n1,2\n", model, "no column is the target: the model needs all columns"),
        ("1,2\n", with(Some(2), &[], None), "no column is the target: the model needs all"),
        ("1,2,3\n", with(Some(2), &[], None), "column '3': the column that the model does not"),
        ("1,2,3\n", with(Some(2), &[], Some("1")), "column '1': the target that the model was"),
    ] {
        let chunks = from_reader(text.as_bytes(), "x.csv", &options).unwrap();
        let said = chunks.target().unwrap().to_string();
        assert!(said.contains(told), "{text}: {said}");
    }
}

/// The writer waits for the answer to each row before it sends the next.
#[test]
fn rows_are_given_as_soon_as_their_lines_have_come() {
    use std::io::Write as _;
    let options = Options { line_by_line: true, ..label("none") };
    for (name, head, line) in
        [("x.csv", "a,b\n", "1,2\n"), ("x.csv", "", "1,2\n"), ("x.svm", "", "1 1:1\n")]
    {
        let (reader, mut writer) = io::pipe().unwrap();
        writer.write_all(format!("{head}{line}").as_bytes()).unwrap();
        let live = super::super::live::LiveSource::new(reader);
        let mut chunks = super::super::from_packed(live, name, &options).unwrap();
        for _ in 0..3 {
            assert_eq!(chunks.next_chunk(1000).unwrap().unwrap().examples.rows(), 1, "{name}");
            writer.write_all(line.as_bytes()).unwrap();
        }
        drop(writer);
        assert_eq!(chunks.next_chunk(1000).unwrap().unwrap().examples.rows(), 1, "{name}");
        assert!(chunks.next_chunk(1000).unwrap().is_none(), "{name}");
    }
}

#[test]
fn errors_name_line_and_column() {
    for (text, options, message) in [
        ("", label("guess"), "the file holds no rows"),
        ("1,2\n3", label("guess"), "line 2: 1 fields where the first row has 2"),
        ("a,b\n1,", label("guess"), "line 2: column 'b' is empty; missing values are not accepted"),
        ("a,b\n1,x", label("none"), "line 2: 'x' is not a number"),
        ("a,b\n1,nan", label("none"), "line 2: column 'b' is NaN; values must be finite"),
        ("label\n1\n", label("guess"), "there are no columns beside the label"),
        ("a,b\n1,2", label("c"), "there is no column 'c'; the columns are a, b"),
    ] {
        assert_eq!(read(text, &options).map(|_| ()).unwrap_err().to_string(), message);
    }
}

#[test]
fn missing_values_follow_the_policy() {
    let text = "a,b,label\n1,2,x\n?,4,y\n3,NA,x\n";
    let with = |missing| {
        let data = read(text, &Options { missing, ..Options::default() }).unwrap().unwrap();
        (data.examples.as_dense().unwrap().to_vec(), data.targets.len())
    };
    assert_eq!(with(Missing::Zero), (vec![1.0, 2.0, 0.0, 4.0, 3.0, 0.0], 3));
    assert_eq!(with(Missing::Mean), (vec![1.0, 2.0, 2.0, 4.0, 3.0, 3.0], 3));
    assert_eq!(with(Missing::Drop), (vec![1.0, 2.0], 1));
    let options = Options { missing: Missing::Mean, ..label("none") };
    let said = read("a,b\n1,\n2,\n", &options).unwrap_err().to_string();
    assert_eq!(said, "column 'b' has no values at all");
}

#[test]
fn means_of_the_examples_stand_for_missing_queries() {
    let names = ["size", "colour=blue", "colour=red"].map(str::to_owned).to_vec();
    let fitted = |missing| Options {
        missing,
        names: Some(names.clone()),
        means: Some(vec![7.0, 0.0, 0.0]),
        ..Options::default()
    };
    let text = "colour,size\nred,\n,NA\nblue,100\n";
    for missing in [Missing::Fitted, Missing::Mean] {
        let data = read(text, &fitted(missing)).unwrap().unwrap();
        let rows = [7.0, 0.0, 1.0, 7.0, 0.0, 0.0, 100.0, 1.0, 0.0];
        assert_eq!(data.examples.to_dense().as_dense().unwrap(), rows);
    }
    let said = read(text, &fitted(Missing::Error)).unwrap_err().to_string();
    assert_eq!(said, "line 2: column 'size' is empty; missing values are not accepted");
    let narrow = Options { means: Some(vec![1.0]), ..label("none") };
    let said = read("1,2,3\n", &narrow).unwrap_err().to_string();
    assert_eq!(said, "rows have 3 columns, the machine expects 1");
}

#[test]
fn categories_become_columns_and_the_machine_names_them_later() {
    let options = Options { one_hot: vec!["colour".into()], ..Options::default() };
    let text = "colour,size,label\nred,1,1\nblue,2,2\nred,3,1\n";
    let data = read(text, &options).unwrap().unwrap();
    let names = ["size", "colour=blue", "colour=red"].map(str::to_owned).to_vec();
    assert_eq!(data.names.as_ref(), Some(&names));
    let rows = [1.0, 0.0, 1.0, 2.0, 1.0, 0.0, 3.0, 0.0, 1.0];
    assert_eq!(data.examples.to_dense().as_dense().unwrap(), rows);
    let asked = Options { names: Some(names), ..Options::default() };
    let data = read("extra,size,colour\nq,5,blue\n", &asked).unwrap().unwrap();
    assert_eq!(data.examples.to_dense().as_dense().unwrap(), [5.0, 1.0, 0.0]);
    assert_eq!(data.targets, Targets::Names(vec!["q".into()]));
    for (text, message) in [
        (
            "size,colour\n5,teal\n",
            "line 2: column 'colour' holds 'teal', which the machine does not know",
        ),
        (
            "length,colour\n5,red\n",
            "there is no column 'size', which the machine needs; the columns are length, colour",
        ),
    ] {
        assert_eq!(read(text, &asked).map(|_| ()).unwrap_err().to_string(), message);
    }
}

#[test]
fn columns_are_matched_by_name_in_any_order() {
    let names = Some(vec!["b".to_owned(), "a".to_owned()]);
    let asked = Options { names, features: Some(2), ..Options::default() };
    let data = read("a,x,b,label\n1,9,2,1\n", &asked).unwrap().unwrap();
    assert_eq!(data.examples.as_dense().unwrap(), [2.0, 1.0]);
    assert_eq!(data.targets, Targets::Numbers(vec![1.0]));
    let plain = read("1,2\n", &asked).unwrap().unwrap();
    assert_eq!(plain.examples.as_dense().unwrap(), [1.0, 2.0]);
}

#[test]
fn ids_are_handed_on_and_are_no_features() {
    let options = Options { id: Some("name".into()), ..label("none") };
    let mut chunks = from_reader("name,a\nx7,1\nx9,2\n".as_bytes(), "x.csv", &options).unwrap();
    let first = chunks.next_chunk(1).unwrap().unwrap();
    assert_eq!(first.examples.as_dense().unwrap(), [1.0]);
    assert_eq!(chunks.ids().unwrap(), ["x7"]);
    chunks.next_chunk(1).unwrap();
    assert_eq!(chunks.ids().unwrap(), ["x9"]);
}

#[test]
fn a_record_without_end_is_refused_before_it_fills_the_memory() {
    for (start, filler) in [("", b' '), ("a,b\n1,2\n", b' '), ("a,b\n1,\"", b'\n')] {
        let text = start.as_bytes().chain(io::repeat(filler));
        let read = from_reader(text, "x.csv", &Options::default());
        let said = read.and_then(|mut chunks| chunks.next_chunk(1000)).unwrap_err().to_string();
        assert!(said.ends_with("is longer than 16777216 bytes"), "{said}");
    }
}
