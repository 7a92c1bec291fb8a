use std::sync::Arc;

use mercer_data::scale::{self, Map};
use mercer_data::{Matrix, Scaling};
use safetensors::{Dtype, SafeTensors};

use super::header::{GridText, Header, PlanText, ProbabilitiesText, ScaleText, ScalingText};
use super::{FORMAT_NUMBER, KEY, write};
use crate::{
    Array, Calibration, Curve, Grid, Input, Machine, MachineError, Model, PlanSections,
    Probabilities, Score, Section, Spacing, file,
};

pub(super) fn read(bytes: &[u8]) -> Result<Model, MachineError> {
    let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(|error| damaged(&error))?;
    let text = metadata.metadata().as_ref().and_then(|texts| texts.get(KEY));
    let text = text.ok_or_else(|| damaged(&"its header does not name mercer"))?;
    check_version(text)?;
    let mut header: Header = serde_json::from_str(text).map_err(|error| damaged(&error))?;
    let arrays = Arrays(SafeTensors::deserialize(bytes).map_err(|error| damaged(&error))?);
    let found = write::digest(arrays.0.iter().map(|(name, view)| (name, view.data())));
    if found != header.digest {
        return Err(damaged(&"its digest does not match its contents"));
    }
    let kernel = mercer_kernel::parse(&header.kernel)?;
    let supports = supports(&arrays, &header)?;
    let rows = supports.rows();
    let scores = scores(&arrays, &header)?;
    let probabilities = probabilities(&arrays, &header)?;
    let centre = arrays.reals_if("machine/centre")?;
    let plan = header.plan.take().map(|text| plan(&arrays, text)).transpose()?;
    let scaling = header.scaling.take().map(|text| scaling(&arrays, &text)).transpose()?;
    let means = arrays.reals_if("input/means")?;
    let is_fit = |means: &Vec<f64>| {
        let features = header.features.unwrap_or(header.columns);
        means.len() == features && means.iter().all(|mean| mean.is_finite())
    };
    if means.as_ref().is_some_and(|means| !is_fit(means)) {
        return Err(damaged(&"its means do not fit its columns"));
    }
    let input = Input { features: header.features, names: header.names.take(), scaling, means };
    let provenance = header.provenance.into();
    let output = header.output.into();
    let machine = match header.grid.take() {
        Some(_) if rows > 0 => return Err(damaged(&"it has both supports and tables")),
        Some(text) => {
            let grid = Arc::new(grid(&arrays, &text)?);
            Machine::tabled(kernel, header.columns, grid, scores, output)?
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
    Ok(Model { machine, plan, input, probabilities, provenance })
}

/// The scaling: its arrays tell which map it is.
fn scaling(arrays: &Arrays<'_>, text: &ScalingText) -> Result<Scaling, MachineError> {
    let map = if let Some(centres) = arrays.reals_if("input/scaling/centres")? {
        Map::Affine { centres, factors: arrays.reals("input/scaling/factors")? }
    } else if let Some(knots) = arrays.reals_if("input/scaling/knots")? {
        Map::Quantiles { knots, count: text.quantiles.unwrap_or(0) }
    } else {
        // One that looks at rows alone is all in its text.
        let nothing = Matrix::dense(0, Vec::new())?;
        let recipe = scale::parse(&text.spec)?;
        match recipe.fit(&nothing)?.map() {
            Map::UnitNorm(norm) => Map::UnitNorm(*norm),
            _ => return Err(missing("input/scaling")),
        }
    };
    Scaling::from_parts(&text.spec, map).map_err(|error| damaged(&error))
}

/// The plan's texts with the arrays of each stage; what they mean is checked where they are used.
fn plan(arrays: &Arrays<'_>, text: PlanText) -> Result<PlanSections, MachineError> {
    let PlanText { spec, machine, stages, tuning } = text;
    let mut sections = Vec::new();
    for (number, stage) in stages.into_iter().enumerate() {
        let mut section = Section::new(stage);
        let prefix = format!("plan/{number}-{}/", section.stage());
        for (full, view) in arrays.0.iter() {
            let Some(name) = full.strip_prefix(&prefix) else { continue };
            let array = match view.dtype() {
                Dtype::F64 => Array::F64(arrays.reals(full)?),
                Dtype::F32 => Array::F32(arrays.singles(full)?),
                Dtype::U32 => Array::U32(arrays.indices(full)?),
                _ => Array::U8(arrays.octets(full)?),
            };
            section = section.with(name, array);
        }
        sections.push(section);
    }
    let calibration = match arrays.reals_if("plan/calibration")? {
        Some(numbers) => Some(
            Calibration::from_numbers(&numbers)
                .ok_or_else(|| damaged(&"its calibration makes no sense"))?,
        ),
        None => None,
    };
    if tuning.as_ref().is_some_and(|tuning| !tuning.is_sane()) {
        return Err(damaged(&"the record of its tuning makes no sense"));
    }
    Ok(PlanSections { spec, machine, sections, calibration, tuning })
}

/// A newer file is told apart from a damaged one before its other fields are looked at.
fn check_version(text: &str) -> Result<(), MachineError> {
    let value: serde_json::Value = serde_json::from_str(text).map_err(|error| damaged(&error))?;
    let format = value.get("format").and_then(serde_json::Value::as_u64);
    match format {
        Some(found) if found > FORMAT_NUMBER => {
            Err(MachineError::Version { found, known: FORMAT_NUMBER })
        }
        Some(_) => Ok(()),
        None => Err(damaged(&"its header has no format number")),
    }
}

fn damaged(reason: &dyn std::fmt::Display) -> MachineError {
    MachineError::Damaged { reason: reason.to_string() }
}

struct Arrays<'a>(SafeTensors<'a>);

impl Arrays<'_> {
    fn bytes(&self, name: &str, dtype: Dtype) -> Result<Option<&[u8]>, MachineError> {
        let Ok(view) = self.0.tensor(name) else {
            return Ok(None);
        };
        if view.dtype() != dtype || view.shape().len() != 1 {
            return Err(damaged(&format!("array '{name}' has the wrong type or shape")));
        }
        Ok(Some(view.data()))
    }

    fn reals_if(&self, name: &str) -> Result<Option<Vec<f64>>, MachineError> {
        let bytes = self.bytes(name, Dtype::F64)?;
        let convert = |bytes: &[u8]| {
            let (whole, _) = bytes.as_chunks::<8>();
            whole.iter().map(|chunk| f64::from_le_bytes(*chunk)).collect()
        };
        Ok(bytes.map(convert))
    }

    fn reals(&self, name: &str) -> Result<Vec<f64>, MachineError> {
        self.reals_if(name)?.ok_or_else(|| missing(name))
    }

    fn indices(&self, name: &str) -> Result<Vec<u32>, MachineError> {
        let bytes = self.bytes(name, Dtype::U32)?.ok_or_else(|| missing(name))?;
        Ok(bytes.as_chunks::<4>().0.iter().map(|chunk| u32::from_le_bytes(*chunk)).collect())
    }

    fn singles_if(&self, name: &str) -> Result<Option<Vec<f32>>, MachineError> {
        let bytes = self.bytes(name, Dtype::F32)?;
        let convert = |bytes: &[u8]| {
            bytes.as_chunks::<4>().0.iter().map(|chunk| f32::from_le_bytes(*chunk)).collect()
        };
        Ok(bytes.map(convert))
    }

    fn singles(&self, name: &str) -> Result<Vec<f32>, MachineError> {
        self.singles_if(name)?.ok_or_else(|| missing(name))
    }

    fn octets(&self, name: &str) -> Result<Vec<u8>, MachineError> {
        Ok(self.bytes(name, Dtype::U8)?.ok_or_else(|| missing(name))?.to_vec())
    }

    fn starts(&self, name: &str) -> Result<Vec<usize>, MachineError> {
        let bytes = self.bytes(name, Dtype::U64)?.ok_or_else(|| missing(name))?;
        let convert = |chunk: &[u8; 8]| usize::try_from(u64::from_le_bytes(*chunk));
        let starts = bytes.as_chunks::<8>().0.iter().map(convert).collect::<Result<_, _>>();
        starts.map_err(|error| damaged(&error))
    }
}

