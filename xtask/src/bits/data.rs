//! Parts of the sets of the repository, as files in the folder of a session.

use std::fs;

use anyhow::{Context, Result, bail};

use super::Session;

/// A set of the repository, divided by row number: of each `of` rows the first `train` are learned from, the
/// next `query` are asked, and plans are calibrated on the others.
pub struct Set {
    pub name: &'static str,
    file: &'static str,
    of: usize,
    train: usize,
    query: usize,
    /// What becomes of a row of a table; `None` for LIBSVM text, which has no header.
    edit: Option<fn(&str) -> String>,
}

pub const SETS: &[Set] = &[
    Set { name: "sonar", file: SONAR, of: 6, train: 3, query: 1, edit: Some(str::to_owned) },
    Set { name: "digits", file: DIGITS, of: 6, train: 1, query: 1, edit: Some(str::to_owned) },
    Set { name: "pair", file: DIGITS, of: 6, train: 1, query: 1, edit: Some(parity) },
    Set { name: "haberman", file: HABERMAN, of: 10, train: 2, query: 1, edit: Some(str::to_owned) },
    Set { name: "abalone", file: ABALONE, of: 16, train: 1, query: 1, edit: Some(str::to_owned) },
    Set { name: "shells", file: ABALONE, of: 16, train: 1, query: 1, edit: Some(without_first) },
    Set { name: "sparse", file: QUERIES, of: 4, train: 1, query: 1, edit: None },
];

const SONAR: &str = "datasets/sonar/sonar.csv";
const DIGITS: &str = "@digits.csv";
const HABERMAN: &str = "datasets/haberman/haberman.csv";
const ABALONE: &str = "datasets/abalone/abalone.csv";
pub const QUERIES: &str = "datasets/digits/queries.svm";

/// The file with a part of a set.
pub fn part(set: &str, part: &str) -> String {
    let is_text = SETS.iter().any(|known| known.name == set && known.edit.is_none());
    format!("@{set}.{part}.{}", if is_text { "svm" } else { "csv" })
}

/// Writes the parts of all sets, and queries of three columns: `plane.svm`, and `missing.csv` where some are missing.
pub fn write_all(session: &Session) -> Result<()> {
    if !session.accepts("convert datasets/digits/digits.csv.gz @digits.csv")? {
        bail!("the digits cannot be unpacked");
    }
    for set in SETS {
        let path = match set.file.strip_prefix('@') {
            Some(name) => session.folder.join(name),
            None => session.root.join(set.file),
        };
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        for (name, text) in ["train", "query", "sample"].iter().zip(set.divide(&text)) {
            fs::write(session.folder.join(&part(set.name, name)[1..]), text)?;
        }
    }
    fs::write(session.folder.join("plane.svm"), plane())?;
    fs::write(session.folder.join("missing.csv"), "1,,0.5\n,2,\n0.5,0.25,\n0.125,1.5,0.75\n")?;
    Ok(())
}

impl Set {
    /// Rows to learn from, queries, and the others; each with the header if there is one.
    fn divide(&self, text: &str) -> [String; 3] {
        let mut lines = text.lines();
        let mut parts = [const { String::new() }; 3];
        let mut put = |part: usize, line: &str| {
            parts[part].push_str(&self.edit.map_or(line.to_owned(), |edit| edit(line)));
            parts[part].push('\n');
        };
        if self.edit.is_some() {
            let header = lines.next().unwrap_or_default();
            (0..3).for_each(|part| put(part, header));
        }
        for (row, line) in lines.enumerate() {
            let place = row % self.of;
            let part = if place < self.train {
                0
            } else if place < self.train + self.query {
                1
            } else {
                2
            };
            put(part, line);
        }
        parts
    }
}

/// The label, which is the last field, becomes 1 where it is odd and -1 where it is even.
fn parity(line: &str) -> String {
    match line.rsplit_once(',') {
        Some((row, label)) => match label.parse::<u32>() {
            Ok(label) => format!("{row},{}", if label % 2 == 1 { 1 } else { -1 }),
            Err(_) => line.to_owned(),
        },
        None => line.to_owned(),
    }
}

fn without_first(line: &str) -> String {
    line.split_once(',').map_or(line, |(_, rest)| rest).to_owned()
}

/// Forty rows of three values from 0 to 2.
fn plane() -> String {
    let value = |at: u32| f64::from(at * 97 % 128) / 64.0;
    let row = |row: u32| {
        format!("0 1:{} 2:{} 3:{}\n", value(row), value(5 * row + 1), value(row * row + 7))
    };
    (1..=40).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: Set =
        Set { name: "t", file: "", of: 4, train: 2, query: 1, edit: Some(without_first) };

    #[test]
    fn rows_go_to_parts_by_their_number_under_the_same_header() {
        let text = "s,x,y\na,0,1\nb,2,3\nc,4,5\nd,6,7\ne,8,9\n";
        assert_eq!(TABLE.divide(text), ["x,y\n0,1\n2,3\n8,9\n", "x,y\n4,5\n", "x,y\n6,7\n"]);
        let plain = Set { edit: None, of: 3, train: 1, ..TABLE };
        assert_eq!(plain.divide("1 1:1\n2 1:2\n3 1:3\n"), ["1 1:1\n", "2 1:2\n", "3 1:3\n"]);
    }

    #[test]
    fn odd_and_even_labels_become_two_classes() {
        assert_eq!(parity("5,16,7"), "5,16,1");
        assert_eq!(parity("5,16,0"), "5,16,-1");
        assert_eq!(parity("p0,p1,label"), "p0,p1,label");
    }
}
