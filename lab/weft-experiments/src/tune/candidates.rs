//! The candidates: what each changes, whether this host can have it, and the commands that set it.
//!
//! `experiments/tune.toml` has what a candidate changes in the scenario, with its source.

use super::host::number;
use crate::catalogue;
use std::fmt::Write as _;
use toml::Value;
use weft_host::transmit::{ByteLimits, Facts};
use weft_sim::scenario::{Origin, SourcedFile, sources};

/// The file of all candidates.
pub(super) const PARAMETERS: &str = "tune.toml";
/// The configuration that changes nothing.
pub(super) const PRESENT: &str = "present";
/// The qdiscs that candidates need.
pub const QDISCS: [&str; 4] = ["pfifo_fast", "fq_codel", "sfq", "fq"];

/// A candidate, before it is simulated.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plan {
    /// Its name, and its configuration in [`PARAMETERS`] if it is simulated.
    pub(super) name: &'static str,
    pub(super) change: &'static str,
    pub(super) commands: Vec<String>,
    /// Values that follow from the host's facts.
    pub(super) values: Vec<(&'static str, Value)>,
    /// The reason that this host cannot have it, or the simulator not judge it.
    pub(super) why_not: Option<String>,
}

/// All candidates for a host.
pub(super) fn plans(facts: &Facts) -> Vec<Plan> {
    let host = Candidates { facts, device: &facts.device };
    let mut plans = host.qdiscs();
    plans.extend(host.limits());
    plans.extend(host.segments());
    plans.extend(host.queues());
    plans.extend(host.titan());
    plans.extend(host.unmodelled());
    plans
}

/// The names of all candidates.
pub(super) fn names(facts: &Facts) -> Vec<&'static str> {
    plans(facts).iter().map(|plan| plan.name).collect()
}

/// The source of a candidate, in words; empty for one that is not in the file.
pub(super) fn source(name: &str) -> String {
    let text = catalogue::files::text(PARAMETERS).unwrap_or_default();
    let all = sources(text, PARAMETERS, SourcedFile::Parameters).unwrap_or_default();
    let key = format!("configurations.{name}");
    let found = all.into_iter().find(|source| source.keys.contains(&key));
    found.map_or_else(String::new, |source| match source.origin {
        Origin::Paper(text)
        | Origin::Kernel(text)
        | Origin::Datasheet(text)
        | Origin::Standard(text)
        | Origin::Assumed(text) => text,
        Origin::Fitted { .. } => "fitted".to_owned(),
    })
}

struct Candidates<'a> {
    facts: &'a Facts,
    device: &'a str,
}

