use std::any::Any;

use mercer_kernel::{Finish, Form};
use mercer_machine::{Output, Score, Section};
use mercer_simd::{Isa, Panels32};
use mercer_spec::Spec;

use super::projection::{Basis, KERNEL_COST, Products};
use super::singly::{FEW, Supports};
use crate::stage::{Block, Loader, Stage};
use crate::tracker::{DecisionTracker, Estimate};
use crate::{Exact, LoadError};

pub(crate) static LOADER: Loader = Loader {
    name: "residual",
    summary: "the machine in few dimensions, corrected exactly for the supports that matter most; calibrated, not proved",
    load,
};

/// Products of what lies outside the dimensions are about this share of what they could be.
const USUAL: f64 = 0.1;

/// `g = Σ β K~ - b` with kernel values from few dimensions, then `g += β (K - K~)` for the supports whose
/// term may be wrong by most, level by level.
#[derive(Debug)]
struct Residual {
    isa: Isa,
    spec: Spec,
    basis: Basis,
    rotated: Panels32,
    /// Lengths of the supports outside the dimensions.
    rests: Vec<f64>,
    supports: Supports,
    coefficients: Vec<f64>,
    offset: f64,
    /// Supports corrected at each level.
    levels: Vec<usize>,
    columns: u64,
}

/// Working memory of one thread.
struct Scratch {
    products: Products,
    cut: Vec<f64>,
    moved: Vec<f64>,
    /// By how much the term of each support may be wrong.
    order: Vec<(f64, u32)>,
    row: Vec<f64>,
}

/// Arrays: `basis`, `levels` (supports corrected at each level, increasing).
fn load(section: &Section, exact: &Exact) -> Result<Box<dyn Stage>, LoadError> {
    let refuse = |reason: &str| LoadError::unfit("residual", reason);
    let spec: Spec = section.spec.parse().map_err(|_| refuse("its text cannot be read"))?;
    let machine = exact.machine();
    if matches!(machine.output(), Output::Value) {
        return Err(refuse("values of a regression are not estimated"));
    }
    let [score @ Score::Expansion { .. }] = machine.scores() else {
        return Err(refuse("it takes machines with one score made of supports"));
    };
    if !matches!(machine.kernel().form(), Form::Dot(_) | Form::Shift(_)) {
        let kernel = machine.kernel().spec();
        return Err(refuse(&format!("{kernel} is not a function of a dot product")));
    }
    let basis = Basis::load(section, exact).map_err(refuse)?;
    let levels = section.indices("levels").ok_or_else(|| refuse("its levels are missing"))?;
    let is_increasing = levels.windows(2).all(|pair| pair[0] < pair[1]);
    let count = machine.supports().rows();
    let fits = matches!((levels.first(), levels.last()),
        (Some(1..), Some(last)) if *last as usize <= count);
    if !is_increasing || !fits {
        return Err(refuse("its levels do not fit the machine"));
    }
    let (isa, size) = (exact.isa(), basis.rows());
    let turned = basis.rotate(isa, exact);
    let norms = exact.packed().squared_norms();
    let rest = |(row, norm): (&[f32], &f64)| {
        let inside: f64 = row.iter().map(|x| f64::from(*x) * f64::from(*x)).sum();
        (norm - inside).max(0.0).sqrt()
    };
    let rests = turned.chunks_exact(size).zip(norms).map(rest).collect();
    let rotated = Panels32::pack(count, size, |row, out| {
        out.copy_from_slice(&turned[row * size..(row + 1) * size]);
    });
    let supports = Supports::new(exact, basis.live());
    Ok(Box::new(Residual {
        isa,
        spec,
        basis,
        rotated,
        rests,
        supports,
        coefficients: score.dense(count),
        offset: score.offset(),
        levels: levels.iter().map(|level| *level as usize).collect(),
        columns: machine.columns() as u64,
    }))
}

