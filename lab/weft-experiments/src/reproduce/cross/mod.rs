//! Cross-validation: the parameters of Titan's tables are fitted to a part of the tables, and scored on the rest (out
//! of sample).
//!
//! A parameter chosen on the same cells that score it proves little. Here each cell is also scored with parameters
//! that never saw it:
//!
//! 1. `knobs` reads the fitted keys from the files' own sources (docs/scenario-files.md, "Sources"): candidates, and
//!    the columns that decide on each. Nothing is listed twice, so that a new fitted key takes part by itself.
//! 2. `fits` plans the fits: one on each paper, and one on both papers without each flow count.
//! 3. `search` fits each by coordinate descent over the candidates, parameter by parameter, in at most two passes.
//! 4. Each cell is then simulated five times: fitted on its own paper, on the other paper, without its flow count,
//!    without any fit, and as the files are. The difference of the errors is the cost of not having seen the cell.
//!
//! [`Cross`] owns the plan and hands it down: `Problem` has the published values and decides, `Runs` owns the
//! simulator and its cache, which is keyed by the scenario's text. Parameters that several fits try are simulated
//! once. The search is deterministic: it depends on neither the number of threads nor the time that runs take.
//!
//! Rare branches: a cell without a simulated value counts as the greatest error in a fit and stays empty in the
//! report; a parameter without deciding cells in the training keeps its first candidate; a cell whose fit does not
//! exist has no value for that sample. All are visible in the report as missing or first values, so none needs a
//! counter. `runs` counts the simulations made.

mod knobs;
mod runs;
mod search;

use super::ReproduceError;
use super::file::{self, ExperimentFile, ExperimentFileError};
use knobs::Knob;
use runs::{Place, Runs};
use search::{Cell, Parameter, Problem, Values};
use std::collections::BTreeMap;
use std::time::Instant;
use toml::Value;
use weft_report::reproduce::{CrossCell, CrossFit, CrossParameter, CrossReport, Sample};

/// The parameter file of Titan's tables.
const PARAMETERS: &str = "titan.toml";

/// Parameters of the cross-validation.
#[derive(Clone, Debug)]
pub struct CrossOptions {
    /// Runs of each cell with the same parameters.
    pub seeds: u32,
    /// The first seed.
    pub seed: u64,
    /// Threads.
    pub threads: usize,
    /// Keys to fit, the others keeping their files' values; empty for all.
    pub keys: Vec<String>,
    /// Rows to score; empty for all.
    pub rows: Vec<String>,
    /// Flow counts to score; empty for all.
    pub flows: Vec<u32>,
}

/// The plan, complete before the first run.
pub struct Cross {
    /// Runs of each cell, as requested.
    asked_seeds: u32,
    problem: Problem,
    fits: Vec<Fit>,
    runs: Runs,
}

/// A fit: its name, and the cells it is trained on.
struct Fit {
    name: String,
    training: Vec<usize>,
}

impl Cross {
    /// Reads the files and plans the fits.
    ///
    /// # Errors
    /// Fails if a file is invalid, which is a defect of weftline.
    pub fn plan(options: CrossOptions) -> Result<Self, ReproduceError> {
        let parameters = file::parameters(PARAMETERS)?;
        let mut knobs = knobs::knobs(PARAMETERS, &parameters)?;
        for knob in
            knobs.iter_mut().filter(|knob| !options.keys.is_empty() && !options.keys.contains(&knob.key))
        {
            let shipped = knob.candidates.swap_remove(knob.present);
            (knob.candidates, knob.present) = (vec![shipped], 0);
        }
        let (mut ids, mut columns) = (Vec::new(), Vec::new());
        for target in knobs.iter().flat_map(|knob| &knob.targets) {
            add(&mut ids, &target.experiment);
            add(&mut columns, &target.column);
        }
        let experiments: Vec<ExperimentFile> =
            ids.iter().map(|id| file::experiment(id)).collect::<Result<_, _>>()?;
        let mut cells = Vec::new();
        for (experiment, file) in experiments.iter().enumerate() {
            let wanted = |row: &String| options.rows.is_empty() || options.rows.contains(row);
            let counts = file.flows.iter().filter(|n| options.flows.is_empty() || options.flows.contains(n));
            for &flows in counts {
                let rows = file.rows.iter().filter(|row| wanted(row)).cloned();
                cells.extend(rows.map(|row| Place { experiment, row, flows }));
            }
        }
        let problem = problem(&knobs, &ids, &experiments, &columns, &cells)?;
        let fits = fits(&experiments, &cells);
        let runs = Runs {
            parameters,
            knobs,
            experiments,
            columns,
            cells,
            seeds: options.seeds.max(1),
            seed: options.seed,
            threads: options.threads,
            known: BTreeMap::new(),
            made: 0,
            seconds: 0.0,
        };
        Ok(Self { asked_seeds: options.seeds, problem, fits, runs })
    }

