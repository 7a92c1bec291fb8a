//! Adds supports from the nearest on, until a sample says that the sign no longer changes (\[DM03\]). An estimate,
//! never a proof; the thresholds come from `mercer_compile`.

mod order;
mod products;
mod supports;

use mercer_data::Row;
use mercer_kernel::{Finish, Form};
use mercer_machine::{Output, Score, Section};
use mercer_simd::{Isa, Panels32};
use mercer_spec::{Checked, Kind, Parameter, Spec};

pub use order::NearestOrder;

use super::coordinates::{Basis, KERNEL_COST};
use super::linear;

use crate::block::Block;
use crate::entry::StageEntry;
use crate::stage::{Session, Stage, StageSession, StageWithScratch};
use crate::tracker::DecisionTracker;
use crate::verify::RestsOn;
use crate::{Estimate, Exact, LoadError};
use products::{RotatedSupports, SupportProducts};
use supports::{DenseQuery, FEW, SupportRows};

/// The entry of the registry.
pub static ENTRY: StageEntry = StageEntry {
    name: "nearest",
    summary: "supports from the nearest on until thresholds of a sample are passed; tested on a sample, not proved",
    parameters: &[
        Parameter {
            name: "rule",
            kind: Kind::Word(&["paper"]),
            default: None,
            help: "how thresholds are set; paper: as [DM03] does, so write nearest(paper)",
        },
        Parameter {
            name: "dimensions",
            kind: Kind::IntegerOr { low: 1, high: 256, word: "auto" },
            default: Some("auto"),
            help: "dimensions of the ordering; auto cross-validates",
        },
        Parameter {
            name: "smoothing",
            kind: Kind::IntegerOr { low: 0, high: 1000, word: "auto" },
            default: Some("auto"),
            help: "half-width of the smoothing of thresholds; auto cross-validates",
        },
        Parameter {
            name: "tug_of_war",
            kind: Kind::Word(&["auto", "yes", "no"]),
            default: Some("auto"),
            help: "whether supports of both signs are taken in turn; auto cross-validates",
        },
        Parameter {
            name: "filter",
            kind: Kind::Word(&["yes", "no"]),
            default: Some("yes"),
            help: "whether a linear filter comes first",
        },
    ],
    build: load,
    rests_on: RestsOn::Calibration,
};

/// \[DM03\]: a linear filter, then `g = -b; g += β_(k) K(X_(k), x)` over the supports in the order of their
/// approximate kernel values, until `g < L_k` or `g > H_k`. Its thresholds are fixed, so its plan has no
/// acceptance threshold to choose: it is tested as a whole, or its answers stay unsettled.
#[derive(Debug)]
struct Nearest {
    isa: Isa,
    spec: Spec,
    filter: Option<LinearFilter>,
    rotated: RotatedSupports,
    has_tug_of_war: bool,
    low: Vec<f64>,
    high: Vec<f64>,
    coefficients: Vec<f64>,
    offset: f64,
    rows: SupportRows,
    columns: u64,
}

#[derive(Debug)]
struct LinearFilter {
    weights: Vec<f64>,
    constant: f64,
    low: f64,
    high: f64,
}

/// Working memory of one thread.
struct NearestScratch {
    products: SupportProducts,
    values: Vec<f64>,
    row: Vec<f64>,
    order: NearestOrder,
}

/// Arrays: `basis`, `tug_of_war` (0 or 1), `low` and `high` (one for each support), and where there is a
/// filter `filter` (all columns of the machine) and `filter_ends` (constant, low, high).
fn load(
    section: &Section,
    arguments: &Checked<'_>,
    exact: &Exact,
) -> Result<Box<dyn Stage>, LoadError> {
    let refuse = |reason: &str| LoadError::unfit("nearest", reason);
    let spec = arguments.text().clone();
    let machine = exact.machine();
    if matches!(machine.output(), Output::Value) {
        return Err(refuse("values of a regression are not estimated"));
    }
    let [Score::Expansion { .. }] = machine.scores() else {
        return Err(refuse("it takes machines with one score made of supports"));
    };
    if !matches!(machine.kernel().form(), Form::Dot(_) | Form::Shift(_)) {
        let kernel = machine.kernel().spec();
        return Err(refuse(&format!("{kernel} is not a function of a dot product")));
    }
    let supports = machine.supports().rows();
    let basis = Basis::load(section, exact).map_err(refuse)?;
    let ends = |name: &str| section.f64s(name).filter(|ends| ends.len() == supports);
    let (Some(low), Some(high), Some([tug])) =
        (ends("low"), ends("high"), section.u32s("tug_of_war"))
    else {
        return Err(refuse("its arrays do not fit the machine"));
    };
    if low.iter().any(|end| end.is_nan() || *end > 0.0)
        || high.iter().any(|end| end.is_nan() || *end < 0.0)
    {
        return Err(refuse("its thresholds do not lie on both sides of zero"));
    }
    let filter = match (section.f64s("filter"), section.f64s("filter_ends")) {
        (None, None) => None,
        (Some(weights), Some(&[constant, low, high]))
            if weights.len() == machine.columns()
                && weights.iter().chain([&constant, &low, &high]).all(|x| x.is_finite())
                && low <= 0.0
                && high >= 0.0 =>
        {
            Some(LinearFilter { weights: weights.to_vec(), constant, low, high })
        }
        _ => return Err(refuse("its filter does not fit the machine")),
    };
    let (isa, size) = (exact.isa(), basis.rows());
    let rotated = basis.rotate(isa, exact);
    let panels = Panels32::pack(supports, size, |row, out| {
        out.copy_from_slice(&rotated[row * size..(row + 1) * size]);
    });
    let rows = SupportRows::new(exact, basis.live());
    Ok(Box::new(Nearest {
        isa,
        spec,
        filter,
        rotated: RotatedSupports { isa, basis, panels },
        has_tug_of_war: *tug != 0,
        low: low.to_vec(),
        high: high.to_vec(),
        coefficients: machine.scores()[0].dense(supports),
        offset: machine.scores()[0].offset(),
        rows,
        columns: machine.columns() as u64,
    }))
}

