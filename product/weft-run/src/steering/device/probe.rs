//! Trial insertion: drivers do not report which rules they accept, so rules are inserted and deleted again. They match
//! documentation addresses, to which no host sends.

use super::apply::ChangeRefused;
use super::{Device, testbed};
use crate::steering::ntuple::to_rx_rule;
use weft_packet::{Field, HeaderMatch, Prefix};
use weft_steer::nic::{Interface, Nic, TableId};
use weft_steer::{Action, Rule};
use weft_units::{Protocol, RxQueueId};

/// A trial of a rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Probe {
    /// The table in the model.
    pub table: TableId,
    /// The description of the rule.
    pub what: String,
    /// Whether the model accepts the rule.
    pub expected: bool,
    /// The driver's refusal; `None` when it accepted the rule.
    pub refusal: Option<String>,
    /// The fields that the rule tests, from which a model can be refined.
    pub headers: HeaderMatch,
}

/// The result of a probe.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProbeReport {
    /// All trials, in order.
    pub probes: Vec<Probe>,
    /// Rules that were inserted and could not be deleted: their locations, and the reasons.
    pub left: Vec<(u32, String)>,
}

impl Probe {
    /// Whether model and driver agree.
    pub const fn agrees(&self) -> bool {
        self.expected == self.refusal.is_none()
    }
}

/// Tries the kinds of rules that ntuple tables may have. Existing rules stay. Trial rules are inserted at the end of
/// the table, one at a time, except two at once that detect a mask shared by all rules.
pub fn probe(nic: &Nic, device: &mut impl Device) -> ProbeReport {
    let mut report = ProbeReport::default();
    for (table, model) in nic.tables().filter(|(_, table)| table.interface == Interface::Ntuple) {
        let last = model.capacity.saturating_sub(1);
        for (what, headers) in shapes() {
            let rule =
                Rule { table, headers, priority: model.priorities.0, action: Action::Queue(RxQueueId(0)) };
            let expected = model.takes(&rule).is_ok();
            let refusal =
                try_rule(device, &rule, last, &mut report.left).err().map(|refusal| refusal.to_string());
            report.probes.push(Probe { table, what: what.to_owned(), expected, refusal, headers });
        }
        if let Some(probe) = two_masks(nic, table, device, last, &mut report) {
            report.probes.push(probe);
        }
    }
    report
}

/// Inserts and deletes a rule.
fn try_rule(
    device: &mut impl Device,
    rule: &Rule,
    location: u32,
    left: &mut Vec<(u32, String)>,
) -> Result<(), ChangeRefused> {
    let rule = to_rx_rule(rule, location)?;
    let at = device.insert(&rule)?;
    if let Err(error) = device.delete(at) {
        left.push((at, error.to_string()));
    }
    Ok(())
}

/// Inserts two rules with different masks at the same time.
fn two_masks(
    nic: &Nic,
    table: TableId,
    device: &mut impl Device,
    last: u32,
    report: &mut ProbeReport,
) -> Option<Probe> {
    let accepted: Vec<HeaderMatch> = report
        .probes
        .iter()
        .filter(|probe| probe.table == table && probe.refusal.is_none())
        .map(|probe| probe.headers)
        .collect();
    let first = *accepted.first()?;
    let second = *accepted.iter().find(|headers| headers.mask_only() != first.mask_only())?;
    let model = nic.table(table)?;
    let rule =
        |headers| Rule { table, headers, priority: model.priorities.0, action: Action::Queue(RxQueueId(0)) };
    let at = device.insert(&to_rx_rule(&rule(first), last).ok()?).ok()?;
    let refusal = try_rule(device, &rule(second), last.saturating_sub(1), &mut report.left)
        .err()
        .map(|refusal| refusal.to_string());
    if let Err(error) = device.delete(at) {
        report.left.push((at, error.to_string()));
    }
    let what = "two rules with different masks".to_owned();
    Some(Probe { table, what, expected: !model.one_mask, refusal, headers: second })
}

