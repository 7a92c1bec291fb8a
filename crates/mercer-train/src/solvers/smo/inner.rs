//! The small quadratic program of a working set, solved by pair steps of second order.

/// Curvature below this is taken as this (\[CL11\] section 4.1.2, LIBSVM's TAU).
const LEAST_CURVATURE: f64 = 1e-12;
/// The set is solved until its violation falls to this share of what it was.
const DEPTH: f64 = 0.1;
/// Pair steps per variable, at most.
const STEPS_PER_VARIABLE: u64 = 100;

/// Variables of a working set, sorted by groups.
#[derive(Debug)]
pub(super) struct Inner<'a> {
    /// Kernel values among the variables.
    pub(super) table: &'a [f64],
    pub(super) diagonal: Vec<f64>,
    /// F.
    pub(super) gradient: Vec<f64>,
    pub(super) beta: Vec<f64>,
    pub(super) lower: Vec<f64>,
    pub(super) upper: Vec<f64>,
    /// Where the two groups end.
    pub(super) ends: [usize; 2],
}

/// What solving brought.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outcome {
    pub(super) steps: u64,
    /// By how much the objective fell.
    pub(super) gain: f64,
}

/// The variable of a group that should grow most, and by how much the group is violated.
#[derive(Debug, Clone, Copy)]
struct Worst {
    up: usize,
    violation: f64,
}

impl Inner<'_> {
    /// Makes pair steps until the violation is a share of what it was, or `floor`.
    pub(super) fn solve(&mut self, floor: f64, limit: u64) -> Outcome {
        let limit = limit.min(STEPS_PER_VARIABLE * self.beta.len() as u64);
        let mut outcome = Outcome { steps: 0, gain: 0.0 };
        let mut goal = None;
        while outcome.steps < limit {
            let worst = [self.worst(0), self.worst(1)];
            let violation = worst[0].violation.max(worst[1].violation);
            let goal = *goal.get_or_insert((DEPTH * violation).max(floor));
            // Not `<=` alone: NaN must end the loop as well.
            if violation <= goal || violation.is_nan() {
                break;
            }
            let Some((up, low)) = self.partner(worst, goal) else { break };
            let gain = self.step(up, low);
            outcome.steps += 1;
            outcome.gain += gain;
            if gain <= 0.0 {
                break;
            }
        }
        outcome
    }

    fn range(&self, group: usize) -> std::ops::Range<usize> {
        if group == 0 { 0..self.ends[0] } else { self.ends[0]..self.ends[1] }
    }

    fn worst(&self, group: usize) -> Worst {
        let (mut up, mut least, mut most) = (usize::MAX, f64::INFINITY, f64::NEG_INFINITY);
        for v in self.range(group) {
            let grad = self.gradient[v];
            if self.beta[v] < self.upper[v] && grad < least {
                (up, least) = (v, grad);
            }
            if self.beta[v] > self.lower[v] && grad > most {
                most = grad;
            }
        }
        Worst { up, violation: if up == usize::MAX { 0.0 } else { most - least } }
    }

    /// The pair within one group that lowers the objective most: `max (F_t - F_i)² / (K_ii + K_tt - 2 K_it)`
    /// (\[FCL05\] WSS 2).
    fn partner(&self, worst: [Worst; 2], goal: f64) -> Option<(usize, usize)> {
        let size = self.beta.len();
        let (mut best, mut pair) = (0.0, None);
        for group in 0..2 {
            let up = worst[group].up;
            if worst[group].violation <= goal {
                continue;
            }
            let row = &self.table[up * size..(up + 1) * size];
            let (own, grad) = (self.diagonal[up], self.gradient[up]);
            for v in self.range(group) {
                let difference = self.gradient[v] - grad;
                if self.beta[v] > self.lower[v] && difference > 0.0 {
                    let curvature = (own + self.diagonal[v] - 2.0 * row[v]).max(LEAST_CURVATURE);
                    let gain = difference * difference / curvature;
                    if gain > best {
                        (best, pair) = (gain, Some((up, v)));
                    }
                }
            }
        }
        pair
    }

    /// Moves as much as the box allows from `low` to `up`; returns by how much the objective fell.
    fn step(&mut self, up: usize, low: usize) -> f64 {
        let size = self.beta.len();
        let (up_row, low_row) =
            (&self.table[up * size..][..size], &self.table[low * size..][..size]);
        let difference = self.gradient[low] - self.gradient[up];
        let curvature =
            (self.diagonal[up] + self.diagonal[low] - 2.0 * up_row[low]).max(LEAST_CURVATURE);
        let (room_up, room_low) =
            (self.upper[up] - self.beta[up], self.beta[low] - self.lower[low]);
        let move_by = (difference / curvature).min(room_up).min(room_low);
        self.beta[up] = if move_by == room_up { self.upper[up] } else { self.beta[up] + move_by };
        self.beta[low] =
            if move_by == room_low { self.lower[low] } else { self.beta[low] - move_by };
        for ((grad, a), b) in self.gradient.iter_mut().zip(up_row).zip(low_row) {
            *grad += move_by * (a - b);
        }
        move_by * (difference - 0.5 * curvature * move_by)
    }
}
