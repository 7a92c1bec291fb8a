//! Folds: which examples are held out together.
//! How machines are trained on them is in [`crate::validate`] and the backends.

use mercer_data::{Dataset, Targets, shuffled};

use crate::TrainError;
use crate::labels::Labels;

/// The fold of each example.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folds {
    of: Vec<u32>,
    count: usize,
}

impl Folds {
    /// Folds of equal size, with equal shares of each class if `by_class`; the same seed gives the same
    /// folds.
    ///
    /// # Errors
    /// If there are fewer than two folds or fewer examples than folds.
    pub fn new(
        data: &Dataset,
        by_class: bool,
        count: usize,
        seed: u64,
    ) -> Result<Self, TrainError> {
        let rows = data.examples.rows();
        check(count, rows)?;
        let mut of = vec![0; rows];
        for (place, row) in
            shuffled_by_class(&data.targets, rows, by_class, seed)?.into_iter().enumerate()
        {
            of[row] = (place % count) as u32;
        }
        Ok(Self { of, count })
    }

    /// Folds that were decided elsewhere: the number of the fold of each example, from 0.
    ///
    /// # Errors
    /// If there are fewer than two folds, or one of them is empty.
    pub fn given(of: Vec<u32>) -> Result<Self, TrainError> {
        let count = of.iter().max().map_or(0, |most| *most as usize + 1);
        check(count, of.len())?;
        let mut sizes = vec![0usize; count];
        of.iter().for_each(|fold| sizes[*fold as usize] += 1);
        match sizes.iter().position(|size| *size == 0) {
            Some(fold) => Err(TrainError::EmptyFold { fold }),
            None => Ok(Self { of, count }),
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The fold of each example.
    pub fn of(&self) -> &[u32] {
        &self.of
    }
}

fn check(count: usize, rows: usize) -> Result<(), TrainError> {
    if count < 2 || count > rows {
        let (option, value) = ("the number of folds", count as f64);
        let range = "at least 2 and at most the number of examples";
        return Err(TrainError::Option { option, value, range });
    }
    Ok(())
}

/// All rows in random order, class after class if `by_class`: dealt out in turn, every share has the
/// classes in equal parts.
pub(crate) fn shuffled_by_class(
    targets: &Targets,
    rows: usize,
    by_class: bool,
    seed: u64,
) -> Result<Vec<usize>, TrainError> {
    let mut order = shuffled(rows, seed);
    if by_class && !matches!(targets, Targets::Absent) {
        let labels = Labels::new(targets)?;
        order.sort_by_key(|row| labels.class_of[*row]);
    }
    Ok(order)
}

#[cfg(test)]
mod tests {
    use mercer_data::synthetic::ripley;

    use super::*;

    #[test]
    fn folds_share_out_each_class_and_follow_the_seed() {
        let data = ripley(103, 1);
        let folds = Folds::new(&data, true, 5, 7).unwrap();
        let Targets::Numbers(targets) = &data.targets else { panic!("ripley has numbers") };
        for fold in 0..5u32 {
            for class in [targets[0], -targets[0]] {
                let all = targets.iter().filter(|target| **target == class).count();
                let here = targets.iter().zip(folds.of());
                let here = here.filter(|(target, of)| **target == class && **of == fold).count();
                assert!(here.abs_diff(all / 5) <= 1, "{here} of {all}");
            }
        }
        assert_eq!(folds, Folds::new(&data, true, 5, 7).unwrap());
        assert_ne!(folds, Folds::new(&data, true, 5, 8).unwrap());
        assert!(Folds::new(&data, true, 1, 7).is_err() && Folds::new(&data, true, 104, 7).is_err());
        assert!(Folds::given(vec![0, 2, 0]).is_err());
        assert_eq!(Folds::given(vec![0, 1, 0]).unwrap().count(), 2);
    }
}
