//! Whether a sample of queries holds rows of the training data: rows that equal supports, beyond those that equal rows of
//! the data explain. It sees supports only, not training rows that did not become supports.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use mercer_data::{Matrix, Row};
use mercer_machine::{Answer, Machine, Output, Scheme, Score, pairs};

/// With more rows than this share equal to supports beyond what is natural, a sample is taken for training data.
const SHARE: f64 = 0.01;

/// With more rows than this share equal to supports it is taken for training data, however common equal rows are.
const MOST: f64 = 0.5;

/// Supports are no random rows: up to so many times the expected number is natural. A plain choice, between what unseen
/// queries and rows of the training data give on one-hot data.
const NATURAL: f64 = 2.0;

/// Labels say something where so many rows can be compared, and so many pairs of equal rows within the sample.
const LEAST_COMPARED: usize = 20;

/// Standard errors that make a difference of agreement clear.
const CLEAR: f64 = 3.0;

/// Rows of a sample that equal supports.
///
/// In data of few distinct rows (one-hot columns) queries equal supports by nature. Such rows are common, and most of
/// them occur more than once in the sample itself; training rows occur in it as often as any other row. So rows that equal a
/// support and occur once in the sample are counted, and compared with what the sample says about itself: of two random
/// halves, the rows that occur once in their own half and at all in the other, times supports per row of a half.
///
/// Labels say more, where the sample has them: a training row has the label of its support, while two equal rows of the data
/// agree as often as two equal rows of the sample do ([`LabelAgreement`]).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Repeats {
    /// Rows of the sample.
    pub rows: usize,
    /// Rows that equal a support.
    pub found: usize,
    /// Those of them that occur once in the sample.
    pub alone: usize,
    /// How many of those the repeats within the sample explain.
    pub expected: f64,
    /// Whether their labels are those of the supports, where there are enough labels to say.
    pub labels: Option<LabelAgreement>,
}

/// Labels of rows that equal a support and occur once in the sample, beside those of equal rows within the sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LabelAgreement {
    /// Rows whose label and whose support's class are known.
    pub compared: usize,
    /// Those of them that agree.
    pub agreeing: usize,
    /// Pairs of rows that equal each other and no third row of the sample.
    pub pairs: usize,
    /// Those of them that agree.
    pub agreeing_pairs: usize,
}

impl LabelAgreement {
    /// How many of the compared rows are training rows: an estimate, and its error at [`CLEAR`] standard errors. Of `m` training
    /// rows among `n`, all agree, and of the others the share `q` of the pairs: `m = (a - q) n / (1 - q)`. Supports are rather rows
    /// whose label is unusual, so that others agree less often than `q`, and the estimate is rather too small.
    fn training_rows(&self) -> (f64, f64) {
        let (rows, pairs) = (self.compared as f64, self.pairs as f64);
        let agree = self.agreeing as f64 / rows;
        // Never all: a share of 1 from few pairs would leave nothing to tell.
        let natural = (self.agreeing_pairs as f64 / pairs).min(1.0 - 1.0 / pairs);
        let error = CLEAR * (natural * (1.0 - natural) * (1.0 / rows + 1.0 / pairs)).sqrt();
        let scale = rows / (1.0 - natural);
        (scale * (agree - natural), scale * error)
    }
}

impl Repeats {
    /// Counts the rows of a sample that equal supports of a machine. `labels` are what is known to be right for each row.
    pub fn count(machine: &Machine, sample: &Matrix, labels: Option<&[Option<Answer>]>) -> Self {
        let supports: HashSet<u64> = machine.supports().iter().map(fingerprint).collect();
        let prints: Vec<u64> = sample.iter().map(fingerprint).collect();
        // How often each row occurs in either half.
        let mut halves: HashMap<u64, [u32; 2]> = HashMap::new();
        for (number, print) in prints.iter().enumerate() {
            halves.entry(*print).or_default()[half(number)] += 1;
        }
        let found = prints.iter().filter(|print| supports.contains(print)).count();
        let is_alone = |(print, counts): &(&u64, &[u32; 2])| {
            counts[0] + counts[1] == 1 && supports.contains(print)
        };
        let alone = halves.iter().filter(is_alone).count();
        let once_and_elsewhere = |[first, second]: &[u32; 2]| match (first, second) {
            (1, 1) => 2,
            (1, 2..) | (2.., 1) => 1,
            _ => 0,
        };
        let met: u32 = halves.values().map(once_and_elsewhere).sum();
        let half_rows = (prints.len() as f64 / 2.0).max(1.0);
        let expected = f64::from(met) * supports.len() as f64 / half_rows;
        let labels = labels.and_then(|labels| compare_labels(machine, &prints, labels));
        Self { rows: prints.len(), found, alone, expected, labels }
    }

