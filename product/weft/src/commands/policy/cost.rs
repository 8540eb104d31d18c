//! `weft policy cost`: the price of a policy.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use weft_cli::failure::Reported;
use weft_cli::output::{self, OutputTarget};
use weft_cli::policy_file::PolicyText;
use weft_facts::policy_cost::{OrderPrice, PartPrice, PolicyCostReport, PolicyPrice, ProfilePrice};
use weft_facts::record::Document;
use weft_policy::algorithm::Place;
use weft_policy::cost::{OrderCost, PolicyCost, Profile};
use weft_policy::{Diagnostic, Source, price_with};
use weft_rank::Part;
use weft_run::host_facts;
use weft_run::tenant_files::Beside;

/// Print the price of a policy: the orders that a packet passes, operations and state of algorithms; refuse it for a profile.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft policy cost my.weft
  weft policy cost my.weft --profile loom-1ghz --json -

A profile that cannot run the policy refuses it: exit code 1, with the term that costs most, its place and a cure.")]
pub(crate) struct Args {
    /// The policy.
    file: PathBuf,
    /// A place of execution that is to run the policy.
    #[arg(long, value_name = "PROFILE")]
    profile: Vec<Wanted>,
    /// Write the price to a file as JSON (`-` for standard output).
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A place of execution, as a value of the option.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Wanted {
    /// The software NIC: anything, at a price in nanoseconds.
    Software,
    /// Loom's NIC at 1 GHz, 64-byte frames at 100 Gb/s.
    #[value(name = "loom-1ghz")]
    Loom1Ghz,
    /// A qdisc in eBPF.
    Kernel,
}

impl From<Wanted> for Profile {
    fn from(wanted: Wanted) -> Self {
        match wanted {
            Wanted::Software => Self::Software,
            Wanted::Loom1Ghz => Self::Loom1Ghz,
            Wanted::Kernel => Self::Kernel,
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let json = OutputTarget::open(args.json.as_deref())?;
    let text = PolicyText::read(&args.file)?;
    let profiles: Vec<Profile> = args.profile.iter().copied().map(Profile::from).collect();
    let source = Source { name: &text.name, text: &text.text };
    let (cost, compilation) = price_with(source, &Beside, &profiles);
    let diagnostics = &compilation.diagnostics;
    if let Some(cost) = cost.as_ref().filter(|_| !json.is_stdout()) {
        output::print(&cost.to_string())?;
    }
    if !diagnostics.is_empty() {
        let pretty = std::io::stderr().is_terminal();
        output::message(text.diagnostics(&compilation, pretty, output::stderr_style()).trim_end());
    }
    json.write_json(&report(&text.name, cost.as_ref(), diagnostics)?)?;
    if diagnostics.iter().any(Diagnostic::is_error) {
        return Err(Reported.into());
    }
    Ok(ExitCode::SUCCESS)
}

fn report(
    file: &str,
    cost: Option<&PolicyCost>,
    diagnostics: &[Diagnostic],
) -> anyhow::Result<PolicyCostReport> {
    let priced = Profile::ALL.into_iter().filter_map(|profile| {
        let (price, over) = (profile.price(cost?), profile.over(cost?));
        Some(ProfilePrice {
            profile: profile.name().to_owned(),
            packet_seconds: price.map(|price| price.nanos / 1e9),
            budget_seconds: price.and_then(|price| price.budget).map(|budget| budget / 1e9),
            fits: over.is_empty(),
            over,
        })
    });
    Ok(PolicyCostReport {
        schema: PolicyCostReport::SCHEMA.to_owned(),
        host: host_facts::detect(),
        file: file.to_owned(),
        cost: cost.map(policy_price),
        profiles: priced.collect(),
        diagnostics: diagnostics.iter().map(Diagnostic::stated).collect(),
    })
}

fn policy_price(cost: &PolicyCost) -> PolicyPrice {
    PolicyPrice {
        depth: cost.depth,
        deepest: cost.deepest.clone(),
        operations: cost.operations,
        state_bytes: cost.state_bytes(),
        flow_bytes: cost.flow_bytes(),
        held: cost.held,
        limits: cost.limits,
        orders: cost.orders.iter().map(order_price).collect(),
    }
}

fn order_price(order: &OrderCost) -> OrderPrice {
    let parts = Part::ALL.into_iter().filter(|part| order.cost.of(*part) > 0);
    OrderPrice {
        node: order.name.clone(),
        algorithm: order.algorithm.clone(),
        native: order.native,
        children: (order.place == Place::Children).then_some(order.children),
        level: order.level,
        parts: parts
            .map(|part| PartPrice { part: part.name().to_owned(), operations: order.cost.of(part) })
            .collect(),
        node_bytes: order.cost.node_bytes,
        child_bytes: order.cost.child_bytes,
        needs: order.needs.to_string(),
    }
}
