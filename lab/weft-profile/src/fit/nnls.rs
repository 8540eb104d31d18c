//! Non-negative least squares by Lawson and Hanson (Solving Least Squares Problems, 1974, chapter 23).
//!
//! The problems here have at most six unknowns, so the inner least squares go through the normal equations. Columns are scaled to
//! length one first: bytes and wake-ups differ by nine orders of magnitude.

/// Steps after which the search ends in any case; three times the unknowns is usual.
const STEPS: usize = 100;
/// A gradient below this counts as zero, for columns of length one and a right side of length one.
const TOLERANCE: f64 = 1e-10;

/// The `x >= 0` that minimises `|a x - b|`, where `a` has a row for each element of `b`. Columns that are zero get 0.
pub(super) fn solve(a: &[Vec<f64>], b: &[f64]) -> Vec<f64> {
    let unknowns = a.first().map_or(0, Vec::len);
    let length = |column: usize| a.iter().map(|row| row[column] * row[column]).sum::<f64>().sqrt();
    let scales: Vec<f64> = (0..unknowns).map(|column| positive(length(column))).collect();
    let right = positive(b.iter().map(|y| y * y).sum::<f64>().sqrt());
    let scaled: Vec<Vec<f64>> =
        a.iter().map(|row| row.iter().zip(&scales).map(|(x, scale)| x / scale).collect()).collect();
    let b: Vec<f64> = b.iter().map(|y| y / right).collect();
    let x = active_set(&scaled, &b, unknowns);
    x.iter().zip(&scales).map(|(x, scale)| x * right / scale).collect()
}

/// The number, or one where it is zero.
fn positive(length: f64) -> f64 {
    if length > 0.0 { length } else { 1.0 }
}

fn active_set(a: &[Vec<f64>], b: &[f64], unknowns: usize) -> Vec<f64> {
    let (mut x, mut free) = (vec![0.0; unknowns], vec![false; unknowns]);
    for _ in 0..STEPS {
        let gradient = gradient(a, b, &x);
        let held = (0..unknowns).filter(|i| !free[*i] && gradient[*i] > TOLERANCE);
        let Some(next) = held.max_by(|i, j| gradient[*i].total_cmp(&gradient[*j])) else { break };
        free[next] = true;
        // The free unknowns' own optimum, as far as none becomes negative on the way there.
        while let Some(wanted) = least_squares(a, b, &free) {
            let step = |i: &usize| x[*i] / (x[*i] - wanted[*i]);
            let blocked = (0..unknowns).filter(|i| free[*i] && wanted[*i] <= 0.0);
            let Some(first) = blocked.min_by(|i, j| step(i).total_cmp(&step(j))) else {
                x = wanted;
                break;
            };
            let alpha = if x[first] > 0.0 { step(&first) } else { 0.0 };
            for i in 0..unknowns {
                x[i] += alpha * (wanted[i] - x[i]);
            }
            (x[first], free[first]) = (0.0, false);
        }
    }
    x
}

/// `a' (b - a x)`.
fn gradient(a: &[Vec<f64>], b: &[f64], x: &[f64]) -> Vec<f64> {
    let mut sum = vec![0.0; x.len()];
    for (row, y) in a.iter().zip(b) {
        let residual = y - row.iter().zip(x).map(|(a, x)| a * x).sum::<f64>();
        for (sum, a) in sum.iter_mut().zip(row) {
            *sum += a * residual;
        }
    }
    sum
}

/// The unconstrained optimum of the free unknowns, with zero for the others; `None` if none is free or the columns depend on each other.
fn least_squares(a: &[Vec<f64>], b: &[f64], free: &[bool]) -> Option<Vec<f64>> {
    let columns: Vec<usize> = (0..free.len()).filter(|i| free[*i]).collect();
    let n = columns.len();
    // The normal equations, with the right side as the last column.
    let mut m = vec![vec![0.0; n + 1]; n];
    for (row, y) in a.iter().zip(b) {
        for (i, &ci) in columns.iter().enumerate() {
            for (j, &cj) in columns.iter().enumerate() {
                m[i][j] += row[ci] * row[cj];
            }
            m[i][n] += row[ci] * y;
        }
    }
    eliminate(&mut m)?;
    let mut x = vec![0.0; free.len()];
    for (i, &column) in columns.iter().enumerate() {
        x[column] = m[i][n];
    }
    (n > 0).then_some(x)
}

/// Gauss and Jordan's elimination with partial pivots; `None` for a singular matrix.
fn eliminate(m: &mut [Vec<f64>]) -> Option<()> {
    for column in 0..m.len() {
        let pivot = (column..m.len()).max_by(|i, j| m[*i][column].abs().total_cmp(&m[*j][column].abs()))?;
        m.swap(column, pivot);
        let head = m[column][column];
        if head.abs() < 1e-12 {
            return None;
        }
        m[column].iter_mut().for_each(|x| *x /= head);
        let row = m[column].clone();
        for (_, other) in m.iter_mut().enumerate().filter(|(i, _)| *i != column) {
            let factor = other[column];
            for (x, y) in other.iter_mut().zip(&row) {
                *x -= factor * y;
            }
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn residual(a: &[Vec<f64>], b: &[f64], x: &[f64]) -> f64 {
        let row =
            |(row, y): (&Vec<f64>, &f64)| (row.iter().zip(x).map(|(a, x)| a * x).sum::<f64>() - y).powi(2);
        a.iter().zip(b).map(row).sum()
    }

    #[test]
    fn known_costs_are_found_across_orders_of_magnitude() {
        let rows: Vec<Vec<f64>> = (1..12_u32)
            .map(|i| {
                vec![1e9 + 1e8 * f64::from(i * i % 7), f64::from(i * 1000), f64::from((i * 37) % 11) * 10.0]
            })
            .collect();
        let truth = [0.1e-9, 500e-9, 2e-6];
        let b: Vec<f64> = rows.iter().map(|row| row.iter().zip(truth).map(|(a, t)| a * t).sum()).collect();
        for (found, expected) in solve(&rows, &b).iter().zip(truth) {
            assert!((found / expected - 1.0).abs() < 1e-5, "{found} {expected}");
        }
    }

    #[test]
    fn nothing_becomes_negative_and_no_other_choice_is_better() {
        // The unconstrained optimum has a negative second unknown.
        let a = vec![vec![1.0, 1.0], vec![1.0, 2.0], vec![1.0, 3.0]];
        let b = [3.0, 2.0, 1.0];
        let x = solve(&a, &b);
        assert!((x[0] - 2.0).abs() < 1e-9 && x[1] == 0.0, "{x:?}");
        let best = residual(&a, &b, &x);
        for i in 0..40 {
            for j in 0..40 {
                let other = [f64::from(i) * 0.1, f64::from(j) * 0.1];
                assert!(residual(&a, &b, &other) >= best - 1e-9, "{other:?}");
            }
        }
    }

    #[test]
    fn dependent_and_empty_columns_do_no_harm() {
        let a = vec![vec![1.0, 2.0, 0.0], vec![2.0, 4.0, 0.0], vec![3.0, 6.0, 0.0]];
        let x = solve(&a, &[1.0, 2.0, 3.0]);
        assert!(residual(&a, &[1.0, 2.0, 3.0], &x) < 1e-12 && x[2] == 0.0, "{x:?}");
        assert!(solve(&[], &[]).is_empty());
        assert_eq!(solve(&[vec![0.0], vec![0.0]], &[1.0, 1.0]), [0.0]);
    }
}