    /// Whether the sample is taken for training data.
    pub fn are_training_rows(&self) -> bool {
        let rows = self.rows as f64;
        let natural = NATURAL * self.expected;
        if let Some(labels) = &self.labels {
            let (training, error) = labels.training_rows();
            if training - error > SHARE * rows {
                return true;
            }
            if training + error <= SHARE * rows {
                return false;
            }
        }
        self.alone as f64 > SHARE * rows + natural || self.found as f64 > MOST * rows
    }
}

/// The agreement of labels, if there are enough of them.
fn compare_labels(
    machine: &Machine,
    prints: &[u64],
    labels: &[Option<Answer>],
) -> Option<LabelAgreement> {
    let mut class_of: HashMap<u64, Option<usize>> = HashMap::new();
    for (support, class) in machine.supports().iter().zip(support_classes(machine)?) {
        let known = class_of.entry(fingerprint(support)).or_insert(class);
        *known = if *known == class { class } else { None };
    }
    let mut equal: HashMap<u64, Vec<usize>> = HashMap::new();
    for (print, label) in prints.iter().zip(labels) {
        if let Some(Answer::Class(class)) = label {
            equal.entry(*print).or_default().push(*class);
        }
    }
    let mut found = LabelAgreement { compared: 0, agreeing: 0, pairs: 0, agreeing_pairs: 0 };
    for (print, labels) in &equal {
        match (labels[..].split_first(), class_of.get(print)) {
            (Some((label, [])), Some(Some(class))) => {
                found.compared += 1;
                found.agreeing += usize::from(label == class);
            }
            (Some((label, [other])), _) => {
                found.pairs += 1;
                found.agreeing_pairs += usize::from(label == other);
            }
            _ => {}
        }
    }
    let is_enough = found.compared >= LEAST_COMPARED && found.pairs >= LEAST_COMPARED;
    is_enough.then_some(found)
}

/// The class of each support by the signs of its coefficients, `None` where they contradict each other; nothing for machines
/// that have no classes.
fn support_classes(machine: &Machine) -> Option<Vec<Option<usize>>> {
    let Output::Classes { names, scheme } = machine.output() else { return None };
    let pairs: Vec<(usize, Option<usize>)> = match scheme {
        Scheme::OneVsOne => pairs(names.len()).map(|(plus, minus)| (plus, Some(minus))).collect(),
        Scheme::OneVsRest if names.len() == 2 => vec![(0, Some(1))],
        Scheme::OneVsRest => (0..names.len()).map(|plus| (plus, None)).collect(),
    };
    // Nothing yet, a contradiction, or a class.
    let mut classes: Vec<Option<Option<usize>>> = vec![None; machine.supports().rows()];
    for (score, (plus, minus)) in machine.scores().iter().zip(pairs) {
        let Score::Expansion { supports, coefficients, .. } = score else { continue };
        for (support, beta) in supports.iter().zip(coefficients) {
            let Some(class) = (if *beta > 0.0 { Some(plus) } else { minus }) else { continue };
            let known = &mut classes[*support as usize];
            *known = Some(known.is_none_or(|other| other == Some(class)).then_some(class));
        }
    }
    Some(classes.into_iter().map(Option::flatten).collect())
}

/// The half of a row: random, and the same in every run.
fn half(number: usize) -> usize {
    let mixed = (number as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 63) as usize
}

