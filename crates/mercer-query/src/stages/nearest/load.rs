//! The stage from its arrays, which are not trusted.
//!
//! `low` and `high`: thresholds after each step, score after score, one for each vector of the score. `tug_of_war`: 0
//! or 1. The order comes from `basis` (principal directions), or from `landmarks`, `map`, `shift`, `coordinates` and
//! `constants` (`nearness.rs`). Where there is a filter, `filter` holds weights for all columns of the machine and
//! `filter_ends` constant, low and high, score after score. A reduced set is `vectors_starts`, `vectors_columns`,
//! `vectors_values` (sparse rows) and `coefficients` (all vectors, score after score).

use std::sync::Arc;

use mercer_data::Matrix;
use mercer_kernel::Form;
use mercer_machine::{Array, Machine, Output, Scheme, Score, Section};
use mercer_simd::Panels32;
use mercer_spec::Checked;

use super::super::coordinates::{Basis, LiveColumns};
use super::nearness::{Embedding, Nearness};
use super::supports::SupportRows;
use super::{LinearFilter, Nearest, ScoreWalk};
use crate::{Exact, LoadError};

/// Most dimensions of an order.
const MOST_DIMENSIONS: usize = 256;

pub(super) fn load(
    section: &Section,
    arguments: &Checked<'_>,
    exact: &Exact,
) -> Result<Nearest, LoadError> {
    let refuse = |reason: &str| LoadError::unfit("nearest", reason);
    let machine = exact.machine();
    check(machine).map_err(|reason| refuse(&reason))?;
    let vectors = WalkedVectors::new(section, machine).map_err(refuse)?;
    let Some([tug]) = section.u32s("tug_of_war") else {
        return Err(refuse("its arrays do not fit the machine"));
    };
    let live = LiveColumns::new(exact);
    let norms = (!vectors.is_reduced).then(|| exact.packed().squared_norms());
    Ok(Nearest {
        isa: exact.isa(),
        spec: arguments.text().clone(),
        filters: filters(section, machine).map_err(refuse)?,
        nearness: nearness(section, exact, &vectors).map_err(refuse)?,
        has_tug_of_war: *tug != 0,
        is_reduced: vectors.is_reduced,
        scores: score_walks(section, &vectors).map_err(refuse)?,
        rows: SupportRows::new(exact.isa(), &vectors.rows, norms, &live),
        live,
        columns: machine.columns() as u64,
    })
}

/// Whether signs of scores decide the label, and the kernel is one of products.
fn check(machine: &Machine) -> Result<(), String> {
    let is_expansion = |score: &Score| matches!(score, Score::Expansion { .. });
    if !machine.scores().iter().all(is_expansion) {
        return Err("a score that is no sum over supports has no nearest ones".to_owned());
    }
    match machine.output() {
        Output::Value => return Err("values of a regression are not estimated".to_owned()),
        Output::Classes { scheme: Scheme::OneVsRest, .. } if machine.scores().len() > 1 => {
            return Err("with one-vs-rest the largest score decides, not a sign".to_owned());
        }
        _ => {}
    }
    if matches!(machine.kernel().form(), Form::Dot(_) | Form::Shift(_)) {
        Ok(())
    } else {
        Err(format!("{} is not a function of a dot product", machine.kernel().spec()))
    }
}

/// The vectors that are visited: the supports, or a reduced set.
struct WalkedVectors {
    rows: Arc<Matrix>,
    scores: Vec<Score>,
    is_reduced: bool,
}

impl WalkedVectors {
    fn new(section: &Section, machine: &Machine) -> Result<Self, &'static str> {
        let Some(starts) = section.u32s("vectors_starts") else {
            let (rows, scores) = (machine.supports().clone(), machine.scores().to_vec());
            return Ok(Self { rows, scores, is_reduced: false });
        };
        let missing = "its reduced set does not fit the machine";
        let columns = section.u32s("vectors_columns").ok_or(missing)?;
        let values = section.f64s("vectors_values").ok_or(missing)?;
        let coefficients = section.f64s("coefficients").ok_or(missing)?;
        let starts: Vec<usize> = starts.iter().map(|start| *start as usize).collect();
        let is_ordered = starts.windows(2).all(|pair| pair[0] <= pair[1]);
        let fits = starts.len() > 1 && starts[0] == 0 && is_ordered;
        if !fits || columns.len() != values.len() || starts.last() != Some(&values.len()) {
            return Err(missing);
        }
        let count = starts.len() - 1;
        if coefficients.len() != count * machine.scores().len()
            || coefficients.iter().any(|beta| !beta.is_finite())
        {
            return Err(missing);
        }
        let rows = Matrix::sparse(machine.columns(), &starts, columns, values);
        let rows = Arc::new(rows.map_err(|_| missing)?.compact());
        let pairs = coefficients.chunks_exact(count).zip(machine.scores());
        let scores = pairs.map(|(own, score)| Score::expansion(own, score.offset())).collect();
        Ok(Self { rows, scores, is_reduced: true })
    }
}

