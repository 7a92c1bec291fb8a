//! A plan as one self-contained C99 file that gives its own answers: same label, range, certainty and cost, to the bit. A
//! machine alone is written by `mercer_machine::file`; the code of each stage is beside the stage.

mod file;
mod kernel;
mod machine;
mod vectors;

use std::io::Write;

use mercer_machine::file::c as machine_file;
use mercer_machine::{MachineError, Model, Output, Scheme, Score};

pub(crate) use file::{CFile, inexpressible, number};
pub(crate) use machine::{write_chunks, write_norms, write_rows, write_sizes};

use crate::{Plan, QueryOptions};

/// Numbers that the supports, or other rows, may take in a file.
const MOST_NUMBERS: usize = 1 << 23;

/// Columns of a row: it lives on the stack.
const MOST_COLUMNS: usize = 1 << 16;

/// A stage that can be written in C.
pub trait StageInC {
    /// Writes its constants and a function `static void stage_N(struct query *q)` for its number N in the plan.
    ///
    /// # Errors
    /// If something of it cannot be expressed, or writing fails.
    fn write(&self, site: StageSite<'_>, file: &mut CFile<'_>) -> Result<(), MachineError>;
}

/// Where a stage stands in the plan.
#[derive(Debug, Clone, Copy)]
pub struct StageSite<'a> {
    pub(crate) number: usize,
    /// Its first estimating level, counted over the whole plan.
    pub(crate) level: usize,
    pub(crate) plan: &'a Plan,
}

impl StageSite<'_> {
    /// A name of this stage: names of two stages differ.
    pub(crate) fn name(&self, name: &str) -> String {
        format!("{name}_{}", self.number)
    }

    /// Writes the scales of its levels, and `ESTIMATE_N(level, outputs, count)`, which takes estimates if the plan is
    /// calibrated and does nothing otherwise.
    pub(crate) fn write_scales(
        &self,
        levels: usize,
        file: &mut CFile<'_>,
    ) -> Result<(), MachineError> {
        let name = self.name("ESTIMATE");
        let Some(calibration) = self.plan.calibration() else {
            return file
                .text(&format!("#define {name}(level, outputs, count) ((void)(outputs))\n\n"));
        };
        let scales = self.name("scales");
        file.text(&format!("static const struct scale {scales}[] = {{\n"))?;
        for scale in &calibration.scales[self.level..self.level + levels] {
            let parts = [scale.slope, scale.shift, scale.residual_rms].map(number);
            file.text(&format!("    {{{}}},\n", parts.join(", ")))?;
        }
        file.text("};\n\n")?;
        let call = format!("estimate_outputs(q, {scales} + (level), outputs, count)");
        file.text(&format!("#define {name}(level, outputs, count) {call}\n\n"))
    }
}

/// The stages of a plan that cannot be written in C, as texts.
pub fn stages_without_c(plan: &Plan) -> Vec<String> {
    let without = plan.stages().iter().filter(|stage| stage.c_code().is_none());
    without.map(|stage| stage.spec().to_string()).collect()
}

/// Writes a plan as a C99 file whose function `mercer_answer` gives the decisions of [`Plan::decide_with`] under `options`.
/// `model` is the one that the plan was made for.
///
/// # Errors
/// If a stage, the kernel or the scaling cannot be expressed in C, which is said by name, or writing fails.
pub fn write_c(
    model: &Model,
    plan: &Plan,
    options: &QueryOptions,
    out: &mut dyn Write,
) -> Result<(), MachineError> {
    if let Some(stage) = stages_without_c(plan).first() {
        return Err(inexpressible(format!("the stage {stage}")));
    }
    check(model, plan)?;
    let machine = plan.exact_stage().machine();
    write_comment(model, plan, options, out)?;
    let mut file = CFile::new(out);
    file.text(mercer_machine::file::c::GUARDS)?;
    file.text(include_str!("c/text/headers.c"))?;
    file.text("typedef double mercer_real;\n\n")?;
    file.define("MERCER_COLUMNS", machine.columns())?;
    file.define("MERCER_SUPPORTS", machine.supports().rows())?;
    file.define("MERCER_SCORES", machine.scores().len())?;
    file.define("MERCER_CLASSES", machine.classes().len())?;
    file.define("MERCER_IS_VALUE", u8::from(*machine.output() == Output::Value))?;
    let budget = options.budget.unwrap_or(u64::MAX);
    file.define("MERCER_BUDGET", format!("UINT64_C({budget})"))?;
    // No half-width is below -1.
    let tolerance = options.tolerance.unwrap_or(-1.0);
    file.define("MERCER_TOLERANCE", format!("({})\n", number(tolerance)))?;
    let mut names = Vec::new();
    machine_file::write_names(machine, &mut names)?;
    if let Some(scaling) = &model.input.scaling {
        machine_file::write_scaling(scaling, machine.columns(), &mut names)?;
    }
    file.text(&String::from_utf8_lossy(&names))?;
    file.text(include_str!("c/text/bits.c"))?;
    machine::write_constants(model, plan.exact_stage(), &mut file)?;
    file.text(include_str!("c/text/query.c"))?;
    let packed = plan.exact_stage().packed();
    kernel::write(&mut file, machine.kernel(), machine.columns(), packed.is_shifted())?;
    file.text(include_str!("c/text/bounds.c"))?;
    machine::write_exact(plan.exact_stage(), &mut file)?;
    file.text(include_str!("c/text/exact_bound.c"))?;
    for text in label_texts(machine.output()) {
        file.text(text)?;
    }
    write_stages(plan, &mut file)?;
    file.text(include_str!("c/text/exact_run.c"))?;
    write_answer(plan, &mut file)?;
    vectors::write(model, plan, options, &mut file)
}

