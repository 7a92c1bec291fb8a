//! A request in JSON without its long arrays. Nearly all of a request is the `data` of its inputs: these arrays are found by
//! their brackets and read by `json_array.rs`, so that serde reads what is left and nothing is read twice.

use memchr::memchr3;

/// A request whose arrays at `data` were taken out.
#[derive(Debug, PartialEq)]
pub struct Apart<'a> {
    /// The same JSON, with the number of an array in the place of each.
    pub rest: Vec<u8>,
    /// The arrays, brackets included.
    pub arrays: Vec<&'a [u8]>,
}

/// Takes out the arrays at the key `data` of objects in an array of the outermost object. None if that cannot be done by looking
/// at brackets and quotes alone: other values at `data`, texts within an array, escaped characters. Whatever comes out is
/// as well formed as what went in.
pub fn apart(json: &[u8]) -> Option<Apart<'_>> {
    let (mut rest, mut arrays) = (Vec::new(), Vec::new());
    // Brackets that are open.
    let (mut open, mut at) = (Vec::new(), 0);
    while let Some(&byte) = json.get(at) {
        let first = at;
        at += 1;
        match byte {
            b'{' | b'[' if open.len() < 8 => open.push(byte),
            b'{' | b'[' => return None,
            b'}' | b']' => drop(open.pop()?),
            b'"' => {
                at += memchr::memchr2(b'"', b'\\', &json[at..])
                    .filter(|end| json[at + end] == b'"')?
                    + 1;
                let colon = behind_spaces(json, at);
                let is_data = &json[first..at] == b"\"data\"" && open == *b"{[{";
                if is_data && json.get(colon) == Some(&b':') {
                    let value = behind_spaces(json, colon + 1);
                    let end = array_end(json, value)?;
                    rest.extend_from_slice(b"\"data\":");
                    rest.extend_from_slice(arrays.len().to_string().as_bytes());
                    arrays.push(&json[value..end]);
                    at = end;
                    continue;
                }
            }
            _ => {}
        }
        rest.extend_from_slice(&json[first..at]);
    }
    Some(Apart { rest, arrays })
}

fn behind_spaces(json: &[u8], at: usize) -> usize {
    let is_space = |byte: &&u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
    at + json[at..].iter().take_while(is_space).count()
}

/// Where an array that begins at `start` ends; none if there is no array, or a text in it.
fn array_end(json: &[u8], start: usize) -> Option<usize> {
    let (mut at, mut depth) = (start, 0usize);
    if json.get(at) != Some(&b'[') {
        return None;
    }
    loop {
        at += memchr3(b'[', b']', b'"', &json[at..])? + 1;
        match json[at - 1] {
            b'[' => depth += 1,
            b']' if depth == 1 => return Some(at),
            b']' => depth -= 1,
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(json: &str) -> Option<(String, Vec<String>)> {
        let Apart { rest, arrays } = apart(json.as_bytes())?;
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Some((text(&rest), arrays.into_iter().map(text).collect()))
    }

    #[test]
    fn arrays_of_inputs_are_taken_out() {
        let json = r#"{"inputs": [{"data" : [[1, 2],[3]], "name":"data"}, {"x": {"data": [4]}, "data":[]}], "data": [5]}"#;
        let (rest, arrays) = parts(json).unwrap();
        let expected = r#"{"inputs": [{"data":0, "name":"data"}, {"x": {"data": [4]}, "data":1}], "data": [5]}"#;
        assert_eq!(rest, expected);
        assert_eq!(arrays, ["[[1, 2],[3]]", "[]"]);
        assert_eq!(parts(r#"{"a": "x", "b": [1]}"#).unwrap().0, r#"{"a": "x", "b": [1]}"#);
    }

    #[test]
    fn what_needs_a_whole_reader_is_left_to_it() {
        for json in [
            r#"{"i": [{"data": 0}]}"#,
            r#"{"i": [{"data": ["a]"]}]}"#,
            r#"{"i": [{"d\u0061ta": [1]}]}"#,
            r#"{"i": "abc"#,
            "]",
            "[[[[[[[[[]]]]]]]]]",
        ] {
            assert_eq!(parts(json), None, "{json}");
        }
        // Wrong, and still wrong afterwards.
        assert_eq!(parts(r#"{"i": [{"data" [1]}]}"#).unwrap().0, r#"{"i": [{"data" [1]}]}"#);
        assert_eq!(parts(r#"{"i": [{"data": [1}]}"#).unwrap().0, r#"{"i": [{"data":0}"#);
    }
}
