//! The places of boxes, labels and lines in pixels.
//!
//! Positions are pairs of a coordinate along the packets' way and one across it; [`Direction`] turns them into columns and rows.

use super::layers::{Layers, layers};
use super::sketch::{Item, Sketch};
use super::text::{LINE, cut, title_width, width, wrap};
use super::{Area, Drawing, Drawn, Label, Role};

/// The widest drawing in which packets go down the page.
const WIDEST: i32 = 1500;
/// The space around the drawing.
const MARGIN: i32 = 16;
/// The space between two boxes of a layer.
const GAP: i32 = 14;
/// The space between the border of a box and its text.
const PADDING: i32 = 8;
/// The space of a line that passes a layer.
const LANE: i32 = 8;
/// The space between a line and its label.
const ASIDE: i32 = 4;
/// The least and the most space between two layers for lines that are not straight.
const TURN: (i32, i32) = (30, 140);
/// The space before a layer in which lines are straight.
const HEAD: i32 = 8;
/// The most space between two lines at a box.
const PORTS: i32 = 14;

/// The direction of packets on the page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Direction {
    Down,
    Right,
}

/// A box with its lines of text and its size.
struct Sized<'a> {
    item: &'a Item,
    title: String,
    lines: Vec<String>,
    label: String,
    /// The size along the packets' way.
    along: i32,
    /// The size across it.
    across: i32,
}

/// The place of a layer along the packets' way.
#[derive(Clone, Copy, Default)]
struct Band {
    start: i32,
    /// The end of the boxes.
    end: i32,
    /// The end of the labels.
    labels: i32,
}

/// Lays out a sketch.
pub(super) fn layout(sketch: &Sketch) -> Drawing {
    let down = in_direction(sketch, Direction::Down);
    if down.width <= WIDEST as u32 { down } else { in_direction(sketch, Direction::Right) }
}

fn in_direction(sketch: &Sketch, direction: Direction) -> Drawing {
    let sized: Vec<Sized<'_>> = sketch.items.iter().map(|item| direction.sized(item)).collect();
    let half = |item: Option<usize>| match item {
        Some(at) => f64::from((sized[at].across / 2).max(direction.label_across(&sized[at].label)) + GAP / 2),
        None => f64::from(LANE),
    };
    let mut layers = layers(sketch, half);
    let first =
        |layers: &Layers| layers.cells.iter().map(|cell| cell.across - half(cell.item)).fold(0.0, f64::min);
    let shift = f64::from(MARGIN) - first(&layers);
    layers.cells.iter_mut().for_each(|cell| cell.across = (cell.across + shift).round());
    let bands = bands(&layers, &sized, direction);
    let last = layers.cells.iter().map(|cell| cell.across + half(cell.item)).fold(0.0, f64::max);
    let page = Page { layers: &layers, sized: &sized, bands: &bands, direction };
    page.drawing(bands.first().map_or(0, |link| link.labels) + MARGIN, last.ceil() as i32 + MARGIN)
}

impl Direction {
    /// The texts and the size of a box.
    fn sized(self, item: &Item) -> Sized<'_> {
        let (length, most) = match (self, item.role) {
            (Self::Down, Role::Class) => (22, 5),
            (Self::Down, _) => (20, 4),
            (Self::Right, _) => (64, 3),
        };
        let (title, lines) = (cut(&item.title, 40), wrap(&item.detail, length, most));
        let widest = lines.iter().map(|line| width(line)).max().unwrap_or(0).max(title_width(&title));
        let rows = lines.len() + usize::from(!title.is_empty());
        let (wide, high) = (widest + 2 * PADDING, rows.max(1) as i32 * LINE + PADDING);
        let (along, across) = match self {
            Self::Down => (high, wide),
            Self::Right => (wide, high),
        };
        Sized { item, title, lines, label: cut(&item.label, 32), along, across }
    }

    /// The space across that a label needs on its side of the line.
    fn label_across(self, label: &str) -> i32 {
        match self {
            _ if label.is_empty() => 0,
            Self::Down => ASIDE + width(label),
            Self::Right => LINE,
        }
    }

    /// The space along that a label needs behind its box.
    fn label_along(self, label: &str) -> i32 {
        match self {
            _ if label.is_empty() => 0,
            Self::Down => LINE,
            Self::Right => ASIDE + width(label),
        }
    }

    /// A point of the page.
    fn point(self, along: i32, across: i32) -> (i32, i32) {
        match self {
            Self::Down => (across, along),
            Self::Right => (along, across),
        }
    }

    fn area(self, along: (i32, i32), across: (i32, i32)) -> Area {
        let ((left, top), (right, bottom)) = (self.point(along.0, across.0), self.point(along.1, across.1));
        Area { left, top, right, bottom }
    }
}

