//! Reads a model file of Mercer's own format. Nothing in the file is trusted: the digest, shapes and values
//! are checked here or by the constructors that get them.

use std::sync::Arc;

use mercer_data::scale::{self, Map};
use mercer_data::{Matrix, Scaling};
use safetensors::{Dtype, SafeTensors};

use super::header::{BinsText, FileHeader, PlanText, ProbabilitiesText, ScalingText, SpacingText};
use super::{KEY, VERSION, kept_rows, write};
use crate::{
    Array, Bins, Calibration, Curve, Input, Machine, MachineError, Model, PlanSections,
    Probabilities, Score, Section, Spacing, file,
};

pub(super) fn read(bytes: &[u8]) -> Result<Model, MachineError> {
    let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(|error| damaged(&error))?;
    let text = metadata.metadata().as_ref().and_then(|texts| texts.get(KEY));
    let text = text.ok_or_else(|| damaged(&"its header does not name mercer"))?;
    check_version(text)?;
    let mut header: FileHeader = serde_json::from_str(text).map_err(|error| damaged(&error))?;
    let arrays = ArrayReader(SafeTensors::deserialize(bytes).map_err(|error| damaged(&error))?);
    let found = write::digest(arrays.0.iter().map(|(name, view)| (name, view.data())));
    if found != header.digest {
        return Err(damaged(&"its digest does not match its contents"));
    }
    let kernel = mercer_kernel::parse(&header.kernel)?;
    let supports = supports(&arrays, &header)?;
    let rows = supports.rows();
    let scores = scores(&arrays, &header)?;
    let probabilities = probabilities(&arrays, &header)?;
    let centre = arrays.f64s_if("machine/centre")?;
    let plan = header.plan.take().map(|text| plan(&arrays, text)).transpose()?;
    let scaling = header.scaling.take().map(|text| scaling(&arrays, &text)).transpose()?;
    let means = arrays.f64s_if("input/means")?;
    let is_fit = |means: &Vec<f64>| {
        let features = header.features.unwrap_or(header.columns);
        means.len() == features && means.iter().all(|mean| mean.is_finite())
    };
    if means.as_ref().is_some_and(|means| !is_fit(means)) {
        return Err(damaged(&"its means do not fit its columns"));
    }
    let input = Input {
        features: header.features,
        names: header.names.take(),
        scaling,
        means,
        target: header.target.take(),
        zero_based: header.zero_based,
    };
    let provenance = header.provenance.into();
    let conformal = header.conformal.map(TryInto::try_into).transpose()?;
    let output = header.output.into();
    let machine = match header.bins.take() {
        Some(_) if rows > 0 => return Err(damaged(&"it has both supports and bins")),
        Some(text) => {
            let bins = Arc::new(bins(&arrays, &text)?);
            Machine::additive(kernel, header.columns, bins, scores, output)?
        }
        None => Machine::new(kernel, supports, scores, output)?,
    };
    if machine.supports().rows() != rows {
        return Err(damaged(&"it repeats a support"));
    }
    let machine = machine.with_centre(centre)?;
    if plan.as_ref().is_some_and(|plan| plan.machine != file::digest(&machine)) {
        return Err(damaged(&"its plan was made for another machine"));
    }
    let training = header.training.take().map(|text| kept_rows::read(&arrays, text)).transpose()?;
    let training = training.map(Arc::new);
    Ok(Model { machine, plan, input, probabilities, conformal, provenance, training })
}

/// More stages than any plan has: each of them searches all arrays of the file.
const MAX_STAGES: usize = 64;

