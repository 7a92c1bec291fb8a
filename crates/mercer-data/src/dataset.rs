use crate::Matrix;

/// Examples with what is known about them.
#[derive(Debug, Clone, PartialEq)]
pub struct Dataset {
    /// One row per example.
    pub examples: Matrix,
    /// One target per example, or none at all.
    pub targets: Targets,
    /// Names of the columns, where the file has them.
    pub names: Option<Vec<String>>,
}

/// What is to be learned or checked.
#[derive(Debug, Clone, PartialEq)]
pub enum Targets {
    /// The data carry no targets.
    Absent,
    /// Numbers: values of a regression, or classes named by numbers.
    Numbers(Vec<f64>),
    /// Classes named by words.
    Names(Vec<String>),
}

impl Targets {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Absent => 0,
            Self::Numbers(numbers) => numbers.len(),
            Self::Names(names) => names.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
