//! Checkpoint files: the state that the next round of a training depends on, written atomically.
//! When they are written is decided in [`crate::control`] and [`crate::linear`].

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use mercer_data::write::AtomicFile;
use sha2::{Digest, Sha256};

use crate::solvers::{LowestPoint, Solution, State};
use crate::{Optimality, TrainError};

/// Where and how often a training is saved.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoint {
    /// The file; it always holds one complete checkpoint.
    pub path: PathBuf,
    /// Time from one to the next.
    pub every: Duration,
    /// Whether to continue from the file if there is one.
    pub resume: bool,
}

/// First bytes of a checkpoint: name and version.
const MAGIC: &[u8; 8] = b"MERCERc2";
const DIGEST: usize = 32;

/// Writes checkpoints of one training.
#[derive(Debug)]
pub(crate) struct Checkpointer {
    checkpoint: Checkpoint,
    digest: [u8; DIGEST],
    finished: Vec<Solution>,
    last: Instant,
}

/// What a checkpoint holds.
#[derive(Debug)]
pub(crate) struct SavedState {
    pub(crate) elapsed: Duration,
    pub(crate) iterations: u64,
    pub(crate) subproblem: usize,
    pub(crate) finished: Vec<Solution>,
    pub(crate) state: State,
}

impl Checkpointer {
    pub(crate) fn new(checkpoint: &Checkpoint, digest: [u8; DIGEST]) -> Self {
        let (checkpoint, finished) = (checkpoint.clone(), Vec::new());
        Self { checkpoint, digest, finished, last: Instant::now() }
    }

    /// Remembers a subproblem that is solved.
    pub(crate) fn finish_subproblem(&mut self, solution: &Solution) {
        self.finished.push(solution.clone());
    }

    pub(crate) fn save(
        &mut self,
        elapsed: Duration,
        iterations: u64,
        subproblem: usize,
        state: &State,
    ) -> Result<(), TrainError> {
        let mut out = CheckpointWriter::default();
        out.number(elapsed.as_micros() as u64);
        out.number(iterations);
        out.number(subproblem as u64);
        out.number(self.finished.len() as u64);
        self.finished.iter().for_each(|solution| out.solution(solution));
        out.state(state);
        self.write(&out)
    }

    /// Time from one checkpoint to the next.
    pub(crate) fn every(&self) -> Duration {
        self.checkpoint.every
    }

    /// Whether it is time to write one.
    pub(crate) fn is_due(&self) -> bool {
        self.last.elapsed() >= self.checkpoint.every
    }

    /// Writes the file anew.
    pub(crate) fn write(&mut self, body: &CheckpointWriter) -> Result<(), TrainError> {
        let mut sha = Sha256::new();
        [&MAGIC[..], &self.digest, &body.0].iter().for_each(|bytes| sha.update(bytes));
        let check = sha.finalize();
        let written = AtomicFile::create(&self.checkpoint.path).and_then(|mut file| {
            for bytes in [&MAGIC[..], &self.digest, &body.0, check.as_slice()] {
                file.write_all(bytes)?;
            }
            file.commit()
        });
        self.last = Instant::now();
        written.map_err(|error| self.error(error.to_string()))
    }

    fn error(&self, reason: impl Into<String>) -> TrainError {
        TrainError::Checkpoint { path: self.checkpoint.path.clone(), reason: reason.into() }
    }

    /// Reads the file, if resuming was requested and it exists.
    pub(crate) fn load(&mut self) -> Result<Option<SavedState>, TrainError> {
        let Some(body) = self.read()? else { return Ok(None) };
        let saved = CheckpointReader(&body).saved().ok_or_else(|| self.damaged())?;
        self.finished.clone_from(&saved.finished);
        Ok(Some(saved))
    }

    /// The error for a file whose bytes are not what was written.
    pub(crate) fn damaged(&self) -> TrainError {
        self.error("the file is damaged")
    }