/// The scaling: which arrays there are says which map it is.
fn scaling(arrays: &ArrayReader<'_>, text: &ScalingText) -> Result<Scaling, MachineError> {
    let map = if let Some(centres) = arrays.f64s_if("input/scaling/centres")? {
        Map::Affine { centres, factors: arrays.f64s("input/scaling/factors")? }
    } else if let Some(knots) = arrays.f64s_if("input/scaling/knots")? {
        Map::Quantiles { knots, count: text.quantiles.unwrap_or(0) }
    } else {
        // A scaling that needs no statistics of the columns is described by its text.
        let empty = Matrix::dense(0, Vec::new())?;
        let recipe = scale::parse(&text.spec)?;
        match recipe.fit(&empty)?.map() {
            Map::UnitNorm(norm) => Map::UnitNorm(*norm),
            _ => return Err(missing("input/scaling")),
        }
    };
    Scaling::from_parts(&text.spec, map).map_err(|error| damaged(&error))
}

/// The texts of the plan and the arrays of each stage; the stages check their own arrays.
fn plan(arrays: &ArrayReader<'_>, text: PlanText) -> Result<PlanSections, MachineError> {
    let PlanText { spec, machine, stages, tuning } = text;
    if stages.len() > MAX_STAGES {
        let found = stages.len();
        return Err(damaged(&format!(
            "its plan has {found} stages, at most {MAX_STAGES} are read"
        )));
    }
    let mut sections = Vec::new();
    for (number, stage) in stages.into_iter().enumerate() {
        let mut section = Section::new(stage);
        let prefix = format!("plan/{number}-{}/", section.stage());
        let mut own: Vec<_> =
            arrays.0.iter().filter(|(full, _)| full.starts_with(&prefix)).collect();
        // In the order of their names, each is added at the end.
        own.sort_by_key(|(full, _)| *full);
        for (full, view) in own {
            let Some(name) = full.strip_prefix(&prefix) else { continue };
            let array = match view.dtype() {
                Dtype::F64 => Array::F64(arrays.f64s(full)?),
                Dtype::F32 => Array::F32(arrays.f32s(full)?),
                Dtype::U32 => Array::U32(arrays.u32s(full)?),
                _ => Array::U8(arrays.u8s(full)?),
            };
            section = section.with(name, array);
        }
        sections.push(section);
    }
    let calibration = match arrays.f64s_if("plan/calibration")? {
        Some(numbers) => Some(
            Calibration::from_numbers(&numbers)
                .ok_or_else(|| damaged(&"its calibration is not valid"))?,
        ),
        None => None,
    };
    if tuning.as_ref().is_some_and(|tuning| !tuning.is_sane()) {
        return Err(damaged(&"the record of its tuning is not valid"));
    }
    Ok(PlanSections { spec, machine, sections, calibration, tuning })
}

/// Checks the version before anything else, so that a file of another version is not called damaged.
fn check_version(text: &str) -> Result<(), MachineError> {
    let value: serde_json::Value = serde_json::from_str(text).map_err(|error| damaged(&error))?;
    match value.get("version").and_then(serde_json::Value::as_u64) {
        Some(VERSION) => Ok(()),
        Some(found) => Err(MachineError::Version { found, known: VERSION }),
        None => Err(damaged(&"its header has no version number")),
    }
}

pub(super) fn damaged(reason: &dyn std::fmt::Display) -> MachineError {
    MachineError::Damaged { reason: reason.to_string() }
}

pub(super) struct ArrayReader<'a>(SafeTensors<'a>);

