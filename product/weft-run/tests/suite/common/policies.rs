//! Random policies, many of them too large for one place or another.

use std::fmt::Write;

/// A generator of numbers (SplitMix64), the same in every run.
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    /// A number below `most`.
    pub(crate) fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % most
    }

    /// One of `from`.
    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}

/// The test of class `number`.
fn test(rng: &mut Rng, kind: u64, number: u64) -> String {
    match kind {
        0 => format!("user {number}"),
        1 => format!("udp dport {}..{}", 100 * number + 1, 100 * number + 1 + rng.below(90)),
        2 => format!("mark {number}"),
        3 => format!("cgroup \"/weft-no-such-{number}\""),
        4 => format!("process \"p{number}\""),
        5 => format!("to 10.{}.{}.0/{}", number / 250, number % 250, 24 + rng.below(6)),
        6 => format!("user \"root\" and mark {number}"),
        7 => format!("vlan {number} and dscp {}", rng.below(64)),
        _ => format!("tcp port {} and port \"w{}\"", number + 1, rng.below(3)),
    }
}

/// The order of the packets of a class; a few words are droppers, or need what a port does not have.
fn order(rng: &mut Rng) -> &'static str {
    match rng.below(40) {
        0 => "codel target 5ms of ",
        1 => "own of ",
        2 => "codel target 5ms of las of ",
        3 => "wf2q of ",
        4 => "fifo_plus of ",
        5 => "las of ",
        6 => "edf budget 1ms of ",
        7..20 => "fair of ",
        _ => "",
    }
}

/// A random policy.
pub(crate) fn policy(rng: &mut Rng) -> String {
    let mut text = String::from("dropper own() { fetched { drop } }\n");
    if rng.below(2) == 0 {
        text.push_str("link 1gbps\n");
    }
    let classes = [rng.pick(&[1, 2, 5, 20]), rng.pick(&[61, 62, 63, 64, 65, 130, 254, 255, 260])]
        [rng.below(2) as usize];
    let kind = rng.below(9);
    for class in 0..classes {
        let _ = writeln!(text, "class c{class} = {}", test(rng, kind, class));
    }
    let limits: u64 = match rng.below(3) {
        0 => 0,
        1 => rng.below(4),
        _ => rng.pick(&[40, 60, 61, 62, 63, 100, 253, 254, 300]),
    };
    for limit in 0..limits {
        let (high, low) = (limit / 250, limit % 250);
        let _ = writeln!(text, "l{limit} = limit {}mbps to 10.{high}.{low}.0/24 of c0", 1 + rng.below(50));
    }
    let first = match limits {
        0 => format!("{}c0", order(rng)),
        1 => "l0".to_owned(),
        _ => "all".to_owned(),
    };
    if limits > 1 {
        let names: Vec<String> = (0..limits).map(|limit| format!("l{limit}")).collect();
        let _ = writeln!(text, "all = fifo {{ {} }}", names.join(", "));
    }
    let mut children = vec![first];
    children.extend((1..classes).map(|class| format!("{}c{class}", order(rng))));
    match rng.below(3) {
        0 => {
            let _ = writeln!(text, "root = priority {{ {}, default }}", children.join(", "));
        }
        _ => {
            let _ = writeln!(text, "root = wfq {{ {}: 1, default: 2 }}", children.join(": 1, "));
        }
    }
    text
}
