//! The study's statements about this machine, each with the 95 % interval of the difference that decides it.

use std::fmt;

use weft_facts::stats;
use weft_report::judgement::Judgement;
use weft_report::profile::{Category, ConfigReport, ProfileReport, Run, Side};

/// A statement, judged.
#[derive(Clone, PartialEq, Debug)]
pub struct Statement {
    /// The statement.
    pub text: String,
    /// The difference that decides: positive if the statement holds.
    pub difference: f64,
    /// Half of its 95 % interval; `None` with one run.
    pub half_width: Option<f64>,
    /// The unit of the difference.
    pub unit: &'static str,
    /// The reason that the profile has no such difference.
    pub lacks: Option<&'static str>,
}

impl Statement {
    fn of(text: impl Into<String>, unit: &'static str, larger: &[f64], smaller: &[f64]) -> Option<Self> {
        Some(Self {
            text: text.into(),
            difference: stats::mean(larger)? - stats::mean(smaller)?,
            half_width: stats::welch_half_width(larger, smaller),
            unit,
            lacks: None,
        })
    }

    /// A statement of the pattern about which this profile says nothing.
    fn lacking(text: impl Into<String>, lacks: &'static str) -> Self {
        Self { text: text.into(), difference: 0.0, half_width: None, unit: "", lacks: Some(lacks) }
    }

    /// The judgement: shown only if the interval excludes zero.
    pub fn judgement(&self) -> Judgement {
        if let Some(lacks) = self.lacks {
            return Judgement::NotShown(lacks.to_owned());
        }
        match self.half_width {
            Some(half) if self.difference.abs() > half => Judgement::of(self.difference > 0.0),
            Some(_) => Judgement::NotShown("the interval contains zero".to_owned()),
            None => Judgement::NotShown("one run has no interval".to_owned()),
        }
    }
}

impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.judgement() {
            Judgement::Holds => "holds".to_owned(),
            Judgement::Fails => "does not hold".to_owned(),
            Judgement::NotShown(why) => format!("not shown, {why}"),
        };
        write!(f, "{}: {word}", self.text)?;
        if self.lacks.is_some() {
            return Ok(());
        }
        write!(f, " (difference {:+.3}", self.difference)?;
        if let Some(half) = self.half_width {
            write!(f, " ± {half:.3}")?;
        }
        write!(f, " {})", self.unit)
    }
}

fn values(config: &ConfigReport, of: impl Fn(&Run) -> Option<f64>) -> Vec<f64> {
    config.runs.iter().filter_map(of).collect()
}

/// Gb/s per core in use by a side.
fn per_core(side: Side) -> impl Fn(&Run) -> Option<f64> {
    move |run| {
        let busy = run.side(side).total_s() / run.span_s;
        (busy > 0.0 && run.span_s > 0.0).then(|| run.bps / 1e9 / busy)
    }
}

/// The texts of the statements.
const TSO_GAINS: &str = "outcast: TSO gains more than GRO per sender core";
const GRO_GAINS: &str = "incast: GRO gains more than TSO per receiver core";
const SENDER_CARRIES: &str = "a sender core carries more than a receiver core";
const COPY_LARGEST: &str = "data copy is the largest category of the";
const SKBS_SHRINK: &str = "skbs shrink as flows grow";
/// The levels or documents that they need.
const TWO_LEVELS: &str = "it compares two levels: --levels tso,gro";
const ALL_ON: &str = "it is about a host with all optimisations: --levels tso-gro, jumbo or arfs";
const TWO_RUNS: &str = "a profile has one number of flows: weft profile diff FEWER.json MORE.json";

