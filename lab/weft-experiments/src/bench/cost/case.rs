//! The cases: load, link and policy, variants, and the bounds of their ratios.

use super::error::CostError;
use super::ports::PortCount;
use weft_policy::{CompileOptions, CompiledPolicy, Source, compile};
use weft_report::bench::cost::{BoundRank, Figure, RatioBound, Requirement, Variant};
use weft_units::{BitsPerSec, Nanos};

/// The TCP port of the requests' server, which the policies use to classify.
pub(super) const REQUEST_PORT: u16 = 7000;
/// A rate that no machine reaches, so that the link never limits.
const UNLIMITED: BitsPerSec = BitsPerSec(100_000_000_000);
/// The measured time of a round in which processor time decides: the kernel counts idle time in 10 ms.
const LONG: Nanos = Nanos::from_secs(3);
/// The measured time of other rounds: 2000 requests, or some gigabytes.
const SHORT: Nanos = Nanos::from_secs(2);

/// The most that a policy in the kernel costs beside a tree made by hand, and the most of its round trips.
const KERNEL_COST: f64 = 1.05;
const KERNEL_LATENCY: f64 = 1.2;
/// The most that idle ports may add to the cost of the busy ones: cost does not grow with ports.
const IDLE_PORTS_COST: f64 = 1.05;

/// A case of the benchmark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CostCase {
    /// Cost of 8 bulk flows at 1 Gb/s.
    Flows8At1G,
    /// Cost of 8 bulk flows at 3 Gb/s.
    Flows8At3G,
    /// Cost of 340 bulk flows at 500 Mb/s.
    Flows340At500M,
    /// Requests of the top priority class beside 8 bulk flows at 1 Gb/s.
    Priority1G,
    /// Requests of the top priority class beside 8 bulk flows at 3 Gb/s.
    Priority3G,
    /// Requests of the top priority class beside 340 bulk flows at 500 Mb/s.
    Priority340,
    /// Requests of a WFQ class below its share beside 8 bulk flows at 1 Gb/s.
    Wfq1G,
    /// Requests of a WFQ class below its share beside 8 bulk flows at 3 Gb/s.
    Wfq3G,
    /// Requests of a WFQ class below its share beside 340 bulk flows at 500 Mb/s.
    Wfq340,
    /// Requests to a web server at a port whose link of 1 Gb/s is idle otherwise.
    Web1G,
    /// Requests to a web server of the top priority class beside 8 bulk flows at 1 Gb/s.
    WebBeside8At1G,
    /// Cost and throughput of 8 flows from the network to the port.
    ReceiveInbound,
    /// Throughput of 4 flows from the port, without a limit.
    Port4Flows,
}

/// The direction of the bulk flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Direction {
    /// From the port to the network.
    Outbound,
    /// From the network to the port.
    Inbound,
}

/// The sharing between requests and bulk flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sharing {
    /// Requests above bulk.
    Priority,
    /// Equal weights.
    Wfq,
}

impl CostCase {
    /// All cases, in the order in which they run.
    pub const ALL: [Self; 13] = [
        Self::Flows8At1G,
        Self::Flows8At3G,
        Self::Flows340At500M,
        Self::Priority1G,
        Self::Priority3G,
        Self::Priority340,
        Self::Wfq1G,
        Self::Wfq3G,
        Self::Wfq340,
        Self::Web1G,
        Self::WebBeside8At1G,
        Self::ReceiveInbound,
        Self::Port4Flows,
    ];

