//! The study's statements about this machine, each with the 95 % interval of the difference that decides it.

use std::fmt;

use weft_report::judgement::Judgement;
use weft_report::profile::{Category, ConfigReport, ProfileReport, Run, Side};
use weft_report::stats;

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
}

impl Statement {
    fn of(text: impl Into<String>, unit: &'static str, larger: &[f64], smaller: &[f64]) -> Option<Self> {
        Some(Self {
            text: text.into(),
            difference: stats::mean(larger)? - stats::mean(smaller)?,
            half_width: stats::welch_half_width(larger, smaller),
            unit,
        })
    }

    /// The judgement: shown only if the interval excludes zero.
    pub fn judgement(&self) -> Judgement {
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
        write!(f, "{}: {word} (difference {:+.3}", self.text, self.difference)?;
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

/// The statements about one profile: those whose levels and pattern it has.
pub fn of(report: &ProfileReport) -> Vec<Statement> {
    let config = |level: &str| report.configs.iter().find(|config| config.level == level);
    let mut all = Vec::new();
    if let (Some(tso), Some(gro)) = (config("tso"), config("gro")) {
        let gain = |larger: &ConfigReport, smaller: &ConfigReport, side, text| {
            let of = |config| values(config, per_core(side));
            Statement::of(text, "Gb/s per core", &of(larger), &of(smaller))
        };
        match report.pattern.as_str() {
            "outcast" => {
                all.push(gain(tso, gro, Side::Sender, "outcast: TSO gains more than GRO per sender core"))
            }
            "incast" => {
                all.push(gain(gro, tso, Side::Receiver, "incast: GRO gains more than TSO per receiver core"))
            }
            _ => {}
        }
    }
    if let Some(last) = config("arfs").or_else(|| config("jumbo")).or_else(|| config("tso-gro")) {
        let of = |side| values(last, per_core(side));
        let text = format!("{}: a sender core carries more than a receiver core", last.level);
        all.push(Statement::of(text, "Gb/s per core", &of(Side::Sender), &of(Side::Receiver)));
        all.extend(Side::ALL.map(|side| copy_is_largest(last, side)));
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
    let text = format!("{}: data copy is the largest category of the {}", config.level, side.name());
    Statement::of(text, "% of kernel time", &share(Category::DataCopy), &share(largest))
}

/// The statements about profiles of growing flow counts: each one's own, and the fall of skb sizes from the least to the most.
pub fn over_flows(reports: &[(u32, ProfileReport)]) -> Vec<String> {
    let own = |(flows, report): &(u32, ProfileReport)| {
        of(report).into_iter().map(|s| format!("{flows} flows, {s}")).collect::<Vec<_>>()
    };
    let mut all: Vec<String> = reports.iter().flat_map(own).collect();
    let (Some((few, first)), Some((many, last))) = (reports.first(), reports.last()) else { return all };
    if few == many {
        return all;
    }
    for config in &first.configs {
        let Some(other) = last.configs.iter().find(|other| other.level == config.level) else { continue };
        let skb = |config| values(config, |run| Some(run.sizes.as_ref()?.after_gro.mean? / 1e3));
        let text = format!("{}: skbs shrink from {few} to {many} flows", config.level);
        all.extend(Statement::of(text, "kB", &skb(config), &skb(other)).map(|s| s.to_string()));
    }
    all
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
        assert!(of(&report("single", vec![config("noopt", [1.0; 3], 0.0)])).is_empty());
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
