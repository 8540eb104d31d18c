//! `hoststack-outcast` and `hoststack-all-to-all --measured`: the study's levels on this machine, by `weft-profile`.

use super::judge::measured_claims;
use super::{MeasuringOptions, ReproduceError};
use weft_facts::record::Host;
use weft_host::perf_event::SampleRate;
use weft_profile::categories::Categories;
use weft_profile::error::ProfileError;
use weft_profile::level::Level;
use weft_profile::pattern::{FlowCount, MAX_CORES, Pattern};
use weft_profile::session::{self, SessionOptions, SessionProfile, TrialPlan, WhenBusy};
use weft_profile::setup::Setup;
use weft_profile::statements;
use weft_profile::traffic::TrafficLoad;
use weft_report::profile::{Category, ConfigReport, Run, Side};
use weft_report::reproduce::Experiment;
use weft_units::Nanos;

/// The experiments' ids.
pub(super) const OUTCAST: &str = "hoststack-outcast";
pub(super) const ALL_TO_ALL: &str = "hoststack-all-to-all";
/// The number of cells: four levels at four flow counts.
pub(super) const CELLS: usize = 16;
/// Runs of a cell.
pub(super) const RUNS: u32 = 3;
/// Measured time without the instrument, and again with it.
const SPAN: Nanos = Nanos::from_secs(3);
const WARM_UP: Nanos = Nanos::from_secs(1);
/// The rows and their levels.
const ROWS: [(&str, Level); 4] =
    [("NoOpt", Level::NoOpt), ("TSO-GRO", Level::TsoGro), ("Jumbo", Level::Jumbo), ("aRFS", Level::Arfs)];

/// Measures the pattern of the experiment, outcast or all-to-all.
pub(super) fn fill(
    experiment: &mut Experiment,
    _: &MeasuringOptions,
    runs: u32,
    cancelled: &(dyn Fn() -> bool + Sync),
    progress: &mut dyn FnMut(usize),
) -> Result<(), ReproduceError> {
    let id = experiment.id.clone();
    let pattern = if id == OUTCAST { Pattern::Outcast } else { Pattern::AllToAll };
    let failed = |error: ProfileError| match error {
        ProfileError::Stopped => ReproduceError::Stopped,
        ProfileError::Rights(missing) => {
            ReproduceError::NotHere { id: id.clone(), reason: missing.to_string() }
        }
        other => ReproduceError::Native { id: id.clone(), reason: other.to_string() },
    };
    let categories = Categories::shipped().map_err(|error| failed(error.into()))?;
    let mut flows: Vec<u32> = experiment.cells.iter().map(|cell| cell.flows).collect();
    flows.sort_unstable();
    flows.dedup();
    let (mut done, mut reports) = (0, Vec::new());
    for flows in flows {
        if flows > MAX_CORES {
            experiment.notes.push(format!("measured: {flows} cores at an end are more than {MAX_CORES}"));
            continue;
        }
        let options = options(pattern, flows, runs).map_err(failed)?;
        let heard = |_: &session::TrialProgress| {
            done += 1;
            progress(done);
        };
        match session::run(&options, &categories, Host::default(), &|| cancelled(), heard) {
            Ok(profile) => {
                enter(experiment, flows, &profile);
                reports.push((flows, profile.report));
            }
            Err(error @ (ProfileError::Stopped | ProfileError::Rights(_))) => return Err(failed(error)),
            // More flows than this machine carries; the other cells stay.
            Err(error) => experiment.notes.push(format!("not measured with {flows}: {error}")),
        }
    }
    measured_claims(experiment)?;
    experiment.notes.extend(statements::over_flows(&reports).iter().map(|s| format!("measured: {s}")));
    Ok(())
}

fn options(pattern: Pattern, flows: u32, runs: u32) -> Result<SessionOptions, ProfileError> {
    Ok(SessionOptions {
        pattern,
        flows: FlowCount::Each(flows),
        load: TrafficLoad::Bulk,
        levels: ROWS.map(|(_, level)| level).to_vec(),
        setup: Setup::default(),
        trials: TrialPlan {
            repeats: runs,
            span: SPAN,
            warm_up: WARM_UP,
            clock: None,
            rate: SampleRate::DEFAULT,
            processors: session::processors()?,
            // A table of a loaded machine is better than none; the note says so.
            loaded: WhenBusy::Label,
        },
    })
}