/// The statements about one profile's pattern. Those whose levels it lacks are not shown.
pub fn of(report: &ProfileReport) -> Vec<Statement> {
    let config = |level: &str| report.configs.iter().find(|config| config.level == level);
    let mut all = Vec::new();
    let gain = |text, side, levels: [&str; 2]| match levels.map(config) {
        [Some(larger), Some(smaller)] => {
            let of = |config| values(config, per_core(side));
            Statement::of(text, "Gb/s per core", &of(larger), &of(smaller))
        }
        _ => Some(Statement::lacking(text, TWO_LEVELS)),
    };
    match report.pattern.as_str() {
        "outcast" => all.push(gain(TSO_GAINS, Side::Sender, ["tso", "gro"])),
        "incast" => all.push(gain(GRO_GAINS, Side::Receiver, ["gro", "tso"])),
        "all-to-all" => all.push(Some(Statement::lacking(SKBS_SHRINK, TWO_RUNS))),
        _ => {}
    }
    match config("arfs").or_else(|| config("jumbo")).or_else(|| config("tso-gro")) {
        Some(last) => {
            let of = |side| values(last, per_core(side));
            let text = format!("{}: {SENDER_CARRIES}", last.level);
            all.push(Statement::of(text, "Gb/s per core", &of(Side::Sender), &of(Side::Receiver)));
            all.extend(Side::ALL.map(|side| copy_is_largest(last, side)));
        }
        None => {
            all.push(Some(Statement::lacking(SENDER_CARRIES, ALL_ON)));
            all.extend(
                Side::ALL
                    .map(|side| Some(Statement::lacking(format!("{COPY_LARGEST} {}", side.name()), ALL_ON))),
            );
        }
    }
    all.into_iter().flatten().collect()
}

/// Whether copies have the largest share: their difference to the largest other category.
fn copy_is_largest(config: &ConfigReport, side: Side) -> Option<Statement> {
    let share = |category: Category| {
        values(config, |run| {
            let time = run.side(side);
            let part = time.categories_s.get(&category).copied().unwrap_or(0.0);
            (time.kernel_s() > 0.0).then(|| 100.0 * part / time.kernel_s())
        })
    };
    let mean = |category: &Category| stats::mean(&share(*category)).unwrap_or(0.0);
    let others = Category::ALL.into_iter().filter(|category| *category != Category::DataCopy);
    let largest = others.max_by(|a, b| mean(a).total_cmp(&mean(b)))?;
    let text = format!("{}: {COPY_LARGEST} {}", config.level, side.name());
    Statement::of(text, "% of kernel time", &share(Category::DataCopy), &share(largest))
}

/// The statements about profiles of growing flow counts: each one's own, and the fall of skb sizes from the least to the most.
pub fn over_flows(reports: &[(u32, ProfileReport)]) -> Vec<String> {
    let own = |(flows, report): &(u32, ProfileReport)| {
        let shown = of(report).into_iter().filter(|s| s.lacks.is_none());
        shown.map(|s| format!("{flows} flows, {s}")).collect::<Vec<_>>()
    };
    let mut all: Vec<String> = reports.iter().flat_map(own).collect();
    if let (Some((few, first)), Some((many, last))) = (reports.first(), reports.last()) {
        all.extend(shrinking((*few, first), (*many, last)).iter().map(Statement::to_string));
    }
    all
}

/// Whether skbs are smaller in the second of two profiles, which has more flows, by level.
fn shrinking((few, first): (u32, &ProfileReport), (many, last): (u32, &ProfileReport)) -> Vec<Statement> {
    if few == many {
        return Vec::new();
    }
    let of_level = |config: &ConfigReport| {
        let other = last.configs.iter().find(|other| other.level == config.level)?;
        let skb = |config| values(config, |run| Some(run.sizes.as_ref()?.after_gro.mean? / 1e3));
        let text = format!("{}: skbs shrink from {few} to {many} flows", config.level);
        Statement::of(text, "kB", &skb(config), &skb(other))
    };
    first.configs.iter().filter_map(of_level).collect()
}