/// Places the layers one behind the other; the link's is the last.
fn bands(layers: &Layers, sized: &[Sized<'_>], direction: Direction) -> Vec<Band> {
    let mut bands = vec![Band::default(); layers.layers.len()];
    let mut start = MARGIN;
    for (layer, row) in layers.layers.iter().enumerate().rev() {
        let items = || row.iter().filter_map(|at| sized.get(layers.cells[*at].item?));
        let along = items().map(|item| item.along).max().unwrap_or(0);
        let label = items().map(|item| direction.label_along(&item.label)).max().unwrap_or(0);
        let end = start + along;
        bands[layer] = Band { start, end, labels: end + label };
        // Lines that go far aside need more space, so that they are not too flat to follow.
        let far = |at: usize| {
            let cell = &layers.cells[at];
            let aside = |target: &usize| (layers.cells[*target].across - cell.across).abs();
            cell.targets.iter().map(aside).fold(0.0, f64::max) as i32
        };
        let far = row.iter().map(|at| far(*at)).max().unwrap_or(0);
        start = end + label + (far / 5).clamp(TURN.0, TURN.1);
    }
    bands
}

struct Page<'a> {
    layers: &'a Layers,
    sized: &'a [Sized<'a>],
    bands: &'a [Band],
    direction: Direction,
}

impl Page<'_> {
    fn drawing(&self, along: i32, across: i32) -> Drawing {
        let (width, height) = self.direction.point(along, across);
        let mut drawing =
            Drawing { width: width.unsigned_abs(), height: height.unsigned_abs(), ..Drawing::default() };
        for (at, cell) in self.layers.cells.iter().enumerate() {
            if let Some(sized) = cell.item.and_then(|item| self.sized.get(item)) {
                drawing.boxes.push(self.drawn(at, sized));
                drawing.labels.extend(self.label(at, sized));
                drawing.lines.extend(cell.targets.iter().map(|target| self.line(at, *target)));
            }
        }
        drawing
    }

    fn across(&self, at: usize) -> i32 {
        self.layers.cells[at].across as i32
    }

    fn band(&self, at: usize) -> Band {
        self.bands[self.layers.cells[at].layer]
    }

    /// The box of a cell, which ends where all boxes of its layer end.
    fn drawn(&self, at: usize, sized: &Sized<'_>) -> Drawn {
        let (end, from) = (self.band(at).end, self.across(at) - sized.across / 2);
        let area = self.direction.area((end - sized.along, end), (from, from + sized.across));
        Drawn { area, role: sized.item.role, title: sized.title.clone(), lines: sized.lines.clone() }
    }

    /// The label beside the line that leaves a box.
    fn label(&self, at: usize, sized: &Sized<'_>) -> Option<Label> {
        if sized.label.is_empty() {
            return None;
        }
        let (end, across) = (self.band(at).end, self.across(at));
        let area = match self.direction {
            Direction::Down => {
                let left = across + ASIDE;
                self.direction.area((end, end + LINE), (left, left + width(&sized.label)))
            }
            Direction::Right => {
                let left = end + ASIDE;
                self.direction.area((left, left + width(&sized.label)), (across - LINE, across))
            }
        };
        Some(Label { area, text: sized.label.clone() })
    }

    /// The line from a box to the next box on the way to the link.
    fn line(&self, from: usize, first: usize) -> Vec<(i32, i32)> {
        let (mut at, mut target) = (from, first);
        let mut across = self.across(at) + self.port(&self.layers.cells[at].targets, target, at);
        let mut points = vec![(self.band(at).end, across), (self.band(at).labels, across)];
        while let (None, Some(next)) =
            (self.layers.cells[target].item, self.layers.cells[target].targets.first())
        {
            across = self.across(target);
            points.extend([(self.band(target).start, across), (self.band(target).labels, across)]);
            (at, target) = (target, *next);
        }
        across = self.across(target) + self.port(&self.layers.cells[target].sources, at, target);
        let along = self.layers.cells[target].item.and_then(|item| self.sized.get(item));
        let top = self.band(target).end - along.map_or(0, |sized| sized.along);
        // The last part is straight, for the head of the arrow.
        points.extend([(self.band(target).start - HEAD, across), (top, across)]);
        points.dedup();
        points.into_iter().map(|(along, across)| self.direction.point(along, across)).collect()
    }

    /// The place of the line to `other` among the lines of `cell` on one side, relative to its middle.
    fn port(&self, others: &[usize], other: usize, cell: usize) -> i32 {
        let Some(sized) = self.layers.cells[cell].item.and_then(|item| self.sized.get(item)) else {
            return 0;
        };
        let count = others.len() as i32;
        let mut sorted = others.to_vec();
        sorted.sort_by(|a, b| self.layers.cells[*a].across.total_cmp(&self.layers.cells[*b].across));
        let place = sorted.iter().position(|at| *at == other).unwrap_or(0) as i32;
        let room = sized.across - 2 * PADDING;
        let step = PORTS.min(room / (count - 1).max(1));
        // Many lines at a small box share its places.
        match step {
            0 => (2 * place - (count - 1)) * room / (2 * (count - 1).max(1)),
            _ => (2 * place - (count - 1)) * step / 2,
        }
    }
}
