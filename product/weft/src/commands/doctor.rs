//! `weft doctor`: the facilities of this host.

use super::titan::namespace;
use std::path::PathBuf;
use std::process::ExitCode;
use weft_cli::output::{self, OutputTarget};
use weft_facts::doctor::{DoctorReport, Facility, FacilityState};
use weft_facts::human;
use weft_facts::record::Document;
use weft_facts::table::{Cell, Column, Table, Tone};
use weft_host::doctor::{State, survey};
use weft_run::{host_facts, kernel};

/// Report the facilities of this host, the use of each missing one, and the way to get it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft doctor
  weft doctor eth0                  is eth0 fit for a policy in the kernel?
  weft doctor --json - | jq '.facilities[] | select(.state == \"missing\")'")]
pub(crate) struct Args {
    /// An interface that is to have a policy in the kernel.
    #[arg(value_name = "DEV")]
    device: Option<String>,
    /// Its network namespace, as `ip netns` names it [default: this one]
    #[arg(long, value_name = "NAME", requires = "device")]
    netns: Option<String>,
    /// Write the findings to a file as JSON (`-` for standard output).
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let json = OutputTarget::open(args.json.as_deref())?;
    let found = match &args.device {
        Some(device) => kernel::survey(&namespace(args.netns.as_ref())?, device)?,
        None => [survey(), weft_titan::kernel_support::survey(), weft_service::doctor::survey()].concat(),
    };
    let facilities = found.into_iter().map(facility).collect();
    let report =
        DoctorReport { schema: DoctorReport::SCHEMA.to_owned(), host: host_facts::detect(), facilities };
    if !json.is_stdout() {
        if let Some(device) = &args.device {
            output::print(&verdict(device, &report))?;
        }
        output::tables(&tables(&report), &json)?;
    }
    json.write_json(&report)?;
    Ok(ExitCode::SUCCESS)
}

/// The verdict about an interface, before its reasons.
fn verdict(device: &str, report: &DoctorReport) -> String {
    let ready = |id: &str| report.facilities.iter().any(|f| f.id == id && f.state == FacilityState::Ready);
    let or = |id, yes: &str, no: &str| if ready(id) { yes.to_owned() } else { no.to_owned() };
    if !ready("device.kernel") {
        return format!("{device} cannot have a policy in the kernel.\n");
    }
    format!(
        "{device} can have a policy in the kernel, with {}, {} and {}.\n",
        or("device.weights", "exact weights", "weights by HTB"),
        or("device.fairness", "fair flows", "a FIFO for each class"),
        or("device.times", "limits by destination", "no limits by destination"),
    )
}

fn facility(found: weft_host::doctor::Facility) -> Facility {
    let (state, detail) = match found.state {
        State::Present(text) => (FacilityState::Ready, text),
        State::Limited(text) => (FacilityState::Limited, text),
        State::Missing(text) => (FacilityState::Missing, text),
    };
    let remedy = (state != FacilityState::Ready && !found.remedy.is_empty()).then(|| found.remedy.to_owned());
    Facility {
        id: found.id.to_owned(),
        title: found.title.to_owned(),
        state,
        detail,
        brings: found.brings.to_owned(),
        remedy,
    }
}

/// Builds the tables: first available facilities, then missing ones, so that lines fit a narrow terminal.
fn tables(report: &DoctorReport) -> Vec<Table> {
    let host = format!("This host: Linux {}, {} cores", report.host.kernel, report.host.cores);
    let mut all = Table::new(host).columns(["state", "facility", "brings"].map(Column::left));
    let mut lacking =
        Table::new("Missing or limited").columns(["facility", "why", "remedy"].map(Column::left));
    for f in &report.facilities {
        let tone = match f.state {
            FacilityState::Ready => Tone::Good,
            FacilityState::Missing => Tone::Bad,
            FacilityState::Limited | FacilityState::Unknown => Tone::Plain,
        };
        let state = Cell::toned(f.state.name(), tone);
        all.row([state, f.title.as_str().into(), f.brings.as_str().into()]);
        if f.state != FacilityState::Ready {
            let remedy = f.remedy.as_deref().unwrap_or(human::NONE);
            lacking.row([f.title.as_str(), f.detail.as_str(), remedy]);
        }
    }
    if lacking.is_empty() {
        all.note("Nothing is missing.");
        return vec![all];
    }
    vec![all, lacking]
}
