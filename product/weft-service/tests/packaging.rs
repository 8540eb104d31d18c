//! The files of `packaging/`: the names in them exist, and the unit is as closed as is promised.

use std::path::PathBuf;
use std::process::Command;
use weft_facts::status::{Histogram, ServiceStatus, StatusClass, StatusPort};
use weft_host::testing::has_program;

/// The most that `systemd-analyze security` may say of the unit.
const EXPOSURE_MAX: f64 = 4.0;

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(name)
}

fn text(name: &str) -> String {
    std::fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn the_unit_is_closed_enough() {
    if !has_program("the_unit_is_closed_enough", "systemd-analyze") {
        return;
    }
    let mut command = Command::new("systemd-analyze");
    command.args(["security", "--offline=true", "--no-pager"]).arg(path("systemd/weft.service"));
    let output = command.output().expect("systemd-analyze");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let level = said.lines().find_map(|line| line.split("exposure level for weft.service: ").nth(1));
    let level = level.and_then(|rest| rest.split(' ').next()?.parse::<f64>().ok());
    assert!(level.is_some_and(|level| level < EXPOSURE_MAX), "{said}");
}

#[test]
fn socket_unit_group_and_action_are_those_of_the_daemon() {
    let socket = text("systemd/weft.socket");
    assert!(socket.contains(&format!("ListenStream={}\n", weft_control::SOCKET)), "{socket}");
    assert!(socket.contains("FileDescriptorName=control\n") && socket.contains("SocketMode=0660\n"));
    let group = weft_service::config::GROUP;
    assert!(socket.contains(&format!("SocketGroup={group}\n")));
    assert!(text("sysusers.d/weft.conf").contains(&format!("g {group} -")));
    assert!(
        text("polkit/io.weft.policy").contains(&format!("<action id=\"{}\">", weft_service::access::ACTION))
    );
    assert!(text("systemd/weft.service").contains("ExecStart=/usr/bin/weft daemon\n"));
    assert!(text("openrc/weft").contains("command_args=\"daemon\""));
}

#[test]
fn the_dashboard_shows_metrics_that_exist() {
    let dashboard = text("grafana/weft.json");
    let mut class = StatusClass { entitled_bps: Some(1.0), ..StatusClass::default() };
    class.dropped.bound = weft_units::Packets(1);
    class.sojourn_histogram = Some(Histogram { counts: vec![1], ..Histogram::default() });
    let status = ServiceStatus {
        classes: vec![class],
        ports: vec![StatusPort::default()],
        ..ServiceStatus::default()
    };
    let metrics = weft_service::metrics::text(&status);
    let names = dashboard.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let missing: Vec<&str> =
        names.filter(|name| name.starts_with("weft_") && !metrics.contains(name)).collect();
    assert!(dashboard.contains("weft_class_sent_bytes_total") && missing.is_empty(), "{missing:?}");
}
