//! Parts of query space, each of which gets a sequence of its own (\[DeCoste03\], section 6).

use mercer_data::{Matrix, draw};

/// Rounds of Lloyd's algorithm.
const ROUNDS: usize = 25;

/// Centres and, for each, the rows nearest to it; parts without rows are left out.
pub(super) fn parts(sample: &Matrix, count: usize, seed: u64) -> Vec<(Vec<f64>, Vec<usize>)> {
    let columns = sample.columns();
    let mut rows = vec![0.0; sample.rows() * columns];
    for (row, place) in sample.iter().zip(rows.chunks_exact_mut(columns.max(1))) {
        row.write_dense(place);
    }
    let row = |at: usize| &rows[at * columns..(at + 1) * columns];
    let mut centres: Vec<Vec<f64>> =
        draw(sample.rows(), count, seed).into_iter().map(|at| row(at).to_vec()).collect();
    let mut nearest = vec![0; sample.rows()];
    for _ in 0..ROUNDS {
        let new: Vec<usize> = (0..sample.rows()).map(|at| route(&centres, row(at))).collect();
        if new == nearest {
            break;
        }
        nearest = new;
        for (number, centre) in centres.iter_mut().enumerate() {
            let mine: Vec<usize> = (0..nearest.len()).filter(|at| nearest[*at] == number).collect();
            if mine.is_empty() {
                continue;
            }
            centre.fill(0.0);
            for at in &mine {
                let share = 1.0 / mine.len() as f64;
                centre.iter_mut().zip(row(*at)).for_each(|(place, x)| *place += share * x);
            }
        }
    }
    nearest = (0..sample.rows()).map(|at| route(&centres, row(at))).collect();
    let parts = centres.into_iter().enumerate().map(|(number, centre)| {
        let mine = (0..nearest.len()).filter(|at| nearest[*at] == number).collect();
        (centre, mine)
    });
    parts.filter(|(_, mine): &(_, Vec<usize>)| !mine.is_empty()).collect()
}

/// The centre with the largest `c·x - |c|²/2`, as `mercer_query` routes.
fn route(centres: &[Vec<f64>], row: &[f64]) -> usize {
    let (mut best, mut most) = (0, f64::NEG_INFINITY);
    for (number, centre) in centres.iter().enumerate() {
        let product: f64 = centre.iter().zip(row).map(|(c, x)| c * x).sum();
        let half = 0.5 * centre.iter().map(|c| c * c).sum::<f64>();
        if product - half > most {
            (best, most) = (number, product - half);
        }
    }
    best
}
