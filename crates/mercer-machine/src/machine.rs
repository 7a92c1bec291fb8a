//! A trained machine: kernel, supports, scores and the meaning of the scores, checked when it is built.
//! How scores are computed fast is in `mercer-query`; how they become labels is in `vote.rs`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use mercer_data::{DataError, Matrix, Row, limits};
use mercer_kernel::{Domain, Form, KernelRef};

use crate::{Bins, ClassName, MachineError, Score};

/// The result of training. All parts fit together: [`Machine::new`] checked them.
#[derive(Debug, Clone)]
pub struct Machine {
    kernel: KernelRef,
    supports: Arc<Matrix>,
    scores: Vec<Score>,
    output: Output,
    centre: Option<Arc<[f64]>>,
    bins: Option<Arc<Bins>>,
}

/// What the scores mean.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// A value of a regression.
    Value,
    /// Whether a query is like the training data.
    Novelty,
    /// One of several classes.
    Classes {
        /// Their names, by position.
        names: Vec<ClassName>,
        /// How binary subproblems decide among them.
        scheme: Scheme,
    },
}

/// How binary subproblems decide among classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// A pairwise classifier for each pair of classes, then a vote.
    OneVsOne,
    /// A score for each class; the largest wins. Two classes need one score only.
    OneVsRest,
}

impl Output {
    /// How many scores this output needs.
    pub fn scores(&self) -> usize {
        match self {
            Self::Value | Self::Novelty => 1,
            Self::Classes { names, scheme: Scheme::OneVsOne } => {
                names.len() * names.len().saturating_sub(1) / 2
            }
            Self::Classes { names, .. } if names.len() == 2 => 1,
            Self::Classes { names, .. } => names.len(),
        }
    }
}

impl Machine {
    /// Checks the parts and merges supports that are equal, so that every kernel value is computed once.
    ///
    /// # Errors
    /// If parts do not fit together, numbers are not finite, or supports lie outside the kernel's domain.
    pub fn new(
        kernel: KernelRef,
        supports: Matrix,
        scores: Vec<Score>,
        output: Output,
    ) -> Result<Self, MachineError> {
        check_output(&output, scores.len())?;
        check_scores(&scores, &supports, None)?;
        check_domain(&kernel, &supports)?;
        let before = supports.rows();
        let (supports, scores) = merge(supports, scores);
        if supports.rows() < before {
            // Sums of coefficients may overflow.
            check_scores(&scores, &supports, None)?;
        }
        let supports = supports.compact();
        let centre = match kernel.form() {
            Form::Shift(_) => centre(&supports),
            _ => None,
        };
        Ok(Self { kernel, supports: Arc::new(supports), scores, output, centre, bins: None })
    }

    /// A machine whose scores are additive over binned columns. It keeps no training rows.
    ///
    /// # Errors
    /// If parts do not fit together, or numbers are not finite.
    pub fn additive(
        kernel: KernelRef,
        columns: usize,
        bins: Arc<Bins>,
        scores: Vec<Score>,
        output: Output,
    ) -> Result<Self, MachineError> {
        check_output(&output, scores.len())?;
        let supports = Matrix::sparse(columns, &[0], &[], &[])?;
        bins.check(columns)?;
        check_scores(&scores, &supports, Some(&bins))?;
        let additive =
            scores.iter().filter(|score| matches!(score, Score::Additive { .. })).count();
        if additive != scores.len() {
            let (found, expected) = (additive, scores.len());
            return Err(MachineError::Count { what: "additive scores", found, expected });
        }
        let (supports, centre) = (Arc::new(supports), None);
        Ok(Self { kernel, supports, scores, output, centre, bins: Some(bins) })
    }

    /// The same machine with the centre that a file stored, so that every bit of its scores stays.
    ///
    /// # Errors
    /// If its length is not the number of columns, a value is not finite, or the kernel takes no centre.
    pub fn with_centre(mut self, centre: Option<Vec<f64>>) -> Result<Self, MachineError> {
        if let Some(centre) = &centre {
            let expected = match self.kernel.form() {
                Form::Shift(_) => self.columns(),
                _ => 0,
            };
            if centre.len() != expected {
                let found = centre.len();
                return Err(MachineError::Count { what: "centre columns", found, expected });
            }
            if let Some(value) = centre.iter().find(|value| !value.is_finite()) {
                return Err(MachineError::NotFinite {
                    what: "the centre",
                    score: 1,
                    value: *value,
                });
            }
        }
        self.centre = centre.map(Into::into);
        Ok(self)
    }