impl ArrayReader<'_> {
    fn bytes(&self, name: &str, dtype: Dtype) -> Result<Option<&[u8]>, MachineError> {
        let Ok(view) = self.0.tensor(name) else {
            return Ok(None);
        };
        if view.dtype() != dtype || view.shape().len() != 1 {
            return Err(damaged(&format!("array '{name}' has the wrong type or shape")));
        }
        Ok(Some(view.data()))
    }

    pub(super) fn f64s_if(&self, name: &str) -> Result<Option<Vec<f64>>, MachineError> {
        let bytes = self.bytes(name, Dtype::F64)?;
        let convert = |bytes: &[u8]| {
            bytes.as_chunks::<8>().0.iter().map(|chunk| f64::from_le_bytes(*chunk)).collect()
        };
        Ok(bytes.map(convert))
    }

    pub(super) fn f64s(&self, name: &str) -> Result<Vec<f64>, MachineError> {
        self.f64s_if(name)?.ok_or_else(|| missing(name))
    }

    pub(super) fn u32s(&self, name: &str) -> Result<Vec<u32>, MachineError> {
        let bytes = self.bytes(name, Dtype::U32)?.ok_or_else(|| missing(name))?;
        Ok(bytes.as_chunks::<4>().0.iter().map(|chunk| u32::from_le_bytes(*chunk)).collect())
    }

    fn f32s_if(&self, name: &str) -> Result<Option<Vec<f32>>, MachineError> {
        let bytes = self.bytes(name, Dtype::F32)?;
        let convert = |bytes: &[u8]| {
            bytes.as_chunks::<4>().0.iter().map(|chunk| f32::from_le_bytes(*chunk)).collect()
        };
        Ok(bytes.map(convert))
    }

    fn f32s(&self, name: &str) -> Result<Vec<f32>, MachineError> {
        self.f32s_if(name)?.ok_or_else(|| missing(name))
    }

    fn u8s(&self, name: &str) -> Result<Vec<u8>, MachineError> {
        Ok(self.bytes(name, Dtype::U8)?.ok_or_else(|| missing(name))?.to_vec())
    }

    pub(super) fn starts(&self, name: &str) -> Result<Vec<usize>, MachineError> {
        let bytes = self.bytes(name, Dtype::U64)?.ok_or_else(|| missing(name))?;
        let convert = |chunk: &[u8; 8]| usize::try_from(u64::from_le_bytes(*chunk));
        let starts = bytes.as_chunks::<8>().0.iter().map(convert).collect::<Result<_, _>>();
        starts.map_err(|error| damaged(&error))
    }
}

fn missing(name: &str) -> MachineError {
    damaged(&format!("array '{name}' is missing"))
}

fn supports(arrays: &ArrayReader<'_>, header: &FileHeader) -> Result<Matrix, MachineError> {
    let matrix = match arrays.f64s_if("machine/supports/dense")? {
        Some(values) => Matrix::dense(header.columns, values)?,
        None => Matrix::sparse(
            header.columns,
            &arrays.starts("machine/supports/starts")?,
            &arrays.u32s("machine/supports/columns")?,
            &arrays.f64s("machine/supports/values")?,
        )?,
    };
    if matrix.rows() == header.rows {
        Ok(matrix)
    } else {
        Err(damaged(&format!("it holds {} supports, not {}", matrix.rows(), header.rows)))
    }
}

fn scores(arrays: &ArrayReader<'_>, header: &FileHeader) -> Result<Vec<Score>, MachineError> {
    let offsets = arrays.f64s("machine/scores/offsets")?;
    let starts = arrays.starts("machine/scores/starts")?;
    let indices = arrays.u32s("machine/scores/supports")?;
    let values = arrays.f64s("machine/scores/coefficients")?;
    let weights = arrays.f64s_if("machine/scores/weights")?.unwrap_or_default();
    if offsets.len() != header.scores.len() || starts.len() != offsets.len() + 1 {
        return Err(damaged(&"the number of scores is contradictory"));
    }
    let bin_weights = arrays.f32s_if("machine/scores/bin_weights")?.unwrap_or_default();
    let rank = header.bins.as_ref().map_or(0, |bins| bins.rank);
    let additive_size = header.columns.saturating_mul(rank);
    let (mut next_linear, mut next_additive) = (0usize, 0usize);
    let mut scores = Vec::new();
    for (position, letter) in header.scores.chars().enumerate() {
        let offset = offsets[position];
        let range = starts[position]..starts[position + 1];
        scores.push(match letter {
            'e' => {
                let supports = indices.get(range.clone()).map(<[u32]>::to_vec);
                let coefficients = values.get(range).map(<[f64]>::to_vec);
                let (Some(supports), Some(coefficients)) = (supports, coefficients) else {
                    return Err(damaged(&"coefficients reach beyond their array"));
                };
                Score::Expansion { supports, coefficients, offset }
            }
            'l' => {
                let end = next_linear.saturating_add(header.columns);
                let weights = weights.get(next_linear..end).map(<[f64]>::to_vec);
                next_linear = end;
                let weights = weights.ok_or_else(|| missing("machine/scores/weights"))?;
                Score::Linear { weights, offset }
            }
            'a' => {
                let end = next_additive.saturating_add(additive_size);
                let weights = bin_weights.get(next_additive..end).map(<[f32]>::to_vec);
                next_additive = end;
                let weights = weights.ok_or_else(|| missing("machine/scores/bin_weights"))?;
                Score::Additive { weights, offset }
            }
            _ => return Err(damaged(&"a score is of an unknown kind")),
        });
    }
    Ok(scores)
}

