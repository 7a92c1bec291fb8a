//! What a stage of a plan is, and the session in which one thread runs it. The registry of all stages is in
//! `entry.rs`, the queries that a stage works on are in `block.rs`.

use std::fmt::Debug;

use mercer_spec::Spec;

use crate::block::Block;
use crate::c::StageInC;
use crate::tracker::DecisionTracker;

/// One step of a plan: works on the open queries of a block and reports what it proves or estimates. What it computes
/// for a query must not depend on the other queries of the block.
///
/// Some stages estimate a score without proof, at one or more *levels*: each level is an estimate of its own, more
/// accurate and more expensive than the one before, and has its own calibrated scale.
pub trait Stage: Debug + Send + Sync {
    /// Its text.
    fn spec(&self) -> Spec;

    /// Number of estimating levels; zero for stages that only prove.
    fn levels(&self) -> usize {
        0
    }

    /// Whether it stops queries by a rule of its own, which only a test of the whole plan can validate.
    fn stops(&self) -> bool {
        false
    }

    /// Whether it proves ranges or reads squared norms of queries. The worker then computes the rounding bounds of the
    /// exact scores and, for these, the norms; without rounding bounds no label is ever certified.
    fn needs_rounding_bounds(&self) -> bool {
        true
    }

    /// Whether it reuses coordinates of queries that earlier stages computed.
    fn shares_coordinates(&self) -> bool {
        false
    }

    /// Its code in C; none for stages that cannot be written so.
    fn c_code(&self) -> Option<&dyn StageInC> {
        None
    }

    /// Bytes of the arrays it keeps beside the machine.
    fn bytes(&self) -> usize;

    /// A session for one thread: the stage with working memory of its own.
    fn session(&self) -> Box<dyn StageSession + '_>;
}

/// A stage in use by one thread. It is kept from block to block, so that its memory is allocated once.
pub trait StageSession: Send {
    /// Works on the open queries of a block.
    fn run(&mut self, block: &mut Block<'_>, tracker: &mut DecisionTracker<'_>);
}

/// A stage that needs nothing in a session but working memory of one type: all of them today.
pub(crate) trait StageWithScratch: Stage {
    /// Working memory of one thread.
    type Scratch: Send;

    /// Allocates it.
    fn scratch(&self) -> Self::Scratch;

    /// Works on the open queries of a block.
    fn run(
        &self,
        block: &mut Block<'_>,
        tracker: &mut DecisionTracker<'_>,
        scratch: &mut Self::Scratch,
    );
}

/// The session of a [`StageWithScratch`].
pub(crate) struct Session<'a, S: StageWithScratch> {
    stage: &'a S,
    scratch: S::Scratch,
}

impl<'a, S: StageWithScratch> Session<'a, S> {
    pub(crate) fn start(stage: &'a S) -> Box<dyn StageSession + 'a> {
        Box::new(Self { stage, scratch: stage.scratch() })
    }
}

impl<S: StageWithScratch> StageSession for Session<'_, S> {
    fn run(&mut self, block: &mut Block<'_>, tracker: &mut DecisionTracker<'_>) {
        self.stage.run(block, tracker, &mut self.scratch);
    }
}