/// Equal rows have equal fingerprints, dense or sparse.
pub(crate) fn fingerprint(row: Row<'_>) -> u64 {
    let mut hash = DefaultHasher::new();
    for (column, value) in row.nonzeros() {
        (column, value.to_bits()).hash(&mut hash);
    }
    hash.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mercer_machine::{Output, Score};

    /// Rows of 40 columns that are 0 or 1, each 1 with the given probability: with a small one, many are equal.
    fn bits(rows: usize, share: f64, seed: u64) -> Matrix {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 11
        };
        let one = (share * (1u64 << 53) as f64) as u64;
        let values = (0..rows * 40).map(|_| if next() < one { 1.0 } else { 0.0 }).collect();
        Matrix::dense(40, values).unwrap()
    }

    /// A machine over every third row.
    fn machine(training: &Matrix) -> Machine {
        let supports = training.select((0..training.rows()).step_by(3));
        let coefficients: Vec<f64> = (0..supports.rows()).map(|row| 1.0 + row as f64).collect();
        let kernel = mercer_kernel::parse("rbf(gamma=0.5)").unwrap();
        Machine::new(kernel, supports, vec![Score::expansion(&coefficients, 0.0)], Output::Novelty)
            .unwrap()
    }

    #[test]
    fn natural_repeats_are_told_from_training_rows() {
        for share in [0.05, 0.08, 0.1, 0.15, 0.5] {
            let (training, other) = (bits(3000, share, 1), bits(2000, share, 2));
            let machine = machine(&training);
            let natural = Repeats::count(&machine, &other, None);
            assert!(!natural.are_training_rows(), "{share}: {natural:?}");
            let seen = Repeats::count(&machine, &training.select(0..2000), None);
            assert!(seen.are_training_rows(), "{share}: {seen:?}");
        }
        // The first shares are of data in which the old rule, one row in a hundred, refused every sample.
        let machine = machine(&bits(3000, 0.05, 1));
        let natural = Repeats::count(&machine, &bits(2000, 0.05, 2), None);
        assert!(natural.found > 200, "{natural:?}");
    }

    #[test]
    fn a_sample_of_supports_alone_is_refused_however_often_each_occurs() {
        let machine = machine(&bits(300, 0.5, 3));
        let sample = machine.supports().select((0..600).map(|row| row % 60));
        let found = Repeats::count(&machine, &sample, None);
        assert_eq!((found.found, found.alone), (600, 0));
        assert!(found.are_training_rows());
    }

    /// Classes of rows: the first column is right for the share `right` of them.
    fn labels(rows: &Matrix, right: f64, seed: u64) -> Vec<usize> {
        let luck = bits(rows.rows(), right, seed);
        let class = |row: usize| {
            let (value, luck) = (rows.row(row).get(0), luck.row(row).get(0));
            usize::from((value != 0.0) == (luck != 0.0))
        };
        (0..rows.rows()).map(class).collect()
    }

    /// A machine of two classes over every third row.
    fn classifier(training: &Matrix, labels: &[usize]) -> Machine {
        let chosen: Vec<usize> = (0..training.rows()).step_by(3).collect();
        let sign = |row: &usize| if labels[*row] == 0 { 1.0 } else { -1.0 };
        // Distinct sizes: the signs of equal rows with different labels must not cancel.
        let coefficients: Vec<f64> =
            chosen.iter().map(|row| sign(row) * (1.0 + 1e-3 * *row as f64)).collect();
        let names = [0.0, 1.0].map(mercer_machine::ClassName::Number).to_vec();
        Machine::new(
            mercer_kernel::parse("rbf(gamma=0.5)").unwrap(),
            training.select(chosen),
            vec![Score::expansion(&coefficients, 0.0)],
            Output::Classes { names, scheme: Scheme::OneVsOne },
        )
        .unwrap()
    }

    #[test]
    fn a_sample_of_which_a_tenth_are_training_rows_is_found_by_its_labels() {
        let (training, other) = (bits(30_000, 0.1, 1), bits(20_000, 0.1, 2));
        let (of_training, of_other) = (labels(&training, 0.7, 3), labels(&other, 0.7, 4));
        let machine = classifier(&training, &of_training);
        let answers = |classes: &[usize]| -> Vec<Option<Answer>> {
            classes.iter().map(|class| Some(Answer::Class(*class))).collect()
        };
        let natural = Repeats::count(&machine, &other, Some(&answers(&of_other)));
        assert!(natural.alone > 500 && !natural.are_training_rows(), "{natural:?}");
        let mut builder = mercer_data::MatrixBuilder::new();
        builder.append(&training, 0..2_000);
        builder.append(&other, 2_000..20_000);
        let mixed = builder.finish(40);
        let of_mixed = [&of_training[..2_000], &of_other[2_000..]].concat();
        let told = Repeats::count(&machine, &mixed, Some(&answers(&of_mixed)));
        assert!(told.are_training_rows(), "{told:?}");
        // Without labels the same sample passes.
        assert!(!Repeats::count(&machine, &mixed, None).are_training_rows(), "{told:?}");
    }

    #[test]
    fn labels_that_disagree_acquit_a_sample_that_the_shares_alone_would_refuse() {
        let repeats = Repeats { rows: 1000, found: 600, alone: 300, expected: 50.0, labels: None };
        assert!(repeats.are_training_rows());
        let labels =
            LabelAgreement { compared: 300, agreeing: 150, pairs: 200, agreeing_pairs: 140 };
        assert!(!Repeats { labels: Some(labels), ..repeats }.are_training_rows());
        let labels = LabelAgreement { agreeing: 298, ..labels };
        assert!(Repeats { labels: Some(labels), ..repeats }.are_training_rows());
    }
}
