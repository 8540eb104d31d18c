//! The price of a policy as text.

use super::{Needs, OrderCost, PolicyCost, Priced, Profile};
use crate::algorithm::Place;
use core::fmt;
use weft_rank::Part;

impl fmt::Display for Needs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = [
            (self.second_order, "a second order"),
            (self.holds, "holds until a time"),
            (self.timer, "a timer for each child"),
            (self.reranks, "ranks again on arrival"),
            (self.follows_head, "ranks again with the head"),
            (self.drops, "drops or marks"),
        ];
        let kept: Vec<&str> = words.into_iter().filter(|(needed, _)| *needed).map(|(_, word)| word).collect();
        f.write_str(&kept.join(", "))
    }
}

impl OrderCost {
    /// The operations by part, such as `rank 3, begin 4, sent 16`.
    fn by_part(&self) -> String {
        let parts = Part::ALL.into_iter().filter(|part| self.cost.of(*part) > 0);
        parts.map(|part| format!("{part} {}", self.cost.of(part))).collect::<Vec<_>>().join(", ")
    }

    fn over(&self) -> String {
        match self.place {
            Place::Children => format!("{} children", self.children),
            Place::Flows => "flows".to_owned(),
        }
    }
}

impl fmt::Display for PolicyCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let twice = if self.held { ", twice for a packet that is held" } else { "" };
        let on =
            if self.deepest.is_empty() { String::new() } else { format!(" on the path of {}", self.deepest) };
        writeln!(f, "orders     at most {}{on}{twice}", self.depth)?;
        writeln!(f, "operations at most {} for a packet", self.operations)?;
        writeln!(
            f,
            "state      {} B for nodes and their children, {} B for a flow",
            self.state_bytes(),
            self.flow_bytes()
        )?;
        writeln!(f, "limits     {}", self.limits)?;
        for order in &self.orders {
            write!(
                f,
                "{:<10} {}{} over {}",
                "order",
                "  ".repeat(order.level.saturating_sub(1)),
                order.name,
                order.over()
            )?;
            if order.native {
                writeln!(f, ": {}, native", order.algorithm)?;
                continue;
            }
            let cost = &order.cost;
            write!(
                f,
                ": {}: {} operations for a packet ({})",
                order.algorithm,
                cost.per_packet(),
                order.by_part()
            )?;
            let what = match order.place {
                Place::Children => "child",
                Place::Flows => "flow",
            };
            write!(f, "; {} B, and {} B for each {what}", cost.node_bytes, cost.child_bytes)?;
            match order.needs == Needs::default() {
                true => writeln!(f)?,
                false => writeln!(f, "; {}", order.needs)?,
            }
        }
        for profile in Profile::ALL {
            let Some(Priced { nanos, budget }) = profile.price(self) else { continue };
            match budget {
                Some(budget) => writeln!(
                    f,
                    "{:<10} {nanos:.0} ns of {budget} ns for 64-byte frames at 100 Gb/s{}",
                    profile.name(),
                    if nanos > budget { ": too much" } else { "" }
                )?,
                None => writeln!(f, "{:<10} about {nanos:.0} ns for a packet, estimated", profile.name())?,
            }
        }
        Ok(())
    }
}
