/// Everything the next round depends on; a checkpoint holds it and nothing else.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct State {
    /// β of all variables.
    pub(crate) beta: Vec<f64>,
    /// `Kβ` of the active rows.
    pub(crate) k_beta: Vec<f64>,
    /// Rows not left out, increasing.
    pub(crate) active: Vec<u32>,
    /// Variables of the last working set, the newest first.
    pub(crate) previous: Vec<u32>,
    pub(crate) rounds: u64,
    pub(crate) steps: u64,
    /// Round at which the gradient is checked although the violation is still large.
    pub(crate) next_check: u64,
    /// Round before which nothing is left out.
    pub(crate) next_shrink: u64,
    /// Rounds in a row without gain.
    pub(crate) idle: u32,
    /// Whether kernel rows are doubles.
    pub(crate) double: bool,
}

impl State {
    /// The start at `beta`, given `Kβ` of all rows.
    pub(super) fn new(k_beta: Vec<f64>, beta: Vec<f64>, double: bool) -> Self {
        Self {
            beta,
            active: (0..k_beta.len() as u32).collect(),
            k_beta,
            previous: Vec::new(),
            rounds: 0,
            steps: 0,
            next_check: super::FIRST_CHECK,
            next_shrink: super::shrink::FIRST_SHRINK,
            idle: 0,
            double,
        }
    }

    /// Whether a state that was read belongs to this quadratic program.
    pub(crate) fn fits(&self, qp: &crate::Qp) -> bool {
        let rows = qp.rows as u32;
        self.beta.len() == qp.len()
            && self.k_beta.len() == self.active.len()
            && self.active.last().is_none_or(|last| *last < rows)
            && self.active.is_sorted_by(|a, b| a < b)
            && self.previous.iter().all(|v| (*v as usize) < qp.len())
    }

    /// Active variables with their place among the active rows.
    pub(super) fn variables(&self, rows: usize) -> impl Iterator<Item = (usize, usize)> + Clone {
        let sides = (self.beta.len() / rows.max(1)).max(1);
        let active = self.active.iter().enumerate();
        (0..sides).flat_map(move |side| {
            active.clone().map(move |(at, row)| (side * rows + *row as usize, at))
        })
    }
}
