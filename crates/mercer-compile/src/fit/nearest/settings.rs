use mercer_spec::{Spec, Value};

use super::traces::Candidate;
use crate::CompileError;

/// Dimensions of the ordering that are tried: the paper takes 20.
const DIMENSIONS: [usize; 3] = [10, 20, 40];
/// Half-widths of the smoothing that are tried: the paper takes 10; 0 is no smoothing.
const SMOOTHINGS: [usize; 5] = [0, 2, 5, 10, 20];

/// What the stage's text says; what it leaves open is cross-validated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Settings {
    dimensions: Option<usize>,
    smoothing: Option<usize>,
    has_tug_of_war: Option<bool>,
    pub has_filter: bool,
}

const HOW: &str = "write nearest(paper), or with numbers instead of cross-validation \
                   nearest(paper, dimensions=20, smoothing=10, tug_of_war=yes, filter=yes)";

impl Settings {
    pub(super) fn read(spec: &Spec) -> Result<Self, CompileError> {
        let unfit = || CompileError::Unfit { stage: "nearest", reason: HOW.to_owned() };
        if spec.positional() != [Value::Spec(Spec::new("paper"))] {
            return Err(unfit());
        }
        let mut settings =
            Self { dimensions: None, smoothing: None, has_tug_of_war: None, has_filter: true };
        for (name, value) in spec.named() {
            match name.as_str() {
                "dimensions" => settings.dimensions = Some(whole(value, 1, 256).ok_or_else(unfit)?),
                "smoothing" => settings.smoothing = Some(whole(value, 0, 1000).ok_or_else(unfit)?),
                "tug_of_war" => settings.has_tug_of_war = Some(word(value).ok_or_else(unfit)?),
                "filter" => settings.has_filter = word(value).ok_or_else(unfit)?,
                _ => return Err(unfit()),
            }
        }
        Ok(settings)
    }

    /// All that the text allows; those that walk alike stand together.
    pub(super) fn candidates(&self, directions: usize) -> Vec<Candidate> {
        let mut dimensions: Vec<usize> =
            self.dimensions.map_or(DIMENSIONS.to_vec(), |one| vec![one]);
        dimensions.iter_mut().for_each(|count| *count = (*count).min(directions));
        dimensions.dedup();
        let tugs = self.has_tug_of_war.map_or(vec![true, false], |one| vec![one]);
        let smoothings = self.smoothing.map_or(SMOOTHINGS.to_vec(), |one| vec![one]);
        let mut all = Vec::new();
        for dimensions in dimensions {
            for has_tug_of_war in tugs.iter().copied() {
                let with = |smoothing: &usize| Candidate {
                    dimensions,
                    has_tug_of_war,
                    smoothing: *smoothing,
                };
                all.extend(smoothings.iter().map(with));
            }
        }
        all
    }
}

fn whole(value: &Value, least: usize, most: usize) -> Option<usize> {
    match value {
        Value::Number(x) if x.fract() == 0.0 && (least as f64..=most as f64).contains(x) => {
            Some(*x as usize)
        }
        _ => None,
    }
}

fn word(value: &Value) -> Option<bool> {
    match value {
        Value::Spec(spec) if *spec == Spec::new("yes") => Some(true),
        Value::Spec(spec) if *spec == Spec::new("no") => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_not_cross_validated() {
        let read = |text: &str| Settings::read(&text.parse().unwrap());
        assert_eq!(read("nearest(paper)").unwrap().candidates(300).len(), 3 * 2 * 5);
        let text = "nearest(paper, dimensions=20, smoothing=10, tug_of_war=no, filter=no)";
        let settings = read(text).unwrap();
        let only = Candidate { dimensions: 5, has_tug_of_war: false, smoothing: 10 };
        assert_eq!((settings.candidates(5), settings.has_filter), (vec![only], false));
        for bad in ["nearest", "nearest(20)", "nearest(paper, w=3)", "nearest(paper, filter=2)"] {
            assert!(read(bad).unwrap_err().to_string().contains("nearest(paper)"), "{bad}");
        }
    }
}
