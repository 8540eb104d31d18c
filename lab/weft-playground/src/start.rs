//! The things that the page needs once: the words of the language for its colours, the samples, and the bounds.

use crate::bounds::{PACKETS_MAX, TEXT_MAX};
use serde::Serialize;
use weft_policy::{trial, words};

/// A policy with arrivals to choose.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct PolicySample {
    /// Its name in links.
    pub name: &'static str,
    /// The title in the list.
    pub title: &'static str,
    /// Its lesson, in a sentence or two.
    pub about: &'static str,
    /// The policy.
    pub policy: &'static str,
    /// The arrivals, with the order that is expected.
    pub arrivals: &'static str,
}

/// A sample whose texts are files.
macro_rules! sample {
    ($name:literal, $title:literal, $about:literal) => {
        PolicySample {
            name: $name,
            title: $title,
            about: $about,
            policy: include_str!(concat!("../samples/", $name, ".weft")),
            arrivals: include_str!(concat!("../samples/", $name, ".wefttest")),
        }
    };
}

/// The samples, in the order of the list.
pub const SAMPLES: &[PolicySample] = &[
    sample!(
        "head",
        "The rank is that of the head",
        "f1 has a (due at 9 us) before b (due at 1 us). weftline ranks a flow by its first packet, so c goes first. A PIFO \
         lets the urgent b win a turn, which a then takes."
    ),
    sample!(
        "shares",
        "Shares by weight",
        "Two tenants share the link 1 : 2 while both have packets, and c has all of it while they are silent."
    ),
    sample!(
        "limit",
        "A limit that blocks nobody",
        "Figure 6 of Loom: D2 is limited and waits in the one global shaping queue, while D1 behind it leaves at once."
    ),
    sample!(
        "las",
        "Short flows before long ones",
        "las serves the flow that has had the fewest bytes: a short flow that comes late passes the long one."
    ),
    sample!(
        "own",
        "An algorithm of one's own",
        "A flow is urgent for its first 3000 bytes and shares afterwards. Change the 3000 and watch the order."
    ),
    PolicySample {
        name: "figure1",
        title: "The policy of Loom's Figure 1",
        about: "Operator, tenants and applications each say their part: priority, shares and limits by destination in one graph.",
        policy: include_str!("../../../policies/figure1.weft"),
        arrivals: include_str!("../samples/figure1.wefttest"),
    },
    sample!(
        "mistakes",
        "Mistakes that teach",
        "Three ordinary mistakes. Each has one error with what was meant; the button writes the correction."
    ),
];

#[derive(Serialize)]
struct Start {
    samples: &'static [PolicySample],
    words: Words,
    packets_max: usize,
    text_max: usize,
}

/// The words of policies and of arrivals.
#[derive(Serialize)]
struct Words {
    reserved: &'static [&'static str],
    contextual: &'static [&'static str],
    kinds: &'static [&'static str],
    algorithm: Vec<&'static str>,
    functions: &'static [&'static str],
    names: Vec<String>,
    lines: &'static [&'static str],
    facts: &'static [&'static str],
}

/// Words, samples and bounds, as JSON.
pub fn start() -> String {
    let words = Words {
        reserved: words::reserved(),
        contextual: words::contextual(),
        kinds: words::algorithm_kinds(),
        algorithm: words::algorithm_words(),
        functions: words::functions(),
        names: words::algorithm_names(),
        lines: trial::LINES,
        facts: trial::FACTS,
    };
    let start = Start { samples: SAMPLES, words, packets_max: PACKETS_MAX, text_max: TEXT_MAX };
    serde_json::to_string(&start).unwrap_or_default()
}
