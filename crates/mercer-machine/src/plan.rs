/// How a machine is asked, as a model file keeps it: the plan's text and what its stages need beside the
/// machine. The query room turns it into stages and checks every number.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanSections {
    /// The plan: `cascade(low_precision, spectral, exact)`.
    pub spec: String,
    /// Digest of the machine it was made for, see [`crate::file::digest`].
    pub machine: String,
    /// One for each certifying or calibrated stage, in the order in which they run.
    pub sections: Vec<Section>,
}

/// What one stage keeps.
#[derive(Debug, Clone, PartialEq)]
pub struct Section {
    /// The stage's text.
    pub spec: String,
    /// Its arrays, in the order of their names.
    pub arrays: Vec<(String, Array)>,
}

/// Numbers of one type; scalars are arrays of one.
#[derive(Debug, Clone, PartialEq)]
pub enum Array {
    /// Doubles.
    F64(Vec<f64>),
    /// Singles.
    F32(Vec<f32>),
    /// Indices.
    U32(Vec<u32>),
    /// Bytes.
    U8(Vec<u8>),
}

impl Section {
    /// A section without arrays.
    pub fn new(spec: impl Into<String>) -> Self {
        Self { spec: spec.into(), arrays: Vec::new() }
    }

    /// Adds an array.
    pub fn with(mut self, name: &str, array: Array) -> Self {
        let place = self.arrays.partition_point(|(other, _)| other.as_str() < name);
        self.arrays.insert(place, (name.to_owned(), array));
        self
    }

    /// The array of that name, if it holds doubles.
    pub fn reals(&self, name: &str) -> Option<&[f64]> {
        match self.array(name)? {
            Array::F64(values) => Some(values),
            _ => None,
        }
    }

    /// The array of that name, if it holds singles.
    pub fn singles(&self, name: &str) -> Option<&[f32]> {
        match self.array(name)? {
            Array::F32(values) => Some(values),
            _ => None,
        }
    }

    /// The array of that name, if it holds indices.
    pub fn indices(&self, name: &str) -> Option<&[u32]> {
        match self.array(name)? {
            Array::U32(values) => Some(values),
            _ => None,
        }
    }

    /// The array of that name.
    pub fn array(&self, name: &str) -> Option<&Array> {
        self.arrays.iter().find(|(other, _)| other == name).map(|(_, array)| array)
    }

    /// The stage's name: its text up to the first bracket.
    pub fn stage(&self) -> &str {
        self.spec.split('(').next().unwrap_or_default().trim()
    }
}
