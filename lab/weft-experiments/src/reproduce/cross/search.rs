//! Coordinate descent over few candidates. The result depends on neither the number of threads nor time.

/// The most passes over all parameters: the second lets an early one adapt to a later one.
const PASSES: usize = 2;
/// The least decrease of the loss that lets a candidate replace the present one: less is the noise of few seeds.
const LEAST_GAIN: f64 = 0.01;
/// The largest error of a cell, so that no single outlier decides.
const ERROR_MAX: f64 = 1.0;

/// A parameter.
pub(super) struct Parameter {
    /// The number of candidates. The first is the value where nothing can be fitted.
    pub(super) candidates: usize,
    /// Experiment and column of the deciding cells.
    pub(super) targets: Vec<(usize, usize)>,
}

/// A cell of a table: a row at a flow count, with all columns.
pub(super) struct Cell {
    pub(super) experiment: usize,
    /// Published values, by column.
    pub(super) published: Vec<Option<f64>>,
    /// Least denominators of the relative error, by column.
    pub(super) floors: Vec<f64>,
}

/// Simulated values of a cell, by column.
pub(super) type Values = Vec<Option<f64>>;
/// A function that simulates some cells with one candidate of each parameter.
pub(super) type Model<'a, E> = dyn FnMut(&[usize], &[usize]) -> Result<Vec<Values>, E> + 'a;

/// The input of a fit.
pub(super) struct Problem {
    pub(super) parameters: Vec<Parameter>,
    pub(super) cells: Vec<Cell>,
}

impl Problem {
    /// Returns the candidates of all parameters that fit the cells of `training` best. In turn, each parameter takes
    /// the candidate with the least loss, with the others fixed. Passes repeat until one changes nothing, at most
    /// [`PASSES`] times.
    pub(super) fn fit<E>(&self, training: &[usize], model: &mut Model<'_, E>) -> Result<Vec<usize>, E> {
        let mut choice = vec![0; self.parameters.len()];
        for _ in 0..PASSES {
            let before = choice.clone();
            for (index, parameter) in self.parameters.iter().enumerate() {
                let cells = self.deciding(parameter, training);
                if cells.is_empty() {
                    continue;
                }
                let (present, mut best) = (choice[index], choice[index]);
                let mut least = self.loss(parameter, &cells, &model(&choice, &cells)?);
                for candidate in (0..parameter.candidates).filter(|candidate| *candidate != present) {
                    choice[index] = candidate;
                    let loss = self.loss(parameter, &cells, &model(&choice, &cells)?);
                    if loss < least - LEAST_GAIN {
                        (best, least) = (candidate, loss);
                    }
                }
                choice[index] = best;
            }
            if choice == before {
                break;
            }
        }
        Ok(choice)
    }

    /// Returns an upper bound of the cells that a fit simulates, each time with other parameters.
    pub(super) fn most(&self, training: &[usize]) -> usize {
        let tried = |parameter: &Parameter| {
            (parameter.candidates - 1) * PASSES * self.deciding(parameter, training).len()
        };
        training.len() + self.parameters.iter().map(tried).sum::<usize>()
    }

    fn deciding(&self, parameter: &Parameter, training: &[usize]) -> Vec<usize> {
        let decides = |cell: usize| parameter.targets.iter().any(|(e, _)| *e == self.cells[cell].experiment);
        training.iter().copied().filter(|cell| decides(*cell)).collect()
    }

