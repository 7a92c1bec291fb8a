/// Why a plan could not be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// The text is not a plan.
    #[error("'{text}' is not a plan: {reason}")]
    NotAPlan {
        /// The text.
        text: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// There is no such stage.
    #[error("there is no stage '{stage}'; known are {known}, exact")]
    Unknown {
        /// The name.
        stage: String,
        /// All names.
        known: String,
    },
    /// The stage does not fit the machine.
    #[error("stage '{stage}' does not fit this machine: {reason}")]
    Unfit {
        /// The stage.
        stage: &'static str,
        /// Why.
        reason: String,
    },
    /// Whoever watched ended it.
    #[error("the fitting was ended")]
    Ended,
    /// The stage was fitted, but cannot be used.
    #[error(transparent)]
    Load(#[from] mercer_query::LoadError),
}

impl CompileError {
    pub(crate) fn unknown(stage: &str) -> Self {
        let known: Vec<&str> = crate::FITTERS.iter().map(|fitter| fitter.name).collect();
        Self::Unknown { stage: stage.to_owned(), known: known.join(", ") }
    }
}