fn missing(name: &str) -> MachineError {
    damaged(&format!("array '{name}' is missing"))
}

fn supports(arrays: &Arrays<'_>, header: &Header) -> Result<Matrix, MachineError> {
    let matrix = match arrays.reals_if("machine/supports/dense")? {
        Some(values) => Matrix::dense(header.columns, values)?,
        None => Matrix::sparse(
            header.columns,
            &arrays.starts("machine/supports/starts")?,
            &arrays.indices("machine/supports/columns")?,
            &arrays.reals("machine/supports/values")?,
        )?,
    };
    if matrix.rows() == header.rows {
        Ok(matrix)
    } else {
        Err(damaged(&format!("it holds {} supports, not {}", matrix.rows(), header.rows)))
    }
}

fn scores(arrays: &Arrays<'_>, header: &Header) -> Result<Vec<Score>, MachineError> {
    let offsets = arrays.reals("machine/scores/offsets")?;
    let starts = arrays.starts("machine/scores/starts")?;
    let indices = arrays.indices("machine/scores/supports")?;
    let values = arrays.reals("machine/scores/coefficients")?;
    let weights = arrays.reals_if("machine/scores/weights")?.unwrap_or_default();
    if offsets.len() != header.scores.len() || starts.len() != offsets.len() + 1 {
        return Err(damaged(&"the number of scores is not clear"));
    }
    let tables = arrays.singles_if("machine/scores/tables")?.unwrap_or_default();
    let table_size =
        header.columns.saturating_mul(header.grid.as_ref().map_or(0, |grid| grid.rank));
    let (mut next_weights, mut next_table) = (0, 0usize);
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
                let end = next_weights + header.columns;
                let own = weights.get(next_weights..end).map(<[f64]>::to_vec);
                next_weights = end;
                Score::Linear {
                    weights: own.ok_or_else(|| missing("machine/scores/weights"))?,
                    offset,
                }
            }
            't' => {
                let end = next_table.saturating_add(table_size);
                let own = tables.get(next_table..end).map(<[f32]>::to_vec);
                next_table = end;
                let weights = own.ok_or_else(|| missing("machine/scores/tables"))?;
                Score::Table { weights, offset }
            }
            _ => return Err(damaged(&"a score is of unknown kind")),
        });
    }
    Ok(scores)
}

