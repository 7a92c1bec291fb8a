//! Targets become classes.
//! Which classes are compared with which is in [`crate::reduce`].

use std::collections::HashMap;

use mercer_data::Targets;
use mercer_machine::ClassName;

use crate::TrainError;

/// Classes and the class of each example.
#[derive(Debug, PartialEq)]
pub(crate) struct Labels {
    pub(crate) names: Vec<ClassName>,
    pub(crate) class_of: Vec<u32>,
}

impl Labels {
    /// Classes in the order of their first example; if that gives -1, +1, the two are swapped, so that
    /// positive scores mean +1 (LIBSVM's order).
    pub(crate) fn new(targets: &Targets) -> Result<Self, TrainError> {
        let mut labels = match targets {
            Targets::Absent => Self { names: Vec::new(), class_of: Vec::new() },
            Targets::Numbers(numbers) => {
                let bad = numbers.iter().position(|number| !number.is_finite());
                if let Some(row) = bad {
                    let value = numbers[row];
                    return Err(TrainError::TargetNotFinite { row: row + 1, value });
                }
                // -0 and 0 are one class.
                number(numbers.iter().map(|value| (value + 0.0).to_bits()), |bits| {
                    ClassName::Number(f64::from_bits(bits))
                })
            }
            Targets::Names(names) => number(names.iter(), |name| ClassName::Text(name.to_owned())),
        };
        if labels.names == [ClassName::Number(-1.0), ClassName::Number(1.0)] {
            labels.names.swap(0, 1);
            labels.class_of.iter_mut().for_each(|class| *class = 1 - *class);
        }
        Ok(labels)
    }

    /// Examples of each class, in order, without those of weight zero.
    pub(crate) fn members(&self, weights: &[f64]) -> Vec<Vec<u32>> {
        let mut members = vec![Vec::new(); self.names.len()];
        for (example, class) in (0u32..).zip(&self.class_of) {
            if weights[example as usize] > 0.0 {
                members[*class as usize].push(example);
            }
        }
        members
    }
}

fn number<K: std::hash::Hash + Eq + Copy>(
    keys: impl Iterator<Item = K>,
    name: impl Fn(K) -> ClassName,
) -> Labels {
    let mut seen: HashMap<K, u32> = HashMap::new();
    let mut names = Vec::new();
    let class_of = keys
        .map(|key| {
            *seen.entry(key).or_insert_with(|| {
                names.push(name(key));
                names.len() as u32 - 1
            })
        })
        .collect();
    Labels { names, class_of }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_come_in_order_of_appearance_and_plus_one_comes_first() {
        let labels = Labels::new(&Targets::Numbers(vec![3.0, 1.0, 3.0, 2.0])).unwrap();
        assert_eq!(labels.class_of, [0, 1, 0, 2]);
        assert_eq!(labels.names[0], ClassName::Number(3.0));
        let labels = Labels::new(&Targets::Numbers(vec![-1.0, 1.0, -1.0])).unwrap();
        assert_eq!(labels.class_of, [1, 0, 1]);
        assert_eq!(labels.names[0], ClassName::Number(1.0));
        let labels = Labels::new(&Targets::Numbers(vec![0.0, -0.0])).unwrap();
        assert_eq!(labels.names.len(), 1);
    }
}