/// The statements about two profiles of all-to-all with different numbers of flows, in either order; none about others.
pub fn between(a: &ProfileReport, b: &ProfileReport) -> Vec<Statement> {
    let flows = |report: &ProfileReport| {
        let flows = report.configs.first().map(|config| config.flows);
        flows.filter(|_| report.pattern == "all-to-all")
    };
    match (flows(a), flows(b)) {
        (Some(few), Some(many)) if few <= many => shrinking((few, a), (many, b)),
        (Some(many), Some(few)) => shrinking((few, b), (many, a)),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_report::profile::{SideTime, Sizes, SkbSizes};

    fn config(level: &str, gbps: [f64; 3], skb: f64) -> ConfigReport {
        let run = |gbps: f64| {
            let time = |s: f64| SideTime {
                system_s: s,
                categories_s: [(Category::DataCopy, s * 0.6), (Category::Tcpip, s * 0.4)].into(),
                ..SideTime::default()
            };
            let sizes = Sizes { counts: vec![1], mean: Some(skb + gbps) };
            Run {
                bps: gbps * 1e9,
                span_s: 1.0,
                sender: time(0.5),
                receiver: time(0.8),
                sizes: Some(SkbSizes { after_gro: sizes, ..SkbSizes::default() }),
                ..Run::default()
            }
        };
        ConfigReport::conclude(level, 1, [1, 1], gbps.map(run).to_vec())
    }

    fn report(pattern: &str, configs: Vec<ConfigReport>) -> ProfileReport {
        ProfileReport { pattern: pattern.to_owned(), configs, ..ProfileReport::default() }
    }

    #[test]
    fn statements_hold_fail_or_cannot_be_shown() {
        let levels = || vec![config("tso", [9.0, 9.1, 9.2], 0.0), config("gro", [4.0, 4.1, 4.2], 0.0)];
        let judged = |pattern| of(&report(pattern, levels()))[0].judgement();
        assert_eq!((judged("outcast"), judged("incast")), (Judgement::Holds, Judgement::Fails));
        let close = vec![config("tso", [4.0, 9.0, 5.0], 0.0), config("gro", [4.0, 8.0, 5.0], 0.0)];
        assert!(matches!(of(&report("outcast", close))[0].judgement(), Judgement::NotShown(_)));
        let all = of(&report("single", vec![config("arfs", [9.0, 9.1, 9.2], 0.0)]));
        assert_eq!(all.len(), 3);
        assert!(all.iter().all(|s| s.judgement() == Judgement::Holds), "{all:?}");
        assert!(
            all[0].to_string().starts_with("arfs: a sender core carries more than a receiver core: holds")
        );
    }

    #[test]
    fn what_a_profile_lacks_is_said() {
        let lacking = |pattern: &str| -> Vec<String> {
            let all = of(&report(pattern, vec![config("noopt", [1.0; 3], 0.0)]));
            assert!(all.iter().all(|s| matches!(s.judgement(), Judgement::NotShown(_))), "{all:?}");
            all.iter().map(Statement::to_string).collect()
        };
        let single = lacking("single");
        assert_eq!(single.len(), 3);
        assert_eq!(single[0], format!("{SENDER_CARRIES}: not shown, {ALL_ON}"));
        assert_eq!(lacking("outcast")[0], format!("{TSO_GAINS}: not shown, {TWO_LEVELS}"));
        assert_eq!(lacking("incast")[0], format!("{GRO_GAINS}: not shown, {TWO_LEVELS}"));
        assert_eq!(lacking("all-to-all")[0], format!("{SKBS_SHRINK}: not shown, {TWO_RUNS}"));
    }

    /// In either order, with the interval; other patterns and equal flows have no such statement.
    #[test]
    fn two_profiles_show_whether_skbs_shrink() {
        let of = |pattern: &str, flows: u32, skb: f64| {
            let mut config = config("tso-gro", [1.0, 1.1, 1.2], skb);
            config.flows = flows;
            report(pattern, vec![config])
        };
        let (few, many) = (of("all-to-all", 1, 60_000.0), of("all-to-all", 64, 30_000.0));
        for (a, b) in [(&few, &many), (&many, &few)] {
            let [shown] = &between(a, b)[..] else { panic!("one statement") };
            assert_eq!((shown.judgement(), shown.half_width.is_some()), (Judgement::Holds, true), "{shown}");
        }
        let grow = between(&of("all-to-all", 1, 30_000.0), &of("all-to-all", 64, 60_000.0));
        assert_eq!(grow[0].judgement(), Judgement::Fails);
        assert!(between(&few, &few).is_empty());
        assert!(between(&of("incast", 1, 9.0), &of("incast", 4, 3.0)).is_empty());
    }

    #[test]
    fn skbs_are_compared_from_the_fewest_to_the_most_flows() {
        let of = |skb| report("all-to-all", vec![config("tso-gro", [1.0, 1.1, 1.2], skb)]);
        let all = over_flows(&[(1, of(60_000.0)), (8, of(30_000.0))]);
        assert!(
            all.iter().any(|s| s.contains("skbs shrink from 1 to 8 flows: holds (difference +30.000")),
            "{all:?}"
        );
        assert!(over_flows(&[]).is_empty());
    }
}
