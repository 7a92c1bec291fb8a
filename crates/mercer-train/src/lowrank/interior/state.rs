//! Where an interior point method stands: the point, its residuals and what it ends with.

use mercer_kernel::factor::Store;
use mercer_simd::Real;

use super::start::start;
use super::{Found, evaluate};
use crate::Qp;
use crate::lowrank::judge::{Inside, multipliers, wanted};

/// The present point.
pub(super) struct Run<'r, T> {
    pub(super) qp: &'r Qp,
    pub(super) store: &'r Store<T>,
    /// Variables that cannot move.
    pub(super) fixed: Vec<bool>,
    pub(super) wanted: Vec<f64>,
    pub(super) x: Vec<f64>,
    pub(super) t: Vec<f64>,
    pub(super) y: Vec<f64>,
    pub(super) s: Vec<f64>,
    pub(super) xi: Vec<f64>,
    /// `GG'β` of each row.
    field: Vec<f64>,
    pub(super) dual: Vec<f64>,
    pub(super) primal: Vec<f64>,
}

impl<'r, T: Real> Run<'r, T> {
    pub(super) fn new(qp: &'r Qp, store: &'r Store<T>) -> Self {
        let (beta, fixed) = start(qp);
        let inside = Inside::of(qp, &beta);
        let own = store.times(&store.transposed_times(&qp.fold(&beta)));
        let wanted = wanted(qp);
        let forces: Vec<f64> =
            qp.linear.iter().enumerate().map(|(v, q)| own[v % qp.rows] + q).collect();
        let y = multipliers(qp, &forces);
        let slopes: Vec<f64> =
            forces.iter().zip(&qp.groups).map(|(f, g)| f - y[usize::from(*g)]).collect();
        let mean = slopes.iter().map(|h| h.abs()).sum::<f64>() / slopes.len().max(1) as f64;
        let largest = qp.linear.iter().fold(0.0, |most: f64, q| most.max(q.abs()));
        let least = (0.1 * mean).max(0.01 * largest).max(f64::MIN_POSITIVE.sqrt());
        let mut run = Self {
            qp,
            store,
            wanted,
            x: inside.below,
            t: inside.above,
            y,
            s: slopes.iter().map(|h| h.max(0.0) + least).collect(),
            xi: slopes.iter().map(|h| (-h).max(0.0) + least).collect(),
            field: own,
            dual: Vec::new(),
            primal: Vec::new(),
            fixed,
        };
        for v in 0..qp.len() {
            if run.fixed[v] {
                (run.s[v], run.xi[v]) = (0.0, 0.0);
            }
        }
        run
    }

    fn beta(&self) -> Vec<f64> {
        Inside { below: self.x.clone(), above: self.t.clone() }.beta(self.qp)
    }

    /// Field and residuals of the present point.
    pub(super) fn residuals(&mut self) {
        let beta = self.beta();
        self.field = self.store.times(&self.store.transposed_times(&self.qp.fold(&beta)));
        self.primal = self.wanted.clone();
        let mut dual = Vec::with_capacity(self.qp.len());
        for v in 0..self.qp.len() {
            let group = usize::from(self.qp.groups[v]);
            self.primal[group] -= beta[v];
            let slope = self.field[v % self.qp.rows] + self.qp.linear[v] - self.y[group];
            dual.push(if self.fixed[v] { 0.0 } else { slope - self.s[v] + self.xi[v] });
        }
        self.dual = dual;
    }

    fn complementarity(&self) -> f64 {
        let pairs = self.x.iter().zip(&self.s).chain(self.t.iter().zip(&self.xi));
        pairs.map(|(a, b)| a * b).sum()
    }

    pub(super) fn mu(&self) -> f64 {
        self.complementarity() / (2.0 * self.qp.len().max(1) as f64)
    }

    /// Complementarity as a share of the objective, of the larger of the two.
    pub(super) fn relative(&self) -> f64 {
        let (beta, gap) = (self.beta(), self.complementarity());
        let mut objective = 0.0;
        for (v, beta) in beta.iter().enumerate() {
            objective += beta * (0.5 * self.field[v % self.qp.rows] + self.qp.linear[v]);
        }
        let size = objective.abs().max((objective - gap).abs());
        if gap == 0.0 { 0.0 } else { gap / size }
    }

    pub(super) fn is_feasible(&self) -> bool {
        let most = |values: &[f64]| values.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
        let room: f64 = self.x.iter().zip(&self.t).map(|(x, t)| x + t).sum();
        most(&self.dual) <= 1e-6 * (most(&self.qp.linear) + most(&self.field))
            && most(&self.primal) <= 1e-8 * room
    }

    pub(super) fn diagonal(&self) -> Vec<f64> {
        (0..self.qp.len())
            .map(|v| {
                if self.fixed[v] {
                    return f64::INFINITY;
                }
                self.s[v] / self.x[v] + self.xi[v] / self.t[v]
            })
            .collect()
    }

    /// The point with its sums restored, judged anew; variables that the multipliers hold at a wall are put
    /// there if that costs nothing.
    pub(super) fn finish(self, tolerance: f64) -> Found {
        let own = Inside { below: self.x.clone(), above: self.t.clone() };
        let (plain, w, judged) = evaluate(self.qp, self.store, own);
        let slope = {
            let all = self.s.iter().chain(&self.xi);
            all.fold(0.0, |most: f64, s| most.max(*s))
        };
        let mut snapped = plain.clone();
        for v in (0..self.qp.len()).filter(|v| !self.fixed[*v]) {
            let width = self.qp.upper[v] - self.qp.lower[v];
            if self.x[v] < 1e-4 * width && self.x[v] * slope < self.s[v] * width {
                (snapped.below[v], snapped.above[v]) = (0.0, width);
            } else if self.t[v] < 1e-4 * width && self.t[v] * slope < self.xi[v] * width {
                (snapped.below[v], snapped.above[v]) = (width, 0.0);
            }
        }
        let (snapped, snapped_w, snapped_judged) = evaluate(self.qp, self.store, snapped);
        let limit = (2.0 * judged.gap).max(0.5 * tolerance * judged.objective.abs());
        let (point, w, judged) = if snapped_judged.gap <= limit {
            (snapped, snapped_w, snapped_judged)
        } else {
            (plain, w, judged)
        };
        Found {
            point,
            w,
            judged,
            iterations: 0,
            visits: 0,
            believed: 0.0,
            fallbacks: 0,
            stop: None,
        }
    }
}