/// The kinds of rules to try.
fn shapes() -> Vec<(&'static str, HeaderMatch)> {
    let flow = |src: &str, dst: &str, protocol: Protocol| -> Option<HeaderMatch> {
        let prefix = |text: &str| text.parse::<Prefix>().ok();
        Some(
            HeaderMatch::ALL
                .prefix(Field::SrcIp, prefix(src)?)
                .prefix(Field::DstIp, prefix(dst)?)
                .exact(Field::IpProtocol, protocol.0.into())
                .exact(Field::SrcPort, 7)
                .exact(Field::DstPort, 9),
        )
    };
    let four = |protocol| flow(testbed::SOURCE4, testbed::DESTINATION4, protocol).unwrap_or_default();
    let six = |protocol| flow(testbed::SOURCE6, testbed::DESTINATION6, protocol).unwrap_or_default();
    let tcp = four(Protocol::TCP);
    let net = |field| {
        let (value, _) = tcp.get(field);
        tcp.with(field, value & 0xffff_ff00, 0xffff_ff00)
    };
    vec![
        ("TCP over IPv4, five-tuple", tcp),
        ("UDP over IPv4, five-tuple", four(Protocol::UDP)),
        ("SCTP over IPv4, five-tuple", four(Protocol::SCTP)),
        ("TCP over IPv6, five-tuple", six(Protocol::TCP)),
        ("UDP over IPv6, five-tuple", six(Protocol::UDP)),
        (
            "TCP, destination port only",
            tcp.without(Field::SrcIp).without(Field::DstIp).without(Field::SrcPort),
        ),
        ("TCP, destination address and port", tcp.without(Field::SrcIp).without(Field::SrcPort)),
        (
            "TCP, source address only",
            tcp.without(Field::DstIp).without(Field::SrcPort).without(Field::DstPort),
        ),
        ("TCP, source network", net(Field::SrcIp)),
        ("TCP, destination network", net(Field::DstIp)),
        ("TCP, ports under a mask", tcp.with(Field::DstPort, 8, 0xfff8)),
        (
            "IPv4 addresses without ports",
            tcp.without(Field::IpProtocol).without(Field::SrcPort).without(Field::DstPort),
        ),
        ("TCP and a VLAN", tcp.with(Field::Vlan, 7, 0xfff)),
        // Local Experimental Ethertype 1 (IEEE 802).
        ("an Ethernet type", HeaderMatch::ALL.exact(Field::EtherType, 0x88b5)),
        ("a destination MAC address", HeaderMatch::ALL.exact(Field::DstMac, 0x0200_0000_0001)),
    ]
}

/// The model refined by the driver's answers. Tables that accept no rule hold none, and refused masks are removed. IPv6
/// and other protocols are removed where only IPv4 was accepted. A shared mask is stated where two were refused.
#[must_use]
pub fn refine(nic: &Nic, report: &ProbeReport) -> Nic {
    let mut nic = nic.clone();
    for index in 0..nic.tables.len() {
        let id = TableId(index as u16);
        let probes: Vec<&Probe> = report.probes.iter().filter(|probe| probe.table == id).collect();
        if probes.is_empty() {
            continue;
        }
        let table = &mut nic.tables[index];
        let taken = |what: &str| probes.iter().find(|probe| probe.what == what).map(|p| p.refusal.is_none());
        if probes.iter().all(|probe| probe.refusal.is_some()) {
            table.capacity = 0;
            continue;
        }
        if taken("two rules with different masks") == Some(false) {
            table.one_mask = true;
        }
        for (what, field) in
            [("TCP, source network", Field::SrcIp), ("TCP, destination network", Field::DstIp)]
        {
            if taken(what) == Some(false) {
                exact(table, field);
            }
        }
        if taken("TCP, ports under a mask") == Some(false) {
            exact(table, Field::SrcPort);
            exact(table, Field::DstPort);
        }
        if taken("TCP and a VLAN") == Some(false) {
            table.fields.retain(|support| support.field != Field::Vlan);
        }
        if taken("TCP over IPv6, five-tuple") == Some(false)
            && taken("TCP over IPv4, five-tuple") == Some(true)
        {
            table.within = vec![
                HeaderMatch::ALL.exact(Field::EtherType, weft_packet::header_match::ETHER_TYPE_IPV4.into()),
            ];
        }
    }
    nic
}

fn exact(table: &mut weft_steer::nic::Table, field: Field) {
    for support in table.fields.iter_mut().filter(|support| support.field == field) {
        support.masks = weft_steer::nic::Masks::Exact;
    }
}