impl Residual {
    /// Cut kernel values, the score they give, and the supports whose terms may be wrong by most.
    fn begin(
        &self,
        finish: &dyn Finish,
        products: &[f32],
        (own, rest): (f64, f64),
        norms: &[f64],
        scratch: (&mut Vec<f64>, &mut Vec<f64>, &mut Vec<(f64, u32)>),
    ) -> f64 {
        let (cut, moved, order) = scratch;
        let count = self.coefficients.len();
        cut.resize(count, 0.0);
        mercer_simd::widen(self.isa, &products[..count], cut);
        moved.clear();
        moved.extend(cut.iter().zip(&self.rests).map(|(dot, own)| dot + USUAL * rest * own));
        finish.finish(self.isa, cut, own, norms);
        finish.finish(self.isa, moved, own, norms);
        order.clear();
        let mut score = -self.offset;
        for (support, beta) in (0u32..).zip(&self.coefficients) {
            let at = support as usize;
            score += beta * cut[at];
            order.push(((beta * (moved[at] - cut[at])).abs(), support));
        }
        let most = self.levels.last().copied().unwrap_or(0);
        let largest = |a: &(f64, u32), b: &(f64, u32)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
        if most < order.len() {
            order.select_nth_unstable_by(most, largest);
            order.truncate(most);
        }
        order.sort_unstable_by(largest);
        score
    }
}

impl Stage for Residual {
    fn spec(&self) -> Spec {
        self.spec.clone()
    }

    fn levels(&self) -> usize {
        self.levels.len()
    }

    fn shares_coordinates(&self) -> bool {
        true
    }

    fn bytes(&self) -> usize {
        self.basis.bytes() + self.rotated.bytes() + self.supports.bytes()
    }

    fn scratch(&self) -> Box<dyn Any + Send> {
        Box::new(Scratch {
            products: Products::new(&self.basis),
            cut: Vec::new(),
            moved: Vec::new(),
            order: Vec::new(),
            row: vec![0.0; self.basis.live().len()],
        })
    }

    fn run(&self, block: &mut Block<'_>, tracker: &mut DecisionTracker<'_>, scratch: &mut dyn Any) {
        let scratch = scratch.downcast_mut::<Scratch>().expect("made by this stage");
        let Scratch { products, cut, moved, order, row } = scratch;
        let (size, count) = (self.basis.rows(), self.coefficients.len());
        let products_cost = count as u64 * (size as u64 + 2 * KERNEL_COST + 2);
        let tools = (self.isa, &self.basis, &self.rotated);
        let Some(stride) = products.fill(tools, products_cost, block, tracker) else { return };
        let exact = block.exact();
        let form = exact.machine().kernel().form();
        let finish = form.finish().expect("checked when the stage was loaded");
        let norms = exact.packed().squared_norms();
        let Products { coordinates, values, .. } = products;
        let rows = coordinates.chunks_exact(size).zip(values.chunks_exact(stride));
        for (query, (y, products)) in block.open().iter().zip(rows) {
            let own = block.own(*query);
            let inside: f64 = y.iter().map(|x| f64::from(*x) * f64::from(*x)).sum();
            let rest = (own - inside).max(0.0).sqrt();
            let memory = (&mut *cut, &mut *moved, &mut *order);
            let mut score = self.begin(finish, products, (own, rest), norms, memory);
            self.basis.live().write(block.row(*query), row);
            let mut met = 0;
            for (level, end) in self.levels.iter().enumerate() {
                let new = (*end - met) as u64;
                if !tracker.charge(*query, new * (self.columns + KERNEL_COST)) {
                    break;
                }
                for few in order[met..*end].chunks(FEW) {
                    let mut chosen = [0u32; FEW];
                    chosen.iter_mut().zip(few).for_each(|(place, (_, support))| *place = *support);
                    let chosen = &chosen[..few.len()];
                    let tools = (self.isa, finish);
                    let values = self.supports.kernels(tools, (row, own), chosen, norms);
                    for (support, value) in chosen.iter().zip(values) {
                        let at = *support as usize;
                        score += self.coefficients[at] * (value - cut[at]);
                    }
                }
                met = *end;
                if !tracker.estimate(*query, level, Estimate::Score(score)) {
                    break;
                }
            }
        }
        block.compact(tracker);
    }
}