fn grid(arrays: &Arrays<'_>, text: &GridText) -> Result<Grid, MachineError> {
    let factors = arrays
        .singles_if("machine/grid/factors")?
        .ok_or_else(|| missing("machine/grid/factors"))?;
    let scale = match text.scale {
        ScaleText::Power => {
            let numbers = arrays.reals("machine/grid/power")?;
            let [top, exponent] = <[f64; 2]>::try_from(numbers)
                .map_err(|_| damaged(&"array 'machine/grid/power' has the wrong type or shape"))?;
            Spacing::Power { top, exponent: exponent as u32 }
        }
        ScaleText::Quantile => Spacing::Quantile {
            starts: arrays.starts("machine/grid/starts")?,
            cuts: arrays.reals("machine/grid/cuts")?,
        },
    };
    Grid::new(scale, text.rank, factors)
}

fn curves(arrays: &Arrays<'_>) -> Result<Vec<Curve>, MachineError> {
    let counts = arrays.indices("probabilities/counts")?;
    let scores = arrays.reals("probabilities/scores")?;
    let shares = arrays.reals("probabilities/shares")?;
    let needed: usize = counts.iter().map(|count| (*count as usize).max(1)).sum();
    if scores.len() != needed || shares.len() != needed {
        return Err(damaged(&"its curves of probabilities do not fit their counts"));
    }
    let mut at = 0;
    let mut next = |count: &u32| {
        let range = at..at + (*count as usize).max(1);
        at = range.end;
        let (scores, shares) = (scores[range.clone()].to_vec(), shares[range].to_vec());
        let rises = |values: &[f64]| values.is_sorted() && values.iter().all(|v| v.is_finite());
        match count {
            0 if scores[0].is_finite() && shares[0].is_finite() => {
                Ok(Curve::Sigmoid { a: scores[0], b: shares[0] })
            }
            1.. if rises(&scores) && rises(&shares) => Ok(Curve::Lines { scores, shares }),
            _ => Err(damaged(&"a curve of probabilities does not rise")),
        }
    };
    counts.iter().map(&mut next).collect()
}

fn probabilities(
    arrays: &Arrays<'_>,
    header: &Header,
) -> Result<Option<Probabilities>, MachineError> {
    Ok(match header.probabilities {
        None => None,
        Some(ProbabilitiesText::Sigmoid) => Some(Probabilities::Sigmoid {
            a: arrays.reals("probabilities/a")?,
            b: arrays.reals("probabilities/b")?,
        }),
        Some(ProbabilitiesText::Laplace) => {
            let sigma = arrays.reals("probabilities/sigma")?;
            let sigma = *sigma.first().ok_or_else(|| missing("probabilities/sigma"))?;
            Some(Probabilities::Laplace { sigma })
        }
        Some(ProbabilitiesText::Marks) => {
            Some(Probabilities::Marks(arrays.reals("probabilities/marks")?))
        }
        Some(ProbabilitiesText::Curves) => Some(Probabilities::Curves(curves(arrays)?)),
    })
}
