//! The verdict: advice, nothing better, or that the figures do not decide.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Candidate, TuneReport, Wish, values};
use crate::profile::Effect;
use weft_facts::human;
use weft_facts::stats;

/// The kind of a verdict.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Conclusion {
    /// A candidate is better than the present setting.
    Advice,
    /// Candidates are worse than the present setting, and none is better.
    NothingBetter,
    /// Nothing was shown.
    #[default]
    DoesNotKnow,
}

impl Conclusion {
    /// The exit code of `weft tune`.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Advice => 0,
            Self::NothingBetter => 1,
            Self::DoesNotKnow => 3,
        }
    }
}

/// The verdict of a document.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// Its kind.
    pub conclusion: Conclusion,
    /// The candidate that is advised; null without advice.
    pub candidate: Option<String>,
    /// The difference of the wish's figure that decides; null where no runs decide.
    pub effect: Option<Effect>,
    /// The reason, as a sentence.
    pub because: String,
    /// Other figures that the advised candidate makes worse.
    pub price: Vec<String>,
}

/// An effect on the wish's figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shown {
    Better,
    Worse,
    Neither,
}

/// The effect of one set of runs over another. It must be beyond the spread, and matter.
fn shown(wish: Wish, effect: &Effect) -> Shown {
    let gain = wish.gain(effect.with, effect.without);
    match effect.is_shown() && gain.abs() >= wish.matters(effect.without) {
        true if gain > 0.0 => Shown::Better,
        true => Shown::Worse,
        false => Shown::Neither,
    }
}

/// The verdict of a document whose candidates are ranked.
pub(super) fn of(report: &TuneReport) -> Verdict {
    let nothing = |because: String| Verdict { because, ..Verdict::default() };
    if !report.unknown.is_empty() {
        return nothing("what decides is unknown".to_owned());
    }
    let Some(present) = report.present().filter(|present| !present.ranking.is_empty()) else {
        return nothing("the present setting was not simulated".to_owned());
    };
    if report.ranked().next().is_none() {
        return nothing("no candidate can be simulated on this host".to_owned());
    }
    if values(report.wish, &present.ranking).len() < 2 {
        return nothing(format!("the runs have no figure of {} with a spread", report.wish.name()));
    }
    match measured(report, present) {
        Some(verdict) => verdict,
        None => simulated(report, present),
    }
}

/// The verdict of the simulator's runs alone.
fn simulated(report: &TuneReport, present: &Candidate) -> Verdict {
    let wish = report.wish;
    let best = report.best();
    let decided =
        best.map(|best| (best, Effect::of(&values(wish, &present.deciding), &values(wish, &best.deciding))));
    if let Some((best, effect)) = decided.filter(|(_, effect)| shown(wish, effect) == Shown::Better) {
        return Verdict {
            conclusion: Conclusion::Advice,
            candidate: Some(best.name.clone()),
            effect: Some(effect),
            because: format!("simulated, {}", in_words(wish, &effect)),
            price: price(report, present, best),
        };
    }
    let effect = decided.map(|(_, effect)| effect);
    let is_worse = |one: &&Candidate| one.effect.is_some_and(|effect| shown(wish, &effect) == Shown::Worse);
    let worse = report.ranked().filter(is_worse).count();
    let dear = report.ranked().filter(|one| report.is_dear(one)).count();
    if worse + dear == 0 {
        let because = format!(
            "no candidate differs from the present setting in {} by more than the spread: the simulation tells none apart",
            wish.name()
        );
        return Verdict { because, effect, ..Verdict::default() };
    }
    let mut because = format!("no candidate is better by more than the spread; {worse} are worse");
    if dear > 0 {
        because += &format!(", and {dear} cost more than a twentieth of the throughput");
    }
    Verdict { conclusion: Conclusion::NothingBetter, because, effect, ..Verdict::default() }
}

/// The verdict of real traffic; `None` if none was asked for.
fn measured(report: &TuneReport, present: &Candidate) -> Option<Verdict> {
    let wish = report.wish;
    let runs =
        |one: &Candidate| one.tried.as_ref().map(|tried| values(wish, &tried.measured)).unwrap_or_default();
    present.tried.as_ref()?;
    let null = runs(present);
    let with: Vec<(&Candidate, Effect)> = report
        .ranked()
        .filter(|one| !runs(one).is_empty())
        .map(|one| (one, Effect::of(&null, &runs(one))))
        .collect();
    if null.len() < 2 || with.is_empty() {
        let because = "no candidate could be measured here; the simulator alone does not decide with --try";
        return Some(Verdict { because: because.to_owned(), ..Verdict::default() });
    }
    let better = with.iter().filter(|(_, effect)| shown(wish, effect) == Shown::Better);
    let most = |(_, effect): &&(&Candidate, Effect)| wish.gain(effect.with, effect.without);
    if let Some((one, effect)) = better.max_by(|a, b| most(a).total_cmp(&most(b))) {
        let simulated = one.tried.as_ref().map(|tried| stats::mean(&values(wish, &tried.simulated)));
        let simulated = human::or_none(simulated.flatten(), |mean| wish.write(mean));
        return Some(Verdict {
            conclusion: Conclusion::Advice,
            candidate: Some(one.name.clone()),
            effect: Some(*effect),
            because: format!("measured, {}; simulated there: {simulated}", in_words(wish, effect)),
            price: price(report, present, one),
        });
    }
    let worse = with.iter().filter(|(_, effect)| shown(wish, effect) == Shown::Worse).count();
    let effect = with.first().map(|(_, effect)| *effect);
    Some(if worse == 0 {
        let because = format!(
            "measured, none of {} candidates differs from the present setting in {} by more than the spread",
            with.len(),
            wish.name()
        );
        Verdict { because, effect, ..Verdict::default() }
    } else {
        let because = format!("measured, {worse} of {} candidates are worse and none is better", with.len());
        Verdict { conclusion: Conclusion::NothingBetter, because, effect, ..Verdict::default() }
    })
}

/// A shown effect as a sentence.
fn in_words(wish: Wish, effect: &Effect) -> String {
    let half = human::or_none(effect.half_width, |half| wish.write(half));
    let (with, without) = (wish.write(effect.with), wish.write(effect.without));
    format!("{} is {with} instead of {without}, with {half} of spread", wish.head())
}

/// The other figures that a candidate makes worse by more than the spread.
fn price(report: &TuneReport, present: &Candidate, one: &Candidate) -> Vec<String> {
    let others = Wish::ALL.into_iter().filter(|wish| *wish != report.wish);
    let worse = others.filter_map(|wish| {
        let (before, with) = (values(wish, &present.ranking), values(wish, &one.ranking));
        let effect = Effect::of(&before, &with);
        (!before.is_empty() && shown(wish, &effect) == Shown::Worse).then(|| in_words(wish, &effect))
    });
    worse.collect()
}