impl LinearFilter {
    /// What the filter makes of a query, if that is beyond its thresholds.
    fn beyond_thresholds(&self, row: Row<'_>) -> Option<f64> {
        let value = linear::dot(&self.weights, row) + self.constant;
        (value < self.low || value > self.high).then_some(value)
    }
}

impl Nearest {
    /// Walks from the nearest support on until the thresholds are passed or none is left; `charge` is called
    /// before each chunk. What is known then, after how many supports, and whether the rule stopped it.
    fn walk(
        &self,
        finish: &dyn Finish,
        query: DenseQuery<'_>,
        order: &mut NearestOrder,
        norms: &[f64],
        mut charge: impl FnMut(u64) -> bool,
    ) -> Option<(f64, usize)> {
        let (mut score, mut visited) = (-self.offset, 0);
        let mut chunk = [0u32; FEW];
        while visited < self.coefficients.len() {
            let mut count = 0;
            while count < FEW {
                let Some(support) = order.next(&self.coefficients) else { break };
                chunk[count] = support;
                count += 1;
            }
            if !charge(count as u64 * (self.columns + KERNEL_COST)) {
                return None;
            }
            let values = self.rows.kernels(finish, query, &chunk[..count], norms);
            for (support, value) in chunk[..count].iter().zip(&values) {
                score += self.coefficients[*support as usize] * value;
                if score < self.low[visited] || score > self.high[visited] {
                    return Some((score, visited + 1));
                }
                visited += 1;
            }
        }
        Some((score, visited))
    }
}

impl Stage for Nearest {
    fn spec(&self) -> Spec {
        self.spec.clone()
    }

    fn shares_coordinates(&self) -> bool {
        true
    }

    fn bytes(&self) -> usize {
        self.rotated.basis.bytes() + self.rotated.panels.bytes() + self.rows.bytes()
    }

    fn stops(&self) -> bool {
        true
    }

    fn session(&self) -> Box<dyn StageSession + '_> {
        Session::start(self)
    }
}

impl StageWithScratch for Nearest {
    type Scratch = NearestScratch;

    fn scratch(&self) -> Self::Scratch {
        NearestScratch {
            products: SupportProducts::new(&self.rotated.basis),
            values: Vec::new(),
            row: vec![0.0; self.rotated.basis.live().len()],
            order: NearestOrder::default(),
        }
    }

    fn run(
        &self,
        block: &mut Block<'_>,
        tracker: &mut DecisionTracker<'_>,
        scratch: &mut Self::Scratch,
    ) {
        let NearestScratch { products, values, row, order } = scratch;
        if let Some(filter) = &self.filter {
            for query in block.open() {
                if tracker.charge(*query, self.columns)
                    && let Some(value) = filter.beyond_thresholds(block.row(*query))
                {
                    tracker.stop_by_rule(*query, Estimate::Score(value), 0);
                }
            }
            block.compact(tracker);
        }
        let (size, supports) = (self.rotated.basis.rows(), self.coefficients.len());
        // One more for each support: the lines in which they wait.
        let ordering = supports as u64 * (size as u64 + KERNEL_COST + 1);
        let Some(stride) = products.fill(&self.rotated, ordering, block, tracker) else { return };
        let exact = block.exact();
        let form = exact.machine().kernel().form();
        let finish = form.finish().expect("checked when the stage was loaded");
        let norms = exact.packed().squared_norms();
        for (query, products) in block.open().iter().zip(products.values.chunks_exact(stride)) {
            let squared_norm = block.squared_norm(*query);
            values.resize(supports, 0.0);
            mercer_simd::widen(self.isa, &products[..supports], values);
            finish.finish(self.isa, values, squared_norm, norms);
            order.start(values, &self.coefficients, self.has_tug_of_war);
            self.rotated.basis.live().write(block.row(*query), row);
            let charge = |cost: u64| tracker.charge(*query, cost);
            let stopped = self.walk(finish, DenseQuery { row, squared_norm }, order, norms, charge);
            if let Some((score, visited)) = stopped {
                tracker.stop_by_rule(*query, Estimate::Score(score), visited);
            }
        }
        block.compact(tracker);
    }
}