    /// The same machine with other names for its answers.
    ///
    /// # Errors
    /// If the number of scores does not fit them.
    pub fn with_output(mut self, output: Output) -> Result<Self, MachineError> {
        check_output(&output, self.scores.len())?;
        self.output = output;
        Ok(self)
    }

    /// The kernel.
    pub fn kernel(&self) -> &KernelRef {
        &self.kernel
    }

    /// The distinct support vectors.
    pub fn supports(&self) -> &Arc<Matrix> {
        &self.supports
    }

    /// One real function per binary subproblem.
    pub fn scores(&self) -> &[Score] {
        &self.scores
    }

    /// What the scores mean.
    pub fn output(&self) -> &Output {
        &self.output
    }

    /// The point that is subtracted from rows before distances are computed; derived from the supports.
    pub fn centre(&self) -> Option<&[f64]> {
        self.centre.as_deref()
    }

    /// How values are binned, for additive machines.
    pub fn bins(&self) -> Option<&Arc<Bins>> {
        self.bins.as_ref()
    }

    /// Which values rows may hold: those of the kernel, or all where bins are quantiles.
    pub fn domain(&self) -> Domain {
        match &self.bins {
            Some(bins) if bins.spacing().takes_negative() => Domain::Real,
            _ => self.kernel.domain(),
        }
    }

    /// How many values of these rows lie outside the range of the bins, and are clamped.
    pub fn clamped(&self, rows: &Matrix) -> u64 {
        let Some(bins) = &self.bins else { return 0 };
        let outside = |row: Row<'_>| {
            let inside =
                row.nonzeros().take_while(|(column, _)| (*column as usize) < self.columns());
            inside.filter(|(column, x)| bins.spacing().is_outside(*column as usize, *x)).count()
        };
        rows.iter().map(|row| outside(row) as u64).sum()
    }

    /// Checks that tables with a number for each column are no larger than the machine justifies.
    ///
    /// # Errors
    /// If it claims far more columns than it has values.
    pub fn check_width(&self, what: &'static str) -> Result<(), DataError> {
        limits::check_table(what, self.columns(), self.stored())
    }

    /// Checks that so many numbers, zeros of the supports included, are no more than the machine justifies.
    pub(crate) fn check_dense(&self, numbers: usize) -> Result<(), DataError> {
        limits::check_table("a dense machine", numbers, self.stored())
    }

    /// Values of the supports, or weights, that are stored.
    fn stored(&self) -> usize {
        let dense = self.scores.iter().map(|score| match score {
            Score::Expansion { .. } => 0,
            Score::Linear { weights, .. } => weights.len(),
            Score::Additive { weights, .. } => weights.len(),
        });
        self.supports.nonzeros().max(dense.sum())
    }

    /// Number of columns of the supports.
    pub fn columns(&self) -> usize {
        self.supports.columns()
    }

    /// Names of the classes; none for regression and novelty.
    pub fn classes(&self) -> &[ClassName] {
        match &self.output {
            Output::Classes { names, .. } => names,
            _ => &[],
        }
    }
}

fn check_output(output: &Output, scores: usize) -> Result<(), MachineError> {
    if let Output::Classes { names, .. } = output {
        if names.len() < 2 {
            return Err(MachineError::TooFewClasses { found: names.len() });
        }
        let mut seen = HashSet::with_capacity(names.len());
        if let Some(name) = names.iter().find(|name| !seen.insert(NameKey::of(name))) {
            return Err(MachineError::RepeatedClass { name: name.to_string() });
        }
    }
    let expected = output.scores();
    if scores == expected {
        Ok(())
    } else {
        Err(MachineError::Count { what: "scores", found: scores, expected })
    }
}

/// A class name that can be looked up; numbers that are equal have equal bits.
#[derive(Debug, PartialEq, Eq, Hash)]
enum NameKey<'a> {
    Number(u64),
    Text(&'a str),
}

impl<'a> NameKey<'a> {
    fn of(name: &'a ClassName) -> Self {
        match name {
            // Minus zero becomes zero.
            ClassName::Number(number) => Self::Number((number + 0.0).to_bits()),
            ClassName::Text(text) => Self::Text(text),
        }
    }
}

