use std::any::Any;
use std::fmt::Debug;

use mercer_data::{Matrix, Row};
use mercer_machine::Section;
use mercer_spec::Spec;

use crate::stages::Coordinates;
use crate::tracker::DecisionTracker;
use crate::{Exact, LoadError};

/// One step of a plan: works on the still-open queries of a block and reports what it proves, as often as
/// it learns something. What it computes for a query must not depend on the other queries of the block.
pub trait Stage: Debug + Send + Sync {
    /// Its text.
    fn spec(&self) -> Spec;

    /// At how many levels it estimates without proof; each needs a calibrated scale.
    fn levels(&self) -> usize {
        0
    }

    /// Whether it stops queries by a rule of its own, which only a test of the whole plan can vouch for.
    fn stops(&self) -> bool {
        false
    }

    /// Whether it reads norms of queries or proves ranges, which need them.
    fn needs_norms(&self) -> bool {
        true
    }

    /// Whether it takes over coordinates of queries that stages before it computed.
    fn shares_coordinates(&self) -> bool {
        false
    }

    /// Bytes of the arrays it keeps beside the machine.
    fn bytes(&self) -> usize;

    /// Working memory of one thread.
    fn scratch(&self) -> Box<dyn Any + Send>;

    /// Works on the open queries; `scratch` is one made by [`Stage::scratch`].
    fn run(&self, block: &mut Block<'_>, tracker: &mut DecisionTracker<'_>, scratch: &mut dyn Any);
}

/// How stages come back from a model file.
#[derive(Debug)]
pub struct Loader {
    /// Name of the stage.
    pub name: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// Makes the stage; checks every number, since files are not trusted.
    pub load: fn(&Section, &Exact) -> Result<Box<dyn Stage>, LoadError>,
}

/// All stages before the exact one; one line each.
pub static STAGES: &[&Loader] = &[
    &crate::stages::LOW_PRECISION,
    &crate::stages::PROJECTED,
    &crate::stages::SPECTRAL,
    &crate::stages::TAYLOR,
    &crate::stages::MONOMIALS,
    &crate::stages::ANYTIME,
    &crate::stages::COMPRESSED,
    &crate::stages::TABLE,
    &crate::stages::LINEAR,
    &crate::stages::STUDENT,
    &crate::stages::PCA,
    &crate::stages::NEAREST,
    &crate::stages::LANDMARKS,
    &crate::stages::RESIDUAL,
];

/// 1 to 256 queries at work: those still open, and what is known of each.
#[derive(Debug)]
pub struct Block<'a> {
    rows: &'a Matrix,
    first: usize,
    exact: &'a Exact,
    own: &'a [f64],
    open: &'a mut Vec<u32>,
    coordinates: &'a mut Coordinates,
}

/// The rows of a block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rows<'a> {
    rows: &'a Matrix,
    first: usize,
}

impl<'a> Rows<'a> {
    /// One query.
    pub(crate) fn row(&self, query: u32) -> Row<'a> {
        self.rows.row(self.first + query as usize)
    }
}

impl<'a> Block<'a> {
    pub(crate) fn new(
        rows: &'a Matrix,
        first: usize,
        exact: &'a Exact,
        own: &'a [f64],
        open: &'a mut Vec<u32>,
        coordinates: &'a mut Coordinates,
    ) -> Self {
        Self { rows, first, exact, own, open, coordinates }
    }

    /// Queries of the block, closed ones included.
    pub fn len(&self) -> usize {
        self.own.len()
    }

    /// Whether it has no queries.
    pub fn is_empty(&self) -> bool {
        self.own.is_empty()
    }

    /// One query.
    pub fn row(&self, query: u32) -> Row<'a> {
        self.rows.row(self.first + query as usize)
    }

    /// The self-sum of a query, centred as the machine is, summed loosely: see
    /// [`mercer_kernel::block::Packed::loose_squared_norm`]. Only for stages that say they need norms.
    pub fn own(&self, query: u32) -> f64 {
        self.own[query as usize]
    }

    /// Columns that matter to a query: those of the machine, or up to its last non-zero one.
    pub fn width(&self, query: u32) -> usize {
        self.exact.width(self.row(query))
    }

    /// Coordinates of the open queries that stages have computed so far.
    pub(crate) fn coordinates(&mut self) -> &mut Coordinates {
        self.coordinates
    }

    /// The rows of the block.
    pub(crate) fn rows(&self) -> Rows<'a> {
        Rows { rows: self.rows, first: self.first }
    }

    /// The open queries beside their coordinates.
    pub(crate) fn open_with_coordinates(&mut self) -> (&[u32], &mut Coordinates) {
        (self.open, self.coordinates)
    }

    /// The machine, packed.
    pub(crate) fn exact(&self) -> &'a Exact {
        self.exact
    }

    /// The queries whose label is not settled yet.
    pub fn open(&self) -> &[u32] {
        self.open
    }

    /// Forgets the queries that were closed meanwhile.
    pub fn compact(&mut self, tracker: &DecisionTracker<'_>) {
        self.open.retain(|query| tracker.is_open(*query));
    }
}