    /// Returns an upper bound of the number of runs. Parameters that several fits try are simulated once, so fewer
    /// are made.
    pub fn most_runs(&self) -> usize {
        let fits: usize = self.fits.iter().map(|fit| self.problem.most(&fit.training)).sum();
        // Each cell also runs as in the files, without any fit, and with each of three fits.
        (fits + 5 * self.runs.cells.len()) * self.asked_seeds as usize
    }

    /// Makes the first runs and returns the mean seconds of a run on one thread.
    ///
    /// # Errors
    /// Fails when a scenario cannot run, or `cancelled` asks to stop.
    pub fn trial(&mut self, cancelled: &(dyn Fn() -> bool + Sync)) -> Result<f64, ReproduceError> {
        let start = vec![0; self.runs.knobs.len()];
        let some: Vec<usize> = (0..self.runs.cells.len()).step_by(8).collect();
        self.runs.values(&start, &some, cancelled, &mut |_| ())?;
        Ok(self.runs.seconds / self.runs.made.max(1) as f64)
    }

    /// Fits and scores. `progress` receives the number of runs made.
    ///
    /// # Errors
    /// Fails when a scenario cannot run, or `cancelled` asks to stop.
    pub fn run(
        mut self,
        cancelled: &(dyn Fn() -> bool + Sync),
        progress: &mut dyn FnMut(usize),
    ) -> Result<CrossReport, ReproduceError> {
        let begin = Instant::now();
        let mut choices = Vec::new();
        for fit in std::mem::take(&mut self.fits) {
            let runs = &mut self.runs;
            let values =
                &mut |choice: &[usize], cells: &[usize]| runs.values(choice, cells, cancelled, progress);
            let choice = self.problem.fit(&fit.training, values)?;
            choices.push((fit, choice));
        }
        let every: Vec<usize> = (0..self.runs.cells.len()).collect();
        let shipped: Vec<usize> = self.runs.knobs.iter().map(|knob| knob.present).collect();
        let shipped = self.runs.values(&shipped, &every, cancelled, progress)?;
        let unfitted = self.runs.values(&vec![0; self.runs.knobs.len()], &every, cancelled, progress)?;
        let mut cells = Vec::new();
        for cell in every {
            let paper = self.paper(cell).to_owned();
            let left_out = format!("without {}", self.runs.cells[cell].flows);
            let mut of = |name: &dyn Fn(&str) -> bool| -> Result<Values, ReproduceError> {
                let choice =
                    choices.iter().find(|(fit, _)| name(&fit.name)).map(|(_, choice)| choice.clone());
                let Some(choice) = choice else { return Ok(vec![None; self.runs.columns.len()]) };
                Ok(self.runs.values(&choice, &[cell], cancelled, progress)?.remove(0))
            };
            let inside = of(&|name| name == paper)?;
            let other = of(&|name| name != paper && !name.starts_with("without "))?;
            let left = of(&|name| name == left_out)?;
            let samples: [&Values; 5] = [&inside, &other, &left, &unfitted[cell], &shipped[cell]];
            self.record(cell, &paper, samples, &mut cells);
        }
        let fits = choices.iter().map(|(fit, choice)| self.fit_record(fit, choice)).collect();
        Ok(CrossReport {
            seed: self.runs.seed,
            seeds: self.asked_seeds,
            parameters: self.runs.knobs.iter().map(parameter_record).collect(),
            fits,
            cells,
            runs: self.runs.made as u64,
            wall_s: begin.elapsed().as_secs_f64(),
            ..CrossReport::default()
        }
        .finish())
    }