fn check_scores(
    scores: &[Score],
    supports: &Matrix,
    bins: Option<&Bins>,
) -> Result<(), MachineError> {
    for (score, number) in scores.iter().zip(1..) {
        let not_finite =
            |what, value: f64| Err(MachineError::NotFinite { what, score: number, value });
        if !score.offset().is_finite() {
            return not_finite("the offset", score.offset());
        }
        let values = match score {
            Score::Expansion { supports: named, coefficients, .. } => {
                let bad = named.iter().find(|support| **support as usize >= supports.rows());
                if let Some(bad) = bad {
                    let (support, supports) = (*bad as usize + 1, supports.rows());
                    return Err(MachineError::NoSuchSupport { score: number, support, supports });
                }
                let increasing = named.windows(2).all(|pair| pair[0] < pair[1]);
                if named.len() != coefficients.len() || !increasing {
                    let (found, expected) = (named.len(), coefficients.len());
                    return Err(MachineError::Count { what: "named supports", found, expected });
                }
                coefficients.as_slice()
            }
            Score::Linear { weights, .. } => {
                if weights.len() != supports.columns() {
                    let (found, expected) = (weights.len(), supports.columns());
                    return Err(MachineError::Count { what: "weights", found, expected });
                }
                weights
            }
            Score::Additive { weights, .. } => {
                let rank = bins.map_or(0, Bins::rank);
                let expected = supports.columns().saturating_mul(rank);
                if bins.is_none() || weights.len() != expected {
                    let found = weights.len();
                    return Err(MachineError::Count { what: "weights of bins", found, expected });
                }
                if let Some(value) = weights.iter().find(|value| !value.is_finite()) {
                    return not_finite("a coefficient", f64::from(*value));
                }
                &[][..]
            }
        };
        if let Some(value) = values.iter().find(|value| !value.is_finite()) {
            return not_finite("a coefficient", *value);
        }
    }
    Ok(())
}

fn check_domain(kernel: &KernelRef, supports: &Matrix) -> Result<(), MachineError> {
    if kernel.domain() == Domain::Real {
        return Ok(());
    }
    for (support, row) in (1..).zip(supports.iter()) {
        if let Some((column, value)) = row.nonzeros().find(|(_, value)| *value < 0.0) {
            let (column, kernel) = (column as usize + 1, kernel.spec().name().to_owned());
            return Err(MachineError::Negative { support, column, value, kernel });
        }
    }
    Ok(())
}

/// Merges equal supports: the first one stays, and the coefficients of the others are added to its coefficient.
fn merge(supports: Matrix, scores: Vec<Score>) -> (Matrix, Vec<Score>) {
    if !may_repeat(&supports) {
        return (supports, scores);
    }
    let mut seen: HashMap<Vec<(u32, u64)>, u32> = HashMap::with_capacity(supports.rows());
    let mut kept = Vec::new();
    let place: Vec<u32> = (0..supports.rows())
        .map(|row| {
            let key = supports.row(row).nonzeros().map(|(c, v)| (c, v.to_bits())).collect();
            *seen.entry(key).or_insert_with(|| {
                kept.push(row);
                kept.len() as u32 - 1
            })
        })
        .collect();
    if kept.len() == supports.rows() {
        return (supports, scores);
    }
    let scores = scores.into_iter().map(|score| move_coefficients(score, &place)).collect();
    (supports.select(kept), scores)
}

/// Whether two rows may be equal: their fingerprints are.
fn may_repeat(rows: &Matrix) -> bool {
    let mixed = |print: u64, (column, value): (u32, f64)| {
        let entry = value.to_bits() ^ u64::from(column).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (print.rotate_left(23) ^ entry).wrapping_mul(0xd6e8_feb8_6659_fd93)
    };
    let mut prints: Vec<u64> = rows.iter().map(|row| row.nonzeros().fold(0, mixed)).collect();
    prints.sort_unstable();
    prints.windows(2).any(|pair| pair[0] == pair[1])
}

fn move_coefficients(score: Score, place: &[u32]) -> Score {
    match score {
        Score::Expansion { supports, coefficients, offset } => {
            let moved = supports.iter().map(|support| place[*support as usize]);
            let mut moved: Vec<(u32, f64)> = moved.zip(coefficients).collect();
            moved.sort_by_key(|(support, _)| *support);
            let mut sums: Vec<(u32, f64)> = Vec::with_capacity(moved.len());
            for (support, beta) in moved {
                match sums.last_mut() {
                    Some((last, sum)) if *last == support => *sum += beta,
                    _ => sums.push((support, beta)),
                }
            }
            sums.retain(|(_, sum)| *sum != 0.0);
            let (supports, coefficients) = sums.into_iter().unzip();
            Score::Expansion { supports, coefficients, offset }
        }
        other @ (Score::Linear { .. } | Score::Additive { .. }) => other,
    }
}

/// Whether rows of so many columns, with `stored` values in all, may be centred: the centre has a number for each
/// column, and a sparse row may name any.
pub fn can_be_centred(columns: usize, stored: usize) -> bool {
    columns <= MAX_CENTRED && columns <= SMALL_CENTRE.max(stored.saturating_mul(64))
}

