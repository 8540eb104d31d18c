//! A policy as a drawing like Figure 1 of Loom (NSDI'19): classes, nodes and limits as boxes, and the way of the packets to the link.
//!
//! 1. `sketch`: the graph becomes boxes with their texts, and edges towards the link. The branches of a limit are boxes side by side that
//!    meet in a FIFO, as in Loom's definition.
//! 2. `layers`: boxes are in layers by their distance from the link; `coordinates` finds their places within a layer.
//! 3. `layout`: everything gets its pixels. Packets go down the page, as in the figure, or to the right if the page would be too wide.
//! 4. `svg`: the drawing as SVG, by plotters.
//!
//! These rules hold:
//!
//! - No box and no label covers another one, and all are in the view: widths of texts are estimated for a wide font.
//! - A line between two layers crosses no box and no label: it leaves its box straight, up to the end of all labels of the layer.
//! - The drawing is a function of the text: no clock, no random number, no hash.

mod coordinates;
mod layers;
mod layout;
mod sketch;
mod svg;
mod text;

use crate::lowering::model::Policy;
use crate::validate::graph::Graph;
use crate::validate::shape::Shape;
use std::rc::Rc;

/// A text of a policy: its own, or that of a tenant's file.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    /// The tenant's name with a dot, which begins the names of the part; empty for the policy's own.
    pub(crate) of: String,
    /// The place of its first byte among all texts.
    pub(crate) base: usize,
    /// The text.
    pub(crate) text: Rc<str>,
}

/// A rectangle, in pixels from the upper left corner of the drawing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Area {
    /// The first column.
    pub left: i32,
    /// The first row.
    pub top: i32,
    /// One past the last column.
    pub right: i32,
    /// One past the last row.
    pub bottom: i32,
}

impl Area {
    /// Whether the two areas have a point in common.
    pub const fn meets(&self, other: &Self) -> bool {
        self.left < other.right
            && other.left < self.right
            && self.top < other.bottom
            && other.top < self.bottom
    }
}

/// The role of a box in the policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// The link.
    Link,
    /// A node that orders packets.
    Scheduling,
    /// A limit.
    Shaping,
    /// A class of packets.
    Class,
}

/// A box with its text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Drawn {
    /// The place.
    pub area: Area,
    /// The role.
    pub role: Role,
    /// The name; empty for a node that the policy does not name.
    pub title: String,
    /// Further lines: the condition of a class, the discipline of a node, the rate of a limit.
    pub lines: Vec<String>,
}

/// A weight, a place or arguments beside a line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Label {
    /// The place.
    pub area: Area,
    /// The text.
    pub text: String,
}

/// A drawing of a policy.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Drawing {
    /// The width, in pixels.
    pub width: u32,
    /// The height, in pixels.
    pub height: u32,
    /// The boxes.
    pub boxes: Vec<Drawn>,
    /// The labels.
    pub labels: Vec<Label>,
    /// The lines from each box to the next one on the way to the link, as points.
    pub lines: Vec<Vec<(i32, i32)>>,
}

impl Drawing {
    /// The drawing of a checked policy.
    pub(crate) fn new(parts: &[Part], policy: &Policy, graph: &Graph, shape: &Shape) -> Self {
        layout::layout(&sketch::sketch(parts, policy, graph, shape))
    }

    /// The drawing as SVG.
    pub fn to_svg(&self) -> String {
        svg::to_svg(self)
    }
}
