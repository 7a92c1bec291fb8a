//! Tests of the reader of LIBSVM text.

use super::super::from_reader;
use super::*;

fn read(text: &'static str, options: &Options) -> Result<Option<Dataset>, DataError> {
    from_reader(text.as_bytes(), "x.svm", options)?.next_chunk(1000)
}

#[test]
fn rows_labels_comments_and_query_ids_are_understood() {
    let text = "# head\n+1 qid:3 1:0.5 3:-2e0 # tail\n\n-1\r\n2.5 2:1";
    let data = read(text, &Options::default()).unwrap().unwrap();
    assert_eq!(data.targets, Targets::Numbers(vec![1.0, -1.0, 2.5]));
    let expected = vec![0.5, 0.0, -2.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0];
    assert_eq!(data.examples.to_dense().as_dense().unwrap(), expected);
}

#[test]
fn chunks_end_where_asked_and_keep_the_width() {
    let mut chunks =
        from_reader("1 4:1\n2 1:1\n3 1:1".as_bytes(), "x.svm", &Options::default()).unwrap();
    assert_eq!(chunks.next_chunk(2).unwrap().unwrap().examples.rows(), 2);
    let last = chunks.next_chunk(2).unwrap().unwrap();
    assert_eq!((last.examples.rows(), last.examples.columns()), (1, 4));
    assert!(chunks.next_chunk(2).unwrap().is_none());
}

#[test]
fn zero_based_and_precomputed_rows_are_read_on_request() {
    let zero_based = Options { zero_based: true, ..Options::default() };
    assert_eq!(read("1 0:5", &zero_based).unwrap().unwrap().examples.row(0).get(0), 5.0);
    let precomputed = Options { precomputed: true, ..Options::default() };
    assert_eq!(read("1 0:7 1:5", &precomputed).unwrap().unwrap().examples.row(0).get(0), 5.0);
}

#[test]
fn errors_name_the_line_and_what_stands_there() {
    for (text, message) in [
        ("1 2:1 2:1", "line 1: column 2 comes after 2; columns must increase"),
        ("1\n1 3:1 2:1", "line 2: column 2 comes after 3; columns must increase"),
        ("1 0:1", "line 1: index '0' is outside 1 to 4294967294"),
        ("1 99999999999:1", "line 1: index '99999999999' is outside 1 to 4294967294"),
        ("1 a", "line 1: 'a' is not of the form index:value"),
        ("x 1:1", "line 1: 'x' is not a number"),
        ("1 1:", "line 1: '' is not a number"),
        ("1 1:+-2", "line 1: '+-2' is not a number"),
        ("1 1:nan", "line 1: column 1 is NaN; values must be finite"),
        ("inf 1:1", "line 1: the label is inf; values must be finite"),
        ("1 1:1e999", "line 1: column 1 is inf; values must be finite"),
    ] {
        let error = read(text, &Options::default()).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn unsorted_rows_are_sorted_on_request_and_repeated_columns_refused() {
    let sort = Options { sort: true, ..Options::default() };
    let data = read("1 3:3 1:1\n", &sort).unwrap().unwrap();
    assert_eq!(data.examples.to_dense().as_dense().unwrap(), [1.0, 0.0, 3.0]);
    let said = read("1 3:3 3:1\n", &sort).unwrap_err().to_string();
    assert_eq!(said, "line 1: column 3 comes after 3; columns must increase");
}

/// Text of many pieces with lines of all kinds.
fn long_text(rows: usize) -> String {
    use std::fmt::Write;
    let mut text = String::new();
    for row in 0..rows {
        match row % 7 {
            0 => text.push_str("# nothing\n\n"),
            1 => text.push_str("+1 qid:7 1:0.5\t2:1e-3 # tail\r\n"),
            2 => text.push_str("-3\n"),
            _ => writeln!(text, "{} 1:{row} {}:-0.25 ", row % 3, 2 + row % 50).unwrap(),
        }
    }
    text
}

#[test]
fn pieces_and_chunks_of_any_size_give_the_same_rows() {
    let text = long_text(100_000);
    let read = |rows: usize| {
        let source = std::io::Cursor::new(text.clone());
        let mut chunks = from_reader(source, "x.svm", &Options::default()).unwrap();
        let mut all: Vec<(f64, Vec<(u32, f64)>)> = Vec::new();
        while let Some(chunk) = chunks.next_chunk(rows).unwrap() {
            assert!(chunk.examples.rows() <= rows);
            let Targets::Numbers(targets) = &chunk.targets else { panic!("numbers") };
            let rows = chunk.examples.iter().map(|row| row.nonzeros().collect());
            all.extend(targets.iter().copied().zip(rows));
        }
        all
    };
    let whole = read(usize::MAX);
    assert_eq!(whole.len(), 100_000 - 100_000_usize.div_ceil(7));
    for rows in [1, 1000, 65_536] {
        assert!(read(rows) == whole, "{rows}");
    }
    // The careful way alone, line by line.
    let mut builder = MatrixBuilder::new();
    let syntax = Syntax::new(&Options::default());
    for (number, line) in (1..).zip(text.split('\n')) {
        syntax.careful(line.as_bytes(), number, &mut builder).unwrap();
    }
    let careful = builder.finish(0);
    let rows = careful.iter().map(|row| row.nonzeros().collect::<Vec<_>>());
    assert!(rows.eq(whole.into_iter().map(|(_, row)| row)));
}

#[test]
fn an_error_far_down_names_its_line_and_comes_after_the_rows_before_it() {
    let mut text = long_text(100_000);
    let line = text.lines().count() + 1;
    text.push_str("1 2:1 x:1\n");
    text.push_str(&long_text(50_000));
    let source = std::io::Cursor::new(text);
    let mut chunks = from_reader(source, "x.svm", &Options::default()).unwrap();
    let mut rows = 0;
    let said = loop {
        match chunks.next_chunk(1) {
            Ok(chunk) => rows += chunk.expect("the error comes first").examples.rows(),
            Err(error) => break error.to_string(),
        }
    };
    assert_eq!(rows, 100_000 - 100_000_usize.div_ceil(7));
    assert_eq!(said, format!("line {line}: index 'x' is outside 1 to 4294967294"));
}