    /// Returns the paper of a cell: the preset of its experiment.
    fn paper(&self, cell: usize) -> &str {
        self.runs.experiments[self.runs.cells[cell].experiment].preset.as_deref().unwrap_or_default()
    }

    /// Adds the records of a cell's columns.
    fn record(&self, cell: usize, paper: &str, samples: [&Values; 5], records: &mut Vec<CrossCell>) {
        let place = &self.runs.cells[cell];
        let known = &self.problem.cells[cell];
        for (index, column) in self.runs.columns.iter().enumerate() {
            let simulated = Sample::ALL.into_iter().zip(samples.map(|values| values[index])).collect();
            records.push(CrossCell {
                paper: paper.to_owned(),
                row: place.row.clone(),
                column: column.clone(),
                flows: place.flows,
                published: known.published[index],
                floor: known.floors[index],
                simulated,
            });
        }
    }

    fn fit_record(&self, fit: &Fit, choice: &[usize]) -> CrossFit {
        let value = |(knob, candidate): (&Knob, &usize)| text(&knob.candidates[*candidate]);
        CrossFit {
            name: fit.name.clone(),
            cells: fit.training.len(),
            values: self.runs.knobs.iter().zip(choice).map(value).collect(),
        }
    }
}

fn add(list: &mut Vec<String>, name: &String) {
    if !list.contains(name) {
        list.push(name.clone());
    }
}

/// Returns a value as a file has it, without quotes.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn parameter_record(knob: &Knob) -> CrossParameter {
    CrossParameter {
        file: knob.file.clone(),
        key: knob.key.clone(),
        candidates: knob.candidates.iter().map(text).collect(),
        shipped: text(&knob.candidates[knob.present]),
        fitted_to: knob.targets.iter().map(|to| format!("{} {}", to.experiment, to.column)).collect(),
    }
}

/// Builds the problem: published values, and the cells that decide on each parameter.
fn problem(
    knobs: &[Knob],
    ids: &[String],
    experiments: &[ExperimentFile],
    columns: &[String],
    cells: &[Place],
) -> Result<Problem, ExperimentFileError> {
    let position = |list: &[String], name: &String| list.iter().position(|known| known == name);
    let parameters = knobs.iter().map(|knob| {
        let target = |to: &weft_sim::scenario::FittedColumn| {
            position(ids, &to.experiment).zip(position(columns, &to.column))
        };
        Parameter {
            candidates: knob.candidates.len(),
            targets: knob.targets.iter().filter_map(target).collect(),
        }
    });
    let published: Vec<BTreeMap<(String, u32, String), f64>> =
        experiments.iter().map(|file| file::published(&file.published)).collect::<Result<_, _>>()?;
    let floor = |file: &ExperimentFile, name: &String| {
        file.columns.iter().find(|column| column.name == *name).map_or(0.0, |column| column.floor)
    };
    let cell = |place: &Place| {
        let value = |column: &String| {
            published[place.experiment].get(&(place.row.clone(), place.flows, column.clone())).copied()
        };
        Cell {
            experiment: place.experiment,
            published: columns.iter().map(value).collect(),
            floors: columns.iter().map(|name| floor(&experiments[place.experiment], name)).collect(),
        }
    };
    Ok(Problem { parameters: parameters.collect(), cells: cells.iter().map(cell).collect() })
}

/// Plans a fit on each paper, and one on both papers without each flow count.
fn fits(experiments: &[ExperimentFile], cells: &[Place]) -> Vec<Fit> {
    let (mut papers, mut counts) = (Vec::new(), Vec::new());
    let paper = |cell: &Place| experiments[cell.experiment].preset.clone().unwrap_or_default();
    for cell in cells {
        add(&mut papers, &paper(cell));
        if !counts.contains(&cell.flows) {
            counts.push(cell.flows);
        }
    }
    let of = |name: String, in_training: &dyn Fn(&Place) -> bool| Fit {
        name,
        training: (0..cells.len()).filter(|cell| in_training(&cells[*cell])).collect(),
    };
    let by_paper = papers.iter().map(|name| of(name.clone(), &|cell| paper(cell) == *name));
    let by_count = counts.iter().map(|count| of(format!("without {count}"), &|cell| cell.flows != *count));
    by_paper.chain(by_count).collect()
}
