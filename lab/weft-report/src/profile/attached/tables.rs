//! The tables of an attached profile: the processors, the network stack by category, tasks, classes, devices.

use super::{AttachedReport, Device, Direction, PolicyUse, Row, RowKind, SubjectKind};
use crate::profile::{Category, Latency, SkbSizes};
use weft_facts::human;
use weft_facts::table::{Cell, Column, Table, Tone};

/// All tables.
pub(super) fn tables(report: &AttachedReport) -> Vec<Table> {
    let mut all = vec![processors(report), network(report), tasks(report)];
    all.extend(report.policies.iter().map(|policy| classes(report, policy)));
    all.extend([devices(report), packets(report)]);
    all
}

/// A table whose first column is of names and whose others are of figures.
fn figures(title: impl Into<String>, name: &str, others: &[&str]) -> Table {
    let others = others.iter().map(|name| Column::right(*name));
    Table::new(title).columns([Column::left(name)].into_iter().chain(others))
}

fn cores(report: &AttachedReport, seconds: f64) -> String {
    format!("{:.3}", report.cores(seconds))
}

/// Processors in use, and what the profiler cost.
fn processors(report: &AttachedReport) -> Table {
    let title = format!(
        "Attached for {}: {}; processors in use, of {}",
        human::time(report.span_s),
        report.subject.described(),
        report.processors
    );
    let columns = ["user", "system", "softirq", "idle", "network stack", "tool costs", "probes", "lost"];
    let mut table = figures(title, "host", &columns);
    let used = report.utilisation;
    let idle = (f64::from(report.processors) - used.total()).max(0.0);
    let text = |cores: f64| format!("{cores:.3}");
    table.row([
        report.host.kernel.clone(),
        text(used.user),
        text(used.system),
        text(used.softirq),
        text(idle),
        cores(report, report.in_network_s()),
        human::percent(report.tool.processor),
        human::or_none(report.tool.probes, human::percent),
        human::count(report.lost_samples),
    ]);
    table.note(
        "Mode: attached. No traffic and no namespace of the profiler's own; whatever ran is the subject, so nothing is foreign.",
    );
    table.note(format!(
        "Clock: {} at {} Hz; table of categories {}. Costs are shares of all processors' time.",
        report.conditions.clock, report.conditions.sample_hz, report.conditions.categories
    ));
    for label in &report.labels {
        table.note(label.clone());
    }
    table
}

/// The network stack's time by direction and category.
fn network(report: &AttachedReport) -> Table {
    let title = format!("Kernel time in the network stack, %, by category ({})", report.conditions.clock);
    let names = Category::ALL.map(Category::title);
    let columns = [&["cores"][..], &names, &["ns per byte"]].concat();
    let mut table = figures(title, "direction", &columns);
    for direction in Direction::ALL {
        let Some(time) = report.network_s.get(&direction) else { continue };
        let all: f64 = time.values().sum();
        let share = |category| {
            let part = time.get(&category).copied().unwrap_or(0.0);
            Cell::plain(if all > 0.0 { format!("{:.1}", part / all * 100.0) } else { human::NONE.to_owned() })
        };
        let per_byte = report.ns_per_byte.get(&direction).map(|figures| figures.values().sum::<f64>());
        let row = [Cell::plain(direction.title()), cores(report, all).into()]
            .into_iter()
            .chain(Category::ALL.map(share))
            .chain([human::or_none(per_byte, |ns| format!("{ns:.3}")).into()]);
        table.row(row);
    }
    table.note(format!(
        "Innermost functions that the table of categories does not have: {} of this time.",
        human::percent(report.leaf_unmapped)
    ));
    table
}