/// Refuses what no C file of a plan can hold.
fn check(model: &Model, plan: &Plan) -> Result<(), MachineError> {
    let machine = plan.exact_stage().machine();
    if !machine.scores().iter().all(|score| matches!(score, Score::Expansion { .. })) {
        return Err(inexpressible("a plan over linear scores or tables"));
    }
    if plan.exact_stage().packed().live_columns() == 0 || machine.supports().rows() == 0 {
        return Err(inexpressible("a plan over supports of zeros"));
    }
    let columns = machine.columns();
    if columns > MOST_COLUMNS {
        return Err(inexpressible(format!("rows of {columns} columns on the stack")));
    }
    let packed = plan.exact_stage().packed();
    if packed.rows().saturating_mul(packed.live_columns()) > MOST_NUMBERS {
        let (rows, live) = (packed.rows(), packed.live_columns());
        return Err(inexpressible(format!("{rows} supports of {live} columns, zeros included")));
    }
    let scaled = model.input.scaling.as_ref().and_then(mercer_data::Scaling::columns);
    if scaled.is_some_and(|scaled| scaled > columns) {
        return Err(inexpressible("a scaling of more columns than the machine has"));
    }
    Ok(())
}

fn label_texts(output: &Output) -> Vec<&'static str> {
    const ONE: &str = include_str!("c/text/label_one.c");
    const SINGLE: &str = include_str!("c/text/label_single.c");
    match output {
        Output::Value => vec![include_str!("c/text/label_value.c"), SINGLE],
        Output::Novelty => vec![include_str!("c/text/label_novelty.c"), ONE, SINGLE],
        Output::Classes { .. } if output.scores() == 1 => {
            vec![include_str!("c/text/label_two.c"), ONE, SINGLE]
        }
        Output::Classes { scheme: Scheme::OneVsOne, .. } => {
            vec![include_str!("c/text/label_pairs.c")]
        }
        Output::Classes { scheme: Scheme::OneVsRest, .. } => {
            vec![include_str!("c/text/label_rest.c")]
        }
    }
}

fn write_stages(plan: &Plan, file: &mut CFile<'_>) -> Result<(), MachineError> {
    file.text(include_str!("c/text/tracker.c"))?;
    if let Some(calibration) = plan.calibration() {
        file.define("CALIBRATION_THRESHOLD", number(calibration.threshold))?;
        file.text(include_str!("c/text/estimate.c"))?;
    }
    let mut level = 0;
    for (number, stage) in plan.stages().iter().enumerate() {
        let code =
            stage.c_code().ok_or_else(|| inexpressible(format!("the stage {}", stage.spec())))?;
        file.text(&format!("/* ---- stage {number} ---- */\n\n"))?;
        code.write(StageSite { number, level, plan }, file)?;
        level += stage.levels();
    }
    Ok(())
}

fn write_answer(plan: &Plan, file: &mut CFile<'_>) -> Result<(), MachineError> {
    file.text(include_str!("c/text/start.c"))?;
    file.text(include_str!("c/text/answer.c"))?;
    for number in 0..plan.stages().len() {
        file.text(&format!(
            "    stage_{number}(&q);\n    if (q.is_answered) return 0;\n    q.stage++;\n"
        ))?;
    }
    file.text(include_str!("c/text/after.c"))
}

/// Text that cannot end a comment.
fn in_comment(text: &str) -> String {
    text.replace("*/", "* /").replace("/*", "/ *")
}

/// What the first comment of every file ends with.
const COMMENT: &str = " * arithmetic   double and float, in mercer's own order: answers, ranges and costs have the same bits
 *              as those of the plan. fma and fmaf of the C library are exact but slow where the
 *              processor's own are not used: compile with -mfma or -march=native
 *
 * int mercer_answer(const double *row, struct mercer_decision *decision);
 *     0, or MERCER_NOT_FINITE or MERCER_NEGATIVE for rows that have no answer
 * int mercer_decide(const double *row);                    the label alone, -2 if there is no answer
 * int mercer_scores(const double *row, double *scores);    exact scores; returns as mercer_answer
 *
 * No memory is allocated, nothing is written but what callers give: any thread may call at any time.
 * cc -std=c99 -O2 -DMERCER_TEST this.c -lm  makes a program that checks itself. */
";

fn write_comment(
    model: &Model,
    plan: &Plan,
    options: &QueryOptions,
    out: &mut dyn Write,
) -> Result<(), MachineError> {
    let machine = &model.machine;
    let (rows, columns) = (machine.supports().rows(), machine.columns());
    writeln!(
        out,
        "/* A kernel machine and its plan, written by mercer {}.",
        env!("CARGO_PKG_VERSION")
    )?;
    writeln!(out, " *\n * kernel       {}", in_comment(&machine.kernel().spec().to_string()))?;
    writeln!(out, " * plan         {}", in_comment(&plan.spec().to_string()))?;
    if let Some(calibration) = plan.calibration() {
        writeln!(
            out,
            " * calibrated   answers may be wrong with a risk of {}, at a confidence of {}",
            calibration.risk,
            1.0 - calibration.delta
        )?;
    }
    if let Some(budget) = options.budget {
        writeln!(out, " * budget       {budget} multiply-adds for each query")?;
    }
    if let Some(scaling) = &model.input.scaling {
        let text = in_comment(&scaling.spec().to_string());
        writeln!(out, " * scaling      {text}; rows are given as they are before it")?;
    }
    writeln!(
        out,
        " * supports     {rows} of {columns} columns; they are rows of the training data"
    )?;
    Ok(writeln!(out, "{COMMENT}")?)
}