    /// The body that was written last, if resuming was requested and the file exists.
    pub(crate) fn read(&self) -> Result<Option<Vec<u8>>, TrainError> {
        if !self.checkpoint.resume {
            return Ok(None);
        }
        let bytes = match fs::read(&self.checkpoint.path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.error(error.to_string())),
        };
        let body = bytes.len().checked_sub(DIGEST).ok_or_else(|| self.damaged())?;
        let (body, check) = bytes.split_at(body);
        if Sha256::digest(body).as_slice() != check || !body.starts_with(MAGIC) {
            return Err(self.damaged());
        }
        let rest = &body[MAGIC.len()..];
        if rest.len() < DIGEST || rest[..DIGEST] != self.digest {
            return Err(self.error("it belongs to other data or other parameters"));
        }
        Ok(Some(rest[DIGEST..].to_vec()))
    }
}

/// Bytes of a checkpoint being made.
#[derive(Debug, Default)]
pub(crate) struct CheckpointWriter(Vec<u8>);

impl CheckpointWriter {
    pub(crate) fn number(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn f64s(&mut self, values: &[f64]) {
        self.number(values.len() as u64);
        values.iter().for_each(|value| self.number(value.to_bits()));
    }

    pub(crate) fn u32s(&mut self, values: &[u32]) {
        self.number(values.len() as u64);
        values.iter().for_each(|value| self.0.extend_from_slice(&value.to_le_bytes()));
    }

    fn solution(&mut self, solution: &Solution) {
        self.f64s(&solution.beta);
        let o = &solution.optimality;
        self.f64s(&[o.objective, o.gap, o.violation]);
        self.f64s(&o.multipliers);
    }

    fn state(&mut self, state: &State) {
        self.f64s(&state.beta);
        self.f64s(&state.k_beta);
        self.u32s(&state.active);
        self.u32s(&state.previous);
        for value in [state.rounds, state.steps, state.next_check, state.next_shrink] {
            self.number(value);
        }
        self.number(u64::from(state.idle));
        self.number(u64::from(state.is_f64));
        self.f64s(&state.lowest.beta);
        self.number(state.lowest.objective.to_bits());
    }
}

/// Bytes of a checkpoint being read.
#[derive(Debug)]
pub(crate) struct CheckpointReader<'a>(pub(crate) &'a [u8]);

impl CheckpointReader<'_> {
    pub(crate) fn number(&mut self) -> Option<u64> {
        let (head, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*head))
    }

    /// A length that the rest of the file can hold.
    pub(crate) fn length(&mut self, size: usize) -> Option<usize> {
        let length = usize::try_from(self.number()?).ok()?;
        (length <= self.0.len() / size).then_some(length)
    }

    pub(crate) fn f64s(&mut self) -> Option<Vec<f64>> {
        let length = self.length(8)?;
        (0..length).map(|_| self.number().map(f64::from_bits)).collect()
    }

    pub(crate) fn u32s(&mut self) -> Option<Vec<u32>> {
        let length = self.length(4)?;
        let (head, rest) = self.0.split_at(4 * length);
        self.0 = rest;
        let words = head.as_chunks::<4>().0;
        Some(words.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect())
    }

    fn solution(&mut self) -> Option<Solution> {
        let beta = self.f64s()?;
        let [objective, gap, violation] = <[f64; 3]>::try_from(self.f64s()?).ok()?;
        let multipliers = self.f64s()?;
        let optimality = Optimality { objective, gap, violation, multipliers };
        Some(Solution { beta, optimality, k_beta: Vec::new(), stop: None })
    }

    fn saved(&mut self) -> Option<SavedState> {
        let elapsed = Duration::from_micros(self.number()?);
        let iterations = self.number()?;
        let subproblem = usize::try_from(self.number()?).ok()?;
        let finished = self.length(8)?;
        let finished = (0..finished).map(|_| self.solution()).collect::<Option<Vec<_>>>()?;
        let state = State {
            beta: self.f64s()?,
            k_beta: self.f64s()?,
            active: self.u32s()?,
            previous: self.u32s()?,
            rounds: self.number()?,
            steps: self.number()?,
            next_check: self.number()?,
            next_shrink: self.number()?,
            idle: u32::try_from(self.number()?).ok()?,
            is_f64: self.number()? != 0,
            lowest: LowestPoint { beta: self.f64s()?, objective: f64::from_bits(self.number()?) },
        };
        let saved = SavedState { elapsed, iterations, subproblem, finished, state };
        (saved.finished.len() == subproblem).then_some(saved)
    }
}