/// The tasks.
fn tasks(report: &AttachedReport) -> Table {
    let columns = ["pid", "user", "kernel", "transmit", "receive", "not told apart", "of the network stack"];
    let mut table =
        figures("Processors in use by task; in the kernel's network stack by direction", "task", &columns);
    let all = report.rows.iter().fold(0.0, |all, row| all + row.time.in_network_s());
    for row in &report.rows {
        let network = |direction| Cell::plain(cores(report, row.time.direction_s(direction)));
        let share =
            if all > 0.0 { human::percent(row.time.in_network_s() / all) } else { human::NONE.to_owned() };
        let cells = [
            Cell::toned(named(row), if row.kind == RowKind::Rest { Tone::Dim } else { Tone::Plain }),
            human::or_none(row.pid, |pid| pid.to_string()).into(),
            cores(report, row.time.user_s).into(),
            cores(report, row.time.kernel_s).into(),
        ];
        let shared = [Cell::plain(share)];
        table.row(cells.into_iter().chain(Direction::ALL.map(network)).chain(shared));
    }
    table.note("Softirqs run on anybody's time and work for anybody: their time is no process's.");
    table
}

fn named(row: &Row) -> String {
    match row.kind {
        RowKind::Weft => format!("{} (weft)", row.name),
        RowKind::Tool => format!("{} (this profiler)", row.name),
        _ => row.name.clone(),
    }
}

/// The classes of a policy, and the time that cannot be assigned to one.
fn classes(report: &AttachedReport, policy: &PolicyUse) -> Table {
    let uplink = policy.uplink.as_ref().map_or_else(String::new, |name| format!(" of uplink {name}"));
    let title = format!("Classes of policy {} (generation {}){uplink}", policy.policy, policy.generation);
    let columns = ["packets", "bytes", "rate", "processes", "cores", "network stack"];
    let mut table = figures(title, "class", &columns);
    for class in &policy.classes {
        let told = |text: String| if class.processes > 0 { text } else { human::NONE.to_owned() };
        let rate = if report.span_s > 0.0 { class.bytes as f64 * 8.0 / report.span_s } else { 0.0 };
        table.row([
            class.class.clone(),
            human::count(class.packets),
            human::bytes(class.bytes as f64),
            human::rate(rate),
            told(class.processes.to_string()),
            told(cores(report, class.processor_s)),
            told(cores(report, class.network_s)),
        ]);
    }
    let none = || human::NONE.to_owned();
    for (name, seconds) in [
        ("not told apart: several classes may take the packets", policy.not_told_apart_s),
        ("processes in namespaces without a port", policy.without_port_s),
    ] {
        table.row([name.to_owned(), none(), none(), none(), none(), none(), cores(report, seconds)]);
    }
    table.note("Processor time belongs to a class if the policy gives it all packets of the process, by cgroup, user and port.");
    table
}

/// The devices of this namespace.
fn devices(report: &AttachedReport) -> Table {
    let title = "Devices of this network namespace";
    let mut table = figures(title, "device", &["sent", "packets", "received", "packets", "counted"]);
    for Device { device, counted, moved } in &report.devices {
        table.row([
            device.clone(),
            human::bytes(moved.tx_bytes as f64),
            human::count(moved.tx_packets),
            human::bytes(moved.rx_bytes as f64),
            human::count(moved.rx_packets),
            if *counted { "yes" } else { "no" }.to_owned(),
        ]);
    }
    table.note(
        "Nanoseconds per byte divide by the bytes of counted devices: --device, or hardware, or all but lo.",
    );
    if report.subject.kind == SubjectKind::Device {
        table.note("Samples name no device: processor time is that of the whole network stack.");
    }
    table
}

/// Sizes, latency and retransmissions.
fn packets(report: &AttachedReport) -> Table {
    let columns = ["skb kB before GRO", "after GRO", "transmitted", "copies", "p50", "p99", "retransmitted"];
    let mut table =
        figures("Mean sizes, and latency from the stack's entry to the copy", "packets", &columns);
    let size = |of: fn(&SkbSizes) -> Option<f64>| {
        human::or_none(report.skb_bytes.as_ref().and_then(of), |bytes| format!("{:.1}", bytes / 1e3))
    };
    let latency =
        |figure: fn(&Latency) -> f64| human::or_none(report.latency_s.as_ref().map(figure), human::time);
    table.row([
        report.subject.kind.name().to_owned(),
        size(|sizes| sizes.before_gro.mean),
        size(|sizes| sizes.after_gro.mean),
        size(|sizes| sizes.transmit.mean),
        size(|sizes| sizes.copies.mean),
        latency(|l| l.p50),
        latency(|l| l.p99),
        human::count(report.retransmitted),
    ]);
    table
}