impl Candidates<'_> {
    fn queues_in_use(&self) -> u32 {
        self.facts.transmit_queues.unwrap_or(1)
    }

    fn plan(&self, name: &'static str, change: &'static str, commands: Vec<String>) -> Plan {
        Plan { name, change, commands, values: Vec::new(), why_not: None }
    }

    /// The commands that give each queue a qdisc.
    fn each_queue(&self, qdisc: &str) -> Vec<String> {
        let (device, queues) = (self.device, self.queues_in_use());
        if queues == 1 {
            return vec![format!("tc qdisc replace dev {device} root {qdisc}")];
        }
        vec![
            format!("tc qdisc replace dev {device} root handle 1: mq"),
            format!(
                "for q in $(seq {queues}); do tc qdisc replace dev {device} parent 1:$(printf %x $q) {qdisc}; done"
            ),
        ]
    }

    /// The reason that this kernel cannot have a qdisc.
    fn lacks(&self, kind: &str) -> Option<String> {
        match self.facts.kernel_qdiscs.get(kind).copied().flatten() {
            Some(true) => None,
            Some(false) => Some(format!("this kernel has no {kind}")),
            None => Some(format!("it is unknown whether this kernel has {kind}")),
        }
    }

    fn qdiscs(&self) -> Vec<Plan> {
        let one = |name: &'static str, change, qdisc: &str, kind: &str| Plan {
            why_not: self.lacks(kind),
            ..self.plan(name, change, self.each_queue(qdisc))
        };
        vec![
            one("pfifo_fast", "a FIFO of three bands at each queue", "pfifo_fast", "pfifo_fast"),
            one("fq_codel", "fair queueing with controlled delay at each queue", "fq_codel", "fq_codel"),
            one("sfq", "stochastic fair queueing at each queue", "sfq limit 250", "sfq"),
        ]
    }

    /// The commands that fix the byte queue limits.
    fn byte_limit(&self, bytes: u32) -> Vec<String> {
        let folder = format!("/sys/class/net/{}/queues", self.device);
        let both = format!("echo {bytes} > $q/limit_max; echo {bytes} > $q/limit_min");
        vec![format!("for q in {folder}/tx-*/byte_queue_limits; do {both}; done")]
    }

    fn no_byte_limits(&self) -> Option<String> {
        match self.facts.byte_limits {
            Some(ByteLimits::Off) => Some("the driver has no byte queue limits".to_owned()),
            None => Some("it is unknown whether the driver has byte queue limits".to_owned()),
            Some(_) => None,
        }
    }

    fn no_moderation(&self) -> Option<String> {
        let missing = self.facts.moderation.is_none();
        missing.then(|| "the driver does not report the moderation of interrupts".to_owned())
    }

    fn limits(&self) -> Vec<Plan> {
        let small_queue = |bytes: u32| vec![format!("sysctl -w net.ipv4.tcp_limit_output_bytes={bytes}")];
        let interrupts = format!("ethtool -C {} rx-usecs 50 tx-usecs 50", self.device);
        let combined =
            [self.each_queue("sfq limit 250"), self.byte_limit(256 << 10), vec![interrupts.clone()]];
        let limited = |name, change, bytes| Plan {
            why_not: self.no_byte_limits(),
            ..self.plan(name, change, self.byte_limit(bytes))
        };
        vec![
            self.plan("tsq-256k", "at most 256 KiB of a flow below TCP", small_queue(256 << 10)),
            self.plan("tsq-128k", "at most 128 KiB of a flow below TCP", small_queue(128 << 10)),
            limited("bql-256k", "byte queue limits fixed at 256 KiB", 256 << 10),
            limited("bql-64k", "byte queue limits fixed at 64 KiB", 64 << 10),
            Plan {
                why_not: self.no_moderation(),
                ..self.plan("interrupts-50us", "20,000 interrupts a second and queue", vec![interrupts])
            },
            Plan {
                why_not: self.lacks("sfq").or_else(|| self.no_byte_limits()).or_else(|| self.no_moderation()),
                ..self.plan("sfq-bql-interrupts", "sfq, bql-256k and interrupts-50us", combined.concat())
            },
        ]
    }

    fn segments(&self) -> Vec<Plan> {
        let device = self.device;
        let size = |bytes: u32| {
            vec![format!("ip link set dev {device} gso_max_size {bytes} gso_ipv4_max_size {bytes}")]
        };
        vec![
            self.plan("segment-32k", "segments of at most 32 KiB", size(32 << 10)),
            self.plan("segment-16k", "segments of at most 16 KiB", size(16 << 10)),
            self.plan("no-tso", "the stack cuts segments", vec![format!("ethtool -K {device} tso off")]),
        ]
    }

    /// The reason that flows cannot be moved between queues.
    fn one_queue(&self) -> Option<String> {
        (self.queues_in_use() < 2).then(|| "the device has one transmit queue".to_owned())
    }

    fn queues(&self) -> Vec<Plan> {
        let processors = self.facts.processors.unwrap_or(1);
        let channels = |count: u32| vec![format!("ethtool -L {} combined {count}", self.device)];
        let most = self.facts.channels.map(|channels| channels.max);
        let no_channels = |count: u32| match most {
            None => Some("the driver does not report its channels".to_owned()),
            Some(most) if most < count => Some(format!("the device has at most {most} channels")),
            Some(_) => None,
        };
        let each = Plan {
            values: vec![
                ("host.nic.transmit_queues", number(processors)),
                ("host.nic.receive_queues", number(processors)),
            ],
            why_not: no_channels(processors),
            ..self.plan("queue-per-processor", "a queue for each processor", channels(processors))
        };
        vec![
            Plan {
                why_not: self.one_queue(),
                ..self.plan("xps", "each processor has queues and their interrupts of its own", self.steer())
            },
            Plan {
                why_not: self.one_queue().or_else(|| no_channels(1)),
                ..self.plan("one-queue", "a single queue", channels(1))
            },
            each,
        ]
    }

    /// The commands that give queue `q` to processor `q` modulo the processors.
    fn steer(&self) -> Vec<String> {
        let processors = self.facts.processors.unwrap_or(1).max(1);
        let mut masks = String::new();
        for queue in 0..self.queues_in_use().min(processors.max(1)) {
            // Words of 32 bits, the highest first (Documentation/networking/scaling.rst).
            let cpu = queue % processors;
            let zeros = ",00000000".repeat(cpu as usize / 32);
            let _ = write!(masks, " {queue}:{:x}{zeros}", 1_u32 << (cpu % 32));
        }
        let file = format!("/sys/class/net/{}/queues/tx-${{q%%:*}}/xps_cpus", self.device);
        vec![
            format!("for q in{masks}; do echo ${{q#*:}} > {file}; done"),
            "echo PROCESSOR > /proc/irq/NUMBER/smp_affinity_list, for the interrupts of each queue"
                .to_owned(),
        ]
    }

    fn titan(&self) -> Vec<Plan> {
        let device = self.device;
        let attach = |parts: &str| format!("weft titan attach {device} --parts {parts}");
        let actuate = format!("weft titan actuate {device}");
        let weights = match self.facts.queue_weights {
            Some(true) => None,
            Some(false) => Some("the driver has no weights of queues (net-shaper)".to_owned()),
            None => Some("it is unknown whether the driver has weights of queues".to_owned()),
        };
        let queues = || self.one_queue();
        let one = |name, change, commands, why_not: Option<String>| Plan {
            why_not: queues().or(why_not),
            ..self.plan(name, change, commands)
        };
        let with_qdisc = [self.each_queue("fq_codel"), vec![attach("dqa")]].concat();
        vec![
            one("dqa", "flows go to the queue with the fewest", vec![attach("dqa")], None),
            one(
                "dqa-weights",
                "dqa, and queues have the weights of their flows",
                vec![attach("dqa,dqwa"), actuate.clone()],
                weights,
            ),
            one(
                "dqa-segments",
                "dqa, and segments of 16 KiB while flows share a queue",
                vec![attach("dqa,dsos"), actuate],
                None,
            ),
            one("fq_codel-dqa", "fq_codel and dqa", with_qdisc, self.lacks("fq_codel")),
        ]
    }

    /// Candidates that nothing here can judge.
    fn unmodelled(&self) -> Vec<Plan> {
        let no_model = |reason: &str| Some(reason.to_owned());
        vec![
            Plan {
                why_not: no_model("the simulator has no pacing by fq"),
                ..self.plan("fq", "fair queueing with pacing at each queue", self.each_queue("fq"))
            },
            Plan {
                why_not: no_model(
                    "no command sets it: a driver batches register writes or does not (netdev_xmit_more)",
                ),
                ..self.plan("doorbells", "register writes in batches", Vec::new())
            },
        ]
    }
}