/// Rows with more columns are never centred, those with fewer than [`SMALL_CENTRE`] whatever they store.
const MAX_CENTRED: usize = 1 << 22;
const SMALL_CENTRE: usize = 1 << 16;

/// The mean support in columns whose values lie far from zero, and zero elsewhere; `None` if it is all zero.
///
/// A column is shifted if it is non-zero in every support and its mean exceeds twice its largest deviation
/// from the mean: there `|x|² + |z|² - 2 x·z` would cancel. Other columns keep their zeros, so sparse rows
/// stay sparse, and only the columns of the first support can be shifted.
fn centre(supports: &Matrix) -> Option<Arc<[f64]>> {
    if !can_be_centred(supports.columns(), supports.nonzeros()) {
        return None;
    }
    let rows = supports.rows() as f64;
    let columns: Vec<u32> = supports.iter().next()?.nonzeros().map(|(column, _)| column).collect();
    let mut counts = vec![0usize; columns.len()];
    let mut means = vec![0.0; columns.len()];
    let mut deviations = vec![0.0f64; columns.len()];
    for row in supports.iter() {
        for (slot, value) in in_columns(row, &columns) {
            counts[slot] += 1;
            means[slot] += value / rows;
        }
    }
    for row in supports.iter() {
        for (slot, value) in in_columns(row, &columns) {
            deviations[slot] = deviations[slot].max((value - means[slot]).abs());
        }
    }
    let far = |slot: usize| means[slot].abs() > 2.0 * deviations[slot] && means[slot].is_finite();
    let shifted = (0..columns.len()).filter(|slot| far(*slot) && counts[*slot] == supports.rows());
    let shifts: Vec<(u32, f64)> = shifted.map(|slot| (columns[slot], means[slot])).collect();
    if shifts.is_empty() {
        return None;
    }
    let mut centre = vec![0.0; supports.columns()];
    for (column, mean) in shifts {
        centre[column as usize] = mean;
    }
    Some(centre.into())
}

/// The entries of a row in the named columns, as positions among them; both increase.
fn in_columns<'a>(row: Row<'a>, columns: &'a [u32]) -> impl Iterator<Item = (usize, f64)> + 'a {
    let mut slot = 0;
    row.nonzeros().filter_map(move |(column, value)| {
        while columns.get(slot).is_some_and(|known| *known < column) {
            slot += 1;
        }
        (columns.get(slot) == Some(&column)).then_some((slot, value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_classes() -> Output {
        let names = vec![ClassName::Number(1.0), ClassName::Number(-1.0)];
        Output::Classes { names, scheme: Scheme::OneVsOne }
    }

    fn machine(values: Vec<f64>, coefficients: &[f64]) -> Result<Machine, MachineError> {
        let kernel = mercer_kernel::parse("rbf(gamma=1)").unwrap();
        let supports = Matrix::dense(1, values).unwrap();
        Machine::new(kernel, supports, vec![Score::expansion(coefficients, 0.5)], two_classes())
    }

    #[test]
    fn equal_supports_are_merged_and_their_coefficients_added() {
        let machine = machine(vec![1.0, 2.0, 1.0], &[1.0, -1.0, 3.0]).unwrap();
        assert_eq!(machine.supports().rows(), 2);
        let expected = Score::expansion(&[4.0, -1.0], 0.5);
        assert_eq!(machine.scores(), [expected]);
    }

    #[test]
    fn far_columns_are_centred_and_near_ones_are_not() {
        let kernel = mercer_kernel::parse("rbf(gamma=1)").unwrap();
        let supports = Matrix::dense(2, vec![1e6, 1.0, 1e6 + 2.0, 3.0]).unwrap();
        let scores = vec![Score::expansion(&[1.0, -1.0], 0.0)];
        let machine = Machine::new(kernel, supports, scores, two_classes()).unwrap();
        assert_eq!(machine.centre(), Some(&[1e6 + 1.0, 0.0][..]));
    }

    #[test]
    fn parts_that_do_not_fit_are_refused() {
        assert!(matches!(
            machine(vec![1.0], &[1.0, 2.0]),
            Err(MachineError::NoSuchSupport { support: 2, supports: 1, .. })
        ));
        assert!(matches!(machine(vec![1.0], &[f64::NAN]), Err(MachineError::NotFinite { .. })));
        let chi2 = mercer_kernel::parse("chi2").unwrap();
        let supports = Matrix::dense(1, vec![-1.0]).unwrap();
        let score = vec![Score::expansion(&[1.0], 0.0)];
        let refused = Machine::new(chi2, supports, score, Output::Novelty);
        assert!(matches!(refused, Err(MachineError::Negative { .. })));
    }
}