fn score_walks(section: &Section, vectors: &WalkedVectors) -> Result<Vec<ScoreWalk>, &'static str> {
    let unfit = "its arrays do not fit the machine";
    let (mut low, mut high) =
        (section.f64s("low").ok_or(unfit)?, section.f64s("high").ok_or(unfit)?);
    let mut walks = Vec::new();
    for score in &vectors.scores {
        let Score::Expansion { supports, coefficients, offset } = score else {
            return Err(unfit);
        };
        let count = supports.len();
        let low = low.split_off(..count).ok_or(unfit)?.to_vec();
        let high = high.split_off(..count).ok_or(unfit)?.to_vec();
        if low.iter().any(|end| end.is_nan() || *end > 0.0)
            || high.iter().any(|end| end.is_nan() || *end < 0.0)
        {
            return Err("its thresholds do not lie on both sides of zero");
        }
        let (members, coefficients) = (supports.clone(), coefficients.clone());
        walks.push(ScoreWalk { members, coefficients, offset: *offset, low, high });
    }
    if low.is_empty() && high.is_empty() { Ok(walks) } else { Err(unfit) }
}

fn filters(section: &Section, machine: &Machine) -> Result<Vec<LinearFilter>, &'static str> {
    let unfit = "its filter does not fit the machine";
    let (columns, scores) = (machine.columns(), machine.scores().len());
    let (weights, ends) = match (section.f64s("filter"), section.f64s("filter_ends")) {
        (None, None) => return Ok(Vec::new()),
        (Some(weights), Some(ends)) => (weights, ends),
        _ => return Err(unfit),
    };
    if weights.len() != scores * columns
        || ends.len() != scores * 3
        || weights.iter().chain(ends).any(|x| !x.is_finite())
    {
        return Err(unfit);
    }
    let filter = |number: usize| {
        let weights = weights[number * columns..][..columns].to_vec();
        let [constant, low, high] = [0, 1, 2].map(|at| ends[3 * number + at]);
        (low <= 0.0 && high >= 0.0).then_some(LinearFilter { weights, constant, low, high })
    };
    (0..scores).map(filter).collect::<Option<Vec<_>>>().ok_or(unfit)
}

fn nearness(
    section: &Section,
    exact: &Exact,
    vectors: &WalkedVectors,
) -> Result<Nearness, &'static str> {
    let Some(landmarks) = section.u32s("landmarks") else {
        let basis = Basis::load(section, exact)?;
        let (isa, size) = (exact.isa(), basis.rows());
        let rotated = basis.rotate(isa, &vectors.rows);
        let panels = packed(&rotated, vectors.rows.rows(), size);
        return Ok(Nearness::Projected { basis, panels });
    };
    let unfit = "its embedding does not fit the machine";
    let count = vectors.rows.rows();
    let (map, shift) = (section.f64s("map").ok_or(unfit)?, section.f64s("shift").ok_or(unfit)?);
    let constants = section.f64s("constants").ok_or(unfit)?;
    let Some(Array::F32(coordinates)) = section.array("coordinates") else { return Err(unfit) };
    let size = shift.len();
    let fits = (1..=MOST_DIMENSIONS).contains(&size)
        && (1..=2 * MOST_DIMENSIONS).contains(&landmarks.len())
        && landmarks.iter().all(|landmark| (*landmark as usize) < count)
        && map.len() == size * landmarks.len()
        && constants.len() == count
        && coordinates.len() == count * size
        && map.iter().chain(shift).chain(constants).all(|x| x.is_finite())
        && coordinates.iter().all(|x| x.is_finite());
    if !fits {
        return Err(unfit);
    }
    Ok(Nearness::Embedded(Embedding {
        landmarks: landmarks.to_vec(),
        map: map.to_vec(),
        shift: shift.to_vec(),
        panels: packed(coordinates, count, size),
        constants: constants.to_vec(),
    }))
}

fn packed(coordinates: &[f32], rows: usize, size: usize) -> Panels32 {
    Panels32::pack(rows, size, |row, out| {
        out.copy_from_slice(&coordinates[row * size..(row + 1) * size]);
    })
}
