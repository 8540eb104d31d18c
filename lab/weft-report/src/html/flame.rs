//! Flame graphs, as plain elements: they need no script. Roots are at the top; a frame's width is its share, and its full name and
//! value show when the pointer is on it.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::chart::Colour;
use super::escape;

/// Frames narrower than this share of the whole are left out; their parents show that something is there.
const LEAST: f64 = 0.002;
/// The height of a frame in pixels.
const HEIGHT: usize = 18;

/// A stack with its value: frames from the root, and the colour of its innermost frames.
#[derive(Clone, Debug)]
pub struct FlameStack {
    /// The frames, outermost first.
    pub frames: Vec<String>,
    /// The colour.
    pub colour: Colour,
    /// The value.
    pub value: f64,
}

/// A flame graph.
#[derive(Clone, Debug)]
pub struct FlameGraph {
    /// The heading.
    pub title: String,
    /// The unit of the values.
    pub unit: String,
    /// The stacks.
    pub stacks: Vec<FlameStack>,
}

/// A frame with all stacks that pass through it.
#[derive(Default)]
struct Node {
    value: f64,
    /// The value by colour: the largest part decides.
    colours: BTreeMap<&'static str, f64>,
    below: BTreeMap<String, Node>,
}

impl Node {
    fn add(&mut self, stack: &FlameStack) {
        let mut node = self;
        for frame in &stack.frames {
            node.count(stack);
            node = node.below.entry(frame.clone()).or_default();
        }
        node.count(stack);
    }

    fn count(&mut self, stack: &FlameStack) {
        self.value += stack.value;
        *self.colours.entry(stack.colour.name()).or_default() += stack.value;
    }

    fn colour(&self) -> &'static str {
        self.colours.iter().max_by(|a, b| a.1.total_cmp(b.1)).map_or("grey", |(name, _)| name)
    }

    fn depth(&self, whole: f64) -> usize {
        let visible = self.below.values().filter(|node| node.value >= whole * LEAST);
        visible.map(|node| 1 + node.depth(whole)).max().unwrap_or(0)
    }
}

impl FlameGraph {
    /// Appends the graph's elements.
    pub(super) fn write(&self, out: &mut String) {
        let mut root = Node::default();
        self.stacks.iter().for_each(|stack| root.add(stack));
        let height = root.depth(root.value) * HEIGHT;
        let _ = writeln!(
            out,
            "<figure><figcaption><strong>{}</strong><span>{}</span></figcaption><div class=\"flame\" style=\"height:{height}px\">",
            escape(&self.title),
            escape(&self.unit)
        );
        self.write_below(out, &root, (0.0, 0), root.value);
        out.push_str("</div></figure>\n");
    }

    /// Appends the frames below `node`, which begins at `x` of the whole in row `y`.
    fn write_below(&self, out: &mut String, node: &Node, (mut x, y): (f64, usize), whole: f64) {
        for (name, below) in &node.below {
            if below.value < whole * LEAST {
                continue;
            }
            let (left, width) = (x / whole * 100.0, below.value / whole * 100.0);
            let name = escape(name);
            let _ = writeln!(
                out,
                "<span style=\"left:{left:.3}%;top:{}px;width:{width:.3}%;background:var(--{})\" title=\"{name}: {:.4} {}\">{name}</span>",
                y * HEIGHT,
                below.colour(),
                below.value,
                escape(&self.unit)
            );
            self.write_below(out, below, (x, y + 1), whole);
            x += below.value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_as_wide_as_their_share_and_names_are_escaped() {
        let stack = |frames: &[&str], value| FlameStack {
            frames: frames.iter().map(|f| (*f).to_owned()).collect(),
            colour: Colour::Blue,
            value,
        };
        let stacks = vec![stack(&["a", "<b>"], 3.0), stack(&["a", "c"], 1.0), stack(&["rare"], 0.001)];
        let mut out = String::new();
        FlameGraph { title: "t".into(), unit: "s".into(), stacks }.write(&mut out);
        assert!(out.contains("width:99.975%") && out.contains("&lt;b&gt;: 3.0000 s"), "{out}");
        assert!(!out.contains("rare") && out.contains("height:36px"), "{out}");
    }
}