fn bins(arrays: &ArrayReader<'_>, text: &BinsText) -> Result<Bins, MachineError> {
    let encoding = arrays.f32s("machine/bins/encoding")?;
    let spacing = match text.spacing {
        SpacingText::Power => {
            let numbers = arrays.f64s("machine/bins/power")?;
            let [top, exponent] = <[f64; 2]>::try_from(numbers)
                .map_err(|_| damaged(&"array 'machine/bins/power' has the wrong type or shape"))?;
            Spacing::Power { top, exponent: exponent as u32 }
        }
        SpacingText::Quantile => Spacing::Quantile {
            starts: arrays.starts("machine/bins/starts")?,
            cuts: arrays.f64s("machine/bins/cuts")?,
        },
    };
    Bins::new(spacing, text.rank, encoding)
}

fn curves(arrays: &ArrayReader<'_>) -> Result<Vec<Curve>, MachineError> {
    let counts = arrays.u32s("probabilities/curves/counts")?;
    let scores = arrays.f64s("probabilities/curves/scores")?;
    let values = arrays.f64s("probabilities/curves/values")?;
    let needed: usize = counts.iter().map(|count| (*count as usize).max(1)).sum::<usize>();
    if scores.len() != needed || values.len() != needed {
        return Err(damaged(&"its probability curves do not fit their counts"));
    }
    let mut at = 0;
    let mut next = |count: &u32| {
        let range = at..at + (*count as usize).max(1);
        at = range.end;
        let (scores, values) = (scores[range.clone()].to_vec(), values[range].to_vec());
        let rises = |list: &[f64]| list.is_sorted() && list.iter().all(|v| v.is_finite());
        match count {
            0 if scores[0].is_finite() && values[0].is_finite() => {
                Ok(Curve::Sigmoid { a: scores[0], b: values[0] })
            }
            1.. if rises(&scores) && rises(&values) => {
                Ok(Curve::PiecewiseLinear { scores, values })
            }
            _ => Err(damaged(&"a probability curve decreases")),
        }
    };
    counts.iter().map(&mut next).collect()
}

fn probabilities(
    arrays: &ArrayReader<'_>,
    header: &FileHeader,
) -> Result<Option<Probabilities>, MachineError> {
    Ok(match header.probabilities {
        None => None,
        Some(ProbabilitiesText::Sigmoid) => Some(Probabilities::Sigmoid {
            a: arrays.f64s("probabilities/a")?,
            b: arrays.f64s("probabilities/b")?,
        }),
        Some(ProbabilitiesText::Laplace) => {
            let sigma = arrays.f64s("probabilities/sigma")?;
            let sigma = *sigma.first().ok_or_else(|| missing("probabilities/sigma"))?;
            Some(Probabilities::Laplace { sigma })
        }
        Some(ProbabilitiesText::Marks) => {
            Some(Probabilities::Marks(arrays.f64s("probabilities/marks")?))
        }
        Some(ProbabilitiesText::Curves) => Some(Probabilities::Curves(curves(arrays)?)),
    })
}
