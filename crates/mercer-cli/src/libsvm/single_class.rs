//! Models of a single class, as LIBSVM trains and uses them: every answer is that class. Mercer's own machines have at
//! least two.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use mercer::data::Targets;

use mercer::printf::g;

/// What LIBSVM prints for such data.
pub(super) const WARNING: &str =
    "WARNING: training data in only one class. See README for details.";

/// Bytes in which the whole model text of one class lies.
const HEAD: u64 = 1 << 16;

/// A model of one class.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct SingleClass {
    pub(super) label: f64,
    pub(super) has_probabilities: bool,
}

impl SingleClass {
    /// The model of examples that all have one label.
    pub(super) fn of(targets: &Targets, has_probabilities: bool) -> Option<Self> {
        let Targets::Numbers(numbers) = targets else { return None };
        let distinct: HashSet<u64> = numbers.iter().map(|number| number.to_bits()).collect();
        let label = *numbers.first()?;
        (distinct.len() == 1).then_some(Self { label, has_probabilities })
    }

    /// The model text; `head` is its type and kernel.
    pub(super) fn text(self, head: &str) -> String {
        let probabilities = if self.has_probabilities { "probA\nprobB\n" } else { "" };
        let mut text = head.to_owned();
        let label = g(self.label, 17);
        let _ = write!(
            text,
            "nr_class 1\ntotal_sv 0\nrho\nlabel {label}\n{probabilities}nr_sv 0\nSV\n"
        );
        text
    }

    /// The model of a file, if it has one class.
    pub(super) fn load(path: &Path) -> Option<Self> {
        let mut head = Vec::new();
        File::open(path).ok()?.take(HEAD).read_to_end(&mut head).ok()?;
        Self::read(&head)
    }

    /// The model of a text, if it has one class.
    fn read(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok().filter(|text| text.starts_with("svm_type"))?;
        let head = text.lines().take_while(|line| line.trim() != "SV");
        let (mut is_single, mut label, mut has_probabilities) = (false, None, false);
        for line in head {
            let mut words = line.split_ascii_whitespace();
            match (words.next(), words.next()) {
                (Some("nr_class"), Some(count)) => is_single = count == "1",
                (Some("label"), Some(name)) => label = name.parse().ok(),
                (Some("probB"), _) => has_probabilities = true,
                _ => {}
            }
        }
        Some(Self { label: label.filter(|_| is_single)?, has_probabilities })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_other_models_are_not() {
        let one = SingleClass { label: -2.0, has_probabilities: true };
        let text = one.text("svm_type c_svc\nkernel_type linear\n");
        assert_eq!(SingleClass::read(text.as_bytes()), Some(one));
        let two = text.replace("nr_class 1", "nr_class 2");
        assert_eq!(SingleClass::read(two.as_bytes()), None);
        assert_eq!(SingleClass::read(b"nr_class 1\nlabel 1\n"), None);
        assert_eq!(SingleClass::of(&Targets::Numbers(vec![1.0, 2.0]), false), None);
    }
}
