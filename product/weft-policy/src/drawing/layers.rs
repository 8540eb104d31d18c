//! Layers: each box at its distance from the link, with places kept free for lines that pass a layer.

use super::coordinates::{Wish, spread};
use super::sketch::Sketch;

/// The rounds in which the places of all layers are improved. More change nothing that can be seen.
const ROUNDS: usize = 12;

/// A box, or a place of a line that passes a layer.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    /// The box; `None` for a line that passes.
    pub(super) item: Option<usize>,
    pub(super) layer: usize,
    /// The middle of its place within the layer.
    pub(super) across: f64,
    /// The cells to which lines go from here, towards the link.
    pub(super) targets: Vec<usize>,
    /// The cells from which lines come.
    pub(super) sources: Vec<usize>,
}

/// The cells, and those of each layer in their order; layer 0 is the link's.
#[derive(Clone, Debug)]
pub(super) struct Layers {
    pub(super) cells: Vec<Cell>,
    pub(super) layers: Vec<Vec<usize>>,
}

/// Puts boxes into layers. `half` is the space that a box needs to each side of its middle, `None` that of a line.
pub(super) fn layers(sketch: &Sketch, half: impl Fn(Option<usize>) -> f64) -> Layers {
    let mut layers = cells(sketch);
    order(&mut layers);
    let halves: Vec<f64> = layers.cells.iter().map(|cell| half(cell.item)).collect();
    for row in layers.layers.clone() {
        let mut place = 0.0;
        for cell in row {
            layers.cells[cell].across = place + halves[cell];
            place += 2.0 * halves[cell];
        }
    }
    for _ in 0..ROUNDS {
        for layer in 1..layers.layers.len() {
            improve(&mut layers, &halves, layer, |cell| &cell.targets);
        }
        for layer in (0..layers.layers.len()).rev() {
            improve(&mut layers, &halves, layer, |cell| &cell.sources);
        }
    }
    layers
}

/// Makes the cells: one for each box, and one for each layer that a line passes.
fn cells(sketch: &Sketch) -> Layers {
    let mut depth = vec![0; sketch.items.len()];
    // An item comes before its sources, so one pass finds the longest ways.
    for (at, item) in sketch.items.iter().enumerate() {
        for source in &item.sources {
            depth[*source] = depth[*source].max(depth[at] + 1);
        }
    }
    let cell = |item, layer| Cell { item, layer, across: 0.0, targets: Vec::new(), sources: Vec::new() };
    let mut cells: Vec<Cell> = depth.iter().enumerate().map(|(at, layer)| cell(Some(at), *layer)).collect();
    for (at, item) in sketch.items.iter().enumerate() {
        for source in item.sources.iter().copied() {
            let mut target = at;
            for layer in depth[at] + 1..depth[source] {
                cells.push(cell(None, layer));
                let passing = cells.len() - 1;
                join(&mut cells, passing, target);
                target = passing;
            }
            join(&mut cells, source, target);
        }
    }
    Layers { cells, layers: Vec::new() }
}

fn join(cells: &mut [Cell], source: usize, target: usize) {
    cells[source].targets.push(target);
    cells[target].sources.push(source);
}

/// Orders the cells of each layer as a walk from the link finds them, so that the lines of a tree do not cross.
fn order(layers: &mut Layers) {
    let mut seen = vec![false; layers.cells.len()];
    let mut todo = vec![0];
    while let Some(at) = todo.pop() {
        if core::mem::replace(&mut seen[at], true) {
            continue;
        }
        let layer = layers.cells[at].layer;
        if layers.layers.len() <= layer {
            layers.layers.resize(layer + 1, Vec::new());
        }
        layers.layers[layer].push(at);
        todo.extend(layers.cells[at].sources.iter().rev());
    }
}

/// Moves the cells of a layer to the middle of their neighbours.
fn improve(layers: &mut Layers, halves: &[f64], layer: usize, near: fn(&Cell) -> &Vec<usize>) {
    let row = &layers.layers[layer];
    let wanted: Vec<Wish> = row
        .iter()
        .map(|at| {
            let cell = &layers.cells[*at];
            let near = near(cell);
            match near.len() {
                // It gives way to others.
                0 => Wish { place: cell.across, weight: 1e-3 },
                count => {
                    let sum: f64 = near.iter().map(|other| layers.cells[*other].across).sum();
                    Wish { place: sum / count as f64, weight: 1.0 }
                }
            }
        })
        .collect();
    let before = core::iter::once(0.0).chain(row.iter().map(|at| halves[*at]));
    let apart: Vec<f64> = row.iter().zip(before).map(|(at, before)| before + halves[*at]).collect();
    for (at, place) in layers.layers[layer].clone().into_iter().zip(spread(&wanted, &apart)) {
        layers.cells[at].across = place;
    }
}
