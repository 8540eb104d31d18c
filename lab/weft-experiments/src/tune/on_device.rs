//! The present setting and the best candidates at the host's own device, towards another host that runs `weft profile server`.
//!
//! Each change counts from the present settings, is read back, and is restored by the journal of `weft-profile`, also if this process is
//! killed.

use super::measured::{TrialPeer, TryOptions, of_trial};
use super::{TuneError, TuneOptions, TuneStep, candidates, host};
use weft_host::transmit::Facts;
use weft_profile::hosts::client;
use weft_profile::journal::LevelDevice;
use weft_profile::level::DeviceChange;
use weft_profile::pattern::{FlowCount, Pattern};
use weft_profile::session;
use weft_profile::setup::Setup;
use weft_profile::traffic::TrafficLoad;
use weft_report::tune::{Tried, TuneReport};
use weft_units::{BitsPerSec, Bytes};

/// The change that a trial makes, or the reason that it makes none.
fn change(name: &'static str) -> Result<DeviceChange, &'static str> {
    Ok(match name {
        candidates::PRESENT => DeviceChange::Present,
        "tsq-256k" => DeviceChange::SmallQueue(Bytes(256 << 10)),
        "tsq-128k" => DeviceChange::SmallQueue(Bytes(128 << 10)),
        "segment-32k" => DeviceChange::Segment(Bytes(32 << 10)),
        "segment-16k" => DeviceChange::Segment(Bytes(16 << 10)),
        "no-tso" => DeviceChange::NoTso,
        _ => {
            return Err(
                "at a device trials change segments and TCP small queues only; set it by its command, and compare",
            );
        }
    })
}

/// Tries the present setting and the best candidates, and enters their runs.
pub(super) fn fill(
    report: &mut TuneReport,
    facts: &Facts,
    (options, try_best, peer): (&TuneOptions, &TryOptions, &TrialPeer),
    stop: &(dyn Fn() -> bool + Sync),
    heard: &mut dyn FnMut(TuneStep),
) -> Result<(), TuneError> {
    let names = candidates::names(facts);
    let own = |name: &str| names.iter().copied().find(|known| *known == name);
    let mut changes = vec![(candidates::PRESENT, DeviceChange::Present)];
    for one in report.candidates.iter_mut().filter(|one| !one.present && !one.ranking.is_empty()) {
        let is_full = changes.len() > try_best.most as usize;
        let Some(name) = own(&one.name) else { continue };
        let why = match change(name) {
            Err(why) => why.to_owned(),
            Ok(_) if is_full => format!("only the best {} are tried", try_best.most),
            Ok(change) => {
                changes.push((name, change));
                continue;
            }
        };
        one.tried = Some(Tried { not_tried: Some(why), ..Tried::default() });
    }
    let flows = host::flows_of(facts, options);
    report.tried_at = Some(format!("{}, to {}", facts.device, peer.to.host));
    let device = LevelDevice { name: &facts.device, guard: peer.guard };
    let mut told = |progress: &session::TrialProgress| {
        let rate = BitsPerSec(progress.run.bare_bps.max(0.0) as u64);
        let what = format!("{}, {rate}", progress.level);
        heard(TuneStep::Tried { done: progress.done, of: progress.of, what });
    };
    let session = session::SessionOptions {
        pattern: Pattern::OneToOne,
        flows: FlowCount::Each(flows),
        load: TrafficLoad::Bulk,
        levels: Vec::new(),
        setup: Setup::default(),
        trials: try_best.trials.clone(),
    };
    let found =
        client::changes(&session, (&peer.to, device), &changes, &try_best.categories, &|| stop(), &mut told);
    let found = match found {
        Err(error) if error.is_stop() => return Err(TuneError::Stopped),
        other => other.map_err(Box::new)?,
    };
    report.labels.extend(found.labels);
    for ((name, _), trials) in changes.iter().zip(&found.trials) {
        if let Some(one) = report.candidates.iter_mut().find(|one| one.name == *name) {
            let measured = trials.iter().map(of_trial).collect();
            one.tried = Some(Tried { simulated: one.ranking.clone(), measured, not_tried: None });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;

    /// A trial sets what the candidate's command sets.
    #[test]
    fn changes_have_the_sizes_of_the_file() {
        let text = catalogue::files::text(candidates::PARAMETERS).expect("the file");
        let file: toml::Table = text.parse().expect("TOML");
        for (name, key) in [
            ("tsq-256k", "host.stack.small_queue"),
            ("tsq-128k", "host.stack.small_queue"),
            ("segment-32k", "host.stack.gso"),
            ("segment-16k", "host.stack.gso"),
        ] {
            let size = file["configurations"][name][key].as_str().and_then(|size| size.parse::<Bytes>().ok());
            let (Ok(DeviceChange::SmallQueue(bytes)) | Ok(DeviceChange::Segment(bytes))) = change(name)
            else {
                panic!("{name} is no change of a size")
            };
            assert_eq!(Some(bytes), size, "{name}");
        }
        assert!(change("dqa").is_err() && change("fq_codel").is_err());
    }
}