/// Enters the figures of a flow count, and what limits them.
fn enter(experiment: &mut Experiment, flows: u32, profile: &SessionProfile) {
    for cell in experiment.cells.iter_mut().filter(|cell| cell.flows == flows) {
        let level = ROWS.iter().find(|(row, _)| *row == cell.row).map(|(_, level)| level.name());
        let config = profile.report.configs.iter().find(|config| Some(config.level.as_str()) == level);
        if let Some(config) = config {
            let values = config.runs.iter().filter_map(|run| figure(&cell.column, run));
            cell.take_measured(values.collect());
        }
    }
    let shared = profile.report.labels.iter().map(|label| format!("measured with {flows}: {label}"));
    experiment.notes.extend(shared);
    let foreign = profile.report.configs.iter().map(|c: &ConfigReport| c.foreign_share).fold(0.0, f64::max);
    if foreign > weft_report::profile::FOREIGN_MAX {
        let percent = 100.0 * foreign;
        experiment
            .notes
            .push(format!("measured with {flows}: others had up to {percent:.0} % of the samples"));
    }
}

/// A column's value in a run.
fn figure(column: &str, run: &Run) -> Option<f64> {
    let busy = |side| run.side(side).total_s() / run.span_s;
    let per_core = |side| (busy(side) > 0.0).then(|| run.bps / 1e9 / busy(side));
    let share = |side: Side, category| {
        let time = run.side(side);
        let part = time.categories_s.get(&category).copied().unwrap_or(0.0);
        (time.kernel_s() > 0.0).then(|| part / time.kernel_s())
    };
    match column {
        "gbps" => Some(run.bare_bps / 1e9),
        "gbps_per_sender_core" => per_core(Side::Sender),
        "gbps_per_receiver_core" => per_core(Side::Receiver),
        "sender_percent" => Some(100.0 * busy(Side::Sender)),
        "receiver_percent" => Some(100.0 * busy(Side::Receiver)),
        "sender_copy_share" => share(Side::Sender, Category::DataCopy),
        "receiver_copy_share" => share(Side::Receiver, Category::DataCopy),
        "receiver_tcpip_share" => share(Side::Receiver, Category::Tcpip),
        "receive_skb" => Some(run.sizes.as_ref()?.after_gro.mean? / 1e3),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_report::profile::SideTime;

    /// The statements are judged on measured cells as on simulated ones, and not where cells are missing.
    #[test]
    fn measured_cells_have_the_claims_of_the_simulated_ones() {
        let mut experiment = Experiment::new(ALL_TO_ALL, "all to all", "section 3.4");
        let cell = |flows, measured: f64| {
            let mut cell = weft_report::reproduce::TableCell {
                row: "aRFS".to_owned(),
                column: "gbps_per_receiver_core".to_owned(),
                flows,
                simulated: Some(99.0),
                ..Default::default()
            };
            cell.take_measured(vec![measured]);
            cell
        };
        experiment.cells = vec![cell(1, 30.0), cell(24, 10.0)];
        measured_claims(&mut experiment).expect("valid");
        let [claim] = &experiment.claims[..] else { panic!("{:?}", experiment.claims) };
        assert!(
            claim.holds && claim.statement.starts_with("Measured: Throughput per core falls"),
            "{claim:?}"
        );
        assert!(claim.simulated.contains("10.000 against 13.500"), "{claim:?}");
        // Cells that are alike are the null model, which fails it.
        experiment.cells[1] = cell(24, 30.0);
        experiment.claims.clear();
        measured_claims(&mut experiment).expect("valid");
        assert!(!experiment.claims[0].holds, "{:?}", experiment.claims);
    }

    #[test]
    fn columns_are_those_of_the_study() {
        let time = |copy| SideTime {
            system_s: 0.5,
            categories_s: [(Category::DataCopy, copy)].into(),
            ..SideTime::default()
        };
        let run = Run {
            bps: 10e9,
            bare_bps: 11e9,
            span_s: 1.0,
            sender: time(0.1),
            receiver: time(0.25),
            ..Run::default()
        };
        let value = |column| figure(column, &run);
        assert_eq!((value("gbps"), value("gbps_per_sender_core")), (Some(11.0), Some(20.0)));
        assert_eq!((value("sender_copy_share"), value("receiver_copy_share")), (Some(0.2), Some(0.5)));
        assert_eq!((value("receive_skb"), value("nothing")), (None, None));
        let columns =
            ["sender_percent", "receiver_percent", "receiver_tcpip_share", "gbps_per_receiver_core"];
        assert!(columns.iter().all(|column| value(column).is_some()));
    }
}