    /// The case's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Flows8At1G => "cost-8-flows-1g",
            Self::Flows8At3G => "cost-8-flows-3g",
            Self::Flows340At500M => "cost-340-flows-500m",
            Self::Priority1G => "latency-priority-1g",
            Self::Priority3G => "latency-priority-3g",
            Self::Priority340 => "latency-priority-340-flows-500m",
            Self::Wfq1G => "latency-wfq-1g",
            Self::Wfq3G => "latency-wfq-3g",
            Self::Wfq340 => "latency-wfq-340-flows-500m",
            Self::Web1G => "latency-web-1g",
            Self::WebBeside8At1G => "latency-web-8-flows-1g",
            Self::ReceiveInbound => "receive-inbound",
            Self::Port4Flows => "port-4-flows",
        }
    }

    /// The load, for a list of cases.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Flows8At1G => "Cost of 8 bulk flows at 1 Gb/s",
            Self::Flows8At3G => "Cost of 8 bulk flows at 3 Gb/s",
            Self::Flows340At500M => "Cost of 340 bulk flows at 500 Mb/s",
            Self::Priority1G => "Small requests above 8 bulk flows at 1 Gb/s",
            Self::Priority3G => "Small requests above 8 bulk flows at 3 Gb/s",
            Self::Priority340 => "Small requests above 340 bulk flows at 500 Mb/s",
            Self::Wfq1G => "Small requests of equal weight beside 8 bulk flows at 1 Gb/s",
            Self::Wfq3G => "Small requests of equal weight beside 8 bulk flows at 3 Gb/s",
            Self::Wfq340 => "Small requests of equal weight beside 340 bulk flows at 500 Mb/s",
            Self::Web1G => "A page of 5 kB of nginx over 4 connections at an idle link of 1 Gb/s",
            Self::WebBeside8At1G => "The same page above 8 bulk flows at 1 Gb/s",
            Self::ReceiveInbound => "8 flows from the network to the port",
            Self::Port4Flows => "4 flows from the port, without a limit",
        }
    }

    /// The number of bulk flows.
    pub(super) const fn flows(self) -> u32 {
        match self {
            Self::Flows340At500M | Self::Priority340 | Self::Wfq340 => 340,
            Self::Web1G => 0,
            Self::Port4Flows => 4,
            _ => 8,
        }
    }

    /// Whether a web server answers requests.
    pub(super) const fn has_web_server(self) -> bool {
        matches!(self, Self::Web1G | Self::WebBeside8At1G)
    }

    /// The programs that only this case needs.
    pub(super) const fn programs(self) -> &'static [&'static str] {
        if self.has_web_server() { &["nginx", "wrk", "tc"] } else { &[] }
    }

    /// The rate of the link; `None` if it never limits.
    pub(super) const fn link(self) -> Option<BitsPerSec> {
        match self {
            Self::Flows8At1G | Self::Priority1G | Self::Wfq1G | Self::Web1G | Self::WebBeside8At1G => {
                Some(BitsPerSec(1_000_000_000))
            }
            Self::Flows8At3G | Self::Priority3G | Self::Wfq3G => Some(BitsPerSec(3_000_000_000)),
            Self::Flows340At500M | Self::Priority340 | Self::Wfq340 => Some(BitsPerSec(500_000_000)),
            Self::ReceiveInbound | Self::Port4Flows => None,
        }
    }

    /// The configured rate.
    pub(super) fn rate(self) -> BitsPerSec {
        self.link().unwrap_or(UNLIMITED)
    }

    /// Whether requests run beside the bulk flows.
    pub(super) const fn has_requests(self) -> bool {
        matches!(
            self,
            Self::Priority1G
                | Self::Priority3G
                | Self::Priority340
                | Self::Wfq1G
                | Self::Wfq3G
                | Self::Wfq340
        )
    }

    pub(super) const fn sharing(self) -> Sharing {
        match self {
            Self::Wfq1G | Self::Wfq3G | Self::Wfq340 => Sharing::Wfq,
            _ => Sharing::Priority,
        }
    }

    pub(super) const fn direction(self) -> Direction {
        if matches!(self, Self::ReceiveInbound) { Direction::Inbound } else { Direction::Outbound }
    }

    /// Whether the cost is divided into parts, with the eBPF programs measured in a separate round.
    pub(super) const fn has_parts(self) -> bool {
        matches!(self, Self::Flows8At1G | Self::Flows8At3G | Self::Flows340At500M)
    }

    /// The measured time of a round.
    pub(super) const fn span(self) -> Nanos {
        if self.has_parts() { LONG } else { SHORT }
    }

    /// The variants of a round, for a session with this number of ports.
    pub(super) fn variants(self, ports: PortCount) -> Vec<Variant> {
        use Variant::{Busy, Forwarder, Htb, Kernel, Ours, Redirect};
        match self {
            _ if ports.has_idle() => vec![Busy, Ours],
            Self::ReceiveInbound => vec![Redirect, Ours],
            Self::Port4Flows => vec![Forwarder, Ours],
            _ if self.has_web_server() || self.has_requests() => vec![Htb, Ours, Kernel],
            _ => vec![Htb, Ours, Kernel, Forwarder],
        }
    }

    /// The variant of the main ratio.
    pub(super) const fn peer(self, ports: PortCount) -> Variant {
        match self {
            _ if ports.has_idle() => Variant::Busy,
            Self::ReceiveInbound => Variant::Redirect,
            Self::Port4Flows => Variant::Forwarder,
            _ => Variant::Htb,
        }
    }

    /// The comparisons and their bounds; the first is the main ratio.
    pub(super) fn requirements(self, ports: PortCount) -> Vec<Requirement> {
        use Figure::{Cores, P50, P99, Requests, Throughput};
        let wanted = |figure, to, bound| Requirement {
            figure,
            of: Variant::Ours,
            to,
            bound,
            rank: BoundRank::Required,
        };
        let kernel = |figure, to, bound| Requirement { of: Variant::Kernel, ..wanted(figure, to, bound) };
        let aim = |figure, to, bound| Requirement { rank: BoundRank::Aim, ..wanted(figure, to, bound) };
        match self {
            _ if ports.has_idle() => {
                let mut all = vec![wanted(Cores, Variant::Busy, RatioBound::AtMost(IDLE_PORTS_COST))];
                let others = match self {
                    _ if self.has_web_server() => &[P50, P99, Requests][..],
                    _ if self.has_requests() => &[P50, P99],
                    _ => &[Throughput],
                };
                all.extend(others.iter().map(|figure| aim(*figure, Variant::Busy, RatioBound::None)));
                all
            }
            Self::ReceiveInbound => vec![
                wanted(Cores, Variant::Redirect, RatioBound::AtMost(1.3)),
                wanted(Throughput, Variant::Redirect, RatioBound::None),
            ],
            Self::Port4Flows => vec![
                wanted(Cores, Variant::Forwarder, RatioBound::AtMost(1.2)),
                wanted(Throughput, Variant::Forwarder, RatioBound::None),
            ],
            _ if self.has_web_server() => vec![
                wanted(P99, Variant::Htb, RatioBound::AtMost(1.5)),
                aim(P50, Variant::Htb, RatioBound::AtMost(1.5)),
                aim(Requests, Variant::Htb, RatioBound::AtLeast(0.9)),
                kernel(P99, Variant::Htb, RatioBound::AtMost(KERNEL_LATENCY)),
                kernel(P50, Variant::Htb, RatioBound::AtMost(KERNEL_LATENCY)),
            ],
            _ if self.has_requests() => vec![
                wanted(P99, Variant::Htb, RatioBound::AtMost(2.0)),
                wanted(P50, Variant::Htb, RatioBound::AtMost(2.0)),
                kernel(P99, Variant::Htb, RatioBound::AtMost(KERNEL_LATENCY)),
                kernel(P50, Variant::Htb, RatioBound::AtMost(KERNEL_LATENCY)),
            ],
            _ => {
                let most = if self == Self::Flows8At1G { 1.4 } else { 1.2 };
                vec![
                    wanted(Cores, Variant::Htb, RatioBound::AtMost(most)),
                    wanted(Cores, Variant::Forwarder, RatioBound::None),
                    kernel(Cores, Variant::Htb, RatioBound::AtMost(KERNEL_COST)),
                    kernel(Cores, Variant::Ours, RatioBound::AtMost(1.0)),
                ]
            }
        }
    }

    /// The text of the policy.
    pub(super) fn text(self) -> String {
        let root = match self.sharing() {
            Sharing::Priority => "priority { requests, default }",
            Sharing::Wfq => "wfq { requests: 1, default: 1 }",
        };
        format!("class requests = tcp port {REQUEST_PORT}\nroot = {root}\n")
    }

    /// Compiles the policy.
    pub(super) fn policy(self) -> Result<CompiledPolicy, CostError> {
        let text = self.text();
        let options = CompileOptions { link: Some(self.rate()), ..CompileOptions::default() };
        let compilation = compile(Source { name: "cost", text: &text }, &options);
        let said = || compilation.diagnostics.iter().map(|d| d.one_line()).collect::<Vec<_>>().join("; ");
        compilation.policy.clone().ok_or_else(|| CostError::Policy(said()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_compile_and_names_are_unique() {
        let mut names: Vec<&str> = CostCase::ALL.map(CostCase::name).to_vec();
        for case in CostCase::ALL {
            let policy = case.policy().expect("a policy");
            assert_eq!(policy.classes.len(), 2, "{}", case.name());
            assert_eq!(policy.link, Some(case.rate()));
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), CostCase::ALL.len());
    }

    #[test]
    fn every_comparison_is_with_a_variant_that_runs_and_the_first_is_with_the_peer() {
        for (case, ports) in
            CostCase::ALL.iter().flat_map(|case| [1, 4, 64].map(|ports| (*case, PortCount(ports))))
        {
            let (variants, wanted) = (case.variants(ports), case.requirements(ports));
            assert!(variants.contains(&Variant::Ours) && wanted[0].to == case.peer(ports), "{}", case.name());
            assert_eq!(
                variants.contains(&Variant::Busy),
                ports.0 == 64,
                "idle ports have a peer without them"
            );
            assert!(
                wanted.iter().all(|w| variants.contains(&w.to) && variants.contains(&w.of)),
                "{}",
                case.name()
            );
            assert!(wanted.iter().any(|w| w.rank == BoundRank::Required && w.bound != RatioBound::None));
        }
    }
}