    /// Returns the mean relative error of the deciding cells and columns.
    fn loss(&self, parameter: &Parameter, cells: &[usize], values: &[Values]) -> f64 {
        let (mut sum, mut count) = (0.0, 0u32);
        for (cell, values) in cells.iter().zip(values) {
            let cell = &self.cells[*cell];
            for (_, column) in parameter.targets.iter().filter(|(e, _)| *e == cell.experiment) {
                let Some(published) = cell.published[*column] else { continue };
                let error = values[*column].map_or(ERROR_MAX, |value| {
                    (value - published).abs() / published.abs().max(cell.floors[*column])
                });
                sum += error.min(ERROR_MAX);
                count += 1;
            }
        }
        sum / f64::from(count.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::{Cell, Parameter, Problem, Values};
    use std::convert::Infallible;

    /// The truth: one column, value = a * flows + b, with a = 2 and b = 10 in experiment 0, and a = 2 and b = 40 in
    /// experiment 1.
    fn problem() -> Problem {
        let cell = |experiment: usize, flows: u32| Cell {
            experiment,
            published: vec![Some(2.0 * f64::from(flows) + [10.0, 40.0][experiment])],
            floors: vec![0.1],
        };
        Problem {
            parameters: vec![
                Parameter { candidates: 4, targets: vec![(0, 0), (1, 0)] },
                Parameter { candidates: 3, targets: vec![(0, 0)] },
                Parameter { candidates: 3, targets: vec![(1, 0)] },
            ],
            cells: vec![cell(0, 3), cell(0, 12), cell(0, 48), cell(1, 3), cell(1, 12), cell(1, 48)],
        }
    }

    fn model(problem: &Problem) -> impl FnMut(&[usize], &[usize]) -> Result<Vec<Values>, Infallible> {
        let experiments: Vec<usize> = problem.cells.iter().map(|cell| cell.experiment).collect();
        let flows = [3.0, 12.0, 48.0, 3.0, 12.0, 48.0];
        move |choice, wanted| {
            let slope = [1.0, 3.0, 2.0, 8.0][choice[0]];
            let bases = [[14.0, 20.0, 10.0][choice[1]], [36.0, 40.0, 60.0][choice[2]]];
            let value = |&cell: &usize| vec![Some(slope * flows[cell] + bases[experiments[cell]])];
            Ok(wanted.iter().map(value).collect())
        }
    }

    #[test]
    fn a_fit_finds_the_parameters_that_made_the_cells() {
        let problem = problem();
        let all: Vec<usize> = (0..6).collect();
        let Ok(choice) = problem.fit(&all, &mut model(&problem));
        assert_eq!(choice, [2, 2, 1]);
    }

    /// A parameter without deciding cells in the training keeps its first candidate, and the value out of sample is
    /// as computed by hand.
    #[test]
    fn out_of_sample_nothing_is_fitted_that_only_the_other_paper_knows() {
        let problem = problem();
        let Ok(choice) = problem.fit(&[0, 1, 2], &mut model(&problem));
        assert_eq!(choice, [2, 2, 0], "the third parameter belongs to the other experiment");
        let Ok(values) = model(&problem)(&choice, &[3, 4, 5]);
        assert_eq!(values, [vec![Some(42.0)], vec![Some(60.0)], vec![Some(132.0)]], "2 * flows + 36");
    }

    #[test]
    fn a_fit_simulates_no_more_cells_than_it_says() {
        let problem = problem();
        let mut seen = std::collections::BTreeSet::new();
        let mut inner = model(&problem);
        let training = [0, 1, 3, 4];
        let Ok(_) = problem.fit(&training, &mut |choice: &[usize], cells: &[usize]| {
            seen.extend(cells.iter().map(|cell| (choice.to_vec(), *cell)));
            inner(choice, cells)
        });
        assert!(seen.len() <= problem.most(&training), "{} of {}", seen.len(), problem.most(&training));
    }

    #[test]
    fn a_gain_within_the_noise_changes_nothing() {
        let cell = Cell { experiment: 0, published: vec![Some(1.0)], floors: vec![0.1] };
        let parameters = vec![Parameter { candidates: 2, targets: vec![(0, 0)] }];
        let problem = Problem { parameters, cells: vec![cell] };
        let mut model = |choice: &[usize], _: &[usize]| -> Result<Vec<Values>, Infallible> {
            Ok(vec![vec![Some([1.105, 1.1][choice[0]])]])
        };
        let Ok(choice) = problem.fit(&[0], &mut model);
        assert_eq!(choice, [0]);
    }
}
